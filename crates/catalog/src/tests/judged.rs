//! Conditional publications: what was validated is what is published, and what was seen is what is replaced.

use super::*;
use crate::format::pack;
use crate::model::config_file::{Format, Judged};
use crate::model::content::Content;

fn saved(name: &str, content: &str, format: Option<&str>) -> Command {
    let draft = ConfigFileDraft { format: format.map(str::to_owned), ..file(name, content) };
    Command::ConfigFiles(Op::Update, vec![draft])
}

fn publish_judged(name: &str, content: &str, format: Format) -> Command {
    let judged = Some(Judged::new(&Content::from(content), format));
    Command::ConfigPublish(vec![ConfigReleaseDraft { judged, ..release(name, "") }])
}

#[test]
fn what_was_judged_is_what_is_published() {
    let mut bench = Bench::founded();
    bench.codes(Command::ConfigFiles(Op::Create, vec![file("a", "{}"), file("b.json", "{}")]));
    assert_eq!(bench.codes(publish_judged("a", "{}", Format::Json)), [409000], "it is a properties file");
    assert_eq!(bench.codes(saved("a", "{}", Some("json"))), [200000]);
    assert_eq!(bench.codes(publish_judged("a", "{}", Format::Properties)), [409000], "not any more");
    assert_eq!(bench.codes(publish_judged("a", "{}", Format::Json)), [200000]);
    bench.codes(saved("a", "{", None));
    assert_eq!(bench.codes(publish_judged("a", "{}", Format::Json)), [409000], "another content");
    let active = bench.catalog.configs.active_release(&ConfigKey::new("prod", "shop", "a")).expect("published");
    assert_eq!((&*active.content, active.version), ("{}", 1), "nothing of it was done");
    assert_eq!(bench.codes(saved("b.json", "{}", Some("text"))), [200000]);
    assert_eq!(
        bench.codes(publish_judged("b.json", "{}", Format::Json)),
        [200000],
        "the suffix says what it is read as"
    );
    assert_eq!(bench.codes(publish_judged("none", "{}", Format::Json)), [400202]);

    // For a write with publication, the condition is on the written content.
    let both = |content: Option<&str>, judged: &str| {
        let draft = ConfigFileDraft { content: content.map(str::to_owned), ..file("a", "") };
        let judged = Some(Judged::new(&Content::from(judged), Format::Json));
        let item = ConfigPublish { file: draft, release: ConfigReleaseDraft { judged, ..release("a", "") }, md5: None };
        Command::ConfigCreateAndPublish(vec![item])
    };
    assert_eq!(bench.codes(both(None, "{}")), [409000]);
    assert_eq!(bench.codes(both(Some("{}"), "{}")), [200000]);
    assert_eq!(bench.codes(both(None, "{}")), [200000]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn a_publish_compares_and_sets_what_is_published() {
    let mut bench = Bench::founded();
    bench.codes(Command::ConfigFiles(Op::Create, vec![file("a", "1")]));
    let publish =
        |md5: &str| Command::ConfigPublish(vec![ConfigReleaseDraft { md5: Some(md5.to_owned()), ..release("a", "") }]);
    let md5_of_1 = "c4ca4238a0b923820dcc509a6f75849b";
    assert_eq!(bench.codes(publish(md5_of_1)), [409000], "nothing is published");
    assert_eq!(bench.codes(publish("")), [200000], "an empty md5 is none");
    bench.codes(saved("a", "2", None));
    assert_eq!(bench.codes(publish(md5_of_1)), [200000]);
    assert_eq!(bench.codes(publish(md5_of_1)), [409000], "it is another one by now");
}

#[test]
fn what_was_judged_is_told_between_nodes_alone() {
    let command = publish_judged("a", "{}", Format::Json);
    let read: Command = pack::from_bytes(&pack::to_bytes(&command)).expect("a command");
    assert_eq!(read, command);
    let Command::ConfigPublish(items) = command else { panic!("a publish") };
    let sent = serde_json::to_string(&items[0]).expect("JSON");
    let read: ConfigReleaseDraft = serde_json::from_str(&sent).expect("a draft");
    assert!(sent.contains("judged") && read.judged.is_none(), "{sent}");
}

#[test]
fn a_new_file_has_the_format_of_its_suffix() {
    let mut bench = Bench::founded();
    bench.codes(Command::ConfigFiles(Op::Create, vec![file("a.toml", "a = 1")]));
    let file = bench.catalog.configs.file(&ConfigKey::new("prod", "shop", "a.toml")).expect("created");
    assert_eq!(file.format, Format::Toml);
    assert_eq!(bench.reloaded(), bench.catalog);
}
