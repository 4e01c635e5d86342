//! Ownership of the directory, and rows.

use std::fs;

use crate::format::level::{Level, LevelRange};
use crate::store::testing::{NODE, fresh, metrics, open, rows};
use crate::store::{Store, StoreError};

#[test]
fn a_fresh_directory_gets_an_identity_that_lasts() {
    let (dir, store) = fresh();
    let identity = store.identity();
    assert_eq!((identity.level, identity.node_id, identity.cluster_id.clone()), (Level::FIRST, NODE, None));
    assert_eq!(identity.instance.len(), 32);
    store.set_cluster_id("c1").expect("no cluster yet");
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.identity().instance, identity.instance);
    assert_eq!(store.identity().cluster_id.as_deref(), Some("c1"));
}

#[test]
fn a_directory_serves_one_process_one_node_and_one_cluster() {
    let (dir, store) = fresh();
    let refusal = |node_id| Store::open(dir.path(), node_id, LevelRange::OWN, metrics()).err().expect("refused");
    assert!(matches!(refusal(NODE), StoreError::InUse { .. }));
    store.set_cluster_id("c1").expect("no cluster yet");
    store.set_cluster_id("c1").expect("the same cluster");
    let refused = store.set_cluster_id("c2").expect_err("another cluster");
    assert!(refused.to_string().contains("member of cluster c1, not of c2"), "{refused}");
    drop(store);
    let refused = refusal(7).to_string();
    assert!(refused.contains("directory of node 1, this is node 7"), "{refused}");
    assert!(refused.contains(dir.path().to_str().expect("a UTF-8 path")), "{refused}");
}

#[test]
fn a_directory_of_which_a_part_was_removed_is_refused() {
    type Removal = fn(&std::path::Path);
    let cases: [(&str, Removal); 4] = [
        ("no identity.json", |dir| fs::remove_file(dir.join("identity.json")).expect("remove")),
        ("no database", |dir| fs::remove_dir_all(dir.join("db")).expect("remove")),
        ("cannot be read as an identity", |dir| fs::write(dir.join("identity.json"), "{").expect("write")),
        ("holds data of level 200, this node reads levels 1 to", |dir| {
            fs::write(dir.join("identity.json"), r#"{"format_version":200,"format":"f"}"#).expect("write")
        }),
    ];
    for (words, remove) in cases {
        let (dir, store) = fresh();
        store.put_rows([("k", Some("v"))]).expect("written");
        drop(store);
        remove(dir.path());
        let refused = Store::open(dir.path(), NODE, LevelRange::OWN, metrics()).err().expect("refused").to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

/// A crash between creating the database and naming the identity leaves `identity.new`.
#[test]
fn an_interrupted_first_start_begins_again() {
    let (dir, store) = fresh();
    drop(store);
    let (identity, staged) = (dir.path().join("identity.json"), dir.path().join("identity.new"));
    fs::rename(&identity, &staged).expect("rename");
    let store = open(dir.path());
    assert!(store.is_fresh().expect("readable"));
    store.put_rows([("k", Some("v"))]).expect("written");
    drop(store);
    // The same files with a database that has content are no first start.
    fs::rename(&identity, &staged).expect("rename");
    let refused = Store::open(dir.path(), NODE, LevelRange::OWN, metrics()).err().expect("refused");
    assert!(matches!(refused, StoreError::IdentityMissing { .. }), "{refused}");
}

#[test]
fn rows_are_written_together_and_visited_in_key_order() {
    let (dir, store) = fresh();
    assert!(store.is_fresh().expect("readable"));
    store.put_rows([("b", Some("2")), ("a", Some("1")), ("c", Some("3"))]).expect("written");
    let before = store.view().expect("readable");
    store.put_rows([("b", None), ("d", Some("4"))]).expect("written");
    let mut seen = Vec::new();
    let collect = |key: &[u8], _: &[u8]| {
        seen.push(key.to_vec());
        Ok(())
    };
    before.for_each_row(collect).expect("readable");
    assert_eq!(seen, [b"a", b"b", b"c"]);
    assert_eq!(before.get_row(b"b").expect("readable"), Some(b"2".to_vec()));
    assert_eq!(store.get_row(b"b").expect("readable"), None);
    drop(before);
    drop(store);
    let store = open(dir.path());
    assert!(!store.is_fresh().expect("readable"));
    let keys: Vec<_> = rows(&store).into_keys().collect();
    assert_eq!(keys, [b"a", b"c", b"d"]);
}

#[tokio::test]
async fn sizes_and_writability_are_reported() {
    let (_dir, store) = fresh();
    store.put_rows([(vec![1], Some(vec![0; 100_000]))]).expect("taken");
    assert_eq!(rows(&store).len(), 1);
    store.check_writable().await.expect("a healthy disk");
    let state = store.sizes().into_iter().find(|size| size.family == "state").expect("a row per family");
    assert!(state.memtable_bytes > 100_000 && state.keys_estimate == 1, "{state:?}");
    store.record_sizes();
    assert_eq!(store.0.metrics.rocksdb_keys.with_label_values(&["state"]).get(), 1);
}

#[cfg(feature = "next-level")]
#[tokio::test]
async fn a_directory_says_what_it_holds_before_it_holds_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let two = LevelRange { min: Level::FIRST, max: Level(2) };
    let store = Store::open(dir.path(), NODE, two, metrics()).expect("opened");
    let first = crate::store::testing::entry(1, 0, b"x");
    crate::store::testing::append(&mut store.log(), [first]).await.expect("appended");
    assert_eq!(store.identity().level, Level::FIRST);
    let mut second = crate::store::testing::entry(1, 1, b"");
    second.payload = openraft::EntryPayload::Normal(crate::format::types::Proposal(vec![2, b'y'].into()));
    crate::store::testing::append(&mut store.log(), [second.clone()]).await.expect("appended");
    assert_eq!(store.identity().level, Level(2));
    drop(store);
    let held_back = LevelRange::OWN.up_to(Level::FIRST);
    let refused = Store::open(dir.path(), NODE, held_back, metrics()).err().expect("refused");
    assert!(matches!(refused, StoreError::OtherLevel { found: 2, .. }), "{refused}");

    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(dir.path(), NODE, held_back, metrics()).expect("opened");
    second.log_id.index = 0;
    let refused =
        crate::store::testing::append(&mut store.log(), [second]).await.expect_err("above what the node is held to");
    assert!(refused.to_string().contains("level 2, this node reads levels 1 to 1"), "{refused}");
    assert!(store.is_fresh().expect("readable"), "nothing was written");
}
