//! A hundred thousand held polls on one node: the memory of each, and the time in which one publish answers all.
//!
//! A process has too few file descriptors for that many sockets, so the clients are connected by streams in memory,
//! which are served like those that a listener accepts. Each stage is a process of its own:
//!
//! | stage | holds |
//! |---|---|
//! | `streams` | the streams with a request in each, which is not read |
//! | `hyper` | the same, each read by hyper and axum, with a handler that waits without state |
//! | `thuban` | the same, each a poll held by a node of a cluster of one |
//!
//! In the last stage a client on a socket pulls a file continuously; then nothing changes for a while; then a file is
//! published. `scripts/bench-held` runs it. `THUBAN_BENCH_HELD` (100,000) sets the number of polls,
//! `THUBAN_BENCH_SECONDS` (10) the time without changes.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use clap::Parser;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use thuban::config::ServeArgs;
use thuban::connections::{ConnectionLimiter, serve_stream};
use thuban::metrics::Metrics;
use thuban::origin::Origin;
use thuban::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use url::form_urlencoded::byte_serialize;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PASSWORD: &str = "a password for benches only";
/// Capacity of a stream, in bytes that the other end has not read.
const PIPE_BYTES: usize = 4096;
/// Between two pulls of the client that is not held.
const PULL_EVERY: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    serve: ServeArgs,
}

fn main() {
    let stage = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    match stage.as_deref() {
        None => all(),
        Some("streams") => run(streams()),
        Some("hyper") => run(hyper_alone()),
        Some("thuban") => run(held()),
        Some(other) => panic!("{other} is no stage"),
    }
}

fn run(stage: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(stage);
}

/// Each stage, one after the other.
fn all() {
    println!("{} polls, {} cores", count(), std::thread::available_parallelism().expect("known"));
    for stage in ["streams", "hyper", "thuban"] {
        let program = std::env::current_exe().expect("this program");
        let status = Command::new(program).arg(stage).status().expect("it starts");
        assert!(status.success(), "{stage} failed");
    }
}

fn setting(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn count() -> usize {
    setting("THUBAN_BENCH_HELD", 100_000)
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("resident memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}

/// User and system time of this process.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a process has times");
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|text| text.parse::<u64>().ok()).expect("ticks");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn tell_memory(what: &str, before: u64) {
    let now = resident();
    println!("{what}: {} bytes each, {} MiB in all", now.saturating_sub(before) / count() as u64, now >> 20);
}

/// Requests of a client that waits for changes of its files, as Apollo's Java client does.
fn request(id: i64) -> String {
    let files = json!([{"namespaceName": "application", "notificationId": id}]).to_string();
    let files: String = byte_serialize(files.as_bytes()).collect();
    format!(
        "GET /notifications/v2?cluster=default&appId=app&ip=192.0.2.77&notifications={files} HTTP/1.1\r\n\
         User-Agent: Java/17.0.9\r\nHost: 127.0.0.1:8890\r\nAccept: text/html, image/gif, image/jpeg, */*; q=0.2\r\n\
         Connection: keep-alive\r\n\r\n"
    )
}

/// A client's end and the server's, with a request on its way.
async fn stream(request: &str) -> (DuplexStream, DuplexStream) {
    let (mut client, server) = duplex(PIPE_BYTES);
    client.write_all(request.as_bytes()).await.expect("the pipe takes a request");
    (client, server)
}

async fn streams() {
    let (before, request) = (resident(), request(1));
    let mut pairs = Vec::with_capacity(count());
    for _ in 0..count() {
        pairs.push(stream(&request).await);
    }
    tell_memory("streams alone", before);
}

async fn hyper_alone() {
    let (before, request) = (resident(), request(1));
    let begun = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = begun.clone();
    let router = Router::new().route("/notifications/v2", {
        get(async move || {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        })
    });
    let mut clients = Vec::with_capacity(count());
    for _ in 0..count() {
        let (client, server) = stream(&request).await;
        let service = hyper_util::service::TowerToHyperService::new(router.clone());
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service));
        clients.push(client);
    }
    eventually(|| begun.load(Ordering::Relaxed) == count()).await;
    tell_memory("hyper and axum alone", before);
}

async fn eventually(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "it never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a client for plain HTTP; the library requires a TLS configuration nevertheless.
fn http() -> reqwest::Client {
    let tls = thuban_outbound::trust::trusting_nobody().expect("a client without authorities");
    #[expect(clippy::disallowed_methods, reason = "this is where it gets its TLS")]
    let builder = reqwest::Client::builder();
    builder.tls_backend_preconfigured(tls).build().expect("a client")
}

/// A client of the node on sockets.
struct Client {
    http: reqwest::Client,
    api: String,
    compat: String,
    token: String,
}

impl Client {
    async fn login(api: SocketAddr, compat: SocketAddr) -> Client {
        let (api, compat) = (format!("http://{api}"), format!("http://{compat}"));
        let mut client = Client { http: http(), api, compat, token: String::new() };
        let begun = Instant::now();
        while client.token.is_empty() {
            assert!(begun.elapsed() < LIMIT, "nobody can log in");
            let answer = client.post("/auth/v1/user/login", &json!({"name": "admin", "password": PASSWORD})).await;
            client.token = answer["loginResponse"]["token"].as_str().unwrap_or_default().to_owned();
        }
        client
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = self.http.post(format!("{}{path}", self.api)).header("Authorization", &self.token);
        request.json(body).send().await.expect("an answer").json().await.expect("JSON")
    }

    async fn publish(&self, content: &str) {
        let file = json!({"namespace": "default", "group": "app", "file_name": "application.properties"});
        let mut file = file;
        file["content"] = content.into();
        let answer = self.post("/config/v1/configfiles/createandpub", &file).await;
        assert_eq!(answer["code"], 200_000, "{answer}");
    }

    /// Returns the id that the node sends to a client without one.
    async fn current_id(&self) -> i64 {
        let files = json!([{"namespaceName": "application", "notificationId": -1}]).to_string();
        let query = [("appId", "app"), ("cluster", "default"), ("notifications", &files)];
        let query: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let answer = self.http.get(format!("{}/notifications/v2?{query}", self.compat)).send().await;
        let answer: Value = answer.expect("an answer").json().await.expect("JSON");
        answer[0]["notificationId"].as_i64().expect("an id")
    }

    /// Duration of one pull.
    async fn pull(&self) -> Duration {
        let begun = Instant::now();
        let answer = self.http.get(format!("{}/configs/app/default/application", self.compat)).send().await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 200);
        answer.bytes().await.expect("the file");
        begun.elapsed()
    }
}

/// Pulls until it is stopped; returns the time of each pull.
async fn pull_on(client: Arc<Client>, stop: Arc<AtomicBool>) -> Vec<(Instant, Duration)> {
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let at = Instant::now();
        times.push((at, client.pull().await));
        tokio::time::sleep(PULL_EVERY).await;
    }
    times
}

fn percentiles(times: impl Iterator<Item = Duration>) -> String {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!("p50 {:.1?}, p99 {:.1?}, slowest {:.1?} of {}", at(0.5), at(0.99), at(1.0), times.len())
}

async fn start(directory: &std::path::Path) -> Server {
    let per_address = (2 * count()).to_string();
    let data = directory.to_string_lossy().into_owned();
    let settings = [
        "bench",
        "--node-id",
        "1",
        "--data-dir",
        &data,
        "--api-addr",
        "127.0.0.1:0",
        "--compat-addr",
        "127.0.0.1:0",
        "--peer-addr",
        "127.0.0.1:0",
        "--grpc-addr",
        "off",
        "--initial-cluster",
        "1=127.0.0.1:8190",
        "--admin-password",
        PASSWORD,
        "--connections-per-address",
        &per_address,
        "--long-poll-timeout-ms",
        "89000",
    ];
    let config = Settings::parse_from(settings).serve.check().expect("settings that go together");
    Server::start(config).await.expect("a node")
}

async fn held() {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let server = start(directory.path()).await;
    let (bound, surface) = (server.bound.clone(), server.surface("compat").expect("it has one"));
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async move { stopped.await.unwrap_or_default() }));
    let client = Arc::new(Client::login(bound.api, bound.compat).await);
    client.publish("round=0").await;
    let alone = tell_pulls(&client).await;

    let (before, request) = (resident(), request(client.current_id().await));
    let places = ConnectionLimiter::new(count(), count(), Arc::new(Metrics::new().expect("a consistent table")));
    let mut clients = Vec::with_capacity(count());
    let begun = Instant::now();
    for number in 0..count() {
        let (end, server) = stream(&request).await;
        let address = Ipv4Addr::from_bits(0x0a00_0000 + number as u32);
        let place = places.take("compat", Origin::UNKNOWN).expect("free");
        let closing = CancellationToken::new();
        tokio::spawn(serve_stream(server, (address, 1).into(), surface.clone(), place, closing));
        clients.push(end);
    }
    let polls = || gauge(&client, "thuban_long_polls_held");
    while polls().await < count() {
        assert!(begun.elapsed() < LIMIT, "not all are held");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("held after {:.1?}", begun.elapsed());
    tell_memory("held by thuban", before);

    let seconds = setting("THUBAN_BENCH_SECONDS", 10) as u64;
    let used = processor();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let share = (processor() - used).as_secs_f64() / seconds as f64;
    println!("nothing changes for {seconds} s: {:.2} % of a core", share * 100.0);

    let halt = Arc::new(AtomicBool::new(false));
    let pulls = tokio::spawn(pull_on(client.clone(), halt.clone()));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (used, published) = (processor(), Instant::now());
    client.publish("round=1").await;
    let acknowledged = Instant::now();
    for client in &mut clients {
        let mut bytes = [0; PIPE_BYTES];
        let read = tokio::time::timeout(LIMIT, client.read(&mut bytes)).await.expect("an answer").expect("open");
        let answer = String::from_utf8_lossy(&bytes[..read]);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("notificationId"), "{answer}");
    }
    let answered = Instant::now();
    let cost = (processor() - used).as_secs_f64() * 1e6 / count() as f64;
    println!(
        "one publish: the last poll is answered {:.0?} after the acknowledgement, {:.0?} after it was sent; \
         {cost:.1} us of processor a poll, both ends",
        answered.saturating_duration_since(acknowledged),
        answered - published
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    halt.store(true, Ordering::Relaxed);
    let pulls = pulls.await.expect("no panic");
    println!("pulls of one client, nothing held: {alone}");
    println!(
        "    while they are held: {}",
        percentiles(pulls.iter().filter(|(at, _)| *at < published).map(|(_, took)| *took))
    );
    let during = pulls.iter().filter(|(at, took)| *at + *took >= published && *at <= answered);
    println!("    while they are answered: {}", percentiles(during.map(|(_, took)| *took)));
    tell_memory("answered, connections open", before);
    drop(clients);
    stop.send(()).expect("it runs");
    running.await.expect("no panic").expect("it goes down in order");
}

async fn tell_pulls(client: &Arc<Client>) -> String {
    let halt = Arc::new(AtomicBool::new(false));
    let pulls = tokio::spawn(pull_on(client.clone(), halt.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    halt.store(true, Ordering::Relaxed);
    percentiles(pulls.await.expect("no panic").into_iter().map(|(_, took)| took))
}

async fn gauge(client: &Client, name: &str) -> usize {
    let text = client.http.get(format!("{}/metrics", client.api)).send().await.expect("an answer").text().await;
    let text = text.expect("text");
    let line = text.lines().find(|line| line.split(' ').next() == Some(name)).expect("the series is there");
    line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number") as usize
}
