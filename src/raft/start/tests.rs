use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::sleep;

use super::*;
use crate::catalog::{Command, Op};
use crate::controllers::testing::TestNode;
use crate::format::types::Member;
use crate::model::namespace::NamespaceDraft;
use crate::raft::alarms::{Alarm, AlarmKind};

/// Longer than any plausible deadline; the clock of these tests is paused.
const LONG: Duration = Duration::from_secs(600);
/// Address at which no process listens.
const NOWHERE: &str = "127.0.0.1:1";

async fn expect_alive_and_not_ready(started: &mut TestNode) {
    sleep(LONG).await;
    assert_eq!(started.failed.try_recv().map(|error| error.to_string()), Err(TryRecvError::Empty));
    assert!(!started.node.has_caught_up());
    assert_eq!(started.node.leader(), None);
    assert!(started.node.raft_metrics().running_state.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_nobody_has_added_waits_for_ever() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut started = TestNode::start(dir.path(), &[]).await;
    expect_alive_and_not_ready(&mut started).await;
    started.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_peers_never_come_waits_for_ever() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut started = TestNode::start(dir.path(), &[(1, NOWHERE), (2, NOWHERE), (3, NOWHERE)]).await;
    expect_alive_and_not_ready(&mut started).await;
    let missing = started.node.awaited().expect("the node says whom it waits for");
    assert!(missing.contains("node 2 at 127.0.0.1:1 (") && missing.contains("node 3 at "), "{missing}");
    started.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_peers_stay_away_lives_for_ever() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let started = TestNode::start(dir.path(), &[]).await;
    let members: BTreeMap<NodeId, Member> = (1..=3).map(|id| (id, Member { peer: NOWHERE.to_owned() })).collect();
    started.node.inner().raft.initialize(members).await.expect("the first entry is written");
    started.stop().await;

    let mut again = TestNode::start(dir.path(), &[]).await;
    expect_alive_and_not_ready(&mut again).await;
    again.stop().await;
}

/// A node that was found wrong remembers it after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_found_to_be_wrong_does_not_serve_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let started = TestNode::founded(dir.path()).await;
    assert_eq!((started.node.out_of_service(), started.node.alarms()), (None, vec![]));
    started.node.store().retire("its state is wrong").expect("the disk is writable");
    started.stop().await;

    let again = TestNode::start(dir.path(), &[]).await;
    assert_eq!(again.node.out_of_service(), Some("its state is wrong"));
    assert_eq!(again.node.alarms(), [Alarm::of_node(AlarmKind::State, 1, "its state is wrong")]);
    let failing = again.node.readiness().await.into_iter().find(|check| check.name == "state");
    assert_eq!(failing.and_then(|check| check.failure).as_deref(), Some("its state is wrong"));
    assert!(again.node.state().hub().is_closed(), "held polls are let go");
    again.stop().await;
}

/// Number of wake-ups.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each wake-up would cost several switches of threads.
#[tokio::test]
async fn who_waits_for_the_end_of_consensus_is_not_woken_by_writes() {
    const WRITES: usize = 20;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let started = TestNode::founded(dir.path()).await;
    let (node, wakes) = (started.node.clone(), Arc::new(Wakes::default()));
    let mut ended = pin!(node.fatal());
    for number in 0..WRITES {
        let waker = Waker::from(wakes.clone());
        assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let draft = NamespaceDraft { name: format!("made-{number}"), ..NamespaceDraft::default() };
        let written = node.propose("somebody", Command::Namespaces(Op::Create, vec![draft])).await;
        assert!(written.expect("a leader")[0].code.is_success());
    }
    let woken = wakes.0.load(Ordering::Relaxed);
    assert!(woken < WRITES / 4, "woken {woken} times by {WRITES} writes");
    started.stop().await;
    let why = ended.await.to_string();
    assert!(why.starts_with("consensus stopped"), "{why}");
}
