//! openraft over the wire: elections, replication, lost connections, transfers, snapshots.

use bytes::Bytes;
use futures_util::TryStreamExt;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::VoteRequest;

use super::harness::{LIMIT, Node, TestRaft, addresses, cluster, eventually, leader_of, leads};
use super::memory::MemoryPort;
use crate::format::types::{Member, Proposal, Vote};
use crate::peer::{ForwardAnswer, PeerNetwork};

/// Writes numbered commands and waits for all of them.
async fn write(raft: &TestRaft, numbers: std::ops::Range<u32>) -> u64 {
    let proposals = numbers.map(|number| Proposal(Bytes::from(format!("command {number}"))));
    let written: Vec<_> =
        raft.client_write_many(proposals).await.expect("running").try_collect().await.expect("running");
    let indexes = written.into_iter().map(|one| one.expect("written").log_id.index);
    indexes.max().expect("at least one")
}

async fn applied(nodes: &[Node], index: u64) {
    for node in nodes {
        let waited = node.raft.wait(Some(LIMIT)).applied_index_at_least(Some(index), "all applied").await;
        waited.unwrap_or_else(|error| panic!("node {}: {error}", node.id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_writes_reach_everybody_and_survive_lost_connections() {
    let nodes = cluster().await;
    let leader = leader_of(&nodes);
    let index = write(&leader.raft, 0..1000).await;
    applied(&nodes, index).await;

    let follower = nodes.iter().find(|node| node.id != leader.id).expect("three nodes");
    follower.close_door().await;
    follower.open_door();
    let index = write(&leader.raft, 1000..1100).await;
    applied(&nodes, index).await;

    let expected: Vec<_> = (0..1100).map(|number| Bytes::from(format!("command {number}"))).collect();
    for node in &nodes {
        assert_eq!(node.machine.commands(), expected, "node {}", node.id);
    }
}

/// A follower that was away catches up: all its connections are re-established.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_behind_a_closed_door_catches_up() {
    let nodes = cluster().await;
    let leader = leader_of(&nodes);
    let follower = nodes.iter().find(|node| node.id != leader.id).expect("three nodes");
    follower.close_door().await;
    let index = write(&leader.raft, 0..50).await;
    follower.open_door();
    applied(&nodes, index).await;
    eventually("the pings of the leader are answered again", || leader.peers.reachable(follower.id)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_moves_on_request_and_forwards_follow_it() {
    let nodes = cluster().await;
    let old = leader_of(&nodes);
    write(&old.raft, 0..1).await;
    let new = nodes.iter().find(|node| node.id != old.id).expect("three nodes");
    old.raft.trigger().transfer_leader(new.id).await.expect("running");
    for node in &nodes {
        node.raft.wait(Some(LIMIT)).current_leader(new.id, "the transfer").await.expect("transferred");
    }
    let third = nodes.iter().find(|node| node.id != old.id && node.id != new.id).expect("three nodes");
    let asked = old.peers.forward(third.id, Bytes::from_static(b"x"), LIMIT).await;
    assert_eq!(asked, Ok(ForwardAnswer::NotLeader { leader: Some(new.id) }));
    leads(new).await;
    let done = old.peers.forward(new.id, Bytes::from_static(b"forwarded"), LIMIT).await;
    assert!(matches!(done, Ok(ForwardAnswer::Done { .. })), "{done:?}");
    assert_eq!(old.metrics.forwards.get(), 2);
}

/// openraft's default grants without a request; over the wire the peer decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pre_vote_is_the_peers_own_answer() {
    let nodes = cluster().await;
    let leader = leader_of(&nodes);
    let index = write(&leader.raft, 0..1).await;
    applied(&nodes, index).await;
    let follower = nodes.iter().find(|node| node.id != leader.id).expect("three nodes");
    let mut network = PeerNetwork::new(leader.peers.clone(), MemoryPort);
    let member = Member { peer: follower.address.clone() };
    let mut client = network.new_client(follower.id, &member).await;
    let request = VoteRequest::new(Vote::new(99, leader.id), None);
    let answer = client.pre_vote(request, RPCOption::new(LIMIT)).await.expect("reachable");
    assert!(!answer.vote_granted, "its log is ahead of an empty one");
    assert!(answer.last_log_id.is_some());
    assert!(follower.metrics_now().current_term < 99, "a pre-vote moves no term");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_gets_what_is_purged_as_a_snapshot() {
    let nodes = cluster().await;
    let leader = leader_of(&nodes);
    // Several chunks, so that the transfer has a middle.
    let large = Bytes::from(vec![b'x'; 300 * 1024]);
    for _ in 0..10 {
        leader.raft.client_write(Proposal(large.clone())).await.expect("written");
    }
    let index = write(&leader.raft, 0..10).await;
    leader.raft.trigger().snapshot().await.expect("running");
    let wait = || leader.raft.wait(Some(LIMIT));
    let built = |index| move |now: &openraft::RaftMetrics<_>| now.snapshot.is_some_and(|id| id.index >= index);
    wait().metrics(built(index), "a snapshot").await.expect("built");
    leader.raft.trigger().purge_log(index).await.expect("running");
    wait().metrics(|now| now.purged.is_some_and(|id| id.index >= index), "a purge").await.expect("purged");

    let newcomer = Node::start(4).await;
    newcomer.peers.set_members(&addresses(&nodes));
    let member = Member { peer: newcomer.address.clone() };
    leader.raft.add_learner(4, member, true).await.expect("caught up");
    let waited = newcomer.raft.wait(Some(LIMIT)).applied_index_at_least(Some(index), "installed").await;
    waited.expect("caught up");
    assert_eq!(newcomer.machine.commands(), leader.machine.commands());
    let sent = || leader.metrics.snapshots.with_label_values(&["sent"]).get();
    eventually("the answer of the newcomer", || sent() > 0).await;
    assert_eq!((sent(), leader.metrics.snapshots.with_label_values(&["failed"]).get()), (1, 0));
    assert!(newcomer.metrics_now().snapshot.is_some());
}
