//! Many held requests on a cluster, and one publish: the time until the last of them is answered, and the memory of a
//! held request. First long polls of config clients, then discoveries of the rules of a service, then of its instances,
//! one of which changes its weight.
//!
//! `scripts/bench-polls` runs it with enough file descriptors. `THUBAN_BENCH_POLLS` (5,000) sets the polls on all nodes
//! together, `THUBAN_BENCH_DISCOVERIES` (1,000) the discoveries, `THUBAN_BENCH_WATCHERS` (10,000) those of instances,
//! of which there are `THUBAN_BENCH_FLEET` (10), `THUBAN_BENCH_ROUNDS` (5) the publishes of each, and
//! `THUBAN_BENCH_NODES` (3) the number of nodes that serve them. The clients are bare sockets in a process per node, so
//! the memory figures exclude them; the times include their work. The kernel memory of sockets is the growth of `slab`
//! and of TCP's buffers, both ends together.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
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

/// The argument by which this program is the clients of one node.
const CLIENTS: &str = "clients";

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some(CLIENTS) {
        return be_clients().await;
    }
    let options = ["--long-poll-timeout-ms", "85000", "--connections-per-address", "1000000"];
    let cluster = Cluster::start_with(3, &options).await;
    poll_configs(&cluster, setting("THUBAN_BENCH_POLLS", 5_000)).await;
    discover_rules(&cluster, setting("THUBAN_BENCH_DISCOVERIES", 1_000)).await;
    watch_instances(&cluster, setting("THUBAN_BENCH_WATCHERS", 10_000)).await;
}

fn rounds() -> impl Iterator<Item = u64> {
    0..setting("THUBAN_BENCH_ROUNDS", 5_u64)
}

async fn poll_configs(cluster: &Cluster, polls: usize) {
    cluster.api(1).publish("default", "app", FILE, "round=start").await;
    cluster.expect_equal_state().await;
    let mut id = cluster.apollo(1).current_id("app", "default", FILE).await;
    let (idle, free) = (resident(cluster), kernel());
    for round in rounds() {
        let path = poll_path("app", "default", &[(FILE, id)], "");
        let request = |node: u64| (cluster.ports(node).compat, format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n"));
        let held = hold(cluster, polls, request, "HTTP/1.1 200").await;
        if round == 0 {
            tell_memory(idle, resident(cluster), polls);
            println!("kernel: {} bytes a request, both ends", kernel().saturating_sub(free) / polls as u64);
        }
        let taker = 1 + round % 3;
        cluster.api(taker).publish("default", "app", FILE, &format!("round={round}")).await;
        tell_times(taker, now(), held).await;
        id = cluster.apollo(1).current_id("app", "default", FILE).await;
    }
}

/// A limit of its own for each round, so that every answer holds one rule more.
async fn discover_rules(cluster: &Cluster, discoveries: usize) {
    const LIMITS: &str = "/naming/v1/ratelimits";
    let mut question = json!({"type": "RATE_LIMIT", "service": {"namespace": "shop", "name": "pay"}});
    let (idle, free, token) = (resident(cluster), kernel(), cluster.token());
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
            println!("kernel: {} bytes a request, both ends", kernel().saturating_sub(free) / discoveries as u64);
        }
        let taker = 1 + round % 3;
        let limit = json!([{"namespace": "shop", "name": name, "service": "pay"}]);
        cluster.api(taker).post(LIMITS, &limit).await.expect_code(200_000);
        cluster
            .api(taker)
            .post(&format!("{LIMITS}/releases"), &json!([{"rule_name": name}]))
            .await
            .expect_code(200_000);
        tell_times(taker, now(), held).await;
        question["timeout_ms"] = json!(0);
        question["service"]["revision"] = json!("");
    }
}

/// One instance of the service gets another weight in each round.
async fn watch_instances(cluster: &Cluster, watchers: usize) {
    const INSTANCES: &str = "/naming/v1/instances";
    let (service, token) = (json!({"namespace": "shop", "name": "fleet"}), cluster.token());
    let instance = |number: usize| {
        json!({"namespace": "shop", "service": "fleet", "host": format!("10.0.0.{number}"), "port": 8080,
               "metadata": {"zone": "a"}})
    };
    let fleet: Vec<_> = (0..setting("THUBAN_BENCH_FLEET", 10)).map(instance).collect();
    cluster.api(1).post(INSTANCES, &json!(fleet)).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    let (idle, free) = (resident(cluster), kernel());
    for round in rounds() {
        let seen = cluster.api(1).post("/v1/Discover", &json!({"type": "INSTANCE", "service": service})).await;
        let body = json!({"type": "INSTANCE", "timeout_ms": 50_000, "applied_index": seen.body["applied_index"],
            "service": {"namespace": "shop", "name": "fleet", "revision": seen.body["service"]["revision"]}});
        let (body, answer) = (body.to_string(), seen.body.to_string().len());
        let length = body.len();
        let request = |node: u64| {
            let head = format!("POST /v1/Discover HTTP/1.1\r\nHost: bench\r\nAuthorization: {token}\r\n");
            (cluster.ports(node).api, format!("{head}Content-Length: {length}\r\n\r\n{body}"))
        };
        let held = hold(cluster, watchers, request, "{\"code\":200000,").await;
        if round == 0 {
            println!("watchers of {} instances, an answer of {answer} bytes", fleet.len());
            tell_memory(idle, resident(cluster), watchers);
            println!("kernel: {} bytes a request, both ends", kernel().saturating_sub(free) / watchers as u64);
        }
        let (taker, worked) = (1 + round % 3, worked(cluster));
        let mut changed = instance(0);
        changed["weight"] = json!(round);
        cluster.api(taker).put(INSTANCES, &json!([changed])).await.expect_code(200_000);
        tell_times(taker, now(), held).await;
        let each = (self::worked(cluster) - worked) / u32::try_from(watchers).expect("a number of sockets");
        println!("    the nodes' processor: {each:?} a watcher that is told");
    }
}

/// Work of one node's clients: each sends a request and waits for an answer with the expected beginning.
#[derive(Serialize, Deserialize)]
struct Order {
    address: SocketAddr,
    request: String,
    expected: String,
    count: usize,
}

/// The clients of one node, in a process of their own.
struct Clients {
    node: u64,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Clients {
    async fn start(node: u64, order: &Order) -> Clients {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.arg(CLIENTS).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("it starts");
        let order = serde_json::to_string(order).expect("JSON") + "\n";
        let mut input = process.stdin.take().expect("piped");
        input.write_all(order.as_bytes()).await.expect("it reads");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        Clients { node, process, lines }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(HELD_LIMIT, self.lines.next_line()).await.expect("it says something");
        line.expect("readable").expect("it goes on to the end")
    }
}

/// Runs the clients of [`Clients`]: reports that all requests are sent, then the time of each answer.
async fn be_clients() {
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await.expect("an order");
    let order: Order = serde_json::from_str(&line).expect("an order");
    let mut answers = JoinSet::new();
    for _ in 0..order.count {
        let (stream, expected) = (send(order.address, &order.request).await, order.expected.clone());
        answers.spawn(answered(stream, expected));
    }
    println!("sent");
    let mut times: Vec<Duration> = Vec::with_capacity(order.count);
    while let Some(at) = answers.join_next().await {
        let at = at.expect("a reader does not panic");
        times.push(at.duration_since(SystemTime::UNIX_EPOCH).expect("it is later"));
    }
    println!("{}", serde_json::to_string(&times).expect("JSON"));
}

/// Sends the requests, spread equally; returns once the nodes report to hold them all.
async fn hold(
    cluster: &Cluster,
    polls: usize,
    request: impl Fn(u64) -> (SocketAddr, String),
    expected: &str,
) -> Vec<Clients> {
    let nodes = setting("THUBAN_BENCH_NODES", cluster.ids().len());
    let mut all = Vec::new();
    for node in cluster.ids().into_iter().take(nodes) {
        let (address, request) = request(node);
        let order = Order { address, request, expected: expected.to_owned(), count: polls / nodes };
        all.push(Clients::start(node, &order).await);
    }
    for clients in &mut all {
        assert_eq!(clients.line().await, "sent");
        let (api, expected) = (cluster.api(clients.node), (polls / nodes) as f64);
        eventually(HELD_LIMIT, "the node holds its polls", || async {
            match api.metric("thuban_long_polls_held").await {
                Some(count) if count == expected => Ok(()),
                seen => Err(format!("{seen:?} of {expected}")),
            }
        })
        .await;
    }
    all
}

async fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address)
        .await
        .unwrap_or_else(|error| panic!("{error}; is the limit of open files high enough? see scripts/bench-polls"));
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    stream
}

/// Waits for every answer and prints when they came, counted from the acknowledgement of the publish.
async fn tell_times(taker: u64, acknowledged: SystemTime, held: Vec<Clients>) {
    let mut all = Vec::new();
    let mut of_nodes = Vec::new();
    for mut clients in held {
        let times: Vec<Duration> = serde_json::from_str(&clients.line().await).expect("times");
        clients.process.wait().await.expect("it ends");
        let delay = |at: Duration| (SystemTime::UNIX_EPOCH + at).duration_since(acknowledged).unwrap_or_default();
        let mut delays: Vec<Duration> = times.into_iter().map(delay).collect();
        of_nodes.push((clients.node, percentiles(&mut delays)));
        all.append(&mut delays);
    }
    println!("publish through node {taker}, {} requests answered: {}", all.len(), percentiles(&mut all));
    for (node, times) in of_nodes {
        println!("    node {node}: {times}");
    }
}

fn percentiles(delays: &mut [Duration]) -> String {
    format!("p50 {:?}, last {:?}", percentile(delays, 0.5), percentile(delays, 1.0))
}

/// Time of the answer's first bytes; fails unless they hold what is expected.
async fn answered(mut stream: TcpStream, expected: String) -> SystemTime {
    let mut buffer = [0; 1024];
    let read = tokio::time::timeout(ANSWER_LIMIT, stream.read(&mut buffer)).await.expect("the poll is answered");
    let at = now();
    let length = read.expect("the connection holds");
    let head = String::from_utf8_lossy(&buffer[..length]);
    assert!(head.contains(&expected), "{head}");
    at
}

/// The same clock in all processes.
fn now() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "nothing is replicated here")]
    SystemTime::now()
}

/// Memory of the kernel in structures and in buffers of TCP.
fn kernel() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).expect("Linux tells it");
    let (memory, sockets) = (read("/proc/meminfo"), read("/proc/net/sockstat"));
    let slab = memory.lines().find_map(|line| line.strip_prefix("Slab:")).expect("it is told");
    let slab: u64 = slab.trim().trim_end_matches(" kB").parse().expect("a number");
    let pages = sockets.lines().find_map(|line| line.strip_prefix("TCP:")?.rsplit_once("mem ")).expect("it is told").1;
    slab * 1024 + pages.trim().parse::<u64>().expect("a number") * 4096
}

/// Processor time of all nodes.
fn worked(cluster: &Cluster) -> Duration {
    cluster.ids().into_iter().map(|id| cluster.process(id).processor_time()).sum()
}

/// Resident memory of all nodes, in bytes.
fn resident(cluster: &Cluster) -> u64 {
    cluster.ids().into_iter().map(|id| cluster.process(id).resident_bytes()).sum()
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
