//! A peer that is away in different ways: the cost for the leader, and how soon the peer catches up when it is back.

use std::net::TcpListener;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::harness::{LIMIT, Node, addresses, cluster, eventually, leader_of};
use crate::format::types::{Member, NodeId, Proposal};

const AWAY: NodeId = 9;
/// Time for which the leader is observed; pauses reach their limit within 1.6 s.
const WATCHED: Duration = Duration::from_secs(3);

/// Writes at a steady pace while the leader replicates to a learner that is away; returns the number of failed
/// attempts.
async fn failures_while_away(leader: &Node, address: &str) -> u64 {
    let member = Member { peer: address.to_owned() };
    leader.raft.add_learner(AWAY, member, false).await.expect("a learner may be away");
    let failures = || leader.metrics.peer_append_failures.with_label_values(&[&AWAY.to_string()]).get();
    let (before, end) = (failures(), Instant::now() + WATCHED);
    while Instant::now() < end {
        leader.raft.client_write(Proposal(Bytes::from_static(b"load"))).await.expect("a majority is there");
        sleep(Duration::from_millis(5)).await;
    }
    failures() - before
}

async fn catches_up(leader: &Node, nodes: &[Node], listener: TcpListener) {
    let index = leader.metrics_now().last_log_index;
    let arrived = Node::start_on(AWAY, listener).await;
    arrived.peers.set_members(&addresses(nodes));
    arrived.raft.wait(Some(LIMIT)).applied_index_at_least(index, "caught up").await.expect("caught up");
    // Entries arrive before the first pong that makes a peer reachable.
    eventually("the peer is reachable", || leader.peers.reachable(AWAY)).await;
}

/// No process listens: every attempt fails at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_refuses_is_tried_with_pauses() {
    let nodes = cluster().await;
    let leader = leader_of(&nodes);
    // No other test listens at this address, so the port stays free.
    let listener = TcpListener::bind("127.0.0.9:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    drop(listener);
    let failures = failures_while_away(leader, &address).await;
    assert!((2..=10).contains(&failures), "{failures} tries failed");
    catches_up(leader, &nodes, TcpListener::bind(&address).expect("the port is still free")).await;
}

/// The kernel accepts the connection, and no process sends anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_silent_costs_little() {
    let nodes = cluster().await;
    let leader = leader_of(&nodes);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let failures = failures_while_away(leader, &address).await;
    assert!(failures <= 3, "{failures} tries failed");
    catches_up(leader, &nodes, listener).await;
}

/// The peer accepts every connection and closes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_hangs_up_is_tried_with_pauses() {
    let nodes = cluster().await;
    let leader = leader_of(&nodes);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    listener.set_nonblocking(true).expect("a socket");
    let hanging_up = tokio::net::TcpListener::from_std(listener.try_clone().expect("a descriptor")).expect("a runtime");
    let door = tokio::spawn(async move { while hanging_up.accept().await.is_ok() {} });
    let failures = failures_while_away(leader, &address).await;
    assert!((2..=10).contains(&failures), "{failures} tries failed");
    door.abort();
    catches_up(leader, &nodes, listener).await;
}
