//! Nodes that are suspended or cut off, without closed connections: clients continue to call without failures, get
//! changes once they reach another node or theirs returns, and never return to older resources.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::drivers::{Client, Kind, Options, Request};
use super::world::{LIMIT, ROUTES, World, group, sub_rule};
use crate::harness::{Api, Cluster, ThinLink, eventually, linked, report};

const CALLS: &str = "on and on";
const CALLS_SINCE: &str = "since the change";
/// An Envoy asks its node every 30 s whether it is there, and waits 5 s for the answer.
const NOTICED_LIMIT: Duration = Duration::from_secs(60);
const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// Calls of each client while processors of nodes are looked at.
const CALLS_AT_REST: u64 = 300;
/// Maximum processors used by an idle node.
const REST_MAX: f64 = 0.3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The process of the node does nothing, and its connections stay.
    Stopped,
    /// Clients reach the node no more, by the connections that they have or by new ones.
    FromClients,
    /// Other nodes reach the node no more.
    FromPeers,
}

/// A cluster, the links of clients to its nodes and of nodes to nodes, and clients that call.
struct Stage {
    world: World,
    to_nodes: BTreeMap<u64, ThinLink>,
    between: BTreeMap<u64, ThinLink>,
    clients: Vec<Client>,
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_live_on_when_their_node_is_stopped() {
    live_on(Fault::Stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_live_on_when_they_are_cut_off() {
    live_on(Fault::FromClients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_live_on_when_their_node_is_cut_off() {
    live_on(Fault::FromPeers).await;
}

async fn live_on(fault: Fault) {
    let mut stage = Stage::start(fault).await;
    stage.publish(1, None).await;
    stage.settle(1, LIMIT, |_| true).await;
    for client in &mut stage.clients {
        client.flow(CALLS, &Request::to("pay")).await;
        client.flow(CALLS_SINCE, &Request::to("pay")).await;
    }
    let nodes = stage.nodes_of_clients().await;
    let victim = nodes[&name(Kind::Grpc)];
    let is_on_it = |kind: Kind| nodes[&name(kind)] == victim;
    report(format!("{fault:?}: node {victim} of {nodes:?}"));

    stage.begin(fault, victim).await;
    stage.publish(2, Some(victim)).await;
    stage.settle(2, LIMIT, |kind| !is_on_it(kind)).await;
    if fault != Fault::FromPeers {
        let begun = Instant::now();
        stage.settle(2, NOTICED_LIMIT, |kind| kind.is_envoy()).await;
        report(format!("{fault:?}: every Envoy had another node after {:?}", begun.elapsed()));
    }
    stage.end(fault, victim).await;
    stage.settle(2, LIMIT, |_| true).await;
    stage.restart_flows(1).await;
    stage.expect_rest(fault).await;
    stage.expect_since(2).await;
    stage.publish(3, None).await;
    stage.settle(3, LIMIT, |_| true).await;
    for client in &mut stage.clients {
        let calls = client.stop(CALLS).await;
        report(format!("{fault:?}, {:?}: {} calls, {} failed", client.kind, calls.answered(), calls.failed()));
        assert!(calls.failed() == 0 && calls.answered() > 100, "{:?}: {calls:?}", client.kind);
    }
}

fn name(kind: Kind) -> String {
    format!("cart-{kind:?}")
}

impl Stage {
    /// Connects clients to the leader first, unless the leader has to continue alone.
    async fn start(fault: Fault) -> Stage {
        let (cluster, between) = linked(3, &[]).await;
        let between = cluster.ids().into_iter().zip(between).collect();
        let to_nodes = cluster.ids().into_iter().map(|id| (id, ThinLink::before(cluster.grpc(id)))).collect();
        let first = first_node(&cluster, fault).await;
        let world = World::over(cluster).await;
        let mut stage = Stage { world, to_nodes, between, clients: Vec::new() };
        let mut ids = stage.world.cluster.ids();
        ids.sort_by_key(|id| *id != first);
        let servers: Vec<String> = ids.iter().map(|id| stage.to_nodes[id].address().to_string()).collect();
        let options = Options { servers: Some(servers.join(",")), ..Options::default() };
        for kind in Kind::ALL {
            stage.clients.push(Client::start(kind, &stage.world.cluster, "cart", &options).await);
        }
        stage
    }

    /// A node that is not `but`.
    fn api(&self, but: Option<u64>) -> Api {
        let id = self.world.cluster.ids().into_iter().find(|id| Some(*id) != but).expect("there are several");
        self.world.cluster.api(id)
    }

    /// The rule that leads to one version, by another node than `but`, as soon as there is a leader.
    async fn publish(&self, version: u8, but: Option<u64>) {
        let api = self.api(but);
        let pay = json!({"service": "pay", "namespace": "shop"});
        let anybody = json!({"service": "*", "namespace": "*"});
        let rules = [sub_rule(&[], &[group(&format!("v{version}"), json!({}))])];
        let config = json!({"caller": anybody, "callee": pay, "rules": rules});
        let item =
            json!([{"name": "parts", "namespace": "shop", "route_policy": "RulePolicy", "routing_config": config}]);
        let method = if version == 1 { reqwest::Method::POST } else { reqwest::Method::PUT };
        eventually(WRITE_LIMIT, "the rule is saved", || is_done(&api, method.clone(), ROUTES, &item)).await;
        let release = json!([{"rule_name": "parts", "namespace": "shop", "release_name": format!("r{version}")}]);
        let path = format!("{ROUTES}/releases");
        eventually(WRITE_LIMIT, "it is published", || is_done(&api, reqwest::Method::POST, &path, &release)).await;
    }

    async fn settle(&mut self, version: u8, limit: Duration, is_meant: impl Fn(Kind) -> bool) {
        let expected = self.world.version(version);
        for client in self.clients.iter_mut().filter(|client| is_meant(client.kind)) {
            client.settles(limit, &format!("version {version}"), &Request::to("pay"), &expected).await;
        }
    }

    /// The node of each client, by the client's name.
    async fn nodes_of_clients(&self) -> BTreeMap<String, u64> {
        let api = self.api(None);
        eventually(LIMIT, "every client has a node", || async {
            let answer = api.get("/admin/v1/xds/clients").await;
            let rows = answer.body["data"].as_array().cloned().unwrap_or_default();
            let node = |row: &Value| Some((row["node_id"].as_str()?.to_owned(), row["node"].as_u64()?));
            let nodes: BTreeMap<String, u64> = rows.iter().filter_map(node).collect();
            if Kind::ALL.iter().all(|kind| nodes.contains_key(&name(*kind))) {
                Ok(nodes)
            } else {
                Err(format!("{rows:?}"))
            }
        })
        .await
    }

    async fn begin(&self, fault: Fault, victim: u64) {
        match fault {
            Fault::Stopped => self.world.cluster.pause(victim).await,
            Fault::FromClients => self.to_nodes[&victim].set_cut(true),
            Fault::FromPeers => self.between[&victim].set_cut(true),
        }
    }

    async fn end(&self, fault: Fault, victim: u64) {
        match fault {
            Fault::Stopped => self.world.cluster.resume(victim).await,
            Fault::FromClients => self.to_nodes[&victim].set_cut(false),
            Fault::FromPeers => self.between[&victim].set_cut(false),
        }
    }

    /// Ends the calls since a version and begins others; those that ended were answered by servers of this and the next
    /// version alone.
    async fn restart_flows(&mut self, version: u8) {
        let known = [self.world.version(version), self.world.version(version + 1)].concat();
        for client in &mut self.clients {
            let calls = client.stop(CALLS_SINCE).await;
            let others: Vec<_> = calls.answers.keys().filter(|server| !known.contains(server)).collect();
            assert!(others.is_empty() && calls.failed() == 0, "{:?}: {calls:?}", client.kind);
            client.flow(CALLS_SINCE, &Request::to("pay")).await;
        }
    }

    /// No call went to another version since it was settled.
    async fn expect_since(&mut self, version: u8) {
        let expected = self.world.version(version);
        for client in &mut self.clients {
            let calls = client.stop(CALLS_SINCE).await;
            assert!(
                (calls.share_of(&expected) - 1.0).abs() < f64::EPSILON,
                "{:?}: a step back: {calls:?}",
                client.kind
            );
        }
    }

    /// Nodes that have nothing to do do little, while clients call on.
    async fn expect_rest(&mut self, fault: Fault) {
        let busy = |stage: &Stage| -> BTreeMap<u64, Duration> {
            let cluster = &stage.world.cluster;
            cluster.ids().into_iter().map(|id| (id, cluster.process(id).processor_time())).collect()
        };
        let (before, begun) = (busy(self), Instant::now());
        for client in &mut self.clients {
            let client = Mutex::new(client);
            eventually(LIMIT, "calls go on", || async {
                let calls = client.lock().await.seen(CALLS_SINCE).await;
                if calls.answered() >= CALLS_AT_REST { Ok(()) } else { Err(format!("{calls:?}")) }
            })
            .await;
        }
        let elapsed = begun.elapsed().as_secs_f64();
        for (id, after) in busy(self) {
            let share = (after - before[&id]).as_secs_f64() / elapsed;
            report(format!("{fault:?}: node {id} took {share:.3} processors for {elapsed:.1} s afterwards"));
            assert!(share < REST_MAX, "node {id}: {share:.3}");
        }
    }
}

/// The leader; a follower where its peers have to do without the node.
async fn first_node(cluster: &Cluster, fault: Fault) -> u64 {
    match fault {
        Fault::Stopped | Fault::FromClients => cluster.leader().await,
        Fault::FromPeers => cluster.followers().await[0],
    }
}

/// Done, or done before by a try whose answer was lost.
async fn is_done(api: &Api, method: reqwest::Method, path: &str, item: &Value) -> Result<(), String> {
    let answer = api.try_send(method, path, Some(item)).await.map_err(|error| format!("{error:?}"))?;
    match answer.code() {
        200_000 | 200_002 | 400_201 => Ok(()),
        _ => Err(format!("{answer:?}")),
    }
}
