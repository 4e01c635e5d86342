//! Warnings of what clients of xDS do not carry out: where one was seen, by whichever node, and where a request asks.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thuban::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

use crate::harness::ads::{AdsConnection, CLUSTER, SOTW, node};
use crate::harness::{Api, Cluster, eventually};

const SOON: Duration = Duration::from_secs(30);
const INSTANCES: &str = "/naming/v1/instances";
const RULES: &str = "/naming/v1/routings";

/// Numbers of the warnings on a write that is done.
async fn warned(api: &Api, path: &str, item: &Value) -> Vec<String> {
    let answer = api.post(path, &json!([item])).await.expect_code(200_000);
    let warnings = answer.body["responses"][0]["warnings"].as_array().cloned().unwrap_or_default();
    let numbers =
        warnings.iter().filter_map(|text| text.as_str()?.split_once(':')).map(|(number, _)| number.to_owned());
    numbers.collect()
}

/// Another one each time.
fn instance(namespace: &str) -> Value {
    static PORT: AtomicU16 = AtomicU16::new(8002);
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    json!({"namespace": namespace, "service": "pay", "host": "pay.example.internal", "port": port})
}

/// A rule with a condition that gRPC clients cannot evaluate.
fn rule(namespace: &str, name: &str) -> Value {
    let of = json!({"namespace": namespace, "service": "pay"});
    let argument = json!({"type": "COOKIE", "key": "k", "value": {"value": "v"}});
    let rule = json!({"name": "r", "arguments": {"arguments": [argument]}, "destinations": [of]});
    let config = json!({"callee": of, "rules": [rule]});
    json!({"namespace": namespace, "name": name, "route_policy": "RulePolicy", "routing_config": config})
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_client_of_xds_is_not_warned_of_them() {
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    for namespace in ["shop", "other"] {
        assert_eq!(warned(&api, INSTANCES, &instance(namespace)).await, [""; 0]);
        assert_eq!(warned(&api, RULES, &rule(namespace, "before")).await, [""; 0]);
    }
    assert_eq!(warned(&api, &format!("{INSTANCES}?xds=warn"), &instance("shop")).await, ["W1"]);
    assert_eq!(warned(&api, &format!("{RULES}?xds=warn"), &rule("shop", "asked")).await, ["W4"]);
    api.post(&format!("{RULES}?xds=no"), &json!([rule("shop", "bad")])).await.expect_code(400_103);

    let connection = AdsConnection::open_from(Ipv4Addr::LOCALHOST.into(), cluster.grpc(2)).await;
    let mut stream = connection.stream(SOTW).await;
    stream.send(&DiscoveryRequest {
        node: node("seen", "grpc"),
        type_url: CLUSTER.to_owned(),
        resource_names: vec!["shop/pay".to_owned()],
        ..DiscoveryRequest::default()
    });
    let _: DiscoveryResponse = stream.receive_within(SOON).await.expect("an answer").expect("it goes on");
    eventually(SOON, "the other nodes know that a client was seen", || async {
        match &warned(&api, INSTANCES, &instance("shop")).await[..] {
            [one] if one == "W1" => Ok(()),
            told => Err(format!("{told:?}")),
        }
    })
    .await;
    assert_eq!(warned(&api, RULES, &rule("shop", "after")).await, ["W4"]);
    let release = json!({"rule_name": "after", "namespace": "shop"});
    assert_eq!(warned(&cluster.api(3), &format!("{RULES}/releases"), &release).await, ["W4"]);
    assert_eq!(warned(&api, INSTANCES, &instance("other")).await, [""; 0], "none was seen there");
    assert_eq!(warned(&api, RULES, &rule("other", "after")).await, [""; 0]);
}
