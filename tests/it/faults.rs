//! Faults in turn under several concurrent workloads: reads and writes of values, creation of services, publishes of
//! config files, small and large. In addition to killed and sleeping leaders: links that become slow during large
//! publishes, a node with a wrong clock that sleeps and then leads, a node whose log accepts no line, and clocks that
//! are wrong on all nodes at a restart of all, and are then corrected.
//!
//! After each fault the results that clients saw for each value must be linearizable. At the end no acknowledged write
//! is missing, no node uses more resources than before, and all have the same state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::away::spent;
use crate::bad_log;
use crate::clock_jumps;
use crate::clocks::{seconds, wrong_by};
use crate::harness::{
    Api, BadLog, Cluster, Load, Operation, Outcome, ThinLink, eventually, is_linearizable, linked, report, setting,
};
use crate::linearizable::{SERVICES, add_value, new_leader, use_value};

/// Namespace of the created services and of the files.
const NAMESPACE: &str = "faults";
const GROUP: &str = "faults";
/// So few that what they have written over 200 faults is loaded in seconds, by a build that is not optimized.
const WORKERS: usize = 1;
/// Values that are read and written during one fault, and by how many clients each.
const VALUES: usize = 4;
const CLIENTS_PER_VALUE: usize = 4;
/// Operations of a client; those of a value have to fit the judge, and to last as long as the fault.
const OPERATIONS_PER_CLIENT: u32 = 30;
const PACE_MIN: Duration = Duration::from_millis(150);
/// Writes of one worker that have to be acknowledged before and after each step of a fault. Over the slowest link each
/// may wait for a large publish, five seconds and more.
const FLOW: usize = 5;
const FLOW_LIMIT: Duration = Duration::from_secs(60);
const LEAD_LIMIT: Duration = Duration::from_secs(20);

const SMALL_BYTES: usize = 1000;
const SMALL_PAUSE: Duration = Duration::from_millis(200);
/// Five seconds of the thinnest link; `THUBAN_IT_LARGE_BYTES` sets another size.
const LARGE_BYTES: usize = 300_000;
const LARGE_PAUSE: Duration = Duration::from_secs(2);
/// 24 Mbit/s, 2 Mbit/s and 512 kbit/s, in bytes a second.
const RATES: [u64; 3] = [3_000_000, 250_000, 64_000];
/// Durations of a thin link and of a sleep of a node: the one of these that is next.
const LENGTHS_S: [u64; 3] = [1, 3, 9];
const CLOCKS: [&str; 2] = ["-1m", "+1m"];
const JUMPS: [&str; 3] = ["+8h", "+100d", "-8h"];
/// A node with a wrong clock leads for as long as it slept, and at least this long: what its clock is off by has to
/// show.
const LEADS_MIN: Duration = Duration::from_secs(6);
/// Maximum difference between two stamps and the elapsed time between them, including their resolution of a second.
const APART_MAX_S: i64 = 3;

/// Allowed growth of an idle node since the first fault.
const IDLE: Duration = Duration::from_secs(4);
const PROCESSOR_SHARE_MORE_MAX: f64 = 0.10;
const IDLE_LOG_BYTES_MAX: u64 = 5_000;
const FILES_MORE_MAX: usize = 40;
/// Tables that RocksDB keeps open at most: half of what `src/descriptors.rs` reserves.
const TABLES_MAX: usize = 500;
const MEMORY_MORE_MAX: u64 = 256 << 20;
const LOG_BYTES_PER_FAULT_MAX: u64 = 60_000;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Asleep,
    ThinLinks,
    WrongClock,
    /// The clocks of all nodes, while all of them are down.
    ClocksJump,
    BadLog(BadLog),
}

impl Fault {
    /// Duration of each of its steps.
    fn length(turn: usize) -> Duration {
        Duration::from_secs(LENGTHS_S[turn % LENGTHS_S.len()])
    }

    /// Returns the interval of clients' writes during the fault.
    fn pace(self, turn: usize) -> Duration {
        let steps = match self {
            Fault::ThinLinks => RATES.len() as u32,
            Fault::Killed | Fault::Asleep | Fault::WrongClock | Fault::ClocksJump | Fault::BadLog(_) => 1,
        };
        PACE_MIN.max(Fault::length(turn) * steps / OPERATIONS_PER_CLIENT)
    }
}

const FAULTS: [Fault; 7] = [
    Fault::ThinLinks,
    Fault::WrongClock,
    Fault::Killed,
    Fault::Asleep,
    Fault::BadLog(BadLog::ReaderEnded),
    Fault::BadLog(BadLog::DiskFull),
    Fault::ClocksJump,
];

/// One fault of each kind by default; `THUBAN_IT_FAULTS` sets another number.
#[tokio::test(flavor = "multi_thread")]
async fn every_workload_comes_through_every_fault() {
    let mut field = Field::prepare().await;
    let before = field.used().await;
    let load = Load::start(NAMESPACE, WORKERS, field.nodes());
    let published = Published::start(field.nodes());
    let (count, mut operations) = (setting("THUBAN_IT_FAULTS", FAULTS.len()), 0);
    for number in 0..count {
        let fault = FAULTS[number % FAULTS.len()];
        load.flows(FLOW_LIMIT, FLOW).await;
        let (turn, begun) = (number / FAULTS.len(), Instant::now());
        let registers = Registers::start(&field, number, fault.pace(turn)).await;
        field.suffer(fault, turn, &load, &published).await;
        let took = begun.elapsed();
        load.flows(FLOW_LIMIT, FLOW).await;
        let judged = registers.judge().await;
        operations += judged;
        report(format!("fault {} of {count}, {fault:?}: {took:.1?}, {judged} operations in one order", number + 1));
    }
    let (publishes, journal) = (published.stop().await, load.stop().await);
    for id in field.cluster.ids() {
        journal.expect_kept(NAMESPACE, &field.cluster.api(id)).await;
        publishes.expect_kept(&field.cluster, id).await;
    }
    let creates = journal.keys(&Outcome::Acknowledged).len();
    report(format!(
        "{count} faults: {operations} operations on values, {creates} services and {} publishes acknowledged, nothing \
         lost",
        publishes.acknowledged()
    ));
    field.cluster.expect_equal_state().await;
    field.expect_no_more(&before, count as u64).await;
}

/// A cluster with a link before each node.
struct Field {
    cluster: Cluster,
    links: Vec<ThinLink>,
}

/// Resources of an idle node.
struct Used {
    id: u64,
    processor_share: f64,
    log_bytes: u64,
    log_bytes_idle: u64,
    /// Open files but for tables, of which each start of a node may write one.
    files: usize,
    tables: usize,
    memory: u64,
}

impl Field {
    async fn prepare() -> Field {
        let (cluster, links) = linked(3, &[]).await;
        Field { cluster, links }
    }

    fn nodes(&self) -> Vec<(u64, Api)> {
        self.cluster.ids().into_iter().map(|id| (id, self.cluster.api(id))).collect()
    }

    async fn suffer(&mut self, fault: Fault, turn: usize, load: &Load, published: &Published) {
        let length = Fault::length(turn);
        match fault {
            Fault::Killed => {
                let leader = self.cluster.leader().await;
                self.cluster.kill(leader).await;
                new_leader(&self.cluster, leader).await;
                self.cluster.restart(leader).await;
            }
            Fault::Asleep => {
                let leader = self.cluster.leader().await;
                self.cluster.pause(leader).await;
                new_leader(&self.cluster, leader).await;
                sleep(length).await;
                self.cluster.resume(leader).await;
                self.cluster.wait_ready(leader).await;
            }
            Fault::BadLog(kind) => bad_log::suffer(&mut self.cluster, kind, load).await,
            Fault::ThinLinks => self.thin_links(turn, length, load, published).await,
            Fault::WrongClock => self.wrong_clock(CLOCKS[turn % CLOCKS.len()], length, load).await,
            Fault::ClocksJump => clock_jumps::suffer(&mut self.cluster, JUMPS[turn % JUMPS.len()], load).await,
        }
    }

    /// Slows down all links step by step, in every other turn only those of one node. At each rate small writes are
    /// acknowledged, and a large publish that began at it becomes active.
    async fn thin_links(&self, turn: usize, length: Duration, load: &Load, published: &Published) {
        let alone = (turn % 2 == 1).then_some(turn / 2 % self.links.len());
        for rate in RATES {
            let thin = self.links.iter().enumerate().filter(|(at, _)| alone.is_none_or(|alone| alone == *at));
            thin.for_each(|(_, link)| link.set_rate(rate));
            let (since, begun) = (std::time::Instant::now(), published.large().tried.load(Ordering::Relaxed));
            sleep(length).await;
            load.flows_since(since, FLOW_LIMIT, FLOW).await;
            let (large, node) = (published.large(), self.cluster.leader().await);
            eventually(FLOW_LIMIT, "a large publish passes the thin links", || async move {
                let newest = large.newest_on(&self.cluster, node).await?;
                if newest > begun { Ok(()) } else { Err(format!("{newest} of {begun}, {rate} bytes/s")) }
            })
            .await;
        }
        self.links.iter().for_each(|link| link.set_rate(0));
    }

    /// A follower gets a clock that is off, sleeps, and leads when it wakes; nothing is dated back by that.
    async fn wrong_clock(&mut self, offset: &str, length: Duration, load: &Load) {
        let node = self.cluster.followers().await[0];
        assert!(self.cluster.terminate(node).await.success());
        self.cluster.set_environment(node, wrong_by(offset));
        self.cluster.restart(node).await;
        self.cluster.pause(node).await;
        let others: Vec<Api> =
            self.cluster.ids().into_iter().filter(|id| *id != node).map(|id| self.cluster.api(id)).collect();
        sleep(length).await;
        let (seen, since) = (stamp(&others[0]).await, Instant::now());
        self.cluster.resume(node).await;
        let (cluster, asked, transfer) = (&self.cluster, &others[1], &json!({"to": node}));
        eventually(LEAD_LIMIT, "the node with the wrong clock leads", || async move {
            let answer = asked.post("/admin/v1/cluster/transfer", transfer).await;
            let leader = cluster.leader().await;
            if leader == node { Ok(()) } else { Err(format!("{leader} leads; {answer}")) }
        })
        .await;
        for pause in [Duration::ZERO, length.max(LEADS_MIN)] {
            sleep(pause).await;
            let asked = since.elapsed();
            let made = stamp(&self.cluster.api(node)).await;
            let (least, most) = (seconds_of(asked) - APART_MAX_S, seconds_of(since.elapsed()) + APART_MAX_S);
            let stamped = made - seen;
            assert!(
                (least..=most).contains(&stamped),
                "a leader with a clock wrong by {offset} stamps {stamped} s after {asked:.1?}"
            );
        }
        load.flows(FLOW_LIMIT, FLOW).await;
        assert!(self.cluster.terminate(node).await.success());
        self.cluster.set_environment(node, Vec::new());
        self.cluster.restart(node).await;
    }

    async fn used(&self) -> Vec<Used> {
        let ids = self.cluster.ids();
        let all = ids.into_iter().map(|id| async move {
            let idle = spent(&self.cluster, id, IDLE).await;
            let process = self.cluster.process(id);
            Used {
                id,
                processor_share: idle.processor_share,
                log_bytes: std::fs::metadata(self.cluster.log(id)).expect("there is a log").len(),
                log_bytes_idle: idle.log_bytes,
                files: process.open_files() - process.open_tables(),
                tables: process.open_tables(),
                memory: process.resident_bytes(),
            }
        });
        join_all(all).await
    }

    async fn expect_no_more(&self, before: &[Used], faults: u64) {
        for (before, after) in before.iter().zip(self.used().await) {
            let Used { id, processor_share, log_bytes, log_bytes_idle, files, tables, memory } = after;
            let logged = log_bytes - before.log_bytes;
            report(format!(
                "node {id}, idle: {:.1} % of a core (before: {:.1} %), {log_bytes_idle} bytes of log in {IDLE:?}, \
                 {files} files (before: {}) and {tables} tables, {} MiB (before: {}); logged in all: \
                 {logged} bytes",
                processor_share * 100.0,
                before.processor_share * 100.0,
                before.files,
                memory >> 20,
                before.memory >> 20
            ));
            let processor_max = before.processor_share + PROCESSOR_SHARE_MORE_MAX;
            assert!(processor_share < processor_max, "node {id}: {processor_share}");
            assert!(log_bytes_idle < IDLE_LOG_BYTES_MAX, "node {id} logs {log_bytes_idle} bytes while it is idle");
            assert!(files < before.files + FILES_MORE_MAX, "node {id}: {files} files, {} before", before.files);
            assert!(tables <= TABLES_MAX, "node {id}: {tables} tables");
            assert!(memory < before.memory + MEMORY_MORE_MAX, "node {id}: {memory} bytes, {} before", before.memory);
            assert!(logged < LOG_BYTES_PER_FAULT_MAX * faults.max(1), "node {id} logged {logged} bytes");
        }
    }
}

fn seconds_of(length: Duration) -> i64 {
    i64::try_from(length.as_secs()).expect("minutes")
}

/// The time that a write of this moment is dated by, in seconds.
async fn stamp(api: &Api) -> i64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("stamp-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let item = json!([{"namespace": NAMESPACE, "name": name}]);
    eventually(LEAD_LIMIT, "a write is taken", || async {
        match api.post(SERVICES, &item).await {
            // It may have happened when its answer was lost.
            answer if [200_000, 400_201].contains(&answer.code()) => Ok(()),
            answer => Err(answer.to_string()),
        }
    })
    .await;
    let list = format!("{SERVICES}?namespace={NAMESPACE}&name={name}");
    eventually(LEAD_LIMIT, "the write is read", || async {
        let answer = api.get(&list).await;
        let service = answer.body["services"][0]["ctime"].clone();
        if service.is_string() { Ok(seconds(&service)) } else { Err(answer.to_string()) }
    })
    .await
}

/// Values that are read and written through all nodes during one fault.
struct Registers {
    histories: Vec<Arc<Mutex<Vec<Operation>>>>,
    clients: JoinSet<()>,
}

impl Registers {
    async fn start(field: &Field, fault: usize, pace: Duration) -> Registers {
        let nodes: Vec<Api> = field.nodes().into_iter().map(|(_, api)| api).collect();
        let (mut histories, mut clients) = (Vec::new(), JoinSet::new());
        for value in (0..VALUES).map(|number| fault * VALUES + number) {
            add_value(&nodes[0], value).await;
            let history: Arc<Mutex<Vec<Operation>>> = Arc::default();
            for client in 0..CLIENTS_PER_VALUE {
                clients.spawn(use_value(nodes.clone(), client, value, pace, history.clone()));
            }
            histories.push(history);
        }
        Registers { histories, clients }
    }

    /// Number of operations; fails unless one order explains those of each value.
    async fn judge(mut self) -> usize {
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("a client does not panic");
        }
        let judged = self.histories.iter().map(|history| {
            let history = history.lock();
            assert!(is_linearizable(0, &history), "no order explains {history:#?}");
            history.len()
        });
        judged.sum()
    }
}

/// Config files, of which one writer each publishes a higher number again and again.
struct Published {
    files: Vec<Arc<File>>,
    writers: JoinSet<()>,
    stop: CancellationToken,
}

struct File {
    name: &'static str,
    bytes: usize,
    pause: Duration,
    tried: AtomicU64,
    newest_acknowledged: AtomicU64,
    acknowledged: AtomicU64,
}

impl File {
    /// The number that a client pulls from this node.
    async fn newest_on(&self, cluster: &Cluster, id: u64) -> Result<u64, String> {
        let answer = cluster.apollo(id).get(&format!("/configfiles/raw/{GROUP}/default/{}", self.name)).await;
        let number = answer.text.split(' ').next().and_then(|word| word.parse().ok());
        number.ok_or_else(|| format!("{}: {}", answer.status, answer.text))
    }
}

impl Published {
    fn start(nodes: Vec<(u64, Api)>) -> Published {
        let (mut writers, stop) = (JoinSet::new(), CancellationToken::new());
        let sorts = [
            ("small.txt", SMALL_BYTES, SMALL_PAUSE),
            ("large.txt", setting("THUBAN_IT_LARGE_BYTES", LARGE_BYTES), LARGE_PAUSE),
        ];
        let files = sorts.map(|(name, bytes, pause)| {
            let numbers = || AtomicU64::new(0);
            let (tried, newest_acknowledged, acknowledged) = (numbers(), numbers(), numbers());
            let file = Arc::new(File { name, bytes, pause, tried, newest_acknowledged, acknowledged });
            let work = publish(file.clone(), nodes.clone());
            let until = stop.clone();
            writers.spawn(async move { until.run_until_cancelled(work).await.unwrap_or_default() });
            file
        });
        Published { files: files.to_vec(), writers, stop }
    }

    async fn stop(mut self) -> Published {
        self.stop.cancel();
        while let Some(writer) = self.writers.join_next().await {
            writer.expect("a writer does not panic");
        }
        self
    }

    fn large(&self) -> &File {
        self.files.last().expect("there are two")
    }

    fn acknowledged(&self) -> u64 {
        self.files.iter().map(|file| file.acknowledged.load(Ordering::Relaxed)).sum()
    }

    /// A pull from this node is not older than the newest acknowledged publish.
    async fn expect_kept(&self, cluster: &Cluster, id: u64) {
        for file in &self.files {
            let (least, most) = (file.newest_acknowledged.load(Ordering::Relaxed), file.tried.load(Ordering::Relaxed));
            let pulled = eventually(FLOW_LIMIT, "the node has what was published", || async move {
                let number = file.newest_on(cluster, id).await?;
                if number >= least { Ok(number) } else { Err(format!("{number} < {least}")) }
            })
            .await;
            assert!(pulled <= most, "{pulled} of {} was never published: {most}", file.name);
        }
    }
}

async fn publish(file: Arc<File>, nodes: Vec<(u64, Api)>) {
    let mut pace = interval(file.pause);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    loop {
        number += 1;
        pace.tick().await;
        file.tried.store(number, Ordering::Relaxed);
        let api = &nodes[number as usize % nodes.len()].1;
        let content = format!("{number} {}", "x".repeat(file.bytes));
        let body = json!({"namespace": "default", "group": GROUP, "file_name": file.name, "content": content});
        let answer = api.try_send(Method::POST, "/config/v1/configfiles/createandpub", Some(&body)).await;
        if answer.is_ok_and(|answer| answer.code() == 200_000) {
            file.newest_acknowledged.store(number, Ordering::Relaxed);
            file.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
}
