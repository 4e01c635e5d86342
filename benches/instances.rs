//! Many instances with heartbeats on a cluster of three: the cost for each node, the growth of the log, the cost of a
//! zone that fails and returns, and false alarms after the leader is killed.
//!
//! `scripts/bench-instances` runs it with enough file descriptors. `THUBAN_BENCH_INSTANCES` (10,000) send a heartbeat
//! every five seconds, over `THUBAN_BENCH_CONNECTIONS` (a hundredth of that) connections of agents, each agent for
//! `THUBAN_BENCH_BEATS` (1) of its instances in one request, measured for `THUBAN_BENCH_SECONDS` (60).
//! `THUBAN_BENCH_ZONE` (a tenth of them) fall silent together and return. The agents run in this process: their cost is
//! not in the figures of the nodes, but they share the machine.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

#[path = "instances/agents.rs"]
mod agents;
#[expect(dead_code, reason = "the harness of the tests has more than a bench needs")]
#[expect(unused_imports, reason = "the harness of the tests has more than a bench needs")]
#[path = "../tests/it/harness/mod.rs"]
mod harness;
#[path = "instances/zones.rs"]
mod zones;

use agents::{Connection, Surface, Zone};
use harness::{Api, Cluster, eventually, setting};

const PACE: Duration = Duration::from_secs(5);
const SERVICES: usize = 100;
const BATCH: usize = 100;
/// Batches of registrations that are under way at a time.
const REGISTERING: usize = 12;
const LIMIT: Duration = Duration::from_secs(120);
/// Names of the part of the fleet that stays, and of the one that fails and returns.
const STEADY: &str = "fleet";
const MORTAL: &str = "zone";
/// Clock ticks a second in `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

#[tokio::main]
async fn main() {
    let count: usize = setting("THUBAN_BENCH_INSTANCES", 10_000);
    let seconds: u64 = setting("THUBAN_BENCH_SECONDS", 60);
    let connections: usize = setting("THUBAN_BENCH_CONNECTIONS", count / 100).max(2);
    let per_request: usize = setting("THUBAN_BENCH_BEATS", 1);
    let mortal: usize = setting("THUBAN_BENCH_ZONE", count / 10).clamp(1, count - 1);
    let mut cluster = Cluster::start(3).await;
    let addresses = cluster.ids().into_iter().map(|id| cluster.ports(id).api).collect();
    let surface = Surface { addresses, token: cluster.token().to_owned() };
    let bodies = [registrations(STEADY, count - mortal), registrations(MORTAL, mortal)];
    let [steady_ids, mortal_ids] = register(&surface, bodies).await;
    let share = |part: usize| (connections * part / count).max(1);
    let zone = Zone::start(&surface, &mortal_ids, share(mortal), per_request, PACE);
    let steady = Zone::start(&surface, &steady_ids, share(count - mortal), per_request, PACE);
    // One round of everyone first: connections are made once.
    flow(&[&zone, &steady], count).await;
    println!("{per_request} heartbeats a request over {connections} connections");
    measure(&cluster, &[&zone, &steady], seconds).await;
    zones::die_and_return(&cluster, &surface, &zone, mortal).await;
    kill_leader(&mut cluster, count - mortal).await;
}

/// Bodies of batches.
fn registrations(namespace: &str, count: usize) -> Vec<String> {
    let item = |number: usize| {
        let (service, host) =
            (format!("service-{}", number % SERVICES), format!("10.0.{}.{}", number / 250, number % 250));
        json!({"namespace": namespace, "service": service, "host": host, "port": 80, "enableHealthCheck": true})
    };
    let batch = |first: usize| (first..count.min(first + BATCH)).map(item).collect::<Value>().to_string();
    (0..count).step_by(BATCH).map(batch).collect()
}

/// Registers all, some batches at a time, and returns the ids of each part.
async fn register<const N: usize>(surface: &Surface, bodies: [Vec<String>; N]) -> [Vec<String>; N] {
    let requests = bodies.map(|bodies| -> Vec<Vec<u8>> {
        bodies.iter().map(|body| surface.post("/naming/v1/instances", body)).collect()
    });
    let started = Instant::now();
    let mut answers = Vec::with_capacity(N);
    for requests in &requests {
        let per_task = requests.len().div_ceil(REGISTERING);
        let sent = requests.chunks(per_task).zip(surface.addresses.iter().cycle()).map(async |(requests, address)| {
            let mut connection = Connection::open(*address).await.expect("the surface listens");
            let mut answers = Vec::with_capacity(requests.len());
            for request in requests {
                answers.push(connection.ask(request).await.expect("an answer"));
            }
            answers
        });
        answers.push(join_all(sent).await.concat());
    }
    let elapsed = started.elapsed();
    let ids: Vec<Vec<String>> =
        answers.iter().map(|part| part.iter().flat_map(|answer| ids_of(answer)).collect()).collect();
    let count: usize = ids.iter().map(Vec::len).sum();
    println!(
        "{count} instances of {SERVICES} services registered in {elapsed:.1?}, {:.0} a second",
        count as f64 / elapsed.as_secs_f64()
    );
    ids.try_into().expect("as many parts")
}

fn ids_of(answer: &[u8]) -> Vec<String> {
    let answer: Value = serde_json::from_slice(answer).expect("an envelope");
    assert_eq!(answer["code"], 200_000, "{answer}");
    let responses = answer["responses"].as_array().expect("a batch");
    responses.iter().map(|item| item["instance"]["id"].as_str().expect("an id").to_owned()).collect()
}

/// Waits until `count` more heartbeats are taken.
async fn flow(zones: &[&Zone], count: usize) {
    let seen = || zones.iter().map(|zone| zone.counts().0).sum::<usize>();
    let wanted = seen() + count;
    eventually(LIMIT, "heartbeats are taken", || async {
        if seen() >= wanted { Ok(()) } else { Err(format!("{} of {wanted}", seen())) }
    })
    .await;
}

/// Resources that a node has used so far.
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
            cpu_seconds: cpu_seconds(&format!("{}", cluster.process(id).pid)),
            heartbeats: api.metric("thuban_heartbeats_total{outcome=\"taken\"}").await.expect("the series is there"),
            log_index: api.metric("thuban_raft_last_log_index").await.expect("the series is there"),
            data_bytes: bytes_below(&cluster.data(id)),
        };
        all.insert(id, used);
    }
    all
}

async fn measure(cluster: &Cluster, zones: &[&Zone], seconds: u64) {
    let leader = cluster.leader().await;
    let missed = || zones.iter().map(|zone| zone.counts().1).sum::<usize>();
    let (before, started, missed_before) = (used(cluster).await, Instant::now(), missed());
    let own_before = cpu_seconds("self");
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, elapsed) = (used(cluster).await, started.elapsed().as_secs_f64());
    let own = (cpu_seconds("self") - own_before) / elapsed * 100.0;
    println!("in {elapsed:.0} s of nothing but heartbeats:");
    let (mut heartbeats, mut cpu) = (0.0, 0.0);
    for (id, after) in after {
        let before = &before[&id];
        let role = if id == leader { "leader" } else { "follower" };
        let (more, used) = (after.heartbeats - before.heartbeats, after.cpu_seconds - before.cpu_seconds);
        heartbeats += more;
        cpu += used;
        println!(
            "    node {id} ({role}): {:.0} heartbeats/s, {:.1} % of a processor, {} log entries, {} bytes of data more",
            more / elapsed,
            used / elapsed * 100.0,
            after.log_index - before.log_index,
            after.data_bytes as i64 - before.data_bytes as i64,
        );
    }
    println!(
        "    all: {:.0} heartbeats/s, {:.1} % of a processor, {:.1} us each; the agents: {own:.1} %, {} requests \
         failed",
        heartbeats / elapsed,
        cpu / elapsed * 100.0,
        cpu / heartbeats * 1e6,
        missed() - missed_before,
    );
}

/// Kills the leader, waits until the next one has found a silent instance out, and counts whose
/// health changed: every change renews a revision.
async fn kill_leader(cluster: &mut Cluster, count: usize) {
    let survivor = cluster.followers().await[0];
    let api = cluster.api(survivor);
    let before = revisions(&api).await;
    assert_eq!(before.len(), count, "all are listed");
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let killed = Instant::now();
    let canary =
        json!([{"namespace": "canary", "service": "silent", "host": "h", "port": 1, "enableHealthCheck": true}]);
    api.post("/naming/v1/instances", &canary).await.expect_code(200_000);
    let writable = killed.elapsed();
    let api = &api;
    eventually(LIMIT, "the silent instance is found out", || async move {
        let path = "/naming/v1/instances?namespace=canary&service=silent&healthy=false";
        let answer = api.get(path).await.expect_code(200_000);
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

/// Service by service, as a list of all is walked anew for each of its pages.
async fn revisions(api: &Api) -> BTreeMap<String, String> {
    let mut services = JoinSet::new();
    for service in 0..SERVICES {
        let api = api.clone();
        services.spawn(async move { revisions_of(&api, service).await });
    }
    services.join_all().await.into_iter().flatten().collect()
}

async fn revisions_of(api: &Api, service: usize) -> Vec<(String, String)> {
    let mut all = Vec::new();
    loop {
        let path = format!("/naming/v1/instances?namespace={STEADY}&service=service-{service}&offset={}", all.len());
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
fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a running process has a status");
    let (_, fields) = stat.rsplit_once(')').expect("the name is in brackets");
    let ticks = |at: usize| -> f64 {
        fields.split_whitespace().nth(at).expect("a field").parse().expect("a number of clock ticks")
    };
    (ticks(11) + ticks(12)) / TICKS
}

/// Returns the bytes of all files below a directory; a file that is deleted meanwhile counts as empty.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
