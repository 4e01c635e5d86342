//! Fixtures of the store's tests: directories, entries, a small state machine, and a gate in front of the disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, IOFlushed, RaftLogStorage, RaftStateMachine};
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::SnapshotOf;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

use super::database::Database;
use super::{LogStore, SnapshotFile, Store, View};
use crate::format::codec;
use crate::format::level::LevelRange;
use crate::format::types::{CommittedLeaderId, Entry, LogId, Proposal, SnapshotMeta, StoredMembership, TypeConfig};
use crate::metrics::Metrics;

pub(crate) const NODE: u64 = 1;

pub(crate) fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new().expect("no two rows share a name"))
}

pub(crate) fn open(dir: &Path) -> Store {
    Store::open(dir, NODE, LevelRange::OWN, metrics()).unwrap_or_else(|error| panic!("{error}"))
}

/// Opens a store in a temporary directory. Drop the store first.
pub(crate) fn fresh() -> (TempDir, Store) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    (dir, store)
}

pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term), index)
}

/// Returns an entry of the first level with `payload`.
pub(crate) fn entry(term: u64, index: u64, payload: &[u8]) -> Entry {
    let payload = EntryPayload::Normal(Proposal(Bytes::from([&[1], payload].concat())));
    Entry { log_id: log_id(term, index), payload }
}

/// Appends entries and waits until they are durable.
pub(crate) async fn append(log: &mut LogStore, entries: impl IntoIterator<Item = Entry> + Send) -> io::Result<()> {
    let (sender, flushed) = TypeConfig::oneshot();
    let entries: Vec<Entry> = entries.into_iter().collect();
    log.append(entries, IOFlushed::signal(sender)).await?;
    flushed.await.expect("every callback is completed")
}

pub(crate) fn rows(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    let collect = |key: &[u8], value: &[u8]| {
        rows.insert(key.to_vec(), value.to_vec());
        Ok(())
    };
    store.for_each_row(collect).expect("rows are readable");
    rows
}

/// Minimal state machine on the store: each proposal is a row under its index.
#[derive(Clone)]
pub(crate) struct RowMachine {
    store: Store,
}

const PROGRESS_KEY: &[u8] = b"\0progress";
type Progress = (Option<LogId>, StoredMembership);

impl RowMachine {
    pub(crate) fn new(store: &Store) -> Self {
        RowMachine { store: store.clone() }
    }
}

fn progress(row: Option<Vec<u8>>) -> io::Result<Progress> {
    row.map_or_else(|| Ok(Progress::default()), |row| codec::from_bytes(&row))
}

fn header(view: &View<'_>) -> io::Result<Vec<u8>> {
    let (last_log_id, last_membership) = progress(view.get_row(PROGRESS_KEY)?)?;
    Ok(codec::to_bytes(&SnapshotMeta { last_log_id, last_membership }))
}

fn described(file: SnapshotFile) -> io::Result<SnapshotOf<TypeConfig, SnapshotFile>> {
    Ok(SnapshotOf::<TypeConfig, _> { meta: codec::from_bytes(&file.header())?, snapshot: file })
}

impl RaftSnapshotBuilder<TypeConfig> for RowMachine {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, SnapshotFile>> {
        described(self.store.build_snapshot(header)?)
    }
}

impl RaftStateMachine<TypeConfig> for RowMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<Progress> {
        progress(self.store.get_row(PROGRESS_KEY)?)
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let (mut applied, mut membership) = self.applied_state().await?;
        let (mut rows, mut responders) = (Vec::new(), Vec::new());
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(proposal) => {
                    rows.push((entry.log_id.index.to_be_bytes().to_vec(), Some(proposal.0.to_vec())));
                }
                EntryPayload::Membership(new) => membership = StoredMembership::new(Some(entry.log_id), new),
            }
            responders.extend(responder);
        }
        rows.push((PROGRESS_KEY.to_vec(), Some(codec::to_bytes(&(applied, membership)))));
        self.store.put_rows(rows)?;
        responders.into_iter().for_each(|responder| responder.send(()));
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, _meta: &SnapshotMeta, snapshot: SnapshotFile) -> io::Result<()> {
        self.store.install_snapshot(&snapshot)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<TypeConfig, SnapshotFile>>> {
        self.store.current_snapshot().map(described).transpose()
    }
}

/// Gate between writers and RocksDB: while it is closed, no write returns, as during a stall or on a disk that hangs.
#[derive(Default)]
pub(crate) struct Hold {
    holds: Mutex<bool>,
    changed: Condvar,
}

impl Hold {
    pub(super) fn pass(&self) {
        self.changed.wait_while(&mut self.holds.lock(), |holds| *holds);
    }
}

/// Blocks the writes of a store until it is dropped, or until a time limit passes: a test that waits for a write then
/// fails instead of hanging.
pub(crate) struct Held {
    store: Store,
    end: Option<mpsc::Sender<()>>,
    watch: Option<JoinHandle<()>>,
    in_vain: Arc<AtomicBool>,
}

impl Held {
    pub(crate) fn up(store: &Store, at_most: Duration) -> Held {
        *store.0.database.hold.holds.lock() = true;
        let (end, ended) = mpsc::channel();
        let in_vain = Arc::new(AtomicBool::new(false));
        let (held, out_of_time) = (store.clone(), in_vain.clone());
        let watch = thread::spawn(move || {
            out_of_time.store(ended.recv_timeout(at_most) == Err(RecvTimeoutError::Timeout), Ordering::SeqCst);
            *held.0.database.hold.holds.lock() = false;
            held.0.database.hold.changed.notify_all();
        });
        Held { store: store.clone(), end: Some(end), watch: Some(watch), in_vain }
    }

    /// Unblocks the writes.
    pub(crate) fn release(mut self) {
        assert!(*self.store.0.database.hold.holds.lock(), "somebody waited for a write that was held up");
        self.let_go();
        assert!(!self.in_vain.load(Ordering::SeqCst), "somebody waited for a write that was held up");
    }

    fn let_go(&mut self) {
        self.end = None;
        self.watch.take().map(JoinHandle::join);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Gate between the flush thread and the disk: while it is closed, no fsync completes. It records how much of each WAL
/// file is durable, and so what a power loss would leave.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<GateState>);

#[derive(Default)]
struct GateState {
    is_closed: Mutex<bool>,
    changed: Condvar,
    durable: Mutex<BTreeMap<PathBuf, u64>>,
}

impl Gate {
    pub(crate) fn open_store(&self, dir: &Path, node_id: u64) -> Store {
        let gate = self.clone();
        let sync = Box::new(move |database: &Database| gate.sync(database));
        Store::open_with(dir, node_id, LevelRange::OWN, metrics(), sync).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn set_closed(&self, is_closed: bool) {
        *self.0.is_closed.lock() = is_closed;
        self.0.changed.notify_all();
    }

    fn sync(&self, database: &Database) -> io::Result<()> {
        let mut is_closed = self.0.is_closed.lock();
        self.0.changed.wait_while(&mut is_closed, |is_closed| *is_closed);
        // Before the sync: writes during it may or may not be covered.
        let written = wal_lengths(database.path());
        database.sync_wal()?;
        *self.0.durable.lock() = written;
        Ok(())
    }

    /// Copies the directory of a running store as a power loss would leave it.
    pub(crate) fn power_loss(&self, dir: &Path, copy: &Path) {
        let durable = self.0.durable.lock();
        for (path, target) in copy_files(dir, copy) {
            if is_wal(&path) {
                let bytes = durable.get(&path).copied().unwrap_or(0);
                fs::OpenOptions::new().write(true).open(&target).and_then(|file| file.set_len(bytes)).expect("cut");
            }
        }
    }
}

fn is_wal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Returns the WAL files below `dir`, oldest first, with their lengths; the store may delete one meanwhile.
pub(crate) fn wal_lengths(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let files = files_below(dir).into_iter().filter(|path| is_wal(path));
    files.filter_map(|path| fs::metadata(&path).ok().map(|file| (path, file.len()))).collect()
}

/// Copies the files that a killed process would leave. Returns the pairs of file and copy.
pub(crate) fn copy_files(from: &Path, to: &Path) -> Vec<(PathBuf, PathBuf)> {
    let copy = |path: PathBuf| {
        let target = to.join(path.strip_prefix(from).expect("a file of this directory"));
        fs::create_dir_all(target.parent().expect("a file")).expect("create");
        fs::copy(&path, &target).expect("copy");
        (path, target)
    };
    files_below(from).into_iter().map(copy).collect()
}

pub(crate) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}
