//! Resource caches over catalogs in memory.

mod bounds;
mod callers;
mod languages;
mod policies;
mod properties;
mod scale;
mod values;

use std::sync::Arc;

use prost::Message;
use serde_json::json;

use super::testing::{Stage, client, drafts};
use crate::catalog::{Command, Op};
use crate::model::grant::{Grant, Grants, ReadScope, Role, Verb};
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{ResourceType, Resources};
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;
use crate::model::rule::traffic::ServiceKey;
use crate::proto::envoy::config::cluster::v3::Cluster;
use crate::proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, lb_endpoint::HostIdentifier};
use crate::proto::envoy::config::listener::v3::Listener;
use crate::proto::envoy::config::route::v3::RouteConfiguration;
use crate::xds::Source;
use crate::xds::client::Client;
use crate::xds::locality::Locality;

fn names(resources: &Resources) -> Vec<&str> {
    resources.keys().map(|name| &**name).collect()
}

fn grpc() -> Client {
    client(Dialect::Grpc, &[])
}

fn envoy() -> Client {
    client(Dialect::Envoy, &[])
}

/// Returns priority, locality and weight of each locality, and its addresses with health and weight.
fn endpoint_texts(message: &ClusterLoadAssignment) -> Vec<String> {
    let localities = message.endpoints.iter().map(|of| {
        let locality = of.locality.clone().unwrap_or_default();
        let endpoints = of.lb_endpoints.iter().map(|one| {
            let Some(HostIdentifier::Endpoint(endpoint)) = &one.host_identifier else { return String::new() };
            let text = format!("{:?}", endpoint.address);
            let address = text.split('"').nth(1).unwrap_or_default().to_owned();
            format!("{address}:{}:{}", one.health_status, one.load_balancing_weight.unwrap_or_default())
        });
        let endpoints: Vec<_> = endpoints.collect();
        let weight = of.load_balancing_weight.unwrap_or_default();
        let locality = format!("{}/{}/{}", locality.region, locality.zone, locality.sub_zone);
        format!("{} {locality} {weight} {}", of.priority, endpoints.join(" "))
    });
    localities.collect()
}

#[test]
fn a_service_is_there_by_all_four_types() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("a/b", "c")]);
    for (name, service) in [("shop/pay", "shop/pay"), ("a%2Fb/c", "a%2Fb/c")] {
        let listener: Listener = stage.decoded(&grpc(), ResourceType::Listener, name);
        assert_eq!(listener.name, name);
        let routes: RouteConfiguration = stage.decoded(&grpc(), ResourceType::Route, service);
        assert_eq!((routes.virtual_hosts.len(), &*routes.virtual_hosts[0].domains), (1, &["*".to_owned()][..]));
        let cluster: Cluster = stage.decoded(&grpc(), ResourceType::Cluster, service);
        assert_eq!(cluster.eds_cluster_config.expect("by endpoints").service_name, service);
        let endpoints: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, service);
        assert_eq!((endpoints.cluster_name.as_str(), endpoints.endpoints.len()), (service, 0));
    }
    for kind in ResourceType::ALL {
        assert_eq!(stage.get(&grpc(), kind, "shop/other"), None, "{kind:?}");
    }
}

#[test]
fn endpoints_are_grouped_by_place_and_weight() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let at = json!({"region": "eu", "zone": "eu-1", "campus": "c1"});
    let instances = json!([
        {"host": "10.0.0.1", "weight": 100, "location": at},
        {"host": "10.0.0.2", "weight": 100, "location": at, "healthy": false},
        {"host": "10.0.0.3", "weight": 300, "location": at},
        {"host": "10.0.0.4", "weight": 0},
        {"host": "10.0.0.5", "isolate": true},
        {"host": "pay.example", "weight": 100},
        {"host": "::1", "weight": 7},
        {"host": "0:0:0:0:0:0:0:1", "weight": 7, "vpc_id": "other"},
    ]);
    stage.instances(Op::Create, "shop", "pay", instances);
    let endpoints: ClusterLoadAssignment = stage.decoded(&envoy(), ResourceType::Endpoints, "shop/pay");
    let expected = ["0 //;w=7 7 ::1:1:7", "0 eu/eu-1/c1;w=100 100 ", "0 eu/eu-1/c1;w=300 300 10.0.0.3:1:300"];
    let shown = endpoint_texts(&endpoints);
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{shown:?}");
    assert!(shown[1].contains("10.0.0.1:1:100") && shown[1].contains("10.0.0.2:2:100"), "{shown:?}");
    let policy = endpoints.policy.expect("a policy");
    assert_eq!(policy.overprovisioning_factor, Some(10_000));
    // Both dialects get the same assignment.
    let bytes = |client| stage.get(&client, ResourceType::Endpoints, "shop/pay").expect("there").bytes();
    assert_eq!(bytes(grpc()), bytes(envoy()));
}

#[test]
fn proxies_see_their_namespaces() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("shop", "cart"), ("infra", "log")]);
    let of_shop = Client { namespaces: Some(["shop".to_owned()].into()), ..envoy() };
    assert_eq!(names(&stage.all(&of_shop, ResourceType::Cluster)), ["shop/cart", "shop/pay"]);
    assert_eq!(names(&stage.all(&envoy(), ResourceType::Cluster)), ["infra/log", "shop/cart", "shop/pay"]);
    assert_eq!(names(&stage.all(&of_shop, ResourceType::Endpoints)), ["shop/cart", "shop/pay"]);
    assert!(stage.all(&of_shop, ResourceType::Listener).is_empty());
    let grant = Grant { role: Role::Client, namespace: "shop".into(), name: "pay".into() };
    let read_scope = ReadScope::new(&Grants::new([grant]), &[Verb::Discover]);
    let narrow = Client { read_scope, ..envoy() };
    assert_eq!(names(&stage.all(&narrow, ResourceType::Cluster)), ["shop/pay"]);
    for kind in [ResourceType::Cluster, ResourceType::Endpoints] {
        assert_eq!(stage.get(&narrow, kind, "shop/cart"), None, "{kind:?}");
    }
    let routes = stage.decoded::<RouteConfiguration>(&narrow, ResourceType::Route, "outbound");
    assert_eq!(routes.virtual_hosts.len(), 1);
    stage.services(Op::Delete, &[("shop", "pay")]);
    assert_eq!(names(&stage.all(&of_shop, ResourceType::Cluster)), ["shop/cart"]);
}

#[test]
fn domains_belong_to_the_name_that_was_there_first() {
    let mut stage = Stage::new();
    for (namespace, name) in [("shop", "pay"), ("c", "a.b"), ("b.c", "a"), ("shop", "Pay"), ("shop", "a.b.c")] {
        stage.services(Op::Create, &[(namespace, name)]);
    }
    let alias = json!([{"alias": "PAY", "alias_namespace": "shop", "namespace": "c", "service": "a.b"}]);
    stage.apply(Command::Aliases(Op::Create, drafts(alias)));
    let mut proxy = envoy();
    proxy.caller = Some(ServiceKey { namespace: "shop".into(), service: "web".into() });
    let domains = |stage: &Stage| {
        let routes: RouteConfiguration = stage.decoded(&proxy, ResourceType::Route, "outbound");
        let hosts = routes.virtual_hosts.into_iter().map(|host| format!("{}: {}", host.name, host.domains.join(" ")));
        hosts.collect::<Vec<_>>()
    };
    let dotted = "shop/a.b.c: a.b.c.shop a.b.c.shop:*";
    let expected = ["c/a.b: a.b.c a.b.c:*", dotted, "shop/pay: pay.shop pay.shop:* pay"];
    assert_eq!(domains(&stage), expected);
    assert_eq!(domains(&Stage::over(stage.bench.clone())), expected, "the same of a catalog that was read");
    let of_namespace: RouteConfiguration = stage.decoded(&envoy(), ResourceType::Route, "outbound/b.c");
    assert_eq!(of_namespace.virtual_hosts[0].domains, ["a.b.c", "a.b.c:*"]);
    stage.services(Op::Delete, &[("shop", "pay")]);
    assert_eq!(domains(&stage)[1], "shop/Pay: Pay.shop Pay.shop:* Pay", "free, it is of the next");
}

#[test]
fn listeners_of_a_proxy_are_there_where_its_metadata_asks() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let own = Some(ServiceKey { namespace: "shop".into(), service: "pay".into() });
    let ports = [("outbound_port", "15001"), ("inbound_port", "15006"), ("application_port", "8080")];
    let beside = Client { caller: own, ..client(Dialect::Envoy, &ports) };
    assert_eq!(names(&stage.all(&beside, ResourceType::Listener)), ["inbound", "outbound"]);
    assert_eq!(names(&stage.all(&beside, ResourceType::Cluster)), ["inbound/shop/pay", "shop/pay"]);
    let cluster: Cluster = stage.decoded(&beside, ResourceType::Cluster, "inbound/shop/pay");
    assert_eq!(cluster.load_assignment.expect("of its own").endpoints.len(), 1);
    let routes: RouteConfiguration = stage.decoded(&beside, ResourceType::Route, "inbound/shop/pay");
    assert_eq!(routes.virtual_hosts[0].routes.len(), 1);
    let gateway = client(Dialect::Envoy, &[("outbound_port", "80"), ("inbound_port", "x"), ("role", "gateway")]);
    assert_eq!(names(&stage.all(&gateway, ResourceType::Listener)), ["outbound"]);
    for none in ["0", "65536", "-1", ""] {
        assert!(stage.all(&client(Dialect::Envoy, &[("outbound_port", none)]), ResourceType::Listener).is_empty());
    }
}

#[test]
fn an_alias_leads_to_the_routes_of_its_service() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let alias = json!([{"namespace": "shop", "service": "pay", "alias": "checkout", "alias_namespace": "web"}]);
    stage.apply(crate::catalog::Command::Aliases(Op::Create, super::testing::drafts(alias)));
    let listener: Listener = stage.decoded(&grpc(), ResourceType::Listener, "web/checkout");
    let manager = listener.api_listener.and_then(|api| api.api_listener).expect("a manager");
    let text = String::from_utf8_lossy(&manager.value).into_owned();
    assert!(text.contains("shop/pay") && !text.contains("checkout"), "{text}");
    assert_eq!(stage.get(&grpc(), ResourceType::Route, "web/checkout"), None);
    let routes: RouteConfiguration = stage.decoded(&envoy(), ResourceType::Route, "outbound/web");
    assert_eq!(routes.virtual_hosts[0].domains, ["checkout.web", "checkout.web:*"]);
}

#[test]
fn names_under_the_authority_are_answered_under_it() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let name = |kind: &str| format!("xdstp://thuban.example/envoy.config.{kind}/shop/pay");
    let routes: RouteConfiguration = stage.decoded(&grpc(), ResourceType::Route, &name("route.v3.RouteConfiguration"));
    assert_eq!(routes.name, name("route.v3.RouteConfiguration"));
    let cluster: Cluster = stage.decoded(&grpc(), ResourceType::Cluster, &name("cluster.v3.Cluster"));
    let endpoints = cluster.eds_cluster_config.expect("by endpoints").service_name;
    assert_eq!(endpoints, name("endpoint.v3.ClusterLoadAssignment"));
    stage.decoded::<ClusterLoadAssignment>(&grpc(), ResourceType::Endpoints, &endpoints);
    let with_context = format!("{}?zone=a", name("cluster.v3.Cluster"));
    let renamed: Cluster = stage.decoded(&grpc(), ResourceType::Cluster, &with_context);
    assert_eq!(
        (renamed.name.as_str(), renamed.eds_cluster_config.expect("by endpoints").service_name),
        (with_context.as_str(), endpoints)
    );
    let other = "xdstp://other/envoy.config.cluster.v3.Cluster/shop/pay";
    assert_eq!(stage.get(&grpc(), ResourceType::Cluster, other), None);
    assert_eq!(stage.get(&grpc(), ResourceType::Listener, &name("cluster.v3.Cluster")), None);
}

#[test]
fn a_change_leaves_what_it_is_not_about() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("shop", "cart")]);
    let changes = stage.cache.changes();
    let clusters = stage.all(&envoy(), ResourceType::Cluster);
    let (pay, cart) = (clusters["shop/pay"].clone(), clusters["shop/cart"].clone());
    let number = *changes.borrow();
    stage.instances(Op::Create, "shop", "pay", json!([{"host": "10.0.0.1", "protocol": "grpc"}]));
    assert_eq!(*changes.borrow(), number + 1);
    let clusters = stage.all(&envoy(), ResourceType::Cluster);
    assert!(Arc::ptr_eq(&clusters["shop/cart"], &cart));
    assert!(clusters["shop/pay"].differs(&pay), "it speaks HTTP/2 now");
    assert_eq!(clusters["shop/pay"].version.index, stage.bench.index);
    assert!(Arc::ptr_eq(
        &stage.get(&envoy(), ResourceType::Cluster, "shop/pay").expect("there"),
        &clusters["shop/pay"]
    ));
}

#[test]
fn gray_releases_are_for_their_clients_alone() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("shop", "cart")]);
    stage.instances(
        Op::Create,
        "shop",
        "pay",
        json!([
            {"host": "10.0.0.1", "metadata": {"version": "1"}}, {"host": "10.0.0.2", "metadata": {"version": "2"}},
        ]),
    );
    let to = |version: &str| {
        let labels = json!({"version": {"type": "EXACT", "value": version}});
        json!([{"name": "r", "destinations": [{"namespace": "shop", "service": "pay", "labels": labels}]}])
    };
    stage.route("pay", to("1"));
    let callee = json!({"namespace": "shop", "service": "pay"});
    stage.save(Family::Routing, "pay", json!({"routing_config": {"callee": callee, "rules": to("2")}}));
    stage.publish(Family::Routing, "pay", "gray", Some("eu"));
    let (eu, us) = (client(Dialect::Grpc, &[("zone", "eu")]), client(Dialect::Grpc, &[("zone", "us")]));
    let routes = |client: &Client| stage.get(client, ResourceType::Route, "shop/pay").expect("there");
    let (gray, normal) = (routes(&eu), routes(&us));
    assert!(gray.differs(&normal));
    assert!(Arc::ptr_eq(&normal, &routes(&grpc())), "equal answers share the bytes");
    assert_eq!((gray.releases.len(), gray.releases[0].name.as_str()), (1, "gray"));
    assert_eq!(gray.clusters.len(), 2);
    // The clusters of both variants exist for every client.
    let clusters = names(&stage.all(&client(Dialect::Envoy, &[]), ResourceType::Cluster)).len();
    assert_eq!(clusters, 4);
    for (routes, host) in [(&gray, "10.0.0.2"), (&normal, "10.0.0.1")] {
        let name = routes.clusters.iter().find(|name| name.contains('|')).expect("a set of labels");
        let endpoints: ClusterLoadAssignment = stage.decoded(&us, ResourceType::Endpoints, name);
        assert!(endpoint_texts(&endpoints)[0].contains(host), "{:?}", endpoint_texts(&endpoints));
    }
    let hosts = |zone: &str| {
        stage.get(&client(Dialect::Envoy, &[("zone", zone)]), ResourceType::Route, "outbound").expect("there")
    };
    assert!(hosts("eu").differs(&hosts("us")));
    assert!(Arc::ptr_eq(&hosts("us"), &hosts("asia")));
    stage.release(Family::Routing, ReleaseOp::Promote, "pay", "gray");
    let promoted = stage.get(&us, ResourceType::Route, "shop/pay").expect("there");
    assert_eq!(promoted.version.hash, gray.version.hash);
}

#[test]
fn endpoints_are_near_the_caller() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let at = |host: &str, zone: &str| json!({"host": host, "location": {"region": "eu", "zone": zone, "campus": ""}});
    stage.instances(Op::Create, "shop", "pay", json!([at("10.0.0.1", "eu-1"), at("10.0.0.2", "eu-2")]));
    let nearby = json!({"route_policy": "NearbyPolicy", "routing_config": {
        "namespace": "shop", "service": "pay", "match_level": "ZONE", "max_match_level": "REGION"}});
    stage.save(Family::Routing, "near", nearby);
    stage.publish(Family::Routing, "near", "r1", None);
    let caller = |zone: &str| Client {
        locality: Locality { region: "eu".into(), zone: zone.into(), campus: "c1".into() },
        ..envoy()
    };
    let endpoints_of = |client: &Client| {
        let clusters = stage.all(client, ResourceType::Cluster);
        let cluster = Cluster::decode(clusters["shop/pay"].bytes()).expect("a cluster");
        cluster.eds_cluster_config.expect("by endpoints").service_name
    };
    let rows = [("eu-1", ["0 eu/eu-1/;w=100", "1 eu/eu-2/;w=100"]), ("eu-2", ["0 eu/eu-2/;w=100", "1 eu/eu-1/;w=100"])];
    for (zone, expected) in rows {
        let name = endpoints_of(&caller(zone));
        assert_eq!(name, format!("shop/pay@eu/{zone}/"));
        // A request for the name returns the endpoints of that locality.
        let found = endpoint_texts(&stage.decoded(&grpc(), ResourceType::Endpoints, &name));
        assert!(found.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{found:?}");
    }
    assert_eq!(endpoints_of(&envoy()), "shop/pay", "its place is not known");
    let endpoints = stage.all(&caller("eu-1"), ResourceType::Endpoints);
    assert_eq!(
        (names(&endpoints), endpoints.values().next().expect("one").releases.len()),
        (vec!["shop/pay@eu/eu-1/"], 1)
    );
}

/// Returns a destination with these labels, weight and priority.
fn group(labels: serde_json::Value, weight: u32, priority: u32) -> serde_json::Value {
    json!({"namespace": "shop", "service": "pay", "labels": labels, "weight": weight, "priority": priority})
}

fn exact(value: &str) -> serde_json::Value {
    json!({"type": "EXACT", "value": value})
}

fn route_names(stage: &Stage, client: &Client) -> Vec<String> {
    let routes: RouteConfiguration = stage.decoded(client, ResourceType::Route, "shop/pay");
    routes.virtual_hosts[0].routes.iter().map(|route| format!("{} {:?}", route.name, route.action)).collect()
}

#[test]
fn groups_share_and_stand_by() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let with = |host: &str, version: &str| json!({"host": host, "metadata": {"version": version}});
    stage.instances(
        Op::Create,
        "shop",
        "pay",
        json!([with("10.0.0.1", "1"), with("10.0.0.2", "2"), with("10.0.0.3", "3")]),
    );
    let groups = json!([
        group(json!({"version": exact("1")}), 1, 0),
        group(json!({"version": exact("2")}), 3, 0),
        group(json!({"version": {"type": "REGEX", "value": "[23]"}}), 1, 5),
    ]);
    stage.route("pay", json!([{"name": "r", "destinations": groups}]));
    let routes = stage.get(&grpc(), ResourceType::Route, "shop/pay").expect("there");
    let sets: Vec<_> = routes.clusters.iter().filter(|name| name.contains('|')).collect();
    assert_eq!(sets.len(), 2);
    let all: Vec<Vec<String>> =
        sets.iter().map(|name| endpoint_texts(&stage.decoded(&grpc(), ResourceType::Endpoints, name))).collect();
    let hosts = |lines: &[String]| -> Vec<(u32, String)> {
        let line = |line: &String| {
            let (priority, rest) = line.split_once(' ').expect("a priority");
            (priority.parse().expect("a number"), rest.rsplit(' ').next().expect("an address")[..8].to_owned())
        };
        lines.iter().map(line).collect()
    };
    let mut found: Vec<_> = all.iter().map(|lines| hosts(lines)).collect();
    found.sort();
    let expected = |order: [&str; 3]| -> Vec<(u32, String)> { (0..).zip(order.map(str::to_owned)).collect() };
    assert_eq!(found, [expected(["10.0.0.1", "10.0.0.2", "10.0.0.3"]), expected(["10.0.0.2", "10.0.0.1", "10.0.0.3"])]);
    let all = route_names(&stage, &grpc());
    assert!(
        all[0].starts_with("pay/0 ") && all[0].contains("WeightedClusters") && all[0].contains("Some(3)"),
        "{all:?}"
    );
    assert_eq!(all.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn clusters_of_labels_stay_for_a_minute() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    stage.instances(Op::Create, "shop", "pay", json!([{"host": "10.0.0.1", "metadata": {"version": "1"}}]));
    stage.route("pay", json!([{"name": "r", "destinations": [group(json!({"version": exact("1")}), 1, 0)]}]));
    let clusters = |stage: &Stage| names(&stage.all(&envoy(), ResourceType::Cluster)).len();
    assert_eq!(clusters(&stage), 2);
    stage.release(Family::Routing, ReleaseOp::Withdraw, "pay", &stage.newest_release("pay"));
    assert_eq!((clusters(&stage), route_names(&stage, &grpc()).len()), (2, 1));
    tokio::time::advance(std::time::Duration::from_secs(59)).await;
    stage.cache.apply_changes();
    assert_eq!(clusters(&stage), 2);
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    stage.cache.apply_changes();
    assert_eq!(clusters(&stage), 1);
}

#[test]
fn conditions_on_the_caller_are_decided_here() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let argument = json!({"type": "CALLER_METADATA", "key": "env", "value": exact("gray")});
    let rule = json!([{"name": "r", "arguments": {"arguments": [argument]}, "destinations": [
        group(json!({"version": exact("1")}), 1, 0)]}]);
    stage.route("pay", rule);
    let gray = client(Dialect::Grpc, &[("env", "gray")]);
    assert_eq!((route_names(&stage, &gray).len(), route_names(&stage, &grpc()).len()), (2, 1));
    let is_equal = |one: &Client, other: &Client| {
        let get = |client| stage.get(client, ResourceType::Route, "shop/pay").expect("there");
        Arc::ptr_eq(&get(one), &get(other))
    };
    assert!(is_equal(&gray, &client(Dialect::Grpc, &[("env", "gray"), ("zone", "eu")])));
    assert!(!is_equal(&gray, &grpc()));
}

#[test]
fn a_service_that_is_not_seen_has_no_instances() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("infra", "pay2")]);
    stage.instances(Op::Create, "infra", "pay2", json!([{"host": "10.0.0.9"}]));
    let rule = json!([{"name": "r", "destinations": [
        {"namespace": "infra", "service": "pay", "transfer": "pay2"}]}]);
    stage.route("pay", rule);
    let grant = Grant { role: Role::Client, namespace: "shop".into(), name: "*".into() };
    let narrow = Client { read_scope: ReadScope::new(&Grants::new([grant]), &[Verb::Discover]), ..grpc() };
    let routes = stage.get(&grpc(), ResourceType::Route, "shop/pay").expect("there");
    let name = routes.clusters.iter().find(|name| name.contains('|')).expect("in another namespace");
    let count =
        |client: &Client| stage.decoded::<ClusterLoadAssignment>(client, ResourceType::Endpoints, name).endpoints.len();
    assert_eq!((count(&grpc()), count(&narrow)), (1, 0));
}
