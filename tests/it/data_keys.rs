//! Rotation of the data key, node by node, while clients read: an access key, a webhook and a config file that the old
//! key sealed are readable on every node at every step.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Cluster, eventually, run, signed};

const FILES: &str = "/config/v1/configfiles";
const PULL: &str = "/configs/app/default/application";
const EVERYWHERE_WITHIN: Duration = Duration::from_secs(10);
const SECRET: &str = "a-secret-of-the-clients";

/// The file of a node's data keys: the first seals.
fn keys(cluster: &Cluster, digits: &[&str]) -> [String; 2] {
    let lines: Vec<_> = digits.iter().map(|digit| digit.repeat(64)).collect();
    let file = cluster.file(&format!("data-keys-{}", digits.concat()));
    std::fs::write(&file, format!("{}\n", lines.join("\n"))).expect("a file can be written");
    ["--data-key-file".to_owned(), file.to_str().expect("a path is text").to_owned()]
}

/// Checks that every node admits signed clients and returns the content of the file.
async fn serves(cluster: &Cluster, value: &str, step: &str) {
    for id in cluster.running() {
        let apollo = cluster.apollo(id);
        eventually(EVERYWHERE_WITHIN, &format!("{step}: node {id} serves {value}"), || async {
            match apollo.get_with(PULL, &signed(SECRET, "app", PULL, 0)).await {
                pulled if pulled.status == 200 && pulled.text.contains(value) => Ok(()),
                pulled => Err(format!("{pulled:?}")),
            }
        })
        .await;
    }
}

async fn publish(cluster: &Cluster, node: u64, value: &str) {
    let item = json!({"namespace": "default", "group": "app", "file_name": "application", "release_name": value,
        "content": format!("v={value}"), "encrypted": true});
    cluster.api(node).post(&format!("{FILES}/createandpub"), &item).await.expect_code(200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_key_takes_the_place_of_another_while_clients_read_on() {
    let mut cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(1);
    let key = json!([{"app_id": "app", "name": "one", "mode": "enforce", "secret": SECRET}]);
    api.post("/auth/v1/accesskeys", &key).await.expect_code(200_000);
    let hook = json!([{"name": "ops", "url": "https://ops.example.org/", "disabled": true}]);
    api.post("/admin/v1/webhooks", &hook).await.expect_code(200_000);
    let draft = json!({"namespace": "default", "group": "app", "name": "draft", "content": "d=1", "encrypted": true});
    api.post(FILES, &draft).await.expect_code(200_000);
    publish(&cluster, 1, "first").await;
    // No node seals with the new key before all can open its data.
    for (step, digits) in [("known", ["a", "b"]), ("first", ["b", "a"])] {
        let flags = keys(&cluster, &digits);
        cluster.set_options(&flags.each_ref().map(String::as_str));
        for id in cluster.ids() {
            cluster.terminate(id).await;
            cluster.restart(id).await;
            let value = format!("{step}-{id}");
            publish(&cluster, id, &value).await;
            serves(&cluster, &value, step).await;
        }
    }
    publish(&cluster, 2, "before").await;

    // What was published just now is under the new key already.
    let endpoint = format!("http://{}", cluster.ports(3).api);
    let told = run(&endpoint, cluster.token(), &["cluster", "reseal"], "").await.expect(0);
    for line in [
        "access keys              1 sealed under the first key, 0 left",
        "webhooks                 1 sealed under the first key, 0 left",
        "drafts of config files   1 sealed under the first key, 0 left",
        "releases of config files 4 left: publish their files again and delete them",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let again = api.post("/admin/v1/datakey/reseal", &json!(null)).await.expect_code(200_000);
    let none = json!({
        "access_keys": 0, "webhooks": 0, "providers": 0, "config_files": 0, "config_releases": 0,
    });
    assert_eq!(again.body["reseal"]["done"], none, "{again}");
    let trail = api.get("/admin/v1/audit?kind=accesskey").await.expect_code(200_000);
    assert_eq!((&trail.body["data"][0]["action"], trail.amount()), (&json!("update"), 2), "{trail}");
    for release in ["first", "known-1", "known-2", "known-3"] {
        let item = json!([{"namespace": "default", "group": "app", "file_name": "application", "name": release}]);
        api.post(&format!("{FILES}/releases/delete"), &item).await.expect_code(200_000);
    }
    let left = api.post("/admin/v1/datakey/reseal", &json!(null)).await.expect_code(200_000);
    assert_eq!(left.body["reseal"]["left"], none, "{left}");

    let flags = keys(&cluster, &["b"]);
    cluster.set_options(&flags.each_ref().map(String::as_str));
    for id in cluster.ids() {
        cluster.terminate(id).await;
        cluster.restart(id).await;
        serves(&cluster, "before", "alone").await;
        let alarms = cluster.api(id).cluster().await.expect("a status").body["alarms"].to_string();
        assert_eq!(alarms, "[]");
    }
    let file =
        cluster.api(1).get(&format!("{FILES}?namespace=default&group=app&name=draft")).await.expect_code(200_000);
    assert_eq!(file.body["configFile"]["content"], "d=1", "{file}");
    cluster.expect_equal_state().await;
}
