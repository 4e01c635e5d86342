//! A small file system for one test: a tmpfs in the mount namespace of a process, which ends with that process.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

static PIECE: [u8; 64 * 1024] = [7; 64 * 1024];
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct SmallDisk {
    holder: Child,
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of this size. A system on which this user may mount nothing fails the test.
    pub(crate) fn mount(mebibytes: u32) -> SmallDisk {
        let namespaces = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
        let script = format!("mount -t tmpfs -o size={mebibytes}m tmpfs /mnt && echo mounted && exec sleep infinity");
        let mut command = Command::new("unshare");
        command.args([namespaces, "sh", "-c", &script]).stdout(Stdio::piped());
        let mut holder = command.spawn().expect("unshare runs");
        let mut line = String::new();
        let output = holder.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut line).expect("it can be read");
        assert_eq!(line, "mounted\n", "this test needs the right to mount a tmpfs: root, or user namespaces");
        let path = PathBuf::from(format!("/proc/{}/root/mnt", holder.id()));
        SmallDisk { holder, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the disk like another program, and all space that becomes free, until the filler is dropped.
    pub(crate) fn fill(&self) -> Filler {
        let path = self.path.join("of-another-program");
        let is_over = Arc::new(AtomicBool::new(false));
        let (file, over) = (File::create(&path).expect("a file can be made"), is_over.clone());
        let thread = thread::spawn(move || take_all(file, &over));
        Filler { path, is_over, thread: Some(thread) }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Nothing is left of it where it has ended by itself.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn take_all(mut file: File, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        // Large pieces first, then what is left page by page.
        if file.write_all(&PIECE).is_err() && file.write(&PIECE[..4096]).is_err() {
            thread::sleep(PAUSE);
        }
    }
}

pub(crate) struct Filler {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        let removed = fs::remove_file(&self.path);
        if !thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))) && removed.is_ok(), "the room is free again");
        }
    }
}
