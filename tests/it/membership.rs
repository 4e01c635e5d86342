//! Changes of the membership by an operator who makes mistakes, while nodes are down.

use std::future::ready;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, Api, Cluster, eventually, report};

const LIMIT: Duration = Duration::from_secs(30);
/// Time that an order waits for a leader.
const PATIENCE: Duration = Duration::from_millis(2500);

/// Makes an operator's call, repeated while no leader is known, which is safe after 503001.
async fn order(api: &Api, verb: &str, body: Value) -> Answer {
    let (path, body) = (format!("/admin/v1/cluster/{verb}"), &body);
    let path = path.as_str();
    eventually(LIMIT, path, || async move {
        match api.post(path, body).await {
            answer if answer.code() == 503_001 => Err(answer.to_string()),
            answer => Ok(answer),
        }
    })
    .await
}

pub(crate) async fn expect_done(api: &Api, verb: &str, body: Value) {
    order(api, verb, body).await.expect_code(200_000);
}

pub(crate) async fn expect_refused(api: &Api, verb: &str, body: Value, words: &str) {
    let answer = order(api, verb, body).await.expect_code(400_000);
    let info = answer.body["info"].as_str().unwrap_or_default();
    assert!(info.contains(words), "{words:?} is not in {info:?}");
}

/// View of a node on a member; `None` if it is no member.
pub(crate) async fn member(api: &Api, id: u64) -> Option<Value> {
    let view = api.cluster().await.expect("the cluster can be shown");
    view.body["members"].as_array()?.iter().find(|member| member["id"] == id).cloned()
}

async fn write(api: &Api, name: &str) {
    let service = json!([{"namespace": "members", "name": name}]);
    api.post("/naming/v1/services", &service).await.expect_code(200_000);
}

/// Its vote would be one of two, and the cluster could not decide anything any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_learner_gets_no_vote() {
    let mut cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    cluster.start_outsider(2).await;
    let peer = cluster.ports(2).peer.to_string();
    expect_done(&api, "add", json!({"id": 2, "peer": peer})).await;
    cluster.wait_ready(2).await;
    cluster.expect_equal_state().await;
    cluster.kill(2).await;
    expect_refused(&api, "promote", json!({"id": 2}), "node 2 does not answer at").await;
    write(&api, "goes-on").await;
    cluster.restart(2).await;
    expect_done(&api, "promote", json!({"id": 2})).await;
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_added_where_it_is_and_nowhere_else() {
    let cluster = Cluster::start(1).await;
    let mut other = Cluster::start(1).await;
    let api = cluster.api(1);
    let address = |cluster: &Cluster, id| cluster.ports(id).peer.to_string();
    expect_refused(&api, "add", json!({"id": 5, "peer": address(&cluster, 1)}), "is the address of node 1").await;
    expect_refused(&api, "add", json!({"id": 5, "peer": address(&other, 1)}), "this is node 1, not node 5").await;
    other.start_outsider(5).await;
    expect_done(&other.api(1), "add", json!({"id": 5, "peer": address(&other, 5)})).await;
    other.wait_ready(5).await;
    expect_refused(&api, "add", json!({"id": 5, "peer": address(&other, 5)}), "belongs to cluster").await;
    assert_eq!(member(&api, 5).await, None);
    let nowhere = "127.0.0.1:1";
    expect_refused(&api, "add", json!({"id": 1, "peer": nowhere}), "nobody does").await;
    expect_done(&api, "add", json!({"id": 1, "peer": address(&cluster, 1)})).await;
    write(&api, "undisturbed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_cost_the_majority_is_refused_and_a_removal_may_be_repeated() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let followers = cluster.followers().await;
    let (dead, alive) = (followers[0], followers[1]);
    let api = cluster.api(leader);
    cluster.kill(dead).await;
    let words = format!("without an answer: {dead}");
    expect_refused(&api, "remove", json!({"id": alive}), &words).await;
    write(&api, "two-of-three").await;
    for asked in [leader, alive, leader] {
        expect_done(&cluster.api(asked), "remove", json!({"id": dead})).await;
        assert_eq!(member(&api, dead).await, None);
    }
    expect_refused(&api, "remove", json!({"id": 99}), "never heard of").await;
    let peer = cluster.ports(dead).peer.to_string();
    expect_refused(&api, "add", json!({"id": dead, "peer": peer}), "spent").await;
    write(&api, "two-of-two").await;
    cluster.expect_equal_state().await;
}

/// A host gets a new address: the node restarts with its data, and the others are given its address.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_moved_is_found_under_its_new_address() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let followers = cluster.followers().await;
    let (moved, other) = (followers[0], followers[1]);
    cluster.kill(moved).await;
    write(&cluster.api(leader), "while-away").await;
    cluster.move_peer(moved);
    cluster.relaunch(moved).await;
    let peer = cluster.ports(moved).peer.to_string();
    for _ in 0..2 {
        expect_done(&cluster.api(other), "add", json!({"id": moved, "peer": peer})).await;
    }
    cluster.wait_ready(moved).await;
    for id in cluster.ids() {
        let api = cluster.api(id);
        let (api, peer) = (&api, &peer);
        eventually(LIMIT, "the member is reached at its new address", || async move {
            match member(api, moved).await {
                Some(seen) if seen["peer"] == **peer && seen["reachable"] == true && seen["voter"] == true => Ok(()),
                seen => Err(format!("node {id} sees {seen:?}")),
            }
        })
        .await;
    }
    cluster.expect_equal_state().await;

    // It votes again, under the new address.
    cluster.kill(leader).await;
    cluster.leader().await;
    write(&cluster.api(moved), "without-the-old-leader").await;
    cluster.restart(leader).await;
    cluster.expect_equal_state().await;
}

/// Kills a node; returns when another one has lost its connection to it: what is on its way to a node that is killed
/// has no clear outcome.
async fn kill_and_miss(cluster: &mut Cluster, killed: u64, missed_by: u64) {
    let (log, line) = (cluster.log(missed_by), format!("lost connection to a node peer={killed} "));
    let before = lines(&log, &line);
    cluster.kill(killed).await;
    expect_line(&log, &line, before).await;
}

fn lines(log: &Path, words: &str) -> usize {
    std::fs::read_to_string(log).expect("a log").matches(words).count()
}

/// Waits for one more line with these words than there were.
async fn expect_line(log: &Path, words: &str, before: usize) {
    let is_there = || ready(if lines(log, words) > before { Ok(()) } else { Err(format!("{before} times")) });
    eventually(LIMIT, words, is_there).await;
}

/// The leader is killed and an order given at once: it waits for the next leader, as a write does.
#[tokio::test(flavor = "multi_thread")]
async fn orders_wait_for_the_next_leader() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    cluster.start_outsider(4).await;
    let peer = cluster.ports(4).peer.to_string();
    expect_done(&cluster.api(leader), "add", json!({"id": 4, "peer": peer})).await;
    cluster.wait_ready(4).await;
    for verb in ["add", "promote", "remove", "transfer"] {
        cluster.expect_equal_state().await;
        let leader = cluster.leader().await;
        let others: Vec<u64> = cluster.followers().await.into_iter().filter(|id| *id != 4).collect();
        let (asked, other) = (cluster.api(others[0]), others[1]);
        let body = match verb {
            "add" => json!({"id": 9, "peer": "127.0.0.1:1"}),
            "promote" => json!({"id": 4}),
            "remove" => json!({"id": 9}),
            _ => json!({"to": other}),
        };
        kill_and_miss(&mut cluster, leader, others[0]).await;
        let begun = Instant::now();
        let answer = asked.post(&format!("/admin/v1/cluster/{verb}"), &body).await;
        report(format!("{verb} after the leader was killed: {} after {:?}", answer.code(), begun.elapsed()));
        match answer.code() {
            // An election on a machine that is busy with other tests.
            503_001 if begun.elapsed() >= PATIENCE => expect_done(&asked, verb, body).await,
            _ => drop(answer.expect_code(200_000)),
        }
        let expected = match verb {
            "add" => (Some(false), Some(false)),
            "promote" => (Some(false), Some(true)),
            _ => (None, Some(true)),
        };
        // Decided by the leader, and shown here a moment later.
        let asked = &asked;
        eventually(LIMIT, verb, || async move {
            let votes = async |id| member(asked, id).await.and_then(|member| member["voter"].as_bool());
            let seen = (votes(9).await, votes(4).await);
            if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        cluster.restart(leader).await;
    }
}

/// A leader that was elected this moment has not heard of the learner yet: that is no reason to refuse it a vote.
#[tokio::test(flavor = "multi_thread")]
async fn a_vote_waits_until_the_next_leader_has_heard_of_the_learner() {
    let mut cluster = Cluster::start(3).await;
    let (leader, asked) = (cluster.leader().await, cluster.followers().await[0]);
    cluster.start_outsider(4).await;
    let peer = cluster.ports(4).peer.to_string();
    expect_done(&cluster.api(leader), "add", json!({"id": 4, "peer": peer})).await;
    cluster.wait_ready(4).await;
    cluster.expect_equal_state().await;
    cluster.pause(4).await;
    let (log, elected, api) = (cluster.log(asked), "leader changed raft.leader=", cluster.api(asked));
    let before = lines(&log, elected);
    kill_and_miss(&mut cluster, leader, asked).await;
    let mut order = tokio::spawn(async move { order(&api, "promote", json!({"id": 4})).await });
    expect_line(&log, elected, before).await;
    let early = tokio::time::timeout(Duration::from_millis(300), &mut order).await;
    assert!(early.is_err(), "the leader waits for the learner: {early:?}");
    cluster.resume(4).await;
    order.await.expect("no panic").expect_code(200_000);
}
