//! Start on a damaged write-ahead log: RocksDB's behaviour, found by experiment.
//!
//! The intended rule is "acknowledged entries are there, or the start is refused". It holds for every case below but
//! one: bytes cut off the very end of the newest file look exactly like a write that a crash interrupted, whether they
//! had been fsynced or not. No filesystem loses fsynced bytes in a crash, so that needs manual action or a broken disk;
//! the other members still have the entries.
//! have the entries.
//!
//! Sometimes the start is stricter than necessary: a tail that was never acknowledged is dropped if it ends early or is
//! followed by zeros, but refused if it is a complete record with wrong content.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use openraft::storage::RaftLogStorage;

use crate::store::database::LOG;
use crate::store::testing::{NODE, append, entry, metrics, open, rows, wal_lengths};
use crate::store::{Store, StoreError};

/// Entries 0 to 49 are in the older file (and, flushed, in a table), 50 to 99 in the newer one.
const ENTRIES: u64 = 100;
const ENTRY_BYTES: usize = 1000;

/// Writes a history whose every entry was acknowledged. The row of the state, which is not flushed, holds back the
/// older WAL file.
async fn history(dir: &Path) -> [PathBuf; 2] {
    let store = open(dir);
    let mut log = store.log();
    store.put_rows([("row", Some("value"))]).expect("taken");
    rows(&store);
    for index in 0..ENTRIES {
        if index == ENTRIES / 2 {
            store.0.database.rocks().flush_cf(store.0.database.family(LOG)).expect("flushed");
        }
        append(&mut log, [entry(1, index, &[index as u8; ENTRY_BYTES])]).await.expect("appended");
    }
    let files: Vec<_> = wal_lengths(dir).into_keys().collect();
    files.try_into().expect("two files")
}

enum Expected {
    /// Opens, with this last entry.
    Last(u64),
    /// Refused with this text.
    Refused(&'static str),
}
use crate::format::level::LevelRange;
use Expected::{Last, Refused};

struct Case {
    name: &'static str,
    damage: fn(&File, u64),
    outcome: Expected,
}

fn write(file: &File, at: u64, bytes: &[u8]) {
    file.write_all_at(bytes, at).expect("written");
}

/// Returns a record in RocksDB's framing (checksum, length, type, content) with a wrong checksum.
fn false_record() -> Vec<u8> {
    let content = [7_u8; 100];
    [&[1, 2, 3, 4, content.len() as u8, 0, 1][..], &content].concat()
}

const NEWEST: &[Case] = &[
    Case { name: "intact", damage: |_, _| (), outcome: Last(99) },
    Case {
        name: "a record that ends early",
        damage: |file, end| write(file, end, &false_record()[..60]),
        outcome: Last(99),
    },
    Case { name: "half a header", damage: |file, end| write(file, end, &[1, 2, 3]), outcome: Last(99) },
    Case { name: "zeros behind", damage: |file, end| write(file, end, &[0; 5000]), outcome: Last(99) },
    Case {
        name: "a false record behind",
        damage: |file, end| write(file, end, &false_record()),
        outcome: Refused("checksum mismatch"),
    },
    Case {
        name: "synced bytes flipped at the end",
        damage: |file, end| write(file, end - 20, b"?!"),
        outcome: Refused("checksum mismatch"),
    },
    Case {
        name: "synced bytes flipped in the middle",
        damage: |file, end| write(file, end / 2, b"?!"),
        outcome: Refused("checksum mismatch"),
    },
    Case {
        name: "synced bytes flipped at the start",
        damage: |file, _| write(file, 3, b"?!"),
        outcome: Refused("checksum mismatch"),
    },
    Case {
        name: "a zeroed page in the middle",
        damage: |file, end| write(file, end / 2, &[0; 4096]),
        outcome: Refused("Corruption"),
    },
    Case {
        name: "a zeroed last page",
        damage: |file, end| write(file, end - 4096, &[0; 4096]),
        outcome: Refused("checksum mismatch"),
    },
    // The exception: an acknowledged entry is lost without an error.
    Case { name: "synced bytes cut off", damage: |file, end| file.set_len(end - 500).expect("cut"), outcome: Last(98) },
];

const OLDER: &[Case] = &[
    Case { name: "intact", damage: |_, _| (), outcome: Last(99) },
    Case {
        name: "flipped in the middle",
        damage: |file, end| write(file, end / 2, b"?!"),
        outcome: Refused("checksum mismatch"),
    },
    Case {
        name: "flipped at the end",
        damage: |file, end| write(file, end - 20, b"?!"),
        outcome: Refused("checksum mismatch"),
    },
    // RocksDB stores the length of closed files in its manifest.
    Case { name: "cut", damage: |file, end| file.set_len(end - 500).expect("cut"), outcome: Refused("Size mismatch") },
    Case { name: "emptied", damage: |file, _| file.set_len(0).expect("cut"), outcome: Refused("Size mismatch") },
];

async fn judge(case: &Case, pick: fn(&[PathBuf; 2]) -> &PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = history(dir.path()).await;
    let path = pick(&files);
    let file = OpenOptions::new().read(true).write(true).open(path).expect("open");
    (case.damage)(&file, file.metadata().expect("a file").len());
    match (Store::open(dir.path(), NODE, LevelRange::OWN, metrics()), &case.outcome) {
        (Ok(store), Last(last)) => {
            let state = store.log().get_log_state().await.expect("readable");
            assert_eq!(state.last_log_id.map(|id| id.index), Some(*last), "{}", case.name);
            assert_eq!(rows(&store).len(), 1, "{}", case.name);
        }
        (Err(refused), Refused(words)) => {
            let text = refused.to_string();
            let number = path.file_stem().and_then(|stem| stem.to_str()).expect("digits").trim_start_matches('0');
            assert!(matches!(refused, StoreError::DatabaseDamaged { .. }), "{}: {text}", case.name);
            assert!(text.contains(words) && text.contains(number), "{}, file {number}: {text}", case.name);
        }
        (Ok(_), Refused(words)) => panic!("{}: opened in spite of {words}", case.name),
        (Err(refused), Last(_)) => panic!("{}: {refused}", case.name),
    }
}

#[tokio::test]
async fn damage_in_the_newest_file() {
    for case in NEWEST {
        judge(case, |[_, newest]| newest).await;
    }
}

#[tokio::test]
async fn damage_in_an_older_file() {
    for case in OLDER {
        judge(case, |[older, _]| older).await;
    }
}

#[tokio::test]
async fn a_missing_file_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [older, _] = history(dir.path()).await;
    fs::remove_file(older).expect("removed");
    let refused = Store::open(dir.path(), NODE, LevelRange::OWN, metrics()).err().expect("refused");
    assert!(matches!(refused, StoreError::DatabaseDamaged { .. }), "{refused}");
    assert!(refused.to_string().contains("Missing WAL"), "{refused}");
}
