//! Nodes that catch up: behind the log's start, new, removed, or wiped.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::harness::{Api, Cluster, Load, Outcome, eventually, report, setting};
use crate::polls::hold;

const NAMESPACE: &str = "catch-up";
const LIMIT: Duration = Duration::from_secs(60);

/// Options with which a node soon falls behind the log's start, while a poll on it is held for longer than that takes.
pub(crate) const SHORT_LOG: [&str; 4] = ["--log-entries-kept", "100", "--long-poll-timeout-ms", "89000"];
/// Writes at the same time.
const HANDS: usize = 64;

/// Writes from many hands until the leader's log no longer reaches back to `index`.
///
/// `THUBAN_IT_LAG` sets the number of entries per round.
pub(crate) async fn leave_behind(api: &Api, index: f64) {
    let entries: usize = setting("THUBAN_IT_LAG", 400);
    let began = std::time::Instant::now();
    for round in 0.. {
        let writes = (0..entries).map(|number| async move {
            let service = json!([{"namespace": NAMESPACE, "name": format!("entry-{round}-{number}")}]);
            api.post("/naming/v1/services", &service).await.expect_code(200_000);
        });
        stream::iter(writes).buffer_unordered(HANDS).collect::<Vec<()>>().await;
        order(api, "/admin/v1/cluster/snapshot", json!({})).await;
        if api.metric("thuban_raft_purged_index").await.expect("the gauge is there") > index {
            return;
        }
        // A silent peer delays the purge until the leader gives it up, regardless of the number of entries.
        let is_late = began.elapsed() > 2 * LIMIT;
        assert!(!is_late, "after {round} rounds of {entries} entries the log still reaches back to {index}");
    }
}

/// The stopped node holds no process; the paused one still holds the poll of a client, and must wake
/// it when the state arrives as a snapshot and not as entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_behind_the_log_catches_up_by_snapshot_and_wakes_its_pollers() {
    let cluster = Cluster::start_with(3, &SHORT_LOG).await;
    let leader = cluster.leader().await;
    let late = cluster.followers().await[0];
    let api = cluster.api(leader);
    api.publish("default", "app", "application", "v=1").await;
    cluster.expect_equal_state().await;
    let id = cluster.apollo(late).current_id("app", "default", "application").await;
    let held = hold(&cluster, late, "app", "default", id).await;
    let behind = cluster.api(late).metric("thuban_raft_applied_index").await.expect("the gauge is there");

    cluster.pause(late).await;
    api.publish("default", "app", "application", "v=2").await;
    leave_behind(&api, behind).await;
    cluster.resume(late).await;
    let resumed = std::time::Instant::now();

    let polled = held.await.expect("the poll does not panic");
    report(format!("a poll on a node that caught up by snapshot woke {:?} after the node went on", resumed.elapsed()));
    assert!(polled.id_of("application").is_some_and(|newer| newer > id), "{polled:?}");
    let read = cluster.apollo(late).config("app", "default", "application").await;
    assert_eq!(read["configurations"], json!({"v": "2"}), "{read}");
    expect_installed(&cluster.api(late)).await;
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_node_catches_up_by_snapshot() {
    let mut cluster = Cluster::start_with(3, &SHORT_LOG).await;
    let leader = cluster.leader().await;
    let late = cluster.followers().await[0];
    let behind = cluster.api(late).metric("thuban_raft_last_log_index").await.expect("the gauge is there");
    cluster.kill(late).await;
    leave_behind(&cluster.api(leader), behind).await;
    cluster.restart(late).await;
    expect_installed(&cluster.api(late)).await;
    cluster.expect_equal_state().await;
}

/// Writes come at a rate at which the retained log covers only a moment; a node that receives a snapshot still finds
/// the entries after it, and needs no second one.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_catches_up_under_load_with_one_snapshot() {
    let mut cluster = Cluster::start_with(3, &["--snapshot-entries", "200", "--log-entries-kept", "50"]).await;
    let leader = cluster.leader().await;
    let late = cluster.followers().await[0];
    let api = cluster.api(leader);
    cluster.kill(late).await;
    let load = Load::start(NAMESPACE, 8, vec![(leader, api.clone())]);
    let behind = api.metric("thuban_raft_last_log_index").await.expect("the gauge is there");
    eventually(LIMIT, "the log is purged beyond the node that is away", || async {
        match api.metric("thuban_raft_purged_index").await {
            Some(purged) if purged > behind => Ok(()),
            seen => Err(format!("{seen:?} of {behind}")),
        }
    })
    .await;
    cluster.restart(late).await;
    let caught_up = api.metric("thuban_raft_last_log_index").await.expect("the gauge is there") + 500.0;
    let of_late = cluster.api(late);
    eventually(LIMIT, "the node follows the log", || async {
        match of_late.metric("thuban_raft_applied_index").await {
            Some(applied) if applied > caught_up => Ok(()),
            seen => Err(format!("{seen:?} of {caught_up}")),
        }
    })
    .await;
    let journal = load.stop().await;
    report(format!("{} writes while a node caught up by snapshot", journal.keys(&Outcome::Acknowledged).len()));
    let installed = of_late.metric(r#"thuban_snapshots_total{event="installed"}"#).await;
    assert_eq!(installed, Some(1.0), "one snapshot is enough");
    cluster.expect_equal_state().await;
}

pub(crate) async fn expect_installed(api: &Api) {
    eventually(LIMIT, "a snapshot was installed", || async {
        match api.metric(r#"thuban_snapshots_total{event="installed"}"#).await {
            Some(count) if count >= 1.0 => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_is_promoted_and_leaves() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    let service = json!([{"namespace": NAMESPACE, "name": "before"}]);
    api.post("/naming/v1/services", &service).await.expect_code(200_000);

    cluster.start_outsider(4).await;
    let peer = cluster.ports(4).peer.to_string();
    order(&api, "/admin/v1/cluster/add", json!({"id": 4, "peer": peer})).await;
    assert_eq!(expect_member(&api, 4).await, Some(false), "an added node does not vote yet");
    cluster.wait_ready(4).await;
    order(&api, "/admin/v1/cluster/promote", json!({"id": 4})).await;
    assert_eq!(expect_member(&api, 4).await, Some(true), "a promoted node votes");
    let path = format!("/naming/v1/services?namespace={NAMESPACE}&name=before");
    assert_eq!(cluster.api(4).get(&path).await.expect_code(200_000).amount(), 1);
    cluster.expect_equal_state().await;

    transfer(&cluster, &api, 4).await;
    transfer(&cluster, &cluster.api(1), 1).await;
    order(&cluster.api(1), "/admin/v1/cluster/remove", json!({"id": 4})).await;
    cluster.kill(4).await;
    assert_eq!(expect_member(&cluster.api(1), 4).await, None, "a removed node is no member");
}

/// Makes an operator's call, repeated while the node knows no leader, which is safe after 503001.
pub(crate) async fn order(api: &Api, path: &str, body: Value) {
    let body = &body;
    eventually(LIMIT, path, || async move {
        match api.post(path, body).await {
            answer if answer.code() == 503_001 => Err(answer.to_string()),
            answer => Ok(answer.expect_code(200_000)),
        }
    })
    .await;
}

/// Asks a node for another leader, and waits until that one leads.
async fn transfer(cluster: &Cluster, asked: &Api, to: u64) {
    order(asked, "/admin/v1/cluster/transfer", json!({"to": to})).await;
    eventually(LIMIT, "the lead moves", || async {
        match cluster.leader().await {
            leader if leader == to => Ok(()),
            leader => Err(format!("node {leader} leads")),
        }
    })
    .await;
}

/// True if a member votes, by the answer of a node; `None` if it is no member.
async fn expect_member(api: &Api, id: u64) -> Option<bool> {
    let view = api.cluster().await.expect("the cluster can be shown");
    let members = view.body["members"].as_array().expect("a list of members");
    members.iter().find(|member| member["id"] == id)?["voter"].as_bool()
}

/// A voter that lost its disk has lost votes and acknowledged entries: it must not rejoin under its old id.
#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_is_refused() {
    let mut cluster = Cluster::start(3).await;
    let wiped = cluster.followers().await[0];
    let service = json!([{"namespace": NAMESPACE, "name": "kept"}]);
    cluster.api(wiped).post("/naming/v1/services", &service).await.expect_code(200_000);
    cluster.kill(wiped).await;
    std::fs::remove_dir_all(cluster.data(wiped)).expect("the data can be removed");
    let exited = match cluster.launch(wiped).await {
        Err(exited) => exited,
        Ok(mut process) => process.expect_end(LIMIT, &cluster.log(wiped)).await,
    };
    assert!(!exited.status.success(), "{exited:?}");
    for word in ["wiped", "cluster remove", "cluster add"] {
        assert!(exited.log.contains(word), "{word:?}, cause or cure, is not in the log:\n{}", exited.log);
    }
}
