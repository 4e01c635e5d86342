//! The snapshot directory: tracks the current file and removes those that are not needed.
//!
//! Names: `<number>.snapshot` for states that this node has or had, the highest of which is current; `*.part` for files
//! being built or received. A received file gets its number only when it is installed: a file that was never installed
//! must not be found at the next start, because its order relative to the others would be unknown.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::identity::sync_directory;
use super::snapshot::{self, SnapshotFile};

const COMPLETE: &str = "snapshot";
const PARTIAL: &str = "part";

pub(super) struct SnapshotDir {
    dir: PathBuf,
    next_number: AtomicU64,
    current: Mutex<Option<(u64, SnapshotFile)>>,
}

impl SnapshotDir {
    /// Finds the newest snapshot and removes all other files in the folder.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let mut numbered = Vec::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            match number_of(&path) {
                Some(number) => numbered.push((number, path)),
                None => fs::remove_file(&path)?,
            }
        }
        numbered.sort();
        let next_number = AtomicU64::new(numbered.last().map_or(1, |(number, _)| number + 1));
        let current = numbered.pop().and_then(|(number, path)| Some((number, load(path)?)));
        for (_, path) in numbered {
            fs::remove_file(path)?;
        }
        Ok(SnapshotDir { dir: dir.to_owned(), next_number, current: Mutex::new(current) })
    }

    pub(super) fn current(&self) -> Option<SnapshotFile> {
        self.current.lock().as_ref().map(|(_, file)| file.clone())
    }

    /// Returns a number greater than all before.
    pub(super) fn take_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn partial_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:020}.{PARTIAL}"))
    }

    pub(super) fn complete_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:020}.{COMPLETE}"))
    }

    /// Gives a synced file its final name, durably.
    pub(super) fn complete(&self, file: &SnapshotFile, number: u64) -> io::Result<()> {
        let path = self.complete_path(number);
        if file.path() != path {
            file.rename(&path)?;
        }
        sync_directory(&self.dir)
    }

    /// Makes `file` the current one, unless a newer one is current already. The other of the two is removed with its
    /// last handle.
    pub(super) fn offer(&self, number: u64, file: &SnapshotFile) {
        let mut current = self.current.lock();
        match &*current {
            Some((newer, _)) if *newer > number => return,
            Some((_, older)) => older.keep(false),
            None => {}
        }
        file.keep(true);
        *current = Some((number, file.clone()));
    }
}

fn number_of(path: &Path) -> Option<u64> {
    let is_complete = path.extension().is_some_and(|extension| extension == COMPLETE);
    path.file_stem()?.to_str()?.parse().ok().filter(|_| is_complete)
}

/// Loads a snapshot if it is valid. A damaged one is no loss: its state is in the database, and the next build replaces
/// it. It must only never be sent.
fn load(path: PathBuf) -> Option<SnapshotFile> {
    match snapshot::verify(&path) {
        Ok(contents) => {
            let file = SnapshotFile::disposable(path, contents);
            file.keep(true);
            Some(file)
        }
        Err(error) => {
            tracing::error!(%error, "removing a damaged snapshot; a new one will be built from the state");
            let _ = fs::remove_file(&path);
            None
        }
    }
}

/// A snapshot being received. Its file is removed unless it is accepted.
pub struct IncomingSnapshot {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) is_accepted: bool,
}

impl IncomingSnapshot {
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let file = File::create(&path)?;
        Ok(IncomingSnapshot { path, file, is_accepted: false })
    }

    /// Returns the file for the received bytes.
    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for IncomingSnapshot {
    fn drop(&mut self) {
        if !self.is_accepted {
            // A file that cannot be removed now is removed at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}
