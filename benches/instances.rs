//! Many instances that beat, spread over a cluster of three: what does it cost each node, does the log
//! grow, and does anybody count as dead when the leader is killed?
//!
//! `scripts/bench-instances` runs it with enough file descriptors. `THUBAN_BENCH_INSTANCES` (10,000)
//! beat every five seconds, measured for `THUBAN_BENCH_SECONDS` (60). The instances live in this
//! process; what they cost is not in the figures of the nodes, but they share the machine with them.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[expect(dead_code, reason = "the harness of the tests has more than a bench needs")]
#[expect(unused_imports, reason = "the harness of the tests has more than a bench needs")]
#[path = "../tests/it/harness/mod.rs"]
mod harness;

use harness::{Api, Beaters, Cluster, eventually, setting};

const PACE: Duration = Duration::from_secs(5);
const SERVICES: usize = 100;
const BATCH: usize = 100;
const LIMIT: Duration = Duration::from_secs(120);
/// Clock ticks a second in `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

#[tokio::main]
async fn main() {
    let count: usize = setting("THUBAN_BENCH_INSTANCES", 10_000);
    let seconds: u64 = setting("THUBAN_BENCH_SECONDS", 60);
    let mut cluster = Cluster::start(3).await;
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    let ids = register(&nodes, count).await;
    let beaters = Beaters::start(&nodes, &ids, PACE);
    // One round of everyone first: connections are made once.
    beaters.flow(LIMIT, count).await;
    measure(&cluster, seconds).await;
    kill_leader(&mut cluster).await;
}

async fn register(nodes: &[Api], count: usize) -> Vec<String> {
    let started = Instant::now();
    let mut ids = Vec::with_capacity(count);
    let item = |number: usize| {
        let (service, host) =
            (format!("service-{}", number % SERVICES), format!("10.0.{}.{}", number / 250, number % 250));
        json!({"namespace": "fleet", "service": service, "host": host, "port": 80, "enableHealthCheck": true})
    };
    for first in (0..count).step_by(BATCH) {
        let items = (first..count.min(first + BATCH)).map(item).collect();
        let api = &nodes[first / BATCH % nodes.len()];
        let answer = api.post("/naming/v1/instances", &Value::Array(items)).await.expect_code(200_000);
        let responses = answer.body["responses"].as_array().expect("a batch");
        ids.extend(responses.iter().map(|item| item["instance"]["id"].as_str().expect("an id").to_owned()));
    }
    println!("{count} instances of {SERVICES} services registered in {:.1?}", started.elapsed());
    ids
}

/// What a node has used so far.
struct Used {
    cpu_seconds: f64,
    heartbeats: f64,
    log_index: f64,
    data_bytes: u64,
}

async fn used(cluster: &Cluster) -> BTreeMap<u64, Used> {
    let mut all = BTreeMap::new();
    for id in cluster.running() {
        let api = cluster.api(id);
        let used = Used {
            cpu_seconds: cpu_seconds(cluster.process(id).pid),
            heartbeats: api.metric("thuban_heartbeats_total{outcome=\"taken\"}").await.expect("the series is there"),
            log_index: api.metric("thuban_raft_last_log_index").await.expect("the series is there"),
            data_bytes: bytes_below(&cluster.data(id)),
        };
        all.insert(id, used);
    }
    all
}

async fn measure(cluster: &Cluster, seconds: u64) {
    let leader = cluster.leader().await;
    let (before, started) = (used(cluster).await, Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, elapsed) = (used(cluster).await, started.elapsed().as_secs_f64());
    println!("in {elapsed:.0} s of nothing but heartbeats:");
    for (id, after) in after {
        let before = &before[&id];
        let role = if id == leader { "leader" } else { "follower" };
        println!(
            "    node {id} ({role}): {:.0} heartbeats/s, {:.1} % of a processor, {} log entries, {} bytes of data more",
            (after.heartbeats - before.heartbeats) / elapsed,
            (after.cpu_seconds - before.cpu_seconds) / elapsed * 100.0,
            after.log_index - before.log_index,
            after.data_bytes as i64 - before.data_bytes as i64,
        );
    }
}

/// Kills the leader, waits until the next one has found a silent instance out, and counts whose
/// health changed: every change renews a revision.
async fn kill_leader(cluster: &mut Cluster) {
    let survivor = cluster.followers().await[0];
    let api = cluster.api(survivor);
    let before = revisions(&api).await;
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let killed = Instant::now();
    let canary =
        json!([{"namespace": "canary", "service": "silent", "host": "h", "port": 1, "enableHealthCheck": true}]);
    api.post("/naming/v1/instances", &canary).await.expect_code(200_000);
    let writable = killed.elapsed();
    let api = &api;
    eventually(LIMIT, "the silent instance is found out", || async move {
        let answer = api.get("/naming/v1/instances?namespace=canary&healthy=false").await.expect_code(200_000);
        if answer.amount() == 1 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    let flipped = revisions(api).await.iter().filter(|(id, revision)| before.get(*id) != Some(*revision)).count();
    println!(
        "leader killed: writes again after {writable:.2?}; a silent instance found out after {:.1?}",
        killed.elapsed()
    );
    println!("    {flipped} of {} living instances flipped", before.len());
    assert_eq!(flipped, 0, "a living instance was declared dead");
}

async fn revisions(api: &Api) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    loop {
        let path = format!("/naming/v1/instances?namespace=fleet&offset={}", all.len());
        let answer = api.get(&path).await.expect_code(200_000);
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let rows = answer.body["instances"].as_array().expect("a list");
        all.extend(rows.iter().map(|row| (text(&row["id"]), text(&row["revision"]))));
        if rows.is_empty() {
            return all;
        }
    }
}

/// User and system time of a process; the fields after its name, which may hold spaces.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a running process has a status");
    let (_, fields) = stat.rsplit_once(')').expect("the name is in brackets");
    let ticks = |at: usize| -> f64 {
        fields.split_whitespace().nth(at).expect("a field").parse().expect("a number of clock ticks")
    };
    (ticks(11) + ticks(12)) / TICKS
}

/// Bytes of all files below a directory; a file that goes meanwhile counts as nothing.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
