//! Logs that cannot be written: a reader that has ended, a reader that does not read, a disk that is full.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Cluster;

/// Flag of `open`, as Linux numbers it on x86-64 and arm64.
const O_NONBLOCK: i32 = 0o4000;

/// Reason why the log of a node accepts no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLog {
    ReaderEnded,
    ReaderBlocks,
    DiskFull,
}

impl BadLog {
    pub(crate) const ALL: [BadLog; 3] = [BadLog::ReaderEnded, BadLog::ReaderBlocks, BadLog::DiskFull];

    /// Starts a stopped node with such a log, which accepts nothing once the node listens; a log without a reader and
    /// one on a full disk accept nothing from the start. The reader lives as long as the returned value.
    pub(crate) async fn start(self, cluster: &mut Cluster, id: u64) -> Option<Pipe> {
        let pipe = (self != BadLog::DiskFull).then(|| Pipe::make(cluster.file(&format!("node-{id}.fifo"))));
        let log = pipe.as_ref().map_or_else(|| PathBuf::from("/dev/full"), |pipe| pipe.path.clone());
        cluster.set_log(id, Some(log));
        if let Some(pipe) = pipe.as_ref().filter(|_| self == BadLog::ReaderBlocks) {
            pipe.fill();
        }
        cluster.relaunch(id).await;
        pipe.filter(|_| self == BadLog::ReaderBlocks)
    }
}

/// A named pipe, which has a reader as long as this lives.
pub(crate) struct Pipe {
    path: PathBuf,
    _reader: File,
}

impl Pipe {
    fn make(path: PathBuf) -> Pipe {
        // An existing one would contain unread lines.
        let _ = std::fs::remove_file(&path);
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo can be run");
        assert!(made.success(), "{}: {made}", path.display());
        Pipe { _reader: open(&path), path }
    }

    fn fill(&self) {
        let mut writer = open(&self.path);
        for piece in [4096, 1] {
            let bytes = vec![b'\n'; piece];
            loop {
                match writer.write(&bytes) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{}: {error}", self.path.display()),
                }
            }
        }
    }
}

/// Both ends, without waiting for another process to open one.
fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(O_NONBLOCK);
    options.open(path).expect("a pipe can be opened")
}
