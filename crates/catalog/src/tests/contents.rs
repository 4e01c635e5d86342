//! Contents of config files: stored once, written once, and deleted with their last user.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::rules::{gray, of_rule, rule};
use super::*;
use crate::catalog::configs::FileFilter;
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;

/// Returns the sizes of the rows of a table that an entry wrote, and the number of deleted ones.
fn edits_of(applied: &Applied, table: Table) -> (Vec<usize>, usize) {
    let of_table = |edit: &&Edit| Table::of_key(&edit.key).expect("a table") == table;
    let written = applied.edits.iter().filter(of_table).filter_map(|edit| edit.value.as_ref()).map(Vec::len).collect();
    (written, applied.edits.iter().filter(of_table).filter(|edit| edit.value.is_none()).count())
}

/// Returns every text in memory, by content, of drafts and releases.
pub(super) fn texts(catalog: &Catalog) -> BTreeMap<String, Vec<Arc<str>>> {
    let mut texts: BTreeMap<String, Vec<Arc<str>>> = BTreeMap::new();
    let (files, releases) = (
        catalog.configs.list_files(&FileFilter::default(), &Page::ALL).rows,
        catalog.configs.list_releases(&FileFilter::default(), &Page::ALL).rows,
    );
    let readers = releases.iter().filter(|release| release.active).map(|release| &release.content);
    for content in readers.chain(files.iter().map(|file| &file.content)) {
        assert!(content.text().is_some(), "what is looked at all the time is in memory");
    }
    let all = files.iter().map(|file| &file.content).chain(releases.iter().map(|release| &release.content));
    for text in all.filter_map(|content| content.text()) {
        texts.entry(text.to_string()).or_default().push(text.clone());
    }
    texts
}

/// Reports whether equal texts are shared, the bytes in memory are counted correctly, and no unused content is stored.
pub(super) fn is_held_once(catalog: &Catalog) -> bool {
    let texts = texts(catalog);
    let is_one = |all: &Vec<Arc<str>>| all.iter().all(|text| Arc::ptr_eq(text, &all[0]));
    let bytes: usize = texts.keys().map(String::len).sum();
    let is_counted = bytes == catalog.configs.content_bytes_in_memory();
    texts.values().all(is_one) && is_counted && texts.len() <= catalog.configs.content_count()
}

fn delete_file(name: &str) -> Command {
    Command::ConfigFiles(Op::Delete, vec![file(name, "")])
}

#[test]
fn a_publish_writes_the_content_once_and_a_retired_release_is_a_small_row() {
    let (one, two) = ("1".repeat(100_000), "2".repeat(100_000));
    let small = |sizes: &[usize]| sizes.iter().all(|size| *size < 1000);
    let mut bench = Bench::founded();
    let first = bench.apply(publish("a", &one, "r1"));
    let second = bench.apply(publish("a", &two, "r2"));
    let again = bench.apply(publish("b", &one, "r1"));
    for (applied, contents, releases) in [(&first, 1, 1), (&second, 1, 2), (&again, 0, 1)] {
        let (written, deleted) = edits_of(applied, Table::Content);
        assert_eq!((written.len(), deleted), (contents, 0));
        let (written, _) = edits_of(applied, Table::ConfigRelease);
        assert!(written.len() == releases && small(&written), "{written:?}");
        assert!(small(&edits_of(applied, Table::ConfigFile).0));
    }
    assert!(is_held_once(&bench.catalog) && is_held_once(&bench.reloaded()));
    assert_eq!(bench.reloaded(), bench.catalog);

    // The first content is deleted with its last users: a release of one file, then the other file.
    let gone = bench.apply(Command::ConfigDeleteReleases(vec![release("a", "r1")]));
    assert_eq!(edits_of(&gone, Table::Content), (vec![], 0));
    let gone = bench.apply(delete_file("b"));
    assert_eq!(edits_of(&gone, Table::Content), (vec![], 1));
    assert_eq!(bench.catalog.configs.content_count(), 1);
    bench.apply(delete_file("a"));
    assert_eq!(bench.catalog.configs.content_count(), 0);
    let left = bench.rows.keys().filter(|key| Table::of_key(key).expect("a table") == Table::Content).count();
    assert_eq!(left, 0);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn a_state_without_one_of_its_contents_is_refused() {
    let mut bench = Bench::founded();
    bench.apply(publish("a", "1", ""));
    let mut catalog = Catalog::default();
    for (key, value) in &bench.rows {
        if Table::of_key(key).expect("a table") != Table::Content {
            catalog.load(key, value).expect("a row that apply made");
        }
    }
    let refused = catalog.check_loaded().expect_err("a content is missing").to_string();
    assert!(refused.contains("the content 6b86b273"), "{refused}");
}

/// Only contents in force are in memory, in whichever way a release comes into force.
#[test]
fn a_release_that_is_not_in_force_is_on_disk_alone() {
    let mut bench = Bench::founded();
    let found = |bench: &Bench, text: &str| {
        let found = bench.catalog.configs.find("prod", "shop", "a", &ClientLabels::default()).expect("in force");
        assert_eq!(found.content.text().map(|text| &**text), Some(text));
        assert_eq!(bench.reloaded(), bench.catalog);
        assert!(is_held_once(&bench.catalog) && is_held_once(&bench.reloaded()));
        bench.catalog.configs.content_bytes_in_memory()
    };
    let text = |number: usize| format!("{number:01000}");
    for number in 1..=20 {
        bench.apply(publish("a", &text(number), &format!("r{number}")));
        assert_eq!(found(&bench, &text(number)), 1000, "after {number} releases");
    }
    let named = |name: &str| vec![release("a", name)];
    let applied = bench.apply(Command::ConfigRollback(named("r3")));
    assert_eq!(applied.unread.len(), 1, "read once for all");
    assert_eq!(found(&bench, &text(3)), 2000, "the draft is what was published last");
    assert!(bench.apply(Command::ConfigRollback(named("r20"))).unread.is_empty(), "the draft has it");
    assert_eq!(found(&bench, &text(20)), 1000);
    // Other ways back: a withdrawal to the previous release, and saving an old content as the draft.
    let withdrawn = ConfigReleaseDraft { to_previous: Some(true), ..release("a", "r20") };
    assert_eq!(bench.codes(Command::ConfigReleases(ReleaseOp::Withdraw, vec![withdrawn])), [200000]);
    assert_eq!(found(&bench, &text(3)), 2000);
    bench.codes(Command::ConfigFiles(Op::Update, vec![file("a", &text(5))]));
    assert!(bench.apply(Command::ConfigRollback(named("r5"))).unread.is_empty());
    assert_eq!(found(&bench, &text(5)), 1000);
    // A gray release that is stopped, and one that is promoted.
    for (name, op) in [("g1", ReleaseOp::StopGray), ("g2", ReleaseOp::Promote)] {
        bench.codes(Command::ConfigFiles(Op::Update, vec![file("a", name)]));
        let gray = gray("", "", "one");
        let (release_type, beta_labels) = (gray.release_type, gray.client_labels);
        let draft = ConfigReleaseDraft { release_type, beta_labels, ..release("a", name) };
        assert_eq!(bench.codes(Command::ConfigPublish(vec![draft])), [200000]);
        assert_eq!(found(&bench, &text(5)), 1002);
        bench.codes(Command::ConfigFiles(Op::Update, vec![file("a", "")]));
        assert_eq!(bench.codes(Command::ConfigReleases(op, vec![release("a", name)])), [200000]);
    }
    assert_eq!(found(&bench, "g2"), 2);
    bench.apply(delete_file("a"));
    assert_eq!((bench.catalog.configs.content_bytes_in_memory(), bench.catalog.configs.content_count()), (0, 0));
}

/// Endless publishing stores as much as retention allows, not as much as was published.
#[test]
fn memory_and_rows_are_bounded_by_what_is_kept() {
    let (files, publishes, kept) = (10_usize, 2000_usize, 20_usize);
    let mut bench = Bench::founded();
    bench.keep(kept as u64);
    for number in 0..publishes {
        let content = format!("{number:01000}");
        bench.apply(publish(&format!("f{}", number % files), &content, ""));
    }
    let releases = files * (kept + 1);
    let configs = &bench.catalog.configs;
    assert_eq!((configs.release_count(), configs.content_count()), (releases, releases));
    assert_eq!(configs.content_bytes_in_memory(), files * 1000, "drafts and what is in force, which are one");
    let is_trail = |key: &[u8]| matches!(Table::of_key(key), Ok(Table::Audit | Table::History));
    let bytes: usize = bench.rows.iter().filter(|(key, _)| !is_trail(key)).map(|(_, row)| row.len()).sum();
    let requests = publishes * 100;
    assert!(bytes < releases * 1600 + requests, "{bytes} bytes of rows");
}

#[test]
fn golden_rows_of_contents_versions_and_settings() {
    let mut bench = Bench::founded();
    bench.keep(1);
    for content in ["k=1", "k=2", "k=v"] {
        bench.apply(publish("a", content, ""));
    }
    let rows = [
        ("139246d2c0e0f213ae2b86ac78a432a55edfd31d07a072331d58763c08d5292212", "0181a7636f6e74656e74a36b3d76"),
        (
            "0c70726f640073686f700061",
            "0183a36b657983a96e616d657370616365a470726f64a567726f7570a473686f70a466696c65a161a776657273696f6e03af72656\
             d6f7665645f7468726f75676801",
        ),
        (
            "12",
            "0189ad72656c65617365735f6b65707401be646561645f696e7374616e6365735f72656d6f7665645f61667465725f7\
             300af61756469745f6b6570745f646179735aaf61756469745f6b6570745f726f7773ce000f4240af61756469745f69\
             6e7374616e63657300b172657175657374735f6578706972655f73ce00278d00aa72756c655f73636f706500ae70617\
             373776f72645f6c6f67696e00a87265766973696f6ed920333937346634316236666462643334333861306166336331\
             3539366335336530",
        ),
    ];
    for (key, golden) in rows {
        let written = bench.rows.get(&hex::decode(key).expect("hex")).map(hex::encode);
        assert_eq!(written.as_deref(), Some(golden), "{key}");
    }
}

/// Digest of every key and value written by these commands, in order.
#[test]
fn every_edit_is_what_it_was() {
    let mut bench = Bench::founded();
    let mut hash = Sha256::new();
    let mut commands = Vec::new();
    for number in 0..120 {
        commands.push(publish("a.properties", &format!("k={}", number % 7), &format!("r{number}")));
    }
    for number in 0..12 {
        commands.push(Command::ConfigFiles(Op::Update, vec![file("a.properties", &format!("draft={number}"))]));
        commands.push(Command::ConfigRollback(vec![release("a.properties", &format!("r{number}"))]));
        commands.push(publish(&format!("f{}", number % 3), "shared", ""));
    }
    commands.push(Command::ConfigDeleteReleases(vec![release("a.properties", "r50")]));
    for family in Family::ALL {
        commands.push(Command::Rules(Op::Create, vec![rule(*family, "r")]));
        for number in 0..110 {
            commands.push(Command::PublishRules(*family, vec![of_rule("r", &format!("v{number}"))]));
        }
        commands.push(Command::RuleReleases(*family, ReleaseOp::Rollback, vec![of_rule("r", "v3")]));
        commands.push(Command::PublishRules(*family, vec![gray("r", "g", "one")]));
        commands.push(Command::RuleReleases(*family, ReleaseOp::StopGray, vec![of_rule("r", "g")]));
    }
    commands.push(delete_file("f1"));
    commands.push(delete_file("a.properties"));
    for command in commands {
        for edit in bench.apply(command).edits {
            hash.update([u8::from(edit.value.is_some())]);
            hash.update((edit.key.len() as u64).to_be_bytes());
            hash.update(&edit.key);
            hash.update(edit.value.unwrap_or_default());
        }
    }
    assert_eq!(hex::encode(hash.finalize()), "a9ace46ba332a59f7bbf4568957ee10b8c9444829cc42ca1cec87eae8311032d");
}
