//! A disk that another program fills at once, and again whenever space becomes free: no node ends, no acknowledged
//! write is lost, and writes resume by themselves once there is space.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Api, Cluster, Done, SmallDisk, eventually, report, run};

const LIMIT: Duration = Duration::from_secs(60);
const DONE: u64 = 200_000;
const NO_ROOM: u64 = 507_001;
const DISK_MEBIBYTES: u32 = 96;
const CONTENT_CHARS: usize = 300_000;
/// Writes before the disk is filled, and the most until one is refused.
const WRITES_BEFORE: usize = 5;
const WRITES_MAX: usize = 300;

/// Nodes on disks of their own.
async fn cluster_on_small_disks(size: u64) -> (Cluster, BTreeMap<u64, SmallDisk>) {
    let mut cluster = Cluster::prepare(size, &[]);
    let disks: BTreeMap<u64, SmallDisk> = (1..=size).map(|id| (id, SmallDisk::mount(DISK_MEBIBYTES))).collect();
    for (id, disk) in &disks {
        symlink(disk.path(), cluster.data(*id)).expect("a link can be made");
    }
    cluster.restart_all().await;
    cluster.log_in_again().await;
    (cluster, disks)
}

/// Publishes the next file; returns the code of the answer.
async fn publish(api: &Api, number: usize) -> u64 {
    let content = format!("v={number}\npad={}", "x".repeat(CONTENT_CHARS));
    let file = json!({
        "namespace": "default", "group": "app", "file_name": format!("f{number}"), "content": content,
        "format": "properties",
    });
    api.post("/config/v1/configfiles/createandpub", &file).await.code()
}

async fn outlives_full_disks(size: u64, choose: impl Fn(u64, &[u64]) -> Vec<u64>) {
    let (mut cluster, disks) = cluster_on_small_disks(size).await;
    let full = choose(cluster.leader().await, &cluster.followers().await);
    for id in &full {
        let ballast = cluster.data(*id).join("ballast");
        eventually(LIMIT, "the ballast is allocated", || async { blocks_of(&ballast) }).await;
    }
    let (mut done, mut next) = (Vec::new(), 0);
    for _ in 0..WRITES_BEFORE {
        let api = cluster.api(cluster.leader().await);
        assert_eq!(publish(&api, next).await, DONE);
        done.push(next);
        next += 1;
    }
    let processes: Vec<u32> = cluster.ids().iter().map(|id| cluster.process(*id).pid).collect();
    let fillers: Vec<_> = full.iter().map(|id| disks[id].fill()).collect();
    let mut codes = BTreeMap::<u64, usize>::new();
    // The nodes take turns: some answer only what they cannot know.
    while codes.get(&NO_ROOM).is_none_or(|refused| *refused < 3) {
        let ids = cluster.ids();
        let code = publish(&cluster.api(ids[next % ids.len()]), next).await;
        *codes.entry(code).or_default() += 1;
        if code == DONE {
            done.push(next);
        }
        next += 1;
        assert!(next < WRITES_MAX, "nothing is refused: {codes:?}");
    }
    report(format!("{} of {size} disks were filled; the answers to writes: {codes:?}", full.len()));
    for id in &full {
        let api = cluster.api(*id);
        let words = format!("node {id} has ");
        eventually(LIMIT, "the alarm is shown", || async {
            let view = api.cluster().await?;
            let shown = view.body["alarms"].to_string();
            if shown.contains(&words) { Ok(()) } else { Err(shown) }
        })
        .await;
        let (status, _) = api.health("/livez").await.expect("an answer");
        assert_eq!(status, 200);
        let read = cluster.apollo(*id).config("app", "default", "f0").await;
        assert_eq!(read["configurations"]["v"], "0", "node {id} serves what it has");
        api.post("/admin/v1/cluster/snapshot", &json!({})).await.expect_code(NO_ROOM);
        // Nor is it backed up while rows wait to be written, or while it does not follow.
        let made = back_up(&cluster, *id, &cluster.file(&format!("early-{id}"))).await;
        let is_refused = ["(507001)", "(503001)"].iter().any(|code| made.error.contains(code));
        assert!(made.code == 0 || is_refused, "{}", made.error);
    }

    drop(fillers);
    let last = next;
    eventually(LIMIT, "writes go on by themselves", || async {
        match publish(&cluster.api(cluster.leader().await), last).await {
            DONE => Ok(()),
            code => Err(code.to_string()),
        }
    })
    .await;
    done.push(last);
    for id in &full {
        let ballast = cluster.data(*id).join("ballast");
        eventually(LIMIT, "there is ballast again", || async { blocks_of(&ballast) }).await;
        expect_backups(&cluster, *id).await;
    }
    let same: Vec<u32> = cluster.ids().iter().map(|id| cluster.process(*id).pid).collect();
    assert_eq!(same, processes, "no node was started again");
    cluster.expect_equal_state().await;
    expect_all(&cluster, &done).await;

    // Nor is anything lost on disk.
    cluster.kill_all().await;
    cluster.restart_all().await;
    cluster.expect_equal_state().await;
    expect_all(&cluster, &done).await;
}

async fn back_up(cluster: &Cluster, id: u64, to: &Path) -> Done {
    let (endpoint, path) = (format!("http://{}", cluster.ports(id).api), to.to_str().expect("text"));
    run(&endpoint, cluster.token(), &["backup", "--out", path], "").await
}

/// To a disk that is full a backup is refused, and leaves nothing there.
async fn expect_backups(cluster: &Cluster, id: u64) {
    let (whole, small) = (cluster.file(&format!("whole-{id}")), SmallDisk::mount(1));
    let part = small.path().join("backup");
    for (to, code, words) in [(&whole, 0, ""), (&part, 1, "No space left on device")] {
        eventually(LIMIT, "the backup is made, or has no room", || async {
            let made = back_up(cluster, id, to).await;
            if made.code == code && made.error.contains(words) { Ok(()) } else { Err(made.error) }
        })
        .await;
    }
    assert_eq!(small.path().read_dir().expect("a directory").count(), 0);
}

fn blocks_of(path: &Path) -> Result<(), String> {
    let found = path.metadata().map_err(|error| error.to_string())?;
    let (bytes, allocated) = (found.len(), found.blocks() * 512);
    if bytes > 0 && allocated >= bytes { Ok(()) } else { Err(format!("{allocated} of {bytes} bytes")) }
}

/// Every node shows every write that was acknowledged.
async fn expect_all(cluster: &Cluster, done: &[usize]) {
    for id in cluster.ids() {
        for number in done {
            let read = cluster.apollo(id).config("app", "default", &format!("f{number}")).await;
            let expected: Value = number.to_string().into();
            assert_eq!(read["configurations"]["v"], expected, "file {number} on node {id}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_outlives_a_full_disk() {
    outlives_full_disks(1, |leader, _| vec![leader]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_outlives_a_full_disk_of_a_follower() {
    outlives_full_disks(3, |_, followers| followers[..1].to_vec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_outlives_full_disks_of_the_leader_and_a_follower() {
    outlives_full_disks(3, |leader, followers| vec![leader, followers[0]]).await;
}
