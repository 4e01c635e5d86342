//! Tests of the register of clients on one node.

use super::*;
use crate::catalog::history::Thing;
use crate::catalog::testing::Bench;
use crate::catalog::{Command, Op};
use crate::model::config_file::{ConfigKey, ConfigReleaseDraft};
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{RuleDraft, RuleHead};

fn publish(bench: &mut Bench, content: &str) -> Arc<Released> {
    bench.publish_content("application", content)
}

const HOLD: Duration = Duration::from_secs(55);

fn at(number: u8) -> Origin {
    Origin::of([192, 0, 2, number].into())
}

fn client(address: &str, hold: Duration) -> Client<'_> {
    Client { address, agent: "a client", origin: at(1), hold, connection: None, is_named: true, is_polaris: false }
}

fn pull(subscribers: &Subscribers, address: &str, released: &Released, at: u64) {
    pull_from(subscribers, client(address, Duration::ZERO), released, at);
}

fn pull_from(subscribers: &Subscribers, client: Client<'_>, released: &Released, at: u64) {
    let namespaces = ["default".to_owned()];
    subscribers.pulled(client, &[], &namespaces, "application", released, || Timestamp(at));
}

fn rows_of(subscribers: &Subscribers, bench: &Bench) -> Vec<(String, u64, u64, bool)> {
    let thing = Thing::File(ConfigKey::new("default", "app", "application"));
    let mut told: Vec<_> = subscribers
        .of(&bench.catalog, &thing)
        .into_iter()
        .map(|one| (one.address, one.version, one.since.0, one.is_current))
        .collect();
    told.sort();
    told
}

#[tokio::test(start_paused = true)]
async fn who_has_pulled_has_what_it_was_given_until_it_is_not_heard_of() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let first = publish(&mut bench, "a=1");
    pull(&subscribers, "10.0.0.1", &first, 1);
    pull(&subscribers, "10.0.0.2", &first, 2);
    pull(&subscribers, "10.0.0.1", &first, 3);
    let row = |address: &str, version, since, is_current| (address.to_owned(), version, since, is_current);
    assert_eq!(rows_of(&subscribers, &bench), [row("10.0.0.1", 1, 1, true), row("10.0.0.2", 1, 2, true)]);
    let second = publish(&mut bench, "a=2");
    pull(&subscribers, "10.0.0.2", &second, 4);
    assert_eq!(rows_of(&subscribers, &bench), [row("10.0.0.1", 1, 1, false), row("10.0.0.2", 2, 4, true)]);
    tokio::time::advance(FORGET_AFTER - SWEEP_EVERY).await;
    assert!(subscribers.polled(client("10.0.0.2", HOLD), "app", "application.properties"));
    assert!(!subscribers.polled(client("10.0.0.9", HOLD), "app", "application"), "it is not known");
    tokio::time::advance(SWEEP_EVERY).await;
    assert_eq!(rows_of(&subscribers, &bench), [row("10.0.0.2", 2, 4, true)], "who polls still has it");
    assert_eq!(subscribers.len(), 1);
    tokio::time::advance(HOLD + GRACE).await;
    assert_eq!(rows_of(&subscribers, &bench), [], "its wait has ended a minute ago");
    assert!(!subscribers.polled(client("10.0.0.2", HOLD), "app", "application"), "and what it has now is not known");
    tokio::time::advance(SWEEP_EVERY).await;
    pull(&subscribers, "10.0.0.1", &second, 5);
    pull(&subscribers, "10.0.0.3", &second, 5);
    tokio::time::advance(FORGET_AFTER).await;
    assert_eq!((rows_of(&subscribers, &bench), subscribers.len(), subscribers.bytes()), (vec![], 0, 0));
}

#[tokio::test(start_paused = true)]
async fn there_are_never_too_many() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let released = publish(&mut bench, "a=1");
    let share = limits::SUBSCRIPTIONS_MAX / SHARE_OF_ORIGIN;
    let pulls = |origin: u8, clients: usize| {
        for number in 0..clients {
            let address = format!("{origin}.{number}");
            let client = Client { origin: at(origin), ..client(&address, Duration::ZERO) };
            pull_from(&subscribers, client, &released, 1);
        }
        (subscribers.len(), subscribers.turned_away())
    };
    assert_eq!(pulls(1, share + 7), (share, 7), "whatever address a client says it has");
    assert_eq!(pulls(2, share), (2 * share, 7), "others are remembered");
    assert_eq!((pulls(3, share), pulls(4, share)), ((3 * share, 7), (4 * share, 7)));
    assert_eq!(pulls(5, 3), (limits::SUBSCRIPTIONS_MAX, 10), "there are too many");
    tokio::time::advance(FORGET_AFTER).await;
    pull(&subscribers, "later", &released, 1);
    assert!(subscribers.len() < limits::SUBSCRIPTIONS_MAX, "who is gone makes room");
}

/// A waiting client is present for the duration of its poll, one that only pulls until it is removed.
#[tokio::test(start_paused = true)]
async fn the_share_that_is_current_is_counted_of_who_is_there() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let share = |bench: &Bench, kind: &str| {
        let share = subscribers.shares(&bench.catalog)[kind];
        (share.present, share.current)
    };
    assert_eq!(
        subscribers.shares(&bench.catalog).len(),
        Family::ALL.len() + 1,
        "each kind has a series from the start"
    );
    let first = publish(&mut bench, "a=1");
    for address in ["waits", "pulls", "moved away"] {
        pull(&subscribers, address, &first, 1);
    }
    let waits = |address| assert!(subscribers.polled(client(address, HOLD), "app", "application"));
    waits("waits");
    waits("moved away");
    assert_eq!(share(&bench, FILES), (3, 3));
    let second = publish(&mut bench, "a=2");
    assert_eq!(share(&bench, FILES), (3, 0));
    pull(&subscribers, "waits", &second, 2);
    assert_eq!(share(&bench, FILES), (3, 1));
    tokio::time::advance(HOLD).await;
    waits("waits");
    tokio::time::advance(GRACE).await;
    assert_eq!(share(&bench, FILES), (2, 1), "the one that went to another node is counted there");
    pull(&subscribers, "pulls", &second, 3);
    assert_eq!(share(&bench, FILES), (2, 2));
    // After a withdrawal no version of the file is due.
    let name = first_release(&bench);
    bench.codes(Command::ConfigReleases(ReleaseOp::Withdraw, vec![name]));
    assert_eq!(share(&bench, FILES), (0, 0));
    tokio::time::advance(FORGET_AFTER).await;
    assert_eq!(share(&bench, FILES), (0, 0));
}

fn first_release(bench: &Bench) -> ConfigReleaseDraft {
    let key = ConfigKey::new("default", "app", "application");
    let active = bench.catalog.configs.active_release(&key).expect("published").clone();
    ConfigReleaseDraft {
        name: Some(active.name.clone()),
        namespace: key.namespace,
        group: key.group,
        file_name: key.file,
        ..ConfigReleaseDraft::default()
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_the_rules_of_a_service_as_they_are_is_current() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let family = Family::RateLimit;
    let share = |bench: &Bench| subscribers.shares(&bench.catalog)[family.word()];
    let publish = |bench: &mut Bench, name: &str| {
        let release = RuleReleaseDraft {
            rule_name: Some("x".into()),
            release_name: Some(name.into()),
            ..RuleReleaseDraft::default()
        };
        assert_eq!(bench.codes(Command::PublishRules(family, vec![release])), [200000]);
    };
    let discover = |bench: &Bench| {
        let client = client("10.0.0.1", HOLD);
        let releases = bench.catalog.rules.of(family).active().of_service("a", "s", |_| None);
        subscribers.discovered(client, &BTreeMap::new(), family, ("a", "s"), &releases, || Timestamp(1));
    };
    discover(&bench);
    assert_eq!(share(&bench), Share::default(), "there is nothing to have");
    let body = serde_json::json!({"callee": {"namespace": "a", "service": "s"}, "rules": [{}]});
    let body = serde::de::DeserializeSeed::deserialize(family, body).expect("a body");
    let head = RuleHead { name: Some("x".into()), namespace: Some("a".into()), ..RuleHead::default() };
    assert_eq!(bench.codes(Command::Rules(Op::Create, vec![RuleDraft { head, body }])), [200000]);
    publish(&mut bench, "first");
    assert_eq!(share(&bench), Share { present: 1, current: 0 });
    discover(&bench);
    assert_eq!(share(&bench), Share { present: 1, current: 1 });
    publish(&mut bench, "second");
    assert_eq!(share(&bench), Share { present: 1, current: 0 });
}

/// Stored texts are short, whatever a client sends.
#[tokio::test(start_paused = true)]
async fn a_client_is_kept_within_a_kilobyte() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let released = publish(&mut bench, "a=1");
    let long = "x".repeat(40_000);
    let labels = vec![(long.clone(), long.clone()); 64];
    let client = Client { agent: &long, ..client(&long, Duration::ZERO) };
    let namespaces = ["default".to_owned(), long.clone()];
    for _ in 0..2 {
        subscribers.pulled(client, &labels, &namespaces, "application", &released, || Timestamp(1));
    }
    let told = subscribers.of(&bench.catalog, &Thing::File(ConfigKey::new("default", "app", "application")));
    let [one] = &told[..] else { panic!("one client: {}", told.len()) };
    let of_labels: usize = one.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    let bytes = one.address.len() + one.agent.len() + of_labels;
    assert!(bytes <= 1024 && of_labels > 0, "{bytes} bytes, {of_labels} of labels");
}

/// Entries are also limited in bytes, and those of one origin to a quarter.
#[tokio::test(start_paused = true)]
async fn twenty_thousand_hostile_pulls_take_a_share() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let released = publish(&mut bench, "a=1");
    let labels: Vec<_> = (0..64).map(|number| (number.to_string(), "x".repeat(10 + number))).collect();
    let namespaces: Vec<_> = ["a", "b"].map(|letter| letter.repeat(limits::NAMESPACE_CHARS_MAX)).into();
    let pull = |origin: u8, number: usize| {
        let address = number.to_string();
        let client = Client { origin: at(origin), ..client(&address, Duration::ZERO) };
        subscribers.pulled(client, &labels, &namespaces, "application", &released, || Timestamp(1));
    };
    (0..20_000).for_each(|number| pull(1, number));
    let share = limits::SUBSCRIPTIONS_BYTES_MAX / SHARE_OF_ORIGIN;
    let (kept, bytes) = (subscribers.len(), subscribers.bytes());
    assert!(bytes <= share && bytes > share - 4096, "{bytes} bytes of {kept} clients");
    assert!(subscribers.turned_away() > 0 && kept > 10_000, "{kept} are kept");
    pull(2, 20_000);
    assert_eq!(subscribers.len(), kept + 1, "another one is remembered");
    tokio::time::advance(FORGET_AFTER).await;
    rows_of(&subscribers, &bench);
    assert_eq!((subscribers.len(), subscribers.bytes()), (0, 0));
}

/// Clients at one address are charged to the user of their token. A stranger that claims to be one of them causes
/// no costs for it.
#[tokio::test(start_paused = true)]
async fn who_speaks_of_a_client_pays_for_it() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let released = publish(&mut bench, "a=1");
    let (stranger, fleet) = (at(1), Origin::of_user("fleet"));
    fn of(origin: Origin, address: &str) -> Client<'_> {
        Client { origin, ..client(address, Duration::ZERO) }
    }
    let paid = || [stranger, fleet].map(|origin| subscribers.places.taken_by(origin));
    let share = limits::SUBSCRIPTIONS_MAX / SHARE_OF_ORIGIN;
    (0..share + 7).for_each(|number| pull_from(&subscribers, of(fleet, &number.to_string()), &released, 1));
    assert_eq!((paid(), subscribers.turned_away()), ([0, share + 7], 0), "a user has half of all");
    // The client continues without the token: by a pull, a poll and a report.
    pull_from(&subscribers, of(stranger, "1"), &released, 1);
    assert!(subscribers.polled(of(stranger, "2"), "app", "application"));
    let refuses = (Applied::Refused, "no such port");
    say_in(&subscribers, of(stranger, "3"), &released.release_key, refuses, None);
    assert_eq!(paid(), [3, share + 4]);
    pull_from(&subscribers, of(fleet, "3"), &released, 1);
    assert_eq!(paid(), [2, share + 5]);
    // An origin without room adds nothing to what other origins pay for.
    (0..share - 2).for_each(|number| pull_from(&subscribers, of(stranger, &format!("s{number}")), &released, 1));
    let bytes = subscribers.bytes.taken_by(fleet);
    say_in(&subscribers, of(stranger, "4"), &released.release_key, refuses, None);
    pull_from(&subscribers, of(stranger, "4"), &released, 1);
    assert_eq!((paid(), subscribers.bytes.taken_by(fleet)), ([share, share + 5], bytes));
    tokio::time::advance(FORGET_AFTER).await;
    rows_of(&subscribers, &bench);
    assert_eq!((paid(), subscribers.bytes()), ([0, 0], 0));
}

/// Clients that were sent the same rules share one list.
#[tokio::test(start_paused = true)]
async fn the_rules_of_many_clients_are_one_list() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let family = Family::RateLimit;
    for number in 0..50 {
        let name = format!("rule {number}");
        let body = serde_json::json!({"callee": {"namespace": "a", "service": "s"}, "rules": [{}]});
        let body = serde::de::DeserializeSeed::deserialize(family, body).expect("a body");
        let head = RuleHead { name: Some(name.clone()), namespace: Some("a".into()), ..RuleHead::default() };
        assert_eq!(bench.codes(Command::Rules(Op::Create, vec![RuleDraft { head, body }])), [200000]);
        let release =
            RuleReleaseDraft { rule_name: Some(name), release_name: Some("r".into()), ..RuleReleaseDraft::default() };
        assert_eq!(bench.codes(Command::PublishRules(family, vec![release])), [200000]);
    }
    let releases = bench.catalog.rules.of(family).active().of_service("a", "s", |_| None);
    assert_eq!(releases.len(), 50);
    let discover = |number: usize, releases: &[Arc<RuleRelease>]| {
        let address = number.to_string();
        subscribers.discovered(client(&address, HOLD), &BTreeMap::new(), family, ("a", "s"), releases, || Timestamp(1));
    };
    (0..1000).for_each(|number| discover(number, &releases));
    assert_eq!((subscribers.len(), subscribers.rule_sets.len()), (1000, 1));
    assert!(subscribers.bytes() < 500 * 1024, "{} bytes", subscribers.bytes());
    (0..1000).for_each(|number| discover(number, &releases[1..]));
    assert_eq!(subscribers.shares(&bench.catalog)[family.word()], Share { present: 1000, current: 0 });
    tokio::time::advance(HOLD + GRACE).await;
    (1000..3000).for_each(|number| discover(number, &releases));
    assert_eq!(subscribers.rule_sets.len(), 1, "what nobody has is forgotten");
}

fn say(subscribers: &Subscribers, address: &str, key: &str, applied: Applied, message: &str) {
    say_in(subscribers, client(address, Duration::ZERO), key, (applied, message), None);
}

/// Builds a report on a release, with the release if it is in force.
fn say_in(
    subscribers: &Subscribers,
    client: Client<'_>,
    release_key: &str,
    (applied, message): (Applied, &str),
    in_force: Option<&Released>,
) {
    let word = Word { applied, message, at: Timestamp(9) };
    let (group, file, namespaces, labels) = ("app", "application", &["default".to_owned()], &[]);
    subscribers.applied_file(client, FileReport { group, file, namespaces, labels, release_key, in_force, word });
}

/// Address, report, bytes of the reason, and time of the report.
fn words(subscribers: &Subscribers, bench: &Bench) -> Vec<(String, Option<Applied>, usize, Option<u64>)> {
    let thing = Thing::File(ConfigKey::new("default", "app", "application"));
    let told = subscribers.of(&bench.catalog, &thing).into_iter();
    let mut told: Vec<_> =
        told.map(|one| (one.address, one.applied, one.message.len(), one.applied_at.map(|at| at.0))).collect();
    told.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    told
}

#[tokio::test(start_paused = true)]
async fn a_word_is_of_what_the_client_was_given_and_goes_with_it() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let first = publish(&mut bench, "a=1");
    ["1", "2", "3"].iter().for_each(|address| pull(&subscribers, address, &first, 1));
    let before = subscribers.bytes();
    say(&subscribers, "1", &first.release_key, Applied::Yes, "of no use");
    say(&subscribers, "2", &first.release_key, Applied::Refused, "first");
    say(&subscribers, "2", &first.release_key, Applied::Refused, "no such port");
    say(&subscribers, "3", "default-app-application-7", Applied::Refused, "of another release");
    say(&subscribers, "4", &first.release_key, Applied::Refused, "of a stranger");
    let row = |address: &str, applied: Option<Applied>, bytes| {
        let at = applied.map(|_| 9);
        (address.to_owned(), applied, bytes, at)
    };
    let said = [row("1", Some(Applied::Yes), 0), row("2", Some(Applied::Refused), 12), row("3", None, 0)];
    assert_eq!(words(&subscribers, &bench), said);
    assert_eq!((subscribers.len(), subscribers.refusing()), (3, 1));
    assert!(subscribers.bytes() > before);
    // A report on an invisible service has no effect.
    let word = Word { applied: Applied::Refused, message: "", at: Timestamp(9) };
    let (group, file, release_key, in_force) = ("app", "application", &*first.release_key, None);
    let blind = FileReport { group, file, namespaces: &[], labels: &[], release_key, in_force, word };
    subscribers.applied_file(client("1", HOLD), blind);
    assert_eq!(words(&subscribers, &bench), said);
    let second = publish(&mut bench, "a=2");
    ["1", "2", "3"].iter().for_each(|address| pull(&subscribers, address, &second, 2));
    assert_eq!(words(&subscribers, &bench), ["1", "2", "3"].map(|address| row(address, None, 0)));
    assert_eq!((subscribers.bytes(), subscribers.refusing()), (before, 0));
    say(&subscribers, "2", &second.release_key, Applied::Refused, "no");
    tokio::time::advance(FORGET_AFTER).await;
    assert_eq!(subscribers.refusing(), 0, "who is gone refuses nothing");
    assert_eq!((words(&subscribers, &bench), subscribers.len(), subscribers.bytes()), (vec![], 0, 0));
}

/// Long reports of strangers are truncated.
#[tokio::test(start_paused = true)]
async fn words_take_a_kilobyte_and_a_share() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let released = publish(&mut bench, "a=1");
    pull(&subscribers, "1", &released, 1);
    let (before, long) = (subscribers.bytes(), "ä".repeat(40_000));
    (0..100).for_each(|_| say(&subscribers, "1", &released.release_key, Applied::Refused, &long));
    assert_eq!(words(&subscribers, &bench)[0].2, limits::APPLIED_MESSAGE_BYTES_MAX);
    let grown = subscribers.bytes() - before;
    assert!(grown <= limits::APPLIED_MESSAGE_BYTES_MAX + 128, "{grown} bytes");
    let clients = 40_000;
    for number in 2..clients {
        let address = number.to_string();
        pull(&subscribers, &address, &released, 1);
        say(&subscribers, &address, &released.release_key, Applied::Refused, &long);
    }
    let share = limits::SUBSCRIPTIONS_BYTES_MAX / SHARE_OF_ORIGIN;
    assert!(subscribers.bytes() <= share && subscribers.bytes() > share - 4096, "{} bytes", subscribers.bytes());
    let said = words(&subscribers, &bench).iter().filter(|row| row.1.is_some()).count();
    assert!(said > 10_000 && said < clients, "{said} words");
    tokio::time::advance(FORGET_AFTER).await;
    rows_of(&subscribers, &bench);
    assert_eq!((subscribers.len(), subscribers.bytes()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_word_on_a_rule_counts_where_the_client_was_given_it() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded());
    let family = Family::RateLimit;
    for name in ["x", "y"] {
        let body = serde_json::json!({"callee": {"namespace": "a", "service": "*"}, "rules": [{}]});
        let body = serde::de::DeserializeSeed::deserialize(family, body).expect("a body");
        let head = RuleHead { name: Some(name.into()), namespace: Some("a".into()), ..RuleHead::default() };
        assert_eq!(bench.codes(Command::Rules(Op::Create, vec![RuleDraft { head, body }])), [200000]);
        let release = RuleReleaseDraft {
            rule_name: Some(name.into()),
            release_name: Some("r".into()),
            ..RuleReleaseDraft::default()
        };
        assert_eq!(bench.codes(Command::PublishRules(family, vec![release])), [200000]);
    }
    let releases = bench.catalog.rules.of(family).active().of_service("a", "s", |_| None);
    let who = client("1", HOLD);
    for service in ["s", "t"] {
        subscribers.discovered(who, &BTreeMap::new(), family, ("a", service), &releases, || Timestamp(1));
    }
    let id = |name: &str| bench.catalog.rules.of(family).named("a", name).expect("a rule").id.clone();
    let (x, y) = (id("x"), id("y"));
    let say = |rule: &str, version, seen: &str, message: &str| {
        let word = Word { applied: Applied::Refused, message, at: Timestamp(9) };
        let (named, labels, in_force) = (&[(rule.to_owned(), version)], &[], None);
        let report = RuleWord { family, named, labels, in_force, word };
        subscribers.applied_rule(who, report, |_, service| service == seen);
    };
    let lengths = |rule: &str| {
        let mut all = subscribers.of(&bench.catalog, &Thing::Rule(family, rule.to_owned()));
        all.retain(|one| one.applied.is_some());
        all.into_iter().map(|one| one.message.len()).collect::<Vec<_>>()
    };
    say(&x, Some(2), "s", "another version");
    say("no such rule", None, "s", "none");
    say(&x, None, "nothing", "not seen");
    assert_eq!(lengths(&x), Vec::<usize>::new());
    say(&x, None, "s", "one");
    say(&y, Some(1), "s", &"y".repeat(1000));
    assert_eq!((lengths(&x), lengths(&y)), (vec![3], vec![1000]));
    say(&y, Some(1), "t", "other");
    assert_eq!((lengths(&x).len(), lengths(&y).len(), subscribers.refusing()), (1, 2, 1), "one client");
    say(&y, Some(1), "s", &"y".repeat(2000));
    assert_eq!(lengths(&x), [0], "the newest reasons stay");
    subscribers.discovered(who, &BTreeMap::new(), family, ("a", "s"), &releases[1..], || Timestamp(2));
    assert_eq!((lengths(&x).len(), lengths(&y).len()), (0, 2), "what it has no more is forgotten");
}
