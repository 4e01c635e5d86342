//! "Which rule would apply?", on any node: for released rules, saved rules, and by client.

use serde_json::{Value, json};

use crate::envelope::both;
use crate::harness::{Answer, Api, Cluster};

const ROUTES: &str = "/naming/v1/routings";

fn route(name: &str, priority: u32, header: Value) -> Value {
    let arguments = match header {
        Value::Null => json!([]),
        value => json!([{"type": "HEADER", "key": "env", "value": {"type": "EXACT", "value": value}}]),
    };
    json!([{"name": name, "namespace": "shop", "priority": priority, "route_policy": "RulePolicy", "routing_config": {
        "rules": [{"name": "only", "arguments": {"arguments": arguments}, "destinations": [
            {"service": "order", "namespace": "shop", "name": "old", "weight": 3},
            {"service": "order", "namespace": "shop", "name": "new", "weight": 1},
        ]}]
    }}])
}

async fn publish(api: &Api, name: &str, more: Value) {
    let mut release = json!({"rule_name": name});
    release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    api.post(&format!("{ROUTES}/releases"), &json!([release])).await.expect_code(200_000);
}

async fn explained(api: &Api, service: &str, more: Value) -> Answer {
    let mut sketch = json!({"service": service, "namespace": "shop"});
    sketch.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    api.post(&format!("{ROUTES}/explain"), &sketch).await.expect_code(200_000)
}

/// Returns the sentences on what happens to the request.
fn effect(answer: &Answer) -> Vec<&str> {
    let lines = answer.body["explanation"]["effect"].as_array().expect("a list");
    lines.iter().map(|line| line.as_str().expect("a text")).collect()
}

fn names(answer: &Answer) -> Vec<&str> {
    let applies = answer.body["explanation"]["applies"].as_array().expect("a list");
    applies.iter().map(|part| part["rule_name"].as_str().expect("a name")).collect()
}

/// Returns each gray release with its rule, its effect on the client, and the reason.
fn grays(answer: &Answer) -> Vec<String> {
    let grays = answer.body["explanation"]["grays"].as_array().expect("a list");
    let text = |gray: &Value, field: &str| gray[field].as_str().expect("a text").to_owned();
    grays.iter().map(|gray| ["rule_name", "state", "info"].map(|field| text(gray, field)).join(", ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn released_and_saved_rules_are_explained_on_every_node() {
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    for (name, priority, header) in [("gray", 0, json!("gray")), ("main", 1, Value::Null)] {
        leader.post(ROUTES, &route(name, priority, header)).await.expect_code(200_000);
    }
    let gray = json!({"headers": {"Env": "gray"}});
    assert_eq!(names(&explained(&follower, "order", gray.clone()).await), [""; 0], "nothing is released");
    let diff = explained(&follower, "order", json!({"headers": {"Env": "gray"}, "diff": true})).await;
    let changes = &diff.body["explanation"]["changes"];
    assert_eq!((names(&diff).len(), &changes[0]["path"]), (0, &json!("/0")), "{diff}");
    assert_eq!(changes[0]["after"]["rule_name"], "gray", "what a release of all drafts would bring: {diff}");
    let draft = json!({"headers": {"Env": "gray"}, "draft": true});
    assert_eq!(names(&explained(&follower, "order", draft.clone()).await), ["gray"]);

    publish(&leader, "main", json!({"release_name": "first"})).await;
    let labels = json!([{"key": "zone", "value": {"value": "a"}}]);
    publish(&leader, "gray", json!({"release_type": "gray", "client_labels": labels})).await;
    let unlabelled = explained(&follower, "order", gray.clone()).await;
    assert_eq!(names(&unlabelled), ["main"]);
    let split = "any instance (75 %) and any instance (25 %)";
    assert_eq!(effect(&unlabelled), [format!("every call → {split} (main v1, live)")]);
    assert_eq!(grays(&unlabelled), ["gray, not_matched, the client has no label zone"], "{unlabelled}");
    let zone = &unlabelled.body["explanation"]["grays"][0]["client_labels"][0];
    assert_eq!((&zone["key"], &zone["condition"]["value"]), (&json!("zone"), &json!("a")), "{unlabelled}");
    let labelled = json!({"headers": {"Env": "gray"}, "client_labels": {"zone": "a"}});
    let labelled = explained(&follower, "order", labelled).await;
    assert_eq!(names(&labelled), ["gray"]);
    assert_eq!(effect(&labelled), [format!("zone=a, header env = gray → {split} (gray v1, canary)")]);
    assert_eq!(grays(&labelled), ["gray, in_force, the client sees it"], "{labelled}");
    assert_eq!(grays(&explained(&follower, "order", draft).await), [""; 0], "what is saved is for nobody yet");
    assert_eq!(grays(&explained(&follower, "pay", json!({})).await), [""; 0], "of another service");

    let alias = json!([{"namespace": "shop", "service": "order", "alias": "checkout", "alias_namespace": "shop"}]);
    leader.post("/naming/v1/services", &json!([{"namespace": "shop", "name": "order"}])).await.expect_code(200_000);
    leader.post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    let answer = explained(&follower, "checkout", gray).await;
    let explanation = &answer.body["explanation"];
    assert_eq!((names(&answer), &explanation["service"]), (vec!["main"], &json!("order")), "{answer}");
    assert_eq!(answer.header("x-thuban-consistency"), "linearizable");
    let main = &explanation["candidates"][0];
    assert_eq!((&main["verdict"], &main["release"]["release_name"]), (&json!("applies"), &json!("first")), "{answer}");
    // A caller who does not see the service learns nothing of the alias's target.
    let grants = json!([{"role": "reader", "namespace": "other"}]);
    let eva = json!([{"name": "eva", "password": "a password of eva", "grants": grants}]);
    leader.post("/auth/v1/users", &eva).await.expect_code(200_000);
    let login = json!({"name": "eva", "password": "a password of eva"});
    let login = leader.post("/auth/v1/user/login", &login).await.expect_code(200_000);
    let stranger = leader.clone().with_token(login.body["loginResponse"]["token"].as_str().expect("a token"));
    let blind = explained(&stranger, "checkout", json!({"draft": true})).await;
    let explanation = &blind.body["explanation"];
    assert_eq!((names(&blind), &explanation["service"]), (vec![], &json!("checkout")), "{blind}");
    assert!(!blind.to_string().contains("order"), "{blind}");
    let shares: Vec<_> = main["rules"][0]["route"]["destinations"]
        .as_array()
        .expect("destinations")
        .iter()
        .map(|group| (&group["name"], &group["share"]))
        .collect();
    assert_eq!(shares, [(&json!("old"), &json!(75.0)), (&json!("new"), &json!(25.0))], "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_family_explains_and_refuses_alike() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let of_service = json!({"name": "r", "namespace": "shop", "service": "order"});
    let rows = [
        (
            "faultdetectors",
            json!({"rules": [{"protocol": "TCP", "interval": 5, "timeout": 1}]}),
            "probe",
            "every instance of shop/order → probed by a TCP connection at the port of each instance, every 5 s; one \
             without a good answer within 1 s has failed (r, draft)",
        ),
        (
            "ratelimits",
            json!({"rules": [{"amounts": [{"maxAmount": 5, "validDuration": "1s"}]}]}),
            "quota",
            "every call → limit 5 per 1 s, shared by all callers (r, draft)",
        ),
        (
            "circuitbreakers",
            json!({"level": "SERVICE", "rule_matcher": {"destination": {"service": "order"}},
                "trigger_condition": [{"trigger_type": "CONSECUTIVE_ERROR", "error_count": 5}]}),
            "breaker",
            "every call → after 5 errors in a row all calls to the service are refused; after a time that clients \
             choose (proxies: 30 s) calls are let through again; an error is what clients themselves take for \
             one (r, draft)",
        ),
        (
            "routings",
            json!({"service": null, "routing_config": {"service": "order"}, "route_policy": 2}),
            "nearby",
            "every call → instances of the caller's zone, or those of its region while none of these is available, or \
             all others while none of these is available (r, draft)",
        ),
    ];
    for (kind, more, settings, happens) in rows {
        let path = format!("/naming/v1/{kind}");
        let mut rule = of_service.clone();
        rule.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        api.post(&path, &json!([rule])).await.expect_code(200_000);
        let sketch = json!({"service": "order", "namespace": "shop", "draft": true});
        let answer = api.post(&format!("{path}/explain?consistency=local"), &sketch).await.expect_code(200_000);
        let explanation = &answer.body["explanation"];
        assert_eq!(
            (&explanation["kind"], &explanation["draft"]),
            (&json!(kind.trim_end_matches('s')), &json!(true)),
            "{answer}"
        );
        assert!(explanation["candidates"][0]["rules"][0][settings].is_object(), "no {settings} in {answer}");
        assert_eq!(names(&answer), ["r"]);
        assert_eq!(effect(&answer), [happens]);
        let enforced = explanation["candidates"][0]["enforced_by"].as_str().expect("a line");
        assert!(enforced.starts_with("Envoy sidecar"), "{answer}");
        let other = json!({"service": "other", "namespace": "elsewhere"});
        let none = api.post(&format!("{path}/explain"), &other).await.expect_code(200_000);
        assert_eq!(effect(&none), ["no rule of this family applies: none is for elsewhere/other"]);
        assert_eq!(answer.header("x-thuban-consistency"), "local");
        for (bad, code) in [
            (json!({"service": "order"}), 400_103),
            (json!({"namespace": "shop"}), 400_103),
            (json!({"service": "order", "namespace": "shop", "headers": {"a": 1}}), 400_001),
            (json!([]), 400_001),
        ] {
            api.post(&format!("{path}/explain"), &bad).await.expect_code(code);
        }
        api.clone().without_token().post(&format!("{path}/explain"), &sketch).await.expect_code(401_002);
    }
}
