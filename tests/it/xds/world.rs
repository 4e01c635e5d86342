//! A cluster with services, their servers, and rules.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::drivers::{Backends, Client, Kind, Options, Request, write_bootstrap};
use crate::harness::{Answer, Api, Balancer, Cluster};

pub(super) const INSTANCES: &str = "/naming/v1/instances";
pub(super) const ROUTES: &str = "/naming/v1/routings";
/// Time limit for a change to reach a client, including one that was just started.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// Instances of `shop/pay`: two of each version; the last two servers are those of `shop/stock`.
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) backends: Backends,
    ids: Vec<String>,
    /// Before the gRPC listeners of all nodes.
    balancer: Balancer,
}

impl World {
    pub(super) async fn start(nodes: u64) -> World {
        World::over(Cluster::start(nodes).await).await
    }

    /// Registers everything in a cluster that runs.
    pub(super) async fn over(cluster: Cluster) -> World {
        let backends = Backends::start(8).await;
        let versions = ["v1", "v1", "v2", "v2", "v3", "v3"];
        let mut items: Vec<Value> = Vec::new();
        for (position, address) in backends.addresses.iter().enumerate() {
            let (host, port) = address.rsplit_once(':').expect("host and port");
            let port: u16 = port.parse().expect("a port");
            items.push(match versions.get(position) {
                Some(version) => {
                    let zone = if position % 2 == 0 { "a" } else { "b" };
                    let place = json!({"region": "eu", "zone": zone, "campus": ""});
                    json!({"namespace": "shop", "service": "pay", "host": host, "port": port,
                           "metadata": {"version": version}, "location": place})
                }
                None => json!({"namespace": "shop", "service": "stock", "host": host, "port": port}),
            });
        }
        let answer = cluster.api(1).post(INSTANCES, &json!(items)).await.expect_code(200_000);
        let rows = answer.body["responses"].as_array().expect("a batch");
        let id = |row: &Value| row["instance"]["id"].as_str().expect("an id").to_owned();
        let ids = rows.iter().map(id).collect();
        let nodes = cluster.ids().into_iter().map(|id| (cluster.ports(id).grpc, cluster.ports(id).api)).collect();
        let balancer = Balancer::start_probing(nodes).await;
        World { cluster, backends, ids, balancer }
    }

    pub(super) fn api(&self) -> Api {
        self.cluster.api(*self.cluster.running().first().expect("a node runs"))
    }

    /// Servers of a version of `shop/pay`.
    pub(super) fn version(&self, version: u8) -> Vec<String> {
        let first = 2 * (usize::from(version) - 1);
        self.backends.addresses[first..first + 2].to_vec()
    }

    pub(super) fn pay(&self) -> Vec<String> {
        self.backends.addresses[..6].to_vec()
    }

    pub(super) fn stock(&self) -> Vec<String> {
        self.backends.addresses[6..].to_vec()
    }

    /// Changes the registered instance of a server.
    pub(super) async fn change(&self, server: &str, more: Value) {
        let position = self.backends.addresses.iter().position(|address| address == server).expect("a server");
        let item = with(json!({"id": self.ids[position]}), more);
        self.api().put(INSTANCES, &json!([item])).await.expect_code(200_000);
    }

    /// One client of each kind, each a sidecar of the service `cart`.
    pub(super) async fn clients(&self) -> Vec<Client> {
        self.clients_of(&Kind::ALL, "cart", &[]).await
    }

    /// Starts clients of these kinds, except those whose language is missing; the flags are those of their bootstraps.
    /// Libraries that accept a single address use the balancer.
    pub(super) async fn clients_of(&self, kinds: &[Kind], name: &str, flags: &[&str]) -> Vec<Client> {
        let mut clients = Vec::new();
        for kind in kinds {
            let options = self.options(*kind, flags);
            clients.extend(Client::start_if_there(*kind, &self.cluster, name, &options).await);
        }
        clients
    }

    fn options(&self, kind: Kind, flags: &[&str]) -> Options {
        let servers = kind.is_built().then(|| self.balancer.address().to_string());
        Options { flags: flags.iter().copied().map(str::to_owned).collect(), servers, ..Options::default() }
    }

    /// A bootstrap as such a client has it.
    pub(super) async fn write_bootstrap(&self, kind: Kind, name: &str, flags: &[&str], to: &Path) {
        write_bootstrap(kind, &self.cluster, name, &self.options(kind, flags), 0, to).await;
    }
}

/// The object with more in it.
pub(super) fn with(mut object: Value, more: Value) -> Value {
    object.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    object
}

/// A condition of a sub-rule.
pub(super) fn when(part: &str, key: &str, comparison: &str, value: &str) -> Value {
    json!({"type": part, "key": key, "value": {"type": comparison, "value": value}})
}

/// A destination group of `shop/pay`.
pub(super) fn group(version: &str, more: Value) -> Value {
    let labels = json!({"version": {"type": "EXACT", "value": version}});
    with(json!({"service": "pay", "namespace": "shop", "name": version, "labels": labels}), more)
}

/// A sub-rule.
pub(super) fn sub_rule(conditions: &[Value], groups: &[Value]) -> Value {
    json!({"name": "one", "arguments": {"arguments": conditions}, "destinations": groups})
}

/// The rule `name` of `shop/pay`, saved.
pub(super) async fn save(api: &Api, name: &str, sub_rules: &[Value]) -> Answer {
    let pay = json!({"service": "pay", "namespace": "shop"});
    let anybody = json!({"service": "*", "namespace": "*"});
    let config = json!({"caller": anybody, "callee": pay, "rules": sub_rules});
    let rule = json!([{"name": name, "namespace": "shop", "route_policy": "RulePolicy", "routing_config": config}]);
    let created = api.post(ROUTES, &rule).await;
    if created.code() == 200_000 { created } else { api.put(ROUTES, &rule).await.expect_code(200_000) }
}

/// The rule `name` of `shop/pay`, saved and in force for everybody.
pub(super) async fn publish(api: &Api, name: &str, sub_rules: &[Value]) {
    save(api, name, sub_rules).await;
    release(api, ROUTES, name, json!({})).await;
}

/// Puts what was saved of a rule into force.
pub(super) async fn release(api: &Api, family: &str, name: &str, more: Value) {
    let item = with(json!({"rule_name": name}), more);
    api.post(&format!("{family}/releases"), &json!([item])).await.expect_code(200_000);
}

/// Every client calls these servers with this request, and no other.
pub(super) async fn all_settle(clients: &mut [Client], what: &str, request: &Request, expected: &[String]) {
    for client in clients {
        client.settles(LIMIT, what, request, expected).await;
    }
}

/// Takes a release of a routing rule out of force.
pub(super) async fn withdraw(api: &Api, name: &str, release: &str, more: Value) {
    let item = with(json!({"rule_name": name, "release_name": release}), more);
    api.put(&format!("{ROUTES}/releases/withdraw"), &json!([item])).await.expect_code(200_000);
}
