//! Ownership of files: those in a data directory belong to its owner, even if root wrote them.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use rustix::process::{geteuid, getuid};

/// Maximum depth of paths in a data directory.
const DEPTH_MAX: usize = 4;

/// Changes the owner of all files in a directory to the owner of the directory. Does nothing unless run as root.
pub fn give_to_owner_of(dir: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = fs::metadata(dir)?;
    give(dir, owner.uid(), owner.gid(), DEPTH_MAX)
}

fn give(dir: &Path, uid: u32, gid: u32, depth: usize) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, found) = (entry.path(), entry.metadata()?);
        if (found.uid(), found.gid()) != (uid, gid) {
            lchown(&path, Some(uid), Some(gid))?;
        }
        if found.is_dir() && depth > 0 {
            give(&path, uid, gid, depth - 1)?;
        }
    }
    Ok(())
}

/// Returns the text of a denied access: user, owner, path and remedy.
pub(super) fn words_of_denial(path: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        return format!(
            "{}: the file system is mounted read-only, and a node has to write; mount it read-write",
            path.display()
        );
    }
    let running = user(getuid().as_raw());
    let denied = format!("{}: {error}; this process runs as {running}", path.display());
    let Some((dir, owner)) =
        path.ancestors().find_map(|dir| Some((dir, fs::metadata(dir).ok().filter(|m| m.is_dir())?)))
    else {
        return denied;
    };
    let (owner, dir) = (user(owner.uid()), dir.display());
    format!("{denied}, {dir} belongs to {owner}: start it as that user, or give the directory to this one (chown -R)")
}

/// Returns a user's name and number.
fn user(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    });
    name.map_or_else(|| format!("user {uid}"), |name| format!("{name} (user {uid})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_both_users_and_the_way_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let missing = dir.path().join("db").join("LOCK");
        let text = words_of_denial(&missing, &io::Error::from_raw_os_error(13));
        let own = user(getuid().as_raw());
        assert!(text.starts_with(&format!("{}: Permission denied (os error 13); ", missing.display())), "{text}");
        let owners = format!("runs as {own}, {} belongs to {own}: ", dir.path().display());
        assert!(text.contains(&owners) && text.ends_with("(chown -R)"), "{text}");
        assert_eq!(text.matches("os error").count(), 1, "{text}");
        let text = words_of_denial(&missing, &io::Error::from_raw_os_error(30));
        assert!(text.contains("read-only") && !text.contains("os error"), "{text}");
    }

    #[test]
    fn users_are_named_with_their_number() {
        assert_eq!(user(0), "root (user 0)");
        assert_eq!(user(4_000_000_000), "user 4000000000");
    }

    /// Only root can change owners; for other users nothing happens.
    #[test]
    fn all_files_go_to_the_owner_of_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("db");
        fs::create_dir(&inner).expect("made");
        fs::write(inner.join("file"), "x").expect("written");
        let wanted = if geteuid().is_root() { 12_345 } else { geteuid().as_raw() };
        if geteuid().is_root() {
            lchown(dir.path(), Some(wanted), Some(wanted)).expect("root may");
        }
        give_to_owner_of(dir.path()).expect("given");
        for path in [inner.clone(), inner.join("file")] {
            assert_eq!(fs::metadata(path).expect("there").uid(), wanted);
        }
    }
}
