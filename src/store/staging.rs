//! Staging of a data directory that is created while no node runs: a folder inside the directory, which may be a
//! mounted volume and so cannot be replaced by a rename.
//!
//! ```text
//! DIR/restoring/{identity.json, db, snapshots}     created here, then moved up, identity.json last
//! ```
//!
//! A directory with the folder and without `identity.json` is unfinished: no node starts on it, and the next restore
//! removes the remains. With `identity.json` it is complete.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::commit_marker;
use super::identity::{IDENTITY_FILE, LOCK_FILE, lock, sync_directory};
use super::{DATABASE_DIR, SNAPSHOT_DIR, Store, StoreError};
use crate::format::level::LevelRange;
use crate::metrics::Metrics;

pub(super) const FOLDER: &str = "restoring";
/// Folder that exists in the root of a new filesystem.
const OF_THE_FILE_SYSTEM: &str = "lost+found";

/// A directory being created. Without [`StagingDir::finish`] it stays unfinished.
pub struct StagingDir {
    dir: PathBuf,
    _lock: File,
}

impl StagingDir {
    /// Locks `dir`, which must not exist or be empty.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        refuse_unless_free(dir)?;
        let lock = lock(dir)?;
        // Again, because another process may have finished before the lock was taken.
        refuse_unless_free(dir)?;
        for left in [FOLDER, DATABASE_DIR, SNAPSHOT_DIR] {
            let path = dir.join(left);
            if path.exists() {
                fs::remove_dir_all(&path).map_err(StoreError::at(&path))?;
            }
        }
        commit_marker::forget(dir).map_err(StoreError::at(dir))?;
        // Before anything else: an unfinished directory is recognised by it.
        let folder = dir.join(FOLDER);
        fs::create_dir(&folder).map_err(StoreError::at(&folder))?;
        sync_directory(dir).map_err(StoreError::at(dir))?;
        Ok(StagingDir { dir: dir.to_owned(), _lock: lock })
    }

    /// Opens an empty store of node `node_id`, which has to be closed before [`StagingDir::finish`].
    pub fn store(&self, node_id: u64, levels: LevelRange, metrics: Arc<Metrics>) -> Result<Store, StoreError> {
        Store::open(&self.dir.join(FOLDER), node_id, levels, metrics)
    }

    /// Completes the directory.
    pub fn finish(self) -> Result<(), StoreError> {
        let folder = self.dir.join(FOLDER);
        for part in [DATABASE_DIR, SNAPSHOT_DIR, IDENTITY_FILE] {
            let target = self.dir.join(part);
            fs::rename(folder.join(part), &target).map_err(StoreError::at(&target))?;
            sync_directory(&self.dir).map_err(StoreError::at(&self.dir))?;
        }
        fs::remove_dir_all(&folder).map_err(StoreError::at(&folder))
    }
}

fn refuse_unless_free(dir: &Path) -> Result<(), StoreError> {
    if !dir.exists() {
        return Ok(());
    }
    let is_half_made = dir.join(FOLDER).exists() && !dir.join(IDENTITY_FILE).exists();
    for entry in fs::read_dir(dir).map_err(StoreError::at(dir))? {
        let name = entry.map_err(StoreError::at(dir))?.file_name();
        let is_ours =
            is_half_made && [FOLDER, DATABASE_DIR, SNAPSHOT_DIR, commit_marker::FILE].iter().any(|part| name == *part);
        if !is_ours && name != LOCK_FILE && name != OF_THE_FILE_SYSTEM {
            let found = name.to_string_lossy().into_owned();
            return Err(StoreError::NotEmpty { path: dir.to_owned(), found });
        }
    }
    Ok(())
}
