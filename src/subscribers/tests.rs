//! Who has what, as one node remembers it.

use super::*;
use crate::catalog::testing::Bench;
use crate::catalog::{Command, Op};
use crate::format::level::Level;
use crate::model::config_file::{ConfigFileDraft, ConfigPublish, ConfigReleaseDraft};
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{RuleDraft, RuleHead};

fn publish(bench: &mut Bench, content: &str) -> Arc<Released> {
    let [namespace, group, name] = ["default", "app", "application"].map(str::to_owned);
    let release = ConfigReleaseDraft {
        namespace: namespace.clone(),
        group: group.clone(),
        file_name: name.clone(),
        ..ConfigReleaseDraft::default()
    };
    let content = Some(content.to_owned());
    let file = ConfigFileDraft { namespace, group, name, content, ..ConfigFileDraft::default() };
    bench.codes(Command::ConfigCreateAndPublish(vec![ConfigPublish { file, release, md5: None }]));
    let client = ClientLabels::default();
    bench.catalog.configs.find("default", "app", "application", &client).expect("published").clone()
}

fn pull(subscribers: &Subscribers, address: &str, released: &Released, at: u64) {
    let client = Client { address, agent: "a client" };
    let namespaces = ["default".to_owned()];
    subscribers.pulled(client, &[], &namespaces, "application", released, || Timestamp(at));
}

fn told(subscribers: &Subscribers, bench: &Bench) -> Vec<(String, u64, u64, bool)> {
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
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded(Level::NEWEST));
    let first = publish(&mut bench, "a=1");
    pull(&subscribers, "10.0.0.1", &first, 1);
    pull(&subscribers, "10.0.0.2", &first, 2);
    pull(&subscribers, "10.0.0.1", &first, 3);
    let row = |address: &str, version, since, is_current| (address.to_owned(), version, since, is_current);
    assert_eq!(told(&subscribers, &bench), [row("10.0.0.1", 1, 1, true), row("10.0.0.2", 1, 2, true)]);
    let second = publish(&mut bench, "a=2");
    pull(&subscribers, "10.0.0.2", &second, 4);
    assert_eq!(told(&subscribers, &bench), [row("10.0.0.1", 1, 1, false), row("10.0.0.2", 2, 4, true)]);
    tokio::time::advance(FORGET_AFTER - SWEEP_EVERY).await;
    subscribers.polled(Client { address: "10.0.0.2", agent: "a client" }, "app", "application.properties");
    subscribers.polled(Client { address: "10.0.0.9", agent: "a client" }, "app", "application");
    tokio::time::advance(2 * SWEEP_EVERY).await;
    assert_eq!(told(&subscribers, &bench), [row("10.0.0.2", 2, 4, true)], "who polls still has it");
    assert_eq!(subscribers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn there_are_never_too_many() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded(Level::NEWEST));
    let released = publish(&mut bench, "a=1");
    for number in 0..limits::SUBSCRIPTIONS_MAX + 7 {
        pull(&subscribers, &number.to_string(), &released, 1);
    }
    assert_eq!((subscribers.len(), subscribers.turned_away()), (limits::SUBSCRIPTIONS_MAX, 7));
    tokio::time::advance(FORGET_AFTER).await;
    pull(&subscribers, "later", &released, 1);
    assert!(subscribers.len() < limits::SUBSCRIPTIONS_MAX, "who is gone makes room");
}

/// A client that waits is there for as long as a poll may last; one that only pulls, until it is forgotten.
#[tokio::test(start_paused = true)]
async fn the_share_that_is_current_is_counted_of_who_is_there() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded(Level::NEWEST));
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
    let waits = |address| subscribers.polled(Client { address, agent: "a client" }, "app", "application");
    waits("waits");
    waits("moved away");
    assert_eq!(share(&bench, FILES), (3, 3));
    let second = publish(&mut bench, "a=2");
    assert_eq!(share(&bench, FILES), (3, 0));
    pull(&subscribers, "waits", &second, 2);
    assert_eq!(share(&bench, FILES), (3, 1));
    tokio::time::advance(PRESENT_WITHIN).await;
    waits("waits");
    assert_eq!(share(&bench, FILES), (2, 1), "the one that went to another node is counted there");
    pull(&subscribers, "pulls", &second, 3);
    assert_eq!(share(&bench, FILES), (2, 2));
    // Nothing is due of a file that was withdrawn.
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
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded(Level::NEWEST));
    let family = Family::RateLimit;
    let share = |bench: &Bench| subscribers.shares(&bench.catalog)[family.kind()];
    let publish = |bench: &mut Bench, name: &str| {
        let release = RuleReleaseDraft {
            rule_name: Some("x".into()),
            release_name: Some(name.into()),
            ..RuleReleaseDraft::default()
        };
        assert_eq!(bench.codes(Command::PublishRules(family, vec![release])), [200000]);
    };
    let discover = |bench: &Bench| {
        let client = Client { address: "10.0.0.1", agent: "a client" };
        let releases = bench.catalog.rules.of(family).active().of_service("a", "s", |_| None);
        subscribers.discovered(client, Vec::new, family, ("a", "s"), &releases, || Timestamp(1));
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

/// Whatever a stranger says of itself, what is kept of it is small.
#[tokio::test(start_paused = true)]
async fn a_client_is_kept_within_a_kilobyte() {
    let (subscribers, mut bench) = (Subscribers::default(), Bench::founded(Level::NEWEST));
    let released = publish(&mut bench, "a=1");
    let long = "x".repeat(40_000);
    let labels = vec![(long.clone(), long.clone()); 64];
    let client = Client { address: &long, agent: &long };
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
