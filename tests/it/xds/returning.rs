//! A state-of-the-world client that connects to another node after its resources were deleted.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::json;
use thuban::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

use crate::harness::Cluster;
use crate::harness::ads::{AdsConnection, AdsStream, CLUSTER, ENDPOINTS, LISTENER, SOTW, node};

const TYPES: [&str; 3] = [LISTENER, CLUSTER, ENDPOINTS];
const AT_ONCE: Duration = Duration::from_secs(5);
const SERVICES: &str = "/naming/v1/services";

async fn stream(cluster: &Cluster, id: u64) -> AdsStream {
    AdsConnection::open_from(Ipv4Addr::LOCALHOST.into(), cluster.grpc(id)).await.stream(SOTW).await
}

/// The answer to a first request of a type.
async fn asked(stream: &mut AdsStream, type_url: &str, version: &str) -> DiscoveryResponse {
    stream.send(&DiscoveryRequest {
        node: node("returning", "grpc"),
        type_url: type_url.to_owned(),
        resource_names: vec!["shop/kept".to_owned(), "shop/pay".to_owned()],
        version_info: version.to_owned(),
        ..DiscoveryRequest::default()
    });
    let answer: DiscoveryResponse = stream.receive_within(AT_ONCE).await.expect("an answer").expect("it goes on");
    assert_eq!(answer.type_url, type_url);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_meanwhile_is_told_by_another_node() {
    let cluster = Cluster::start(3).await;
    let services = json!([{"namespace": "shop", "name": "pay"}, {"namespace": "shop", "name": "kept"}]);
    cluster.api(1).post(SERVICES, &services).await.expect_code(200_000);
    let mut versions = Vec::new();
    let mut before = stream(&cluster, 1).await;
    for type_url in TYPES {
        let answer = asked(&mut before, type_url, "").await;
        assert_eq!((answer.resources.len(), answer.resource_errors.len()), (2, 0), "{type_url}");
        versions.push(answer.version_info);
    }
    drop(before);
    let gone = json!([{"namespace": "shop", "name": "pay"}]);
    cluster.api(1).post(&format!("{SERVICES}/delete"), &gone).await.expect_code(200_000);
    for id in [2, 3] {
        // A read through this node's API returns what it has applied.
        cluster.api(id).get(&format!("{SERVICES}?namespace=shop")).await.expect_code(200_000);
        let mut after = stream(&cluster, id).await;
        for (type_url, version) in TYPES.into_iter().zip(&versions) {
            let answer = asked(&mut after, type_url, version).await;
            assert_eq!(answer.resources.len(), 1, "node {id}, {type_url}: the other one is there");
            let [error] = &answer.resource_errors[..] else { panic!("node {id}, {type_url}: nothing is said") };
            let name = error.resource_name.as_ref().map(|name| name.name.as_str());
            let text = error.error_detail.as_ref().map(|detail| detail.message.as_str());
            assert_eq!((name, text), (Some("shop/pay"), Some("no service pay in namespace shop")), "{type_url}");
        }
    }
}
