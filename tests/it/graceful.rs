//! SIGTERM: the leader leaves under load without an unknown outcome, and held polls are answered.

use std::time::Duration;

use crate::harness::{Api, Cluster, Load, Outcome, report};

const NAMESPACE: &str = "graceful";
const WORKERS: usize = 6;
const FLOW: usize = 50;
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_told_to_stop_leaves_no_unclear_answer() {
    let mut cluster = Cluster::start(3).await;
    let unpooled = |id| Api::unpooled(cluster.ports(id).api).with_token(cluster.token());
    let nodes: Vec<(u64, Api)> = cluster.ids().into_iter().map(|id| (id, unpooled(id))).collect();
    let load = Load::start(NAMESPACE, WORKERS, nodes);
    load.flows(LIMIT, FLOW).await;
    let leader = cluster.leader().await;
    let told = std::time::Instant::now();
    let status = cluster.terminate(leader).await;
    report(format!("a leader under load ended {:?} after SIGTERM", told.elapsed()));
    assert!(status.success(), "the leader ended with {status}");
    let log = std::fs::read_to_string(cluster.log(leader)).expect("there is a log");
    let errors: Vec<&str> = log.lines().filter(|line| line.contains(" ERROR ")).collect();
    assert!(errors.is_empty(), "a normal end is no error: {errors:?}");
    let resumed = load.flows_since(told, LIMIT, FLOW).await;
    report(format!("the first write begun after SIGTERM was acknowledged {:?} after it", resumed - told));
    let journal = load.stop().await;

    let unclear: Vec<_> = journal.attempts.iter().filter(|a| matches!(a.outcome, Outcome::Unknown(_))).collect();
    assert!(unclear.is_empty(), "{} unclear answers: {unclear:?}", unclear.len());
    let unsent = |node| journal.attempts.iter().filter(move |a| a.node == node && a.outcome == Outcome::Unsent).count();
    for id in cluster.running() {
        assert_eq!(unsent(id), 0, "node {id} stayed, yet refused connections");
        journal.expect_kept(NAMESPACE, &cluster.api(id)).await;
    }
    cluster.restart(leader).await;
    journal.expect_kept(NAMESPACE, &cluster.api(leader)).await;
    cluster.expect_equal_state().await;
}

/// A client behind a balancer must not send its next request on a connection that is about to close.
#[tokio::test(flavor = "multi_thread")]
async fn held_polls_get_304_and_the_end_of_the_connection() {
    let mut cluster = Cluster::start(1).await;
    let apollo = cluster.apollo(1);
    let held = tokio::spawn(async move { apollo.poll("app", "default", &[("application", -1)]).await });
    let api = cluster.api(1);
    crate::polls::await_held(&api, 1).await;
    let status = cluster.terminate(1).await;
    let polled = held.await.expect("the poll does not panic").expect("the poll is answered");
    assert_eq!(polled.status, 304, "{polled:?}");
    let connection = polled.headers.get("connection").map(|value| value.as_bytes().to_ascii_lowercase());
    assert_eq!(connection.as_deref(), Some(b"close".as_slice()), "{polled:?}");
    assert!(status.success(), "the node ended with {status}");
}
