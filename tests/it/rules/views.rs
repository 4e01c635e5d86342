//! View of clients on the releases: for each rule the newest active gray whose labels all match,
//! else the active normal one, else nothing.

use serde_json::{Map, Value, json};

use super::releases::{gray, normal, publish};
use super::suite::{OK, Suite, merged, text};

/// Labels of a release, labels of a client, and whether they match.
type Row = (&'static [(&'static str, &'static str, &'static str)], &'static [(&'static str, &'static str)], bool);

const MATCHES: [Row; 46] = [
    (&[("zone", "EXACT", "east")], &[("zone", "east")], true),
    (&[("zone", "EXACT", "east")], &[("zone", "east"), ("tier", "gold")], true),
    (&[("zone", "EXACT", "east")], &[("zone", "East")], false),
    (&[("zone", "EXACT", "east")], &[("zone", "east1")], false),
    (&[("zone", "EXACT", "east")], &[("zone", "")], false),
    (&[("zone", "EXACT", "east")], &[("Zone", "east")], false),
    (&[("zone", "EXACT", "east")], &[], false),
    (&[("zone", "EXACT", "*")], &[("zone", "anything")], true),
    (&[("zone", "EXACT", "*")], &[("tier", "gold")], false),
    (&[("zone", "REGEX", "^ea.t$")], &[("zone", "east")], true),
    (&[("zone", "REGEX", "^ea.t$")], &[("zone", "beast")], false),
    (&[("zone", "REGEX", "ea.t")], &[("zone", "beast")], true),
    (&[("zone", "REGEX", "(a+)+$")], &[("zone", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")], false),
    (&[("zone", "REGEX", "^[东西]$")], &[("zone", "东")], true),
    (&[("zone", "REGEX", ".*")], &[], false),
    (&[("zone", "NOT_EQUALS", "east")], &[("zone", "west")], true),
    (&[("zone", "NOT_EQUALS", "east")], &[("zone", "east")], false),
    (&[("zone", "NOT_EQUALS", "east")], &[], false),
    (&[("zone", "IN", "east,west")], &[("zone", "east")], true),
    (&[("zone", "IN", "east,west")], &[("zone", "west")], true),
    (&[("zone", "IN", "east,west")], &[("zone", "north")], false),
    (&[("zone", "IN", "east,west")], &[("zone", "east,west")], false),
    (&[("zone", "IN", "east")], &[("zone", "eas")], false),
    (&[("zone", "IN", "east,west")], &[], false),
    (&[("zone", "NOT_IN", "east,west")], &[("zone", "north")], true),
    (&[("zone", "NOT_IN", "east,west")], &[("zone", "east")], false),
    (&[("zone", "NOT_IN", "east,west")], &[("zone", "west")], false),
    (&[("zone", "NOT_IN", "east,west")], &[], false),
    (&[("build", "RANGE", "3~5")], &[("build", "3")], true),
    (&[("build", "RANGE", "3~5")], &[("build", "4")], true),
    (&[("build", "RANGE", "3~5")], &[("build", "5")], true),
    (&[("build", "RANGE", "3~5")], &[("build", "2")], false),
    (&[("build", "RANGE", "3~5")], &[("build", "6")], false),
    (&[("build", "RANGE", "3~5")], &[("build", "40")], false),
    (&[("build", "RANGE", "3~5")], &[("build", "-4")], false),
    (&[("build", "RANGE", "3~5")], &[("build", "4.5")], false),
    (&[("build", "RANGE", "3~5")], &[("build", "four")], false),
    (&[("build", "RANGE", "3~5")], &[("build", "18446744073709551620")], false),
    (&[("build", "RANGE", "7~7")], &[("build", "7")], true),
    (&[("build", "RANGE", "3~5")], &[], false),
    (&[("zone", "EXACT", "east"), ("build", "RANGE", "3~5")], &[("zone", "east"), ("build", "4")], true),
    (&[("zone", "EXACT", "east"), ("build", "RANGE", "3~5")], &[("zone", "east"), ("build", "6")], false),
    (&[("zone", "EXACT", "east"), ("build", "RANGE", "3~5")], &[("zone", "east")], false),
    (&[("zone", "EXACT", "east"), ("tier", "NOT_EQUALS", "tin")], &[("zone", "east"), ("tier", "gold")], true),
    (&[("zone", "EXACT", "east"), ("zone", "IN", "east,west")], &[("zone", "east")], true),
    (&[("zone", "EXACT", "east"), ("zone", "EXACT", "west")], &[("zone", "east")], false),
];

pub(super) async fn run(suite: &Suite) {
    labels_are_matched(suite).await;
    the_newest_matching_gray_is_seen(suite).await;
    what_is_in_force_is_what_was_published(suite).await;
    services_see_their_rules(suite).await;
}

/// One client: the service that it asks about, its labels, and the newest index of its writes.
async fn seen(suite: &Suite, namespace: &str, service: &str, labels: &Value) -> Vec<Value> {
    let question = json!({
        "type": suite.family.discovery.0,
        "service": {"namespace": namespace, "name": service},
        "filter": {"caller": {"labels": labels}},
        "applied_index": suite.written().await,
    });
    let answer = suite.api().post("/v1/Discover", &question).await.expect_code(OK);
    let rules = &answer.body[suite.family.discovery.1]["rules"];
    rules.as_array().unwrap_or_else(|| panic!("no rules in {answer}")).clone()
}

async fn priorities(suite: &Suite, namespace: &str, service: &str, labels: &Value) -> Vec<u64> {
    let rules = seen(suite, namespace, service, labels).await;
    rules.iter().map(|rule| rule["priority"].as_u64().expect("a number")).collect()
}

async fn set_priority(suite: &Suite, rule: &Value, priority: u64) {
    suite.put("", &json!([{"id": rule["id"], "priority": priority}])).await.expect_code(OK);
}

fn labelled(name: &str, labels: &[(&str, &str, &str)]) -> Value {
    let label = |(key, kind, value): &(&str, &str, &str)| json!({"key": key, "value": {"type": kind, "value": value}});
    let labels: Vec<Value> = labels.iter().map(label).collect();
    merged(&gray(name), &json!({"client_labels": labels}))
}

fn client(labels: &[(&str, &str)]) -> Value {
    let labels: Map<String, Value> = labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    Value::Object(labels)
}

/// A rule for a service of its own.
async fn rule_for(suite: &Suite, namespace: &str, service: &str, more: Value) -> Value {
    suite.rule(namespace, merged(&(suite.family.ends)(namespace, service).remove(0), &more)).await
}

/// Publishes every row as a gray release with value 1; the normal one has 0.
async fn labels_are_matched(suite: &Suite) {
    for (labels, of_client, is_match) in MATCHES {
        let (namespace, service) = ("labels", suite.fresh("svc"));
        let rule = rule_for(suite, namespace, &service, json!({})).await;
        publish(suite, &rule, normal("for all")).await;
        set_priority(suite, &rule, 1).await;
        publish(suite, &rule, labelled("for some", labels)).await;
        let expected = [u64::from(is_match)];
        let told = priorities(suite, namespace, &service, &client(of_client)).await;
        assert_eq!(told, expected, "a client with {of_client:?} and a release for {labels:?}");
        suite.count(1);
    }
}

async fn the_newest_matching_gray_is_seen(suite: &Suite) {
    let service = suite.fresh("svc");
    let rule = rule_for(suite, "grays", &service, json!({})).await;
    let (east, gold, both) =
        (client(&[("zone", "east")]), client(&[("tier", "gold")]), client(&[("zone", "east"), ("tier", "gold")]));
    let nobody = client(&[]);
    let expect = async |step: &str, of: [&[u64]; 4]| {
        for (client, expected) in [&nobody, &east, &gold, &both].into_iter().zip(of) {
            assert_eq!(priorities(suite, "grays", &service, client).await, expected, "{step}: {client}");
            suite.count(1);
        }
    };
    let name = |release: &str| json!([{"rule_id": rule["id"], "release_name": release}]);
    expect("nothing is published", [&[], &[], &[], &[]]).await;
    publish(suite, &rule, labelled("east", &[("zone", "EXACT", "east")])).await;
    expect("gray without a normal one", [&[], &[0], &[], &[0]]).await;
    suite.put("/releases/stopbeta", &name("east")).await.expect_code(OK);
    set_priority(suite, &rule, 1).await;
    publish(suite, &rule, normal("one")).await;
    set_priority(suite, &rule, 2).await;
    expect("a stopped gray and a saved change", [&[1], &[1], &[1], &[1]]).await;
    publish(suite, &rule, labelled("east again", &[("zone", "EXACT", "east")])).await;
    set_priority(suite, &rule, 3).await;
    publish(suite, &rule, labelled("gold", &[("tier", "EXACT", "gold")])).await;
    expect("two grays", [&[1], &[2], &[3], &[3]]).await;
    suite.put("/releases/stopbeta", &name("gold")).await.expect_code(OK);
    expect("the newer gray is stopped", [&[1], &[2], &[1], &[2]]).await;
    suite.put("/releases/stopbeta", &name("east again")).await.expect_code(OK);
    expect("no gray is left", [&[1], &[1], &[1], &[1]]).await;
    set_priority(suite, &rule, 4).await;
    publish(suite, &rule, normal("two")).await;
    expect("a newer normal one", [&[4], &[4], &[4], &[4]]).await;
    suite.put("/releases/rollback", &name("one")).await.expect_code(OK);
    expect("rolled back", [&[1], &[1], &[1], &[1]]).await;
    suite.post("/releases/delete", &name("two")).await.expect_code(OK);
    expect("an inactive one is gone", [&[1], &[1], &[1], &[1]]).await;
    suite.post("/delete", &json!([{"id": rule["id"]}])).await.expect_code(OK);
    expect("the rule is gone", [&[], &[], &[], &[]]).await;
}

/// The whole rule as it was released, whatever becomes of the saved one.
async fn what_is_in_force_is_what_was_published(suite: &Suite) {
    for (title, sample) in (suite.family.samples)() {
        let on = json!({"name": suite.fresh("in force"), "enable": true, "disable": false});
        let rule = suite.create(&merged(&sample, &on)).await;
        publish(suite, &rule, normal("now")).await;
        let told = seen(suite, "elsewhere", "target", &json!({})).await;
        assert_eq!(told, [(suite.family.in_force)(&rule)], "{title}");
        let update = merged(&(suite.family.bare)().remove(0).0, &json!({"id": rule["id"], "enable": false}));
        suite.put("", &json!([update])).await.expect_code(OK);
        assert_eq!(
            seen(suite, "elsewhere", "target", &json!({})).await,
            told,
            "{title}: saving changed what clients see"
        );
        suite.post("/delete", &json!([{"id": rule["id"]}])).await.expect_code(OK);
        assert_eq!(seen(suite, "elsewhere", "target", &json!({})).await, [] as [Value; 0], "{title}: it is gone");
        suite.count(3);
    }
}

/// By service, for every service, in order of priority; disabled rules are left out.
async fn services_see_their_rules(suite: &Suite) {
    let namespace = suite.fresh("views");
    let service = suite.fresh("svc");
    for (name, service, priority, enable) in [
        ("third", service.as_str(), 30, true),
        ("first", "*", 10, true),
        ("off", service.as_str(), 5, false),
        ("other", "other", 1, true),
        ("second", service.as_str(), 20, true),
    ] {
        let more = json!({"name": name, "priority": priority, "enable": enable});
        let rule = rule_for(suite, &namespace, service, more).await;
        publish(suite, &rule, normal("r")).await;
    }
    let told = seen(suite, &namespace, &service, &json!({})).await;
    let names: Vec<&str> = told.iter().map(|rule| text(&rule["name"])).collect();
    assert_eq!(names, ["first", "second", "third"]);
    assert_eq!(priorities(suite, &namespace, "other", &json!({})).await, [1, 10]);
    assert_eq!(priorities(suite, &namespace, "nobody", &json!({})).await, [10]);
    assert_eq!(priorities(suite, "nowhere", &service, &json!({})).await, [0; 0]);
    suite.count(4);
}
