//! Properties: apply is a function of the log, rows and memory never part, a batch is its items one
//! by one.

use proptest::prelude::*;

use super::rules::{gray, of_rule, rule_for};
use super::*;
use crate::catalog::configs::FileFilter;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, RuleDraft};

fn some_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c.properties", "C", "c"]).prop_map(str::to_owned)
}

fn some_text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop::sample::select(vec!["", "x", "k=v"]).prop_map(str::to_owned))
}

fn some_op() -> impl Strategy<Value = Op> {
    prop::sample::select(vec![Op::Create, Op::Update, Op::Delete])
}

fn some_service() -> impl Strategy<Value = ServiceDraft> {
    (some_name(), some_name(), some_text(), prop::option::of(some_name()))
        .prop_map(|(namespace, name, comment, id)| ServiceDraft { comment, id, ..service(&namespace, &name) })
}

fn some_publish() -> impl Strategy<Value = ConfigPublish> {
    (some_name(), some_text(), some_text()).prop_map(|(name, content, release_name)| ConfigPublish {
        file: ConfigFileDraft { content, ..file(&name, "") },
        release: release(&name, release_name.as_deref().unwrap_or("")),
        md5: None,
    })
}

fn some_release() -> impl Strategy<Value = ConfigReleaseDraft> {
    (some_name(), prop::sample::select(vec!["x", "k=v", "none"])).prop_map(|(file, name)| release(&file, name))
}

fn some_family() -> impl Strategy<Value = Family> {
    prop::sample::select(Family::ALL)
}

fn some_release_op() -> impl Strategy<Value = ReleaseOp> {
    prop::sample::select(vec![ReleaseOp::Rollback, ReleaseOp::StopGray, ReleaseOp::Delete])
}

fn some_rule() -> impl Strategy<Value = RuleDraft> {
    (some_family(), some_name(), some_name(), prop::option::of(some_name()), prop::option::of(any::<bool>())).prop_map(
        |(family, name, service, id, enable)| {
            let mut draft = rule_for(family, &name, &service);
            (draft.head.id, draft.head.enable) = (id, enable);
            draft
        },
    )
}

fn some_rule_release() -> impl Strategy<Value = RuleReleaseDraft> {
    (some_name(), prop::option::of(some_name()), any::<bool>()).prop_map(|(rule, name, is_gray)| {
        let draft = if is_gray { gray(&rule, "", "one") } else { of_rule(&rule, "") };
        RuleReleaseDraft { release_name: name, ..draft }
    })
}

fn some_command() -> impl Strategy<Value = Command> {
    let namespace = some_name().prop_map(|name| NamespaceDraft { name, ..NamespaceDraft::default() });
    let group = (some_name(), some_name(), some_text()).prop_map(|(namespace, name, comment)| ConfigGroupDraft {
        namespace,
        name,
        comment,
        ..ConfigGroupDraft::default()
    });
    let config_file =
        (some_name(), some_text()).prop_map(|(name, content)| ConfigFileDraft { content, ..file(&name, "") });
    let several = 1..4_usize;
    let alias = (some_name(), some_name(), some_text()).prop_map(|(alias, service, comment)| AliasDraft {
        alias: Some(alias),
        service: Some(service),
        namespace: Some("a".into()),
        comment,
        ..AliasDraft::default()
    });
    prop_oneof![
        (some_op(), prop::collection::vec(some_rule(), 1..4_usize)).prop_map(|(op, items)| Command::Rules(op, items)),
        (some_family(), prop::collection::vec(some_rule_release(), 1..4_usize))
            .prop_map(|(family, items)| Command::PublishRules(family, items)),
        (some_family(), some_release_op(), prop::collection::vec(some_rule_release(), 1..4_usize))
            .prop_map(|(family, op, items)| Command::RuleReleases(family, op, items)),
        (some_op(), prop::collection::vec(alias, 1..4_usize)).prop_map(|(op, items)| Command::Aliases(op, items)),
        (some_op(), prop::collection::vec(namespace, several.clone()))
            .prop_map(|(op, items)| Command::Namespaces(op, items)),
        (some_op(), prop::collection::vec(some_service(), several.clone()))
            .prop_map(|(op, items)| Command::Services(op, items)),
        (some_op(), prop::collection::vec(group, several.clone()))
            .prop_map(|(op, items)| Command::ConfigGroups(op, items)),
        (some_op(), prop::collection::vec(config_file, several.clone()))
            .prop_map(|(op, items)| Command::ConfigFiles(op, items)),
        prop::collection::vec(some_publish(), several.clone()).prop_map(Command::ConfigCreateAndPublish),
        prop::collection::vec(some_release(), several.clone()).prop_map(Command::ConfigPublish),
        prop::collection::vec(some_release(), several.clone()).prop_map(Command::ConfigRollback),
        prop::collection::vec(some_release(), several).prop_map(Command::ConfigDeleteReleases),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Two catalogs fed the same entries are equal to the byte, and so is one built from the rows.
    #[test]
    fn apply_is_a_function_of_the_log(commands in prop::collection::vec(some_command(), 1..40)) {
        let (mut one, mut two) = (Bench::default(), Bench::default());
        let mut newest_id = 0;
        for command in commands {
            let (first, second) = (one.apply(command.clone()), two.apply(command));
            prop_assert_eq!(first, second);
            let id = one.catalog.configs.newest_notification_id();
            prop_assert!(id >= newest_id, "ids never go down");
            newest_id = id;
        }
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(one.reloaded(), one.catalog);
    }

    /// A batch does what its items do one by one.
    #[test]
    fn a_batch_is_its_items(services in prop::collection::vec((some_op(), some_service()), 1..20)) {
        let (mut whole, mut single) = (Bench::default(), Bench::default());
        for (op, _) in services.iter().take(1) {
            let items: Vec<_> = services.iter().map(|(_, item)| item.clone()).collect();
            let together = whole.codes(Command::Services(*op, items.clone()));
            let apart: Vec<u32> = items.into_iter().flat_map(|item| single.codes(Command::Services(*op, vec![item]))).collect();
            prop_assert_eq!(together, apart);
        }
        let names = |bench: &Bench| -> Vec<_> {
            let listed = bench.catalog.services.list(&ServiceFilter::default(), Page::ALL);
            let mut names: Vec<_> = listed.rows.iter().map(|one| (one.namespace.clone(), one.name.clone(), one.comment.clone())).collect();
            names.sort();
            names
        };
        prop_assert_eq!(names(&whole), names(&single));
    }

    /// At most one release of a file is active, versions of a file are never used twice.
    #[test]
    fn one_release_is_active(commands in prop::collection::vec(some_command(), 1..60)) {
        let mut bench = Bench::default();
        let mut seen: BTreeMap<(ConfigKey, u64), String> = BTreeMap::new();
        for command in commands {
            bench.apply(command);
            let releases = bench.catalog.configs.list_releases(&FileFilter::default(), Page::ALL).rows;
            for release in &releases {
                let first = seen.entry((release.key.clone(), release.version)).or_insert_with(|| release.content.to_string());
                prop_assert_eq!(&*release.content, first.as_str());
            }
            let mut active: Vec<_> = releases.iter().filter(|release| release.active).map(|release| &release.key).collect();
            let count = active.len();
            active.dedup();
            active.sort();
            active.dedup();
            prop_assert_eq!(active.len(), count);
        }
    }
}
