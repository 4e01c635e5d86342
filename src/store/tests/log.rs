//! The log beyond openraft's suite: reads across memory and disk, limits, restarts, a failing disk.

use std::io;

use futures_util::TryStreamExt;
use openraft::RaftLogReader;
use openraft::storage::RaftLogStorage;
use rocksdb::WriteBatch;

use crate::format::level::LevelRange;
use crate::format::types::{Entry, Vote};
use crate::store::database::LOG;
use crate::store::testing::{NODE, append, copy_files, entry, fresh, log_id, metrics, open};
use crate::store::{LogStore, Store, StoreError};

const MEBIBYTE: usize = 1024 * 1024;

fn indexes(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.log_id.index).collect()
}

/// Appends forty entries of a mebibyte each: the older ones are no longer in memory.
async fn long_log(log: &mut LogStore) {
    for index in 0..40 {
        append(log, [entry(1, index, &vec![index as u8; MEBIBYTE])]).await.expect("appended");
    }
}

#[tokio::test]
async fn reads_cross_from_disk_to_memory_without_a_seam() {
    let (_dir, store) = fresh();
    let mut log = store.log();
    long_log(&mut log).await;
    let all = log.try_get_log_entries(..).await.expect("readable");
    assert_eq!(indexes(&all), (0..40).collect::<Vec<_>>());
    assert!((0..40).all(|index| all[index as usize] == entry(1, index, &vec![index as u8; MEBIBYTE])));
    let streamed: Vec<_> = log.entries_stream(3..38).await.try_collect().await.expect("readable");
    assert_eq!(indexes(&streamed), (3..38).collect::<Vec<_>>());
}

#[tokio::test]
async fn limited_reads_are_limited_but_never_empty() {
    let (_dir, store) = fresh();
    let mut log = store.log();
    long_log(&mut log).await;
    append(&mut log, [entry(1, 40, &vec![0; 6 * MEBIBYTE])]).await.expect("appended");
    for (start, expected) in [(0, vec![0, 1, 2, 3]), (34, vec![34, 35, 36, 37]), (38, vec![38, 39, 40]), (40, vec![40])]
    {
        let entries = log.limited_get_log_entries(start, 41).await.expect("readable");
        assert_eq!(indexes(&entries), expected, "from {start}");
    }
}

/// Only openraft's first read of the log accepts the rest of a range; apply or a follower would not notice the gap.
#[tokio::test]
async fn what_was_purged_is_no_gap_that_a_reader_steps_over() {
    let (_dir, store) = fresh();
    let mut log = store.log();
    append(&mut log, (0..10).map(|index| entry(1, index, b"x"))).await.expect("appended");
    log.purge(log_id(1, 4)).await.expect("purged");
    assert_eq!(indexes(&log.try_get_log_entries(3..7).await.expect("readable")), [5, 6]);
    for (start, end) in [(4, 7), (0, 3)] {
        for refused in
            [log.limited_get_log_entries(start, end).await, log.entries_stream(start..end).await.try_collect().await]
        {
            let words = format!("log entry {start} is wanted, the log begins at 5");
            assert_eq!(refused.expect_err("a gap").to_string(), words);
        }
    }
    assert_eq!(indexes(&log.limited_get_log_entries(5, 7).await.expect("readable")), [5, 6]);
    assert_eq!(log.limited_get_log_entries(3, 3).await.expect("an empty range"), []);
}

#[tokio::test]
async fn vote_log_and_marks_survive_a_restart() {
    let (dir, store) = fresh();
    let mut log = store.log();
    append(&mut log, (0..10).map(|index| entry(1, index, b"old"))).await.expect("appended");
    log.save_vote(&Vote::new(3, NODE)).await.expect("saved");
    log.truncate_after(Some(log_id(1, 7))).await.expect("truncated");
    append(&mut log, [entry(3, 8, b"new")]).await.expect("appended");
    log.save_committed(Some(log_id(1, 6))).await.expect("saved");
    log.purge(log_id(1, 4)).await.expect("purged");
    drop((log, store));
    let store = open(dir.path());
    let mut log = store.log();
    let state = log.get_log_state().await.expect("readable");
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(log_id(1, 4)), Some(log_id(3, 8))));
    assert_eq!(indexes(&log.try_get_log_entries(0..100).await.expect("readable")), [5, 6, 7, 8]);
    assert_eq!(log.read_vote().await.expect("readable"), Some(Vote::new(3, NODE)));
    assert_eq!(log.read_committed().await.expect("readable"), Some(log_id(1, 6)));
    assert!(!store.is_fresh().expect("readable"));
}

/// A power loss may leave the commit marker and less of the log, or an earlier marker.
#[tokio::test]
async fn a_note_of_an_entry_that_the_log_has_not_counts_for_nothing() {
    let (dir, store) = fresh();
    let mut log = store.log();
    append(&mut log, (0..4).map(|index| entry(1, index, b"x"))).await.expect("appended");
    for (noted, believed) in [(log_id(1, 3), true), (log_id(1, 4), false), (log_id(2, 3), false), (log_id(1, 0), true)]
    {
        log.save_committed(Some(noted)).await.expect("saved");
        let left = tempfile::tempdir().expect("a directory");
        copy_files(dir.path(), left.path());
        let found = open(left.path()).log().read_committed().await.expect("readable");
        assert_eq!(found, believed.then_some(noted), "{noted}");
    }
}

/// Location of the commit index in the previous binary.
#[tokio::test]
async fn a_commit_index_in_the_database_counts_until_a_newer_one_is_noted() {
    let (_dir, store) = fresh();
    let mut log = store.log();
    append(&mut log, (0..4).map(|index| entry(1, index, b"x"))).await.expect("appended");
    store.0.log.put_old_committed(log_id(1, 2)).expect("written");
    assert_eq!(log.read_committed().await.expect("readable"), Some(log_id(1, 2)));
    log.save_committed(Some(log_id(1, 3))).await.expect("saved");
    assert_eq!(log.read_committed().await.expect("readable"), Some(log_id(1, 3)));
}

#[tokio::test]
async fn purge_beyond_the_end_moves_the_end() {
    let (dir, store) = fresh();
    let mut log = store.log();
    append(&mut log, (0..5).map(|index| entry(1, index, b"x"))).await.expect("appended");
    log.purge(log_id(2, 20)).await.expect("purged");
    append(&mut log, [entry(2, 21, b"next")]).await.expect("follows the purged one");
    log.truncate_after(Some(log_id(2, 20))).await.expect("truncated");
    drop((log, store));
    let store = open(dir.path());
    let state = store.log().get_log_state().await.expect("readable");
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(log_id(2, 20)), Some(log_id(2, 20))));
}

#[tokio::test]
async fn a_gap_is_refused_on_append_and_at_the_start() {
    let (dir, store) = fresh();
    let mut log = store.log();
    append(&mut log, (0..5).map(|index| entry(1, index, b"x"))).await.expect("appended");
    append(&mut log, [entry(1, 6, b"x")]).await.expect_err("entry 5 is missing");
    let mut batch = WriteBatch::default();
    batch.delete_cf(store.0.database.family(LOG), 2_u64.to_be_bytes());
    store.0.database.write(batch).expect("written");
    drop((log, store));
    let refused = Store::open(dir.path(), NODE, LevelRange::OWN, metrics()).err().expect("refused");
    assert!(matches!(refused, StoreError::LogGap { expected: 2, .. }), "{refused}");
}

/// The fsync fails once and would succeed afterwards; the store must not retry it.
#[tokio::test]
async fn a_failed_fsync_is_final() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut attempts = 0;
    let sync = Box::new(move |_: &_| {
        attempts += 1;
        if attempts == 2 { Err(io::Error::other("lost pages")) } else { Ok(()) }
    });
    let store = Store::open_with(dir.path(), NODE, LevelRange::OWN, metrics(), sync).expect("opened");
    let mut log = store.log();
    append(&mut log, [entry(1, 0, b"x")]).await.expect("the first fsync works");
    for failed in [
        append(&mut log, [entry(1, 1, b"x")]).await,
        append(&mut log, [entry(1, 2, b"x")]).await,
        log.save_vote(&Vote::new(3, NODE)).await,
        store.put_rows([("k", Some("v"))]),
        store.check_writable().await,
    ] {
        let error = failed.expect_err("the disk has failed").to_string();
        assert!(error.contains("lost pages"), "{error}");
    }
    assert_eq!(store.0.metrics.fsync_duration.get_sample_count(), 2, "no fsync after the failed one");
}
