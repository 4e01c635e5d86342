//! A file that is written under a temporary name. It gets its name once it is complete and durable, and replaces no
//! other.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Access for the owner only: a state contains hashes of passwords, and configuration.
const FILE_MODE: u32 = 0o600;

/// A file being written. It is removed unless it is kept.
pub(crate) struct PartialFile {
    path: PathBuf,
    out: PathBuf,
    file: File,
}

impl PartialFile {
    /// Creates the temporary file of `out`.
    pub(crate) fn create(out: &Path) -> anyhow::Result<PartialFile> {
        let path = with_suffix(out, ".part")?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(&path).with_context(|| path.display().to_string())?;
        // Overwrites the remains of an earlier run, but not a file that another process is writing.
        if file.try_lock().is_err() {
            bail!("{} is being written by another process", path.display());
        }
        file.set_len(0)?;
        Ok(PartialFile { path, out: out.to_owned(), file })
    }

    /// Returns the temporary path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, durably.
    pub(crate) fn keep(self) -> anyhow::Result<PathBuf> {
        self.file.sync_all()?;
        rename_to_free(&self.path, &self.out)?;
        let folder = self.out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        Ok(self.out.clone())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // A file that was kept no longer has this name.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns `path` with a suffix added to its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> anyhow::Result<PathBuf> {
    let mut name = path.file_name().with_context(|| format!("{} has no name", path.display()))?.to_owned();
    name.push(suffix);
    Ok(path.with_file_name(name))
}

/// Renames a file; fails if `to` exists, even if it was created just now.
fn rename_to_free(from: &Path, to: &Path) -> anyhow::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!("{} exists by now, and is kept", to.display()),
        // Not every filesystem supports it; that `to` is free was checked at the start.
        Err(_) if !to.exists() => Ok(fs::rename(from, to)?),
        Err(error) => Err(error).with_context(|| to.display().to_string()),
    }
}
