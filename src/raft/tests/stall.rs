//! A database that accepts no writes for a while: readers do not wait for it.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use futures_util::{FutureExt, stream};
use openraft::EntryPayload;
use openraft::storage::RaftStateMachine;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::{Command, Op, RequestId};
use crate::controllers::testing::lone_setup;
use crate::format::types::Entry;
use crate::model::namespace::NamespaceDraft;
use crate::model::time::Timestamp;
use crate::raft::machine::Machine;
use crate::raft::node::Node;
use crate::raft::proposal::{self, Draft};
use crate::raft::start::{Setup, start};
use crate::store::Store;
use crate::store::testing::{Held, fresh, log_id, metrics, rows as rows_of};
use crate::watch::Hub;

/// Much longer than anything that does not wait for the writes.
const HELD_AT_MOST: Duration = Duration::from_secs(20);

fn make(namespace: &str) -> Command {
    Command::Namespaces(Op::Create, vec![NamespaceDraft { name: namespace.into(), ..NamespaceDraft::default() }])
}

fn entry(index: u64, request: RequestId) -> Entry {
    let draft = Draft::new(request, "somebody", &make("made"));
    let proposal = proposal::stamp(Timestamp(1_000), 0, [7; 16], &draft);
    Entry { log_id: log_id(1, index), payload: EntryPayload::Normal(proposal) }
}

/// An applied entry can be read, and its caller gets the reply, before its rows are written.
#[test]
fn nobody_waits_for_the_rows_of_what_is_applied() {
    let (_dir, store) = fresh();
    let machine = Machine::load(store.clone(), Hub::new(1), metrics()).expect("an empty state");
    let state = machine.state().clone();
    let (_pending, mut reply) = state.replies.register(RequestId(5));
    let held = Held::up(&store, HELD_AT_MOST);
    let applied = stream::iter([Ok((entry(1, RequestId(5)), None))]);
    machine.clone().apply(applied).now_or_never().expect("nothing is waited for").expect("applied");
    let catalog = state.catalog.try_read().expect("a reader waits for the rows");
    assert!(catalog.namespaces.get("made").is_some());
    drop(catalog);
    assert_eq!((state.applied().index, machine.progress().last_applied), (1, Some(log_id(1, 1))));
    assert_eq!(reply.try_recv().expect("the answer").outcomes.len(), 1);
    // A reader of rows does wait.
    let (sender, rows) = mpsc::channel();
    let reader = thread::spawn({
        let store = store.clone();
        move || sender.send(rows_of(&store).len())
    });
    assert_eq!(rows.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout));
    held.release();
    assert!(rows.recv_timeout(HELD_AT_MOST).expect("the rows") > 1);
    reader.join().expect("no panic").expect("taken");
}

async fn lone_node(store: &Store, shutdown: &CancellationToken) -> Node {
    let setup = Setup { hash_check_entries: 1000, ..lone_setup() };
    let metrics = Arc::new(crate::metrics::Metrics::new().expect("a consistent table"));
    let started = start(setup, store.clone(), Hub::new(1), metrics, &TaskTracker::new(), shutdown).await;
    let (node, _failed) = started.expect("a node");
    assert!(node.state().wait_applied(HELD_AT_MOST, |applied| applied.index >= 3).await, "founded and announced");
    node
}

/// All surfaces share one thread in this test, while consensus waits for the disk on its own threads; otherwise nothing
/// here would proceed.
#[tokio::test]
async fn a_disk_that_hangs_holds_up_consensus_alone() {
    let (_dir, store) = fresh();
    let shutdown = CancellationToken::new();
    let _ended = shutdown.clone().drop_guard();
    let node = lone_node(&store, &shutdown).await;
    let held = Held::up(&store, HELD_AT_MOST);
    let writing = tokio::spawn({
        let node = node.clone();
        async move { node.propose("somebody", make("made")).await }
    });
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(node.state().catalog().namespaces.get("default").is_some());
        assert_eq!(node.leader(), Some(1));
    }
    let checks = timeout(HELD_AT_MOST / 2, node.readiness()).await.expect("an answer, whatever the disk does");
    let failing: Vec<_> = checks.iter().filter(|check| check.failure.is_some()).map(|check| check.name).collect();
    assert_eq!(failing, ["disk"]);
    assert!(!writing.is_finished(), "a write that was held up is done");
    held.release();
    let outcomes = writing.await.expect("no panic").expect("a leader");
    assert!(outcomes[0].code.is_success());
    assert!(node.state().catalog().namespaces.get("made").is_some());
}
