//! Membership changes without a reachable leader: they wait for one as long as writes do, and are never made twice.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use super::trio::{LIMIT, Trio, eventually};
use crate::catalog::{Command, Op};
use crate::format::types::NodeId;
use crate::raft::MembershipChange;
use crate::raft::node::{LEADER_PATIENCE, Node, NodeError};
use crate::raft::status::ChangeError;

/// Allowance for a busy machine, added to the time for which a request waits for a leader.
const SLACK: Duration = Duration::from_secs(4);
/// Id of no node.
const STRANGER: NodeId = 9;

fn add_a_stranger() -> MembershipChange {
    MembershipChange::Add { node_id: STRANGER, peer: "127.0.0.1:1".into() }
}

fn members(node: &Node) -> Vec<NodeId> {
    node.cluster_status().members.iter().map(|member| member.id).collect()
}

/// Retries a write through a node until it succeeds: then the node knows what the others have decided.
async fn write(node: &Node, name: &str) {
    let draft = serde_json::from_value(json!({ "name": name })).expect("a draft");
    let (command, deadline) = (Command::Namespaces(Op::Create, vec![draft]), Instant::now() + LIMIT);
    while let Err(error) = node.propose("tester", command.clone()).await {
        assert!(Instant::now() < deadline, "{name}: {error}");
    }
}

/// The former leader and a follower, each cut off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_leader_orders_are_refused_when_writes_are_and_none_is_carried_out_later() {
    let trio = Trio::start([0; 3]).await;
    for was_leader in [false, true] {
        let leader = trio.leader().await;
        let followers = trio.others(leader);
        let alone = if was_leader { leader } else { followers[0] };
        write(alone, &format!("before-{was_leader}")).await;
        trio.cut(alone.id());
        eventually("it has no leader", || alone.leader_in_touch().is_none().then_some(())).await;
        let orders = [
            add_a_stranger(),
            MembershipChange::Promote { node_id: STRANGER },
            MembershipChange::Remove { node_id: followers[1].id() },
            MembershipChange::Transfer { node_id: followers[1].id() },
        ];
        let asked = orders.into_iter().map(|order| async move {
            let begun = Instant::now();
            (alone.change_membership(order.clone()).await, begun.elapsed(), order)
        });
        for (answer, after, order) in join_all(asked).await {
            assert_eq!(answer, Err(ChangeError::Node(NodeError::NoLeader)), "{order:?} after {after:?}");
            assert!(after >= LEADER_PATIENCE && after < LEADER_PATIENCE + SLACK, "{order:?} after {after:?}");
        }
        trio.mend();
        write(alone, &format!("afterwards-{was_leader}")).await;
        for node in &trio.nodes {
            assert_eq!(members(node), [1, 2, 3], "node {}", node.id());
        }
    }
}

/// The request may have reached the leader, which is cut off now: only the operator may repeat it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_of_unknown_outcome_is_not_given_to_the_next_leader() {
    let trio = Trio::start([0; 3]).await;
    let leader = trio.leader().await;
    let followers = trio.others(leader);
    let (asked, other) = (followers[0], followers[1]);
    write(asked, "before").await;
    trio.cut(leader.id());
    assert_eq!(asked.leader_in_touch(), Some(leader.id()), "it is not missed yet");
    let answer = asked.change_membership(add_a_stranger()).await;
    assert_eq!(answer, Err(ChangeError::Node(NodeError::OutcomeUnknown)));
    write(asked, "under-the-next-leader").await;
    assert_eq!((members(asked), members(other)), (vec![1, 2, 3], vec![1, 2, 3]));
    // What waited on the wire reaches a former leader.
    trio.mend();
    write(leader, "afterwards").await;
    assert_eq!(members(leader), [1, 2, 3]);
    asked.change_membership(add_a_stranger()).await.expect("given again");
    write(leader, "and-after-that").await;
    assert_eq!(members(leader), [1, 2, 3, STRANGER]);
}
