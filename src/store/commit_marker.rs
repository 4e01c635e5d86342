//! Commit marker: the highest log index that this node knows to be committed. A restarted process applies all entries
//! up to it, with or without a leader.
//!
//! It is written before the entries that it covers are applied, so with every batch: one record in a separate file,
//! updated in place. In the database it would cost an additional write per batch on every node.
//!
//! The record survives the process but not a power loss: the file is never synced, and may come back older or newer
//! than the log. So it counts only if the log has that very entry; by Raft's log matching, everything before that entry
//! is then committed too. Otherwise there is no marker, and the applied index counts.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::format::types::{CommittedLeaderId, LogId};

pub(super) const FILE: &str = "committed";
const CHECK_BYTES: usize = 8;
/// Bytes of a record: `term:u64 index:u64` (big-endian), and a checksum.
const RECORD_BYTES: usize = 8 + 8 + CHECK_BYTES;

type Record = [u8; RECORD_BYTES];

pub(super) struct Commitment(File);

impl Commitment {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join(FILE))?;
        Ok(Commitment(file))
    }

    /// Writes the marker; it is in the page cache on return.
    pub(super) fn note(&self, committed: Option<&LogId>) -> io::Result<()> {
        self.0.write_all_at(&committed.map_or([0; RECORD_BYTES], record), 0)
    }

    pub(super) fn noted(&self) -> io::Result<Option<LogId>> {
        let mut found = [0; RECORD_BYTES];
        match self.0.read_exact_at(&mut found, 0) {
            Ok(()) => Ok(read(&found)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Removes the marker of this directory, which belongs to a log that no longer exists.
pub(super) fn forget(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn record(committed: &LogId) -> Record {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&committed.committed_leader_id().term.to_be_bytes());
    record[8..16].copy_from_slice(&committed.index.to_be_bytes());
    let digest = Sha256::digest(&record[..16]);
    record[16..].copy_from_slice(&digest[..CHECK_BYTES]);
    record
}

fn read(found: &Record) -> Option<LogId> {
    let number = |from: usize| Some(u64::from_be_bytes(found.get(from..from + 8)?.try_into().ok()?));
    let committed = LogId::new(CommittedLeaderId::new(number(0)?), number(8)?);
    (record(&committed) == *found).then_some(committed)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::log_id;
    use super::*;

    #[test]
    fn the_last_note_is_found_again_and_damage_is_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let commitment = Commitment::open(dir.path()).expect("made");
        assert_eq!(commitment.noted().expect("readable"), None);
        for noted in [Some(log_id(1, 7)), Some(log_id(2, 8)), None, Some(log_id(2, 0))] {
            commitment.note(noted.as_ref()).expect("noted");
            let opened = Commitment::open(dir.path()).expect("opened");
            assert_eq!(opened.noted().expect("readable"), noted);
        }
        let whole = fs::read(dir.path().join(FILE)).expect("readable");
        assert_eq!(whole.len(), RECORD_BYTES);
        for place in 0..RECORD_BYTES {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(dir.path().join(FILE), damaged).expect("written");
            assert_eq!(commitment.noted().expect("readable"), None, "byte {place}");
        }
        for length in 0..RECORD_BYTES {
            fs::write(dir.path().join(FILE), &whole[..length]).expect("written");
            assert_eq!(commitment.noted().expect("readable"), None, "cut to {length}");
        }
    }
}
