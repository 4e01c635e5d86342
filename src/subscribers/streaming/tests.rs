//! Tests of acknowledged and refused resources of streams.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeSeed;

use super::*;
use crate::catalog::testing::Bench;
use crate::catalog::{Command, Op};
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::Resource;
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::{Family, RuleDraft, RuleHead};
use crate::subscribers::Share;
use crate::subscribers::streams::Registered;

const FAMILY: Family = Family::RateLimit;
const ROUTES: ResourceType = ResourceType::Route;
const CLUSTERS: ResourceType = ResourceType::Cluster;

/// A catalog with one rule, and streams.
struct Setting {
    bench: Bench,
    streams: Streams,
    rule_id: String,
    hash: u64,
}

impl Setting {
    fn new() -> Setting {
        let mut bench = Bench::founded();
        let body = serde_json::json!({"callee": {"namespace": "a", "service": "s"}, "rules": [{}]});
        let body = FAMILY.deserialize(body).expect("a body");
        let head = RuleHead { name: Some("x".into()), namespace: Some("a".into()), ..RuleHead::default() };
        assert_eq!(bench.codes(Command::Rules(Op::Create, vec![RuleDraft { head, body }])), [200000]);
        Setting { bench, streams: Streams::default(), rule_id: String::new(), hash: 0 }
    }

    /// Publishes the rule; clients see this release from now on.
    fn publish(&mut self, name: &str) -> Arc<RuleRelease> {
        let release = RuleReleaseDraft {
            rule_name: Some("x".into()),
            release_name: Some(name.into()),
            ..RuleReleaseDraft::default()
        };
        assert_eq!(self.bench.codes(Command::PublishRules(FAMILY, vec![release])), [200000]);
        let seen = self.bench.catalog.rules.of(FAMILY).active().of_service("a", "s", |_| None);
        let [release] = &seen[..] else { panic!("{} releases", seen.len()) };
        self.rule_id.clone_from(&release.rule.id);
        release.clone()
    }

    fn made(&mut self, kind: ResourceType, name: &str, of: Option<&Arc<RuleRelease>>) -> Arc<Resource> {
        self.hash += 1;
        Arc::new(Resource {
            kind,
            name: name.into(),
            version: Version { index: 1, hash: self.hash },
            head: Bytes::new(),
            body: Bytes::new(),
            releases: of.into_iter().cloned().collect(),
            clusters: Vec::new(),
        })
    }

    fn stream(&self, node_id: &str) -> Registered {
        let address = [10, 0, 0, 1].into();
        self.streams.begin(StreamClient {
            dialect: Dialect::Envoy,
            node_id: node_id.into(),
            agent: "envoy/1.40.0".into(),
            address: Some(address),
            labels: Arc::new(
                [("CLIENT_IP", "10.0.0.1"), ("NODE_ID", node_id), ("zone", "z")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            is_delta: true,
            since: Timestamp(7),
        })
    }

    /// Returns compact rows: node, version, applied, message, current.
    fn rows(&self) -> Vec<String> {
        let active = self.bench.catalog.rules.of(FAMILY).active();
        let rows = of_rule(&self.streams, active, &self.rule_id);
        let row = |row: &Subscription| {
            let applied = row.applied.map_or("under way", Applied::word);
            let current = if row.is_current { " current" } else { "" };
            let message = if row.message.is_empty() { String::new() } else { format!(": {}", row.message) };
            format!("{} v{} {applied}{message}{current}", row.node_id, row.version)
        };
        rows.iter().map(row).collect()
    }
}

/// Sends a resource.
fn send(stream: &Registered, resource: &Arc<Resource>) {
    stream.update(resource.kind, |state| drop(state.sent.insert(resource.name.clone(), resource.clone())));
}

/// Sends a resource that is acknowledged.
fn give(stream: &Registered, resource: &Arc<Resource>) {
    send(stream, resource);
    stream.update(resource.kind, |state| drop(state.acked.insert(resource.name.clone(), resource.clone())));
}

fn refuse(stream: &Registered, resource: &Arc<Resource>, message: &str, at: u64) {
    send(stream, resource);
    let resources = [(resource.name.clone(), resource.clone())].into();
    let refusal = ResourceRefusal { message: message.into(), at: Timestamp(at), resources };
    stream.update(resource.kind, |state| state.refusals.push(Arc::new(refusal)));
}

#[test]
fn a_release_is_applied_once_all_that_was_made_with_it_is_acknowledged() {
    let mut setting = Setting::new();
    let stream = setting.stream("n1");
    let plain = setting.made(CLUSTERS, "a/other", None);
    give(&stream, &plain);
    let first = setting.publish("first");
    assert_eq!(setting.rows(), [] as [&str; 0], "nothing of it was sent");
    let (routes, cluster) = (setting.made(ROUTES, "a/s", Some(&first)), setting.made(CLUSTERS, "a/s", Some(&first)));
    give(&stream, &cluster);
    send(&stream, &routes);
    assert_eq!(setting.rows(), ["n1 v1 under way"]);
    give(&stream, &routes);
    assert_eq!(setting.rows(), ["n1 v1 yes current"]);
    let second = setting.publish("second");
    assert_eq!(setting.rows(), ["n1 v1 yes"], "it has the first one, and should have another");
    let routes = setting.made(ROUTES, "a/s", Some(&second));
    give(&stream, &routes);
    assert_eq!(setting.rows(), ["n1 v2 under way"], "the cluster is still made with the first one");
    let cluster = setting.made(CLUSTERS, "a/s", Some(&second));
    give(&stream, &cluster);
    assert_eq!(setting.rows(), ["n1 v2 yes current"]);
}

#[test]
fn a_refusal_stands_beside_the_release_that_it_is_of() {
    let mut setting = Setting::new();
    let stream = setting.stream("n1");
    let first = setting.publish("first");
    let good = setting.made(ROUTES, "a/s", Some(&first));
    give(&stream, &good);
    let second = setting.publish("second");
    let bad = setting.made(ROUTES, "a/s", Some(&second));
    refuse(&stream, &bad, "no such thing", 9);
    assert_eq!(setting.rows(), ["n1 v2 refused: no such thing"]);
    let other = setting.made(ROUTES, "a/t", None);
    give(&stream, &other);
    assert_eq!(setting.rows(), ["n1 v2 refused: no such thing"], "another acknowledgement says nothing of it");
    let mended = setting.made(ROUTES, "a/s", Some(&second));
    send(&stream, &mended);
    assert_eq!(setting.rows(), ["n1 v2 under way"]);
    give(&stream, &mended);
    assert_eq!(setting.rows(), ["n1 v2 yes current"]);
}

#[test]
fn of_several_refusals_the_newest_is_told() {
    let mut setting = Setting::new();
    let stream = setting.stream("n1");
    let first = setting.publish("first");
    let (routes, cluster) = (setting.made(ROUTES, "a/s", Some(&first)), setting.made(CLUSTERS, "a/s", Some(&first)));
    refuse(&stream, &cluster, "later", 9);
    refuse(&stream, &routes, "earlier", 8);
    assert_eq!(setting.rows(), ["n1 v1 refused: later"]);
}

#[test]
fn what_was_taken_away_is_had_until_that_is_acknowledged() {
    let mut setting = Setting::new();
    let stream = setting.stream("n1");
    let first = setting.publish("first");
    let routes = setting.made(ROUTES, "a/s", Some(&first));
    give(&stream, &routes);
    let without = setting.made(ROUTES, "a/s", None);
    send(&stream, &without);
    assert_eq!(setting.rows(), ["n1 v1 under way"]);
    refuse(&stream, &without, "never", 9);
    assert_eq!(setting.rows(), ["n1 v1 refused: never"]);
    give(&stream, &without);
    assert_eq!(setting.rows(), [] as [&str; 0]);
}

#[test]
fn a_client_is_one_row_however_many_streams_it_has() {
    let mut setting = Setting::new();
    let streams = [setting.stream("n1"), setting.stream("n1"), setting.stream("n2")];
    let first = setting.publish("first");
    let routes = setting.made(ROUTES, "a/s", Some(&first));
    streams.iter().for_each(|stream| give(stream, &routes));
    assert_eq!(setting.rows(), ["n1 v1 yes current", "n2 v1 yes current"]);
    let other = setting.made(ROUTES, "a/s2", Some(&first));
    refuse(&streams[0], &other, "no", 9);
    assert_eq!(setting.rows(), ["n1 v1 refused: no", "n2 v1 yes current"], "it has not applied it as a whole");
    drop(streams);
    assert_eq!(setting.rows(), [] as [&str; 0], "who is gone is not told of");
}

#[test]
fn a_row_says_who_the_client_is() {
    let mut setting = Setting::new();
    let stream = setting.stream("n1");
    let first = setting.publish("first");
    let routes = setting.made(ROUTES, "a/s", Some(&first));
    give(&stream, &routes);
    let active = setting.bench.catalog.rules.of(FAMILY).active();
    let [row] = &of_rule(&setting.streams, active, &first.rule.id)[..] else { panic!("one row") };
    assert_eq!((row.address.as_str(), row.agent.as_str(), row.is_xds), ("10.0.0.1", "envoy/1.40.0", true));
    assert_eq!(row.labels, [("zone".to_owned(), "z".to_owned())], "address and identity are columns of their own");
    assert_eq!(row.since, first.modified.time, "its stream is older than the release");
}

#[test]
fn clients_are_counted_by_kind_once_they_were_sent_something() {
    let mut setting = Setting::new();
    let shared = |setting: &Setting| {
        let mut shares = BTreeMap::new();
        add_shares(&mut shares, &setting.streams, &setting.bench.catalog);
        let share: Option<&Share> = shares.get(FAMILY.word());
        share.map(|share| (share.present, share.current))
    };
    let (one, second_target, other) = (setting.stream("n1"), setting.stream("n1"), setting.stream("n2"));
    let plain = setting.made(CLUSTERS, "a/other", None);
    give(&other, &plain);
    assert_eq!(shared(&setting), None, "nothing was made with a rule");
    let first = setting.publish("first");
    let routes = setting.made(ROUTES, "a/s", Some(&first));
    give(&one, &routes);
    send(&other, &routes);
    assert_eq!(shared(&setting), Some((2, 1)), "one has not answered yet");
    give(&other, &routes);
    assert_eq!(shared(&setting), Some((2, 2)));
    send(&second_target, &routes);
    assert_eq!(shared(&setting), Some((2, 1)), "two streams are one client, and the slower one counts");
    give(&second_target, &routes);
    let second = setting.publish("second");
    assert_eq!(shared(&setting), Some((2, 0)), "all should have another release");
    let routes = setting.made(ROUTES, "a/s", Some(&second));
    give(&one, &routes);
    give(&second_target, &routes);
    refuse(&other, &routes, "no", 9);
    assert_eq!(shared(&setting), Some((2, 1)));
    other.update(ROUTES, |state| drop(state.sent.remove("a/s")));
    assert_eq!(shared(&setting), Some((2, 1)), "it was taken away, and the client has not said so");
    drop((one, second_target, other));
    assert_eq!(shared(&setting), None);
}
