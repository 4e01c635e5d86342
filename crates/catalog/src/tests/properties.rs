//! Properties: apply is a function of the log, rows and memory agree, and a batch equals its items one by one.

use proptest::prelude::*;

use super::access_keys::access_key;
use super::contents::is_held_once;
use super::instances::instance;
use super::rules::{gray, of_rule, rule_for};
use super::*;
use crate::catalog::configs::FileFilter;
use crate::catalog::retention::Overfull;
use crate::catalog::rules::RuleFilter;
use crate::model::access_key::{AccessKeyDraft, AccessMode, SealedSecret};
use crate::model::release::{ReleaseOp, ReleaseState, ReleaseType};
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
    (some_name(), prop::sample::select(vec!["x", "k=v", "none"]), any::<bool>()).prop_map(|(file, name, is_gray)| {
        let gray = gray("", "", "one");
        ConfigReleaseDraft {
            release_type: is_gray.then_some(gray.release_type).flatten(),
            beta_labels: is_gray.then_some(gray.client_labels).flatten(),
            ..release(&file, name)
        }
    })
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

fn some_instance() -> impl Strategy<Value = InstanceDraft> {
    let given = (prop::option::of(some_name()), some_name(), some_name(), some_name());
    let state = (prop::option::of(any::<bool>()), prop::option::of(any::<bool>()), prop::option::of(any::<bool>()));
    (given, state, some_text()).prop_map(|((id, namespace, service, host), (healthy, isolate, checked), version)| {
        InstanceDraft {
            id,
            healthy,
            isolate,
            enable_health_check: checked,
            version,
            ..instance(&namespace, &service, &host, 80)
        }
    })
}

fn some_access_key() -> impl Strategy<Value = AccessKeyDraft> {
    let mode = prop::sample::select(vec![AccessMode::Off, AccessMode::Observe, AccessMode::Enforce]);
    (some_name(), some_name(), prop::option::of(mode), some_text(), some_text()).prop_map(
        |(app_id, name, mode, comment, secret)| AccessKeyDraft {
            mode,
            comment,
            secret: secret.map(SealedSecret),
            ..access_key(&app_id, &name)
        },
    )
}

/// Generates health changes with ids of [`some_instance`], or unknown ones.
fn some_health() -> impl Strategy<Value = InstanceHealth> {
    let some_revision = prop::option::of(some_name()).prop_map(Option::unwrap_or_default);
    (some_name(), any::<bool>(), some_revision).prop_map(|(id, healthy, revision)| InstanceHealth {
        id,
        healthy,
        revision,
    })
}

pub(super) fn some_command() -> impl Strategy<Value = Command> {
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
        prop::collection::vec(some_release(), several.clone()).prop_map(Command::ConfigStopGray),
        prop::collection::vec(some_release(), several.clone()).prop_map(Command::ConfigDeleteReleases),
        (some_op(), prop::collection::vec(some_instance(), several.clone()))
            .prop_map(|(op, items)| Command::Instances(op, items)),
        prop::collection::vec(some_instance(), several.clone()).prop_map(Command::InstancesDeleteHost),
        prop::collection::vec(some_instance(), several.clone()).prop_map(Command::InstancesIsolateHost),
        prop::collection::vec(some_health(), several.clone()).prop_map(Command::InstanceHealth),
        (some_op(), prop::collection::vec(some_access_key(), several))
            .prop_map(|(op, items)| Command::AccessKeys(op, items)),
    ]
}

/// Generates low limits, so that retention has work.
fn some_settings() -> impl Strategy<Value = Command> {
    (1..4_u64)
        .prop_map(|kept| Command::Settings(SettingsChange { releases_kept: Some(kept), ..SettingsChange::default() }))
}

/// Generates commands, including settings and pruning.
fn some_history(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Command>> {
    let command =
        prop_oneof![12 => some_command(), 1 => some_settings(), 2 => Just(Command::PruneReleases(Overfull::default()))];
    prop::collection::vec(command, length)
}

/// Replaces the things to be pruned by those that have a surplus at that moment.
fn meant(catalog: &Catalog, command: Command) -> Command {
    match command {
        Command::PruneReleases(_) => Command::PruneReleases(catalog.overfull()),
        other => other,
    }
}

/// Returns the number of inactive releases of each file and rule.
fn inactive(catalog: &Catalog) -> Vec<usize> {
    let releases = catalog.configs.list_releases(&FileFilter::default(), &Page::ALL).rows;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for release in releases.iter().filter(|release| !release.active) {
        *counts.entry(release.key.to_string()).or_default() += 1;
    }
    for family in Family::ALL {
        let book = catalog.rules.of(*family);
        for rule in book.list(&RuleFilter::default(), &Page::ALL).rows {
            let count = book.releases_of(&rule.id).filter(|release| !release.active).count();
            counts.insert(format!("{family:?} {}", rule.id), count);
        }
    }
    counts.into_values().collect()
}

/// Splits a batch into one command per item.
fn items_of(command: &Command) -> Vec<Command> {
    fn each<T: Clone>(items: &[T], command: impl Fn(Vec<T>) -> Command) -> Vec<Command> {
        items.iter().map(|item| command(vec![item.clone()])).collect()
    }
    match command {
        Command::Namespaces(op, items) => each(items, |item| Command::Namespaces(*op, item)),
        Command::Services(op, items) => each(items, |item| Command::Services(*op, item)),
        Command::Aliases(op, items) => each(items, |item| Command::Aliases(*op, item)),
        Command::Rules(op, items) => each(items, |item| Command::Rules(*op, item)),
        Command::PublishRules(family, items) => each(items, |item| Command::PublishRules(*family, item)),
        Command::RuleReleases(family, op, items) => each(items, |item| Command::RuleReleases(*family, *op, item)),
        Command::ConfigGroups(op, items) => each(items, |item| Command::ConfigGroups(*op, item)),
        Command::ConfigFiles(op, items) => each(items, |item| Command::ConfigFiles(*op, item)),
        Command::ConfigPublish(items) => each(items, Command::ConfigPublish),
        Command::ConfigCreateAndPublish(items) => each(items, Command::ConfigCreateAndPublish),
        Command::ConfigRollback(items) => each(items, Command::ConfigRollback),
        Command::ConfigStopGray(items) => each(items, Command::ConfigStopGray),
        Command::ConfigDeleteReleases(items) => each(items, Command::ConfigDeleteReleases),
        Command::Instances(op, items) => each(items, |item| Command::Instances(*op, item)),
        Command::InstancesDeleteHost(items) => each(items, Command::InstancesDeleteHost),
        Command::InstancesIsolateHost(items) => each(items, Command::InstancesIsolateHost),
        Command::InstanceHealth(items) => each(items, Command::InstanceHealth),
        Command::AccessKeys(op, items) => each(items, |item| Command::AccessKeys(*op, item)),
        alone => vec![alone.clone()],
    }
}

impl Bench {
    /// Returns the row keys of things with a name of their own. Ids are drawn by entry and position, and generated
    /// names of config releases contain the second, so both depend on the batches.
    fn names(&self) -> Vec<Vec<u8>> {
        let named = [
            Table::Namespace,
            Table::Service,
            Table::Alias,
            Table::ConfigGroup,
            Table::ConfigFile,
            Table::ConfigVersion,
            Table::Instance,
            Table::AccessKey,
        ];
        self.rows.keys().filter(|key| named.contains(&Table::of_key(key).expect("a table"))).cloned().collect()
    }
}

proptest! {
    #![proptest_config(crate::test_seed::cases(128))]

    /// Two catalogs with the same entries are equal to the byte, and so is one loaded from the rows.
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

    /// The same with retention: memory equals what the rows load, contents are stored once, surpluses are found as by
    /// counting, and pruning leaves the configured number.
    #[test]
    fn retention_keeps_memory_and_rows_together(commands in some_history(1..40)) {
        let (mut one, mut two) = (Bench::founded(), Bench::founded());
        for command in commands {
            let command = meant(&one.catalog, command);
            let prunes = matches!(command, Command::PruneReleases(_));
            let (first, second) = (one.apply(command.clone()), two.apply(command));
            prop_assert_eq!(first, second);
            let kept = usize::try_from(one.catalog.settings.releases_kept).expect("a small number");
            let overfull = one.catalog.overfull();
            let surplus = inactive(&one.catalog).into_iter().filter(|count| *count > kept).count();
            prop_assert_eq!(overfull.files.len() + overfull.rules.len(), surplus);
            prop_assert!(!prunes || surplus == 0);
            prop_assert!(is_held_once(&one.catalog));
        }
        let reloaded = one.reloaded();
        prop_assert!(is_held_once(&reloaded));
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(reloaded, one.catalog);
    }

    /// A caller's command is recorded with it: memory equals what the rows load, including the trail.
    #[test]
    fn what_is_asked_for_is_written_down(commands in prop::collection::vec((some_command(), any::<bool>()), 1..40)) {
        let (mut one, mut two) = (Bench::trusting(), Bench::trusting());
        let mut before = one.catalog.trail.rows();
        for (command, itself) in commands {
            let items = items_of(&command).len() as u64;
            let is_health = matches!(command, Command::InstanceHealth(_));
            let deletes = format!("{command:?}").contains("Delete");
            let command = if is_health { command } else { super::trust::asked_by("admin", itself, command) };
            let (first, second) = (one.apply(command.clone()), two.apply(command));
            let one_outcomes = first.outcomes.clone();
            prop_assert_eq!(first, second);
            let (rows, outcomes) = (one.catalog.trail.rows(), &one_outcomes);
            // Refusals of one kind share a row, and the deletion of a missing thing leaves none.
            let is_refused = outcomes.iter().any(|outcome| !outcome.code.is_success());
            match () {
                () if is_health || itself => prop_assert_eq!(rows, before),
                () if is_refused || deletes => prop_assert!(rows - before <= items),
                () => prop_assert_eq!(rows - before, items),
            }
            before = rows;
        }
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(one.reloaded(), one.catalog);
    }

    /// A batch has the same outcomes and results as its items one by one.
    #[test]
    fn a_batch_is_its_items(commands in prop::collection::vec(some_command(), 1..30)) {
        let (mut whole, mut single) = (Bench::default(), Bench::default());
        for command in commands {
            let apart: Vec<u32> = items_of(&command).into_iter().flat_map(|item| single.codes(item)).collect();
            prop_assert_eq!(whole.codes(command), apart);
        }
        prop_assert_eq!(whole.names(), single.names());
    }

    /// The counts stored per service equal those of its instances.
    #[test]
    fn services_count_their_instances(commands in prop::collection::vec(some_command(), 1..60)) {
        let mut bench = Bench::default();
        for command in commands {
            let before = bench.catalog.instances.clone();
            let applied = bench.apply(command);
            let instances = &bench.catalog.instances;
            let mut total = 0;
            for service in bench.catalog.services.list(&ServiceFilter::default(), instances, &Page::ALL).rows {
                let (namespace, name) = (&service.namespace, &service.name);
                let all: Vec<_> = instances.all_of(namespace, name).collect();
                let counts = instances.of_service(namespace, name);
                let callable = all.iter().filter(|one| one.healthy && !one.isolate).count();
                let isolated = all.iter().filter(|one| one.isolate).count();
                prop_assert_eq!((counts.total, counts.healthy, counts.isolated), (all.len(), callable, isolated));
                let change = Change::Instances { namespace: namespace.clone(), service: name.clone() };
                let has_changed = before.fold(namespace, name) != instances.fold(namespace, name);
                prop_assert_eq!(applied.changes.contains(&change), has_changed);
                total += counts.total;
            }
            prop_assert_eq!(instances.counts().total, total, "no instance without its service");
        }
    }

    /// A view keeps the state of its moment, whatever is applied afterwards.
    #[test]
    fn a_view_is_of_one_moment(commands in prop::collection::vec(some_command(), 1..40)) {
        let mut bench = Bench::default();
        let mut seen = Vec::new();
        for command in commands {
            bench.apply(command);
            seen.push((bench.catalog.view(), bench.reloaded()));
        }
        for (view, rebuilt) in seen {
            prop_assert_eq!(view, rebuilt.view());
        }
    }

    /// At most one normal release of a file is active, and versions of a file are never reused.
    #[test]
    fn one_release_is_active(commands in prop::collection::vec(some_command(), 1..60)) {
        let mut bench = Bench::default();
        let mut seen: BTreeMap<(ConfigKey, u64), String> = BTreeMap::new();
        for command in commands {
            bench.apply(command);
            let releases = bench.catalog.configs.list_releases(&FileFilter::default(), &Page::ALL).rows;
            for release in &releases {
                let first = seen.entry((release.key.clone(),
                    release.version)).or_insert_with(|| format!("{:?}", release.content.digest()));
                prop_assert_eq!(format!("{:?}", release.content.digest()), first.as_str());
            }
            let mut active: Vec<_> = releases
                .iter()
                .filter(|release| release.active && release.release_type == ReleaseType::Normal)
                .map(|release| &release.key)
                .collect();
            let count = active.len();
            active.dedup();
            active.sort();
            active.dedup();
            prop_assert_eq!(active.len(), count);
        }
    }

    /// At most one normal release of a rule is active, versions of a rule are never reused, and the content of a
    /// release never changes.
    #[test]
    fn one_normal_release_of_a_rule_is_active(commands in prop::collection::vec(some_command(), 1..60)) {
        let mut bench = Bench::default();
        let mut seen: BTreeMap<(Family, String, u64), (String, String)> = BTreeMap::new();
        for command in commands {
            bench.apply(command);
            for family in Family::ALL {
                let book = bench.catalog.rules.of(*family);
                for rule in book.list(&RuleFilter::default(), &Page::ALL).rows {
                    let releases: Vec<_> = book.releases_of(&rule.id).collect();
                    let normal = releases.iter().filter(|release| release.state() == ReleaseState::NormalActive);
                    prop_assert!(normal.count() <= 1);
                    for release in releases {
                        prop_assert!(release.version <= rule.versions);
                        let key = (*family, format!("{} {:?}", rule.id, rule.created), release.version);
                        let held = (release.id.clone(), release.rule.revision.clone());
                        prop_assert_eq!(seen.entry(key).or_insert_with(|| held.clone()), &held);
                    }
                }
            }
        }
    }
}
