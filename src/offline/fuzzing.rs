//! Entry point for [`crate::fuzzing`]: a backup with arbitrary contents, read as by `thuban inspect` and `thuban
//! restore`.

use sha2::{Digest, Sha256};

use super::state_scan::survey;
use crate::catalog::Catalog;
use crate::catalog::rekey::Rebirth;
use crate::raft::progress::PROGRESS_KEY;
use crate::store;

const DIGEST_BYTES: usize = 32;

/// Reads a letter and a file: `s` for a file to which the checksum is added, `r` for a file as it is. Reports whether a
/// new cluster could be founded from it.
pub(crate) fn read_archive(input: &[u8]) -> bool {
    let file = match input.split_first() {
        Some((b's', file)) => [file, &Sha256::digest(file)[..]].concat(),
        Some((b'r', file)) => file.to_vec(),
        _ => return false,
    };
    let read = |sink: &mut store::RowSink<'_>| {
        store::read_from(&file[..], file.len() as u64, &mut |key, value| sink(key, value))
    };
    let Ok(surveyed) = survey("an input".as_ref(), |sink| read(sink)) else { return false };
    let rows: u64 = surveyed.survey.tables.values().map(|table| table.rows).sum();
    assert!(rows <= surveyed.contents.rows && surveyed.contents.rows * 8 <= file.len() as u64);
    assert_eq!(surveyed.contents.bytes, file.len() as u64);
    assert_eq!(surveyed.contents.digest, file[file.len() - DIGEST_BYTES..]);
    let rebirth = Rebirth::of("new");
    let mut catalog = Catalog::default();
    let loaded = read(&mut |key, value| {
        if key == PROGRESS_KEY {
            return Ok(());
        }
        let Some(value) = rebirth.row(key, value).map_err(std::io::Error::other)? else { return Ok(()) };
        catalog.load(key, &value).map_err(std::io::Error::other)
    });
    if loaded.is_err() || catalog.check_loaded().is_err() {
        return false;
    }
    // The first uses of the catalog by a node.
    let (_, _, _) = (catalog.counts(), catalog.overfull(), catalog.view());
    catalog.nodes.cluster_id() == Some("new")
}
