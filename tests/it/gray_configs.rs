//! Gray releases of config files: only the clients with the right labels see them, on every node.

use serde_json::{Value, json};

use crate::harness::{Api, Apollo, Cluster};

const RELEASE: &str = "/config/v1/configfiles/release";
const RELEASES: &str = "/config/v1/configfiles/releases";
const FILE: &str = "application";

fn release(name: &str, more: Value) -> Value {
    let mut release = json!({"namespace": "default", "group": "app", "file_name": FILE, "name": name});
    release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    release
}

fn gray(name: &str, key: &str, value: &str) -> Value {
    let labels = json!([{"key": key, "value": {"type": "IN", "value": value}}]);
    release(name, json!({"releaseType": "gray", "betaLabels": labels}))
}

async fn draft(api: &Api, value: &str) {
    let file = json!({"namespace": "default", "group": "app", "name": FILE, "content": format!("v={value}")});
    api.put("/config/v1/configfiles", &file).await.expect_code(200_000);
}

async fn value_of(apollo: &Apollo, query: &str) -> Value {
    let pulled = apollo.get(&format!("/configs/app/default/{FILE}?{query}")).await;
    let body: Value = serde_json::from_str(&pulled.text).unwrap_or_else(|_| panic!("{query}: {pulled:?}"));
    body["configurations"]["v"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_with_the_labels_see_a_gray_release() {
    let cluster = Cluster::start(3).await;
    let (first, second) = (cluster.api(1), cluster.api(2));
    first.publish("default", "app", FILE, "v=all").await;
    draft(&second, "here").await;
    first.post(RELEASE, &release("bare", json!({"releaseType": "gray"}))).await.expect_code(400_904);
    second.post(RELEASE, &gray("by-address", "CLIENT_IP", "10.0.0.9,10.0.0.10")).await.expect_code(200_000);
    draft(&first, "labelled").await;
    first.post(RELEASE, &gray("by-label", "zone", "a")).await.expect_code(200_000);
    first.post(RELEASE, &release("normal", json!({}))).await.expect_code(409_000);
    cluster.expect_equal_state().await;
    let cases = [
        ("", "all"),
        ("ip=10.0.0.8", "all"),
        ("ip=10.0.0.9", "here"),
        ("label=zone%3Db", "all"),
        ("label=zone%3Da", "labelled"),
        ("ip=10.0.0.9&label=zone%3Da,x%3Dy", "labelled"),
    ];
    for id in cluster.ids() {
        for (query, expected) in cases {
            assert_eq!(value_of(&cluster.apollo(id), query).await, expected, "node {id}, {query}");
        }
    }
    // Each change of what some client sees advances the ids of all, on all nodes alike.
    let before = cluster.apollo(3).current_id("app", "default", FILE).await;
    let stop = format!("{RELEASES}/stopbeta");
    first.post(&stop, &json!([release("by-label", json!({}))])).await.expect_code(200_000);
    first.post(&stop, &json!([release("by-label", json!({}))])).await.expect_code(200_002);
    first.post(&stop, &json!([release("none", json!({}))])).await.expect_code(400_202);
    cluster.expect_equal_state().await;
    for id in cluster.ids() {
        let apollo = cluster.apollo(id);
        assert_eq!(apollo.current_id("app", "default", FILE).await, before + 1);
        assert_eq!(value_of(&apollo, "label=zone%3Da").await, "all");
    }
    second.post(&format!("{RELEASES}/delete"), &json!([release("by-address", json!({}))])).await.expect_code(400_000);
    second.put(&format!("{RELEASES}/rollback"), &json!([release("by-label", json!({}))])).await.expect_code(400_000);
    second.post(&stop, &json!([release("by-address", json!({}))])).await.expect_code(200_000);
    first.post(RELEASE, &release("normal", json!({}))).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    assert_eq!(value_of(&cluster.apollo(3), "ip=10.0.0.9").await, "labelled", "the draft as it stood at publish");
}
