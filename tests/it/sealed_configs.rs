//! Encrypted config files on real clusters: read by published clients through every node, nowhere stored in clear, and
//! unreadable with another data key.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::backup::{restore_all, take_backup};
use crate::harness::{Answer, Api, Cluster, Kind, RealClient, eventually};

const FILES: &str = "/config/v1/configfiles";
const OF_FILE: &str = "namespace=default&group=app";
const PULL: &str = "/configs/app/default/application";
const CLIENT_LIMIT: Duration = Duration::from_secs(20);
/// From the answer of a change to its effect on every other node.
const EVERYWHERE_WITHIN: Duration = Duration::from_secs(10);
/// Secrets that must not be found, and a text that must be found, to show that the search works.
const SECRET: &str = "xK7-secret-of-the-file-qW2";
const PLAIN: &str = "yM4-plain-text-beside-it-bV9";

async fn publish(api: &Api, content: &str, encrypted: Option<bool>) -> Answer {
    let item = json!({
        "namespace": "default", "group": "app", "file_name": "application", "content": content, "encrypted": encrypted,
    });
    api.post(&format!("{FILES}/createandpub"), &item).await.expect_code(200_000)
}

/// Contents served on each surface, once all nodes have applied the same.
async fn everywhere(cluster: &Cluster, status: u16, value: &str) {
    for id in cluster.running() {
        eventually(EVERYWHERE_WITHIN, &format!("node {id} answers {status} {value}"), || async {
            let pulled = cluster.apollo(id).get(PULL).await;
            if pulled.status == status && pulled.text.contains(value) { Ok(()) } else { Err(format!("{pulled:?}")) }
        })
        .await;
    }
}

/// True if any file below a path holds a text.
fn is_found(path: &Path, text: &str) -> bool {
    if path.is_dir() {
        let mut entries = std::fs::read_dir(path).expect("a folder");
        return entries.any(|entry| is_found(&entry.expect("an entry").path(), text));
    }
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn caller(api: &Api, ports: std::net::SocketAddr, role: &str) -> Api {
    let item = json!([{"name": role, "grants": [{"role": role, "namespace": "*"}]}]);
    let made = api.post("/auth/v1/tokens", &item).await.expect_code(200_000);
    Api::new(ports).with_token(made.body["responses"][0]["token"]["secret"].as_str().expect("a secret"))
}

async fn is_read_by_a_published_client(kind: Kind) {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    publish(&cluster.api(1), &format!("k={SECRET}"), Some(true)).await;
    everywhere(&cluster, 200, SECRET).await;
    let mut client = RealClient::start(kind, cluster.ports(2).compat, "app", "application").await;
    client.holds(CLIENT_LIMIT, "k", SECRET).await;
    // It stays encrypted, regardless of the writing user and node, and the client gets what is published.
    for (node, value) in [(3, "second-secret"), (2, "third-secret")] {
        let published = publish(&cluster.api(node), &format!("k={value}"), None).await;
        assert_eq!(published.body["configFileRelease"]["encrypted"], true, "{published}");
        client.holds(CLIENT_LIMIT, "k", value).await;
    }
    let rollback =
        json!([{"namespace": "default", "group": "app", "file_name": "application", "id": first_id(&cluster).await}]);
    cluster.api(1).put(&format!("{FILES}/releases/rollback"), &rollback).await.expect_code(200_000);
    client.holds(CLIENT_LIMIT, "k", SECRET).await;
    cluster.expect_equal_state().await;
}

async fn first_id(cluster: &Cluster) -> Value {
    let versions = cluster.api(2).get(&format!("{FILES}/release/versions?{OF_FILE}&file_name=application")).await;
    let releases = versions.body["configFileReleases"].as_array().expect("a list");
    releases.last().expect("a release")["id"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_reads_an_encrypted_file() {
    is_read_by_a_published_client(Kind::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_client_reads_an_encrypted_file() {
    is_read_by_a_published_client(Kind::Rust).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_kept_holds_an_encrypted_file_in_clear() {
    let mut cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(1);
    publish(&api, &format!("k={SECRET}"), Some(true)).await;
    let draft =
        json!({"namespace": "default", "group": "app", "name": "application", "content": format!("k={SECRET}-2")});
    // Through a node that may not have heard yet that the file is encrypted.
    cluster.api(3).put(FILES, &draft).await.expect_code(200_000);
    api.publish("default", "app", "plain", &format!("k={PLAIN}")).await;
    api.post("/admin/v1/cluster/snapshot", &json!({})).await.expect_code(200_000);
    let (backup, exported) = (cluster.file("backup"), cluster.file("export"));
    take_backup(&cluster, 2, &backup).await;
    let export = api.request(reqwest::Method::POST, &format!("{FILES}/export")).json(&json!({"namespace": "default"}));
    let bytes = export.send().await.expect("an answer").bytes().await.expect("an archive");
    std::fs::write(&exported, bytes).expect("a file");
    cluster.expect_equal_state().await;

    // Without edit permission the file is listed without its content; on the clients' port too.
    for id in cluster.ids() {
        let reader = caller(&cluster.api(id), cluster.ports(id).api, "reader").await;
        let file = reader.get(&format!("{FILES}?{OF_FILE}&name=application")).await.expect_code(200_000);
        let shown = &file.body["configFile"];
        assert_eq!((&shown["encrypted"], shown.get("content")), (&json!(true), None), "{file}");
        for path in ["search?content=secret", "search?namespace=default", "releases?namespace=default"] {
            let listed = reader.get(&format!("{FILES}/{path}")).await.expect_code(200_000);
            assert!(!listed.body.to_string().contains(SECRET), "{listed}");
        }
        reader.get(&format!("{FILES}/release/diff?{OF_FILE}&file_name=application")).await.expect_code(401_001);
        let editor = caller(&cluster.api(id), cluster.ports(id).api, "editor").await;
        let file = editor.get(&format!("{FILES}?{OF_FILE}&name=application")).await.expect_code(200_000);
        assert_eq!(file.body["configFile"]["content"], format!("k={SECRET}-2"), "{file}");
        let client = caller(&cluster.api(id), cluster.ports(id).api, "client").await;
        for (api, status) in [(&reader, 403), (&editor, 200), (&client, 200)] {
            let token = api.token().expect("it has one");
            let pulled = cluster.apollo(id).get_as(PULL, Some(token)).await;
            assert_eq!((pulled.status, pulled.text.contains(SECRET)), (status, status == 200), "{pulled:?}");
        }
        for role in ["reader", "editor", "client"] {
            let gone = json!([{"name": role}]);
            cluster.api(id).post("/auth/v1/tokens/delete", &gone).await.expect_code(200_000);
        }
    }
    cluster.kill_all().await;
    let places = cluster.ids().into_iter().flat_map(|id| [cluster.data(id), cluster.log(id)]);
    for place in places.chain([backup.clone(), exported]) {
        assert!(!is_found(&place, SECRET), "{} holds it in clear", place.display());
    }
    assert!(is_found(&backup, PLAIN) && is_found(&cluster.data(1), PLAIN), "what is not encrypted is found");

    // The cluster restored from the backup has the same data key, and continues.
    restore_all(&cluster, &backup).await;
    cluster.restart_all().await;
    cluster.log_in_again().await;
    everywhere(&cluster, 200, SECRET).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_data_key_says_so_and_serves_the_rest() {
    let mut cluster = Cluster::start_with_data_key(1, &[]).await;
    let (own, other) = (cluster.data_key_flags("a"), cluster.data_key_flags("b"));
    publish(&cluster.api(1), &format!("k={SECRET}"), Some(true)).await;
    cluster.api(1).publish("default", "app", "plain", "k=1").await;
    for options in [Vec::new(), other.to_vec()] {
        cluster.set_options(&options.iter().map(String::as_str).collect::<Vec<_>>());
        cluster.kill(1).await;
        cluster.restart(1).await;
        cluster.log_in_again().await;
        let api = cluster.api(1);
        everywhere(&cluster, 503, "data key").await;
        assert_eq!(cluster.apollo(1).get("/configs/app/default/plain").await.status, 200);
        api.get(&format!("{FILES}?{OF_FILE}&name=application")).await.expect_code(503_005);
        let listed = api.get(&format!("{FILES}/search?namespace=default")).await.expect_code(200_000);
        assert_eq!(listed.amount(), 2);
        assert_eq!(api.metric("thuban_config_unreadable").await, Some(2.0));
        let told = api.cluster().await.expect("a status").body["alarms"].to_string();
        assert!(told.contains("encrypted config files") && told.contains("--data-key-file"), "{told}");
        if options.is_empty() {
            let item =
                json!({"namespace": "default", "group": "app", "name": "new", "encrypted": true, "content": "k=1"});
            api.post(FILES, &item).await.expect_code(503_005);
        }
    }
    cluster.set_options(&own.iter().map(String::as_str).collect::<Vec<_>>());
    cluster.kill(1).await;
    cluster.restart(1).await;
    everywhere(&cluster, 200, SECRET).await;
}
