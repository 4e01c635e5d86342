//! Layout of a snapshot file, which is written once and never changed.
//!
//! ```text
//! file = magic:8 level:u32 header_bytes:u32 header row* end rows:u64 sha256   (big-endian)
//! row  = key_bytes:u32 value_bytes:u32 key value          key_bytes != 0xffffffff
//! end  = 0xffffffff
//! ```
//!
//! The digest covers everything before it. A file is verified completely before its first row is used, so a truncated
//! or foreign one is refused as a whole. The header belongs to the caller ([`crate::format::header`]). A backup is such
//! a file too; the file from which the nodes of a new cluster are created has another magic ([`FileKind`]).

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::transfer::RowSink;
use crate::format::level::{Level, LevelRange};

const END_OF_ROWS: u32 = u32::MAX;
/// Maximum lengths of header, key and value. Greater ones are damage, and are refused before memory is allocated.
const HEADER_BYTES_MAX: u32 = 1024 * 1024;
const KEY_BYTES_MAX: u32 = 64 * 1024;
const VALUE_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Bytes after which a snapshot being written is synced. A single fsync at the end would give the disk everything at
/// once, and delay the fsyncs of the log.
const SYNC_STEP_BYTES: u64 = 8 * 1024 * 1024;
const BUFFER_BYTES: usize = 256 * 1024;
const DIGEST_BYTES: usize = 32;

/// Kind of state in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// State of an existing cluster: a snapshot or a backup.
    State,
    /// State of a cluster that is not formed yet.
    Reborn,
}

impl FileKind {
    /// Returns the first bytes of the file.
    pub fn magic(self) -> &'static [u8; 8] {
        match self {
            FileKind::State => b"THUBSNAP",
            FileKind::Reborn => b"THUBBORN",
        }
    }
}

/// Handle on a complete snapshot file; this is openraft's snapshot data.
///
/// A file that was replaced by a newer one exists as long as a handle does, so that a transfer in progress can finish.
#[derive(Clone, Debug)]
pub struct SnapshotFile(Arc<KeptFile>);

#[derive(Debug)]
struct KeptFile {
    path: Mutex<PathBuf>,
    contents: Contents,
    is_disposable: AtomicBool,
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.is_disposable.load(Ordering::Relaxed) {
            // A file that cannot be removed now is removed at the next start.
            let _ = fs::remove_file(self.path.get_mut());
        }
    }
}

/// Result of the verification of a file.
#[derive(Clone, Debug)]
pub struct Contents {
    pub kind: FileKind,
    /// Level that a reader of its rows needs.
    pub level: Level,
    pub header: Bytes,
    pub rows: u64,
    pub bytes: u64,
    /// The checksum at its end, which identifies the content.
    pub digest: [u8; DIGEST_BYTES],
}

impl SnapshotFile {
    /// Creates a handle on a verified file, which is removed with its last handle unless [`Self::keep`] is called.
    pub(super) fn disposable(path: PathBuf, contents: Contents) -> Self {
        SnapshotFile(Arc::new(KeptFile { path: Mutex::new(path), contents, is_disposable: AtomicBool::new(true) }))
    }

    pub(super) fn keep(&self, is_kept: bool) {
        self.0.is_disposable.store(!is_kept, Ordering::Relaxed);
    }

    pub(super) fn rename(&self, to: &Path) -> io::Result<()> {
        let mut path = self.0.path.lock();
        fs::rename(&*path, to)?;
        *path = to.to_owned();
        Ok(())
    }

    pub fn path(&self) -> PathBuf {
        self.0.path.lock().clone()
    }

    /// Returns the header of this snapshot as its builder wrote it.
    pub fn header(&self) -> Bytes {
        self.0.contents.header.clone()
    }

    /// Returns the level that a reader of its rows needs.
    pub fn level(&self) -> Level {
        self.0.contents.level
    }

    pub fn rows(&self) -> u64 {
        self.0.contents.rows
    }

    pub fn bytes(&self) -> u64 {
        self.0.contents.bytes
    }

    /// Opens the file from its beginning, for sending it.
    pub fn open(&self) -> io::Result<File> {
        // Under the lock: a rename in between would make the path stale.
        let path = self.0.path.lock();
        File::open(&*path)
    }
}

/// Writer of the layout of a snapshot to a sink. The result is invalid until [`SnapshotWriter::finish`] is called.
pub(super) struct SnapshotWriter<W: Write> {
    out: BufWriter<Hashed<W>>,
    kind: FileKind,
    level: Level,
    rows: u64,
    header: Bytes,
}

impl<W: Write> SnapshotWriter<W> {
    pub(super) fn begin(sink: W, kind: FileKind, level: Level, header: Vec<u8>) -> io::Result<Self> {
        let hashed = Hashed { sink, hash: Sha256::new(), bytes: 0 };
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, hashed);
        out.write_all(kind.magic())?;
        out.write_all(&u32::from(level.0).to_be_bytes())?;
        out.write_all(&length(&header, HEADER_BYTES_MAX)?)?;
        out.write_all(&header)?;
        Ok(SnapshotWriter { out, kind, level, rows: 0, header: header.into() })
    }

    pub(super) fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.out.write_all(&length(key, KEY_BYTES_MAX)?)?;
        self.out.write_all(&length(value, VALUE_BYTES_MAX)?)?;
        self.out.write_all(key)?;
        self.out.write_all(value)?;
        self.rows += 1;
        Ok(())
    }

    /// Writes the end, and returns the sink with everything written to it.
    pub(super) fn finish(mut self) -> io::Result<(W, Contents)> {
        self.out.write_all(&END_OF_ROWS.to_be_bytes())?;
        self.out.write_all(&self.rows.to_be_bytes())?;
        self.out.flush()?;
        let SnapshotWriter { out, kind, level, rows, header } = self;
        let (Hashed { mut sink, hash, bytes }, _) = out.into_parts();
        let digest: [u8; DIGEST_BYTES] = hash.finalize().into();
        sink.write_all(&digest)?;
        sink.flush()?;
        let bytes = bytes + digest.len() as u64;
        Ok((sink, Contents { kind, level, header, rows, bytes, digest }))
    }
}

fn length(part: &[u8], max: u32) -> io::Result<[u8; 4]> {
    match u32::try_from(part.len()) {
        Ok(bytes) if bytes <= max => Ok(bytes.to_be_bytes()),
        _ => Err(io::Error::other(format!("{} bytes do not fit a snapshot (at most {max})", part.len()))),
    }
}

/// Hashes and counts the bytes that pass through.
struct Hashed<W> {
    sink: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(buffer)?;
        self.hash.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// A file that is synced in steps, see [`SYNC_STEP_BYTES`].
pub(super) struct SteppedFile {
    file: File,
    unsynced_bytes: u64,
}

impl SteppedFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(SteppedFile { file: File::create(path)?, unsynced_bytes: 0 })
    }

    pub(super) fn make_durable(self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Write for SteppedFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.unsynced_bytes += written as u64;
        if self.unsynced_bytes >= SYNC_STEP_BYTES {
            self.file.sync_data()?;
            self.unsynced_bytes = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads a snapshot or a backup completely and passes each row to `sink`.
///
/// The digest is checked after the last row: callers with side effects verify first, with a sink that does nothing.
pub fn read(path: &Path, mut sink: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<Contents> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("snapshot {}: {error}", path.display()));
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    opened
        .and_then(|(bytes, file)| read_from(BufReader::with_capacity(BUFFER_BYTES, file), bytes, &mut sink))
        .map_err(named)
}

pub(super) fn verify(path: &Path) -> io::Result<Contents> {
    let contents = read(path, |_, _| Ok(()))?;
    match contents.kind {
        FileKind::State => Ok(contents),
        FileKind::Reborn => Err(damaged(&format!("{} is not a snapshot", path.display()))),
    }
}

/// Writes a complete file with the rows of `rows` to `sink`.
pub fn write<R>(sink: impl Write, kind: FileKind, level: Level, header: Vec<u8>, rows: R) -> io::Result<Contents>
where
    R: FnOnce(&mut RowSink<'_>) -> io::Result<()>,
{
    let mut writer = SnapshotWriter::begin(sink, kind, level, header)?;
    rows(&mut |key, value| writer.row(key, value))?;
    writer.finish().map(|(_, contents)| contents)
}

/// Reads like [`read`], from an `input` of `bytes`.
pub(crate) fn read_from(
    input: impl Read,
    bytes: u64,
    sink: &mut impl FnMut(&[u8], &[u8]) -> io::Result<()>,
) -> io::Result<Contents> {
    let mut input = HashedReader { input, hash: Sha256::new() };
    let magic = input.array::<8>()?;
    let Some(kind) = [FileKind::State, FileKind::Reborn].into_iter().find(|kind| *kind.magic() == magic) else {
        return Err(damaged("is not a snapshot or backup"));
    };
    let version = input.number()?;
    let level = u8::try_from(version).map(Level).ok().filter(|level| LevelRange::OWN.contains(*level));
    let Some(level) = level else {
        return Err(damaged(&format!("holds data of level {version}, this binary reads {}", LevelRange::OWN)));
    };
    let mut header = Vec::new();
    let header_bytes = input.number()?;
    input.part(header_bytes, HEADER_BYTES_MAX, &mut header)?;
    let rows = read_rows(&mut input, sink)?;
    if input.array::<8>()? != rows.to_be_bytes() {
        return Err(damaged("has another number of rows than it says"));
    }
    let digest: [u8; DIGEST_BYTES] = input.hash.clone().finalize().into();
    if input.array::<DIGEST_BYTES>()? != digest {
        return Err(damaged("does not match its checksum"));
    }
    if input.input.read(&mut [0])? != 0 {
        return Err(damaged("goes on after its end"));
    }
    Ok(Contents { kind, level, header: header.into(), rows, bytes, digest })
}

fn read_rows(
    input: &mut HashedReader<impl Read>,
    sink: &mut impl FnMut(&[u8], &[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut rows = 0;
    loop {
        let key_bytes = input.number()?;
        if key_bytes == END_OF_ROWS {
            return Ok(rows);
        }
        let value_bytes = input.number()?;
        input.part(key_bytes, KEY_BYTES_MAX, &mut key)?;
        input.part(value_bytes, VALUE_BYTES_MAX, &mut value)?;
        sink(&key, &value)?;
        rows += 1;
    }
}

struct HashedReader<R> {
    input: R,
    hash: Sha256,
}

impl<R: Read> HashedReader<R> {
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("is truncated"),
            _ => error,
        })?;
        self.hash.update(buffer);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut array = [0; N];
        self.fill(&mut array)?;
        Ok(array)
    }

    fn number(&mut self) -> io::Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn part(&mut self, bytes: u32, max: u32, into: &mut Vec<u8>) -> io::Result<()> {
        if bytes > max {
            return Err(damaged("has an impossible length in it"));
        }
        into.clear();
        // In steps, so that memory is allocated only for bytes that exist.
        let mut left = bytes as usize;
        while left > 0 {
            let (begun, step) = (into.len(), left.min(BUFFER_BYTES));
            into.resize(begun + step, 0);
            self.fill(&mut into[begun..])?;
            left -= step;
        }
        Ok(())
    }
}

fn damaged(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a few bytes may claim that a value of maximum length follows.
    #[test]
    fn a_length_alone_takes_no_memory() {
        let mut reader = HashedReader { input: &[7; 100][..], hash: Sha256::new() };
        let mut part = Vec::new();
        let refused = reader.part(VALUE_BYTES_MAX, VALUE_BYTES_MAX, &mut part).expect_err("there are 100 bytes");
        assert_eq!(refused.to_string(), "is truncated");
        assert!(part.capacity() <= BUFFER_BYTES, "{} bytes for 100", part.capacity());
    }

    #[test]
    fn a_part_of_several_steps_is_read_whole() {
        let sent: Vec<u8> = (0..2 * BUFFER_BYTES + 3).map(|at| at as u8).collect();
        let mut reader = HashedReader { input: &sent[..], hash: Sha256::new() };
        let mut part = vec![9; 5];
        reader.part(sent.len() as u32, VALUE_BYTES_MAX, &mut part).expect("it is all there");
        assert!(part == sent);
        assert_eq!(reader.hash.finalize(), Sha256::digest(&sent));
    }
}
