//! Whose directory this is: the lock that keeps a second process out and `identity.json`, which
//! ties the directory to one node of one cluster.
//!
//! Order at the first start: `identity.new`, then the database, then the rename to
//! `identity.json`. A crash in between leaves `identity.json` absent and the database empty, and
//! the next start begins again. Any other half of the pair means that a part was removed by hand.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StoreError;

/// Version of the whole directory: layout of files, column families and stored scalars.
pub const FORMAT_VERSION: u32 = 1;

const LOCK_FILE: &str = "LOCK-thuban";
const IDENTITY_FILE: &str = "identity.json";
const IDENTITY_STAGED: &str = "identity.new";
/// Only the owner: log and state hold hashes of passwords and tokens, and configuration.
const DIRECTORY_MODE: u32 = 0o700;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub format_version: u32,
    pub node_id: u64,
    /// Random, once per directory: tells a wiped and re-made directory from the one before.
    pub instance: String,
    /// Set when the node has formed or joined a cluster.
    pub cluster_id: Option<String>,
}

impl Identity {
    fn new(node_id: u64) -> Self {
        let instance = hex::encode(rand::random::<[u8; 16]>());
        Identity { format_version: FORMAT_VERSION, node_id, instance, cluster_id: None }
    }

    /// Replaces `identity.json`.
    pub(super) fn save(&self, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(IDENTITY_FILE);
        write_atomically(&path, &self.to_json()).map_err(StoreError::at(&path))
    }

    fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("strings and numbers serialize");
        text.push(b'\n');
        text
    }

    fn read(path: &Path) -> Result<Self, StoreError> {
        let damaged = |reason: String| StoreError::IdentityDamaged { path: path.to_owned(), reason };
        let text = fs::read(path).map_err(StoreError::at(path))?;
        // The version first: a newer file may have a shape that this binary cannot read.
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let version = value["format_version"].as_u64().ok_or_else(|| damaged("no format_version".into()))?;
        if version > u64::from(FORMAT_VERSION) {
            let found = u32::try_from(version).unwrap_or(u32::MAX);
            return Err(StoreError::NewerFormat { path: path.to_owned(), found, supported: FORMAT_VERSION });
        }
        serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
    }
}

/// Makes the directory if needed and keeps every other process out of it while the file lives.
pub(super) fn lock(dir: &Path) -> Result<File, StoreError> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(dir).map_err(StoreError::at(dir))?;
    let path = dir.join(LOCK_FILE);
    let file = File::create(&path).map_err(StoreError::at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(StoreError::at(&path)(error)),
    }
}

/// How the directory was found.
pub(super) enum Claim {
    /// No node lived here; [`Claim::settle`] is to be called once the database exists.
    First(Identity),
    /// The directory of this node.
    Known(Identity),
}

/// Judges the directory before the database is touched.
pub(super) fn claim(dir: &Path, database: &Path, node_id: u64) -> Result<Claim, StoreError> {
    let path = dir.join(IDENTITY_FILE);
    let has_database = database.join("CURRENT").exists();
    if !path.exists() {
        // The caller refuses a database with content, see `settle`.
        let staged = dir.join(IDENTITY_STAGED);
        if has_database && !staged.exists() {
            return Err(StoreError::IdentityMissing { path: dir.to_owned() });
        }
        let identity = Identity::new(node_id);
        write_atomically(&staged, &identity.to_json()).map_err(StoreError::at(&staged))?;
        return Ok(Claim::First(identity));
    }
    let identity = Identity::read(&path)?;
    if identity.node_id != node_id {
        return Err(StoreError::OtherNode { path: dir.to_owned(), found: identity.node_id, given: node_id });
    }
    if !has_database {
        return Err(StoreError::DatabaseMissing { path: dir.to_owned() });
    }
    Ok(Claim::Known(identity))
}

impl Claim {
    /// Makes a first claim final, now that the database exists.
    pub(super) fn settle(self, dir: &Path, is_fresh: bool) -> Result<Identity, StoreError> {
        match self {
            Claim::Known(identity) => Ok(identity),
            Claim::First(_) if !is_fresh => Err(StoreError::IdentityMissing { path: dir.to_owned() }),
            Claim::First(identity) => {
                let path = dir.join(IDENTITY_FILE);
                fs::rename(dir.join(IDENTITY_STAGED), &path).map_err(StoreError::at(&path))?;
                sync_directory(dir).map_err(StoreError::at(dir))?;
                // The directory may itself be new.
                let parent = fs::canonicalize(dir.join("..")).map_err(StoreError::at(dir))?;
                sync_directory(&parent).map_err(StoreError::at(&parent))?;
                Ok(identity)
            }
        }
    }
}

/// Replaces a file so that a crash leaves the old content or the new, never a part.
fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_directory(path.parent().expect("a file in the data directory"))
}

/// Makes created, renamed and removed names durable.
pub(super) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
