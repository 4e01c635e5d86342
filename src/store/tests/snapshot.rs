//! Snapshots: round trip, refusals, and a crash in the middle of an installation.

use std::fs;
use std::io::{self, Write};

use rocksdb::WriteBatch;

use crate::format::level::LevelRange;
use crate::store::database::STATE;
use crate::store::testing::{NODE, files_below, fresh, metrics, open, rows};
use crate::store::{SnapshotFile, Store, StoreError, View};

fn fill(store: &Store, count: u32, value: &[u8]) {
    store.put_rows((0..count).map(|number| (number.to_be_bytes(), Some(value)))).expect("written");
}

fn header(view: &View<'_>) -> io::Result<Vec<u8>> {
    Ok(view.get_row(&0_u32.to_be_bytes())?.unwrap_or_default())
}

fn send(file: &SnapshotFile, to: &Store) -> io::Result<SnapshotFile> {
    let incoming = to.incoming_snapshot()?;
    io::copy(&mut file.open()?, &mut incoming.writer()?)?;
    to.accept_incoming(incoming)
}

fn names(store: &Store) -> Vec<String> {
    let files = files_below(&store.dir().join("snapshots"));
    files.iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect()
}

#[test]
fn a_state_travels_from_one_node_to_another() {
    let ((_from, from), (to_dir, to)) = (fresh(), fresh());
    fill(&from, 50_000, b"of the leader");
    fill(&to, 70_000, b"of the follower");
    let built = from.build_snapshot(header).expect("built");
    assert_eq!((built.rows(), &built.header()[..]), (50_000, &b"of the leader"[..]));
    assert_eq!(built.bytes(), fs::metadata(built.path()).expect("a file").len());
    let received = send(&built, &to).expect("accepted");
    assert!(to.current_snapshot().is_none(), "not current before it is installed");
    to.install_snapshot(&received).expect("installed");
    assert_eq!(rows(&to), rows(&from));
    drop((received, to));
    let to = open(to_dir.path());
    assert_eq!(rows(&to), rows(&from));
    assert_eq!(to.current_snapshot().expect("kept").header(), built.header());
}

#[test]
fn only_the_newest_is_kept_but_a_transfer_can_end() {
    let (dir, store) = fresh();
    fill(&store, 10, b"first");
    let first = store.build_snapshot(header).expect("built");
    fill(&store, 10, b"second");
    let second = store.build_snapshot(header).expect("built");
    assert!(first.open().is_ok(), "the file lives as long as its handle");
    drop(first);
    assert_eq!(names(&store).len(), 1);
    assert_eq!(store.current_snapshot().expect("kept").path(), second.path());
    // Files that were never accepted or never installed are not found again.
    let abandoned = store.incoming_snapshot().expect("created");
    drop(send(&second, &store).expect("accepted"));
    drop(abandoned);
    assert_eq!(names(&store).len(), 1);
    std::mem::forget(store.incoming_snapshot().expect("created"));
    drop((second, store));
    assert_eq!(names(&open(dir.path())).len(), 1);
}

/// The file has the rows of one moment, whatever is written while it is built.
#[test]
fn writes_during_a_build_are_not_in_it() {
    let (_dir, store) = fresh();
    fill(&store, 1000, b"before");
    let during = |view: &View<'_>| {
        fill(&store, 2000, b"during");
        header(view)
    };
    let built = store.build_snapshot(during).expect("built");
    assert_eq!((built.rows(), &built.header()[..]), (1000, &b"before"[..]));
    store.install_snapshot(&built).expect("installed");
    assert!(rows(&store).values().all(|value| value == b"before"));
}

#[test]
fn a_failed_build_leaves_nothing() {
    let (_dir, store) = fresh();
    store.build_snapshot(|_| Err(io::Error::other("no"))).expect_err("refused by the caller");
    assert_eq!((names(&store).len(), store.current_snapshot().is_none()), (0, true));
}

/// Magic, version, length of the header, header `value`.
const FIRST_ROW_AT: usize = 8 + 4 + 4 + 5;
/// Two lengths, a number as key, `value`.
const ROW_BYTES: usize = 4 + 4 + 4 + 5;

#[test]
fn damaged_files_are_refused_whole() {
    let (_dir, store) = fresh();
    fill(&store, 1000, b"value");
    let built = store.build_snapshot(header).expect("built");
    let good = fs::read(built.path()).expect("readable");
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let cases = [
        ("is truncated", good[..good.len() - 1].to_vec()),
        ("is truncated", good[..good.len() / 2].to_vec()),
        ("is truncated", Vec::new()),
        ("is not a snapshot", flipped(0)),
        ("holds data of level 0", flipped(11)),
        ("impossible length", flipped(12)),
        ("checksum", flipped(FIRST_ROW_AT + 100 * ROW_BYTES + ROW_BYTES - 1)),
        ("checksum", flipped(good.len() - 1)),
        ("goes on after its end", [&good[..], b"!"].concat()),
    ];
    for (words, bytes) in cases {
        let incoming = store.incoming_snapshot().expect("created");
        incoming.writer().expect("open").write_all(&bytes).expect("written");
        let refused = store.accept_incoming(incoming).expect_err("refused").to_string();
        assert!(refused.contains(words), "{words}: {refused}");
        // The same damage in an existing file.
        fs::write(built.path(), &bytes).expect("written");
        store.install_snapshot(&built).expect_err("refused");
        assert_eq!(rows(&store).len(), 1000, "nothing was touched");
    }
    assert_eq!(names(&store).len(), 1);
}

/// Leaves the marker with some old and some new rows, as if the process had died.
fn interrupt_installation(dir: &std::path::Path) -> SnapshotFile {
    let store = open(dir);
    let (_from, from) = fresh();
    fill(&from, 5000, b"new");
    fill(&store, 9000, b"old");
    let received = send(&from.build_snapshot(header).expect("built"), &store).expect("accepted");
    store.begin_installation(&received, WriteBatch::default()).expect("begun");
    received.keep(true);
    let family = store.0.database.family(STATE);
    let mut batch = WriteBatch::default();
    batch.delete_range_cf(family, 0_u32.to_be_bytes(), 7000_u32.to_be_bytes());
    batch.put_cf(family, 0_u32.to_be_bytes(), b"new");
    store.0.database.write(batch).expect("written");
    assert_eq!(rows(&store).len(), 2001, "neither the old state nor the new one");
    received
}

#[test]
fn an_interrupted_installation_is_done_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(interrupt_installation(dir.path()));
    for _ in 0..2 {
        let store = open(dir.path());
        assert_eq!(rows(&store).len(), 5000);
        assert!(rows(&store).values().all(|value| value == b"new"));
        assert_eq!(&store.current_snapshot().expect("the installed one").header()[..], b"new");
    }
}

#[test]
fn an_interrupted_installation_without_its_file_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let received = interrupt_installation(dir.path());
    fs::remove_file(received.path()).expect("removed");
    let refused = Store::open(dir.path(), NODE, LevelRange::OWN, metrics()).err().expect("refused");
    assert!(matches!(refused, StoreError::InstallationLost { .. }), "{refused}");
    assert!(refused.to_string().contains(".part"), "{refused}");
}

#[test]
fn a_damaged_current_snapshot_is_dropped_and_the_state_stays() {
    let (dir, store) = fresh();
    fill(&store, 100, b"value");
    let built = store.build_snapshot(header).expect("built");
    fs::write(built.path(), b"THUBSNAPxxxx").expect("written");
    drop((built, store));
    let store = open(dir.path());
    assert!(store.current_snapshot().is_none());
    assert_eq!(rows(&store).len(), 100);
}

/// Another state and an empty log replace everything: a crash after the one decisive batch leaves the rest to the next
/// opening, one before it leaves everything unchanged.
#[tokio::test]
async fn a_new_beginning_is_one_step() {
    use crate::format::level::Level;
    use crate::format::types::Vote;
    use crate::store::testing::{append, entry, log_id};
    let row = |sink: &mut crate::store::RowSink<'_>| sink(b"key", b"value");
    for is_interrupted in [false, true] {
        let (dir, store) = fresh();
        fill(&store, 1000, b"before");
        append(&mut store.log(), (0..10).map(|index| entry(1, index, b"x"))).await.expect("appended");
        let file = store.stage(Level::FIRST, b"header".to_vec(), row).expect("staged");
        let (last, vote) = (log_id(4, 1_000_009), Vote::new(4, NODE));
        if is_interrupted {
            let mut batch = WriteBatch::default();
            store.0.log.put_beginning(&mut batch, last, vote).expect("noted");
            file.keep(true);
            store.0.title.raise_to(file.level()).expect("raised");
            store.begin_installation(&file, batch).expect("begun");
            drop(store);
        } else {
            assert_eq!(rows(&store).len(), 1000, "nothing happens before");
            store.begin_anew(&file, last, vote).expect("begun anew");
        }
        drop(file);
        let store = open(dir.path());
        assert_eq!(rows(&store), [(b"key".to_vec(), b"value".to_vec())].into(), "{is_interrupted}");
        let extent = store.log_extent();
        assert_eq!((extent.purged, extent.last, extent.vote), (Some(last), Some(last), Some(vote)));
        assert!(store.entries_from(0, usize::MAX).expect("readable").is_empty());
        append(&mut store.log(), [entry(5, 1_000_010, b"y")]).await.expect("the log goes on");
    }
}

/// Read-only access to a directory does not change its files.
#[tokio::test]
async fn a_look_changes_nothing() {
    use crate::store::ReadOnlyStore;
    use crate::store::testing::{append, entry};
    let (dir, store) = fresh();
    fill(&store, 1000, b"value");
    append(&mut store.log(), (0..10).map(|index| entry(1, index, b"x"))).await.expect("appended");
    let in_use = ReadOnlyStore::open(dir.path(), LevelRange::OWN).map(drop).expect_err("a node has it");
    assert!(matches!(in_use, StoreError::InUse { .. }), "{in_use}");
    let extent = store.log_extent();
    drop(store);
    let contents = || {
        let read = |path: std::path::PathBuf| (path.clone(), fs::read(&path).expect("readable"));
        files_below(dir.path()).into_iter().map(read).collect::<Vec<_>>()
    };
    let before = contents();
    let peek = ReadOnlyStore::open(dir.path(), LevelRange::OWN).expect("a look");
    let mut count = 0;
    peek.for_each_row(&mut |_, value| {
        count += usize::from(value == b"value");
        Ok(())
    })
    .expect("readable");
    let size = peek.log_size().expect("readable");
    assert_eq!((count, size.first, size.entries), (1000, Some(0), 10));
    assert_eq!(peek.log_extent().expect("readable"), extent);
    drop(peek);
    assert!(contents() == before, "looking has changed the directory");
}
