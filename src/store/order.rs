//! Order left in the directory of a stopped node, to be executed at its next run. Its bytes have no meaning for the
//! store. There is at most one order; a later one replaces it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::identity::sync_directory;

const ORDER_FILE: &str = "order.json";
const STAGED: &str = "order.new";
/// Access for the owner only, as for the directory.
const FILE_MODE: u32 = 0o600;

/// Writes the order. It is durable on return; a crash leaves all of it or nothing.
pub(super) fn leave(dir: &Path, order: &[u8]) -> io::Result<()> {
    let staged = dir.join(STAGED);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&staged)?;
    file.write_all(order)?;
    file.sync_all()?;
    fs::rename(&staged, dir.join(ORDER_FILE))?;
    sync_directory(dir)
}

/// Returns the order, if any. An error names the file, and the remedy if access is denied.
pub(super) fn read(dir: &Path) -> io::Result<Option<Vec<u8>>> {
    let path = dir.join(ORDER_FILE);
    match fs::read(&path) {
        Ok(order) => Ok(Some(order)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let (kind, path) = (error.kind(), path.display());
            let remedy = "give it to the user that the node runs as (chown), and start the node again";
            Err(io::Error::new(kind, format!("{path}: {error}; {remedy}")))
        }
    }
}

pub(super) fn forget(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(ORDER_FILE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => File::open(dir)?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_order_stays_until_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(read(dir.path()).expect("read"), None);
        for order in [&b"first, and longer"[..], b"second"] {
            leave(dir.path(), order).expect("left");
            assert_eq!(read(dir.path()).expect("read").as_deref(), Some(order));
        }
        let mode = fs::metadata(dir.path().join(ORDER_FILE)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, FILE_MODE);
        for _ in 0..2 {
            forget(dir.path()).expect("forgotten");
            assert_eq!(read(dir.path()).expect("read"), None);
        }
    }
}
