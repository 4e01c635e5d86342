//! A disk that is full: RocksDB stops, recovers by itself, and nothing that was appended is lost.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rocksdb::WriteBatch;
use tokio::time::timeout;

use super::super::testing::{append, entry, open, rows};
use crate::store::room::is_full;

const LIMIT: Duration = Duration::from_secs(60);
const SCRIPT: &str = "mount -t tmpfs -o size=64m tmpfs /mnt && echo mounted && exec sleep infinity";

/// A tmpfs in the mount namespace of a process.
struct SmallFileSystem(Child);

impl SmallFileSystem {
    fn mount() -> SmallFileSystem {
        let namespaces = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
        let mut command = Command::new("unshare");
        let mut holder =
            command.args([namespaces, "sh", "-c", SCRIPT]).stdout(Stdio::piped()).spawn().expect("unshare runs");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut line).expect("readable");
        let mounted = SmallFileSystem(holder);
        assert_eq!(line, "mounted\n", "this test needs the right to mount a tmpfs: root, or user namespaces");
        mounted
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/mnt", self.0.id()))
    }

    /// Takes all that is free.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("of-another-program");
        let mut file = File::create(&path).expect("made");
        while file.write_all(&[7; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A flush that does not fit stops the database, as does a record that the write-ahead log has no room for.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_found_the_disk_full_takes_writes_again_once_there_is_room() {
    const LARGE: usize = 100_000;
    let disk = SmallFileSystem::mount();
    let dir = disk.path().join("data");
    let store = open(&dir);
    let mut log = store.log();
    store.put_rows([(b"row", Some(b"before"))]).expect("put");
    append(&mut log, (0..40).map(|index| entry(1, index, &[7; LARGE]))).await.expect("appended");
    store.restore_ballast(1, 1).expect("there is room");
    for round in 0..2 {
        let filler = disk.fill();
        assert!(dir.join("ballast").exists(), "it is not for others");
        if round == 0 {
            store.0.database.write_out().expect_err("four megabytes do not fit");
        }
        let mut batch = WriteBatch::default();
        batch.put_cf(store.0.database.family(super::super::database::META), "k", vec![7; 8 << 20]);
        let refused = store.0.database.write(batch).expect_err("eight megabytes do not fit");
        assert!(is_full(&refused), "{refused}");
        assert!(!dir.join("ballast").exists(), "it was given up");
        let again = disk.path().join("again");
        fs::write(&again, vec![7; 64 << 20]).expect_err("whoever fills the disk takes that too");

        let first = 40 + 5 * round;
        let mut appending = tokio::spawn({
            let mut log = log.clone();
            async move { append(&mut log, (first..first + 5).map(|index| entry(1, index, &[7; LARGE]))).await }
        });
        store.put_rows([(format!("row {round}"), Some("waits"))]).expect("put");
        while !store.waits_for_room() {
            tokio::task::yield_now().await;
        }
        timeout(Duration::from_millis(300), &mut appending).await.expect_err("there is no room for it");
        store.check_writable().await.expect("a full disk is an alarm");
        let waiting = store.get_constant_row(format!("row {round}").as_bytes()).expect("no room is needed");
        assert_eq!(waiting.as_deref(), Some(&b"waits"[..]));
        assert_eq!(store.failure(), None);

        fs::remove_file(&again).expect("removed");
        fs::remove_file(&filler).expect("removed");
        timeout(LIMIT, appending).await.expect("in time").expect("no panic").expect("appended");
        store.restore_ballast(1, 1).expect("there is room");
    }
    let extent = store.log_extent();
    assert_eq!(extent.last.map(|id| id.index), Some(49));
    assert_eq!(rows(&store).len(), 3);
    drop((log, store));

    let store = open(&dir);
    assert_eq!(store.log_extent(), extent);
    let entries = store.entries_from(0, usize::MAX).expect("readable");
    assert!(entries.len() == 50 && (0..).zip(&entries).all(|(index, entry)| entry.log_id.index == index));
    assert_eq!(rows(&store).len(), 3);
}
