//! Disk use of the log and its write-ahead log over time.

use std::collections::BTreeSet;

use openraft::RaftLogReader;
use openraft::storage::RaftLogStorage;

use crate::format::types::Entry;
use crate::store::Store;
use crate::store::database::LOG;
use crate::store::testing::{Gate, NODE, append, entry, fresh, log_id, open, wal_lengths};

const ENTRY_BYTES: usize = 100_000;
const MEBIBYTE: u64 = 1024 * 1024;

fn large_entry(index: u64) -> Entry {
    let payload: Vec<u8> = (0..ENTRY_BYTES).map(|index| (index * 31 % 251) as u8).collect();
    entry(1, index, &payload)
}

/// The log is appended to and purged continuously: neither its files nor the write-ahead log grow with the total,
/// although scalars and state are hardly ever written.
#[tokio::test]
async fn a_log_that_is_purged_gives_its_space_back() {
    let (dir, store) = fresh();
    let mut log = store.log();
    store.put_rows([("a row that is written once", Some("x"))]).expect("written");
    let mut kept = 0;
    for round in 0..10_u64 {
        for index in round * 300..(round + 1) * 300 {
            append(&mut log, [large_entry(index)]).await.expect("appended");
        }
        let last = (round + 1) * 300 - 1;
        let through = store.log_cut(last, 4 * MEBIBYTE).expect("more than that");
        log.purge(log_id(1, through)).await.expect("purged");
        kept = store.log_bytes();
        assert!(kept <= 5 * MEBIBYTE, "{kept} bytes are left of the log");
        store.compact_log().expect("compacted");
        let files = store.log_files_bytes();
        assert!(files <= 40 * MEBIBYTE, "{files} bytes of files for a log of {kept}, in round {round}");
    }
    let wal: u64 = wal_lengths(dir.path()).values().sum();
    assert!(wal <= 150 * MEBIBYTE, "{wal} bytes of write-ahead log after 300 MB went through");
    drop((log, store));
    assert_eq!(open(dir.path()).log_bytes(), kept, "counted again from what is stored");
}

/// No file of purged entries is rewritten, and none is deleted whose entries a restart after a power loss needs.
#[tokio::test]
async fn files_of_purged_entries_go_once_the_purge_is_durable() {
    let (dir, copy) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let gate = Gate::default();
    let store = gate.open_store(dir.path(), NODE);
    let mut log = store.log();
    for from in (0..500).step_by(10) {
        append(&mut log, (from..from + 10).map(large_entry)).await.expect("appended");
    }
    store.0.database.compact(LOG, None, None).expect("written out");
    let names = |store: &Store| {
        let files = store.0.database.rocks().live_files().expect("a list").into_iter();
        files.filter(|file| file.column_family_name == LOG).map(|file| file.name).collect::<BTreeSet<_>>()
    };
    let before = names(&store);
    assert!(before.len() > 2, "{before:?}");
    log.purge(log_id(1, 400)).await.expect("purged");
    assert_eq!(names(&store), before, "a purge writes no file");
    store.drop_log_files().await.expect("dropped");
    let after = names(&store);
    assert!(after.len() < before.len() && after.is_subset(&before), "{before:?} became {after:?}");
    gate.power_loss(dir.path(), copy.path());
    drop((log, store));
    for dir in [dir.path(), copy.path()] {
        let store = open(dir);
        let mut log = store.log();
        let state = log.get_log_state().await.expect("readable");
        assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(log_id(1, 400)), Some(log_id(1, 499))));
        let entries = log.try_get_log_entries(0..1000).await.expect("readable");
        assert_eq!(entries.iter().map(|entry| entry.log_id.index).collect::<Vec<_>>(), (401..500).collect::<Vec<_>>());
    }
}

/// Deleted rows stay in files until a compaction, which is done at once while the disk is short.
#[test]
fn deleted_rows_give_their_space_back() {
    const ROW_BYTES: usize = 10_000;
    let (dir, store) = fresh();
    let value: Vec<u8> = (0..ROW_BYTES).map(|index| (index.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    let rows = |value: Option<Vec<u8>>| (0..6000_u32).map(move |row| (row.to_be_bytes(), value.clone()));
    store.put_rows(rows(Some(value))).expect("written");
    store.make_room(0).expect("there is room");
    let state_bytes = || store.sizes().iter().find(|size| size.family == "state").expect("a family").files_bytes;
    let full = state_bytes();
    let wal = || wal_lengths(dir.path()).values().sum::<u64>();
    assert!(wal() < MEBIBYTE, "{} bytes of write-ahead log after all is written out", wal());
    store.put_rows(rows(None)).expect("written");
    store.make_room(u64::MAX / 2).expect("without room for new files the old ones stay");
    assert!(state_bytes() >= full, "{} of {full} bytes", state_bytes());
    store.make_room(0).expect("there is room");
    assert!(state_bytes() < full / 10, "{} of {full} bytes", state_bytes());
}
