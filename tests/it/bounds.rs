//! Compares the documented table of bounds with the sources: every map, set, queue or channel of a listener has a row.
//!
//! `docs/budgets.md` lists everything that a client can make a node store or do. Each field of a collection type in
//! the rooms that serve clients has a marker, `// bound: NAME`, which names its row. Two rows cover many fields:
//! `request` for data of a single request, `state` for data as large as the replicated state.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Rooms with memory that a client can fill.
const ROOMS: [&str; 22] = [
    "address",
    "api",
    "brief_places",
    "budget",
    "compat",
    "compression",
    "connections",
    "console",
    "contracts",
    "controllers",
    "grpc",
    "keyring",
    "log_once",
    "operations",
    "reads",
    "server",
    "sso",
    "subscribers",
    "traces",
    "watch",
    "webhooks",
    "xds",
];

/// Folders of these rooms.
const PROGRAM: [&str; 2] = ["src", "crates/validate/src"];

/// Types of fields that grow.
const COLLECTIONS: [&str; 15] = [
    "HashMap<",
    "HashSet<",
    "BTreeMap<",
    "BTreeSet<",
    "VecDeque<",
    "BinaryHeap<",
    "OrdMap<",
    "OrdSet<",
    "Slab<",
    "JoinSet<",
    "FuturesUnordered<",
    "Cache<",
    "mpsc::Sender<",
    "Mutex<Vec<",
    "RwLock<Vec<",
];

/// Calls that make a queue.
const CHANNELS: [&str; 3] = ["mpsc::channel(", "mpsc::channel::<", "unbounded_channel("];

const MARKER: &str = "// bound: ";
const HEADING: &str = "### Everything that a client can make a node keep or do";

/// A row of the table: its name, and the names of the tests that hold it.
struct Row {
    name: String,
    tests: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut files, mut open) = (Vec::new(), vec![root().join(folder)]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(path.read_dir().expect("a folder can be listed").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            files.push((path.strip_prefix(root()).expect("below the root").to_owned(), text));
        }
    }
    files.sort();
    files
}

fn is_of_a_door(path: &Path) -> bool {
    let is_production = path.iter().all(|part| {
        let part = part.to_string_lossy();
        !["test", "golden", "fuzzing"].iter().any(|word| part.contains(word))
    });
    let inside = PROGRAM.iter().find_map(|folder| path.strip_prefix(folder).ok());
    let room = inside.and_then(|inside| inside.iter().next()).map(|first| Path::new(first).with_extension(""));
    is_production && room.is_some_and(|room| ROOMS.iter().any(|one| Path::new(one) == room))
}

fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// Lines of a source that declare something that grows, by number from 0.
fn growing(text: &str) -> Vec<usize> {
    let (mut found, mut is_inside) = (Vec::new(), false);
    let production = text.lines().take_while(|line| !line.starts_with("mod tests"));
    for (number, line) in production.enumerate() {
        let code = code(line);
        let is_item = |word: &str| !line.starts_with([' ', '}']) && code.split(['(', ' ']).any(|one| one == word);
        let is_struct = is_item("struct");
        let is_declared = is_inside || is_struct || is_item("static");
        let grows = COLLECTIONS.iter().any(|kind| code.contains(kind));
        if is_declared && grows || CHANNELS.iter().any(|call| code.contains(call)) {
            found.push(number);
        }
        is_inside = if is_struct { line.trim_end().ends_with('{') } else { is_inside && !line.starts_with('}') };
    }
    found
}

/// The name that the marker of a line gives: at its end, or in the comments and attributes above it.
fn marked<'a>(lines: &[&'a str], number: usize) -> Option<&'a str> {
    let name = |line: &'a str| line.split_once(MARKER).map(|(_, name)| name.trim());
    let above = lines[..number].iter().rev().take_while(|line| line.trim_start().starts_with(['/', '#']));
    name(lines[number]).or_else(|| above.copied().find_map(name))
}

fn table() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/budgets.md")).expect("the page can be read");
    let (_, section) = text.split_once(HEADING).expect("the page has the section");
    let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 6, "name, kept, bound, payer, beyond it, test: {line}");
        let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let name = words(cells[0]).pop().unwrap_or_else(|| panic!("a name in code: {line}"));
        Row { name, tests: words(cells[5]) }
    });
    rows.collect()
}

#[test]
fn whatever_grows_at_a_door_has_a_row() {
    let rows: BTreeSet<_> = table().into_iter().map(|row| row.name).collect();
    let mut broken = Vec::new();
    let program = PROGRAM.into_iter().flat_map(sources);
    for (path, text) in program.filter(|(path, _)| is_of_a_door(path)) {
        let lines: Vec<_> = text.lines().collect();
        for number in growing(&text) {
            let place = format!("{}:{}", path.display(), number + 1);
            match marked(&lines, number) {
                None => broken.push(format!("{place}: no `{MARKER}NAME`: {}", lines[number].trim())),
                Some(name) if !rows.contains(name) => broken.push(format!("{place}: {name} has no row")),
                Some(_) => {}
            }
        }
    }
    assert!(broken.is_empty(), "not in the table of docs/budgets.md:\n{}", broken.join("\n"));
}

#[test]
fn a_row_names_tests_that_exist() {
    let texts: Vec<_> = ["src", "crates", "tests"].into_iter().flat_map(sources).map(|(_, text)| text).collect();
    let is_there = |test: &str| texts.iter().any(|text| text.contains(&format!("fn {test}(")));
    let mut broken = Vec::new();
    for row in table() {
        if row.tests.is_empty() {
            broken.push(format!("{}: no test", row.name));
        }
        broken.extend(row.tests.iter().filter(|test| !is_there(test)).map(|test| format!("{}: {test}", row.name)));
    }
    assert!(broken.is_empty(), "tests that are not there:\n{}", broken.join("\n"));
}

#[test]
fn the_scan_finds_fields_statics_and_channels() {
    let text = "struct One {\n    a: u8,\n    // bound: some\n    b: HashMap<u8, u8>,\n}\nfn f() {\n    let c: \
                HashMap<u8, u8>;\n    mpsc::channel(1); // bound: other\n}\nstatic D: Mutex<Vec<u8>> = x;\n\
                pub struct E(VecDeque<u8>);\nmod tests {\nstruct F(HashSet<u8>);\n";
    let lines: Vec<_> = text.lines().collect();
    let found: Vec<_> = growing(text).into_iter().map(|number| (number, marked(&lines, number))).collect();
    assert_eq!(found, [(3, Some("some")), (7, Some("other")), (9, None), (10, None)]);
}
