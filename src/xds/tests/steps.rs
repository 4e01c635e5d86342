//! Routes that come in two steps, over a world with rules.

use std::collections::BTreeSet;
use std::time::Duration;

use prost::Message;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::Source;
use super::super::client::Client;
use super::super::machine::Machine;
use super::super::sotw::Sotw;
use super::super::world::testing::{Stage, client};
use super::*;
use crate::catalog::Op;
use crate::model::mesh::Dialect;
use crate::model::mesh::library::Library;
use crate::proto::envoy::config::route::v3::{RouteConfiguration, route, route_action::ClusterSpecifier};
use crate::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

/// A gRPC client of one target, as its library asks.
struct Caller {
    client: Client,
    machine: Sotw,
    now: Instant,
    /// Names of each type that it asks for.
    wanted: [Vec<String>; 4],
    begun: [bool; 4],
    /// Nonces of the last responses.
    nonces: [String; 4],
    sent: Vec<DiscoveryResponse>,
}

impl Caller {
    fn of(library: Library) -> Caller {
        let client = Client { library, ..client(Dialect::Grpc, &[]) };
        let mut machine = Sotw::new(Dialect::Grpc, "thuban test".into());
        machine.books_mut().follow(&client);
        Caller {
            client,
            machine,
            now: Instant::now(),
            wanted: Default::default(),
            begun: [false; 4],
            nonces: Default::default(),
            sent: Vec::new(),
        }
    }

    fn pump(&mut self, stage: &Stage) {
        let view = stage.world.view(&self.client);
        while let Some(response) = self.machine.next(&view, moment(self.now)) {
            self.sent.push(response);
        }
    }

    fn ask(&mut self, stage: &Stage, kind: ResourceType, names: Vec<String>, nonce: &str) {
        let request = DiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names: names,
            response_nonce: nonce.to_owned(),
            ..Default::default()
        };
        let view = stage.world.view(&self.client);
        self.machine.take(request, &view, moment(self.now)).expect("a request that makes sense");
        self.pump(stage);
    }

    /// Asks for clusters with their endpoints, as far as it lacks them.
    fn want(&mut self, stage: &Stage, kind: ResourceType, names: BTreeSet<String>) {
        let at = kind.index();
        let names: Vec<String> = names.into_iter().collect();
        if self.wanted[at] == names {
            return;
        }
        self.wanted[at].clone_from(&names);
        let nonce = if std::mem::replace(&mut self.begun[at], true) { self.nonces[at].clone() } else { String::new() };
        self.ask(stage, kind, names, &nonce);
    }

    /// Takes all that comes, up to `rounds` responses; the clusters that each configuration of routes names for a path,
    /// and those that it names at all.
    fn take_all(&mut self, stage: &Stage, rounds: usize) -> Vec<(BTreeSet<String>, BTreeSet<String>)> {
        let mut routes = Vec::new();
        for _ in 0..rounds {
            if self.sent.is_empty() {
                break;
            }
            let response = self.sent.remove(0);
            let kind = ResourceType::of_url(&response.type_url).expect("a type");
            self.nonces[kind.index()] = response.nonce.clone();
            let names = self.wanted[kind.index()].clone();
            self.ask(stage, kind, names, &response.nonce);
            if kind == RDS {
                let message = RouteConfiguration::decode(&response.resources[0].value[..]).expect("routes");
                let (used, all) = clusters(&message);
                routes.push((used, all.clone()));
                self.want(stage, CDS, all.clone());
                self.want(stage, EDS, all);
            }
        }
        routes
    }
}

/// Clusters of routes that some call meets, and of all routes.
fn clusters(message: &RouteConfiguration) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut used, mut all, mut is_reached) = (BTreeSet::new(), BTreeSet::new(), true);
    for one in &message.virtual_hosts[0].routes {
        let Some(route::Action::Route(action)) = &one.action else { panic!("{one:?}") };
        let names: Vec<String> = match &action.cluster_specifier {
            Some(ClusterSpecifier::Cluster(name)) => vec![name.clone()],
            Some(ClusterSpecifier::WeightedClusters(all)) => all.clusters.iter().map(|one| one.name.clone()).collect(),
            None => Vec::new(),
        };
        all.extend(names.iter().cloned());
        if is_reached {
            used.extend(names);
        }
        let every = format!("{:?}", one.r#match);
        is_reached &= !(every.contains("Prefix(\"\")") && every.contains("headers: []"));
    }
    (used, all)
}

fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let with = |host: &str, version: &str| json!({"host": host, "metadata": {"version": version}});
    stage.instances(Op::Create, "shop", "pay", json!([with("10.0.0.1", "1"), with("10.0.0.2", "2")]));
    stage
}

fn to_version(version: &str) -> Value {
    json!([{"name": "r", "destinations": [
        {"namespace": "shop", "service": "pay", "labels": {"version": {"type": "EXACT", "value": version}}}]}])
}

#[test]
fn go_is_told_new_clusters_before_routes_lead_to_them() {
    for library in Library::ALL {
        let mut stage = stage();
        let mut caller = Caller::of(library);
        caller.wanted[RDS.index()] = vec!["shop/pay".to_owned()];
        caller.ask(&stage, RDS, vec!["shop/pay".to_owned()], "");
        let first = caller.take_all(&stage, 20);
        assert_eq!(first.len(), 1, "{library:?}: the first routes come at once");
        stage.route("pay", to_version("2"));
        caller.pump(&stage);
        let steps = caller.take_all(&stage, 20);
        let (last, all) = steps.last().expect("routes");
        assert_eq!((last.len(), all.len()), (1, 2), "{library:?}: the rule takes every call");
        if library != Library::Go {
            assert_eq!(steps.len(), 1, "{library:?}");
            continue;
        }
        assert_eq!(steps.len(), 2, "{steps:?}");
        assert_eq!(steps[0].0, first[0].0, "calls go where they went");
        assert_eq!(steps[0].1, *all, "and the new cluster is named");
        let due = stage.get(&caller.client, RDS, "shop/pay").expect("routes");
        assert_eq!(caller.machine.books().ledger(RDS).given()["shop/pay"].version, due.version);
        // A way back to clusters that it has is one step.
        stage.route("pay", json!([]));
        caller.pump(&stage);
        assert_eq!(caller.take_all(&stage, 20).len(), 1);
    }
}

#[test]
fn the_second_step_waits_for_clusters_and_endpoints_for_a_while() {
    let mut stage = stage();
    let mut caller = Caller::of(Library::Go);
    caller.wanted[RDS.index()] = vec!["shop/pay".to_owned()];
    caller.ask(&stage, RDS, vec!["shop/pay".to_owned()], "");
    caller.take_all(&stage, 20);
    stage.route("pay", to_version("2"));
    caller.pump(&stage);
    // It acknowledges the first step, and asks for nothing.
    let response = caller.sent.remove(0);
    caller.ask(&stage, RDS, vec!["shop/pay".to_owned()], &response.nonce);
    assert!(caller.sent.is_empty(), "{:?}", caller.sent);
    let deadline = caller.machine.books().deadline().expect("it is not for ever");
    assert!(deadline <= caller.now + Duration::from_secs(5));
    caller.now = deadline;
    caller.pump(&stage);
    assert_eq!(caller.sent.len(), 1);
}
