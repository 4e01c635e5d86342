//! Many delta streams of xDS on one node, each with the services of one namespace: how soon has the last of them a rule
//! that is published, or an instance that changed, what does a stream cost in memory, and how long do all take to come
//! back when the node was killed?
//!
//! `THUBAN_BENCH_STREAMS` (1,000) sets the streams, each on a connection of its own as proxies have them and by turns
//! from one of four addresses, as half of all connections may come from one,
//! `THUBAN_BENCH_SERVICES` (10,000) the services there are with `THUBAN_BENCH_FLEET` (10) instances each,
//! `THUBAN_BENCH_SEEN` (100) how many of them are in the namespace of the streams, and `THUBAN_BENCH_ROUNDS` (5) the
//! changes of each kind. The clients live in this program: their work is in the times told, not in the memory.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thuban::proto::envoy::config::core::v3::Node;
use thuban::proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[expect(dead_code, reason = "the harness of the tests has more than a bench needs")]
#[expect(unused_imports, reason = "the harness of the tests has more than a bench needs")]
#[path = "../tests/it/harness/mod.rs"]
mod harness;

use harness::ads::{AdsConnection, AdsStream, CLUSTER, DELTA, ENDPOINTS, Ended, node};
use harness::{Api, Cluster, percentile, setting};
use prost::Message;

const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const INSTANCES: &str = "/naming/v1/instances";
const RULES: &str = "/naming/v1/routings";
const SEEN: &str = "seen";
const BATCH: usize = 100;
/// Addresses that the streams come from.
const ADDRESSES: usize = 4;
const LIMIT: Duration = Duration::from_secs(120);
/// As Envoy waits before it comes back.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() {
    let (streams, services) = (setting("THUBAN_BENCH_STREAMS", 1_000_usize), setting("THUBAN_BENCH_SERVICES", 10_000));
    let mut cluster = Cluster::start_with(1, &["--connections-per-address", "1000000"]).await;
    let seen = setting("THUBAN_BENCH_SEEN", 100_usize).min(services);
    fill(&cluster.api(1), services, seen).await;
    let idle = cluster.process(1).resident_bytes();
    let (tell, mut told) = unbounded_channel();
    let began = Instant::now();
    for number in 0..streams {
        tokio::spawn(follow(number, cluster.ports(1).grpc, seen, tell.clone()));
    }
    all_have(&mut told, streams, began, "first state", is_state).await;
    let each = cluster.process(1).resident_bytes().saturating_sub(idle) / streams as u64;
    println!("memory: idle {} MiB with {services} services, {each} bytes a stream more", idle >> 20);
    for round in 0..setting("THUBAN_BENCH_ROUNDS", 5_u32) {
        let worked = cluster.process(1).processor_time();
        let began = Instant::now();
        let changed = with(instance(SEEN, 0, 0), json!({"weight": 50 + round}));
        cluster.api(1).put(INSTANCES, &json!([changed])).await.expect_code(200_000);
        all_have(&mut told, streams, began, "an instance changed", |event| event.kind == ENDPOINTS).await;
        let began = Instant::now();
        publish(&cluster.api(1), round).await;
        all_have(&mut told, streams, began, "a rule published", |event| event.kind == ROUTES).await;
        let worked = cluster.process(1).processor_time() - worked;
        println!("    the node's processor: {:?} a stream for both", worked / u32::try_from(streams).expect("fewer"));
    }
    cluster.kill(1).await;
    let began = Instant::now();
    cluster.restart(1).await;
    println!("the node was killed and is ready after {:?}", began.elapsed());
    all_have(&mut told, streams, began, "back again", is_state).await;
}

/// All services; those that are seen are in a namespace of their own.
async fn fill(api: &Api, services: usize, seen: usize) {
    let fleet = setting("THUBAN_BENCH_FLEET", 10_usize);
    let of = |service: usize| if service < seen { SEEN } else { "others" };
    let all: Vec<Value> =
        (0..services).flat_map(|one| (0..fleet).map(move |place| instance(of(one), one, place))).collect();
    for batch in all.chunks(BATCH) {
        api.post(INSTANCES, &json!(batch)).await.expect_code(200_000);
    }
}

fn instance(namespace: &str, service: usize, place: usize) -> Value {
    let host = format!("10.{place}.{}.{}", service >> 8, service & 255);
    json!({"namespace": namespace, "service": format!("service-{service:05}"), "host": host, "port": 8080,
           "metadata": {"version": if place == 0 { "v2" } else { "v1" }}})
}

fn with(mut object: Value, more: Value) -> Value {
    object.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    object
}

async fn publish(api: &Api, round: u32) {
    let of = json!({"service": "service-00000", "namespace": SEEN});
    let anybody = json!({"service": "*", "namespace": "*"});
    let argument = json!({"type": "HEADER", "key": "round", "value": {"value": round.to_string()}});
    let rule = json!({"name": "one", "arguments": {"arguments": [argument]}, "destinations": [of]});
    let config = json!({"caller": anybody, "callee": of, "rules": [rule]});
    let item = json!([{"name": "rule", "namespace": SEEN, "route_policy": "RulePolicy", "routing_config": config}]);
    match round {
        0 => api.post(RULES, &item).await,
        _ => api.put(RULES, &item).await,
    }
    .expect_code(200_000);
    let release = json!([{"rule_name": "rule", "namespace": SEEN}]);
    api.post(&format!("{RULES}/releases"), &release).await.expect_code(200_000);
}

/// A response that a stream got.
struct Event {
    stream: usize,
    kind: String,
    at: Instant,
    bytes: usize,
    /// The stream has everything that it asked for.
    is_whole: bool,
}

fn is_state(event: &Event) -> bool {
    event.is_whole
}

/// Waits until each stream has got what is meant, and tells when.
async fn all_have(
    told: &mut UnboundedReceiver<Event>,
    streams: usize,
    began: Instant,
    what: &str,
    is_meant: impl Fn(&Event) -> bool,
) {
    let mut times: HashMap<usize, Duration> = HashMap::new();
    let mut bytes = 0;
    let all = async {
        while times.len() < streams {
            let event = told.recv().await.expect("streams go on");
            bytes += event.bytes;
            if is_meant(&event) {
                times.entry(event.stream).or_insert(event.at.saturating_duration_since(began));
            }
        }
    };
    let is_in_time = tokio::time::timeout(LIMIT, all).await.is_ok();
    let mut delays: Vec<Duration> = times.into_values().collect();
    assert!(is_in_time, "{what}: {} of {streams} streams have it after {LIMIT:?}", delays.len());
    let [p50, p99, last] = [0.5, 0.99, 1.0].map(|share| percentile(&mut delays, share));
    println!("{what}: p50 {p50:?}, p99 {p99:?}, last {last:?}; {} bytes a stream", bytes / streams);
}

/// State of one client, which outlives its streams.
struct Follower {
    number: usize,
    seen: usize,
    tell: UnboundedSender<Event>,
    /// Version of each resource, by type and name.
    has: HashMap<&'static str, HashMap<String, String>>,
}

async fn follow(number: usize, address: SocketAddr, seen: usize, tell: UnboundedSender<Event>) {
    let mut follower = Follower { number, seen, tell, has: HashMap::new() };
    let own = Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(number % ADDRESSES).expect("few"));
    loop {
        if let Ok(connection) = AdsConnection::try_open_from(own.into(), address).await {
            let mut stream = connection.stream(DELTA).await;
            let _: Ended = follower.hear(&mut stream).await;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

impl Follower {
    async fn hear(&mut self, stream: &mut AdsStream) -> Ended {
        let mut asked = false;
        let first = DeltaDiscoveryRequest { node: self.node(), ..self.question(CLUSTER, Vec::new()) };
        stream.send(&first);
        let mut answered = false;
        loop {
            let response: DeltaDiscoveryResponse = match stream.receive().await {
                Ok(response) => response,
                Err(ended) => return ended,
            };
            self.take(&response, &mut answered);
            stream.send(&DeltaDiscoveryRequest {
                type_url: response.type_url.clone(),
                response_nonce: response.nonce,
                ..DeltaDiscoveryRequest::default()
            });
            if response.type_url == CLUSTER && !asked {
                asked = true;
                let names = self.has.get(CLUSTER).into_iter().flatten().map(|(name, _)| name.clone()).collect();
                stream.send(&self.question(ENDPOINTS, names));
                stream.send(&self.question(ROUTES, vec![format!("outbound/{SEEN}")]));
            }
        }
    }

    fn take(&mut self, response: &DeltaDiscoveryResponse, answered: &mut bool) {
        let kind = [CLUSTER, ENDPOINTS, ROUTES].into_iter().find(|kind| *kind == response.type_url).expect("asked for");
        let has = self.has.entry(kind).or_default();
        has.extend(response.resources.iter().map(|one| (one.name.clone(), one.version.clone())));
        response.removed_resources.iter().for_each(|name| drop(has.remove(name)));
        let count = |kind: &str| self.has.get(kind).map_or(0, HashMap::len);
        // What is known already is not sent again after a reconnect: the first answer is then all.
        let is_whole = !*answered && count(CLUSTER) >= self.seen && count(ENDPOINTS) >= self.seen && count(ROUTES) > 0;
        *answered |= is_whole;
        let event = Event {
            stream: self.number,
            kind: kind.to_owned(),
            at: Instant::now(),
            bytes: response.encoded_len(),
            is_whole,
        };
        // The receiver goes first at the end.
        let _ = self.tell.send(event);
    }

    fn question(&self, kind: &'static str, names: Vec<String>) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest {
            type_url: kind.to_owned(),
            resource_names_subscribe: names,
            initial_resource_versions: self
                .has
                .get(kind)
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            ..DeltaDiscoveryRequest::default()
        }
    }

    fn node(&self) -> Option<Node> {
        let mut node = node(&format!("bench-{}", self.number), "envoy")?;
        node.cluster = format!("{SEEN}/client");
        Some(node)
    }
}
