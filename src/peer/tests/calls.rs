//! The control connection: many calls at once, and what is known about those that get no answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpListener;

use super::harness::{LIMIT, Names, Node, eventually, secret};
use crate::metrics::Metrics;
use crate::model::heartbeat::BeatsAnswer;
use crate::peer::{CallError, ExtensionCall, ForwardAnswer, Peers, ReadIndexAnswer};

const DONE: Result<ForwardAnswer, CallError> = Ok(ForwardAnswer::Done { log_index: 0 });

/// Returns the peers of node 9, which is not served, with one member.
fn caller(target: u64, address: &str) -> Peers {
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    let peers = Peers::new(9, secret(), Names::of(9), metrics);
    peers.set_members(&[(target, address.to_owned())].into());
    peers
}

fn held(node: &Node) -> usize {
    node.service.holding.load(Ordering::SeqCst)
}

#[tokio::test]
async fn answers_come_in_any_order() {
    let node = Node::start(1).await;
    let peers = caller(1, &node.address);
    let slow = tokio::spawn({
        let peers = peers.clone();
        async move { peers.forward(1, Bytes::from_static(b"hold"), LIMIT).await }
    });
    eventually("the slow forward is being served", || held(&node) == 1).await;
    assert_eq!(peers.read_index(1, LIMIT).await, Ok(ReadIndexAnswer::Ready { log_index: 7 }));
    assert!(!slow.is_finished());
    assert_eq!(peers.forward(1, Bytes::from_static(b"release"), LIMIT).await, DONE);
    assert_eq!(slow.await.expect("no panic"), DONE);
}

#[tokio::test]
async fn calls_of_the_room_above_are_answered_or_refused_by_it() {
    let node = Node::start(1).await;
    let peers = caller(1, &node.address);
    let ask = |call, question: &'static str| {
        let peers = peers.clone();
        async move { peers.extension::<_, String>(1, call, question, LIMIT).await }
    };
    assert_eq!(ask(ExtensionCall::Subscribers, "who").await, Ok("Subscribers who".to_owned()));
    assert_eq!(ask(ExtensionCall::Fleet, "who").await, Ok("Fleet who".to_owned()));
    assert_eq!(ask(ExtensionCall::Beats, "").await, Err(CallError::NotSent("nothing was asked".into())));
}

#[tokio::test]
async fn a_call_on_a_lost_connection_is_unknown_and_the_next_one_works() {
    let node = Node::start(1).await;
    let peers = caller(1, &node.address);
    let slow = tokio::spawn({
        let peers = peers.clone();
        async move { peers.forward(1, Bytes::from_static(b"hold"), LIMIT).await }
    });
    eventually("the forward is being served", || held(&node) == 1).await;
    node.close_door().await;
    let lost = slow.await.expect("no panic");
    assert!(matches!(lost, Err(CallError::Unknown(_))), "{lost:?}");
    node.open_door();
    assert_eq!(peers.forward(1, Bytes::from_static(b"release"), LIMIT).await, DONE);
}

#[tokio::test]
async fn a_call_to_nobody_was_not_sent() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let peers = caller(1, &closed.to_string());
    let refused = peers.forward(1, Bytes::from_static(b"x"), LIMIT).await;
    assert!(matches!(refused, Err(CallError::NotSent(_))), "{refused:?}");
    let stranger = peers.forward(2, Bytes::from_static(b"x"), LIMIT).await;
    assert_eq!(stranger, Err(CallError::NotSent("node 2 is not a member".into())));
}

/// The kernel accepts, but no process answers: the deadline of the call applies, and nothing was sent.
#[tokio::test]
async fn a_call_that_waits_for_its_connection_was_not_sent() {
    let mute = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let peers = caller(1, &mute.local_addr().expect("bound").to_string());
    let late = peers.forward(1, Bytes::from_static(b"x"), Duration::from_millis(50)).await;
    assert!(matches!(late, Err(CallError::NotSent(_))), "{late:?}");
}

#[tokio::test]
async fn a_call_without_an_answer_in_time_is_unknown() {
    let node = Node::start(1).await;
    let peers = caller(1, &node.address);
    let asked = peers.read_index(1, LIMIT).await;
    assert!(asked.is_ok(), "{asked:?}");
    let late = peers.forward(1, Bytes::from_static(b"hold"), Duration::from_millis(200)).await;
    assert!(matches!(late, Err(CallError::Unknown(_))), "{late:?}");
    assert_eq!(held(&node), 1);
}

#[tokio::test]
async fn work_above_the_limit_is_turned_down_and_raft_is_not() {
    let node = Node::start(1).await;
    node.close_door().await;
    let server = node.server();
    let room = server.context.work.clone();
    let everything = room.available_permits() as u32;
    let taken = room.acquire_many_owned(everything).await.expect("never closed");
    node.open_with(server);
    let peers = caller(1, &node.address);
    let command = Bytes::from_static(b"release");
    assert_eq!(peers.forward(1, command.clone(), LIMIT).await, Ok(ForwardAnswer::Overloaded));
    assert_eq!(peers.read_index(1, LIMIT).await, Ok(ReadIndexAnswer::Overloaded));
    let beats: [String; 0] = [];
    let overloaded = peers.extension(1, ExtensionCall::Beats, &beats, LIMIT).await;
    assert_eq!(overloaded, Ok(BeatsAnswer::Overloaded));
    eventually("pings are still answered", || peers.reachable(1)).await;
    drop(taken);
    assert_eq!(peers.forward(1, command, LIMIT).await, DONE);
}

#[tokio::test]
async fn a_member_is_reachable_until_it_is_none() {
    let node = Node::start(1).await;
    let peers = caller(1, &node.address);
    let text = |peers: &Peers| String::from_utf8(peers.local.metrics.render()).expect("text");
    eventually("a pong", || peers.reachable(1)).await;
    assert!(text(&peers).contains("thuban_peer_reachable{peer=\"1\"} 1"));
    assert!(text(&peers).contains("thuban_peer_round_trip_seconds{peer=\"1\"}"));
    peers.set_members(&[(9, "ignored:1".to_owned())].into());
    assert!(!peers.reachable(1));
    assert!(!text(&peers).contains("peer=\"1\""));
}

/// The gauge is right even if the task of the link no longer sets it.
#[tokio::test]
async fn the_gauge_of_a_peer_follows_the_truth_when_it_is_read() {
    let peers = caller(1, "127.0.0.1:1");
    let gauge = peers.local.metrics.peer_reachable.with_label_values(&["1"]);
    gauge.set(1);
    peers.record_reachability();
    assert_eq!(gauge.get(), 0);
}

/// A membership with another address for a node makes its peers dial that address.
#[tokio::test]
async fn a_changed_address_is_dialled() {
    let (old, new) = (Node::start(1).await, Node::start(1).await);
    let peers = caller(1, &old.address);
    eventually("a pong", || peers.reachable(1)).await;
    peers.set_members(&[(1, new.address.clone())].into());
    let hold = tokio::spawn({
        let peers = peers.clone();
        async move { peers.forward(1, Bytes::from_static(b"hold"), LIMIT).await }
    });
    eventually("the new node is asked", || held(&new) == 1).await;
    assert_eq!((held(&old), new.service.held.add_permits(1)), (0, ()));
    assert_eq!(hold.await.expect("no panic"), DONE);
}
