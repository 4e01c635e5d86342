//! Formation of a cluster: required members, and limits on wiped nodes.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Api, Cluster, eventually};

const LIMIT: Duration = Duration::from_secs(30);

/// Waits until a node reports that it is not ready, with `words` in the reason.
async fn expect_waiting(cluster: &Cluster, id: u64, words: &str) {
    let api = Api::new(cluster.ports(id).api);
    let api = &api;
    eventually(LIMIT, &format!("node {id} waits for its peers"), || async move {
        match api.health("/readyz").await? {
            (503, text) if text.contains(words) => Ok(()),
            (status, text) => Err(format!("{status} {text}")),
        }
    })
    .await;
}

async fn expect_in_log(cluster: &Cluster, id: u64, words: &str) {
    let log = cluster.log(id);
    let log = &log;
    eventually(LIMIT, &format!("{words:?} is in the log of node {id}"), || async move {
        let text = std::fs::read_to_string(log).map_err(|error| error.to_string())?;
        if text.contains(words) { Ok(()) } else { Err(text) }
    })
    .await;
}

/// True if a node knows a leader, which it can only have of a cluster that is formed.
async fn expect_unformed(cluster: &Cluster, id: u64) {
    let api = Api::new(cluster.ports(id).api);
    assert_eq!(api.metric("thuban_raft_last_log_index").await, Some(0.0), "node {id} has a log");
    assert_eq!(api.metric("thuban_raft_has_leader").await, Some(0.0), "node {id} has a leader");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_formation_waits_for_every_peer_of_the_list() {
    let mut cluster = Cluster::prepare(3, &[]);
    cluster.relaunch(1).await;
    expect_waiting(&cluster, 1, "waiting for node 2 at ").await;
    cluster.relaunch(2).await;
    let missing = format!("waiting for node 3 at {}", cluster.ports(3).peer);
    for id in [1, 2] {
        expect_waiting(&cluster, id, &missing).await;
        expect_unformed(&cluster, id).await;
    }
    expect_in_log(&cluster, 1, "waiting for the peers of the initial cluster").await;
    cluster.relaunch(3).await;
    for id in cluster.ids() {
        cluster.wait_ready(id).await;
    }
    cluster.log_in_again().await;
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_majority_forms_the_cluster_where_it_is_told_to() {
    let mut cluster = Cluster::prepare(3, &["--form-with-majority"]);
    cluster.relaunch(1).await;
    expect_waiting(&cluster, 1, "waiting for node 2 at ").await;
    cluster.relaunch(2).await;
    for id in [1, 2] {
        cluster.wait_ready(id).await;
    }
    cluster.log_in_again().await;
    let service = json!([{"namespace": "formation", "name": "early"}]);
    cluster.api(1).post("/naming/v1/services", &service).await.expect_code(200_000);
    cluster.restart(3).await;
    cluster.expect_equal_state().await;
}

/// Two of three lose their disks while the third is away: they would be a majority of a new, empty cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_majority_of_wiped_nodes_founds_nothing() {
    let mut cluster = Cluster::start(3).await;
    let service = json!([{"namespace": "formation", "name": "kept"}]);
    cluster.api(1).post("/naming/v1/services", &service).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    cluster.kill_all().await;
    for id in [2, 3] {
        std::fs::remove_dir_all(cluster.data(id)).expect("the data can be removed");
        cluster.relaunch(id).await;
    }
    let missing = format!("waiting for node 1 at {}", cluster.ports(1).peer);
    for id in [2, 3] {
        expect_waiting(&cluster, id, &missing).await;
        expect_unformed(&cluster, id).await;
    }

    cluster.relaunch(1).await;
    for id in [2, 3] {
        let exited = cluster.expect_end(id, LIMIT).await;
        assert!(!exited.status.success(), "{exited:?}");
        assert!(exited.log.contains("wiped") && exited.log.contains("cluster remove"), "{}", exited.log);
    }
    let kept = "/naming/v1/services?namespace=formation&name=kept&consistency=local";
    assert_eq!(cluster.api(1).get(kept).await.expect_code(200_000).amount(), 1);
}

/// The members `ids` as a list, sorted by id.
fn list(cluster: &Cluster, ids: &[u64]) -> String {
    ids.iter().map(|id| format!("{id}={}", cluster.ports(*id).peer)).collect::<Vec<_>>().join(",")
}

/// Returns the message of a node about a node with a different list.
fn difference(id: u64, own: &str, other: u64, others: &str) -> String {
    format!("node {other} was started with another initial cluster; node {other}: {others}; node {id}: {own}")
}

/// Two nodes and three, of which one is in the lists of all: each of the two lists has a majority of its own.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_different_lists_form_nothing_and_say_so() {
    for options in [&[][..], &["--form-with-majority"]] {
        let mut cluster = Cluster::prepare(5, options);
        let (three, five) = (list(&cluster, &[1, 2, 3]), list(&cluster, &[1, 2, 3, 4, 5]));
        for id in [1, 2] {
            cluster.set_initial_cluster_of(id, &three);
        }
        cluster.launch_all().await;
        // Each of the five: its list, a node with the other list, and that list.
        let sides = [(1, &three, 3, &five), (2, &three, 3, &five), (3, &five, 1, &three), (4, &five, 1, &three)];
        for (id, own, other, others) in sides.into_iter().chain([(5, &five, 2, &three)]) {
            let words = difference(id, own, other, others);
            expect_waiting(&cluster, id, &words).await;
            expect_in_log(&cluster, id, &words).await;
        }
        for id in cluster.ids() {
            expect_unformed(&cluster, id).await;
            let log = std::fs::read_to_string(cluster.log(id)).expect("there is a log");
            let line = log.lines().find(|line| line.contains("another initial cluster")).expect("just seen");
            assert!(line.contains(&three) && line.contains(&five), "both lists are in one line: {line}");
        }

        // Nothing is lost by it: with the right list each of the five founds the same cluster.
        for id in [1, 2] {
            assert!(cluster.terminate(id).await.success());
            cluster.set_initial_cluster_of(id, &five);
            cluster.relaunch(id).await;
        }
        for id in cluster.ids() {
            cluster.wait_ready(id).await;
        }
        cluster.log_in_again().await;
        let voters = cluster.api(1).cluster().await.expect("shown").body["members"].as_array().map(Vec::len);
        assert_eq!(voters, Some(5));
        cluster.expect_equal_state().await;
    }
}

/// At an address that the others give to node 3 a node is started under another number, with a list to match.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_lists_differ_by_an_id_form_nothing_and_say_so() {
    let mut cluster = Cluster::prepare(4, &[]);
    let three = list(&cluster, &[1, 2, 4]).replace(",4=", ",3=");
    let other = list(&cluster, &[1, 2, 4]);
    for id in [1, 2] {
        cluster.set_initial_cluster_of(id, &three);
    }
    cluster.set_initial_cluster_of(4, &other);
    for id in [1, 2, 4] {
        cluster.relaunch(id).await;
    }
    for (id, own, from, others) in [(1, &three, 4, &other), (2, &three, 4, &other), (4, &other, 1, &three)] {
        let words = difference(id, own, from, others);
        expect_waiting(&cluster, id, &words).await;
        expect_in_log(&cluster, id, &words).await;
    }
    for id in [1, 2, 4] {
        expect_unformed(&cluster, id).await;
    }

    for id in [1, 2] {
        assert!(cluster.terminate(id).await.success(), "it stayed up");
        cluster.set_initial_cluster_of(id, &other);
        cluster.relaunch(id).await;
    }
    for id in [1, 2, 4] {
        cluster.wait_ready(id).await;
    }
}

/// A node that is in no other list cannot prevent the others from founding their cluster, and founds none with them.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_in_no_list_but_its_own_forms_nothing() {
    let mut cluster = Cluster::prepare(4, &[]);
    let (three, four) = (list(&cluster, &[1, 2, 3]), list(&cluster, &[1, 2, 3, 4]));
    for id in [1, 2, 3] {
        cluster.set_initial_cluster_of(id, &three);
    }
    for id in [1, 2, 4] {
        cluster.relaunch(id).await;
    }
    for (id, own, other, others) in [(1, &three, 4, &four), (2, &three, 4, &four), (4, &four, 1, &three)] {
        expect_waiting(&cluster, id, &difference(id, own, other, others)).await;
        expect_unformed(&cluster, id).await;
    }
    cluster.relaunch(3).await;
    for id in [1, 2, 3] {
        cluster.wait_ready(id).await;
    }
    cluster.log_in_again().await;
    expect_waiting(&cluster, 4, "the state has not arrived yet").await;
    expect_unformed(&cluster, 4).await;
    let peer = cluster.ports(4).peer.to_string();
    cluster.api(1).post("/admin/v1/cluster/add", &json!({"id": 4, "peer": peer})).await.expect_code(200_000);
    cluster.wait_ready(4).await;
    cluster.expect_equal_state().await;
}
