//! A leader that is cut off accepts nothing that it could not keep, and reports that soon.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::trio::{LIMIT, Trio, eventually};
use crate::catalog::{Command, InstanceHealth, Op};
use crate::model::heartbeat::BeatsAnswer;
use crate::raft::leading::{self, ProposeOutcome};
use crate::raft::node::{Node, NodeError};

/// The promised three seconds plus an allowance for the slowest machine; a call that waits for a majority never ends.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

fn namespace(name: &str) -> Command {
    let draft = serde_json::from_value(json!({ "name": name })).expect("a draft");
    Command::Namespaces(Op::Create, vec![draft])
}

async fn propose(node: &Node, name: String) -> (Duration, Result<(), NodeError>) {
    let begun = Instant::now();
    let outcome = node.propose("tester", namespace(&name)).await;
    (begun.elapsed(), outcome.map(drop))
}

/// Writes before, during and after the cut: entries appended before the lease expired have an unknown outcome, later
/// writes a definite one, and no refused write is ever applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_refuses_within_three_seconds() {
    let trio = Trio::start([0; 3]).await;
    let leader = trio.leader().await;
    trio.cut(leader.id());
    // More than the batches in flight, so that some wait for them.
    let early: Vec<_> = (0..200).map(|number| propose(leader, format!("early-{number}"))).collect();
    let late = async {
        eventually("its lease runs out", || leader.leading_term().is_none().then_some(())).await;
        let mut seen = Vec::new();
        for round in 0..2 {
            let reads = async {
                let begun = Instant::now();
                (begun.elapsed(), leader.await_linearizable().await)
            };
            let many = (0..500).map(|number| propose(leader, format!("late-{round}-{number}")));
            let (writes, read) = tokio::join!(join_all(many), reads);
            seen.extend(writes);
            seen.push(read);
        }
        seen
    };
    let (early, late) = tokio::join!(join_all(early), late);
    for (elapsed, outcome) in late {
        assert_eq!(outcome, Err(NodeError::NoLeader));
        assert!(elapsed < ANSWER_LIMIT, "refused after {elapsed:?}");
    }
    let refused: Vec<usize> = (0..early.len()).filter(|number| early[*number].1 == Err(NodeError::NoLeader)).collect();
    for (elapsed, outcome) in &early {
        assert!(outcome.is_err(), "there is no majority");
        assert!(*elapsed < ANSWER_LIMIT || *outcome == Err(NodeError::OutcomeUnknown), "{outcome:?} after {elapsed:?}");
    }
    trio.mend();
    propose_until_done(leader, "afterwards").await;
    let catalog = leader.state().catalog();
    let happened: Vec<_> = catalog.namespaces.all().map(|one| one.name.clone()).collect();
    assert!(happened.iter().all(|name| !name.starts_with("late")), "{happened:?}");
    for number in refused {
        assert!(!happened.contains(&format!("early-{number}")), "early-{number} was refused");
    }
}

/// A follower that no longer hears its leader sends it no requests either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_is_cut_off_refuses_within_three_seconds() {
    let trio = Trio::start([0; 3]).await;
    let leader = trio.leader().await;
    let follower = trio.others(leader)[0];
    propose_until_done(follower, "before").await;
    trio.cut(follower.id());
    eventually("the leader falls silent", || follower.leader_in_touch().is_none().then_some(())).await;
    let many = (0..200).map(|number| propose(follower, format!("cut-{number}")));
    for (elapsed, outcome) in join_all(many).await {
        assert_eq!(outcome, Err(NodeError::NoLeader));
        assert!(elapsed < ANSWER_LIMIT, "refused after {elapsed:?}");
    }
    assert_eq!(follower.await_linearizable().await, Err(NodeError::NoLeader));
    trio.mend();
    propose_until_done(follower, "afterwards").await;
}

async fn propose_until_done(node: &Node, name: &str) {
    let deadline = Instant::now() + LIMIT;
    while let (_, Err(error)) = propose(node, name.to_owned()).await {
        assert!(Instant::now() < deadline, "{name}: {error}");
    }
}

/// An instance that sends heartbeats in time, to whichever node accepts them, stays healthy although the leader is cut
/// off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_heartbeat_is_forgotten_when_the_leader_is_cut_off() {
    let trio = Trio::start([0; 3]).await;
    let leader = trio.leader().await;
    let id = register(leader).await;
    let mut nodes = vec![leader];
    nodes.extend(trio.others(leader));
    beat(&trio, &mut nodes, &id).await;
    trio.cut(leader.id());
    let cut = Instant::now();
    eventually("the leader takes no heartbeats", || {
        (trio.heartbeats(leader).take(leader, std::slice::from_ref(&id)) == BeatsAnswer::NotLeader).then_some(())
    })
    .await;
    assert!(leader.is_reachable(trio.others(leader)[0].id()), "by its pongs it would not know yet");
    // Longer than the window that the next leader grants.
    while cut.elapsed() < Duration::from_secs(8) {
        beat(&trio, &mut nodes, &id).await;
        for node in trio.others(leader) {
            let catalog = node.state().catalog();
            assert!(catalog.instances.get(&id).expect("registered").healthy, "{:?} after the cut", cut.elapsed());
        }
        sleep(Duration::from_secs(1)).await;
    }
}

async fn register(node: &Node) -> String {
    let fields = json!({
        "id": "i1", "namespace": "default", "service": "shop", "host": "10.0.0.1", "port": 80,
        "enable_health_check": true, "health_check": {"type": "HEARTBEAT", "heartbeat": {"ttl": 1}},
    });
    let draft = serde_json::from_value(fields).expect("a draft");
    node.propose("tester", Command::Instances(Op::Create, vec![draft])).await.expect("a leader");
    let catalog = node.state().catalog();
    assert_eq!(catalog.instances.get("i1").expect("registered").heartbeat_ttl, Some(1));
    "i1".to_owned()
}

/// Tries one node after the other, as a client does.
async fn beat(trio: &Trio, nodes: &mut [&Node], id: &str) {
    let deadline = Instant::now() + LIMIT;
    while trio.heartbeats(nodes[0]).beat(nodes[0], [id.to_owned()]).await.is_err() {
        assert!(Instant::now() < deadline, "nobody takes a heartbeat");
        nodes.rotate_left(1);
    }
}

/// A verdict counts only in the term in which it was found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_of_another_term_is_not_appended() {
    let trio = Trio::start([0; 3]).await;
    let leader = trio.leader().await;
    let id = register(leader).await;
    let term = leader.leading_term().expect("it leads");
    let ill = || {
        Command::InstanceHealth(vec![InstanceHealth { id: id.clone(), healthy: false, ..InstanceHealth::default() }])
    };
    let is_healthy = || leader.state().catalog().instances.get(&id).expect("registered").healthy;
    for other in [term - 1, term + 1] {
        let outcome = leading::propose_in_term(leader, other, ill()).await;
        assert!(matches!(outcome, ProposeOutcome::NotLeader), "{outcome:?}");
    }
    assert!(is_healthy());
    let follower = trio.others(leader)[0];
    let outcome = leading::propose_in_term(follower, term, ill()).await;
    assert!(matches!(outcome, ProposeOutcome::NotLeader), "{outcome:?}");
    let outcome = leading::propose_in_term(leader, term, ill()).await;
    assert!(matches!(outcome, ProposeOutcome::Done { .. }), "{outcome:?}");
    assert!(!is_healthy());
}
