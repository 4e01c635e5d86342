//! Wrong wall clocks on nodes that become leader.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::trio::{LIMIT, Trio, eventually};
use crate::catalog::time::TimeChange;
use crate::catalog::{Command, Op};
use crate::model::time::Timestamp;
use crate::raft::MembershipChange;
use crate::raft::node::Node;

const MONTH_MS: i64 = 30 * 24 * 3600 * 1000;

/// Creates a namespace through this node; returns the time that the leader stamped on it.
async fn stamp(node: &Node, name: &str) -> Timestamp {
    let draft: crate::model::namespace::NamespaceDraft =
        serde_json::from_value(json!({ "name": name })).expect("a draft");
    let deadline = Instant::now() + LIMIT;
    while node.propose("tester", Command::Namespaces(Op::Create, vec![draft.clone()])).await.is_err() {
        assert!(Instant::now() < deadline, "{name} is not written");
    }
    node.state().catalog().namespaces.get(name).expect("written").ctime
}

/// Leadership moves between nodes with different clocks: the stamps follow the time that has really passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stamps_do_not_jump_when_a_node_with_a_wrong_clock_leads() {
    let trio = Trio::start([0, 0, 0]).await;
    eventually("every node knows the time", || {
        trio.nodes.iter().all(|node| node.state().clock.is_anchored()).then_some(())
    })
    .await;
    let (began, first) = (Instant::now(), stamp(trio.leader().await, "first").await);
    for (round, wrong_by) in [MONTH_MS, -MONTH_MS, 2 * 3600 * 1000, -7].into_iter().enumerate() {
        let leader = trio.leader().await;
        let next = trio.others(leader)[round % 2];
        next.state().clock.set_wrong_by(wrong_by);
        let change = MembershipChange::Transfer { node_id: next.id() };
        leader.change_membership(change).await.expect("the lead moves");
        let asked = u64::try_from(began.elapsed().as_millis()).expect("seconds");
        let latest = stamp(next, &format!("led-{round}")).await;
        let passed = u64::try_from(began.elapsed().as_millis()).expect("seconds");
        let shown = latest.0 - first.0;
        // A follower knows the time to within 50 ms or a round trip, and the next leader continues from there.
        assert!(
            shown <= passed + passed / 50 + 1000,
            "{shown} ms on the stamps, {passed} ms passed, wrong by {wrong_by}"
        );
        // At a change of leader, the time from stamp to apply is lost.
        assert!(shown + 2000 >= asked, "{shown} ms on the stamps, {asked} ms passed, wrong by {wrong_by}");
        for node in &trio.nodes {
            let (now, passed) = (node.now().0, u64::try_from(began.elapsed().as_millis()).expect("seconds"));
            assert!(now.abs_diff(first.0 + passed) < 3000, "node {} reads {now}", node.id());
        }
    }
}

/// All nodes are new and do not know the time: the two clocks that agree win over the third.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_wrong_clock_of_three_does_not_date_a_new_cluster() {
    let trio = Trio::start([0, MONTH_MS, 0]).await;
    let right = trio.node(1).state().clock.wall_time();
    let stamped = stamp(trio.leader().await, "new").await;
    let apart = Duration::from_millis(stamped.0.abs_diff(right.0));
    assert!(apart < Duration::from_secs(60), "the new cluster is dated {apart:?} apart");
}

/// A cluster is formed with three clocks that are 400 days ahead; the clocks are corrected and the time is set back, on
/// every node, also on one that never led, under any leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_that_was_set_back_stays_back_whoever_leads() {
    const BACK_MS: i64 = 400 * 24 * 3600 * 1000;
    let trio = Trio::start([BACK_MS; 3]).await;
    eventually("every node knows the time", || {
        trio.nodes.iter().all(|node| node.state().clock.is_anchored()).then_some(())
    })
    .await;
    let wrong = stamp(trio.leader().await, "wrong").await;
    let right = trio.node(1).state().clock.wall_time().0.saturating_add_signed(-BACK_MS);
    assert!(wrong.0.abs_diff(right.saturating_add_signed(BACK_MS)) < 60_000, "founded ahead");
    trio.nodes.iter().for_each(|node| node.state().clock.set_wrong_by(0));
    let set = Command::Time(TimeChange::Set { shift_ms: -BACK_MS, epoch: 0 });
    let deadline = Instant::now() + LIMIT;
    while trio.leader().await.propose("tester", set.clone()).await.is_err() {
        assert!(Instant::now() < deadline, "the time is not set");
    }
    let apart = |time: Timestamp, node: &Node| time.0.abs_diff(node.state().clock.wall_time().0);
    for round in 0..4 {
        let leader = trio.leader().await;
        let next = trio.others(leader)[round % 2];
        let change = MembershipChange::Transfer { node_id: next.id() };
        leader.change_membership(change).await.expect("the lead moves");
        let stamped = stamp(next, &format!("right-{round}")).await;
        assert!(apart(stamped, next) < 3000, "round {round}: dated {} ms apart", apart(stamped, next));
        for node in &trio.nodes {
            eventually("every node has the time", || (apart(node.now(), node) < 3000).then_some(())).await;
            assert_eq!(node.state().catalog().time.doubt(), None);
        }
    }
}
