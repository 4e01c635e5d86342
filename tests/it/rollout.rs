//! Stages of a release: gray, a larger share, promoted, withdrawn, planned; and its history. Clients never return to an
//! older release, regardless of leaders.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Api, Apollo, Cluster, eventually, in_future, report};

const RELEASE: &str = "/config/v1/configfiles/release";
const RELEASES: &str = "/config/v1/configfiles/releases";
const FILE: &str = "application";
const LIMIT: Duration = Duration::from_secs(20);

fn release(name: &str, more: &Value) -> Value {
    let mut release = json!({"namespace": "default", "group": "app", "file_name": FILE, "name": name});
    release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    release
}

async fn draft(api: &Api, value: &str) {
    let file = json!({"namespace": "default", "group": "app", "name": FILE, "content": format!("v={value}")});
    api.put("/config/v1/configfiles", &file).await.expect_code(200_000);
}

/// `None` where the client gets nothing.
async fn value_of(apollo: &Apollo, address: &str) -> Option<String> {
    let pulled = apollo.get(&format!("/configs/app/default/{FILE}?ip={address}")).await;
    if pulled.status == 404 {
        return None;
    }
    let body: Value = serde_json::from_str(&pulled.text).unwrap_or_else(|_| panic!("{address}: {pulled:?}"));
    body["configurations"]["v"].as_str().map(str::to_owned)
}

/// Newest first.
async fn actions(api: &Api) -> Vec<(String, String)> {
    let path = format!("/config/v1/configfiles/releasehistory?namespace=default&group=app&file_name={FILE}");
    let answer = api.get(&path).await.expect_code(200_000);
    let rows = answer.body["data"].as_array().unwrap_or_else(|| panic!("no data in {answer}")).clone();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_else(|| panic!("{row}")).to_owned();
    rows.iter().map(|row| (text(row, "action"), text(row, "release_name"))).collect()
}

/// Pulls continuously as a client with this address until it is stopped; returns the different values in the order of
/// arrival.
async fn watch(apollo: Apollo, address: &'static str, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let value = value_of(&apollo, address).await.unwrap_or_default();
        if seen.last() != Some(&value) {
            seen.push(value);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_share_to_everybody_and_back() {
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    api.publish("default", "app", FILE, "v=old").await;
    draft(&api, "new").await;
    let share = json!({"release_type": "gray", "client_percent": {"by": "CLIENT_IP", "percent": 50}});
    api.post(RELEASE, &release("half", &share)).await.expect_code(200_000);
    let nobody = json!({"release_type": "gray", "client_percent": {"by": "CLIENT_IP", "percent": 0}});
    api.post(RELEASE, &release("nobody", &nobody)).await.expect_code(400_904);
    cluster.expect_equal_state().await;
    // Positions by the SHA-256 of the address: 58, 74 and 37 of 100.
    for id in cluster.ids() {
        let apollo = cluster.apollo(id);
        for (address, expected) in [("10.0.0.1", "old"), ("10.0.0.2", "old"), ("10.0.0.3", "new")] {
            assert_eq!(value_of(&apollo, address).await.as_deref(), Some(expected), "node {id}, {address}");
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let watches: Vec<_> = cluster
        .ids()
        .into_iter()
        .flat_map(|id| ["10.0.0.1", "10.0.0.3"].map(|address| (id, address)))
        .map(|(id, address)| tokio::spawn(watch(cluster.apollo(id), address, stop.clone())))
        .collect();
    let promote = json!([release("half", &json!({"new_release_name": "full"}))]);
    let promoted = api.put(&format!("{RELEASES}/promote"), &promote).await.expect_code(200_000);
    assert_eq!(promoted.body["responses"][0]["configFileRelease"]["name"], "full", "{promoted}");
    cluster.expect_equal_state().await;
    for id in cluster.ids() {
        assert_eq!(value_of(&cluster.apollo(id), "10.0.0.1").await.as_deref(), Some("new"), "node {id}");
    }
    stop.store(true, Ordering::Relaxed);
    for (at, watched) in watches.into_iter().enumerate() {
        let seen = watched.await.expect("no panic");
        let allowed: &[&str] = if at % 2 == 0 { &["old", "new"] } else { &["new"] };
        assert!(seen.iter().all(|value| allowed.contains(&value.as_str())), "client {at} saw {seen:?}");
        assert!(seen.len() <= allowed.len(), "client {at} stepped back: {seen:?}");
    }
    let previous = json!([release("full", &json!({"to_previous": true}))]);
    cluster.api(2).put(&format!("{RELEASES}/withdraw"), &previous).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    assert_eq!(value_of(&cluster.apollo(3), "10.0.0.3").await.as_deref(), Some("old"));
    let diff = format!("{RELEASE}/diff?namespace=default&group=app&file_name={FILE}&from=active&to=full");
    let diff = cluster.api(3).get(&diff).await.expect_code(200_000);
    assert_eq!(diff.body["diff"]["changes"], json!([{"path": "v", "before": "old", "after": "new"}]), "{diff}");
    let told: Vec<String> = actions(&cluster.api(3)).await.into_iter().map(|(action, _)| action).collect();
    assert_eq!(told, ["withdraw", "promote", "gray", "publish"]);
}

/// Returns the time since 1970 by the wall clock that leaders use.
fn now() -> Duration {
    let date = Command::new("date").args(["-u", "+%s%3N"]).output().expect("date runs");
    let text = String::from_utf8(date.stdout).expect("text");
    Duration::from_millis(text.trim().parse().expect("a number"))
}

/// Once, although the leader that would have done it is dead by then, and by the clock of the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_planned_comes_about_under_the_next_leader() {
    let mut cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    api.publish("default", "app", FILE, "v=old").await;
    draft(&api, "planned").await;
    let in_3_s = Duration::from_secs(now().as_secs() + 3);
    let at = in_future(Duration::from_secs(3));
    let planned = api.post(RELEASE, &release("planned", &json!({"publish_at": at}))).await.expect_code(200_000);
    assert_eq!(planned.body["configFileRelease"]["state"], "scheduled", "{planned}");
    draft(&api, "later").await;
    assert_eq!(value_of(&cluster.apollo(2), "10.0.0.1").await.as_deref(), Some("old"));
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let other = cluster.ids().into_iter().find(|id| *id != leader).expect("two are left");
    let apollo = cluster.apollo(other);
    eventually(LIMIT, "the planned release is there", || async {
        match value_of(&apollo, "10.0.0.1").await {
            Some(value) if value == "planned" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let late = now().saturating_sub(in_3_s);
    report(format!("a planned release was there {late:?} after its time, its leader dead"));
    cluster.restart(leader).await;
    cluster.expect_equal_state().await;
    let expected = [("publish", "planned"), ("schedule", "planned")].map(|(one, two)| (one.to_owned(), two.to_owned()));
    assert_eq!(actions(&cluster.api(leader)).await[..2], expected, "once, and it is told of");
    let path = format!("{RELEASES}?namespace=default&group=app&file_name={FILE}&release_name=planned");
    let listed = cluster.api(other).get(&path).await.expect_code(200_000);
    assert_eq!(listed.body["configFileReleases"][0]["active"], true, "{listed}");
}
