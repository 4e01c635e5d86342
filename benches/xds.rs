//! Many delta xDS streams on one node, each with the services of one namespace: the time until the last of them has a
//! published rule or a changed instance, the memory of a stream, and the time until all have reconnected after the node
//! was killed.
//!
//! `THUBAN_BENCH_STREAMS` (1,000) sets the streams, each on a connection of its own as with proxies, from four
//! addresses in turn, because one address may have at most half of all connections; `THUBAN_BENCH_SERVICES` (10,000)
//! the services, with `THUBAN_BENCH_FLEET` (10) instances each; `THUBAN_BENCH_SEEN` (100) the number of them in the
//! namespace of the streams; `THUBAN_BENCH_ROUNDS` (5) the changes of each kind; and `THUBAN_BENCH_RULES`
//! (`headers,nearness,parameters,callers`) the kinds of rules, one after the other, with those of the previous kinds
//! still active. The clients run in this process: the times include their work, the memory figures do not.
//!
//! Each stream has one of 64 locations, ten of which have instances, and a label of its own.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thuban::proto::envoy::config::cluster::v3::Cluster as Cds;
use thuban::proto::envoy::config::core::v3::{Locality, Node};
use thuban::proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[expect(dead_code, reason = "the harness of the tests has more than a bench needs")]
#[expect(unused_imports, reason = "the harness of the tests has more than a bench needs")]
#[path = "../tests/it/harness/mod.rs"]
mod harness;

use harness::ads::{AdsConnection, AdsStream, CLUSTER, DELTA, ENDPOINTS, Ended, node};
use harness::{Api, Cluster, percentile, setting};
use prost::Message;
use prost_types::{Struct, value};

const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const INSTANCES: &str = "/naming/v1/instances";
const RULES: &str = "/naming/v1/routings";
const SEEN: &str = "seen";
const BATCH: usize = 100;
/// Campuses that streams are in.
const CAMPUSES: usize = 64;
/// Number of addresses of the clients.
const ADDRESSES: usize = 4;
const LIMIT: Duration = Duration::from_secs(120);
/// Time without a response after which streams have everything.
const QUIET: Duration = Duration::from_millis(300);
/// Pause before a reconnect, as in Envoy.
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
    let chosen = setting("THUBAN_BENCH_RULES", "headers,nearness,parameters,callers".to_owned());
    for kind in chosen.split(',').map(RuleKind::named) {
        if matches!(kind, RuleKind::Nearness) {
            let config = json!({"namespace": SEEN, "service": "*", "match_level": "ZONE", "max_match_level": "ALL"});
            publish(&cluster.api(1), 0, "near", "NearbyPolicy", &config).await;
            settle(&mut told).await;
        }
        for round in 0..setting("THUBAN_BENCH_ROUNDS", 5_u32) {
            let worked = cluster.process(1).processor_time();
            let began = Instant::now();
            let changed = with(instance(SEEN, kind.service(), 0), json!({"weight": 50 + round}));
            cluster.api(1).put(INSTANCES, &json!([changed])).await.expect_code(200_000);
            let what = format!("{kind:?}: an instance changed");
            all_have(&mut told, streams, began, &what, |event| event.kind == ENDPOINTS).await;
            settle(&mut told).await;
            let began = Instant::now();
            publish(&cluster.api(1), round, &format!("{kind:?}"), kind.policy(), &kind.config(round)).await;
            let what = format!("{kind:?}: a rule published");
            all_have(&mut told, streams, began, &what, |event| event.kind == kind.shows_in()).await;
            settle(&mut told).await;
            let worked = cluster.process(1).processor_time() - worked;
            println!(
                "    the node's processor: {:?} a stream for both",
                worked / u32::try_from(streams).expect("fewer")
            );
        }
    }
    let each = cluster.process(1).resident_bytes().saturating_sub(idle) / streams as u64;
    println!("memory at the end: {each} bytes a stream more");
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
           "location": {"region": "r", "zone": format!("z{}", place % 2), "campus": format!("c{place}")},
           "metadata": {"version": if place == 0 { "v2" } else { "v1" }, "pod": format!("{service}-{place}")}})
}

fn with(mut object: Value, more: Value) -> Value {
    object.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    object
}

/// Kind of a rule that is published in rounds, for a service of its own.
#[derive(Clone, Copy, Debug)]
enum RuleKind {
    /// Callers from everywhere, by a header.
    Headers,
    /// Nearby routing, with a rule of nearby routing for all services of the namespace.
    Nearness,
    /// Label copied from a header, with a different value for each instance.
    Parameters,
    /// A pattern on a label of the caller, of which each stream has a value of its own.
    Callers,
}

impl RuleKind {
    fn named(name: &str) -> RuleKind {
        let all = [RuleKind::Headers, RuleKind::Nearness, RuleKind::Parameters, RuleKind::Callers];
        let is_named = |kind: &RuleKind| format!("{kind:?}").eq_ignore_ascii_case(name);
        all.into_iter().find(is_named).unwrap_or_else(|| panic!("THUBAN_BENCH_RULES: {name} is no kind of rules"))
    }

    fn service(self) -> usize {
        self as usize
    }

    fn policy(self) -> &'static str {
        if matches!(self, RuleKind::Nearness) { "NearbyPolicy" } else { "RulePolicy" }
    }

    /// Type of the resources that change with it.
    fn shows_in(self) -> &'static str {
        if matches!(self, RuleKind::Nearness) { ENDPOINTS } else { ROUTES }
    }

    fn config(self, round: u32) -> Value {
        let of = json!({"service": format!("service-{:05}", self.service()), "namespace": SEEN});
        let is_now = json!({"type": "HEADER", "key": "round", "value": {"value": round.to_string()}});
        let (arguments, labels) = match self {
            RuleKind::Headers => (vec![is_now], json!({})),
            RuleKind::Nearness => {
                let level = if round.is_multiple_of(2) { "REGION" } else { "CAMPUS" };
                return with(of, json!({"match_level": level, "max_match_level": "ALL"}));
            }
            RuleKind::Parameters => {
                let pod = json!({"type": "EXACT", "value": "x-pod", "value_type": "PARAMETER"});
                (vec![is_now, json!({"type": "HEADER", "key": "x-pod", "value": pod})], json!({"pod": pod}))
            }
            RuleKind::Callers => {
                let pattern = json!({"type": "REGEX", "value": "^(gray|blue)-[0-9]{1,6}$"});
                (vec![is_now, json!({"type": "CALLER_METADATA", "key": "shade", "value": pattern})], json!({}))
            }
        };
        let destination = with(of.clone(), json!({"labels": labels}));
        let rule = json!({"name": "one", "arguments": {"arguments": arguments}, "destinations": [destination]});
        json!({"caller": {"service": "*", "namespace": "*"}, "callee": of, "rules": [rule]})
    }
}

async fn publish(api: &Api, round: u32, name: &str, policy: &str, config: &Value) {
    // Rules for all services have the lowest priority.
    let priority = u32::from(config["service"] == "*");
    let item = json!([{"name": name, "namespace": SEEN, "route_policy": policy, "priority": priority,
                       "routing_config": config}]);
    match round {
        0 => api.post(RULES, &item).await,
        _ => api.put(RULES, &item).await,
    }
    .expect_code(200_000);
    let release = json!([{"rule_name": name, "namespace": SEEN}]);
    api.post(&format!("{RULES}/releases"), &release).await.expect_code(200_000);
}

/// A response that a stream got.
struct Event {
    stream: usize,
    kind: String,
    at: Instant,
    bytes: usize,
    /// True if the stream has everything that it subscribed to.
    is_whole: bool,
}

fn is_state(event: &Event) -> bool {
    event.is_whole
}

/// Drops responses until none has arrived for a while.
async fn settle(told: &mut UnboundedReceiver<Event>) {
    while let Ok(event) = tokio::time::timeout(QUIET, told.recv()).await {
        event.expect("streams go on");
    }
}

/// Waits until each stream has the expected state; returns the times.
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
    /// Name of the endpoints of each cluster.
    endpoints: HashMap<String, String>,
}

async fn follow(number: usize, address: SocketAddr, seen: usize, tell: UnboundedSender<Event>) {
    let mut follower = Follower { number, seen, tell, has: HashMap::new(), endpoints: HashMap::new() };
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
                response_nonce: response.nonce.clone(),
                ..DeltaDiscoveryRequest::default()
            });
            if response.type_url == CLUSTER {
                let (new, old) = self.follow_clusters(&response);
                if !asked {
                    asked = true;
                    stream.send(&self.question(ENDPOINTS, self.endpoints.values().cloned().collect()));
                    stream.send(&self.question(ROUTES, vec![format!("outbound/{SEEN}")]));
                } else if !(new.is_empty() && old.is_empty()) {
                    let change =
                        DeltaDiscoveryRequest { resource_names_unsubscribe: old, ..subscription(ENDPOINTS, new) };
                    stream.send(&change);
                }
            }
        }
    }

    /// Follows clusters to their endpoints, as Envoy does: names to ask for, and names that no cluster has any more.
    fn follow_clusters(&mut self, response: &DeltaDiscoveryResponse) -> (Vec<String>, Vec<String>) {
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for one in &response.resources {
            let bytes = one.resource.as_ref().expect("a resource").value.clone();
            let cluster = Cds::decode(bytes).expect("a cluster");
            let name = cluster.eds_cluster_config.expect("by EDS").service_name;
            let before = self.endpoints.insert(cluster.name, name.clone());
            if before.as_ref() != Some(&name) {
                new.push(name);
                old.extend(before);
            }
        }
        old.extend(response.removed_resources.iter().filter_map(|name| self.endpoints.remove(name)));
        if let Some(has) = self.has.get_mut(ENDPOINTS) {
            old.iter().for_each(|name| drop(has.remove(name)));
        }
        (new, old)
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
        // The receiver is dropped first at the end.
        let _ = self.tell.send(event);
    }

    fn question(&self, kind: &'static str, names: Vec<String>) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest {
            initial_resource_versions: self
                .has
                .get(kind)
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            ..subscription(kind, names)
        }
    }

    fn node(&self) -> Option<Node> {
        let mut node = node(&format!("bench-{}", self.number), "envoy")?;
        node.cluster = format!("{SEEN}/client");
        let shade = value::Kind::StringValue(format!("gray-{}", self.number));
        let fields = [("shade".to_owned(), prost_types::Value { kind: Some(shade) })];
        node.metadata = Some(Struct { fields: fields.into() });
        let [zone, campus] = [self.number % 2, self.number % CAMPUSES];
        node.locality =
            Some(Locality { region: "r".to_owned(), zone: format!("z{zone}"), sub_zone: format!("c{campus}") });
        Some(node)
    }
}

fn subscription(kind: &str, names: Vec<String>) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.to_owned(),
        resource_names_subscribe: names,
        ..DeltaDiscoveryRequest::default()
    }
}
