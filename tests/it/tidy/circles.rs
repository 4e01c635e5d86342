//! Circles of files within a room: files that import each other, directly or through others.
//!
//! An import is a path that begins with `crate::`, `super::` or `self::`. A name that a folder re-exports counts as an
//! import of the file that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{code, crate_of, is_test, program_sources, room_of};

/// Number of files in circles of each room. A number only goes down; a room without one has no circle.
const FILES_IN_CIRCLES_MAX: &[(&str, usize)] = &[
    ("catalog", 13),
    ("contracts", 2),
    ("controllers", 2),
    ("model", 17),
    ("offline", 2),
    ("operations", 2),
    ("peer", 10),
    ("raft", 4),
    ("reads", 2),
    ("store", 12),
    ("subscribers", 6),
    ("tls", 3),
    ("traces", 3),
];

/// Begins of re-exports.
const EXPORTS: [&str; 3] = ["pub use ", "pub(super) use ", "pub(crate) use "];

/// A module by its path from the root of the crate.
type Module = Vec<String>;

struct Source {
    path: PathBuf,
    text: String,
    module: Module,
    /// Names that the file re-exports, with the paths that they come from.
    exports: BTreeMap<String, Module>,
}

/// The module of a file below `src` of its crate.
fn module_of(path: &Path) -> Module {
    let inside = path.with_extension("");
    let parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
    let mut parts: Module = parts.skip_while(|part| part != "src").skip(1).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

/// The text with the paths that its crate calls by other names: the crate itself by its room, and other crates.
fn with_real_paths(path: &Path, text: &str) -> String {
    let Some(own) = room_of(path).filter(|room| crate_of(room).is_some()) else { return text.to_owned() };
    let text = text.replace(&format!("crate::{own}::"), "crate::");
    text.replace("crate::model::", "thuban_model::").replace("crate::format::", "thuban_base::")
}

/// Splits a list at its commas, but not within braces.
fn parts_of_list(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

/// The paths of an import, with its braces resolved and without new names.
fn expand(prefix: &str, import: &str) -> Vec<String> {
    let import = import.trim();
    let Some(open) = import.find('{') else {
        let path = import.split(" as ").next().unwrap_or_default().trim();
        return if path.is_empty() { Vec::new() } else { vec![format!("{prefix}{path}")] };
    };
    let close = import.rfind('}').unwrap_or(import.len());
    let prefix = format!("{prefix}{}", &import[..open]);
    parts_of_list(&import[open + 1..close]).into_iter().flat_map(|part| expand(&prefix, part)).collect()
}

/// The text of a path from its begin on: names, `::`, and a list in braces at its end.
fn path_at(text: &str) -> &str {
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let end = text.find(|letter| !is_path(letter)).unwrap_or(text.len());
    if !text[..end].ends_with("::") || !text[end..].starts_with('{') {
        return text[..end].trim_end_matches(':');
    }
    let mut depth = 0;
    for (at, letter) in text[end..].char_indices() {
        depth += match letter {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return &text[..=end + at];
        }
    }
    text
}

/// All paths of a text that begin at the crate or near the file.
fn paths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for begin in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(begin) {
            let before = &text[..at];
            let is_inner = before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':');
            // What may see an item is no import.
            if !is_inner && !before.ends_with("(in ") {
                found.extend(expand("", path_at(&text[at..])));
            }
        }
    }
    found
}

/// A path from the root of the crate.
fn absolute(module: &[String], path: &str) -> Module {
    let mut whole = module.to_vec();
    for (at, part) in path.split("::").enumerate() {
        match part {
            "crate" if at == 0 => whole.clear(),
            "self" => {}
            "super" => drop(whole.pop()),
            name => whole.push(name.to_owned()),
        }
    }
    whole
}

impl Source {
    fn new(path: PathBuf, text: &str) -> Source {
        let lines = text.lines().take_while(|line| !["mod tests {", "mod golden {"].contains(line));
        let text = lines.map(code).collect::<Vec<_>>().join("\n");
        let (module, mut exports, mut rest) = (module_of(&path), BTreeMap::new(), String::new());
        for statement in text.split_inclusive(';') {
            let Some((before, import)) = EXPORTS.iter().find_map(|word| statement.split_once(word)) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(before);
            for path in expand("", import.trim_end_matches(';')) {
                let whole = absolute(&module, &path);
                exports.insert(whole.last().cloned().unwrap_or_default(), whole);
            }
        }
        Source { path, text: rest, module, exports }
    }
}

/// The file that a path from the root leads to; the longest part of it that is a module, beyond re-exports.
fn file_of(modules: &BTreeMap<Module, &Source>, path: &[String], depth: usize) -> Option<Module> {
    let mut module = Module::new();
    for name in path {
        let inner: Module = module.iter().chain([name]).cloned().collect();
        if modules.contains_key(&inner) {
            module = inner;
            continue;
        }
        let exported = modules.get(&module).and_then(|source| source.exports.get(name));
        if let Some(exported) = exported.filter(|exported| depth < 6 && **exported != inner) {
            return file_of(modules, exported, depth + 1);
        }
        break;
    }
    modules.contains_key(&module).then_some(module)
}

/// The files that each file leads to, directly or through others.
fn reached(imports: &BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    seen
}

#[test]
fn circles_of_files_within_a_room_do_not_grow() {
    let mut rooms = BTreeMap::<String, Vec<Source>>::new();
    for (path, text) in program_sources() {
        if let Some(room) = room_of(&path).filter(|_| !is_test(&path)) {
            let text = with_real_paths(&path, &text);
            rooms.entry(room).or_default().push(Source::new(path, &text));
        }
    }
    let mut broken = Vec::new();
    for (room, files) in &rooms {
        let modules: BTreeMap<Module, &Source> = files.iter().map(|source| (source.module.clone(), source)).collect();
        let mut imports = BTreeMap::<Module, BTreeSet<Module>>::new();
        for source in files {
            let named = paths(&source.text).into_iter().map(|path| absolute(&source.module, &path));
            let targets = named.filter_map(|path| file_of(&modules, &path, 0)).filter(|to| *to != source.module);
            imports.insert(source.module.clone(), targets.collect());
        }
        let in_circle = |source: &&Source| reached(&imports, &source.module).contains(&source.module);
        let circled: Vec<_> = files.iter().filter(in_circle).map(|source| source.path.display().to_string()).collect();
        let allowed = FILES_IN_CIRCLES_MAX.iter().find(|(name, _)| name == room).map_or(0, |(_, files)| *files);
        if circled.len() > allowed {
            broken.push(format!("{room}: {} in circles, {allowed} allowed: {}", circled.len(), circled.join(" ")));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
