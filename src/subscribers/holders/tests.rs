//! Sums over several nodes when clients move and send their reports to any node.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::catalog::testing::Bench;
use crate::catalog::{Command, Op};
use crate::model::config_file::ConfigKey;
use crate::model::config_lookup::Released;
use crate::model::release::ReleaseState;
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::{Family, RuleDraft, RuleHead};
use crate::model::time::Timestamp;
use crate::origin::Origin;
use crate::subscribers::{Client, FileReport, RuleWord, Word};

fn thing() -> Thing {
    Thing::File(ConfigKey::new("default", "app", "Conf.json"))
}

/// Returns the release that a client finds after this content was published.
fn publish(bench: &mut Bench, content: &str) -> std::sync::Arc<Released> {
    bench.publish_content("Conf.json", content)
}

/// Returns one of many hosts, spread over origins so that none exceeds its share.
fn client(address: &str, number: usize) -> Client<'_> {
    let origin = Origin::of([192, 0, 2, (number % 8) as u8].into());
    Client {
        address,
        agent: "a client",
        origin,
        hold: Duration::ZERO,
        connection: None,
        is_named: true,
        is_polaris: false,
    }
}

fn pull(node: &Subscribers, number: usize, released: &Released) {
    let address = format!("10.0.0.{number}");
    node.pulled(client(&address, number), &[], &["default".to_owned()], "Conf.json", released, || Timestamp(1));
}

fn say(node: &Subscribers, number: usize, released: &Released, applied: Applied, at: u64) {
    let address = format!("10.0.0.{number}");
    let report = FileReport {
        group: "app",
        file: "Conf.json",
        namespaces: &["default".to_owned()],
        labels: &[],
        release_key: &released.release_key,
        in_force: Some(released),
        word: Word { applied, message: "no", at: Timestamp(at) },
    };
    node.applied_file(client(&address, number), report);
}

fn sum(nodes: &[Subscribers], bench: &Bench, version: u64) -> Holders {
    let mut all = Holders::default();
    for node in nodes {
        let answer = node.holders(&bench.catalog, &thing(), version);
        assert!(answer.is_whole);
        all.add(&answer);
    }
    all
}

fn numbers(all: &Holders) -> [usize; 3] {
    [all.amount(), all.applied(), all.refused()]
}

/// 100,000 clients pull the first version and 5,000 of them the second. All of those report at a node that they did not
/// pull from, 50 of them a refusal, and half of them move on.
#[tokio::test(start_paused = true)]
async fn the_sums_of_a_hundred_thousand_clients_of_three_nodes_are_right() {
    const CLIENTS: usize = 100_000;
    const HAVING: usize = 5_000;
    const REFUSING: usize = 50;
    let mut bench = Bench::founded();
    let nodes = [Subscribers::default(), Subscribers::default(), Subscribers::default()];
    let first = publish(&mut bench, "1");
    (0..CLIENTS).for_each(|number| pull(&nodes[number % 3], number, &first));
    assert_eq!(numbers(&sum(&nodes, &bench, 1)), [CLIENTS, 0, 0]);
    assert_eq!(numbers(&sum(&nodes, &bench, 2)), [0, 0, 0]);
    let second = publish(&mut bench, "2");
    tokio::time::advance(Duration::from_secs(1)).await;
    (0..HAVING).for_each(|number| pull(&nodes[number / 2 % 3], number, &second));
    tokio::time::advance(Duration::from_secs(1)).await;
    for number in 0..HAVING {
        let applied = if number < REFUSING { Applied::Refused } else { Applied::Yes };
        say(&nodes[(number + 1) % 3], number, &second, applied, 5);
    }
    let all = sum(&nodes, &bench, 2);
    assert_eq!(numbers(&all), [HAVING, HAVING - REFUSING, REFUSING]);
    tokio::time::advance(Duration::from_secs(1)).await;
    (0..HAVING).step_by(2).for_each(|number| pull(&nodes[(number + 2) % 3], number, &second));
    assert_eq!(numbers(&sum(&nodes, &bench, 2)), [HAVING, HAVING - REFUSING, REFUSING], "a word is the client's");
    let hosts = sum(&nodes, &bench, 2).hosts();
    let state = |number: usize| hosts[&host_mark(&format!("10.0.0.{number}"))];
    assert_eq!(hosts.len(), CLIENTS);
    assert_eq!(
        (state(0), state(CLIENTS - 1)),
        (HostState { has: true, has_other: false }, HostState { has: false, has_other: true },)
    );
    assert_eq!(nodes.iter().map(Subscribers::turned_away).sum::<usize>(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_has_what_it_was_given_last_and_its_newest_word_counts() {
    let mut bench = Bench::founded();
    let nodes = [Subscribers::default(), Subscribers::default()];
    let first = publish(&mut bench, "1");
    let second = publish(&mut bench, "2");
    pull(&nodes[0], 1, &second);
    say(&nodes[0], 1, &second, Applied::Refused, 5);
    assert_eq!(numbers(&sum(&nodes, &bench, 2)), [1, 0, 1]);
    tokio::time::advance(Duration::from_secs(1)).await;
    say(&nodes[1], 1, &second, Applied::Yes, 6);
    assert_eq!(numbers(&sum(&nodes, &bench, 2)), [1, 1, 0], "it has got over it");
    tokio::time::advance(Duration::from_secs(1)).await;
    pull(&nodes[1], 1, &first);
    assert_eq!(numbers(&sum(&nodes, &bench, 2)), [0, 0, 0], "it fell back");
    assert_eq!(numbers(&sum(&nodes, &bench, 1)), [1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_word_after_a_start_is_kept_with_its_release_and_no_other_is() {
    let mut bench = Bench::founded();
    let node = [Subscribers::default()];
    let first = publish(&mut bench, "1");
    say(&node[0], 1, &first, Applied::Refused, 5);
    assert_eq!(numbers(&sum(&node, &bench, 1)), [1, 0, 1]);
    assert_eq!(node[0].refusals().hand_over(9)[0].thing, thing(), "by the name of the file that was released");
    let rows = node[0].of(&bench.catalog, &thing());
    assert_eq!((rows.len(), rows[0].is_current, rows[0].is_reported), (1, true, true));
    assert!(node[0].shares(&bench.catalog)["configfile"].present == 0, "counted by the node that gave it that");
    // The node sends it that release itself, and another one later.
    pull(&node[0], 1, &first);
    let rows = node[0].of(&bench.catalog, &thing());
    assert_eq!((rows.len(), rows[0].is_reported, rows[0].applied), (1, false, Some(Applied::Refused)));
    let second = publish(&mut bench, "2");
    pull(&node[0], 1, &second);
    let address = "10.0.0.1";
    let late = FileReport {
        group: "app",
        file: "Conf.json",
        namespaces: &["default".to_owned()],
        labels: &[],
        release_key: &first.release_key,
        in_force: None,
        word: Word { applied: Applied::Yes, message: "", at: Timestamp(9) },
    };
    node[0].applied_file(client(address, 1), late);
    assert_eq!(numbers(&sum(&node, &bench, 2)), [1, 0, 0], "of a release that is in force no more");
}

/// Invented reports are charged to the origin that sends them, as pulls are.
#[tokio::test(start_paused = true)]
async fn words_that_are_made_up_take_the_share_of_their_origin() {
    let mut bench = Bench::founded();
    let node = Subscribers::default();
    let released = publish(&mut bench, "1");
    let message = "x".repeat(limits::APPLIED_MESSAGE_BYTES_MAX);
    let report = |from: u8, number: usize| {
        let (address, origin) = (format!("{from}.{number}"), Origin::of([192, 0, 2, from].into()));
        let report = FileReport {
            group: "app",
            file: "Conf.json",
            namespaces: &["default".to_owned()],
            labels: &[],
            release_key: &released.release_key,
            in_force: Some(&released),
            word: Word { applied: Applied::Refused, message: &message, at: Timestamp(9) },
        };
        node.applied_file(Client { address: &address, origin, ..client("", 0) }, report);
    };
    (0..60_000).for_each(|number| report(1, number));
    let share = limits::SUBSCRIPTIONS_BYTES_MAX / 4;
    assert!(node.bytes() <= share && node.bytes() > share - 4096, "{} bytes", node.bytes());
    assert!(node.len() <= limits::SUBSCRIPTIONS_MAX / 4);
    let before = node.len();
    report(2, 0);
    assert_eq!(node.len(), before + 1, "another one has its own");
}

#[tokio::test(start_paused = true)]
async fn a_word_on_a_rule_is_bound_to_its_id_whoever_gave_it() {
    let mut bench = Bench::founded();
    let family = Family::RateLimit;
    let body = serde_json::json!({"callee": {"namespace": "a", "service": "s"}, "rules": [{}]});
    let body = serde::de::DeserializeSeed::deserialize(family, body).expect("a body");
    let head = RuleHead { name: Some("x".into()), namespace: Some("a".into()), ..RuleHead::default() };
    assert_eq!(bench.codes(Command::Rules(Op::Create, vec![RuleDraft { head, body }])), [200000]);
    let release =
        RuleReleaseDraft { rule_name: Some("x".into()), release_name: Some("r".into()), ..RuleReleaseDraft::default() };
    assert_eq!(bench.codes(Command::PublishRules(family, vec![release])), [200000]);
    let releases = bench.catalog.rules.of(family).active().of_service("a", "s", |_| None);
    let [release]: &[std::sync::Arc<RuleRelease>; 1] = releases[..].try_into().expect("one");
    assert_eq!(release.state(), ReleaseState::NormalActive);
    let (id, nodes) = (release.rule.id.clone(), [Subscribers::default(), Subscribers::default()]);
    let who = client("10.0.0.1", 1);
    nodes[0].discovered(who, &BTreeMap::new(), family, ("a", "s"), &releases, || Timestamp(1));
    tokio::time::advance(Duration::from_secs(1)).await;
    let word = Word { applied: Applied::Refused, message: "no", at: Timestamp(9) };
    let named = &[(id.clone(), Some(release.version))];
    let report = RuleWord { family, named, labels: &[], in_force: Some(release), word };
    nodes[1].applied_rule(who, report, |_, _| true);
    let mut all = Holders::default();
    for node in &nodes {
        all.add(&node.holders(&bench.catalog, &Thing::Rule(family, id.clone()), release.version));
    }
    assert_eq!(numbers(&all), [1, 0, 1]);
    let rows = nodes[1].of(&bench.catalog, &Thing::Rule(family, id));
    assert_eq!((rows.len(), rows[0].is_current, &*rows[0].message), (1, true, "no"));
}
