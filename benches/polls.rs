//! Many held requests on a cluster, and one publish: how soon is the last of them answered, and what
//! does a held request cost in memory? First long polls of config clients, then discoveries of the
//! rules of a service.
//!
//! `scripts/bench-polls` runs it with enough file descriptors. `THUBAN_BENCH_POLLS` (5,000) sets the
//! polls on all nodes together, `THUBAN_BENCH_DISCOVERIES` (1,000) the discoveries,
//! `THUBAN_BENCH_ROUNDS` (5) the publishes of each. The clients are bare sockets in this process, so
//! what they cost is not in the memory told; their work is in the times told.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
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
    let cluster = Cluster::start_with(3, &["--long-poll-timeout-ms", "85000"]).await;
    poll_configs(&cluster, setting("THUBAN_BENCH_POLLS", 5_000)).await;
    discover_rules(&cluster, setting("THUBAN_BENCH_DISCOVERIES", 1_000)).await;
}

fn rounds() -> impl Iterator<Item = u64> {
    0..setting("THUBAN_BENCH_ROUNDS", 5_u64)
}

async fn poll_configs(cluster: &Cluster, polls: usize) {
    cluster.api(1).publish("default", "app", FILE, "round=start").await;
    cluster.expect_equal_state().await;
    let mut id = cluster.apollo(1).current_id("app", "default", FILE).await;
    let idle = resident(cluster);
    for round in rounds() {
        let path = poll_path("app", "default", &[(FILE, id)], "");
        let request = |node: u64| (cluster.ports(node).compat, format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n"));
        let held = hold(cluster, polls, request, "HTTP/1.1 200").await;
        if round == 0 {
            tell_memory(idle, resident(cluster), polls);
        }
        let taker = 1 + round % 3;
        cluster.api(taker).publish("default", "app", FILE, &format!("round={round}")).await;
        tell_times(taker, Instant::now(), held).await;
        id = cluster.apollo(1).current_id("app", "default", FILE).await;
    }
}

/// A limit of its own for each round, so that every answer holds one rule more.
async fn discover_rules(cluster: &Cluster, discoveries: usize) {
    const LIMITS: &str = "/naming/v1/ratelimits";
    let mut question = json!({"type": "RATE_LIMIT", "service": {"namespace": "shop", "name": "pay"}});
    let (idle, token) = (resident(cluster), cluster.token());
    for round in rounds() {
        let seen = cluster.api(1).post("/v1/Discover", &question).await;
        question["service"]["revision"] = seen.body["service"]["revision"].clone();
        question["applied_index"] = seen.body["applied_index"].clone();
        question["timeout_ms"] = json!(50_000);
        let (body, name) = (question.to_string(), format!("limit-{round}"));
        let length = body.len();
        let request = |node: u64| {
            let head = format!("POST /v1/Discover HTTP/1.1\r\nHost: bench\r\nAuthorization: {token}\r\n");
            (cluster.ports(node).api, format!("{head}Content-Length: {length}\r\n\r\n{body}"))
        };
        let held = hold(cluster, discoveries, request, "{\"code\":200000,").await;
        if round == 0 {
            tell_memory(idle, resident(cluster), discoveries);
        }
        let taker = 1 + round % 3;
        let limit = json!([{"namespace": "shop", "name": name, "service": "pay"}]);
        cluster.api(taker).post(LIMITS, &limit).await.expect_code(200_000);
        cluster
            .api(taker)
            .post(&format!("{LIMITS}/releases"), &json!([{"rule_name": name}]))
            .await
            .expect_code(200_000);
        tell_times(taker, Instant::now(), held).await;
        question["timeout_ms"] = json!(0);
        question["service"]["revision"] = json!("");
    }
}

/// Reading of every held poll is under way: the node that holds it, and when its answer came.
type Held = JoinSet<(u64, Instant)>;

/// Sends the requests, spread equally, and returns when the nodes say that they hold them all.
async fn hold(
    cluster: &Cluster,
    polls: usize,
    request: impl Fn(u64) -> (SocketAddr, String),
    expected: &'static str,
) -> Held {
    let mut held = Held::new();
    for number in 0..polls {
        let node = 1 + number as u64 % 3;
        let (address, request) = request(node);
        let stream = send(address, &request).await;
        held.spawn(async move { (node, answered(stream, expected).await) });
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

async fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address)
        .await
        .unwrap_or_else(|error| panic!("{error}; is the limit of open files high enough? see scripts/bench-polls"));
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
    println!("publish through node {taker}, {} requests answered: {}", delays.len(), of(None));
    for node in 1..=3 {
        println!("    node {node}: {}", of(Some(node)));
    }
}

/// When the answer's first bytes came; fails unless they hold what is expected.
async fn answered(mut stream: TcpStream, expected: &str) -> Instant {
    let mut buffer = [0; 1024];
    let read = tokio::time::timeout(ANSWER_LIMIT, stream.read(&mut buffer)).await.expect("the poll is answered");
    let at = Instant::now();
    let length = read.expect("the connection holds");
    let head = String::from_utf8_lossy(&buffer[..length]);
    assert!(head.contains(expected), "{head}");
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
        "memory of three nodes: idle {} MiB, holding {polls} requests {} MiB, {each} bytes a request",
        mib(idle),
        mib(holding)
    );
}
