//! Ownership of the directory: the lock that excludes other processes, and `identity.json`, which ties the directory to
//! one node of one cluster.
//!
//! Order at the first start: `identity.new`, then the database, then the rename to `identity.json`. A crash in between
//! leaves `identity.json` absent and the database empty, and the next start begins again. Any other combination means
//! that a part was removed by hand.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{StoreError, staging};
use crate::format::level::{Level, LevelRange};

pub(super) const LOCK_FILE: &str = "LOCK-thuban";
pub(super) const IDENTITY_FILE: &str = "identity.json";
const IDENTITY_STAGED: &str = "identity.new";
/// Access for the owner only: log and state contain hashes of passwords and tokens, and configuration.
const DIRECTORY_MODE: u32 = 0o700;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Highest level of the directory's contents, see [`crate::format::level`]. It is raised before anything of that
    /// level is written, so that a binary which cannot read it refuses to open the directory.
    #[serde(rename = "format_version")]
    pub level: Level,
    /// Digest of the formats of that level, see [`Level::digest`]: two builds without a release between them may have
    /// different formats of one level.
    pub format: String,
    /// Version of the binary that created the directory or raised its level.
    pub version: String,
    pub node_id: u64,
    /// Random id, generated once per directory: distinguishes a wiped and recreated directory from the previous one.
    pub instance: String,
    /// Cluster of the node, set when it has formed or joined one.
    pub cluster_id: Option<String>,
}

impl Identity {
    fn new(node_id: u64) -> Self {
        let instance = hex::encode(rand::random::<[u8; 16]>());
        let (format, version) = (String::new(), String::new());
        let new = Identity { level: Level::FIRST, format, version, node_id, instance, cluster_id: None };
        new.at(Level::FIRST)
    }

    /// Returns the same identity at a level of this binary.
    fn at(self, level: Level) -> Self {
        let (format, version) = (level.digest().to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Identity { level, format, version, ..self }
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

    /// Returns the identity of a node's directory.
    pub(super) fn of(dir: &Path, levels: LevelRange) -> Result<Self, StoreError> {
        let path = dir.join(IDENTITY_FILE);
        if !path.exists() {
            return Err(StoreError::NotADirectory { path: dir.to_owned() });
        }
        Identity::read(&path, levels)
    }

    fn read(path: &Path, levels: LevelRange) -> Result<Self, StoreError> {
        let damaged = |reason: String| StoreError::IdentityDamaged { path: path.to_owned(), reason };
        let text = fs::read(path).map_err(StoreError::at(path))?;
        // The version first: this binary may be unable to read the fields of a newer file.
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let version = value["format_version"].as_u64().ok_or_else(|| damaged("no format_version".into()))?;
        let level = u8::try_from(version).map(Level).unwrap_or_default();
        let format = value["format"].as_str().unwrap_or_default();
        if format.is_empty() || (levels.contains(level) && format != level.digest()) {
            let writer = value["version"].as_str().unwrap_or("unknown").to_owned();
            return Err(StoreError::Unreleased { path: path.to_owned(), writer, level: version });
        }
        if u64::from(level.0) != version || !levels.contains(level) {
            return Err(StoreError::OtherLevel { path: path.to_owned(), found: version, levels });
        }
        serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
    }
}

/// Creates the directory if needed, and excludes every other process from it while the file is open.
pub(super) fn lock(dir: &Path) -> Result<File, StoreError> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(dir).map_err(StoreError::at(dir))?;
    close_to_others(dir);
    let path = dir.join(LOCK_FILE);
    let file = File::create(&path).map_err(StoreError::at(&path))?;
    try_lock(dir, &file)?;
    Ok(file)
}

/// Restricts the directory to its owner; another program may have created it accessible to all. A failure is only
/// logged, because not every filesystem has owners, and a volume may belong to another user.
fn close_to_others(dir: &Path) {
    let Ok(mode) = fs::metadata(dir).map(|metadata| metadata.permissions().mode() & 0o777) else { return };
    if mode & !DIRECTORY_MODE == 0 {
        return;
    }
    match fs::set_permissions(dir, Permissions::from_mode(mode & DIRECTORY_MODE)) {
        Ok(()) => {
            tracing::info!(dir = %dir.display(), before = format!("{mode:o}"), "the data directory is now accessible \
                to its owner only")
        }
        Err(error) => {
            tracing::warn!(%error, dir = %dir.display(), mode = format!("{mode:o}"),
                "other users may read the data directory, which holds password hashes; its mode cannot be changed");
        }
    }
}

/// Locks like [`lock`], but does not change the directory.
pub(super) fn lock_to_look(dir: &Path) -> Result<Option<File>, StoreError> {
    let path = dir.join(LOCK_FILE);
    match File::open(&path) {
        Ok(file) => try_lock(dir, &file).map(|()| Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::at(&path)(error)),
    }
}

fn try_lock(dir: &Path, file: &File) -> Result<(), StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(StoreError::at(&dir.join(LOCK_FILE))(error)),
    }
}

/// Identity of the open directory, and changes to it.
pub(super) struct DirectoryOwner {
    dir: PathBuf,
    levels: LevelRange,
    identity: Mutex<Identity>,
}

impl DirectoryOwner {
    pub(super) fn new(dir: &Path, identity: &Identity, levels: LevelRange) -> Self {
        DirectoryOwner { dir: dir.to_owned(), levels, identity: Mutex::new(identity.clone()) }
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity.lock().clone()
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn levels(&self) -> LevelRange {
        self.levels
    }

    /// Ties the directory to a cluster for good.
    pub(super) fn tie(&self, cluster_id: &str) -> Result<(), StoreError> {
        let mut identity = self.identity.lock();
        match &identity.cluster_id {
            Some(found) if found == cluster_id => Ok(()),
            Some(found) => {
                let (path, found) = (self.dir.clone(), found.clone());
                Err(StoreError::OtherCluster { path, found, given: cluster_id.to_owned() })
            }
            None => self.change(&mut identity, |identity| identity.cluster_id = Some(cluster_id.to_owned())),
        }
    }

    /// Ties the directory to another cluster than the one before.
    pub(super) fn retie(&self, cluster_id: &str) -> Result<(), StoreError> {
        let mut identity = self.identity.lock();
        self.change(&mut identity, |identity| identity.cluster_id = Some(cluster_id.to_owned()))
    }

    /// Raises the level of the directory. Must be called before anything of `level` is written; durable on return.
    pub(super) fn raise_to(&self, level: Level) -> Result<(), StoreError> {
        let mut identity = self.identity.lock();
        if level <= identity.level {
            return Ok(());
        }
        if !self.levels.contains(level) {
            let (path, found) = (self.dir.clone(), level.0.into());
            return Err(StoreError::OtherLevel { path, found, levels: self.levels });
        }
        tracing::info!(%level, path = %self.dir.display(), "data format of this node upgraded");
        self.change(&mut identity, |identity| *identity = identity.clone().at(level))
    }

    fn change(&self, identity: &mut Identity, change: impl FnOnce(&mut Identity)) -> Result<(), StoreError> {
        let mut changed = identity.clone();
        change(&mut changed);
        changed.save(&self.dir)?;
        *identity = changed;
        Ok(())
    }
}

/// State in which the directory was found.
pub(super) enum Claim {
    /// A new directory; [`Claim::settle`] has to be called once the database exists.
    First(Identity),
    /// The directory of this node.
    Known(Identity),
}

/// Checks the directory before the database is opened.
pub(super) fn claim(dir: &Path, database: &Path, node_id: u64, levels: LevelRange) -> Result<Claim, StoreError> {
    let path = dir.join(IDENTITY_FILE);
    let has_database = database.join("CURRENT").exists();
    if !path.exists() {
        if dir.join(staging::FOLDER).exists() {
            return Err(StoreError::HalfRestored { path: dir.to_owned() });
        }
        // The caller refuses a database with content, see `settle`.
        let staged = dir.join(IDENTITY_STAGED);
        if has_database && !staged.exists() {
            return Err(StoreError::IdentityMissing { path: dir.to_owned() });
        }
        let identity = Identity::new(node_id);
        write_atomically(&staged, &identity.to_json()).map_err(StoreError::at(&staged))?;
        return Ok(Claim::First(identity));
    }
    let identity = Identity::read(&path, levels)?;
    if identity.node_id != node_id {
        return Err(StoreError::OtherNode { path: dir.to_owned(), found: identity.node_id, given: node_id });
    }
    if !has_database {
        return Err(StoreError::DatabaseMissing { path: dir.to_owned() });
    }
    Ok(Claim::Known(identity))
}

impl Claim {
    pub(super) fn identity(&self) -> &Identity {
        match self {
            Claim::First(identity) | Claim::Known(identity) => identity,
        }
    }

    /// Completes a first claim, now that the database exists.
    pub(super) fn settle(self, dir: &Path, is_fresh: bool) -> Result<(), StoreError> {
        match self {
            Claim::Known(_) => Ok(()),
            Claim::First(_) if !is_fresh => Err(StoreError::IdentityMissing { path: dir.to_owned() }),
            Claim::First(_) => {
                let path = dir.join(IDENTITY_FILE);
                fs::rename(dir.join(IDENTITY_STAGED), &path).map_err(StoreError::at(&path))?;
                sync_directory(dir).map_err(StoreError::at(dir))?;
                // The directory may itself be new.
                let parent = fs::canonicalize(dir.join("..")).map_err(StoreError::at(dir))?;
                sync_directory(&parent).map_err(StoreError::at(&parent))
            }
        }
    }
}

/// Replaces a file so that a crash leaves either the old or the new content.
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
