//! The catalog as tables of commands and expected answers.

mod access_keys;
mod audit;
mod cluster;
mod contents;
mod custody;
mod golden;
mod grays;
mod house;
mod instances;
mod judged;
mod lists;
mod logins;
mod objects;
mod properties;
mod rekey;
mod releases;
mod retention;
mod rights;
mod rollouts;
mod room;
mod rule_updates;
mod rules;
mod sso;
mod templates;
mod time;
mod time_walks;
mod trust;
mod walks;
mod webhooks;
mod words;

use std::collections::BTreeMap;

use super::aliases::AliasFilter;
use super::nodes::NodeRecord;
use super::page::Page;
use super::services::ServiceFilter;
use super::testing::Bench;
use super::*;
use crate::model::access::{Founder, PasswordHash, TokenHash};
use crate::model::alias::{AliasDraft, AliasType};
use crate::model::config_file::{ConfigFileDraft, ConfigGroupDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft};
use crate::model::config_lookup::ClientLabels;
use crate::model::instance::InstanceDraft;
use crate::model::limits;
use crate::model::namespace::NamespaceDraft;
use crate::model::service::ServiceDraft;
use crate::model::settings::SettingsChange;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;

impl Bench {
    fn keep(&mut self, releases_kept: u64) {
        let change = SettingsChange { releases_kept: Some(releases_kept), ..SettingsChange::default() };
        assert_eq!(self.codes(Command::Settings(change)), [200000]);
    }
}

fn service(namespace: &str, name: &str) -> ServiceDraft {
    ServiceDraft { namespace: Some(namespace.into()), name: Some(name.into()), ..ServiceDraft::default() }
}

/// An alias, a group and a file that are read and changed, with another change in between.
#[test]
fn a_revision_keeps_two_editors_apart() {
    {
        let mut bench = Bench::founded();
        bench.codes(Command::Services(Op::Create, vec![service("a", "x")]));
        let write = |bench: &mut Bench, op: Op, text: &str, revision: Option<&str>| {
            let (text, revision) = (Some(text.to_owned()), revision.map(str::to_owned));
            let alias = AliasDraft { comment: text.clone(), revision: revision.clone(), ..alias("one", "x") };
            let group = ConfigGroupDraft {
                namespace: "prod".into(),
                name: "shop".into(),
                comment: text.clone(),
                revision: revision.clone(),
                ..ConfigGroupDraft::default()
            };
            let draft = ConfigFileDraft { comment: text, revision, ..file("f.txt", "x") };
            let commands = [
                Command::Aliases(op, vec![alias]),
                Command::ConfigGroups(op, vec![group]),
                Command::ConfigFiles(op, vec![draft]),
            ];
            commands.map(|command| bench.codes(command)[0])
        };
        let read = |bench: &Bench| {
            let catalog = &bench.catalog;
            [
                catalog.aliases.get("a", "one").expect("kept").revision.clone(),
                catalog.configs.group("prod", "shop").expect("kept").revision.clone(),
                catalog.configs.file(&ConfigKey::new("prod", "shop", "f.txt")).expect("kept").revision.clone(),
            ]
        };
        assert_eq!(write(&mut bench, Op::Create, "one", None), [200000; 3]);
        let first = read(&bench);
        assert!(first.iter().all(|revision| !revision.is_empty()), "{first:?}");
        assert_eq!(write(&mut bench, Op::Update, "two", Some("")), [200000; 3]);
        assert_eq!(write(&mut bench, Op::Update, "three", Some("stale")), [409000; 3]);
        let second = read(&bench);
        {
            assert!(first.iter().zip(&second).all(|(first, second)| first != second), "{first:?} {second:?}");
            for (at, revision) in first.iter().enumerate() {
                assert_eq!(write(&mut bench, Op::Update, "three", Some(revision))[at], 409000, "was read before");
            }
            assert_eq!(read(&bench), second);
            for (at, revision) in second.iter().enumerate() {
                assert_eq!(write(&mut bench, Op::Update, "three", Some(revision))[at], 200000);
            }
            let mut publish = ConfigPublish { file: file("f.txt", "y"), release: release("f.txt", "r"), md5: None };
            publish.file.revision = Some(second[2].clone());
            assert_eq!(bench.codes(Command::ConfigCreateAndPublish(vec![publish.clone()])), [409000]);
            publish.file.revision = Some(read(&bench)[2].clone());
            assert_eq!(bench.codes(Command::ConfigCreateAndPublish(vec![publish])), [200000]);
        }
        assert_eq!(bench.reloaded(), bench.catalog);
    }
}

/// The token of the service is stored with an alias, and has no other effect.
#[test]
fn an_alias_keeps_the_token_of_its_service() {
    let mut bench = Bench::founded();
    bench.codes(Command::Services(Op::Create, vec![service("a", "x")]));
    let with = |token: &str| AliasDraft { service_token: Some(token.into()), ..alias("one", "x") };
    let rows = [
        (Op::Create, with("t"), 200000, "t"),
        (Op::Update, alias("one", "x"), 200002, "t"),
        (Op::Update, with("u"), 200000, "u"),
    ];
    for (op, draft, code, kept) in rows {
        assert_eq!(bench.codes(Command::Aliases(op, vec![draft])), [code]);
        assert_eq!(bench.catalog.aliases.get("a", "one").expect("kept").service_token, kept);
        assert_eq!(bench.reloaded(), bench.catalog);
    }
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

fn publish(name: &str, content: &str, release_name: &str) -> Command {
    let item = ConfigPublish { file: file(name, content), release: release(name, release_name), md5: None };
    Command::ConfigCreateAndPublish(vec![item])
}

#[test]
fn services_by_the_rules() {
    let mut bench = Bench::default();
    let revised = |revision: &str| ServiceDraft {
        comment: Some("c".into()),
        revision: Some(revision.into()),
        ..service("a", "x")
    };
    let commented = ServiceDraft { comment: Some("b".into()), ..service("a", "x") };
    let with_id = |id: &str, name: &str| ServiceDraft { id: Some(id.into()), ..service("a", name) };
    let by_id = ServiceDraft { id: Some("given".into()), ..ServiceDraft::default() };
    let rows = [
        (Op::Create, vec![service("a", "x"), service("a", "x"), service("b", "x")], vec![200000, 400201, 200000]),
        (Op::Create, vec![with_id("given", "y"), with_id("given", "z")], vec![200000, 400201]),
        (Op::Update, vec![commented.clone(), commented, service("a", "none")], vec![200000, 200002, 400202]),
        (Op::Update, vec![revised("stale")], vec![409000]),
        (Op::Update, vec![by_id.clone(), with_id("other", "y")], vec![200002, 400202]),
        (Op::Delete, vec![by_id.clone(), by_id, service("a", "x"), service("a", "x")], vec![200000; 4]),
    ];
    for (op, items, expected) in rows {
        let shown = format!("{op:?} {items:?}");
        assert_eq!(bench.codes(Command::Services(op, items)), expected, "{shown}");
        assert_eq!(bench.reloaded(), bench.catalog, "{shown}");
    }
    assert_eq!(bench.catalog.services.len(), 1);
    assert!(bench.catalog.namespaces.get("a").is_some(), "a missing namespace is made on the fly");
}

#[test]
fn an_update_renews_the_revision_and_the_current_one_passes() {
    let mut bench = Bench::default();
    bench.codes(Command::Services(Op::Create, vec![service("a", "x")]));
    let old = bench.catalog.services.get("a", "x").expect("created").clone();
    let draft = ServiceDraft { ports: Some("80".into()), revision: Some(old.revision.clone()), ..service("a", "x") };
    assert_eq!(bench.codes(Command::Services(Op::Update, vec![draft])), [200000]);
    let new = bench.catalog.services.get("a", "x").expect("kept");
    assert_ne!(new.revision, old.revision);
    assert!(new.mtime > old.mtime);
    assert_eq!((&new.id, &new.token, new.ctime), (&old.id, &old.token, old.ctime));
}

#[test]
fn services_are_listed_newest_first_and_filtered() {
    let mut bench = Bench::default();
    for (namespace, name) in [("a", "pay-1"), ("a", "pay-2"), ("b", "Pay-3"), ("b", "shop")] {
        bench.codes(Command::Services(Op::Create, vec![service(namespace, name)]));
    }
    let list = |name: Option<&str>, namespace: Option<&str>, page: Page| {
        let filter = ServiceFilter {
            name: name.map(NameFilter::parse),
            namespace: namespace.map(NameFilter::parse),
            ..ServiceFilter::default()
        };
        let listed = bench.catalog.services.list(&filter, &bench.catalog.instances, &page);
        (listed.amount, listed.rows.iter().map(|service| service.name.clone()).collect::<Vec<_>>())
    };
    let all = || Page::new(0, 100);
    assert_eq!(list(None, None, all()), (4, vec!["shop".into(), "Pay-3".into(), "pay-2".into(), "pay-1".into()]));
    assert_eq!(list(Some("pay*"), None, Page::new(1, 1)), (3, vec!["pay-2".into()]));
    assert_eq!(list(Some("*-*"), Some("a"), Page::new(0, 0)), (2, vec![]));
    assert_eq!(list(Some("pay-1"), Some("a"), all()), (1, vec!["pay-1".into()]));
    assert_eq!(list(Some("pay-1"), Some("b"), all()), (0, vec![]));
}

fn alias(name: &str, service: &str) -> AliasDraft {
    AliasDraft {
        alias: Some(name.into()),
        service: Some(service.into()),
        namespace: Some("a".into()),
        ..AliasDraft::default()
    }
}

#[test]
fn aliases_by_the_rules() {
    let mut bench = Bench::default();
    bench.codes(Command::Services(Op::Create, vec![service("a", "x"), service("a", "y")]));
    let commented = AliasDraft { comment: Some("c".into()), ..alias("one", "x") };
    let retargeted = |service: &str| AliasDraft { comment: None, ..alias("one", service) };
    let rows = [
        (Op::Create, vec![alias("one", "x"), alias("one", "y"), alias("x", "y")], vec![200000, 400201, 400201]),
        (Op::Create, vec![alias("two", "none"), alias("two", "one")], vec![400301, 400504]),
        (Op::Update, vec![commented.clone(), commented, alias("none", "x")], vec![200000, 200002, 400304]),
        (Op::Update, vec![retargeted("none"), retargeted("y")], vec![400301, 200000]),
        (Op::Delete, vec![alias("none", "x")], vec![200000]),
    ];
    for (op, items, expected) in rows {
        let shown = format!("{op:?} {items:?}");
        assert_eq!(bench.codes(Command::Aliases(op, items)), expected, "{shown}");
        assert_eq!(bench.reloaded(), bench.catalog, "{shown}");
    }
    assert_eq!(bench.codes(Command::Services(Op::Create, vec![service("a", "one")])), [400201], "one space of names");
    let delete = Command::Services(Op::Delete, vec![service("a", "x"), service("a", "y")]);
    assert_eq!(bench.codes(delete.clone()), [200000, 400210], "the alias stands for y now");
    assert_eq!(bench.codes(Command::Aliases(Op::Delete, vec![alias("one", "y")])), [200000]);
    assert_eq!(bench.codes(delete), [200000, 200000]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn generated_aliases_are_numbered_and_never_repeated() {
    let mut bench = Bench::default();
    bench.codes(Command::Services(Op::Create, vec![service("a", "x")]));
    let generated = |namespace: &str| AliasDraft {
        alias: None,
        alias_namespace: Some(namespace.into()),
        kind: Some(AliasType::Cl5Sid),
        ..alias("", "x")
    };
    assert_eq!(bench.codes(Command::Aliases(Op::Create, vec![generated("a")])), [400134]);
    assert_eq!(bench.codes(Command::Aliases(Op::Create, vec![generated("Test"), generated("default")])), [200000; 2]);
    let names = |bench: &Bench| -> Vec<String> {
        let listed = bench.catalog.aliases.list(&AliasFilter::default(), &Page::ALL);
        let mut names: Vec<_> = listed.rows.iter().map(|alias| alias.alias.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&bench), ["192000068:65537", "192000070:65538"]);
    let first = AliasDraft { alias_namespace: Some("Test".into()), ..alias("192000068:65537", "x") };
    bench.codes(Command::Aliases(Op::Delete, vec![first]));
    bench.catalog = bench.reloaded();
    bench.codes(Command::Aliases(Op::Create, vec![generated("Test")]));
    assert_eq!(names(&bench), ["192000068:65539", "192000070:65538"]);
}

#[test]
fn a_namespace_in_use_is_not_deleted() {
    let mut bench = Bench::default();
    bench.codes(Command::Services(Op::Create, vec![service("used", "x")]));
    bench.codes(Command::ConfigGroups(
        Op::Create,
        vec![ConfigGroupDraft { namespace: "conf".into(), name: "g".into(), ..Default::default() }],
    ));
    let named = |name: &str| NamespaceDraft { name: name.into(), ..NamespaceDraft::default() };
    let delete = Command::Namespaces(Op::Delete, vec![named("used"), named("conf"), named("none")]);
    assert_eq!(bench.codes(delete), [400203, 400219, 200000]);
    bench.codes(Command::Services(Op::Delete, vec![service("used", "x")]));
    assert_eq!(bench.codes(Command::Namespaces(Op::Delete, vec![named("used")])), [200000]);
}

/// The transition table of `configs::changes`, cell by cell.
#[test]
fn config_releases_by_the_table() {
    let mut bench = Bench::default();
    let key = ConfigKey::new("prod", "shop", "a.properties");
    assert_eq!(bench.codes(Command::ConfigPublish(vec![release("a.properties", "r1")])), [400202], "no such file");
    assert_eq!(bench.codes(publish("a.properties", "k=1", "r1")), [200000]);
    assert_eq!(bench.codes(publish("a.properties", "k=2", "r1")), [400201], "the release name is taken");
    assert_eq!(&*bench.catalog.configs.file(&key).expect("kept").content, "k=1", "a refused publish writes nothing");
    assert_eq!(bench.codes(publish("a.properties", "k=2", "r2")), [200000]);
    let named = |name: &str| vec![release("a.properties", name)];
    assert_eq!(bench.codes(Command::ConfigRollback(named("r2"))), [200002], "active");
    assert_eq!(bench.codes(Command::ConfigRollback(named("none"))), [400202], "missing");
    assert_eq!(bench.codes(Command::ConfigRollback(named("r1"))), [200000]);
    let active = bench.catalog.configs.active_release(&key).expect("rolled back").clone();
    assert_eq!(
        (active.name.as_str(), active.version, &*active.content),
        ("r1", 3, "k=1"),
        "a new version, the old content"
    );
    assert_eq!(bench.codes(Command::ConfigDeleteReleases(named("r1"))), [400000], "active");
    assert_eq!(bench.codes(Command::ConfigDeleteReleases(named("r2"))), [200000]);
    assert_eq!(bench.codes(Command::ConfigDeleteReleases(named("r2"))), [200000], "missing");
    assert_eq!(bench.catalog.configs.versions_of(&key).len(), 1);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn create_and_publish_compares_and_sets() {
    let mut bench = Bench::default();
    let with_md5 = |content: &str, md5: &str| {
        let item = ConfigPublish { file: file("a", content), release: release("a", ""), md5: Some(md5.into()) };
        Command::ConfigCreateAndPublish(vec![item])
    };
    assert_eq!(bench.codes(with_md5("1", "0000")), [409000], "nothing is published");
    assert_eq!(bench.codes(with_md5("1", "")), [200000], "an empty md5 is none");
    let md5 =
        bench.catalog.configs.active_release(&ConfigKey::new("prod", "shop", "a")).expect("published").md5.clone();
    assert_eq!(md5, "c4ca4238a0b923820dcc509a6f75849b");
    assert_eq!(bench.codes(with_md5("2", &md5)), [200000]);
    assert_eq!(bench.codes(with_md5("3", &md5)), [409000], "it has changed meanwhile");
}

#[test]
fn versions_and_notification_ids_outlive_a_deletion() {
    let mut bench = Bench::default();
    bench.codes(publish("a.properties", "k=1", ""));
    bench.codes(publish("a.properties", "k=2", ""));
    let before = bench.catalog.configs.notification_id("prod", "shop", "A").expect("published");
    assert_eq!(bench.codes(Command::ConfigFiles(Op::Delete, vec![file("a.properties", "")])), [200000]);
    let deleted = bench.catalog.configs.notification_id("prod", "shop", "a").expect("remembered");
    assert!(deleted > before);
    assert!(bench.catalog.configs.find("prod", "shop", "a", &ClientLabels::default()).is_none());
    bench.codes(publish("a.properties", "k=3", ""));
    let again = bench.catalog.configs.find("prod", "shop", "a", &ClientLabels::default()).expect("published again");
    assert_eq!(again.release_key, "prod-shop-a.properties-3");
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn a_lookup_tries_the_name_then_the_suffix_then_the_letter_case() {
    let rows: &[(&[&str], &str, Option<&str>)] = &[
        (&["a", "a.properties"], "a", Some("a")),
        (&["a", "a.properties"], "a.properties", Some("a.properties")),
        (&["a.properties"], "a", Some("a.properties")),
        (&["a"], "a.properties", Some("a")),
        (&["a"], "a.PROPERTIES", Some("a")),
        (&["App"], "app", Some("App")),
        (&["App", "APP"], "app", None),
        (&["App", "app"], "app", Some("app")),
        (&["App.properties"], "aPP", Some("App.properties")),
        (&["App", "app.properties"], "APP", Some("App")),
        (&["a.yml"], "a", None),
        (&["a.yml"], "A.YML", Some("a.yml")),
    ];
    for (stored, asked, expected) in rows {
        let mut bench = Bench::default();
        for name in *stored {
            bench.codes(publish(name, "x", ""));
        }
        let found = bench
            .catalog
            .configs
            .find("prod", "shop", asked, &ClientLabels::default())
            .map(|released| released.file.as_str());
        assert_eq!(found, *expected, "{asked} among {stored:?}");
    }
}

#[test]
fn a_repeated_request_is_applied_once() {
    let mut bench = Bench::default();
    let ctx = bench.ctx(1);
    let create = Command::Services(Op::Create, vec![service("a", "x")]);
    assert!(!bench.apply_as(&ctx, create.clone()).duplicate);
    let again = bench.apply_as(&Ctx::new(2, ctx.time, ctx.seed, ctx.request, "tester"), create.clone());
    assert!(again.duplicate && again.edits.is_empty() && again.outcomes.is_empty());
    let mut restarted = bench.reloaded();
    assert!(restarted.apply(&ctx, create.clone()).duplicate, "remembered over a restart");
    // Much later, the memory is free again. One entry advances the clock of the ids by at most a second.
    let seconds = limits::REQUEST_MEMORY_MS / 1000 + 2;
    for second in 1..=seconds {
        let (index, later) = (2 + second, ctx.time.plus_ms(second * 1000));
        let ctx = Ctx::new(index, later, [0; 16], RequestId(u128::from(1000 + second)), "tester");
        bench.apply_as(&ctx, Command::Forget { node_id: 9 });
    }
    let later = ctx.time.plus_ms(seconds * 1000);
    assert!(!bench.apply_as(&Ctx::new(3 + seconds, later, [1; 16], ctx.request, "tester"), create).duplicate);
}

#[test]
fn time_never_runs_backwards() {
    let mut bench = Bench::default();
    bench.apply_as(
        &Ctx::new(1, Timestamp(5000), [1; 16], RequestId(1), "t"),
        Command::Services(Op::Create, vec![service("a", "x")]),
    );
    bench.apply_as(
        &Ctx::new(2, Timestamp(4000), [2; 16], RequestId(2), "t"),
        Command::Services(Op::Create, vec![service("a", "y")]),
    );
    assert_eq!(bench.catalog.services.get("a", "y").expect("created").ctime, Timestamp(5000));
}

#[test]
fn damaged_rows_are_refused_in_words() {
    let mut catalog = Catalog::default();
    for (key, value) in
        [(&[][..], &[1][..]), (&[99, 1], &[1]), (&[7, b'a'], &[]), (&[7, b'a'], &[2, 0]), (&[7, b'a'], &[1, 0xc1])]
    {
        let error = catalog.load(key, value).expect_err("damaged");
        assert!(error.to_string().starts_with("the stored state cannot be read: "), "{error}");
    }
}
