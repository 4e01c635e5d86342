//! Room: the check before every write to the database, and the ballast.
//!
//! A WAL record that does not fit stops RocksDB, and a sync before it has recovered stops it for good. So no write is
//! started that would not leave [`FLOOR_BYTES`] free: the free space is read before each write, which is cheap in
//! comparison, and the time in between is too short to fill a disk. For a write that does not fit, the ballast is freed
//! first, a file whose allocated blocks cannot be taken by other programs before. If it still does not fit, it is
//! refused with [`io::ErrorKind::StorageFull`], which is no failure: nothing has changed, and the writers of log and
//! rows repeat the write until there is room.
//!
//! Files of memtables and compactions, which RocksDB writes in the background, can still find the disk full. It then
//! refuses all writes ([`Room::is_stopped`]), and recovers by itself once there is room for a memtable.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::space::DiskSpace;

/// Bytes that stay free after every write: for the filesystem's own blocks, and for what RocksDB writes meanwhile.
const FLOOR_BYTES: u64 = 2 * 1024 * 1024;
/// Factor from the size of a batch to the space that has to be free for it: the next batch may follow at once.
const BATCH_TIMES: u64 = 2;
/// Pause between two attempts of a write that does not fit.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// Bounds of the size of the ballast, which is the last part of the reserve.
const BALLAST_BYTES_MIN: u64 = 4 * 1024 * 1024;
const BALLAST_BYTES_MAX: u64 = 32 * 1024 * 1024;
const BALLAST_FILE: &str = "ballast";
/// Size of the pieces in which the ballast is written if the filesystem has no allocation.
const PIECE_BYTES: u64 = 64 * 1024;

pub(super) struct Room {
    dir: PathBuf,
    ballast: Mutex<Ballast>,
    /// Number of writers that wait for room.
    waiting: AtomicUsize,
    is_stopped: AtomicBool,
    is_closed: AtomicBool,
}

struct Ballast {
    path: PathBuf,
    is_there: bool,
}

/// Reports whether a write was refused for lack of room: it has changed nothing, and may be repeated.
pub(super) fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}

impl Room {
    /// Opens the room of a data directory, with its ballast if there is one.
    pub(super) fn of(dir: &Path) -> Room {
        let path = dir.join(BALLAST_FILE);
        let ballast = Mutex::new(Ballast { is_there: path.exists(), path });
        let (waiting, is_stopped, is_closed) = Default::default();
        Room { dir: dir.to_owned(), ballast, waiting, is_stopped, is_closed }
    }

    /// Checks that a batch of this size fits; frees the ballast if necessary.
    pub(super) fn admit(&self, bytes: usize) -> io::Result<()> {
        let needed = (bytes as u64).saturating_mul(BATCH_TIMES).saturating_add(FLOOR_BYTES);
        // A filesystem that does not report its free space does not count as full.
        let fits = || DiskSpace::of(&self.dir).map_or(true, |space| space.free_bytes >= needed);
        if fits() || (self.ballast.lock().give_up()? && fits()) {
            return Ok(());
        }
        Err(self.full())
    }

    pub(super) fn full(&self) -> io::Error {
        let text = format!("the file system of {} has no room for a write", self.dir.display());
        io::Error::new(io::ErrorKind::StorageFull, text)
    }

    /// Allocates the ballast, if it was freed and `reserve_bytes` stay free in addition.
    pub(super) fn restore(&self, reserve_bytes: u64, divisor: u64) -> io::Result<()> {
        let bytes = (reserve_bytes / divisor).clamp(BALLAST_BYTES_MIN, BALLAST_BYTES_MAX);
        let mut ballast = self.ballast.lock();
        let has_room = || DiskSpace::of(&self.dir).map(|space| space.free_bytes >= bytes.saturating_add(reserve_bytes));
        if ballast.is_there || !has_room()? {
            return Ok(());
        }
        ballast.allocate(bytes)
    }

    /// Reports whether a write waits for room, or for RocksDB's recovery.
    pub(super) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 || self.is_stopped()
    }

    /// Reports whether RocksDB refused a write for lack of room and has not accepted one since.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    pub(super) fn set_stopped(&self, is_stopped: bool) {
        if self.is_stopped.swap(is_stopped, Ordering::SeqCst) == is_stopped {
            return;
        }
        let path = self.dir.display();
        if !is_stopped {
            return tracing::info!(%path, "the database accepts writes again");
        }
        tracing::warn!(%path, "the disk is full: the database accepts no writes until there is room");
        // For RocksDB's recovery.
        if let Err(error) = self.ballast.lock().give_up() {
            tracing::warn!(%path, %error, "the ballast file could not be freed");
        }
    }

    /// Ends all waiting because the node stops: writes that wait for room fail.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Registers a writer that waits.
    pub(super) fn waiting(&self) -> RoomWait<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        RoomWait(self)
    }
}

/// A writer that waits for room.
pub(super) struct RoomWait<'a>(&'a Room);

impl RoomWait<'_> {
    fn check(&self) -> io::Result<()> {
        match self.0.is_closed.load(Ordering::SeqCst) {
            true => Err(io::Error::other("the node stops, and there was no room for what it had to write")),
            false => Ok(()),
        }
    }

    /// Waits before the next attempt; fails once the node stops.
    pub(super) async fn pause(&self) -> io::Result<()> {
        self.check()?;
        tokio::time::sleep(PAUSE).await;
        self.check()
    }

    /// Waits like [`RoomWait::pause`], by blocking the thread.
    pub(super) fn pause_thread(&self) -> io::Result<()> {
        self.check()?;
        thread::sleep(PAUSE);
        self.check()
    }
}

impl Drop for RoomWait<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ballast {
    /// Frees the blocks; returns false if there were none.
    fn give_up(&mut self) -> io::Result<bool> {
        if !self.is_there {
            return Ok(false);
        }
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.is_there = false,
        }
        tracing::warn!("the disk is full: the ballast file was freed for pending writes");
        Ok(true)
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        let file = File::create(&self.path)?;
        // From here on a part of it may exist, and has to be freed if the rest does not fit.
        self.is_there = true;
        let allocated = match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_random(file, bytes),
            other => other.map_err(io::Error::from),
        };
        match allocated {
            Ok(()) => tracing::info!(bytes, "ballast file allocated: its space is freed when the disk is full"),
            Err(_) => drop(self.give_up()?),
        }
        allocated
    }
}

/// Fills a file with random bytes, which a compressing filesystem cannot shrink.
fn write_random(mut file: File, bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let piece: Vec<u8> = (0..left.min(PIECE_BYTES)).map(|_| rand::random()).collect();
        file.write_all(&piece)?;
        left -= piece.len() as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_ballast_is_of_real_blocks_and_goes_for_a_write_that_does_not_fit() {
        let dir = tempfile::tempdir().expect("a directory");
        let room = Room::of(dir.path());
        let blocks = || dir.path().join(BALLAST_FILE).metadata().map_or(0, |found| found.blocks() * 512);
        room.restore(u64::MAX / 2, 10).expect("no room is no error");
        assert_eq!(blocks(), 0, "it would be taken from the reserve");
        room.restore(0, 10).expect("there is room");
        assert!(blocks() >= BALLAST_BYTES_MIN, "{}", blocks());
        room.admit(1000).expect("there is room");
        assert!(blocks() >= BALLAST_BYTES_MIN, "a write that fits leaves it");
        let again = Room::of(dir.path());
        assert!(is_full(&again.admit(usize::MAX / 4).expect_err("no disk is as large")));
        assert_eq!(blocks(), 0, "it was given up for it");
    }

    #[test]
    fn a_written_ballast_has_its_size() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, bytes) = (dir.path().join(BALLAST_FILE), PIECE_BYTES * 2 + 7);
        write_random(File::create(&path).expect("created"), bytes).expect("written");
        assert_eq!(path.metadata().expect("it is there").len(), bytes);
    }

    #[test]
    fn who_waits_is_counted_and_let_go_when_the_node_stops() {
        let dir = tempfile::tempdir().expect("a directory");
        let room = Room::of(dir.path());
        assert!(!room.is_short());
        let waiting = room.waiting();
        assert!(room.is_short());
        waiting.pause_thread().expect("it may go on");
        room.close();
        waiting.pause_thread().expect_err("the node stops");
        drop(waiting);
        assert!(!room.is_short());
        room.set_stopped(true);
        assert!(room.is_short());
    }
}
