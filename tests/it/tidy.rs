//! What the sources promise about themselves, read from the sources: layers, sizes, module docs.
//!
//! A rule that only reviewers know is broken by the first busy week.

use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 450;

/// A folder or file below `src`, and what it must not name.
///
/// The catalog and its model are a pure function of the log: no I/O, no clock, no chance, no parser of others. The store
/// keeps bytes and does not know what they mean; what it shares with consensus stands below both. The two public surfaces do not
/// know each other, and what may be done knows neither.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "model",
        &[
            "tokio",
            "axum::",
            "openraft",
            "rocksdb",
            "reqwest",
            "SystemTime",
            "Instant::now",
            "rand::",
            "std::fs",
            "well_formed",
        ],
    ),
    (
        "catalog",
        &[
            "tokio",
            "axum::",
            "openraft",
            "format::types",
            "format::codec",
            "rocksdb",
            "reqwest",
            "SystemTime",
            "Instant::now",
            "rand::",
            "std::fs",
            "well_formed",
        ],
    ),
    ("format", &["tokio", "axum::", "rocksdb", "crate::model", "crate::catalog", "crate::store", "crate::raft"]),
    ("store", &["crate::model", "crate::catalog", "crate::raft", "axum::"]),
    ("operations", &["axum::", "crate::api", "crate::compat", "crate::store", "rocksdb"]),
    ("api", &["crate::compat", "crate::console", "crate::store", "rocksdb"]),
    ("console", &["crate::compat", "crate::store", "rocksdb"]),
    ("compat", &["crate::api", "crate::store", "rocksdb"]),
    ("webhooks", &["crate::api", "crate::compat", "crate::store", "crate::server", "openraft", "axum::", "rocksdb"]),
    ("offline", &["crate::api", "crate::compat", "crate::cli", "axum::", "openraft", "rocksdb", "reqwest"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder of the project, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut files, mut open) = (Vec::new(), vec![root().join(folder)]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder can be listed");
            open.extend(entries.map(|entry| entry.expect("an entry can be read").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            files.push((path.strip_prefix(root()).expect("the path is below the root").to_owned(), text));
        }
    }
    files.sort();
    files
}

/// A file that holds nothing but tests, by its name or its folder's.
fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part.to_string_lossy().contains("test"))
}

/// The code of a line, comments cut off.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

#[test]
fn layers_do_not_reach_across() {
    let mut broken = Vec::new();
    for (path, text) in sources("src") {
        let inside = path.strip_prefix("src").expect("the path is below src");
        for (_, forbidden) in
            LAYERS.iter().filter(|(layer, _)| inside.starts_with(layer) || inside == Path::new(&format!("{layer}.rs")))
        {
            for (number, line) in text.lines().enumerate() {
                // Tests may use what they like; beside code they close the file.
                if is_test(inside) || line.starts_with("mod tests") {
                    break;
                }
                let named = forbidden.iter().filter(|word| code(line).contains(**word));
                broken.extend(named.map(|word| format!("{}:{}: {word}", path.display(), number + 1)));
            }
        }
    }
    assert!(broken.is_empty(), "layers are crossed:\n{}", broken.join("\n"));
}

#[test]
fn files_say_what_they_are_for_and_stay_short() {
    let mut broken = Vec::new();
    for (path, text) in ["src", "tests", "benches", "fuzz"].into_iter().flat_map(sources) {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            broken.push(format!("{}: {lines} lines, over {FILE_LINES_MAX}", path.display()));
        }
        if !is_test(&path) && !text.starts_with("//!") {
            broken.push(format!("{}: does not open with what it is for", path.display()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn nothing_is_left_to_do_and_no_test_is_switched_off() {
    let marks =
        [["to", "do!("].concat(), ["unimple", "mented!("].concat(), ["#[ig", "nore"].concat(), ["FIX", "ME"].concat()];
    let mut broken = Vec::new();
    for (path, text) in ["src", "tests", "benches", "fuzz"].into_iter().flat_map(sources) {
        for (number, line) in text.lines().enumerate() {
            let found = marks.iter().filter(|mark| line.contains(mark.as_str()));
            broken.extend(found.map(|mark| format!("{}:{}: {mark}", path.display(), number + 1)));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
