//! Operations on constructed directories and files: results and refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use openraft::{EntryPayload, Membership};
use tempfile::TempDir;

use super::inspect::{InspectedKind, Inspection, inspect};
use super::restore::Restore;
use crate::catalog::nodes::NodeRecord;
use crate::catalog::rekey::{INDEX_LEAP, LEAP};
use crate::catalog::{Command, Op, RequestId};
use crate::format::codec;
use crate::format::header::StateHeader;
use crate::format::level::{Level, LevelRange};
use crate::format::types::{Entry, Member, Proposal, Vote};
use crate::model::access::{Founder, PasswordHash, TokenHash};
use crate::model::config_file::{ConfigFileDraft, ConfigKey, ConfigPublish, ConfigReleaseDraft};
use crate::model::config_lookup::ClientLabels;
use crate::model::service::ServiceDraft;
use crate::model::time::Timestamp;
use crate::raft::machine::Machine;
use crate::raft::progress::{PROGRESS_KEY, Progress};
use crate::raft::proposal::{Draft, stamp};
use crate::store::testing::{append, log_id, metrics, open, rows};
use crate::store::{FileKind, RowSink, Store, StoreError, write_file};
use crate::watch::Hub;

mod reborn;
mod recovering;

const TERM: u64 = 3;

type Payload = EntryPayload<Proposal, u64, Member>;

/// Returns commands of a cluster of three, in order; the request id of each is its index.
fn history() -> Vec<Payload> {
    let members = [1, 2, 3].map(|id| (id, Member { peer: format!("n{id}:8190") }));
    let members = Membership::new(vec![[1, 2, 3].into()], BTreeMap::from(members)).expect("voters are members");
    let admin = Founder::administrator("u1", "h", Timestamp(0));
    let mut commands = vec![
        Command::Bootstrap { cluster_id: "old".into(), admin, level: Level::FIRST },
        Command::Announce(NodeRecord::new(2, "i2".into(), "a:1".into(), "c:1".into())),
        Command::SignIn {
            hash: TokenHash("t".into()),
            user_id: "u1".into(),
            password: PasswordHash::default(),
            from: Default::default(),
        },
    ];
    commands.extend((0..20).map(|number| service(&format!("s{number}"))));
    commands.extend((0..5).map(|number| publish(&format!("v={number}"))));
    let normal = (1..).zip(commands).map(|(number, command)| proposal(number, &command));
    [EntryPayload::Membership(members), EntryPayload::Blank].into_iter().chain(normal).collect()
}

fn proposal(number: u64, command: &Command) -> Payload {
    let draft = Draft::new(RequestId(number.into()), "tester", command);
    EntryPayload::Normal(stamp(Timestamp(1_000_000 + number), 0, [7; 16], &draft))
}

fn service(name: &str) -> Command {
    let draft = ServiceDraft { namespace: Some("shop".into()), name: Some(name.into()), ..ServiceDraft::default() };
    Command::Services(Op::Create, vec![draft])
}

fn publish(content: &str) -> Command {
    let (namespace, group, name) = ("shop".to_owned(), "app".to_owned(), "f".to_owned());
    let file = ConfigFileDraft {
        namespace: namespace.clone(),
        group: group.clone(),
        name: name.clone(),
        content: Some(content.into()),
        ..ConfigFileDraft::default()
    };
    let release = ConfigReleaseDraft { namespace, group, file_name: name, ..ConfigReleaseDraft::default() };
    Command::ConfigCreateAndPublish(vec![ConfigPublish { file, release, md5: None }])
}

/// Creates a directory of node 1 with this history in its log, applied except for the last `unapplied` entries.
async fn directory(dir: &Path, unapplied: usize) {
    let store = open(dir);
    let entries: Vec<Entry> =
        (0..).zip(history()).map(|(index, payload)| Entry { log_id: log_id(TERM, index), payload }).collect();
    append(&mut store.log(), entries.clone()).await.expect("appended");
    let machine = Machine::load(store.clone(), Hub::new(0), metrics()).expect("an empty state");
    machine.replay(&entries[..entries.len() - unapplied]).expect("applied");
    store.set_cluster_id("old").expect("tied");
    store.close().expect("synced");
}

/// Writes the same directory as a backup file.
async fn backup(dir: &TempDir) -> PathBuf {
    let data = dir.path().join("origin");
    directory(&data, 0).await;
    let store = open(&data);
    let progress = progress(&store);
    let header = StateHeader {
        last_log_id: progress.last_applied,
        last_membership: progress.membership,
        cluster_id: Some("old".into()),
        format: Level::FIRST.digest().to_owned(),
        ..StateHeader::default()
    };
    let path = dir.path().join("backup");
    let mut file = fs::File::create(&path).expect("a file");
    store.write_view(&store.view().expect("readable"), codec::to_bytes(&header), &mut file).expect("written");
    path
}

/// Seeds of the fuzz target `archive`, which are rewritten with the golden bytes (`catalog::tests::golden`).
#[tokio::test]
async fn a_backup_is_taken_by_the_archive_target() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = fs::read(backup(&dir).await).expect("a file");
    let stamped = |mode: u8, bytes: &[u8]| [&[mode], bytes].concat();
    let (body, mut damaged) = (&file[..file.len() - 32], file.clone());
    *damaged.last_mut().expect("a checksum") ^= 1;
    let seeds = [
        ("level-1", stamped(b's', body)),
        ("whole", stamped(b'r', &file)),
        ("refused-checksum", stamped(b'r', &damaged)),
        ("refused-half", stamped(b's', &body[..body.len() / 2])),
    ];
    for (name, seed) in seeds {
        if std::env::var_os("THUBAN_WRITE_GOLDEN").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/archive").join(name);
            fs::write(path, &seed).expect("the seed can be written");
        }
        assert_eq!(crate::offline::fuzzing::read_archive(&seed), !name.starts_with("refused"), "{name}");
    }
}

fn progress(store: &Store) -> Progress {
    Progress::read(store.get_row(PROGRESS_KEY).expect("readable")).expect("progress")
}

fn order(from: &Path, data_dir: PathBuf, node_id: u64, list: &str) -> Restore {
    let member = |part: &str| part.split_once('=').map(|(id, peer)| (id.parse().expect("a number"), peer.to_owned()));
    let initial_cluster = Some(list.split(',').filter_map(member).collect());
    Restore { from: from.to_owned(), data_dir, node_id, initial_cluster, reborn_out: None }
}

/// Returns the arguments for another node, from the file that was left for it.
fn copied(reborn: &Path, data_dir: PathBuf, node_id: u64) -> Restore {
    Restore { from: reborn.to_owned(), data_dir, node_id, initial_cluster: None, reborn_out: None }
}

const LIST: &str = "1=a:1,2=b:1,3=c:1";

fn last_index() -> u64 {
    history().len() as u64 - 1
}

/// Returns what a client may have from a directory: the key of the release in force and the notification id of its
/// file.
fn held_by_clients(dir: &Path) -> (String, u32) {
    let machine = Machine::load(open(dir), Hub::new(0), metrics()).expect("a state");
    let catalog = machine.state().catalog();
    let found = catalog.configs.find("shop", "app", "f", &ClientLabels::default()).expect("in force");
    (found.release_key.clone(), catalog.configs.notification_id("shop", "app", "f").expect("an id"))
}

/// Returns every file below with its content; a refused command must leave them unchanged.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: PathBuf| (path.clone(), fs::read(&path).expect("readable"));
    crate::store::testing::files_below(dir).into_iter().map(read).collect()
}

#[tokio::test]
async fn a_directory_that_holds_something_is_not_touched() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = backup(&dir).await;
    let data = dir.path().join("node-1");
    fs::create_dir(&data).expect("made");
    fs::create_dir(data.join("lost+found")).expect("made");
    let made = order(&from, data.clone(), 1, LIST).run().expect("a volume of its own is empty");
    let restore = || copied(&made.reborn, data.clone(), 1).run();
    let another = Restore { reborn_out: Some(dir.path().join("another")), ..order(&from, data.clone(), 1, LIST) };
    let before = contents(&data);
    for again in [restore(), another.run()] {
        let refusal = again.expect_err("it is there already").to_string();
        assert!(refusal.contains("already holds something"), "{refusal}");
        assert_eq!(contents(&data), before);
    }
    assert!(!dir.path().join("another").exists() && !dir.path().join("another.part").exists());
    let store = open(&data);
    let refusal = inspect(&data).expect_err("in use").to_string();
    assert!(refusal.contains("in use by another process"), "{refusal}");
    drop(store);
    // An interrupted restore: no node starts there, and the next restore begins again.
    fs::create_dir(data.join("restoring")).expect("made");
    fs::remove_file(data.join("identity.json")).expect("removed");
    let refusal = Store::open(&data, 1, LevelRange::OWN, metrics()).map(drop).expect_err("half made");
    assert!(matches!(refusal, StoreError::HalfRestored { .. }), "{refusal}");
    assert_eq!(restore().expect("from the beginning").founded, made.founded);
    drop(open(&data));
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).expect("made");
    fs::write(foreign.join("precious"), "kept").expect("written");
    assert!(copied(&made.reborn, foreign.clone(), 1).run().is_err());
    assert_eq!(contents(&foreign), BTreeMap::from([(foreign.join("precious"), b"kept".to_vec())]));
}

/// Every kind of invalid file is refused without a panic.
#[tokio::test]
async fn files_that_are_torn_foreign_newer_or_too_large_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let good = fs::read(backup(&dir).await).expect("readable");
    let with = |at: usize, bytes: &[u8]| [&good[..at], bytes, &good[at + bytes.len()..]].concat();
    let header_bytes = u32::from_be_bytes(good[12..16].try_into().expect("four bytes")) as usize;
    let first_row = 16 + header_bytes;
    let mut cases = vec![
        ("another program's file", "is not a snapshot or backup", b"PK\x03\x04 a file of another program".to_vec()),
        ("level 200", "level 200", with(8, &200_u32.to_be_bytes())),
        ("level 2^32-1", "level 4294967295", with(8, &u32::MAX.to_be_bytes())),
        ("a header of 4 GiB", "impossible length", with(12, &u32::MAX.to_be_bytes())),
        ("a key of 3 GiB", "impossible length", with(first_row, &0xbfff_ffff_u32.to_be_bytes())),
        ("a value of 4 GiB", "impossible length", with(first_row + 4, &u32::MAX.to_be_bytes())),
        ("an early end", "", with(first_row, &u32::MAX.to_be_bytes())),
        ("trailing bytes", "goes on after its end", [&good[..], b"x"].concat()),
        ("twice the same", "goes on after its end", [&good[..], &good[..]].concat()),
    ];
    let everywhere =
        (0..64.min(good.len())).chain((64..good.len()).step_by(good.len() / 40 + 1)).chain([good.len() - 1]);
    for at in everywhere {
        cases.push(("truncated", "", good[..at].to_vec()));
        cases.push(("flipped", "", with(at, &[good[at] ^ 0x40])));
    }
    let (from, data) = (dir.path().join("bad"), dir.path().join("node"));
    for (what, words, bytes) in cases {
        fs::write(&from, &bytes).expect("written");
        let shown = format!("{what}, {} bytes", bytes.len());
        for refusal in [order(&from, data.clone(), 1, LIST).run().map(drop), inspect(&from).map(drop)] {
            let text = format!("{:#}", refusal.expect_err(&shown));
            assert!(text.contains(words) && !text.is_empty(), "{shown}: {text}");
        }
        assert!(!data.exists() && !dir.path().join("bad.reborn").exists(), "{shown}");
    }
}

/// Complete files whose contents no node could use.
#[tokio::test]
async fn files_whose_content_makes_no_sense_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = backup(&dir).await;
    let store = open(&dir.path().join("origin"));
    let good = rows(&store);
    let meta = codec::to_bytes(&StateHeader {
        last_log_id: progress(&store).last_applied,
        format: Level::FIRST.digest().to_owned(),
        ..StateHeader::default()
    });
    let write = |header: &[u8], rows: BTreeMap<Vec<u8>, Vec<u8>>| {
        let file = store
            .stage(Level::FIRST, header.to_vec(), |sink| rows.iter().try_for_each(|(key, value)| sink(key, value)));
        fs::copy(file.expect("staged").path(), &from).expect("copied");
    };
    let but = |key: &[u8], value: Option<&[u8]>| {
        let mut rows = good.clone();
        match value {
            Some(value) => drop(rows.insert(key.to_vec(), value.to_vec())),
            None => drop(rows.remove(key)),
        }
        rows
    };
    let cases = [
        ("a table of a later version", but(&[200, 1], Some(b"?")), "belongs to no table"),
        ("an unreadable row", but(&[7, b'x'], Some(&[1, 0xc1])), "a row of table Service"),
        ("a row of another version", but(&[7, b'x'], Some(&[9])), "has version 9"),
        ("no cluster", but(&[1], None), "the state of no cluster"),
        ("no progress", but(PROGRESS_KEY, None), "different states"),
        ("an unreadable progress", but(PROGRESS_KEY, Some(b"?")), ""),
    ];
    let mut number = 0;
    let mut restore = || {
        number += 1;
        let data = dir.path().join(format!("node-{number}"));
        (order(&from, data.clone(), 1, LIST).run(), data)
    };
    for (what, rows, words) in cases {
        write(&meta, rows);
        let (outcome, data) = restore();
        let text = format!("{:#}", outcome.map(drop).expect_err(what));
        assert!(text.contains(words), "{what}: {text}");
        let half_made = data.exists().then(|| Store::open(&data, 1, LevelRange::OWN, metrics()).map(drop));
        assert!(matches!(half_made, None | Some(Err(StoreError::HalfRestored { .. }))), "{what}: {half_made:?}");
    }
    write(b"no header", good.clone());
    assert!(restore().0.is_err());
    let other_formats = StateHeader { last_log_id: progress(&store).last_applied, ..StateHeader::default() };
    write(&codec::to_bytes(&other_formats), good.clone());
    let refused = restore().0.expect_err("of a build with other formats").to_string();
    assert!(refused.contains("unreleased build"), "{refused}");
    write(&meta, good.clone());
    assert!(!dir.path().join("backup.reborn").exists(), "nothing is left for other nodes");
    assert_eq!(restore().0.expect("restored").founded.index, last_index() + INDEX_LEAP);
}
