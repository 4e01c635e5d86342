//! Recovery of the remaining node.

use super::*;
use crate::offline::recover::{Recover, Survivor};

fn version_of_the_file(dir: &Path) -> u64 {
    let machine = Machine::load(open(dir), Hub::new(0), metrics()).expect("a state");
    let catalog = machine.state().catalog();
    catalog.configs.highest_version(&ConfigKey::new("shop", "app", "f"))
}

fn expect_alone(seen: &Inspection, unapplied: usize) {
    assert_eq!((&seen.voters, seen.members.len()), (&vec![1], 1), "{unapplied}");
    assert_eq!((seen.services, seen.config_files), (20, 1), "{unapplied}");
    assert_eq!((seen.index, seen.term), (last_index() + INDEX_LEAP, TERM + 1), "{unapplied}");
    assert_ne!(seen.cluster_id.as_deref(), Some("old"), "{unapplied}");
}

fn recovery(dir: &Path, node_id: u64, list: &str) -> Recover {
    let initial_cluster = match list {
        "" => BTreeMap::new(),
        list => order(dir, dir.to_owned(), node_id, list).initial_cluster.expect("a list"),
    };
    Recover { data_dir: dir.to_owned(), node_id, initial_cluster, reborn_out: None }
}

fn survivor(dir: &Path) -> Survivor {
    Survivor::open(&recovery(dir, 1, "")).expect("a survivor")
}

#[tokio::test]
async fn the_node_that_is_left_takes_all_it_has_for_done() {
    for unapplied in [0, 1, 12, history().len() - 3] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("node");
        directory(&data, unapplied).await;
        let survivor_1 = survivor(&data);
        let findings = survivor_1.findings().clone();
        assert_eq!((findings.last, findings.applied), (last_index(), last_index() - unapplied as u64));
        assert_eq!((findings.members.len(), findings.is_alone(), survivor_1.is_done()), (3, false, false));
        let founded = survivor_1.go_on().expect("alone");
        let seen = inspect(&data).expect("looked at");
        expect_alone(&seen, unapplied);
        assert_eq!((seen.cluster_id.as_ref(), &seen.state_hash), (Some(&founded.cluster_id), &founded.state_hash));
        assert!(!dir.path().join("node.reborn").exists(), "a node alone leaves no file for others");
        let (release_key, notification_id) = held_by_clients(&data);
        assert_eq!(release_key, format!("shop-app-f-{}.{}", 5 + LEAP, &founded.cluster_id[..8]), "{unapplied}");
        assert!(notification_id >= 5 + LEAP as u32, "{unapplied}: {notification_id}");
        assert!(survivor(&data).findings().is_alone(), "{unapplied}");
    }
}

/// Each of two remaining nodes could be recovered: then these are two clusters without anything in common.
#[tokio::test]
async fn two_recoveries_have_nothing_in_common() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let held = |name: &str| {
        let data = dir.path().join(name);
        async move {
            directory(&data, 0).await;
            (survivor(&data).go_on().expect("alone").cluster_id, held_by_clients(&data))
        }
    };
    let ((first, (key, id)), (second, (other_key, other_id))) = (held("one").await, held("two").await);
    assert!(first != second && key != other_key && id != other_id, "{key} {id}, {other_key} {other_id}");
}

#[tokio::test]
async fn the_others_of_a_list_are_made_from_what_the_survivor_leaves() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let node = |id: u64| dir.path().join(format!("node-{id}"));
    directory(&node(1), 3).await;
    let instance = open(&node(1)).identity().instance;
    let again = || Survivor::open(&recovery(&node(1), 1, "1=a:2,2=b:2,4=d:2")).expect("a survivor");
    let founded = again().go_on().expect("a new cluster");
    let reborn = dir.path().join("node-1.reborn");
    for id in [2, 4] {
        assert_eq!(copied(&reborn, node(id), id).run().expect("made").founded, founded);
    }
    let states = [1, 2, 4].map(|id| {
        let store = Store::open(&node(id), id, LevelRange::OWN, metrics()).expect("a whole directory");
        assert_eq!(store.log_extent().vote, Some(Vote::new(TERM + 1, id)));
        rows(&store)
    });
    assert!(states[1] == states[0] && states[2] == states[0]);
    let machine = Machine::load(open(&node(1)), Hub::new(0), metrics()).expect("a state");
    assert!(machine.state().catalog().nodes.get(2).is_none(), "a new node under an id of before");
    drop(machine);
    assert_eq!(open(&node(1)).identity().instance, instance);
    for (id, words) in [(1, "goes on in its own directory"), (3, "does not name node 3")] {
        let told = format!("{:#}", copied(&reborn, node(9), id).run().map(drop).expect_err("refused"));
        assert!(told.contains(words), "{told}");
    }
    assert!(again().is_done() && survivor(&node(1)).is_done(), "there is nothing left to be done");
    let other = Recover { reborn_out: Some(dir.path().join("later")), ..recovery(&node(1), 1, "") };
    assert!(!Survivor::open(&other).expect("a survivor").is_done(), "if those are lost too");
}

/// A crash after any of the steps: the directory serves no clients, and the next run gives the same result.
#[tokio::test]
async fn a_recovery_that_was_interrupted_is_repeated() {
    for steps in 1..=2 {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("node");
        directory(&data, 12).await;
        let store = open(&data);
        store.retie("an attempt").expect("tied");
        if steps == 2 {
            let machine = Machine::load(store.clone(), Hub::new(0), metrics()).expect("a state");
            let tail = store.entries_from(machine.progress().index() + 1, usize::MAX).expect("a tail");
            machine.replay(&tail).expect("applied");
        }
        drop(store);
        fs::write(dir.path().join("node.reborn.part"), "the beginning of a file").expect("written");
        survivor(&data).go_on().expect("alone");
        expect_alone(&inspect(&data).expect("looked at"), steps);
        assert_eq!(version_of_the_file(&data), 5 + LEAP);
    }
}

/// The file may have been copied already.
#[tokio::test]
async fn a_recovery_that_left_its_file_ends_with_that_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (data, reborn) = (dir.path().join("node"), dir.path().join("node.reborn"));
    directory(&data, 12).await;
    // The state before the last step.
    let before = contents(&data);
    let chosen = || {
        let order = Recover { reborn_out: Some(reborn.clone()), ..recovery(&data, 1, "") };
        Survivor::open(&order).expect("a survivor")
    };
    let founded = chosen().go_on().expect("alone");
    fs::remove_dir_all(&data).expect("removed");
    for (path, content) in &before {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, content).expect("put back");
    }
    let refusal = |list: &str| match Survivor::open(&recovery(&data, 1, list)) {
        Ok(_) => panic!("it is refused"),
        Err(error) => format!("{error:#}"),
    };
    assert!(refusal("").contains("it is of another cluster"), "the directory is not tied to it");
    open(&data).retie(&founded.cluster_id).expect("tied");
    assert!(refusal("1=a:1,2=b:1").contains("was made for the members 1=n1:8190"), "another list");
    let whole = fs::read(&reborn).expect("readable");
    assert_eq!(chosen().go_on().expect("alone"), founded);
    assert_eq!(fs::read(&reborn).expect("readable"), whole);
    expect_alone(&inspect(&data).expect("looked at"), 12);
}

#[tokio::test]
async fn what_is_no_node_of_the_cluster_cannot_go_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let refusal =
        |path: &Path, id: u64| format!("{:#}", Survivor::open(&recovery(path, id, "")).map(drop).expect_err("refused"));
    assert!(refusal(dir.path(), 1).contains("no identity.json"));
    assert!(refusal(&dir.path().join("none"), 1).contains("no identity.json"));
    assert!(!dir.path().join("none").exists() && contents(dir.path()).is_empty(), "nothing is made by looking");
    let data = dir.path().join("node");
    directory(&data, 0).await;
    assert!(refusal(&data, 2).contains("is the directory of node 1"));
    let fresh = dir.path().join("fresh");
    drop(open(&fresh));
    assert!(refusal(&fresh, 1).contains("the state of no cluster"));
    let kept = dir.path().join("node.reborn");
    fs::write(&kept, "of somebody").expect("written");
    assert!(refusal(&data, 1).contains("node.reborn exists"));
    fs::remove_file(&kept).expect("removed");
    // If the file cannot be created, nothing is changed.
    let before = open(&data).identity();
    let nowhere = Recover { reborn_out: Some(dir.path().join("none/file")), ..recovery(&data, 1, "") };
    let told = format!("{:#}", Survivor::open(&nowhere).expect("a survivor").go_on().expect_err("no folder"));
    assert!(told.contains("see --reborn-out"), "{told}");
    let store = open(&data);
    assert_eq!(store.identity(), before);
    assert!(refusal(&data, 1).contains("in use"));
    drop(store);
}
