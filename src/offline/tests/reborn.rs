//! The file that is written once, and the nodes that are created from it.

use super::*;
use crate::offline::restore::Restored;
use crate::offline::seed_file::RebornHeader;

#[tokio::test]
async fn one_node_makes_the_cluster_and_the_others_are_made_from_its_file() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = backup(&dir).await;
    let node = |id: u64| dir.path().join(format!("node-{id}"));
    let Restored { founded: first, reborn, .. } = order(&from, node(1), 1, LIST).run().expect("restored");
    assert_eq!(reborn, dir.path().join("backup.reborn"));
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    let carried = elsewhere.join("as-it-is-called-there");
    fs::copy(&reborn, &carried).expect("copied");
    for id in [2, 3] {
        let made = copied(&carried, node(id), id).run().expect("made");
        assert_eq!((&made.founded, &made.reborn), (&first, &carried));
        assert_eq!((made.origin_cluster_id.as_deref(), made.origin_index), (Some("old"), last_index()));
    }
    assert_eq!(first.index, last_index() + INDEX_LEAP);
    let states = [1, 2, 3].map(|id| {
        let store = Store::open(&node(id), id, LevelRange::OWN, metrics()).expect("a whole directory");
        assert_eq!(store.identity().cluster_id.as_deref(), Some(first.cluster_id.as_str()));
        assert_eq!(store.log_extent().vote, Some(Vote::new(TERM + 1, id)));
        rows(&store)
    });
    assert!(states.iter().all(|state| *state == states[0]));
    let seen = inspect(&node(2)).expect("looked at");
    assert_eq!(
        (seen.kind, seen.node_id, seen.index, seen.term),
        (InspectedKind::Directory, Some(2), last_index() + INDEX_LEAP, TERM + 1)
    );
    assert_eq!((seen.services, seen.config_files, seen.rules), (20, 1, 0));
    assert_eq!((seen.voters, seen.members.get(&3).map(String::as_str)), (vec![1, 2, 3], Some("c:1")));
    assert_eq!((seen.cluster_id, seen.state_hash), (Some(first.cluster_id.clone()), first.state_hash.clone()));
    let log = seen.log.expect("a directory has a log");
    assert_eq!((log.entries, log.purged, log.last), (0, Some(seen.index), Some(seen.index)));
    let file = inspect(&reborn).expect("looked at");
    assert_eq!((file.kind, file.index, file.state_hash), (InspectedKind::Reborn, first.index, first.state_hash));
    assert_eq!(file.file.and_then(|file| file.version).as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&reborn).expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_node_alone_leaves_a_file_only_at_a_chosen_path() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = backup(&dir).await;
    let alone = |name: &str| order(&from, dir.path().join(name), 1, "1=a:1");
    let made = alone("one").run().expect("restored");
    assert!(!made.reborn.exists() && !dir.path().join("backup.reborn").exists(), "{:?}", made.reborn);
    let out = dir.path().join("chosen");
    Restore { reborn_out: Some(out.clone()), ..alone("two") }.run().expect("restored");
    assert_eq!(inspect(&out).expect("looked at").kind, InspectedKind::Reborn);
}

#[tokio::test]
async fn a_second_restore_of_one_backup_is_another_cluster() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = backup(&dir).await;
    let mut seen = BTreeMap::new();
    for number in 0..8 {
        let (out, data) = (dir.path().join(format!("{number}.reborn")), dir.path().join(format!("life-{number}")));
        let restored = Restore { reborn_out: Some(out.clone()), ..order(&from, data.clone(), 1, LIST) }.run();
        let Restored { founded, reborn, .. } = restored.expect("restored");
        assert_eq!(reborn, out);
        let (release_key, notification_id) = held_by_clients(&data);
        assert_eq!(release_key, format!("shop-app-f-{}.{}", 5 + LEAP, &founded.cluster_id[..8]));
        assert!((LEAP as u32..1 << 30).contains(&notification_id), "{notification_id}");
        seen.insert(founded.cluster_id, (founded.state_hash, release_key, notification_id));
    }
    let hashes: BTreeSet<_> = seen.values().map(|(hash, ..)| hash).collect();
    let keys: BTreeSet<_> = seen.values().map(|(_, key, _)| key).collect();
    let ids: BTreeSet<_> = seen.values().map(|(.., id)| id).collect();
    assert_eq!((seen.len(), hashes.len(), keys.len(), ids.len()), (8, 8, 8, 8), "{seen:?}");
}

#[tokio::test]
async fn the_file_for_the_other_nodes_is_not_written_over_and_names_who_may_have_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = backup(&dir).await;
    let (node, out) = (|name: &str| dir.path().join(name), dir.path().join("backup.reborn"));
    let refusal = |order: Restore| {
        let (told, data) = (format!("{:#}", order.run().map(drop).expect_err("refused")), order.data_dir);
        assert!(!data.exists(), "{told}");
        told
    };
    fs::write(&out, "precious").expect("written");
    let told = refusal(order(&from, node("a"), 1, LIST));
    assert!(told.contains(&format!("{} exists", out.display())) && told.contains("--reborn-out"), "{told}");
    assert_eq!(fs::read(&out).expect("readable"), b"precious");
    fs::remove_file(&out).expect("removed");
    let nowhere = Restore { reborn_out: Some(node("none").join("file")), ..order(&from, node("a"), 1, LIST) };
    let told = refusal(nowhere);
    assert!(told.contains("see --reborn-out"), "{told}");
    order(&from, node("a"), 1, LIST).run().expect("restored");
    let before = contents(dir.path());
    let told = refusal(order(&from, node("b"), 2, LIST));
    assert!(told.contains(&format!("made with --from {}", out.display())), "{told}");
    let told = refusal(copied(&out, node("b"), 4));
    assert!(told.contains("does not name node 4, its list is 1=a:1,2=b:1,3=c:1"), "{told}");
    let told = refusal(Restore { from: out.clone(), ..order(&from, node("b"), 2, "1=a:1,2=b:1,3=moved:1") });
    assert!(told.contains("--initial-cluster is 1=a:1,2=b:1,3=moved:1, and the list in"), "{told}");
    let told = refusal(Restore { reborn_out: Some(node("c")), ..copied(&out, node("b"), 2) });
    assert!(told.contains("is for a backup"), "{told}");
    assert_eq!(contents(dir.path()), before, "nothing was made");
    Restore { from: out, ..order(&from, node("b"), 2, LIST) }.run().expect("the same list may be given");
}

/// Every kind of invalid file for the other nodes is refused.
#[tokio::test]
async fn a_damaged_file_for_the_other_nodes_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = backup(&dir).await;
    let reborn = order(&from, dir.path().join("node-1"), 1, LIST).run().expect("restored").reborn;
    let good = fs::read(&reborn).expect("readable");
    let (bad, data) = (dir.path().join("bad"), dir.path().join("node-2"));
    let expect_refused = |bytes: &[u8], words: &str, shown: &str| {
        fs::write(&bad, bytes).expect("written");
        let told = format!("{:#}", copied(&bad, data.clone(), 2).run().map(drop).expect_err(shown));
        assert!(told.contains(words), "{shown}: {told}");
        assert!(!data.exists(), "{shown}");
    };
    for at in (0..good.len()).step_by(good.len() / 60 + 1).chain([good.len() - 1]) {
        let mut flipped = good.clone();
        flipped[at] ^= 0x40;
        expect_refused(&flipped, "", &format!("flipped at {at}"));
        expect_refused(&good[..at], "", &format!("cut off at {at}"));
    }
    let level = [&good[..8], &200_u32.to_be_bytes(), &good[12..]].concat();
    expect_refused(&level, "holds data of level 200", "another level");
    // Neither of them is taken for the other.
    let as_backup = [&b"THUBSNAP"[..], &good[8..]].concat();
    expect_refused(&as_backup, "--initial-cluster has to name", "a backup needs a list");
    fs::write(&bad, &as_backup).expect("written");
    let told = format!("{:#}", order(&bad, data.clone(), 2, LIST).run().map(drop).expect_err("no backup"));
    assert!(told.contains("checksum"), "{told}");
    let backup = [&b"THUBBORN"[..], &fs::read(&from).expect("readable")[8..]].concat();
    expect_refused(&backup, "checksum", "a backup under the other magic");
    let contents = crate::store::read_file(&reborn, |_, _| Ok(())).expect("whole");
    let mut header: RebornHeader = codec::from_bytes(&contents.header).expect("a header");
    header.state.version = "9.9.9".into();
    let mut other = Vec::new();
    let rows = |sink: &mut RowSink<'_>| crate::store::read_file(&reborn, sink).map(drop);
    write_file(&mut other, FileKind::Reborn, contents.level, codec::to_bytes(&header), rows).expect("written");
    expect_refused(&other, "was made by thuban 9.9.9", "of another version");
    copied(&reborn, data.clone(), 2).run().expect("the whole one is taken");
}

/// The numbers that clients know are derived from the index: a series of restores ends with an error.
#[tokio::test]
async fn an_index_at_its_limit_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("origin");
    directory(&data, 0).await;
    let store = open(&data);
    let from = dir.path().join("backup");
    let with_index = |index: u64| {
        let progress = Progress { last_applied: Some(log_id(TERM, index)), ..progress(&store) };
        let header = StateHeader {
            last_log_id: progress.last_applied,
            format: Level::FIRST.digest().to_owned(),
            ..StateHeader::default()
        };
        let mut good = rows(&store);
        good.insert(PROGRESS_KEY.to_vec(), codec::to_bytes(&progress));
        let sink = fs::File::create(&from).expect("a file");
        write_file(sink, FileKind::State, Level::FIRST, codec::to_bytes(&header), |sink| {
            good.iter().try_for_each(|(key, value)| sink(key, value))
        })
        .expect("written");
        let data = dir.path().join(format!("at-{index}"));
        Restore { reborn_out: Some(dir.path().join(format!("{index}.reborn"))), ..order(&from, data, 1, LIST) }.run()
    };
    let last = (1_u64 << 43) - 2 * INDEX_LEAP;
    assert_eq!(with_index(last).expect("there is room").founded.index, last + INDEX_LEAP);
    for index in [last + 1, 1 << 43, u64::MAX - 5, u64::MAX] {
        let told = format!("{:#}", with_index(index).map(drop).expect_err("no room"));
        assert!(told.contains("the log index is too high") && told.contains("2^53"), "{index}: {told}");
    }
}
