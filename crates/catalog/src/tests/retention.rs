//! Settings, and the retention of releases by them.

use super::rules::{gray, of_rule, rule};
use super::*;
use crate::catalog::configs::FileFilter;
use crate::catalog::retention::Overfull;
use crate::catalog::rules::ReleaseFilter;
use crate::format::pack;
use crate::model::instance::{CheckType, HealthCheckDraft};
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;

const FILE: &str = "a.properties";

fn key() -> ConfigKey {
    ConfigKey::new("prod", "shop", FILE)
}

/// Returns the versions of the inactive and of the active releases.
fn versions(all: impl IntoIterator<Item = (u64, bool)>) -> (Vec<u64>, Vec<u64>) {
    let (mut active, mut inactive): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, active)| *active);
    active.sort_unstable();
    inactive.sort_unstable();
    let numbers = |all: Vec<(u64, bool)>| all.into_iter().map(|(version, _)| version).collect();
    (numbers(inactive), numbers(active))
}

impl Bench {
    fn of_file(&self, key: &ConfigKey) -> (Vec<u64>, Vec<u64>) {
        versions(self.catalog.configs.versions_of(key).iter().map(|one| (one.version, one.active)))
    }

    fn of_rule(&self, family: Family) -> (Vec<u64>, Vec<u64>) {
        let book = self.catalog.rules.of(family);
        let rule = book.named("a", "r").expect("created");
        versions(book.releases_of(&rule.id).map(|one| (one.version, one.active)))
    }

    fn publish_file(&mut self, name: &str) {
        assert_eq!(self.codes(publish(FILE, &format!("k={}", self.index), name)), [200000]);
    }

    /// Prunes like the leader until there is no surplus, and returns the number of entries.
    fn work_off(&mut self) -> usize {
        let mut entries = 0;
        loop {
            let overfull = self.catalog.overfull();
            if overfull.is_empty() {
                return entries;
            }
            assert!(overfull.files.len() <= limits::PRUNED_THINGS_MAX, "{}", overfull.files.len());
            let applied = self.apply(Command::PruneReleases(overfull));
            let deleted = applied.edits.iter().filter(|edit| edit.value.is_none());
            let releases =
                deleted.filter(|edit| Table::of_key(&edit.key).is_ok_and(|table| table == Table::ConfigRelease));
            assert!(releases.count() <= limits::PRUNED_RELEASES_MAX);
            entries += 1;
        }
    }
}

#[test]
fn settings_by_the_rules() {
    let mut bench = Bench::founded();
    let kept = |releases_kept| SettingsChange { releases_kept: Some(releases_kept), ..SettingsChange::default() };
    let rows = [
        (SettingsChange::default(), 200002, (100, 0)),
        (kept(100), 200002, (100, 0)),
        (kept(7), 200000, (7, 0)),
        (SettingsChange { dead_instances_removed_after_s: Some(60), ..SettingsChange::default() }, 200000, (7, 60)),
        (SettingsChange { dead_instances_removed_after_s: Some(60), ..kept(8) }, 200000, (8, 60)),
    ];
    for (change, code, (releases, dead)) in rows {
        assert_eq!(bench.codes(Command::Settings(change.clone())), [code], "{change:?}");
        let settings = &bench.catalog.settings;
        assert_eq!((settings.releases_kept, settings.dead_instances_removed_after_s), (releases, dead), "{change:?}");
        assert_eq!(bench.reloaded(), bench.catalog, "{change:?}");
    }
}

#[test]
fn exactly_the_newest_inactive_releases_of_a_file_stay() {
    let mut bench = Bench::founded();
    bench.keep(3);
    for number in 1..=10 {
        bench.publish_file(&format!("r{number}"));
        assert_eq!(bench.reloaded(), bench.catalog);
    }
    assert_eq!(bench.of_file(&key()), (vec![7, 8, 9], vec![10]));
    assert_eq!(bench.catalog.configs.removed_through_version(&key()), 6);
    assert_eq!(bench.codes(Command::ConfigRollback(vec![release(FILE, "r6")])), [400202], "it is gone");
    // A rollback gives the oldest release a new version, so it is not pruned while it becomes active.
    assert_eq!(bench.codes(Command::ConfigRollback(vec![release(FILE, "r7")])), [200000]);
    assert_eq!(bench.of_file(&key()), (vec![8, 9, 10], vec![11]));
    assert_eq!(bench.catalog.configs.removed_through_version(&key()), 6);
    for name in ["g1", "g2"] {
        let draft = gray("", "", "one");
        let labels = ConfigReleaseDraft {
            release_type: draft.release_type,
            beta_labels: draft.client_labels,
            ..release(FILE, name)
        };
        assert_eq!(bench.codes(Command::ConfigPublish(vec![labels])), [200000]);
    }
    assert_eq!(bench.of_file(&key()), (vec![8, 9, 10], vec![11, 12, 13]), "what is active does not count");
    assert_eq!(bench.codes(Command::ConfigStopGray(vec![release(FILE, "g1")])), [200000]);
    assert_eq!(bench.of_file(&key()), (vec![9, 10, 12], vec![11, 13]), "a stopped one counts");
    assert_eq!(bench.codes(Command::ConfigDeleteReleases(vec![release(FILE, "r9")])), [200000]);
    assert_eq!(bench.of_file(&key()), (vec![10, 12], vec![11, 13]));
    assert_eq!(bench.catalog.configs.removed_through_version(&key()), 8, "only what retention removed");
    assert_eq!(bench.reloaded(), bench.catalog);
    // Releases are deleted with the file; the record of its versions is not.
    assert_eq!(bench.codes(Command::ConfigFiles(Op::Delete, vec![file(FILE, "")])), [200000]);
    bench.publish_file("again");
    assert_eq!(bench.of_file(&key()), (vec![], vec![14]));
    assert_eq!(bench.catalog.configs.removed_through_version(&key()), 8);
    let one = FileFilter {
        namespace: Some(NameFilter::parse("prod")),
        group: Some(NameFilter::parse("shop")),
        file: Some(NameFilter::parse(FILE)),
        ..FileFilter::default()
    };
    let many = FileFilter { file: Some(NameFilter::parse("a.*")), ..one.clone() };
    let removed = |filter| bench.catalog.configs.removed_through_version_of(filter);
    assert_eq!((removed(&one), removed(&many)), (Some(8), None));
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn exactly_the_newest_inactive_releases_of_a_rule_stay() {
    for family in Family::ALL {
        let family = *family;
        let mut bench = Bench::founded();
        bench.keep(3);
        bench.codes(Command::Rules(Op::Create, vec![rule(family, "r"), rule(family, "other")]));
        for number in 1..=10 {
            let draft = of_rule("r", &format!("r{number}"));
            assert_eq!(bench.codes(Command::PublishRules(family, vec![draft])), [200000]);
            assert_eq!(bench.reloaded(), bench.catalog);
        }
        assert_eq!(bench.of_rule(family), (vec![7, 8, 9], vec![10]), "{family:?}");
        let change = |op, name: &str| Command::RuleReleases(family, op, vec![of_rule("r", name)]);
        assert_eq!(bench.codes(change(ReleaseOp::Rollback, "r7")), [200000]);
        assert_eq!(bench.of_rule(family), (vec![8, 9, 10], vec![11]), "{family:?}");
        assert_eq!(bench.codes(Command::PublishRules(family, vec![gray("r", "g1", "one")])), [200000]);
        assert_eq!(bench.codes(change(ReleaseOp::StopGray, "g1")), [200000]);
        assert_eq!(bench.of_rule(family), (vec![9, 10, 12], vec![11]), "{family:?}");
        let book = bench.catalog.rules.of(family);
        let removed = |rule_id: Option<&str>, rule_name: Option<&str>| {
            let text = |given: Option<&str>| given.map(str::to_owned);
            let filter = ReleaseFilter {
                rule_id: text(rule_id),
                rule_name: text(rule_name),
                only_active: false,
                ..ReleaseFilter::default()
            };
            book.removed_through_version_of(&filter)
        };
        let rule = book.named("a", "r").expect("created");
        assert_eq!((rule.versions, rule.removed_through), (12, 8), "versions go on");
        assert_eq!(removed(Some(&rule.id), None), Some(8));
        assert_eq!(removed(None, Some("r")), Some(8));
        assert_eq!(removed(None, Some("other")), Some(0));
        assert_eq!(removed(Some("none"), None), Some(0));
        assert_eq!(bench.reloaded(), bench.catalog);
    }
}

#[test]
fn what_is_too_much_goes_in_pieces_of_bounded_size() {
    let mut bench = Bench::founded();
    bench.keep(10_000);
    for _ in 0..1250 {
        bench.publish_file("");
    }
    for number in 0..150 {
        for content in ["a", "b", "c"] {
            bench.codes(publish(&format!("small-{number}"), content, ""));
        }
    }
    bench.codes(Command::Rules(Op::Create, vec![rule(Family::Routing, "r")]));
    for _ in 0..30 {
        bench.codes(Command::PublishRules(Family::Routing, vec![of_rule("r", "")]));
    }
    bench.keep(100);
    let before = bench.of_file(&key()).0.len();
    bench.publish_file("");
    assert_eq!(bench.of_file(&key()).0.len(), before + 1 - 10, "a change does its part and no more");
    bench.keep(1);
    assert_eq!(bench.of_file(&key()).0.len(), before - 9, "the setting alone removes nothing");
    let overfull = bench.catalog.overfull();
    assert_eq!((overfull.files.len(), overfull.rules.len()), (100, 1));
    // 1,240 of one file, one of each of 150 files, and 28 of the rule.
    let entries = bench.work_off();
    assert!((2..=5).contains(&entries), "{entries} entries");
    assert_eq!(bench.of_file(&key()), (vec![1250], vec![1251]));
    assert_eq!(bench.of_rule(Family::Routing), (vec![29], vec![30]));
    assert_eq!(bench.of_file(&ConfigKey::new("prod", "shop", "small-149")), (vec![2], vec![3]));
    assert_eq!(bench.reloaded(), bench.catalog);
    // Things without a surplus, or that do not exist, are ignored.
    let nothing = Overfull { files: vec![key(), ConfigKey::default()], rules: vec![(Family::Routing, "none".into())] };
    let applied = bench.apply(Command::PruneReleases(nothing));
    let is_request = |edit: &&Edit| matches!(Table::of_key(&edit.key), Ok(Table::Request));
    let removed = applied.edits.iter().filter(|edit| edit.value.is_none() && !is_request(edit));
    assert_eq!(removed.count(), 0);
}

#[test]
fn only_the_dead_are_removed() {
    let mut bench = Bench::founded();
    let checked = |host: &str| InstanceDraft {
        id: Some(host.into()),
        enable_health_check: Some(true),
        health_check: Some(HealthCheckDraft { kind: Some(CheckType::Heartbeat), heartbeat: None }),
        ..super::instances::instance("n", "s", host, 80)
    };
    let unchecked = InstanceDraft {
        id: Some("unchecked".into()),
        healthy: Some(false),
        ..super::instances::instance("n", "s", "u", 80)
    };
    let items = vec![checked("dead"), checked("back"), checked("well"), unchecked];
    assert_eq!(bench.codes(Command::Instances(Op::Create, items)), [200000; 4]);
    let health = |id: &str, healthy| InstanceHealth { id: id.into(), healthy, ..InstanceHealth::default() };
    bench.codes(Command::InstanceHealth(vec![health("dead", false), health("back", false)]));
    let found: Vec<_> = ["dead", "back", "well", "unchecked", "none"]
        .iter()
        .map(|id| {
            let revision = bench.catalog.instances.get(id).map(|one| one.revision.clone()).unwrap_or_default();
            DeadInstance { id: (*id).into(), revision }
        })
        .collect();
    bench.codes(Command::InstanceHealth(vec![health("back", true)]));
    bench.codes(Command::InstanceHealth(vec![health("back", false)]));
    assert_eq!(bench.codes(Command::RemoveDeadInstances(found)), [200000, 200002, 200002, 200002, 200000]);
    let left: Vec<_> = bench.catalog.instances.all_of("n", "s").map(|one| one.id.as_str()).collect();
    assert_eq!(left, ["back", "unchecked", "well"], "the one that was back in between is another finding");
    assert_eq!(bench.reloaded(), bench.catalog);
}

/// Golden bytes of the first version of these commands.
#[test]
fn golden_bytes_of_settings_and_retention() {
    let change = SettingsChange {
        releases_kept: Some(5),
        dead_instances_removed_after_s: Some(60),
        ..SettingsChange::default()
    };
    let overfull = Overfull { files: vec![ConfigKey::new("n", "g", "f")], rules: vec![(Family::Routing, "i".into())] };
    let dead = vec![DeadInstance { id: "i".into(), revision: "r".into() }];
    let rows = [
        (
            Command::Settings(change),
            "81a853657474696e677382ad72656c65617365735f6b65707405be646561645f696e7374616e6365735f72656d6f7665645f61667\
             465725f733c",
        ),
        (
            Command::PruneReleases(overfull),
            "81ad5072756e6552656c656173657382a566696c65739183a96e616d657370616365a16ea567726f7570a167a466696c65a166a57\
             2756c65739192a7526f7574696e67a169",
        ),
        (
            Command::RemoveDeadInstances(dead),
            "81b352656d6f766544656164496e7374616e6365739182a26964a169a87265766973696f6ea172",
        ),
    ];
    for (command, golden) in rows {
        assert_eq!(hex::encode(pack::to_bytes(&command)), golden, "{command:?}");
        let read: Command = pack::from_bytes(&hex::decode(golden).expect("hex")).expect("readable for ever");
        assert_eq!(read, command);
    }
}
