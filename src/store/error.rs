//! Reasons why a data directory cannot be opened. Each message names the path and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use super::ownership::words_of_denial;
use crate::format::level::LevelRange;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },

    /// A file may not be read or written. The text names the user of the process, the owner of the file and the remedy.
    #[error("{words}")]
    Denied { words: String },

    #[error("{} is in use by another process: stop that one, or give this one its own data directory", path.display())]
    InUse { path: PathBuf },

    #[error("{} is not the data directory of a node: it has no identity.json", path.display())]
    NotADirectory { path: PathBuf },

    #[error(
        "{} already holds something ({found}): a restore takes an empty directory or one that does not exist; \
         nothing was touched",
        path.display()
    )]
    NotEmpty { path: PathBuf, found: String },

    #[error(
        "{} holds a restore that did not end: repeat `thuban restore`, from the .reborn file if there is one \
         by now, or empty the directory",
        path.display()
    )]
    HalfRestored { path: PathBuf },

    #[error(
        "{} is the directory of node {found}, this is node {given}: start it as node {found}, or give node \
         {given} its own data directory",
        path.display()
    )]
    OtherNode { path: PathBuf, found: u64, given: u64 },

    #[error(
        "{} is the directory of a member of cluster {found}, not of {given}: use the directory of this \
         cluster, or an empty one to join it as a new member",
        path.display()
    )]
    OtherCluster { path: PathBuf, found: String, given: String },

    #[error(
        "{} holds data of level {found}, this node reads levels {levels}: start the newer version that wrote \
         it (or with a higher --level-max); nothing was touched",
        path.display()
    )]
    OtherLevel { path: PathBuf, found: u64, levels: LevelRange },

    #[error(
        "{} was written by an unreleased build of thuban (version {writer}, level {level}), whose formats this one \
         does not read: run `thuban export` with that build, and `thuban apply` with this one on an empty directory",
        path.display()
    )]
    Unreleased { path: PathBuf, writer: String, level: u64 },

    #[error(
        "{} cannot be read as an identity ({reason}): restore it from a backup, or join as a new member with \
         an empty directory",
        path.display()
    )]
    IdentityDamaged { path: PathBuf, reason: String },

    #[error(
        "{} holds a database but no identity.json: part of it was removed; restore that file, or join as a \
         new member with an empty directory",
        path.display()
    )]
    IdentityMissing { path: PathBuf },

    #[error(
        "{} has an identity but no database: part of it was removed; restore the db folder, or join as a NEW \
         member (new node id) with an empty directory: under its old id this node would break promises that \
         it made",
        path.display()
    )]
    DatabaseMissing { path: PathBuf },

    #[error(
        "the database in {} is damaged ({reason}): acknowledged writes may be missing from it, so it is not \
         opened; remove this member and join as a new one with an empty directory",
        path.display()
    )]
    DatabaseDamaged { path: PathBuf, reason: String },

    #[error(
        "the log in {} has a gap: entry {expected} is missing, {found}; remove this member and join as a new \
         one with an empty directory",
        path.display()
    )]
    LogGap { path: PathBuf, expected: u64, found: String },

    #[error(
        "an interrupted installation of the snapshot {} cannot be finished ({reason}): the state is \
         incomplete; remove this member and join as a new one with an empty directory",
        path.display()
    )]
    InstallationLost { path: PathBuf, reason: String },
}

impl StoreError {
    /// Converts the error to an I/O error of the same kind.
    pub(super) fn into_io(self) -> io::Error {
        let kind = match &self {
            StoreError::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }

    /// Returns a converter of the I/O errors of `path`, for `map_err`.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::Denied { words: words_of_denial(path, &source) }
            }
            _ => StoreError::Io { path: path.to_owned(), source },
        }
    }
}
