//! Logs that cannot be written cost lines, and neither a write nor a start nor the end in order.

use std::time::Duration;

use crate::harness::{Api, BadLog, Cluster, Load, Outcome, eventually, report};
use crate::linearizable::new_leader;

const NAMESPACE: &str = "bad-log";
const WORKERS: usize = 4;
/// Writes that are acknowledged before and after each fault.
const FLOW: usize = 30;
/// The same for one worker among other workloads.
const FAULT_FLOW: usize = 5;
const LIMIT: Duration = Duration::from_secs(30);
const DROPPED: &str = "thuban_log_lines_dropped_total";

/// The leader of one write has to log: it settles the clock first.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_starts_serves_and_ends_whatever_becomes_of_its_log() {
    let mut cluster = Cluster::start(1).await;
    for (number, kind) in BadLog::ALL.into_iter().enumerate() {
        assert!(cluster.terminate(1).await.success(), "before {kind:?}");
        let reader = kind.start(&mut cluster, 1).await;
        cluster.wait_ready(1).await;
        cluster.api(1).publish("default", "app", "application", &format!("number={number}")).await;
        assert_eq!(cluster.api(1).health("/livez").await.expect("it answers").0, 200, "{kind:?}");
        await_dropped(&cluster, 1, kind).await;
        let status = cluster.terminate(1).await;
        assert!(status.success(), "{kind:?}: {status}");
        drop(reader);
        cluster.set_log(1, None);
        cluster.restart(1).await;
        let read = cluster.apollo(1).config("app", "default", "application").await;
        assert_eq!(read["configurations"]["number"], number.to_string(), "{kind:?}: {read}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_when_the_readers_of_the_logs_end() {
    writes_go_on(BadLog::ReaderEnded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_when_the_readers_of_the_logs_do_not_read() {
    writes_go_on(BadLog::ReaderBlocks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_when_the_disks_of_the_logs_are_full() {
    writes_go_on(BadLog::DiskFull).await;
}

/// One, two and all three nodes have such a log; each time the leader is killed.
async fn writes_go_on(kind: BadLog) {
    let mut cluster = Cluster::start(3).await;
    let nodes: Vec<(u64, Api)> = cluster.ids().into_iter().map(|id| (id, cluster.api(id))).collect();
    let load = Load::start(NAMESPACE, WORKERS, nodes);
    let mut readers = Vec::new();
    let mut gaps = Vec::new();
    for bad in 0..=3 {
        if bad > 0 {
            assert!(cluster.terminate(bad).await.success(), "{kind:?}, node {bad}");
            readers.push(kind.start(&mut cluster, bad).await);
            cluster.wait_ready(bad).await;
        }
        load.flows(LIMIT, FLOW).await;
        let (leader, killed) = (cluster.leader().await, std::time::Instant::now());
        cluster.kill(leader).await;
        new_leader(&cluster, leader).await;
        gaps.push(load.flows_since(killed, LIMIT, FLOW).await - killed);
        if leader <= bad {
            readers.push(kind.start(&mut cluster, leader).await);
            cluster.wait_ready(leader).await;
        } else {
            cluster.restart(leader).await;
        }
        load.flows(LIMIT, FLOW).await;
        for id in cluster.ids() {
            assert_eq!(cluster.api(id).health("/livez").await.expect("it answers").0, 200, "{kind:?}, node {id}");
        }
    }
    let journal = load.stop().await;
    report(format!(
        "{kind:?}: {} writes acknowledged; without writes after a killed leader, 0 to 3 bad logs: {gaps:.1?}",
        journal.keys(&Outcome::Acknowledged).len()
    ));
    for id in cluster.ids() {
        await_dropped(&cluster, id, kind).await;
        journal.expect_kept(NAMESPACE, &cluster.api(id)).await;
    }
    cluster.expect_equal_state().await;
    for id in cluster.ids() {
        let status = cluster.terminate(id).await;
        assert!(status.success(), "{kind:?}, node {id}: {status}");
    }
}

/// Restarts the leader with such a log, kills the next leader, then restores the log.
pub(crate) async fn suffer(cluster: &mut Cluster, kind: BadLog, load: &Load) {
    let bad = cluster.leader().await;
    assert!(cluster.terminate(bad).await.success());
    let _reader = kind.start(cluster, bad).await;
    cluster.wait_ready(bad).await;
    load.flows(LIMIT, FAULT_FLOW).await;
    let leader = cluster.leader().await;
    if leader != bad {
        cluster.kill(leader).await;
        new_leader(cluster, leader).await;
        cluster.restart(leader).await;
    }
    load.flows(LIMIT, FAULT_FLOW).await;
    let status = cluster.terminate(bad).await;
    assert!(status.success(), "{kind:?}: {status}");
    cluster.set_log(bad, None);
    cluster.restart(bad).await;
}

/// Lines are lost, and counted. A reader that does not read may get them yet: they wait, up to a limit.
async fn await_dropped(cluster: &Cluster, id: u64, kind: BadLog) {
    let api = cluster.api(id);
    eventually(LIMIT, "lost lines are counted", || async {
        // A node that has nothing to log loses no line: this signal is a line of the log and nothing else.
        cluster.process(id).signal("HUP").await;
        match api.metric(DROPPED).await {
            Some(lines) if lines > 0.0 || kind == BadLog::ReaderBlocks => Ok(()),
            other => Err(format!("{kind:?}, node {id}: {other:?}")),
        }
    })
    .await;
}

/// Signals of a closed terminal or of a rule for rotating logs end no node, and SIGQUIT ends it in order.
#[tokio::test(flavor = "multi_thread")]
async fn signals_end_a_node_in_order_or_not_at_all() {
    let mut cluster = Cluster::start(1).await;
    for name in ["HUP", "USR1", "USR2", "ALRM", "XFSZ"] {
        cluster.process(1).signal(name).await;
        let log = cluster.log(1);
        eventually(LIMIT, "the signal is logged", || async {
            let text = std::fs::read_to_string(&log).expect("there is a log");
            if text.contains(&format!("SIG{name}")) { Ok(()) } else { Err(text) }
        })
        .await;
    }
    cluster.api(1).publish("default", "app", "application", "after=signals").await;
    cluster.process(1).signal("QUIT").await;
    let ended = cluster.expect_end(1, LIMIT).await;
    assert!(ended.status.success() && ended.log.contains("shutting down"), "{ended:?}");
}
