//! Promises of the sources about themselves, read from the sources: layers, sizes, comments, names.
//!
//! A rule that only reviewers know is broken by the first busy week.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

mod circles;
mod crates;
mod words;

const FILE_LINES_MAX: usize = 450;
const LINE_CHARS_MAX: usize = 120;
/// Maximum number of type names that three or more files declare. It only decreases.
const NAMES_DECLARED_THRICE_MAX: usize = 3;

/// The crates below the package `thuban`, from the ground up, with their rooms. A crate of one room is that room.
const CRATES: &[(&str, &[&str])] = &[
    ("base", &["threads", "pack", "level", "sealed"]),
    ("model", &["model"]),
    ("validate", &["well_formed", "contracts", "bundle"]),
    ("documents", &["documents"]),
    ("polaris", &["polaris"]),
    ("catalog", &["catalog"]),
    ("book", &["book"]),
    ("tasks", &["tasks"]),
    ("oidc", &["oidc"]),
    ("outbound", &["outbound"]),
    ("ctl", &["ctl"]),
];

/// The rooms of the house, from the ground up: a room names those before it and none after it. Map and order are the
/// same as in `src/lib.rs`. Between crates, which come first, the compiler holds the order.
const ROOMS: &[&str] = &[
    "threads",
    "pack",
    "level",
    "sealed",
    "model",
    "well_formed",
    "contracts",
    "bundle",
    "documents",
    "polaris",
    "catalog",
    "book",
    "tasks",
    "oidc",
    "outbound",
    "ctl",
    "proto",
    "uptime",
    "origin",
    "brief_places",
    "memory",
    "format",
    "descriptors",
    "log_once",
    "hosts",
    "sentences",
    "address",
    "metrics",
    "logging",
    "budget",
    "compression",
    "data_key",
    "tls",
    "traces",
    "openapi",
    "connections",
    "request_id",
    "store",
    "watch",
    "subscribers",
    "keyring",
    "sso",
    "peer",
    "raft",
    "controllers",
    "webhooks",
    "offline",
    "config",
    "operations",
    "reads",
    "xds",
    "compat",
    "api",
    "grpc",
    "console",
    "server",
    "cli",
];

/// The parts of `src/api`, from the ground up: a part names those of the rows before its own, and no other one.
const API: &[&[&str]] = &[
    &["view"],
    &["http"],
    &["releases"],
    &["naming", "rules", "config", "auth", "admin", "discover"],
    &["approval"],
    &["loading", "routes"],
    &["mod"],
];

/// Crates of others that only some rooms name, and those rooms.
const FOREIGN_CRATES: &[(&str, &[&str])] = &[
    ("openraft::", &["format", "store", "peer", "raft"]),
    ("rocksdb::", &["store"]),
    ("jsonschema::", &["contracts"]),
];

/// Names that a room must not use although they are below it, or belong to no room.
///
/// The catalog and its model are a pure function of the log: no I/O, clock or randomness. The store handles bytes
/// without their meaning; what it shares with consensus is below both. No surface uses another one, and operations use
/// none.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("model", &["SystemTime", "Instant::now", "rand::", "std::fs"]),
    ("catalog", &["SystemTime", "Instant::now", "rand::", "std::fs"]),
    ("format", &["tokio", "axum::"]),
    ("store", &["crate::model", "crate::catalog", "thuban_model", "thuban_catalog", "axum::"]),
    ("peer", &["axum::"]),
    ("reads", &["axum::", "http::", "hyper", "crate::store"]),
    ("xds", &["axum::", "http::", "hyper", "tonic", "crate::store"]),
    ("grpc", &["crate::compat", "crate::store"]),
    ("operations", &["axum::", "crate::store"]),
    ("api", &["crate::compat", "crate::store"]),
    ("console", &["crate::compat", "crate::store"]),
    ("compat", &["crate::raft", "crate::store"]),
    ("controllers", &["axum::", "reqwest"]),
    ("webhooks", &["crate::store", "axum::"]),
    ("offline", &["axum::", "reqwest"]),
];

/// Names of files and folders, without `.rs`, that hold nothing but tests or entries for fuzzing; `scripts/counts` has
/// the same.
const TEST_PARTS: [&str; 5] = ["tests", "testing", "test_seed", "golden", "fuzzing"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder of the project, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    files_below(folder, "rs")
}

/// Every file of a kind below a folder of the project, with its text.
fn files_below(folder: &str, kind: &str) -> Vec<(PathBuf, String)> {
    let (mut files, mut open) = (Vec::new(), vec![root().join(folder)]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder can be listed");
            open.extend(entries.map(|entry| entry.expect("an entry can be read").path()));
        } else if path.extension().is_some_and(|extension| extension == kind) {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            files.push((path.strip_prefix(root()).expect("the path is below the root").to_owned(), text));
        }
    }
    files.sort();
    files
}

/// A file that holds nothing but tests or entries for fuzzing, by its name or its folder's.
fn is_test(path: &Path) -> bool {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    parts.any(|part| TEST_PARTS.contains(&part.strip_suffix(".rs").unwrap_or(part)))
}

/// The code of a line, comments cut off.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// Every Rust file of the program: of the package `thuban` and of the crates below it.
fn program_sources() -> Vec<(PathBuf, String)> {
    ["src", "crates"].into_iter().flat_map(sources).collect()
}

/// Returns the room of a file of the program; `None` for the files above all rooms of their crate.
fn room_of(path: &Path) -> Option<String> {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let first = match parts.next()? {
        "src" => parts.next()?,
        "crates" => {
            let name = parts.next()?;
            let inside = parts.nth(1)?;
            if ROOMS.contains(&name) { name } else { inside }
        }
        _ => return None,
    };
    let room = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main", "fuzzing"].contains(&room)).then(|| room.to_owned())
}

/// Returns the crate of a room; `None` for the package `thuban`.
fn crate_of(room: &str) -> Option<&'static str> {
    CRATES.iter().find(|(_, rooms)| rooms.contains(&room)).map(|(name, _)| *name)
}

/// Returns the lines of production code of the program, without comments, each with its room and position. Tests may
/// use any name; those in a file of code are at its end.
fn production_lines() -> Vec<(String, String, String)> {
    let mut lines = Vec::new();
    for (path, text) in program_sources() {
        let Some(room) = room_of(&path).filter(|_| !is_test(&path)) else { continue };
        let text = text.lines().take_while(|line| !["mod tests {", "mod golden {"].contains(line));
        let placed = text
            .enumerate()
            .map(|(number, line)| (room.clone(), format!("{}:{}", path.display(), number + 1), code(line).to_owned()));
        lines.extend(placed);
    }
    lines
}

/// The names after each `path` of a line, which ends with `::`.
fn named_after<'a>(path: &'a str, line: &'a str) -> impl Iterator<Item = &'a str> {
    let rest = line.split(path).skip(1);
    rest.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

#[test]
fn rooms_name_only_those_below_them() {
    let floor = |room: &str| ROOMS.iter().position(|one| *one == room);
    let mut broken = Vec::new();
    for (room, place, line) in production_lines() {
        let Some(own) = floor(&room) else {
            broken.push(format!("{place}: {room} is missing in the list of rooms"));
            continue;
        };
        if line.contains("crate::{") {
            broken.push(format!("{place}: one import a room"));
        }
        for named in named_after("crate::", &line) {
            let is_own = crate_of(named) == crate_of(&room);
            if is_own && floor(named).is_some_and(|floor| floor > own) {
                broken.push(format!("{place}: {room} is below {named}"));
            }
        }
    }
    assert!(broken.is_empty(), "names point up:\n{}", broken.join("\n"));
}

#[test]
fn parts_of_the_api_name_only_those_below_them() {
    let floor = |part: &str| API.iter().position(|row| row.contains(&part));
    let mut broken = Vec::new();
    for (_, place, line) in production_lines().into_iter().filter(|(room, ..)| room == "api") {
        let file = place.strip_prefix("src/api/").unwrap_or_default();
        let part = file.split(['/', '.']).next().unwrap_or_default();
        let Some(own) = floor(part) else {
            broken.push(format!("{place}: {part} is missing in the list of parts"));
            continue;
        };
        if line.contains("crate::api::{") {
            broken.push(format!("{place}: one import a part"));
        }
        let is_child = !file.contains('/') || file.split('/').nth(1).is_some_and(|name| name.starts_with("mod.rs:"));
        let beside = named_after("super::", &line).filter(|_| is_child);
        for named in named_after("crate::api::", &line).chain(beside) {
            if named != part && floor(named).is_some_and(|floor| floor >= own) {
                broken.push(format!("{place}: {part} is not above {named}"));
            }
        }
    }
    assert!(broken.is_empty(), "names of parts that are not below:\n{}", broken.join("\n"));
}

/// Reports whether a line has the word. A crate, a word that `::` follows, begins a path.
fn names(line: &str, word: &str) -> bool {
    let begins_path = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    line.match_indices(word).any(|(at, _)| !word.ends_with("::") || begins_path(at))
}

#[test]
fn crates_and_neighbours_are_named_where_they_belong() {
    let mut broken = Vec::new();
    for (room, place, line) in production_lines() {
        let of_crates =
            FOREIGN_CRATES.iter().filter(|(_, rooms)| !rooms.contains(&room.as_str())).map(|(name, _)| *name);
        let forbidden = FORBIDDEN.iter().filter(|(one, _)| *one == room).flat_map(|(_, words)| words.iter().copied());
        let named = of_crates.chain(forbidden).filter(|word| names(&line, word));
        broken.extend(named.map(|word| format!("{place}: {word}")));
    }
    assert!(broken.is_empty(), "named where it does not belong:\n{}", broken.join("\n"));
}

/// A property test that draws by chance fails now and then, on a fresh clone too.
#[test]
fn property_tests_draw_from_the_seed_of_the_repository() {
    let mut broken = Vec::new();
    for (path, text) in program_sources().into_iter().filter(|(path, _)| !path.ends_with("test_seed.rs")) {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let is_seeded = lines.get(at + 1).is_some_and(|next| next.contains("test_seed::cases("));
            if (*line == "proptest! {" && !is_seeded) || line.contains("ProptestConfig") || line.contains("TestRunner")
            {
                broken.push(format!("{}:{}", path.display(), at + 1));
            }
        }
    }
    assert!(broken.is_empty(), "no seed of test_seed: {broken:?}");
}

/// The map shows each room, from the top down as the list has them from the ground up.
#[test]
fn the_map_shows_every_room() {
    let map = std::fs::read_to_string(root().join("src/lib.rs")).expect("the map can be read");
    let drawn: Vec<_> =
        map.lines().skip_while(|line| *line != "//! ```text").take_while(|line| *line != "//! ```").collect();
    let words: Vec<_> = drawn.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    let missing: Vec<_> = ROOMS.iter().filter(|room| !words.contains(room)).collect();
    assert!(missing.is_empty(), "not on the map of src/lib.rs: {missing:?}");
}

#[test]
fn files_say_what_they_are_for_and_stay_short() {
    let mut broken = Vec::new();
    for (path, text) in ["src", "crates", "tests", "benches", "fuzz"].into_iter().flat_map(sources) {
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
fn lines_stay_within_their_columns() {
    let mut broken = Vec::new();
    for (path, text) in ["src", "crates", "tests", "benches"].into_iter().flat_map(sources) {
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_CHARS_MAX {
                broken.push(format!("{}:{}: {columns} columns, over {LINE_CHARS_MAX}", path.display(), number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The name of the type that a line declares.
fn declared_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let is_type = words.next().is_some_and(|word| ["struct", "enum", "trait", "type", "union"].contains(&word));
    let name = words.next().filter(|_| is_type)?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    // A name declared by a macro is listed where the macro is used.
    (!name.is_empty()).then_some(name)
}

#[test]
fn few_names_are_declared_in_many_files() {
    let mut homes = BTreeMap::<String, BTreeSet<String>>::new();
    for (_, place, line) in production_lines() {
        // An item of a trait or an implementation is named by its trait.
        let is_associated = line.starts_with(' ') && line.trim_start().starts_with("type ");
        if let Some(name) = declared_type(&line).filter(|_| !is_associated) {
            let file = place.split(':').next().unwrap_or_default().to_owned();
            homes.entry(name.to_owned()).or_default().insert(file);
        }
    }
    let many: Vec<_> = homes.iter().filter(|(_, files)| files.len() > 2).map(|(name, _)| name.as_str()).collect();
    let count = many.len();
    assert!(count <= NAMES_DECLARED_THRICE_MAX, "{count} names are declared in three files or more: {many:?}");
}

/// Words that begin a task or a thread, without what `crates/tasks` does about the end of one. A thread of the room
/// `threads` ends within its caller.
const BARE_BEGINNINGS: [&str; 3] = ["spawn(", "spawn_blocking", "thread::Builder"];

/// A task that is not supervised ends silently, and with it its work.
#[test]
fn tasks_and_threads_begin_where_their_end_is_noticed() {
    let watched = ["Inner::spawn(tasks::watched_as_needed(", "fn spawn<T>(", ".spawn()"];
    let mut broken = Vec::new();
    for (room, place, line) in production_lines().into_iter().filter(|(room, ..)| room != "tasks" && room != "threads")
    {
        let is_bare = BARE_BEGINNINGS.iter().any(|word| line.contains(word));
        if is_bare && !watched.iter().any(|form| line.contains(form)) {
            broken.push(format!("{place}: {room} begins it by itself: {}", line.trim()));
        }
    }
    assert!(broken.is_empty(), "not by thuban_tasks:\n{}", broken.join("\n"));
}

#[test]
fn nothing_is_left_to_do_and_no_test_is_switched_off() {
    let marks =
        [["to", "do!("].concat(), ["unimple", "mented!("].concat(), ["#[ig", "nore"].concat(), ["FIX", "ME"].concat()];
    let mut broken = Vec::new();
    for (path, text) in ["src", "crates", "tests", "benches", "fuzz"].into_iter().flat_map(sources) {
        for (number, line) in text.lines().enumerate() {
            let found = marks.iter().filter(|mark| line.contains(mark.as_str()));
            broken.extend(found.map(|mark| format!("{}:{}: {mark}", path.display(), number + 1)));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
