//! Discovery by clients: the rules in force, on any node, and as soon as they change.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Answer, Api, Cluster, eventually};

const LIMITS: &str = "/naming/v1/ratelimits";
const WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn question(what: &str, service: &str, more: Value) -> Value {
    let mut question = json!({"type": what, "service": {"namespace": "shop", "name": service}});
    question.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    question
}

pub(crate) async fn discover(api: &Api, question: &Value) -> Answer {
    api.post("/v1/Discover", question).await
}

pub(crate) fn rule_names(answer: &Answer, element: &str) -> Vec<String> {
    let rules = answer.body[element]["rules"].as_array().unwrap_or_else(|| panic!("no rules in {answer}"));
    rules.iter().map(|rule| rule["name"].as_str().expect("a name").to_owned()).collect()
}

pub(crate) async fn publish_limit(api: &Api, name: &str, item: Value) {
    api.post(LIMITS, &item).await.expect_code(200_000);
    api.post(&format!("{LIMITS}/releases"), &json!([{"rule_name": name}])).await.expect_code(200_000);
}

pub(crate) fn limit(name: &str, priority: u32, service: &str) -> Value {
    json!([{"name": name, "namespace": "shop", "priority": priority, "service": service}])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_shows_the_rules_in_force() {
    let cluster = Cluster::start(3).await;
    let apis: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    publish_limit(&apis[0], "second", limit("second", 2, "pay")).await;
    publish_limit(&apis[1], "first", limit("first", 1, "*")).await;
    publish_limit(&apis[2], "other", limit("other", 0, "stock")).await;
    apis[0].post(LIMITS, &limit("unpublished", 0, "pay")).await.expect_code(200_000);
    let off = json!([{"name": "off", "namespace": "shop", "service": "pay", "enable": false}]);
    publish_limit(&apis[0], "off", off).await;
    apis[1].post("/naming/v1/services", &json!([{"namespace": "shop", "name": "pay"}])).await.expect_code(200_000);
    let alias = json!([{"namespace": "shop", "service": "pay", "alias": "checkout", "alias_namespace": "shop"}]);
    apis[2].post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    for api in &apis {
        // A discovery answers from the node's own memory, which may be slightly stale.
        let asked = question("RATE_LIMIT", "checkout", json!({}));
        let (api, asked) = (api, &asked);
        let answer = eventually(WITHIN, "the node has applied all", || async move {
            let answer = discover(api, asked).await.expect_code(200_000);
            let is_there =
                answer.body["aliasFor"]["name"] == "pay" && rule_names(&answer, "rateLimit") == ["first", "second"];
            if is_there { Ok(answer) } else { Err(answer.to_string()) }
        })
        .await;
        let revision = &answer.body["service"]["revision"];
        assert_eq!(answer.body["rateLimit"]["revision"], *revision);
        let again = json!({"type": 4, "service": {"namespace": "shop", "name": "pay", "revision": revision}});
        let unchanged = discover(api, &again).await.expect_code(200_001);
        assert_eq!(unchanged.body.get("rateLimit"), None, "{unchanged}");
    }
    let known = ["CIRCUIT_BREAKER", "FAULT_DETECTOR", "ROUTING"].map(|what| (what, 200_000));
    for (what, code) in known.into_iter().chain([("LANE", 400_004), ("", 400_004)]) {
        discover(&apis[0], &question(what, "pay", json!({}))).await.expect_code(code);
    }
    discover(&apis[0], &json!({"type": "ROUTING", "service": {"namespace": "shop"}})).await.expect_code(400_120);
    discover(&apis[0], &json!([])).await.expect_code(400_001);
    let services =
        discover(&apis[1], &json!({"type": "SERVICES", "service": {"namespace": "shop"}})).await.expect_code(200_000);
    assert_eq!(services.body["services"][0]["name"], "pay", "{services}");
    assert_eq!(services.body["services"][0].get("token"), None, "{services}");
    let namespaces = discover(&apis[1], &json!({"type": "NAMESPACES"})).await.expect_code(200_000);
    assert_eq!(namespaces.body["namespaces"].as_array().map(Vec::len), Some(2), "{namespaces}");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_choose_gray_releases_and_old_forms_are_folded() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let path = "/naming/v1/faultdetectors";
    let rule = json!([{"name": "probe", "namespace": "shop", "target_service": {"service": "pay"}, "interval": 7,
        "rules": [{"interval": 5}]}]);
    api.post(path, &rule).await.expect_code(200_000);
    let gray = json!([{"rule_name": "probe", "release_name": "g", "release_type": "gray",
        "client_labels": [{"key": "zone", "value": {"type": "IN", "value": "a,b"}}]}]);
    api.post(&format!("{path}/releases"), &gray).await.expect_code(200_000);
    let of_zone =
        |zone: &str| question("FAULT_DETECTOR", "pay", json!({"filter": {"caller": {"labels": {"zone": zone}}}}));
    assert_eq!(rule_names(&discover(&api, &of_zone("c")).await.expect_code(200_000), "faultDetector"), [""; 0]);
    let seen = discover(&api, &of_zone("a")).await.expect_code(200_000);
    let intervals: Vec<_> = seen.body["faultDetector"]["rules"][0]["rules"]
        .as_array()
        .expect("sub-rules")
        .iter()
        .map(|rule| &rule["interval"])
        .collect();
    assert_eq!(intervals, [5, 7], "{seen}");
    // Sub-rules and none of the older fields: those are gone.
    api.put(path, &json!([{"name": "probe", "namespace": "shop", "rules": [{"interval": 9}]}]))
        .await
        .expect_code(200_000);
    let mut nested = gray.clone();
    nested[0]["release_name"] = json!("nested");
    api.post(&format!("{path}/releases"), &nested).await.expect_code(200_000);
    let seen = discover(&api, &of_zone("a")).await.expect_code(200_000);
    let rule = &seen.body["faultDetector"]["rules"][0];
    assert_eq!((rule["rules"].as_array().map(Vec::len), &rule["rules"][0]["interval"]), (Some(1), &json!(9)), "{seen}");
    let by_address = json!([{"rule_name": "probe", "release_name": "here", "release_type": "gray",
        "client_labels": [{"key": "CLIENT_IP", "value": {"value": "127.0.0.1"}}]}]);
    api.post(&format!("{path}/releases"), &by_address).await.expect_code(200_000);
    let seen = discover(&api, &of_zone("c")).await.expect_code(200_000);
    assert_eq!(rule_names(&seen, "faultDetector"), ["probe"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_question_is_answered_when_the_rules_change() {
    let cluster = Cluster::start(3).await;
    let apis: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    publish_limit(&apis[0], "first", limit("first", 1, "pay")).await;
    let mut revision = String::new();
    for api in &apis {
        let asked = &question("RATE_LIMIT", "pay", json!({}));
        let answer = eventually(WITHIN, "the node has applied the publish", || async move {
            let answer = discover(api, asked).await.expect_code(200_000);
            if rule_names(&answer, "rateLimit") == ["first"] { Ok(answer) } else { Err(answer.to_string()) }
        })
        .await;
        revision = answer.body["service"]["revision"].as_str().expect("a revision").to_owned();
    }
    let held = |timeout_ms: u64| {
        json!({"type": "RATE_LIMIT",
            "service": {"namespace": "shop", "name": "pay", "revision": revision}, "timeout_ms": timeout_ms})
    };
    // Nothing changes: 200001 at the end of the hold.
    discover(&apis[1], &held(100)).await.expect_code(200_001);
    // A release for every service, of another name, through another node.
    let mut waiting = JoinSet::new();
    for id in cluster.ids() {
        let (api, asked) = (cluster.api(id), held(WITHIN.as_millis() as u64));
        waiting.spawn(async move { discover(&api, &asked).await });
    }
    for api in &apis {
        eventually(WITHIN, "the question is held", || async move {
            let polls = api.metric("thuban_long_polls_held").await;
            if polls == Some(1.0) { Ok(()) } else { Err(format!("{polls:?}")) }
        })
        .await;
    }
    publish_limit(&apis[2], "all", limit("all", 0, "*")).await;
    while let Some(answer) = waiting.join_next().await {
        let answer = answer.expect("no panic").expect_code(200_000);
        assert_eq!(rule_names(&answer, "rateLimit"), ["all", "first"], "{answer}");
        // A client that has seen this index gets no older state.
        let behind = json!({"type": "RATE_LIMIT", "service": {"namespace": "shop", "name": "pay"},
            "applied_index": answer.body["applied_index"]});
        for api in &apis {
            assert_eq!(rule_names(&discover(api, &behind).await.expect_code(200_000), "rateLimit"), ["all", "first"]);
        }
    }
}

/// A node waits two seconds for an index that a client has seen on another node; an index that no node reached belongs
/// to another cluster.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_has_seen_is_waited_for_and_what_nobody_has_is_not() {
    let cluster = Cluster::start(3).await;
    let follower = cluster.followers().await[0];
    let api = cluster.api(follower);
    publish_limit(&api, "first", limit("first", 1, "pay")).await;
    let seen = |index: u64| question("RATE_LIMIT", "pay", json!({"applied_index": index}));
    let answer = discover(&api, &seen(u64::from(u32::MAX))).await.expect_code(200_000);
    assert_eq!(rule_names(&answer, "rateLimit"), ["first"], "{answer}");
    let applied = answer.body["applied_index"].as_u64().unwrap_or_else(|| panic!("no index in {answer}"));
    let others: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != follower).collect();
    join_all(others.iter().map(|id| cluster.pause(*id))).await;
    // Without the others the two cases cannot be distinguished. A node that has become the leader meanwhile can do so
    // until its lease ends.
    let behind = eventually(WITHIN, "nobody can say", || async {
        let answer = discover(&api, &seen(applied + 1_000)).await;
        if answer.code() == 503_006 { Ok(answer) } else { Err(answer.to_string()) }
    })
    .await;
    let info = behind.body["info"].as_str().unwrap_or_default().to_owned();
    let words = format!("retry here or on another node: index {}", applied + 1_000);
    assert!(info.contains(&words) && !info.contains("leader"), "{info}");
    let answer = discover(&api, &seen(applied)).await.expect_code(200_000);
    assert_eq!(rule_names(&answer, "rateLimit"), ["first"], "what is there is answered: {answer}");
    join_all(others.iter().map(|id| cluster.resume(*id))).await;
}
