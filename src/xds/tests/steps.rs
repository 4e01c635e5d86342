//! Two-step updates of routes, over a resource cache with rules.

use std::collections::BTreeSet;
use std::time::Duration;

use prost::Message;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::Source;
use super::super::cache::testing::{Stage, client};
use super::super::client::Client;
use super::super::protocol::ProtocolVariant;
use super::super::sotw::Sotw;
use super::*;
use crate::catalog::Op;
use crate::model::mesh::Dialect;
use crate::model::mesh::library::Library;
use crate::proto::envoy::config::route::v3::{RouteConfiguration, route, route_action::ClusterSpecifier};
use crate::proto::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

/// A gRPC client of one target that behaves like its library.
struct Caller {
    client: Client,
    protocol: Sotw,
    now: Instant,
    /// Names that the client subscribes to, per type.
    wanted: [Vec<String>; 4],
    begun: [bool; 4],
    /// Nonces and versions of the last responses.
    nonces: [String; 4],
    versions: [String; 4],
    sent: Vec<DiscoveryResponse>,
}

impl Caller {
    fn of(library: Library) -> Caller {
        let client = Client { library, ..client(Dialect::Grpc, &[]) };
        let mut protocol = Sotw::new(Dialect::Grpc, "thuban test".into());
        protocol.state_mut().configure_steps(&client);
        Caller {
            client,
            protocol,
            now: Instant::now(),
            wanted: Default::default(),
            begun: [false; 4],
            nonces: Default::default(),
            versions: Default::default(),
            sent: Vec::new(),
        }
    }

    /// Reconnects on a new stream, with requests in this order of types.
    fn back(&self, stage: &Stage, order: [ResourceType; 3]) -> Caller {
        let mut back = Caller::of(self.client.library);
        back.versions.clone_from(&self.versions);
        for kind in order {
            back.wanted[kind.index()].clone_from(&self.wanted[kind.index()]);
            back.begun[kind.index()] = true;
        }
        for kind in order {
            back.ask(stage, kind, self.wanted[kind.index()].clone(), "");
        }
        back
    }

    fn pump(&mut self, stage: &Stage) {
        let view = stage.cache.view(&self.client);
        while let Some(response) = self.protocol.next(&view, now_at(self.now)) {
            self.sent.push(response);
        }
    }

    fn ask(&mut self, stage: &Stage, kind: ResourceType, names: Vec<String>, nonce: &str) {
        let request = DiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names: names,
            response_nonce: nonce.to_owned(),
            version_info: self.versions[kind.index()].clone(),
            ..Default::default()
        };
        let view = stage.cache.view(&self.client);
        self.protocol.take(request, &view, now_at(self.now)).expect("a request that makes sense");
        self.pump(stage);
    }

    /// Subscribes to clusters or endpoints, unless it has.
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

    /// Processes all responses, up to `rounds`. Returns, per route configuration, the clusters that requests can reach
    /// and all clusters that are named.
    fn take_all(&mut self, stage: &Stage, rounds: usize) -> Vec<(BTreeSet<String>, BTreeSet<String>)> {
        let mut routes = Vec::new();
        for _ in 0..rounds {
            if self.sent.is_empty() {
                break;
            }
            let response = self.sent.remove(0);
            let kind = ResourceType::of_url(&response.type_url).expect("a type");
            self.nonces[kind.index()] = response.nonce.clone();
            self.versions[kind.index()].clone_from(&response.version_info);
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

/// Returns the clusters in routes that requests can reach, and in all routes.
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
        assert_eq!(caller.protocol.state().type_state(RDS).sent()["shop/pay"].version, due.version);
        // A change back to known clusters needs one step.
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
    // The client acknowledges the first step and does not subscribe.
    let response = caller.sent.remove(0);
    caller.ask(&stage, RDS, vec!["shop/pay".to_owned()], &response.nonce);
    assert!(caller.sent.is_empty(), "{:?}", caller.sent);
    let deadline = caller.protocol.state().deadline().expect("it is not for ever");
    assert!(deadline <= caller.now + Duration::from_secs(5));
    caller.now = deadline;
    caller.pump(&stage);
    assert_eq!(caller.sent.len(), 1);
}

/// Returns a client with the current routes.
fn settled(stage: &Stage, library: Library) -> (Caller, BTreeSet<String>) {
    let mut caller = Caller::of(library);
    caller.wanted[RDS.index()] = vec!["shop/pay".to_owned()];
    caller.ask(stage, RDS, vec!["shop/pay".to_owned()], "");
    let routes = caller.take_all(stage, 20);
    (caller, routes.last().expect("routes").0.clone())
}

const ORDERS: [[ResourceType; 3]; 6] =
    [[RDS, CDS, EDS], [RDS, EDS, CDS], [CDS, RDS, EDS], [CDS, EDS, RDS], [EDS, RDS, CDS], [EDS, CDS, RDS]];

/// The client's routes were sent on another stream, possibly by another node.
#[test]
fn a_change_while_go_was_away_comes_in_two_steps() {
    for order in ORDERS {
        for changes in 1..=2 {
            let mut stage = stage();
            stage.route("pay", to_version("1"));
            let (before, had) = settled(&stage, Library::Go);
            (2..=1 + changes).for_each(|version: u8| stage.route("pay", to_version(&version.to_string())));
            let mut back = before.back(&stage, order);
            let steps = back.take_all(&stage, 40);
            let [(first, _), (last, all)] = &steps[..] else { panic!("{order:?}: {steps:?}") };
            assert_eq!(*first, had, "{order:?}: calls go where they went");
            assert!(last.is_disjoint(&had) && last.is_subset(&steps[0].1), "{order:?}: {last:?} of {all:?}");
            let due = stage.get(&back.client, RDS, "shop/pay").expect("routes");
            assert_eq!(back.protocol.state().type_state(RDS).sent()["shop/pay"].version, due.version);
        }
    }
}

#[test]
fn what_a_client_has_comes_at_once_when_it_is_back() {
    let mut stage = stage();
    stage.route("pay", to_version("1"));
    for library in Library::ALL {
        for order in ORDERS {
            let (before, had) = settled(&stage, library);
            let routes = before.back(&stage, order).take_all(&stage, 40);
            assert_eq!(routes.len(), 1, "{library:?} {order:?}");
            assert_eq!(routes[0].0, had);
        }
    }
    // Other libraries need no steps.
    let (before, _) = settled(&stage, Library::Java);
    stage.route("pay", to_version("2"));
    assert_eq!(before.back(&stage, ORDERS[0]).take_all(&stage, 40).len(), 1);
}

/// A restarted node knows only the current routes.
#[test]
fn routes_come_at_once_where_nothing_is_known_of_those_before() {
    let mut stage = stage();
    stage.route("pay", to_version("1"));
    let (before, had) = settled(&stage, Library::Go);
    stage.route("pay", to_version("2"));
    let started = Stage::over(stage.bench);
    let routes = before.back(&started, ORDERS[0]).take_all(&started, 40);
    assert_eq!(routes.len(), 1);
    assert!(routes[0].0.is_disjoint(&had));
}

#[test]
fn a_client_that_names_no_clusters_waits_for_a_moment() {
    let mut stage = stage();
    stage.route("pay", to_version("1"));
    let (before, _) = settled(&stage, Library::Go);
    let mut back = Caller::of(Library::Go);
    back.versions.clone_from(&before.versions);
    back.ask(&stage, RDS, vec!["shop/pay".to_owned()], "");
    assert!(back.sent.is_empty(), "{:?}", back.sent);
    let deadline = back.protocol.state().deadline().expect("it is not for ever");
    assert_eq!(deadline, back.now + Duration::from_millis(500));
    back.now = deadline;
    back.pump(&stage);
    assert_eq!(back.sent.len(), 1);
}
