//! Background files of RocksDB, and snapshots, on a real filesystem that is full: nothing written is lost, writes wait,
//! and everything continues once there is room.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use openraft::RaftLogReader;
use tempfile::TempDir;

use super::small_disk::SmallDisk;
use crate::format::types::Entry;
use crate::store::database::STATE;
use crate::store::space::DiskSpace;
use crate::store::testing::{append, entry, files_below, open, rows};
use crate::store::{SnapshotFile, Store, View};

const DISK_MEBIBYTES: u32 = 64;
/// Rows and entries in memory, below the size at which a memtable is flushed.
const ROWS: u32 = 30;
const ROW_BYTES: usize = 100_000;
/// RocksDB checks for room every five seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns incompressible bytes.
fn value(seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 11) as u8
    };
    (0..ROW_BYTES).map(|_| next()).collect()
}

fn numbered(index: u32) -> Entry {
    entry(1, u64::from(index), &value(index))
}

fn put(store: &Store, numbers: std::ops::Range<u32>) -> io::Result<()> {
    store.put_rows(numbers.map(|number| (number.to_be_bytes(), Some(value(number)))))
}

/// Returns a path in this directory that leads to the filesystem: its own path belongs to another process, and cannot
/// be resolved.
fn link(disk: &SmallDisk, dir: &TempDir) -> PathBuf {
    let path = dir.path().join("data");
    symlink(disk.path(), &path).expect("a link can be made");
    path
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn header(_: &View<'_>) -> io::Result<Vec<u8>> {
    Ok(b"header".to_vec())
}

fn expect_rows(store: &Store, count: u32) {
    let found = rows(store);
    assert_eq!(found.len(), count as usize);
    assert!((0..count).all(|number| found.get(&number.to_be_bytes()[..]) == Some(&value(number))), "as written");
}

async fn expect_entries(store: &Store, count: u32) {
    let entries = store.log().try_get_log_entries(0..1000).await.expect("readable");
    assert_eq!(entries.len(), count as usize);
    assert!(entries.iter().zip(0..).all(|(found, index)| *found == numbered(index)), "as appended");
}

/// Fills the disk, has `fail` find it full, and checks that a write waits and succeeds when there is room.
async fn outlives(prepare: impl FnOnce(&Store), fail: impl FnOnce(&Store)) {
    let (disk, links) = (SmallDisk::mount(DISK_MEBIBYTES), tempfile::tempdir().expect("a directory"));
    let dir = link(&disk, &links);
    let store = open(&dir);
    let mut log = store.log();
    append(&mut log, (0..ROWS).map(numbered)).await.expect("appended");
    put(&store, 0..ROWS).expect("written");
    store.0.rows.settle().expect("written");
    prepare(&store);
    let filler = disk.fill();
    until("the disk is full", || free(&dir) == 0);
    fail(&store);
    store.0.database.sync_wal().expect("what was written before can be synced");
    expect_rows(&store, ROWS);
    expect_entries(&store, ROWS).await;
    let writing = {
        let mut log = log.clone();
        tokio::spawn(async move { append(&mut log, [numbered(ROWS)]).await })
    };
    until("the write waits", || store.0.database.room().is_short());
    assert!(!writing.is_finished());
    drop(filler);
    let begun = Instant::now();
    writing.await.expect("no panic").expect("it is written once there is room");
    let waited = begun.elapsed();
    assert!(waited < LIMIT, "after {waited:?}");
    put(&store, ROWS..ROWS + 1).expect("written");
    store.0.rows.settle().expect("written");
    store.0.database.write_out().expect("there is room for the files");
    store.0.database.compact(STATE, None, None).expect("and for those of a compaction");
    assert!(!store.0.database.room().is_short(), "nothing waits");
    expect_rows(&store, ROWS + 1);
    drop((log, store));
    let store = open(&dir);
    expect_rows(&store, ROWS + 1);
    expect_entries(&store, ROWS + 1).await;
}

fn free(dir: &Path) -> u64 {
    DiskSpace::of(dir).expect("it can be asked").free_bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn memtables_that_cannot_be_written_out_are_written_later() {
    let fail = |store: &Store| {
        let error = store.0.database.write_out().expect_err("there is no room for a file");
        assert!(error.to_string().contains("No space left on device"), "{error}");
    };
    outlives(|_| {}, fail).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_that_finds_no_room_is_made_later() {
    let prepare = |store: &Store| {
        for _ in 0..3 {
            put(store, 0..ROWS).expect("written");
            store.0.rows.settle().expect("written");
            store.0.database.write_out().expect("there is room");
        }
    };
    let fail = |store: &Store| {
        store.0.database.compact(STATE, None, None).expect("it is no failure for good");
        let files = store.0.database.rocks().live_files().expect("a list");
        let state = files.iter().filter(|file| file.column_family_name == STATE).count();
        assert!(state > 1, "{state} files: it was not made");
    };
    outlives(prepare, fail).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_finds_no_room_leaves_the_one_before() {
    let (disk, from_dir) = (SmallDisk::mount(DISK_MEBIBYTES), tempfile::tempdir().expect("a directory"));
    let dir = link(&disk, &from_dir);
    let store = open(&dir);
    put(&store, 0..2).expect("written");
    let first = store.build_snapshot(header).expect("there is room");
    put(&store, 0..ROWS).expect("written");
    store.0.rows.settle().expect("written");
    let from = open(&from_dir.path().join("other"));
    put(&from, 0..ROWS).expect("written");
    let sent = from.build_snapshot(header).expect("there is room");
    let receive = || -> io::Result<SnapshotFile> {
        let incoming = store.incoming_snapshot()?;
        io::copy(&mut sent.open()?, &mut incoming.writer()?)?;
        store.accept_incoming(incoming)
    };

    let filler = disk.fill();
    until("the disk is full", || free(&dir) == 0);
    let error = store.build_snapshot(header).expect_err("there is no room");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    let error = receive().expect_err("there is no room");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    assert_eq!(store.current_snapshot().expect("kept").path(), first.path());
    assert_eq!(files_below(&dir.join("snapshots")), [first.path()], "nothing is left of the others");
    expect_rows(&store, ROWS);
    drop(filler);

    let built = store.build_snapshot(header).expect("there is room");
    assert_eq!((built.rows(), store.current_snapshot().expect("kept").path()), (u64::from(ROWS), built.path()));
    store.install_snapshot(&receive().expect("there is room")).expect("installed");
    expect_rows(&store, ROWS);
}
