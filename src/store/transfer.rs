//! Snapshots of the state: building, receiving and installing them.
//!
//! Everything here blocks for a time that depends on the size of the state, so it must run on a blocking thread. A
//! state that is created while no node runs (a restored directory, a cluster of one node) is installed too, together
//! with its log ([`Store::begin_anew`]).
//!
//! An installation replaces all rows, which takes many batches. A marker in the database makes it atomic: it is durable
//! before the first row is deleted and removed after the last one is written (the single WAL preserves that order). A
//! start that finds the marker repeats the installation from the same file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rocksdb::WriteBatch;
use serde::{Deserialize, Serialize};

use super::database::{Database, STATE, Scalar};
use super::identity::sync_directory;
use super::snapshot::{self, FileKind, SnapshotFile, SnapshotWriter, SteppedFile};
use super::snapshot_dir::IncomingSnapshot;
use super::{Store, StoreError, View};
use crate::format::level::Level;
use crate::format::types::{LogId, Vote};

/// Approximate size of a batch of rows, which delays other writes only briefly.
const BATCH_BYTES: usize = 1024 * 1024;

/// Receiver of the rows of a state, one by one.
pub type RowSink<'a> = dyn FnMut(&[u8], &[u8]) -> io::Result<()> + 'a;

/// The marker of an installation in progress.
pub(super) struct Installing;
impl Scalar for Installing {
    const KEY: &'static str = "installing";
    type Value = Installation;
}

#[derive(Serialize, Deserialize)]
pub(super) struct Installation {
    /// File name before the rename that ends the installation, and after it.
    pub(super) source: String,
    pub(super) target: String,
}

impl Store {
    /// Writes the current state to a snapshot file, which becomes the current one.
    ///
    /// `header` describes the snapshot, and sees the same moment as the rows. Writes continue meanwhile: the view is a
    /// RocksDB snapshot and does not delay them.
    pub fn build_snapshot<H>(&self, header: H) -> io::Result<SnapshotFile>
    where
        H: FnOnce(&View<'_>) -> io::Result<Vec<u8>>,
    {
        let started = Instant::now();
        let built = self.build(header);
        match &built {
            Ok(file) => {
                self.0.metrics.snapshot_build.observe(started.elapsed().as_secs_f64());
                self.0.metrics.snapshot_bytes.set(i64::try_from(file.bytes()).unwrap_or(i64::MAX));
                self.count_snapshot("built");
            }
            Err(_) => self.count_snapshot("failed"),
        }
        built
    }

    fn build<H>(&self, header: H) -> io::Result<SnapshotFile>
    where
        H: FnOnce(&View<'_>) -> io::Result<Vec<u8>>,
    {
        // View and number are taken together, so that a higher number means a newer state.
        let (view, number) = {
            let _whole = self.0.whole_state.lock();
            (self.view_now()?, self.0.shelf.take_number())
        };
        let file = self.write_partial(number, self.identity().level, header(&view)?, |sink| view.for_each_row(sink))?;
        self.0.shelf.complete(&file, number)?;
        self.0.shelf.offer(number, &file);
        Ok(file)
    }

    /// Writes a complete file under the name of an incomplete one.
    fn write_partial<R>(&self, number: u64, level: Level, header: Vec<u8>, rows: R) -> io::Result<SnapshotFile>
    where
        R: FnOnce(&mut RowSink<'_>) -> io::Result<()>,
    {
        // Removed if anything below fails.
        let partial = IncomingSnapshot::create(self.0.shelf.partial_path(number))?;
        let mut writer = SnapshotWriter::begin(SteppedFile::create(&partial.path)?, FileKind::State, level, header)?;
        rows(&mut |key, value| writer.row(key, value))?;
        let (file, contents) = writer.finish()?;
        file.make_durable()?;
        Ok(SnapshotFile::disposable(partial.accepted(), contents))
    }

    /// Writes the rows of `view` with `header` to `sink` in the layout of a snapshot; returns the number of bytes.
    pub fn write_view(&self, view: &View<'_>, header: Vec<u8>, sink: impl Write) -> io::Result<u64> {
        let written =
            snapshot::write(sink, FileKind::State, self.identity().level, header, |sink| view.for_each_row(sink));
        written.map(|contents| contents.bytes)
    }

    /// Writes a snapshot file with the rows of the caller, for [`Store::begin_anew`]; otherwise it is removed with its
    /// last handle.
    pub fn stage<R>(&self, level: Level, header: Vec<u8>, rows: R) -> io::Result<SnapshotFile>
    where
        R: FnOnce(&mut RowSink<'_>) -> io::Result<()>,
    {
        self.write_partial(self.0.shelf.take_number(), level, header, rows)
    }

    /// Replaces everything in the directory by the state of `file` and an empty log that follows `last`; the directory
    /// has to be reopened. It is atomic: a crash leaves everything unchanged, or the next opening completes it.
    pub fn begin_anew(self, file: &SnapshotFile, last: LogId, vote: Vote) -> io::Result<()> {
        let mut batch = WriteBatch::default();
        self.0.log.put_beginning(&mut batch, last, vote)?;
        self.install(file, batch)
    }

    /// Returns the newest snapshot of a state that this node has or had.
    pub fn current_snapshot(&self) -> Option<SnapshotFile> {
        self.0.shelf.current()
    }

    /// Creates a file for a snapshot from another node.
    pub fn incoming_snapshot(&self) -> io::Result<IncomingSnapshot> {
        IncomingSnapshot::create(self.0.shelf.partial_path(self.0.shelf.take_number()))
    }

    /// Verifies a received snapshot completely. It is removed with its last handle unless it is installed.
    pub fn accept_incoming(&self, incoming: IncomingSnapshot) -> io::Result<SnapshotFile> {
        incoming.file.sync_all()?;
        let contents = snapshot::verify(&incoming.path).inspect_err(|_| self.count_snapshot("failed"))?;
        Ok(SnapshotFile::disposable(incoming.accepted(), contents))
    }

    /// Replaces the whole state by the rows of `file`, which becomes the current snapshot.
    pub fn install_snapshot(&self, file: &SnapshotFile) -> io::Result<()> {
        self.install(file, WriteBatch::default())
    }

    /// Installs the rows of `file`. The writes in `also` take effect together with the marker.
    fn install(&self, file: &SnapshotFile, also: WriteBatch) -> io::Result<()> {
        self.0.title.raise_to(file.level()).map_err(io::Error::other)?;
        let _whole = self.0.whole_state.lock();
        let number = self.begin_installation(file, also)?;
        // From here on the file is needed until the marker is removed, even after a failure.
        file.keep(true);
        replace_rows(&self.0.database, &file.path())?;
        self.0.shelf.complete(file, number)?;
        end_installation(&self.0.database)?;
        self.0.shelf.offer(number, file);
        self.count_snapshot("installed");
        Ok(())
    }

    /// Verifies the file before anything is changed, then sets the marker.
    pub(super) fn begin_installation(&self, file: &SnapshotFile, mut batch: WriteBatch) -> io::Result<u64> {
        snapshot::verify(&file.path())?;
        sync_directory(file.path().parent().expect("a file in the folder of snapshots"))?;
        // Pending rows are older than those of the snapshot.
        self.0.rows.settle_patiently()?;
        let number = self.0.shelf.take_number();
        let installation =
            Installation { source: name(&file.path()), target: name(&self.0.shelf.complete_path(number)) };
        self.0.database.put_scalar::<Installing>(&mut batch, &installation);
        put(&self.0.database, &mut batch)?;
        self.0.database.sync_wal()?;
        Ok(number)
    }

    fn count_snapshot(&self, event: &str) {
        self.0.metrics.snapshots.with_label_values(&[event]).inc();
    }
}

impl IncomingSnapshot {
    fn accepted(mut self) -> PathBuf {
        self.is_accepted = true;
        self.path.clone()
    }
}

/// Completes an installation that a crash interrupted; called before the state is read.
pub(super) fn finish_interrupted(database: &Database, folder: &Path) -> Result<(), StoreError> {
    let Some(installation) = database.scalar::<Installing>().map_err(StoreError::at(database.path()))? else {
        return Ok(());
    };
    let (source, target) = (folder.join(&installation.source), folder.join(&installation.target));
    let path = if target.exists() { &target } else { &source };
    tracing::warn!(snapshot = %path.display(), "an interrupted installation of a snapshot is repeated");
    redo(database, path, &target)
        .map_err(|error| StoreError::InstallationLost { path: path.clone(), reason: error.to_string() })
}

fn redo(database: &Database, path: &Path, target: &Path) -> io::Result<()> {
    snapshot::verify(path)?;
    replace_rows(database, path)?;
    if path != target {
        std::fs::rename(path, target)?;
    }
    sync_directory(target.parent().expect("a file in the folder of snapshots"))?;
    end_installation(database)
}

fn end_installation(database: &Database) -> io::Result<()> {
    let mut batch = WriteBatch::default();
    database.delete_scalar::<Installing>(&mut batch);
    put(database, &mut batch)?;
    database.sync_wal()
}

fn replace_rows(database: &Database, path: &Path) -> io::Result<()> {
    let family = database.family(STATE);
    let mut batch = WriteBatch::default();
    let mut rows = database.rocks().raw_iterator_cf(family);
    rows.seek_to_last();
    if let Some(last) = rows.key() {
        // The end of a range is exclusive, hence the separate delete of the last key.
        batch.delete_range_cf(family, &b""[..], last);
        batch.delete_cf(family, last);
    }
    rows.status().map_err(io::Error::other)?;
    snapshot::read(path, |key, value| {
        batch.put_cf(family, key, value);
        if batch.size_in_bytes() < BATCH_BYTES { Ok(()) } else { put(database, &mut batch) }
    })?;
    put(database, &mut batch)
}

/// Writes a batch and empties it. Waits for room if necessary: half a state is useless, and a failed installation would
/// end consensus.
fn put(database: &Database, batch: &mut WriteBatch) -> io::Result<()> {
    let data = std::mem::take(batch);
    database.write_patiently(|| WriteBatch::from_data(data.data()))
}

fn name(path: &Path) -> String {
    let name = path.file_name().expect("a file in the folder of snapshots");
    name.to_str().expect("names of snapshots are digits").to_owned()
}
