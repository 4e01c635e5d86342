//! Pending rows: when they are written, what a crash leaves of them, and what happens on a failing disk.

use std::time::{Duration, Instant};

use crate::store::Store;
use crate::store::database::STATE;
use crate::store::testing::{Gate, Held, NODE, append, copy_files, entry, fresh, log_id, open, rows};
use openraft::storage::RaftLogStorage;

const LIMIT: Duration = Duration::from_secs(20);

fn put(store: &Store, key: &str, value: Option<&str>) {
    store.put_rows([(key, value)]).expect("taken");
}

/// Returns the row in the database, without pending ones.
fn stored(store: &Store, key: &str) -> Option<Vec<u8>> {
    let database = &store.0.database;
    database.rocks().get_cf(database.family(STATE), key).expect("readable")
}

fn await_stored(store: &Store, key: &str, value: &str) {
    let deadline = Instant::now() + LIMIT;
    while stored(store, key).as_deref() != Some(value.as_bytes()) {
        assert!(Instant::now() < deadline, "{key} was never written");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn rows_are_written_though_nobody_asks_for_them() {
    let (_dir, store) = fresh();
    put(&store, "a", Some("1"));
    put(&store, "b", Some("2"));
    await_stored(&store, "a", "1");
    assert_eq!(stored(&store, "b").as_deref(), Some(&b"2"[..]), "in one batch");
    put(&store, "a", Some("3"));
    await_stored(&store, "a", "3");
}

#[test]
fn what_waits_is_there_for_who_reads_and_a_row_is_written_once() {
    let (_dir, store) = fresh();
    store.0.rows.hold();
    for number in 0..10 {
        put(&store, "a", Some(&number.to_string()));
    }
    put(&store, "b", Some("1"));
    put(&store, "b", None);
    assert_eq!(stored(&store, "a"), None);
    let writes = store.0.database.rocks().latest_sequence_number();
    assert_eq!(store.get_row(b"a").expect("readable"), Some(b"9".to_vec()));
    assert_eq!(store.0.database.rocks().latest_sequence_number() - writes, 2, "one for each key");
    assert_eq!(rows(&store).len(), 1);
}

#[test]
fn so_much_waits_and_no_more() {
    let (_dir, store) = fresh();
    store.0.rows.hold();
    let value = "x".repeat(1024 * 1024);
    for number in 0..16 {
        put(&store, &number.to_string(), Some(&value));
        // The same row again uses no more memory.
        put(&store, &number.to_string(), Some(&value));
    }
    assert!(stored(&store, "0").is_some() && stored(&store, "15").is_some(), "who puts too much writes it");
    put(&store, "16", Some(&value));
    assert!(stored(&store, "16").is_none(), "and then there is room");
}

#[tokio::test]
async fn a_crash_takes_what_waits_and_leaves_the_log_of_it() {
    let (dir, store) = fresh();
    store.0.rows.hold();
    let mut log = store.log();
    append(&mut log, [entry(1, 0, b"a"), entry(1, 1, b"b")]).await.expect("durable");
    log.save_committed(Some(log_id(1, 0))).await.expect("noted");
    put(&store, "a", Some("1"));
    store.for_each_row(|_, _| Ok(())).expect("readable");
    log.save_committed(Some(log_id(1, 1))).await.expect("noted");
    put(&store, "a", Some("2"));
    put(&store, "b", Some("2"));
    let left = tempfile::tempdir().expect("a directory");
    copy_files(dir.path(), left.path());
    let left = open(left.path());
    assert_eq!(rows(&left).into_iter().collect::<Vec<_>>(), [(b"a".to_vec(), b"1".to_vec())]);
    assert_eq!(left.log_extent().last, Some(log_id(1, 1)));
    assert_eq!(left.log().read_committed().await.expect("readable"), Some(log_id(1, 1)), "so far it is applied again");
}

#[test]
fn a_power_loss_leaves_rows_that_were_put_together_together() {
    let (dir, copies) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let gate = Gate::default();
    let store = gate.open_store(dir.path(), NODE);
    for round in 0..20_u32 {
        store.put_rows(["a", "b", "c"].map(|key| (key, Some(round.to_string())))).expect("taken");
        if round % 3 == 0 {
            rows(&store);
        }
        if round % 4 == 0 {
            store.0.log.barrier().expect("queued").blocking_recv().expect("answered").expect("synced");
        }
        let left = copies.path().join(round.to_string());
        gate.power_loss(dir.path(), &left);
        let left = rows(&open(&left));
        let values: std::collections::BTreeSet<_> = left.values().collect();
        assert!(values.len() <= 1, "round {round}: {left:?}");
        assert!(left.is_empty() || left.len() == 3, "round {round}: {left:?}");
    }
}

#[test]
fn a_disk_that_hangs_is_waited_for_by_who_reads_rows() {
    let (_dir, store) = fresh();
    let held = Held::up(&store, LIMIT);
    put(&store, "a", Some("1"));
    put(&store, "b", Some("1"));
    assert_eq!(stored(&store, "a"), None);
    held.release();
    assert_eq!(rows(&store).len(), 2);
}
