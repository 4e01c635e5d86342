//! Many long polls held on a cluster, and one publish: how soon is the last of them answered, and
//! what does a held poll cost in memory?
//!
//! `scripts/bench-polls` runs it with enough file descriptors. `THUBAN_BENCH_POLLS` (5,000) sets the
//! polls on all nodes together, `THUBAN_BENCH_ROUNDS` (5) the publishes. The clients are bare sockets
//! in this process, so what they cost is not in the memory told; their work is in the times told.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[expect(dead_code, reason = "the harness of the tests has more than a bench needs")]
#[expect(unused_imports, reason = "the harness of the tests has more than a bench needs")]
#[path = "../tests/it/harness/mod.rs"]
mod harness;

use harness::apollo::poll_path;
use harness::{Cluster, eventually, percentile, setting};

const HELD_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const FILE: &str = "application";

#[tokio::main]
async fn main() {
    let polls: usize = setting("THUBAN_BENCH_POLLS", 5_000);
    let cluster = Cluster::start_with(3, &["--long-poll-timeout-ms", "85000"]).await;
    cluster.api(1).publish("default", "app", FILE, "round=start").await;
    cluster.expect_equal_state().await;
    let mut id = cluster.apollo(1).current_id("app", "default", FILE).await;
    let idle = resident(&cluster);
    for round in 0..setting("THUBAN_BENCH_ROUNDS", 5_u64) {
        let held = hold(&cluster, polls, id).await;
        if round == 0 {
            tell_memory(idle, resident(&cluster), polls);
        }
        let taker = 1 + round % 3;
        cluster.api(taker).publish("default", "app", FILE, &format!("round={round}")).await;
        tell_times(taker, Instant::now(), held).await;
        id = cluster.apollo(1).current_id("app", "default", FILE).await;
    }
}

/// Reading of every held poll is under way: the node that holds it, and when its answer came.
type Held = JoinSet<(u64, Instant)>;

/// Opens the polls, spread equally, and returns when the nodes say that they hold them all.
async fn hold(cluster: &Cluster, polls: usize, id: i64) -> Held {
    let path = poll_path("app", "default", &[(FILE, id)], "");
    let mut held = Held::new();
    for number in 0..polls {
        let node = 1 + number as u64 % 3;
        let stream = send(cluster.ports(node).compat, &path).await;
        held.spawn(async move { (node, answered(stream).await) });
    }
    for node in cluster.ids() {
        let expected = (0..polls).filter(|number| 1 + *number as u64 % 3 == node).count() as f64;
        let api = cluster.api(node);
        eventually(HELD_LIMIT, "the node holds its polls", || async {
            match api.metric("thuban_long_polls_held").await {
                Some(count) if count == expected => Ok(()),
                seen => Err(format!("{seen:?} of {expected}")),
            }
        })
        .await;
    }
    held
}

async fn send(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address)
        .await
        .unwrap_or_else(|error| panic!("{error}; is the limit of open files high enough? see scripts/bench-polls"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    stream
}

/// Waits for every answer and prints when they came, counted from the acknowledgement of the publish.
async fn tell_times(taker: u64, acknowledged: Instant, mut held: Held) {
    let mut delays: Vec<(u64, Duration)> = Vec::new();
    while let Some(answer) = held.join_next().await {
        let (node, at) = answer.expect("a reader does not panic");
        delays.push((node, at.saturating_duration_since(acknowledged)));
    }
    let of = |wanted: Option<u64>| {
        let wanted = delays.iter().filter(|(node, _)| wanted.is_none_or(|wanted| *node == wanted));
        let mut delays: Vec<Duration> = wanted.map(|(_, delay)| *delay).collect();
        format!("p50 {:?}, last {:?}", percentile(&mut delays, 0.5), percentile(&mut delays, 1.0))
    };
    println!("publish through node {taker}, {} polls answered: {}", delays.len(), of(None));
    for node in 1..=3 {
        println!("    node {node}: {}", of(Some(node)));
    }
}

/// When the answer's first bytes came; fails unless it is a 200.
async fn answered(mut stream: TcpStream) -> Instant {
    let mut buffer = [0; 1024];
    let read = tokio::time::timeout(ANSWER_LIMIT, stream.read(&mut buffer)).await.expect("the poll is answered");
    let at = Instant::now();
    let length = read.expect("the connection holds");
    let head = String::from_utf8_lossy(&buffer[..length]);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    at
}

/// Resident memory of all nodes, in bytes.
fn resident(cluster: &Cluster) -> u64 {
    let of = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process has a status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has resident memory");
        let kib: u64 = line.split_whitespace().nth(1).expect("VmRSS has a value").parse().expect("VmRSS is a number");
        kib * 1024
    };
    cluster.ids().into_iter().map(|id| of(cluster.process(id).pid)).sum()
}

fn tell_memory(idle: u64, holding: u64, polls: usize) {
    let each = holding.saturating_sub(idle) / polls as u64;
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "memory of three nodes: idle {} MiB, holding {polls} polls {} MiB, {each} bytes a poll",
        mib(idle),
        mib(holding)
    );
}
