//! The death of a task that a node needs ends the process in order, with an exit code of its own, and loses nothing.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Cluster, DOOM, eventually, is_doomed, run_doomed};

const LIMIT: Duration = Duration::from_secs(20);
const TASK_DIED: i32 = 70;

/// Kills a task of the leader of three: the others continue, and the node is a member again after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_task_dies_ends_in_order_with_a_code_of_its_own() {
    // The process of the node is this test again.
    if is_doomed() {
        std::thread::spawn(run_doomed).join().expect("it ends the process");
    }
    let mut cluster = Cluster::start(3).await;
    let node = cluster.leader().await;
    let doom = cluster.file("doom");
    assert!(cluster.terminate(node).await.success());
    cluster.set_environment(node, vec![(DOOM.to_owned(), doom.display().to_string())]);
    cluster.restart(node).await;
    let api = cluster.api(node);
    eventually(LIMIT, "the node leads", || async {
        api.post("/admin/v1/cluster/transfer", &json!({"to": node})).await;
        if cluster.leader().await == node { Ok(()) } else { Err("another one leads".to_owned()) }
    })
    .await;
    api.publish("default", "app", "application", "written=before").await;
    std::fs::write(&doom, "now").expect("a file can be written");
    let ended = cluster.expect_end(node, LIMIT).await;
    assert_eq!(ended.status.code(), Some(TASK_DIED), "{ended:?}");
    for words in ["its time has come", "the task \"doomed\" has panicked", "the node stops"] {
        assert!(ended.log.contains(words), "{words}: {}", ended.log);
    }
    let (other, after) = (cluster.running()[0], json!([{"namespace": "default", "name": "after"}]));
    eventually(LIMIT, "the others go on", || async {
        let answer = cluster.api(other).post("/naming/v1/services", &after).await;
        // It may have happened when its answer was lost.
        if [200_000, 400_201].contains(&answer.code()) { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    cluster.set_environment(node, Vec::new());
    cluster.restart(node).await;
    let read = cluster.apollo(node).config("app", "default", "application").await;
    assert_eq!(read["configurations"]["written"], "before", "{read}");
    cluster.expect_equal_state().await;
}
