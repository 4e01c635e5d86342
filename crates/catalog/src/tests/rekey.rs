//! A cluster created from an earlier state: what is carried over, what is not, and that nothing is issued twice.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::properties::some_command;
use super::rules::{gray, of_rule, rule};
use super::*;
use crate::catalog::configs::FileFilter;
use crate::catalog::rekey::{INDEX_LEAP, LEAP, Rebirth, index_after, notification_start};
use crate::model::rule::Family;

/// First notification id.
const START: u32 = 77_000_000;

fn restored() -> Rebirth {
    Rebirth { notification_id: START, ..Rebirth::of("new") }
}

impl Bench {
    /// Returns the bench of the new cluster.
    fn reborn(&self, rebirth: &Rebirth) -> Bench {
        let floors = rebirth.floors().map(|floor| (floor.key, floor.value.expect("a row")));
        let index = index_after(self.index).expect("there is room");
        let mut reborn = Bench { index, rows: floors.into(), ..Bench::default() };
        for (key, value) in &self.rows {
            if let Some(value) = rebirth.row(key, value).expect("a row that apply made") {
                reborn.rows.insert(key.clone(), value.into_owned());
            }
        }
        reborn.catalog = reborn.reloaded();
        reborn
    }

    /// Returns every known version of files and rules.
    fn versions(&self) -> BTreeSet<(String, u64)> {
        let files = self.catalog.configs.list_releases(&FileFilter::default(), &Page::ALL).rows;
        let files = files.into_iter().map(|release| (release.key.to_string(), release.version));
        let rules = Family::ALL.iter().flat_map(|family| {
            let book = self.catalog.rules.of(*family);
            let rules = book.list(&crate::catalog::rules::RuleFilter::default(), &Page::ALL).rows;
            rules.into_iter().flat_map(|rule| book.releases_of(&rule.id).cloned().collect::<Vec<_>>())
        });
        files.chain(rules.map(|release| (release.rule.id.clone(), release.version))).collect()
    }
}

fn founded() -> Bench {
    let mut bench = Bench::default();
    let admin = Founder::administrator("u1", "h", Timestamp(0));
    bench.apply(Command::Bootstrap { cluster_id: "old".into(), admin, level: Level::FIRST });
    for node_id in 1..=3 {
        bench.apply(Command::Announce(NodeRecord::new(node_id, format!("i{node_id}"), "a:1".into(), "c:1".into())));
    }
    bench.apply(Command::SignIn {
        hash: TokenHash("t".into()),
        user_id: "u1".into(),
        password: PasswordHash::default(),
        from: Default::default(),
    });
    bench
}

#[test]
fn users_stay_and_sessions_nodes_and_requests_do_not() {
    let bench = founded();
    let admin = bench.catalog.access.user_named("admin").expect("an administrator");
    let reborn = bench.reborn(&restored());
    assert_eq!(reborn.catalog.access.user_named("admin"), Some(admin));
    assert_eq!((reborn.catalog.nodes.cluster_id(), reborn.catalog.level()), (Some("new"), Level::FIRST));
    assert_eq!((reborn.catalog.access.token_count(), reborn.catalog.nodes.get(1)), (0, None));
    let tables: BTreeSet<u8> = reborn.rows.keys().map(|key| key[0]).collect();
    for gone in [Table::Token, Table::Request, Table::Node] {
        assert!(bench.rows.keys().any(|key| key[0] == gone as u8), "{gone:?} was there");
        assert!(!tables.contains(&(gone as u8)), "{gone:?} is left behind");
    }
    let rebirth =
        |members: &[u64]| Rebirth { survivor: Some(2), members: members.iter().copied().collect(), ..restored() };
    let mut survivor = bench.reborn(&rebirth(&[2]));
    let is_removed = |id: u64| survivor.catalog.nodes.get(id).map(|node| node.removed);
    assert_eq!((1..=3).map(is_removed).collect::<Vec<_>>(), [Some(true), Some(false), Some(true)]);
    let mut comes_back =
        |id: u64| survivor.codes(Command::Announce(NodeRecord::new(id, format!("i{id}"), "b:1".into(), "c:1".into())));
    assert_eq!((comes_back(1), comes_back(2)), (vec![409000], vec![200000]));
    let with_another = bench.reborn(&rebirth(&[2, 3]));
    let is_removed = |id: u64| with_another.catalog.nodes.get(id).map(|node| node.removed);
    assert_eq!((1..=3).map(is_removed).collect::<Vec<_>>(), [Some(true), Some(false), None], "node 3 is a new one");
}

#[test]
fn what_clients_compare_goes_up_and_goes_on_from_there() {
    let mut bench = founded();
    let key = ConfigKey::new("prod", "shop", "a");
    bench.apply(publish("a", "k=1", "one"));
    bench.apply(publish("a", "k=2", "two"));
    bench.apply(publish("gone", "k=1", ""));
    bench.apply(Command::ConfigFiles(Op::Delete, vec![file("gone", "")]));
    bench.apply(Command::Rules(Op::Create, vec![rule(Family::Routing, "r")]));
    bench.apply(Command::PublishRules(Family::Routing, vec![of_rule("r", "one"), gray("r", "g", "z")]));
    let ids = |bench: &Bench, file: &str| bench.catalog.configs.notification_id("prod", "shop", file).map(u64::from);
    let rule_id = |bench: &Bench| bench.catalog.rules.of(Family::Routing).named("a", "r").expect("kept").id.clone();
    let versions = |bench: &Bench| {
        let book = bench.catalog.rules.of(Family::Routing);
        let mut versions: Vec<_> = book.releases_of(&rule_id(bench)).map(|release| release.version).collect();
        versions.sort();
        versions
    };
    let mut reborn = bench.reborn(&restored());
    for file in ["a", "gone"] {
        assert_eq!((ids(&bench, file).is_some(), ids(&reborn, file)), (true, Some(START.into())), "{file}");
    }
    let found = reborn.catalog.configs.find("prod", "shop", "a", &ClientLabels::default()).expect("in force");
    assert_eq!((found.release_key.clone(), &*found.content), (format!("prod-shop-a-{}.new", 2 + LEAP), "k=2"));
    assert_eq!((versions(&bench), versions(&reborn)), (vec![1, 2], vec![1 + LEAP, 2 + LEAP]));
    reborn.apply(publish("a", "k=3", "three"));
    reborn.apply(publish("gone", "k=2", ""));
    assert_eq!(reborn.catalog.configs.highest_version(&key), 3 + LEAP);
    assert_eq!(reborn.catalog.configs.highest_version(&ConfigKey::new("prod", "shop", "gone")), 2 + LEAP);
    assert_eq!((ids(&reborn, "a"), ids(&reborn, "gone")), (Some(u64::from(START) + 1), Some(u64::from(START) + 2)));
    let next = of_rule("r", "next");
    let stop =
        Command::RuleReleases(Family::Routing, crate::model::release::ReleaseOp::StopGray, vec![gray("r", "g", "z")]);
    assert_eq!(
        (reborn.codes(stop), reborn.codes(Command::PublishRules(Family::Routing, vec![next]))),
        (vec![200000], vec![200000])
    );
    assert_eq!(versions(&reborn), [1 + LEAP, 2 + LEAP, 3 + LEAP]);
}

/// Things created after the state was saved: their versions and ids are not issued again either.
#[test]
fn files_that_came_after_the_state_get_versions_and_ids_of_their_own() {
    let key = ConfigKey::new("prod", "shop", "later");
    {
        let (bench, version) = (founded(), 2 * LEAP + 1);
        let second = Rebirth { notification_id: START + 9, ..Rebirth::of("second") };
        let mut reborn = bench.reborn(&restored()).reborn(&second);
        reborn.apply(publish("later", "k=1", ""));
        assert_eq!(reborn.catalog.configs.highest_version(&key), version);
        let id = reborn.catalog.configs.notification_id("prod", "shop", "later").map(u64::from);
        assert_eq!(id, Some(u64::from(START) + 10));
        let found = reborn.catalog.configs.find("prod", "shop", "later", &ClientLabels::default()).expect("in force");
        assert_eq!(found.release_key, format!("prod-shop-later-{version}.second"));
        assert_eq!(reborn.reloaded(), reborn.catalog);
    }
}

/// A trial restore, then the real one: what clients got from the first has no meaning in the second.
#[test]
fn two_clusters_of_one_state_have_no_release_key_and_no_notification_id_in_common() {
    {
        let mut bench = Bench::founded();
        bench.apply(publish("a", "k=1", "one"));
        bench.apply(publish("gray", "k=1", "one"));
        let life = |cluster_id: &str, notification_id: u32, content: &str| {
            let mut life = bench.reborn(&Rebirth { notification_id, ..Rebirth::of(cluster_id) });
            let mut seen = Vec::new();
            for turn in 0..3 {
                let found = life.catalog.configs.find("prod", "shop", "a", &ClientLabels::default());
                let key = found.expect("in force").release_key.clone();
                seen.push((key, life.catalog.configs.notification_id("prod", "shop", "a").expect("an id")));
                life.apply(publish("a", &format!("k={content}-{turn}"), &format!("{turn}")));
            }
            assert_eq!(life.reloaded(), life.catalog);
            seen
        };
        let (first, second) = (life("1234567890", 5_000_000, "x"), life("abcdefghij", 900_000, "y"));
        assert_eq!(first[0], (format!("prod-shop-a-{}.12345678", 1 + LEAP), 5_000_000));
        assert_eq!(second[2], (format!("prod-shop-a-{}.abcdefgh", 3 + LEAP), 900_002));
        for ((key, id), (other_key, other_id)) in first.iter().zip(&second) {
            assert!(key != other_key && id != other_id, "{key} {id}, {other_key} {other_id}");
        }
    }
}

/// Clients decode the ids as signed 32-bit numbers.
#[test]
fn notification_ids_begin_where_half_of_them_are_left() {
    for newest in [0, 1, 500_000_000, 938_000_000, 939_000_000, 1 << 30, i32::MAX as u32, u32::MAX] {
        let starts =
            [0, 1, 12_345_678, 1 << 27, 1 << 30, u32::MAX - 1, u32::MAX].map(|drawn| notification_start(newest, drawn));
        for start in starts {
            assert!((LEAP as u32..1 << 30).contains(&start), "{newest}: {start}");
            let is_above = start > newest;
            assert!(is_above || newest > (1 << 30) - (1 << 27) - LEAP as u32, "{newest}: {start} though there is room");
        }
        assert_ne!(starts[0], starts[1], "{newest}");
    }
    assert_eq!(notification_start(5, 0), 1_000_005);
}

/// Numbers are `index * 1024 + n`, and are sent as JSON.
#[test]
fn numbers_stay_below_2_to_the_53_over_any_series_of_restores() {
    let mut index = 123_456;
    let mut times = 0;
    while let Some(next) = index_after(index) {
        assert_eq!(next, index + INDEX_LEAP);
        (index, times) = (next, times + 1);
        let last = Ctx::new(index + INDEX_LEAP - 1, Timestamp(0), [0; 16], RequestId(0), "");
        let highest = (0..1024).map(|_| last.draw_number()).max();
        assert!(highest.is_some_and(|number| number < 1 << 53), "after {times}: {highest:?}");
    }
    assert_eq!((times, INDEX_LEAP), (2046, 1 << 32));
    assert_eq!((index_after(u64::MAX), index_after(1 << 43)), (None, None));
}

#[test]
fn generated_alias_names_are_not_given_out_again() {
    let mut bench = Bench::default();
    bench.apply(Command::Services(Op::Create, vec![service("a", "x")]));
    let generated = AliasDraft {
        alias: None,
        alias_namespace: Some("Test".into()),
        kind: Some(AliasType::Cl5Sid),
        ..alias("", "x")
    };
    let create = || Command::Aliases(Op::Create, vec![generated.clone()]);
    bench.apply(create());
    let mut reborn = bench.reborn(&restored());
    reborn.apply(create());
    let listed = reborn.catalog.aliases.list(&AliasFilter::default(), &Page::ALL);
    let mut names: Vec<_> = listed.rows.iter().map(|alias| alias.alias.clone()).collect();
    names.sort();
    // 16 interfaces of 65,536 numbers each were skipped.
    assert_eq!(names, ["192000068:1114114", "192000068:65537"]);
}

#[test]
fn what_cannot_be_read_is_refused() {
    for (key, value) in [(&[99][..], &[][..]), (&[], &[]), (&[1], &[]), (&[1], &[9, 9]), (&[10, b'x'], &[1, 0xc1])] {
        assert!(restored().row(key, value).is_err(), "{key:?}");
    }
}

proptest! {
    #![proptest_config(crate::test_seed::cases(64))]

    /// Any state can be loaded with the same counts, and neither its versions and ids nor the next ones are among those
    /// of the old cluster.
    #[test]
    fn nothing_is_given_out_twice(
        before in prop::collection::vec(some_command(), 1..40),
        after in prop::collection::vec(some_command(), 1..20),
    ) {
        let mut bench = Bench::founded();
        before.into_iter().for_each(|command| drop(bench.apply(command)));
        let mut reborn = bench.reborn(&restored());
        prop_assert_eq!(&reborn.reloaded(), &reborn.catalog);
        prop_assert_eq!(reborn.catalog.counts(), bench.catalog.counts());
        prop_assert_eq!(reborn.reborn(&restored()).versions().len(), bench.versions().len());
        let known = bench.versions();
        prop_assert!(known.is_disjoint(&reborn.versions()));
        for command in after {
            reborn.apply(command);
            prop_assert!(known.is_disjoint(&reborn.versions()));
        }
        prop_assert!(reborn.catalog.configs.newest_notification_id() >= START);
    }
}
