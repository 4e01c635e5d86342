//! The ends of what SDKs hold open: their token, and the node.

use serde_json::json;
use thuban::polaris::v1;

use super::config::{file, watch};
use super::{INSTANCE, Talk, UNAUTHENTICATED, WITHIN, act, asked, instance, with_token};
use crate::grpc::client;
use crate::harness::{Cluster, eventually};
use crate::polls::await_held;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_its_grants_and_its_end() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let item = json!([{"name": "sdk", "grants": [{"role": "client", "namespace": "shop"}]}]);
    let made = api.post("/auth/v1/tokens", &item).await.expect_code(200_000);
    let secret = made.body["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned();
    let sdk = client(&cluster).await.with("x-polaris-token", secret);
    assert_eq!(act(&sdk, "RegisterInstance", &instance("pay", "10.0.0.1", 80)).await.code, Some(200_000));
    let elsewhere = v1::Instance { namespace: Some("bank".into()), ..instance("pay", "10.0.0.1", 80) };
    assert_eq!(act(&sdk, "RegisterInstance", &elsewhere).await.code, Some(401_001));
    let mut talk = Talk::open(&sdk);
    assert_eq!(talk.of(INSTANCE, "pay", "").await.code, Some(200_000));
    // A service that the token does not see is one that does not exist.
    let unseen = v1::Service { namespace: Some("bank".into()), name: Some("pay".into()), ..Default::default() };
    let unseen = v1::DiscoverRequest { service: Some(unseen), ..asked(INSTANCE, "", "") };
    assert_eq!(talk.ask(&unseen).await.code, Some(400_202));
    let held = watch(&sdk, vec![file(0)]);
    await_held(&api, 1).await;
    api.post("/auth/v1/tokens/delete", &json!([{"name": "sdk"}])).await.expect_code(200_000);
    assert_eq!(held.await.expect("no panic").code, Some(401_004));
    talk.0.send(&asked(INSTANCE, "pay", "")).await;
    assert_eq!(talk.0.end().await.expect("a status").0, UNAUTHENTICATED);
    assert_eq!(act(&sdk, "Heartbeat", &instance("pay", "10.0.0.1", 80)).await.code, Some(401_004));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_answers_watches_and_ends_streams() {
    let mut cluster = Cluster::start(1).await;
    let sdk = with_token(&cluster).await;
    let mut talk = Talk::open(&sdk);
    talk.of(INSTANCE, "pay", "").await;
    let held = watch(&sdk, vec![file(0)]);
    await_held(&cluster.api(1), 1).await;
    assert!(cluster.terminate(1).await.success());
    assert_eq!(held.await.expect("no panic").code, Some(200_001), "the SDK watches again, elsewhere");
    talk.0.end().await;
}

/// A client that goes without a word leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_its_client() {
    let cluster = Cluster::start(1).await;
    let sdk = with_token(&cluster).await;
    let held = watch(&sdk, vec![file(0)]);
    await_held(&cluster.api(1), 1).await;
    held.abort();
    eventually(WITHIN, "the watch is gone", || async {
        let held = cluster.api(1).metric("thuban_long_polls_held").await;
        if held == Some(0.0) { Ok(()) } else { Err(format!("{held:?}")) }
    })
    .await;
}
