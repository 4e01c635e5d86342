//! Contents of config files over real HTTP: at their limits, and on disk alone.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::catch_up::{expect_installed, leave_behind, order};
use crate::harness::{Answer, Api, Cluster, eventually};

const CHARACTERS_MAX: usize = 1024 * 1024;
const PUBLISH: &str = "/config/v1/configfiles/createandpub";

/// Characters beyond ASCII as `\uXXXX`, as some clients write all of them.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

async fn publish(api: &Api, name: &str, content: &str) -> Answer {
    let body = format!(
        "{{\"namespace\":\"default\",\"group\":\"app\",\"file_name\":\"{name}\",\"format\":\"text\",\
         \"content\":\"{content}\"}}"
    );
    Answer::read(api.request(Method::POST, PUBLISH).body(body)).await.expect("an answer")
}

/// The limit counts characters: a content of that length is accepted in any script, by any node, and returned
/// unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_content_of_as_many_characters_as_there_may_be_is_taken_in_any_script() {
    let cluster = Cluster::start(3).await;
    let follower = cluster.followers().await[0];
    let api = cluster.api(follower);
    let rows = [
        ("ascii", "a", false),
        ("cjk", "字", false),
        ("cjk-escaped", "字", true),
        ("emoji", "🌟", false),
        ("controls", "\u{1}", true),
    ];
    for (name, character, is_escaped) in rows {
        let content = character.repeat(CHARACTERS_MAX);
        let sent = if is_escaped { escaped(&content) } else { content.clone() };
        publish(&api, name, &sent).await.expect_code(200_000);
        let more = format!("{sent}{}", if is_escaped { escaped(character) } else { character.to_owned() });
        publish(&api, name, &more).await.expect_code(400_803);
        let pulled = cluster.apollo(follower).get(&format!("/configfiles/raw/app/default/{name}")).await;
        assert_eq!((pulled.status, pulled.text.len()), (200, content.len()), "{name}");
        assert!(pulled.text == content, "{name} came back as another text");
    }
    // As a pair of escapes each takes twice as many bytes as any other character, which exceeds the body limit.
    publish(&api, "emoji", &escaped(&"🌟".repeat(CHARACTERS_MAX))).await.expect_code(413_000);
    let small = api.post("/config/v1/configfiles/release", &json!({"file_name": "a".repeat(3_000_000)})).await;
    small.expect_code(413_000);
    cluster.expect_equal_state().await;
}

/// A file of ten thousand characters.
fn version(number: u64) -> String {
    format!("{number:010000}")
}

const FILE: &str = "namespace=default&group=app&file_name=f.txt";

async fn expect_pulled(cluster: &Cluster, content: &str) {
    for id in cluster.running() {
        eventually(Duration::from_secs(20), "the node serves what is in force", || async {
            let pulled = cluster.apollo(id).get("/configfiles/raw/app/default/f.txt").await;
            let is_it = pulled.status == 200 && pulled.text == content;
            if is_it { Ok(()) } else { Err(format!("node {id}: {} {:.20}", pulled.status, pulled.text)) }
        })
        .await;
    }
}

async fn expect_in_memory(cluster: &Cluster, contents: usize) {
    for id in cluster.running() {
        let bytes = cluster.api(id).metric("thuban_config_content_bytes").await;
        assert_eq!(bytes, Some(contents as f64 * 10_000.0), "node {id}");
    }
}

/// An inactive release is only a row on each node: it is returned whole on request, after a restart too, and on a node
/// that got the state by a snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_on_disk_alone_comes_back_on_every_node() {
    let mut cluster = Cluster::start_with(3, &["--log-entries-kept", "100"]).await;
    let follower = cluster.followers().await[0];
    let api = cluster.api(follower);
    for number in 1..=3 {
        let release = json!({
            "namespace": "default", "group": "app", "file_name": "f.txt", "content": version(number),
            "release_name": format!("r{number}"),
        });
        api.post("/config/v1/configfiles/createandpub", &release).await.expect_code(200_000);
    }
    expect_pulled(&cluster, &version(3)).await;
    expect_in_memory(&cluster, 1).await;
    for id in cluster.running() {
        let api = cluster.api(id);
        let one = api.get(&format!("/config/v1/configfiles/release?{FILE}&release_name=r1")).await.expect_code(200_000);
        assert!(one.body["configFileRelease"]["content"] == version(1), "node {id}: {one}");
        let listed = api.get("/config/v1/configfiles/releases?namespace=default&group=app&brief=false").await;
        let all = api.get(&format!("/config/v1/configfiles/release/versions?{FILE}&brief=false")).await;
        for rows in [&listed.body["configFileReleases"], &all.body["configFileReleases"]] {
            let contents: Vec<_> = rows.as_array().expect("rows").iter().map(|row| &row["content"]).collect();
            assert!(contents == [3, 2, 1].map(|number| Value::from(version(number))).each_ref(), "node {id}");
        }
        let diff = api.get(&format!("/config/v1/configfiles/release/diff?{FILE}&from=r1&to=r2")).await;
        let lines = diff.expect_code(200_000).body["diff"]["lines"].to_string();
        assert!(lines.contains(&version(1)) && lines.contains(&version(2)), "node {id}");
    }
    expect_in_memory(&cluster, 1).await;

    let named = |name: &str| json!([{"namespace": "default", "group": "app", "file_name": "f.txt", "name": name}]);
    let back = api.put("/config/v1/configfiles/releases/rollback", &named("r1")).await.expect_code(200_000);
    assert!(back.body["responses"][0]["configFileRelease"]["content"] == version(1), "{back}");
    expect_pulled(&cluster, &version(1)).await;
    cluster.restart_all().await;
    expect_pulled(&cluster, &version(1)).await;
    // The draft exists too, with the content that was published last.
    expect_in_memory(&cluster, 2).await;

    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    let applied = api.metric("thuban_raft_applied_index").await.expect("the gauge is there");
    leave_behind(&api, applied).await;
    cluster.start_outsider(4).await;
    let peer = cluster.ports(4).peer.to_string();
    order(&api, "/admin/v1/cluster/add", json!({"id": 4, "peer": peer})).await;
    cluster.wait_ready(4).await;
    expect_installed(&cluster.api(4)).await;
    expect_pulled(&cluster, &version(1)).await;
    api.put("/config/v1/configfiles/releases/rollback", &named("r2")).await.expect_code(200_000);
    expect_pulled(&cluster, &version(2)).await;
    let gone = api.post("/config/v1/configfiles/releases/delete", &named("r1")).await.expect_code(200_000);
    assert!(gone.body["responses"][0]["configFileRelease"]["content"] == version(1), "{gone}");
    cluster.expect_equal_state().await;
}
