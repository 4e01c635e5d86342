//! Reads of the stored log in which a gap counts as damage.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use rocksdb::ReadOptions;

use super::StoreError;
use super::database::{Database, LOG};
use super::entry_cache::entry_bytes;
use super::log::{after, key};
use crate::format::codec;
use crate::format::types::{Entry, LogId};

type StoredRow = Result<(Box<[u8]>, Box<[u8]>), rocksdb::Error>;

/// Decodes rows that must be exactly `range`, up to `bytes_max`.
pub(super) fn collect_contiguous(
    rows: impl Iterator<Item = StoredRow>,
    range: Range<u64>,
    bytes_max: usize,
) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut expected = range.start;
    let mut bytes = 0;
    for row in rows {
        let (_, value) = row.map_err(io::Error::other)?;
        let entry = codec::entry_from_bytes(Bytes::from(value))?;
        if entry.log_id.index != expected {
            break;
        }
        expected += 1;
        bytes += entry_bytes(&entry);
        entries.push(entry);
        if bytes >= bytes_max {
            return Ok(entries);
        }
    }
    if expected == range.end { Ok(entries) } else { Err(io::Error::other(format!("log entry {expected} is missing"))) }
}

/// Returns the last log id if every entry after `purged` exists; calls `visit` with each of them.
///
/// Reads the whole log, so RocksDB checks every block of it: damage is found at the start, not when a follower needs
/// that entry.
pub(super) fn last_of_contiguous(
    database: &Database,
    purged: Option<&LogId>,
    mut visit: impl FnMut(&Entry),
) -> Result<Option<LogId>, StoreError> {
    let damaged = |reason: String| StoreError::DatabaseDamaged {
        path: database.path().to_owned(),
        reason: format!("log: {reason}"),
    };
    let mut options = ReadOptions::default();
    options.fill_cache(false);
    let mut rows = database.rocks().raw_iterator_cf_opt(database.family(LOG), options);
    let mut expected = after(purged);
    let mut last = None;
    rows.seek(key(expected));
    while let Some((found, value)) = rows.item() {
        if found != key(expected) {
            let found = found
                .try_into()
                .map_or("a foreign key follows".into(), |found| format!("{} follows", u64::from_be_bytes(found)));
            return Err(StoreError::LogGap { path: database.path().to_owned(), expected, found });
        }
        let entry = codec::entry_from_bytes(Bytes::copy_from_slice(value))
            .map_err(|error| damaged(format!("entry {expected}: {error}")))?;
        visit(&entry);
        last = Some(entry.log_id);
        expected += 1;
        rows.next();
    }
    rows.status().map_err(|error| damaged(error.into_string()))?;
    Ok(last)
}
