//! Gray releases of config files: only the clients with the right labels see them, on every node.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::harness::{Answer, Api, Apollo, Cluster, report};

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
    apollo.config_for("app", FILE, query).await["configurations"]["v"].clone()
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

/// Apollo compares the whole parameter with the label of a gray release; pairs in it are labels besides.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_label_is_the_whole_parameter() {
    let cluster = Cluster::start(1).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    api.publish("default", "app", FILE, "v=all").await;
    for (name, value) in [("plain", "canary"), ("pair", "zone=a"), ("list", "a b, c")] {
        draft(&api, name).await;
        let labels = json!([{"key": "label", "value": {"type": "EXACT", "value": value}}]);
        let gray = release(name, json!({"releaseType": "gray", "betaLabels": labels}));
        api.post(RELEASE, &gray).await.expect_code(200_000);
    }
    for (query, expected) in [
        ("label=canary", "plain"),
        ("label=canary,other", "all"),
        ("label=canary%20", "all"),
        ("label=label%3Dcanary", "all"),
        ("label=zone%3Da", "pair"),
        ("label=zone%3Da,x%3Dy", "all"),
        ("label=a+b,+c", "list"),
        ("label=", "all"),
    ] {
        assert_eq!(value_of(&apollo, query).await, expected, "{query}");
    }
}

/// A gray release of `count` expressions that a client of [`hostile_client`] meets, and of one more label that it does
/// not have: its pull compiles all of them and judges by all of them.
async fn publish_expressions(api: &Api, name: &str, count: usize) -> Answer {
    let wanted =
        (0..count).map(|number| json!({"key": format!("k{number}"), "value": {"type": "REGEX", "value": "\\pL{3}"}}));
    let mut labels: Vec<Value> = wanted.collect();
    labels.push(json!({"key": "never", "value": {"type": "EXACT", "value": "x"}}));
    api.post(RELEASE, &release(name, json!({"releaseType": "gray", "betaLabels": labels}))).await
}

fn hostile_client(count: usize) -> String {
    (0..count).fold("label=x%3Dx".to_owned(), |mut query, number| {
        write!(query, ",k{number}%3D{}", "abcde".repeat(6)).expect("a text");
        query
    })
}

/// An editor and releaser of one file cannot make a node keep more than a mebibyte for each of sixteen gray releases.
#[tokio::test(flavor = "multi_thread")]
async fn compiled_conditions_have_a_bound_for_each_release_and_releases_have_one() {
    const GRAYS_MAX: usize = 16;
    let cluster = Cluster::start(1).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    api.publish("default", "app", FILE, "v=all").await;
    let refused = publish_expressions(&api, "all", 63).await.expect_code(400_103);
    let info = refused.to_string();
    assert!(info.contains("client_labels[0] (k0), client_labels[1] (k1)") && info.contains("786432"), "{info}");
    let (mut active, mut most) = (0, 63);
    while active < GRAYS_MAX {
        match publish_expressions(&api, &format!("{active}-{most}"), most).await.code() {
            200_000 => active += 1,
            400_103 => most -= 1,
            other => panic!("{other}"),
        }
        assert!(most > 0, "one is not too many");
    }
    let refused = publish_expressions(&api, "more", 1).await.expect_code(507_002);
    assert!(refused.to_string().contains("at most 16 active gray releases"), "{refused}");
    let later =
        json!({"releaseType": "gray", "betaLabels": [{"key": "zone", "value": {"type": "EXACT", "value": "a"}}]});
    api.post(RELEASE, &release("share", later)).await.expect_code(507_002);

    assert_eq!(value_of(&apollo, "label=x%3Dx").await, "all", "what every pull needs is there");
    let before = cluster.process(1).resident_bytes();
    let query = hostile_client(most);
    for _ in 0..4 {
        let pulls = (0..16).map(|_| value_of(&apollo, &query));
        for value in futures_util::future::join_all(pulls).await {
            assert_eq!(value, "all");
        }
    }
    let kept = cluster.process(1).resident_bytes().saturating_sub(before);
    report(format!("{GRAYS_MAX} gray releases of {most} expressions \\pL{{3}} take {kept} bytes"));
    assert!(kept < 64 * 1024 * 1024, "{kept} bytes for 16 MiB and what is worked with");
}
