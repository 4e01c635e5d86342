//! Groups of entries: apply gives the same result however they are cut, and locks the catalog for one part at a time.

use std::sync::Arc;

use futures_util::stream;
use openraft::EntryPayload;
use openraft::storage::RaftStateMachine;
use tempfile::TempDir;

use crate::catalog::{Command, Op, RequestId};
use crate::format::types::Entry;
use crate::metrics::Metrics;
use crate::model::namespace::NamespaceDraft;
use crate::model::time::Timestamp;
use crate::raft::machine::Machine;
use crate::raft::proposal::{self, Draft};
use crate::store::Store;
use crate::store::testing::{fresh, log_id, metrics, rows as rows_of};
use crate::watch::Hub;

/// Returns an entry that creates `count` namespaces, each with a comment of the given size.
fn making(index: u64, count: usize, comment_bytes: usize) -> Entry {
    let draft = |number| NamespaceDraft {
        name: format!("n{index}-{number}"),
        comment: Some("c".repeat(comment_bytes)),
        ..NamespaceDraft::default()
    };
    let command = Command::Namespaces(Op::Create, (0..count).map(draft).collect());
    let draft = Draft::new(RequestId(index.into()), "somebody", &command);
    let proposal = proposal::stamp(Timestamp(1_000 + index), 0, [7; 16], &draft);
    Entry { log_id: log_id(1, index), payload: EntryPayload::Normal(proposal) }
}

fn machine() -> (TempDir, Store, Machine, Arc<Metrics>) {
    let (dir, store) = fresh();
    let metrics = metrics();
    let machine = Machine::load(store.clone(), Hub::new(1), metrics.clone()).expect("an empty state");
    (dir, store, machine, metrics)
}

async fn apply(machine: &Machine, entries: &[Entry]) -> std::io::Result<()> {
    machine.clone().apply(stream::iter(entries.iter().cloned().map(|entry| Ok((entry, None))))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_cut_into_groups_is_nothing_that_a_state_shows() {
    let blank = Entry { log_id: log_id(1, 7), payload: EntryPayload::Blank };
    let mut entries: Vec<_> = (0..7).map(|index| making(index, 100, 10)).collect();
    entries.extend([blank, making(8, 1, 70_000), making(9, 300, 1)]);
    entries.extend((10..600).map(|index| making(index, 1, 10)));
    let (_dir, store, together, _) = machine();
    apply(&together, &entries).await.expect("applied");
    let (_other_dir, other_store, alone, _) = machine();
    for entry in &entries {
        apply(&alone, std::slice::from_ref(entry)).await.expect("applied");
    }
    let (_replayed_dir, replayed_store, replayed, _) = machine();
    replayed.replay(&entries).expect("applied");
    assert_eq!(together.progress().last_applied, Some(log_id(1, 599)));
    for (other, other_store) in [(alone, other_store), (replayed, replayed_store)] {
        assert_eq!(together.progress(), other.progress());
        assert_eq!(rows_of(&store), rows_of(&other_store));
        assert_eq!(*together.state().catalog(), *other.state().catalog());
    }
}

#[tokio::test]
async fn the_catalog_is_given_back_between_parts_of_what_comes_at_once() {
    for (entries, parts_min) in [
        ((0..20).map(|index| making(index, 50, 300)).collect::<Vec<_>>(), 4),
        ((0..1024).map(|index| making(index, 1, 10)).collect(), 4),
    ] {
        let (_dir, _store, machine, metrics) = machine();
        apply(&machine, &entries).await.expect("applied");
        let parts = metrics.apply_batch.get_sample_count();
        assert!(parts >= parts_min, "{} entries at once in {parts} parts", entries.len());
        assert_eq!(metrics.apply_batch.get_sample_sum(), entries.len() as f64);
        assert_eq!(metrics.catalog_held.get_sample_count(), parts, "once each");
    }
}

/// An entry applied to a copy locks the catalog at the start and when the copy replaces it, never in between.
#[tokio::test]
async fn what_is_large_is_applied_beside_what_readers_see() {
    let (_dir, _store, machine, metrics) = machine();
    apply(&machine, &[making(0, 1, 10), making(1, 1, 70_000), making(2, 1, 70_000)]).await.expect("applied");
    assert_eq!((metrics.apply_batch.get_sample_count(), metrics.catalog_held.get_sample_count()), (2, 3));
    assert_eq!(machine.state().catalog().namespaces.len(), 3);
}

#[tokio::test]
async fn an_entry_that_does_not_follow_is_an_error() {
    let (_dir, _store, machine, _) = machine();
    apply(&machine, &[making(4, 1, 1), making(5, 1, 1)]).await.expect("applied");
    for index in [5, 7, 4] {
        let error = apply(&machine, &[making(index, 1, 1)]).await.expect_err("not the next one").to_string();
        assert!(error.contains(&format!("{}", log_id(1, index))) && error.contains("was the last"), "{error}");
    }
    assert_eq!(machine.progress().last_applied, Some(log_id(1, 5)));
    apply(&machine, &[making(6, 1, 1)]).await.expect("applied");
}
