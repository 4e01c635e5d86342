//! Removal of dead instances, reserved names, and publications that are proposed again.

use super::trust::grant;
use super::*;
use crate::model::config_file::{Format, Judged};
use crate::model::content::Content;
use crate::model::grant::Role;
use crate::model::instance::RemovedAfter;
use crate::model::wire::Uint32;

fn removed_after(seconds: Option<i64>) -> Option<RemovedAfter> {
    seconds.map(|seconds| serde_json::from_value(serde_json::json!(seconds)).expect("a number"))
}

#[test]
fn the_nearest_says_when_a_dead_instance_is_removed() {
    // Settings, service and instance, then the effective value.
    let rows = [
        (0, None, None, None),
        (60, None, None, Some(60)),
        (60, Some(30), None, Some(30)),
        (60, Some(0), None, None),
        (60, Some(-1), None, Some(60)),
        (60, Some(30), Some(10), Some(10)),
        (60, Some(30), Some(0), None),
        (60, Some(30), Some(-1), Some(30)),
        (0, None, Some(10), Some(10)),
    ];
    for (of_all, of_service, of_instance, expected) in rows {
        let mut bench = Bench::founded();
        let change = SettingsChange { dead_instances_removed_after_s: Some(of_all), ..SettingsChange::default() };
        bench.codes(Command::Settings(change));
        let service = ServiceDraft { dead_instances_removed_after_s: removed_after(of_service), ..service("n", "s") };
        let instance = InstanceDraft {
            id: Some("i".into()),
            dead_removed_after_s: removed_after(of_instance),
            ..super::instances::instance("n", "s", "h", 80)
        };
        let commands =
            [Command::Services(Op::Create, vec![service]), Command::Instances(Op::Create, vec![instance.clone()])];
        for command in commands {
            assert_eq!(bench.codes(command), [200000]);
        }
        let kept = bench.catalog.instances.get("i").expect("registered").clone();
        assert_eq!(bench.catalog.removes_after(&kept), expected, "{of_all} {of_service:?} {of_instance:?}");
        assert_eq!(bench.reloaded(), bench.catalog);
        // An update without the field keeps it; a registration without it removes it.
        let update = InstanceDraft { dead_removed_after_s: None, weight: Some(Uint32(7)), ..instance.clone() };
        bench.codes(Command::Instances(Op::Update, vec![update.clone()]));
        let updated = bench.catalog.instances.get("i").expect("there");
        assert_eq!((updated.weight, updated.dead_removed_after_s), (7, kept.dead_removed_after_s));
        bench.codes(Command::Instances(Op::Create, vec![update]));
        let again = bench.catalog.instances.get("i").expect("there");
        assert!(again.dead_removed_after_s.is_unsaid());
    }
}

#[test]
fn seconds_are_said_within_bounds() {
    for (seconds, is_taken) in [(-2, false), (-1, true), (0, true), (31_536_000, true), (31_536_001, false)] {
        let service =
            ServiceDraft { dead_instances_removed_after_s: removed_after(Some(seconds)), ..service("n", "s") };
        let instance = InstanceDraft {
            dead_removed_after_s: removed_after(Some(seconds)),
            ..super::instances::instance("n", "s", "h", 80)
        };
        for verdict in [service.check_new(), instance.check_new(), instance.check_update()] {
            assert_eq!(verdict.is_ok(), is_taken, "{seconds}");
            let told = verdict.err().is_none_or(|refusal| refusal.detail.contains("removed_after_s has to be"));
            assert!(told, "{seconds}");
        }
    }
}

/// Reserved names as namespace and as name. Below the level they can still be created, and existing ones work.
#[test]
fn nothing_new_is_called_as_a_step_in_a_path() {
    let instance = || super::instances::instance("..", "s", "h", 80);
    let group = |namespace: &str, name: &str| ConfigGroupDraft {
        namespace: namespace.into(),
        name: name.into(),
        ..ConfigGroupDraft::default()
    };
    let in_group = |group: &str| ConfigFileDraft { group: group.into(), ..file("a", "1") };
    let namespace = |name: &str| NamespaceDraft { name: name.into(), ..NamespaceDraft::default() };
    let alias = AliasDraft {
        service: Some("s".into()),
        namespace: Some("n".into()),
        alias: Some(".".into()),
        alias_namespace: Some("n".into()),
        ..AliasDraft::default()
    };
    let publication = |group: &str| ConfigPublish {
        file: in_group(group),
        release: ConfigReleaseDraft { group: group.into(), ..release("a", "") },
        md5: None,
    };
    let make = [
        (Command::Namespaces(Op::Create, vec![namespace("."), namespace("...")]), vec![400110, 200000]),
        (Command::Services(Op::Create, vec![service("..", "s"), service("n", "..")]), vec![400110, 400120]),
        (Command::Services(Op::Create, vec![service("n", "s"), service("n", ".s")]), vec![200000, 200000]),
        (Command::Aliases(Op::Create, vec![alias]), vec![400133]),
        (Command::Instances(Op::Create, vec![instance()]), vec![400110]),
        (Command::ConfigGroups(Op::Create, vec![group("n", "."), group(".", "g")]), vec![400801, 400110]),
        (Command::ConfigFiles(Op::Create, vec![in_group(".."), in_group("..g")]), vec![400801, 200000]),
        (Command::ConfigCreateAndPublish(vec![publication(".")]), vec![400801]),
    ];
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Admin, "*", "*")]);
    for (command, codes) in &make {
        assert_eq!(&bench.by("eva", command.clone()), codes, "{command:?}");
    }
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn a_publish_that_comes_again_is_written_down_once() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Admin, "*", "*")]);
    bench.by("eva", Command::ConfigFiles(Op::Create, vec![file("a", "now")]));
    let publish = |content: &str, comes_again| {
        let judged = Judged { comes_again, ..Judged::new(&Content::from(content), Format::Properties) };
        ConfigReleaseDraft { judged: Some(judged), ..release("a", "") }
    };
    let command = |drafts| Command::ConfigPublish(drafts);
    let before = bench.catalog.trail.rows();
    // The second item is recorded even if the first one is repeated.
    assert_eq!(bench.by("eva", command(vec![publish("then", true), release("none", "")])), [409000, 400202]);
    assert_eq!(bench.catalog.trail.rows(), before + 1);
    assert_eq!(bench.by("eva", command(vec![publish("then", false)])), [409000]);
    assert_eq!(bench.catalog.trail.rows(), before + 2, "nobody asks again");
    assert_eq!(bench.by("eva", command(vec![publish("now", true)])), [200000]);
    assert_eq!(bench.catalog.trail.rows(), before + 3);
    assert_eq!(bench.reloaded(), bench.catalog);
}
