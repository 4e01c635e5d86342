//! Names in the pages exist: links, series, alarms, codes, commands, flags, settings, routes, tests and files.
//!
//! The tables of the book that repeat one of the code's are compared row by row, so that neither changes alone.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command as Plain;

use clap::{Command, CommandFactory};
use regex::Regex;
use thuban::cli::Cli;
use thuban::model::code::Code;
use thuban::model::settings::Settings;

use super::{pages, project, text};
use crate::harness::Cluster;

/// Code spans outside of blocks, with their page.
fn spans() -> Vec<(&'static str, String)> {
    let span = expression("`([^`\n]+)`");
    let mut all = Vec::new();
    for (file, text) in pages() {
        let prose: String = text.split("```").step_by(2).collect();
        all.extend(span.captures_iter(&prose).map(|found| (file, found[1].to_owned())));
    }
    all
}

fn expression(text: &str) -> Regex {
    Regex::new(text).expect("an expression")
}

/// The cells of the rows of a table, which begins with this head.
fn rows(file: &str, head: &str) -> Vec<Vec<String>> {
    let text = text(file);
    let (_, table) = text.split_once(&format!("\n{head}\n")).unwrap_or_else(|| panic!("{file} has no table {head}"));
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The rows of all tables of a page that have this head.
fn all_rows(file: &str, head: &str) -> Vec<Vec<String>> {
    let (text, head) = (text(file), format!("\n{head}\n"));
    let tables = text.split(&head).skip(1);
    let rows = tables.flat_map(|table| table.lines().skip(1).take_while(|line| line.starts_with('|')));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// As GitHub makes an anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = |character: char| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        other => other.is_alphanumeric().then_some(other),
    };
    heading.trim().to_lowercase().chars().filter_map(kept).collect()
}

#[test]
fn links_lead_somewhere() {
    let link = expression(r##"(?:\]\(|src="|srcset=")([^)"#\s]*)(?:#([^)"\s]*))?[)"]"##);
    let mut faults = Vec::new();
    for (file, page) in pages() {
        for found in link.captures_iter(&page).filter(|found| !found[1].starts_with("http")) {
            let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
            let target = match &found[1] {
                "" => file.to_owned(),
                path => [folder, path].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/"),
            };
            if !project(&target).exists() {
                faults.push(format!("{file}: {target} is not there"));
            } else if let Some(wanted) = found.get(2) {
                let text = text(&target);
                let headings = text.lines().filter(|line| line.starts_with('#'));
                if !headings.map(|line| anchor(line.trim_start_matches('#'))).any(|one| one == wanted.as_str()) {
                    faults.push(format!("{file}: {target} has no heading {}", wanted.as_str()));
                }
            }
        }
    }
    assert_none(&faults);
}

/// The rows of the table in `src/metrics.rs`: name, kind, labels, help.
fn series() -> Vec<[String; 4]> {
    let row = expression(r#"/// ([^\n]*)\n\s*\w+: (\w+) "(thuban_\w+)"(?: \[([^\]]*)\])?"#);
    let kind = |word: &str| word.trim_start_matches("Int").trim_end_matches("Vec").to_lowercase();
    let labels = |words: Option<regex::Match<'_>>| words.map_or("", |words| words.as_str()).replace('"', "");
    let source = text("src/metrics.rs");
    row.captures_iter(&source)
        .map(|found| [format!("`{}`", &found[3]), kind(&found[2]), labels(found.get(4)), found[1].to_owned()])
        .collect()
}

/// Key of the metadata of a client of xDS, which is spelled as a series is.
const NODE_TOKEN: &str = "thuban_token";

/// The page begins with what to alert on, as the rules for Prometheus do it.
#[test]
fn the_page_of_series_opens_with_five_alerts() {
    let alerts = text("cluster/alerts.yml");
    let five = rows("docs/metrics.md", "| Alert on | Means |");
    assert_eq!(five.len(), 5, "{five:?}");
    for row in five {
        let query = row[0].trim_matches('`');
        assert!(alerts.contains(&format!("expr: {query}\n")), "{query} is no alert");
    }
}

#[test]
fn the_page_of_series_is_their_table() {
    let series: Vec<_> = series().into_iter().map(Vec::from).collect();
    assert!(series.len() > 50, "{series:?}");
    // The page has them by question, each once.
    let (mut written, mut table) = (all_rows("docs/metrics.md", "| Series | Type | Labels | Help |"), series.clone());
    written.sort();
    table.sort();
    assert_eq!(written, table);
    let (name, known) = (expression(r"\bthuban_[a-z_]+"), series.iter().map(|row| row[0].trim_matches('`')));
    let known: BTreeSet<_> = known.chain([NODE_TOKEN]).collect();
    let mut faults = Vec::new();
    for (file, text) in pages() {
        for found in name.find_iter(&text) {
            let name =
                ["_bucket", "_count", "_sum"].iter().fold(found.as_str(), |name, end| name.trim_end_matches(end));
            if !known.contains(name) && !known.contains(found.as_str()) {
                faults.push(format!("{file}: {name} is no series"));
            }
        }
    }
    assert_none(&faults);
}

/// A node shows what the pages name: series without labels, which are always there, and paths of both surfaces.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_what_the_pages_name() {
    let cluster = Cluster::start(1).await;
    let (status, scraped) = cluster.api(1).health("/metrics").await.expect("an answer");
    assert_eq!(status, 200);
    for [name, kind, labels, _] in series() {
        let line = format!("# TYPE {} {kind}\n", name.trim_matches('`'));
        assert!(!labels.is_empty() || scraped.contains(&line), "no {line} in {scraped}");
    }
    let described = cluster.api(1).health("/openapi.json").await.expect("an answer").1;
    let described: serde_json::Value = serde_json::from_str(&described).expect("JSON");
    let paths: BTreeSet<_> = described["paths"].as_object().expect("paths").keys().map(String::as_str).collect();
    let path = expression(r"(?:/(?:naming|config|core|auth|admin)/v1|/v1)/[A-Za-z/{},]+[A-Za-z}]");
    let mut faults = Vec::new();
    for (file, text) in pages() {
        for found in path.find_iter(&text) {
            for one in spread(found.as_str()) {
                if !paths.iter().any(|path| is_of_path(path, &one)) {
                    faults.push(format!("{file}: there is no {one}"));
                }
            }
        }
    }
    assert_none(&faults);
}

/// True if a path in the text is this one of the description, in which `{name}` is a part of any name.
fn is_of_path(described: &str, named: &str) -> bool {
    let (described, named): (Vec<_>, Vec<_>) = (described.split('/').collect(), named.split('/').collect());
    let is_part = |(described, named): (&&str, &&str)| described == named || described.starts_with('{');
    described.len() == named.len() && described.iter().zip(&named).all(is_part)
}

/// `/a/{b,c}/d` for `/a/b/d` and `/a/c/d`.
fn spread(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (words, after))) => words.split(',').map(|word| format!("{before}{word}{after}")).collect(),
        None => vec![path.to_owned()],
    }
}

#[test]
fn every_alarm_has_its_section() {
    let alert = expression(r"- alert: (\w+)\n(?s:.*?)severity: (\w+)");
    let alarms = text("cluster/alerts.yml");
    let alarms: Vec<_> = alarms.split("\n\n").filter_map(|rule| alert.captures(rule)).collect();
    let alarms: Vec<_> = alarms.iter().map(|found| (found[1].to_owned(), found[2].to_owned())).collect();
    assert!(alarms.len() > 20, "{alarms:?}");
    let page = text("docs/alarms-cluster.md") + &text("docs/alarms-node.md");
    let heading = expression(r"(?m)^### (Thuban\w+)\n\n\*(\w+)\.\* .+");
    let told: Vec<_> = heading.captures_iter(&page).map(|found| (found[1].to_owned(), found[2].to_owned())).collect();
    assert_eq!(told, alarms, "alarms by name and severity: the page, and cluster/alerts.yml");
    let named = expression(r"\bThuban[A-Z]\w+");
    for (file, text) in pages() {
        for name in named.find_iter(&text) {
            assert!(alarms.iter().any(|(alarm, _)| alarm == name.as_str()), "{file}: {} is no alarm", name.as_str());
        }
    }
}

#[test]
fn codes_in_the_text_exist() {
    let number = expression(r"\b[2-5]\d{5}\b");
    for (file, text) in pages() {
        for found in number.find_iter(&text) {
            let code = found.as_str().parse().ok().and_then(Code::of_number);
            assert!(code.is_some(), "{file}: {} is no code", found.as_str());
        }
    }
}

/// Each command by the words that call it, with its long flags.
fn commands() -> BTreeMap<String, BTreeSet<String>> {
    fn walk(command: &Command, words: &str, all: &mut BTreeMap<String, BTreeSet<String>>) {
        let flags = command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned));
        all.insert(words.to_owned(), flags.collect());
        for one in command.get_subcommands() {
            walk(one, &format!("{words} {}", one.get_name()), all);
        }
    }
    let mut all = BTreeMap::new();
    walk(&Cli::command(), "thuban", &mut all);
    all
}

#[test]
fn commands_and_flags_in_the_text_exist() {
    let (commands, flag) = (commands(), expression(r"--([a-z][a-z-]+)"));
    let everywhere: BTreeSet<&String> = commands.values().flatten().collect();
    let mut faults = Vec::new();
    for (file, span) in spans() {
        let words: Vec<_> = span.split_whitespace().collect();
        let known = match words[0] {
            "thuban" if words.len() > 1 && !words[1].starts_with('-') => {
                let called = (2..=words.len()).map(|count| words[..count].join(" "));
                match called.take_while(|called| commands.contains_key(called)).last() {
                    Some(called) => commands[&called].iter().collect(),
                    None => {
                        faults.push(format!("{file}: {span}: no such command"));
                        continue;
                    }
                }
            }
            word if word == "thuban" || word.starts_with("--") => everywhere.clone(),
            _ => continue,
        };
        let is_known = |name: &str| ["help", "version"].contains(&name) || known.contains(&name.to_owned());
        let unknown = flag.captures_iter(&span).filter(|found| !is_known(&found[1]));
        faults.extend(unknown.map(|found| format!("{file}: {span}: no flag --{}", &found[1])));
    }
    assert_none(&faults);
}

#[test]
fn the_page_of_commands_is_complete() {
    let told = rows("docs/command-line.md", "| Command | Description |");
    let cli = Cli::command();
    let row = |command: &Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        vec![format!("`thuban {}`", command.get_name()), about]
    };
    assert_eq!(told, cli.get_subcommands().map(row).collect::<Vec<_>>());
}

#[test]
fn the_page_of_settings_is_complete() {
    let flag = expression(r"--([a-z-]+)");
    let told = rows("docs/settings.md", "| Flag | Default | Meaning |");
    let told =
        told.iter().flat_map(|row| flag.captures_iter(&row[0]).map(|found| found[1].to_owned()).collect::<Vec<_>>());
    assert_eq!(told.collect::<BTreeSet<_>>(), commands()["thuban serve"], "flags of thuban serve");
    let told = rows("docs/settings.md", "| Key | Default | Range | Meaning |");
    let told: BTreeSet<_> = told.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let all: BTreeSet<_> = Settings::TABLE.iter().map(|setting| setting.name.to_owned()).collect();
    assert_eq!(told, all);
    for setting in Settings::TABLE {
        let rows = rows("docs/settings.md", "| Key | Default | Range | Meaning |");
        let row = rows.iter().find(|row| row[0].trim_matches('`') == setting.name).expect("compared before");
        assert!(row[1].trim_matches('`').split(' ').next() == Some(&setting.shown_default()), "{row:?}");
        let words: Vec<_> = setting.words.iter().map(|word| format!("`{word}`")).collect();
        let numbers = [format!("{} to {}", setting.min, setting.max), format!("{} or {}", setting.min, setting.max)];
        let range = if words.is_empty() { numbers.to_vec() } else { vec![words.join(", ")] };
        assert!(range.contains(&row[2]), "{row:?}: {range:?}");
    }
}

/// scripts/clients writes both from one run.
#[test]
fn the_readme_names_the_clients_that_are_run() {
    let programs = text("tests/clients/programs");
    let table = text("docs/figures/clients.md");
    let mut faults = Vec::new();
    for row in programs.lines().filter(|line| !line.starts_with('#')) {
        let [_, program, _, library, version, _] = row.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{row}: six words")
        };
        // A library of the language itself.
        if program == "http" {
            continue;
        }
        if !table.contains(&format!("{library} {version}")) {
            faults.push(format!("docs/figures/clients.md: {library} {version}"));
        }
        for file in ["README.md", "README.zh.md"] {
            let page = text(file).replace('\n', " ");
            let listed = page.split_once("<!-- clients: ").and_then(|(_, rest)| rest.split_once("<!-- end -->"));
            let (listed, _) = listed.unwrap_or_else(|| panic!("{file}: no list of clients"));
            let versions = listed.split("; ").find(|one| one.contains(&format!("`{library}`"))).unwrap_or_default();
            if !versions.contains(version) {
                faults.push(format!("{file}: {library} {version}"));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn what_a_thing_takes_was_measured() {
    let is_of_today = |file: &&str| file.starts_with("docs/figures") && *file != "docs/figures/log.md";
    let measured: String = pages().filter(|(file, _)| is_of_today(file)).map(|(_, text)| text).collect();
    let (figure, script) = (expression(r"\d[\d.,]* (?:MiB|kB|bytes|µs)"), expression(r"scripts/[a-z-]+"));
    let mut faults = Vec::new();
    for row in rows("docs/capacity.md", "| Object | Cost | Measured by |") {
        let said: Vec<_> = figure.find_iter(&row[1]).chain(script.find(&row[2])).map(|found| found.as_str()).collect();
        let is_measured =
            |what: &str| expression(&format!(r"(?:^|[^\d.,]){}\b", regex::escape(what))).is_match(&measured);
        faults.extend(
            said.iter().filter(|what| !is_measured(what)).map(|what| format!("{}: not measured: {what}", row[0])),
        );
    }
    assert_none(&faults);
}

#[test]
fn variables_are_read_somewhere() {
    let named = expression(r"\bTHUBAN_[A-Z_]+\b");
    let mut known = BTreeSet::new();
    for command in [&Cli::command()].into_iter().flat_map(|cli| cli.get_subcommands().cloned().collect::<Vec<_>>()) {
        let of = |command: &Command| {
            let names = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str().map(str::to_owned));
            names.collect::<Vec<_>>()
        };
        known.extend(of(&command));
        known.extend(command.get_subcommands().flat_map(of));
    }
    // Scripts, benches and scenarios have settings of their own.
    for folder in ["scripts", "benches", "tests/it", "cluster"] {
        for entry in std::fs::read_dir(project(folder)).expect("a folder") {
            let text = std::fs::read_to_string(entry.expect("an entry").path()).unwrap_or_default();
            known.extend(named.find_iter(&text).map(|found| found.as_str().to_owned()));
        }
    }
    known.extend(named.find_iter(&text("crates/catalog/src/tests/golden.rs")).map(|found| found.as_str().to_owned()));
    known.extend(named.find_iter(&text("docker-compose.yml")).map(|found| found.as_str().to_owned()));
    for (file, text) in pages() {
        for found in named.find_iter(&text) {
            assert!(known.contains(found.as_str()), "{file}: nothing reads {}", found.as_str());
        }
    }
}

/// Folders that the path of a module may lead to: in the package, or in one of the crates, whose name may be the first
/// part of the path.
fn folders_of(path: &str) -> Vec<String> {
    let path = path.replace("::", "/");
    let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
    let crates =
        std::fs::read_dir(project("crates")).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let in_crates = crates.map(|name| {
        let name = name.to_string_lossy();
        format!("crates/{name}/src/{}", if name == first { rest } else { &path })
    });
    in_crates.chain([format!("src/{path}")]).collect()
}

/// True for a path like `raft::lease` or `operations::scan`: a module of that name below the first, or a function in
/// it.
fn is_in_the_code(path: &str) -> bool {
    let (parts, last) = path.rsplit_once("::").expect("a path");
    let function = expression(&format!(r"\bfn {last}\b"));
    let has_function =
        |file: std::path::PathBuf| std::fs::read_to_string(file).is_ok_and(|text| function.is_match(&text));
    folders_of(parts).into_iter().any(|folder| {
        let is_module =
            project(&format!("{folder}/{last}.rs")).exists() || project(&format!("{folder}/{last}")).is_dir();
        let home = project(&format!("{folder}.rs"));
        let inside = std::fs::read_dir(project(&folder)).into_iter().flatten();
        let inside = inside.map(|entry| entry.expect("an entry").path());
        is_module || inside.chain([home]).any(has_function)
    })
}

#[test]
fn tests_and_files_in_the_text_exist() {
    let listed = Plain::new(std::env::current_exe().expect("this")).args(["--list", "--format", "terse"]).output();
    let listed = String::from_utf8(listed.expect("it lists its tests").stdout).expect("text");
    let tests: BTreeSet<_> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let test = expression(r"^[a-z_]+(?:::[a-z_]+)+$");
    let file = expression(r"^(?:src|crates|tests|scripts|cluster|benches|docs|\.ci)/[\w./-]+");
    let mut faults = Vec::new();
    for (page, span) in spans() {
        if page.starts_with("docs/internals/") {
            if test.is_match(&span) && !is_in_the_code(&span) {
                faults.push(format!("{page}: there is no {span} in the code"));
            }
        } else if test.is_match(&span) && !tests.contains(span.as_str()) {
            faults.push(format!("{page}: there is no test {span}"));
        }
        if let Some(path) = file.find(&span).filter(|path| !project(path.as_str()).exists()) {
            faults.push(format!("{page}: there is no {}", path.as_str()));
        }
    }
    assert_none(&faults);
    let promises = text("docs/guarantees.md").lines().filter(|line| line.contains("::")).count();
    assert!(promises > 20, "{promises} promises are held by tests");
}
