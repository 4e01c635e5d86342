//! Encrypted config files, from the node that seals them to apply, which knows only the key of a sealed text and
//! whether it equals another one.

use super::*;
use crate::catalog::page::Page;
use crate::catalog::testing::Bench;
use crate::catalog::{Command, Op};
use crate::format::pack;
use crate::model::config_file::{ConfigPublish, ConfigRelease, ConfigReleaseDraft, Format, Judged};
use crate::model::config_lookup::ClientLabels;
use crate::model::release::ReleaseOp;
use crate::model::text::NameFilter;

const SECRET: &str = "password=correct horse";

fn key(name: &str) -> ConfigKey {
    ConfigKey::new("prod", "shop", name)
}

fn file(name: &str, content: &str) -> ConfigFileDraft {
    ConfigFileDraft {
        namespace: "prod".into(),
        group: "shop".into(),
        name: name.into(),
        content: Some(content.into()),
        ..ConfigFileDraft::default()
    }
}

fn release(file: &str, name: &str) -> ConfigReleaseDraft {
    ConfigReleaseDraft {
        name: (!name.is_empty()).then(|| name.into()),
        namespace: "prod".into(),
        group: "shop".into(),
        file_name: file.into(),
        ..ConfigReleaseDraft::default()
    }
}

fn wanted(name: &str, content: Option<&str>, encrypted: Option<bool>) -> ConfigFileDraft {
    ConfigFileDraft { content: content.map(str::to_owned), encrypted, ..file(name, "") }
}

/// Commands about sealed files as a node proposes them.
trait SealedFiles {
    fn sealed(&self, draft: ConfigFileDraft) -> ConfigFileDraft;
    fn write(&mut self, op: Op, draft: ConfigFileDraft) -> u32;
    fn publish(&mut self, name: &str, release_name: &str, judged_as: Format) -> u32;
    fn file_of(&self, name: &str) -> &ConfigFile;
    fn release_of(&self, name: &str, release: &str) -> &ConfigRelease;
    fn expect_no_secret(&self);
}

impl SealedFiles for Bench {
    /// Seals a draft as a node does when it gets it.
    fn sealed(&self, draft: ConfigFileDraft) -> ConfigFileDraft {
        let there = self.catalog.configs.file(&draft.key()).cloned();
        keyring("a").seal_file(draft, there.as_deref(), true).expect("a data key")
    }

    fn write(&mut self, op: Op, draft: ConfigFileDraft) -> u32 {
        let draft = self.sealed(draft);
        self.codes(Command::ConfigFiles(op, vec![draft]))[0]
    }

    fn publish(&mut self, name: &str, release_name: &str, judged_as: Format) -> u32 {
        let content = self.catalog.configs.file(&key(name)).expect("kept").content.clone();
        let judged = Some(Judged::new(&content, judged_as));
        self.codes(Command::ConfigPublish(vec![ConfigReleaseDraft { judged, ..release(name, release_name) }]))[0]
    }

    fn file_of(&self, name: &str) -> &ConfigFile {
        self.catalog.configs.file(&key(name)).expect("kept")
    }

    fn release_of(&self, name: &str, release: &str) -> &ConfigRelease {
        self.catalog.configs.release(&key(name), release).expect("kept")
    }

    /// Checks that no stored row contains the secret.
    fn expect_no_secret(&self) {
        let says = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!self.rows.values().any(|value| says(value)), "a row is in clear");
        assert_eq!(self.reloaded(), self.catalog);
    }
}

#[test]
fn a_file_is_sealed_from_its_first_row_to_its_releases() {
    let mut bench = Bench::founded();
    assert_eq!(bench.write(Op::Create, wanted("a", Some(SECRET), Some(true))), 200000);
    assert!(bench.file_of("a").encrypted);
    let first = bench.file_of("a").content.clone();
    assert_eq!(bench.write(Op::Update, wanted("a", Some(SECRET), None)), 200002, "the same is sealed alike");
    assert_eq!(bench.write(Op::Update, wanted("a", None, Some(true))), 200002);
    assert_eq!(
        bench.write(Op::Update, ConfigFileDraft { comment: Some("c".into()), ..wanted("a", None, None) }),
        200000
    );
    assert_eq!(bench.file_of("a").content, first, "what is not given stays");
    assert_eq!(bench.write(Op::Create, wanted("b", Some(SECRET), Some(true))), 200000);
    assert_ne!(bench.file_of("b").content, first, "nobody sees that two files say the same");

    assert_eq!(bench.codes(Command::ConfigPublish(vec![release("a", "r0")])), [409000], "nobody has judged it");
    assert_eq!(bench.publish("a", "r1", Format::Properties), 200000);
    assert_eq!(bench.write(Op::Update, wanted("a", Some("password=2"), None)), 200000);
    assert_eq!(bench.publish("a", "r2", Format::Properties), 200000);
    let (one, two) = (bench.release_of("a", "r1").clone(), bench.release_of("a", "r2").clone());
    assert!(one.encrypted && two.encrypted && one.md5 != two.md5);
    let md5_of_secret = "a83716fd14985eb8ab7163848de0b672";
    assert_ne!(one.md5, md5_of_secret);
    bench.codes(Command::ConfigRollback(vec![release("a", "r1")]));
    assert_eq!(bench.release_of("a", "r1").md5, one.md5, "compare-and-set goes on by it");

    let gray = ConfigReleaseDraft {
        release_type: Some("gray".into()),
        client_percent: Some(serde_json::from_str(r#"{"by":"CLIENT_IP","percent":10}"#).expect("a share")),
        judged: Some(Judged::new(&bench.file_of("a").content.clone(), Format::Properties)),
        ..release("a", "g")
    };
    assert_eq!(bench.codes(Command::ConfigPublish(vec![gray])), [200000]);
    let promoted = ConfigReleaseDraft { new_release_name: Some("p".into()), ..release("a", "g") };
    assert_eq!(bench.codes(Command::ConfigReleases(ReleaseOp::Promote, vec![promoted])), [200000]);
    assert!(bench.release_of("a", "p").encrypted);

    let found = bench.catalog.configs.find("prod", "shop", "a", &ClientLabels::default()).expect("in force").clone();
    assert!(keyring("b").open_released(&found, &found.content).is_none(), "nothing is told by another key");
    bench.expect_no_secret();
}

#[test]
fn who_has_the_key_reads_what_is_in_force() {
    let mut bench = Bench::founded();
    bench.write(Op::Create, wanted("a", Some(SECRET), Some(true)));
    bench.publish("a", "r1", Format::Properties);
    let found = bench.catalog.configs.find("prod", "shop", "a", &ClientLabels::default()).expect("in force");
    let clear = keyring("a").open_released(found, &found.content).expect("its key");
    assert_eq!(found.configurations(&clear).as_deref(), Ok(&br#"{"password":"correct horse"}"#[..]));
    assert_eq!(keyring("a").unreadable_files(&bench.catalog), 0);
    for ring in [keyring("b"), Keyring::default()] {
        assert_eq!((ring.unreadable_files(&bench.catalog), ring.alarm_of_files(&bench.catalog).is_some()), (2, true));
    }
    bench.codes(Command::ConfigFiles(Op::Delete, vec![wanted("a", None, None)]));
    assert_eq!((Keyring::default().unreadable_files(&bench.catalog), bench.catalog.configs.sealed_count()), (0, 0));
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn encryption_is_turned_on_and_off_and_leaves_earlier_releases_as_they_are() {
    let mut bench = Bench::founded();
    bench.codes(Command::ConfigFiles(Op::Create, vec![file("a.txt", "first")]));
    bench.codes(Command::ConfigPublish(vec![release("a.txt", "r1")]));
    assert_eq!(bench.write(Op::Update, wanted("a.txt", None, Some(true))), 200000);
    assert!(bench.file_of("a.txt").encrypted && &*bench.file_of("a.txt").content != "first");
    bench.codes(Command::ConfigPublish(vec![release("a.txt", "r2")]));
    assert_eq!(bench.write(Op::Update, wanted("a.txt", None, Some(false))), 200000);
    assert_eq!((bench.file_of("a.txt").encrypted, &*bench.file_of("a.txt").content), (false, "first"));
    let states = ["r1", "r2"].map(|name| bench.release_of("a.txt", name).encrypted);
    assert_eq!(states, [false, true]);
    bench.codes(Command::ConfigRollback(vec![release("a.txt", "r1")]));
    let found = bench.catalog.configs.find("prod", "shop", "a.txt", &ClientLabels::default()).expect("in force");
    assert_eq!(&*found.content, "first");
    assert_eq!(bench.reloaded(), bench.catalog);
}

/// A draft that was sealed for one state of a file is refused in another.
#[test]
fn nothing_is_kept_in_the_wrong_form() {
    let mut bench = Bench::founded();
    let update = |draft: &ConfigFileDraft| Command::ConfigFiles(Op::Update, vec![draft.clone()]);
    bench.codes(Command::ConfigFiles(Op::Create, vec![file("a", "k=1")]));
    let clear = wanted("a", Some("k=2"), None);
    let on = bench.sealed(wanted("a", None, Some(true)));
    let on_with = bench.sealed(wanted("a", Some("k=3"), Some(true)));
    assert_eq!(bench.codes(update(&wanted("a", None, Some(true)))), [409000], "nobody has sealed it");
    assert_eq!(bench.codes(update(&wanted("a", Some("k=3"), Some(true)))), [409000]);
    assert_eq!(bench.codes(update(&clear)), [200000]);
    assert_eq!(bench.codes(update(&on)), [409000], "it was made of another content");
    assert_eq!(bench.codes(update(&on_with)), [200000], "this one was given whole");
    assert_eq!(bench.codes(update(&clear)), [409000], "it is encrypted by now");
    let sealed = bench.sealed(wanted("a", Some("k=4"), None));
    let off = bench.sealed(wanted("a", None, Some(false)));
    assert_eq!(bench.codes(update(&wanted("a", None, Some(false)))), [409000], "nobody has opened it");
    let both = |file: &ConfigFileDraft| {
        let publish = ConfigPublish { file: file.clone(), release: release("a", ""), md5: None };
        Command::ConfigCreateAndPublish(vec![publish])
    };
    assert_eq!(bench.codes(both(&clear)), [409000]);
    assert_eq!(bench.codes(update(&off)), [200000]);
    assert_eq!(bench.codes(update(&sealed)), [409000], "it is in clear by now");
    assert_eq!(bench.codes(both(&sealed)), [409000]);
    let new = wanted("new", Some("k=1"), Some(true));
    assert_eq!(bench.codes(Command::ConfigFiles(Op::Create, vec![new.clone()])), [409000]);
    assert_eq!(bench.write(Op::Create, new), 200000);
    assert_eq!(bench.write(Op::Create, wanted("empty", None, Some(true))), 200000, "an empty one is sealed too");
    assert!(!bench.file_of("empty").content.is_empty());
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn no_search_finds_what_is_sealed() {
    let mut bench = Bench::founded();
    bench.write(Op::Create, wanted("a", Some("needle"), Some(true)));
    bench.codes(Command::ConfigFiles(Op::Create, vec![file("b", "needle")]));
    let part_of_sealed = bench.file_of("a").content[..20].to_owned();
    let find = |group: Option<&str>, part: &str| {
        let exact = |text: &str| Some(NameFilter::Exact(text.to_owned()));
        let filter = crate::catalog::configs::FileFilter {
            namespace: exact("prod"),
            group: group.and_then(exact),
            content: Some(part.to_owned()),
            ..Default::default()
        };
        bench.catalog.configs.list_files(&filter, &Page::ALL).amount
    };
    for group in [None, Some("shop")] {
        assert_eq!((find(group, "needle"), find(group, &part_of_sealed), find(group, "")), (1, 0, 1));
    }
}

#[test]
fn what_nodes_say_of_a_sealing_is_theirs_alone_and_of_a_level() {
    let bench = Bench::founded();
    let draft = bench.sealed(wanted("a", Some("x"), Some(true)));
    let command = Command::ConfigFiles(Op::Create, vec![draft.clone()]);
    assert_eq!(pack::from_bytes::<Command>(&pack::to_bytes(&command)).expect("a command"), command);
    let read: ConfigFileDraft = serde_json::from_str(&serde_json::to_string(&draft).expect("JSON")).expect("a draft");
    assert!(draft.sealing.is_some() && read.sealing.is_none(), "a caller says nothing of it");
}
