//! Queries about xDS clients.

use prost::Message;

use super::*;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, ResourceType, Version};
use crate::model::time::Timestamp;
use crate::origin::Origin;
use crate::proto::envoy::config::cluster::v3::Cluster;
use crate::subscribers::streams::{Registered, ResourceRefusal, StreamClient};

const CDS: ResourceType = ResourceType::Cluster;

fn stream(bench: &Bench, node_id: &str) -> Registered {
    bench.app.node().member().subscribers().streams().begin(StreamClient {
        dialect: Dialect::Envoy,
        node_id: node_id.into(),
        agent: "envoy 1.40.0".into(),
        address: Some([192, 0, 2, 7].into()),
        labels: Arc::new(
            [("CLIENT_IP", "192.0.2.7"), ("zone", "a")].map(|(key, value)| (key.into(), value.into())).into(),
        ),
        is_delta: true,
        since: Timestamp(1_000),
    })
}

fn cluster(bench: &Bench, name: &str, rule: &str) -> Arc<Resource> {
    let book = bench.node.state().view();
    let book = book.rules.of(crate::model::rule::Family::CircuitBreaker);
    let rule = book.named("n", rule).expect("a rule");
    let releases = book.releases_of(&rule.id).cloned().collect();
    let bytes = Cluster { name: name.into(), ..Cluster::default() }.encode_to_vec().into();
    let version = Version { index: 5, hash: name.len() as u64 };
    Arc::new(Resource {
        kind: CDS,
        name: name.into(),
        version,
        head: Bytes::new(),
        body: bytes,
        releases,
        clusters: Vec::new(),
    })
}

fn send(stream: &Registered, resource: &Arc<Resource>, message: Option<&str>) {
    stream.update(CDS, |state| {
        state.is_subscribed = true;
        let (name, resource) = (resource.name.clone(), resource.clone());
        state.sent.insert(name.clone(), resource.clone());
        match message {
            None => drop(state.acked.insert(name, resource)),
            Some(message) => state.refusals.push(Arc::new(ResourceRefusal {
                message: message.into(),
                at: Timestamp(2_000),
                resources: [(name, resource)].into(),
            })),
        }
    });
}

async fn publish(bench: &Bench, token: &str, rule: &str) {
    let kind = "/naming/v1/circuitbreakers";
    let body = json!([{ "name": rule, "namespace": "n", "enable": true, "level": "INSTANCE",
        "rule_matcher": { "destination": { "namespace": "n", "service": "s" } },
        "error_conditions": [], "trigger_condition": [] }]);
    let (_, answer) = bench.send("POST", kind, Some(token), body).await;
    assert_eq!(answer["code"], 200000, "{answer}");
    let release = json!([{ "rule_name": rule, "namespace": "n", "release_name": "first" }]);
    let (_, answer) = bench.send("POST", &format!("{kind}/releases"), Some(token), release).await;
    assert_eq!(answer["code"], 200000, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_who_is_connected_and_what_each_has() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    publish(&bench, &token, "r").await;
    let (one, two) = (stream(&bench, "n1"), stream(&bench, "n2"));
    let (pay, cart) = (cluster(&bench, "n/pay", "r"), cluster(&bench, "n/cart", "r"));
    send(&one, &pay, None);
    send(&two, &pay, None);
    send(&two, &cart, Some("no such policy"));
    let get = async |path: &str| bench.send("GET", path, Some(&token), Value::Null).await.1;

    let answer = get("/admin/v1/xds/clients?order=key&limit=1").await;
    assert_eq!((&answer["amount"], &answer["size"], &answer["silent_nodes"]), (&json!(2), &json!(1), &json!([])));
    let row = &answer["data"][0];
    assert_eq!((&row["node_id"], &row["node"], &row["client"]), (&json!("n1"), &json!(1), &json!("envoy")), "{row}");
    assert_eq!((&row["agent"], &row["address"]), (&json!("envoy 1.40.0"), &json!("192.0.2.7")));
    assert_eq!((&row["applied"], &row["variant"]), (&json!("yes"), &json!("delta")));
    assert_eq!(row["subscriptions"], json!(["cds"]));
    assert_eq!(row["labels"], json!([{ "key": "zone", "value": "a" }]));
    assert_eq!(row["has"], json!([{ "type": "cds", "sent": 1, "acknowledged": 1, "names": ["n/pay"] }]));
    let after = answer["after"].as_str().expect("a full page");
    let answer = get(&format!("/admin/v1/xds/clients?order=key&limit=1&after={after}")).await;
    let row = &answer["data"][0];
    assert_eq!((&row["node_id"], &row["applied"]), (&json!("n2"), &json!("refused")));
    let cds = &row["has"][0];
    assert_eq!((&cds["refused"], &cds["message"]), (&json!(["n/cart"]), &json!("no such policy")), "{cds}");
    assert_eq!((&cds["sent"], &cds["acknowledged"]), (&json!(2), &json!(1)));

    let answer = get("/admin/v1/xds/dump?node_id=n2").await;
    assert_eq!((&answer["amount"], &answer["code"]), (&json!(2), &json!(200000)), "{answer}");
    let row = &answer["data"][0];
    assert_eq!((&row["type"], &row["name"], &row["applied"]), (&json!("cds"), &json!("n/cart"), &json!("refused")));
    assert_eq!((&row["version"], &row["message"]), (&json!("5-0000000000000006"), &json!("no such policy")));
    assert_eq!(row["resource"]["name"], "n/cart");
    let release = &row["releases"][0];
    assert_eq!((&release["kind"], &release["rule_name"]), (&json!("circuitbreaker"), &json!("r")));
    assert_eq!((&release["release_name"], &release["version"]), (&json!("first"), &json!(1)));
    bench.stop().await;
}

/// Discovering clients with one token are registered by its user, not by their address.
#[tokio::test(flavor = "multi_thread")]
async fn discoveries_and_reports_are_remembered_for_their_user() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    publish(&bench, &token, "r").await;
    let service = json!([{ "namespace": "n", "name": "s" }]);
    let (_, answer) = bench.send("POST", "/naming/v1/services", Some(&token), service).await;
    assert_eq!(answer["code"], 200000, "{answer}");
    let paid = || {
        let origins = [Origin::of_user("admin"), Origin::of([192, 0, 2, 1].into())];
        origins.map(|origin| bench.app.node().member().subscribers().places_of(origin))
    };
    for (number, kind) in ["INSTANCE", "CIRCUIT_BREAKER"].into_iter().enumerate() {
        let question = json!({ "type": kind, "service": { "namespace": "n", "name": "s" } });
        let (_, answer) = bench.send("POST", "/v1/Discover", Some(&token), question).await;
        assert_eq!((&answer["code"], paid()), (&json!(200000), [number + 1, 0]), "{answer}");
    }
    let labels = json!({ "CLIENT_IP": "192.0.2.9" });
    let report = json!({ "type": "CIRCUIT_BREAKER", "namespace": "n", "name": "r", "ok": true,
        "client": { "labels": labels } });
    let (status, answer) = bench.send("POST", "/v1/Applied", Some(&token), report).await;
    assert_eq!((status.as_u16(), paid()), (204, [3, 0]), "{answer}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_rule_names_those_that_refused_it() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    publish(&bench, &token, "r").await;
    let (one, two) = (stream(&bench, "n1"), stream(&bench, "n2"));
    send(&one, &cluster(&bench, "n/s", "r"), None);
    send(&two, &cluster(&bench, "n/s", "r"), Some("no such policy"));
    let path = "/naming/v1/circuitbreakers/subscribers?rule_name=r&namespace=n";
    let (_, answer) = bench.send("GET", path, Some(&token), Value::Null).await;
    assert_eq!((&answer["amount"], &answer["current"]), (&json!(2), &json!(1)), "{answer}");
    let [has, refused] = [0, 1].map(|row| &answer["data"][row]);
    assert_eq!((&has["node_id"], &has["applied"], &has["protocol"]), (&json!("n1"), &json!("yes"), &json!("xds")));
    assert_eq!((&has["release_name"], &has["version"], &has["current"]), (&json!("first"), &json!(1), &json!(true)));
    assert_eq!((&refused["applied"], &refused["current"]), (&json!("refused"), &json!(false)));
    assert_eq!((&refused["message"], &refused["version"]), (&json!("no such policy"), &json!(1)));
    assert!(has.get("message").is_none(), "{has}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_is_of_a_client_that_is_connected() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    for (query, code) in [("", 400103), ("?node_id=nobody", 400202)] {
        let path = format!("/admin/v1/xds/dump{query}");
        let (_, answer) = bench.send("GET", &path, Some(&token), Value::Null).await;
        assert_eq!(answer["code"], code, "{answer}");
    }
    bench.stop().await;
}
