//! Limits on what clients can make a node build and cache, whatever they send.

use std::collections::BTreeSet;

use super::*;
use crate::catalog::Command;
use crate::model::limits;
use crate::xds::ResourceCache;
use crate::xds::cache::testing::drafts;

fn made(stage: &Stage) -> usize {
    stage.cache.units.lock().made
}

fn at(region: &str, zone: &str, campus: &str) -> Client {
    Client { locality: Locality { region: region.into(), zone: zone.into(), campus: campus.into() }, ..envoy() }
}

fn near(stage: &mut Stage, level: &str) {
    let config = json!({"namespace": "shop", "service": "*", "match_level": level, "max_match_level": "ALL"});
    stage.save(Family::Routing, "near", json!({"route_policy": "NearbyPolicy", "routing_config": config}));
    let release = format!("r{}", stage.bench.index);
    stage.publish(Family::Routing, "near", &release, None);
}

#[test]
fn made_up_places_share_the_endpoints_of_those_that_make_a_difference() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let located =
        |host: &str, zone: &str| json!({"host": host, "location": {"region": "eu", "zone": zone, "campus": "c"}});
    stage.instances(Op::Create, "shop", "pay", json!([located("10.0.0.1", "z1"), located("10.0.0.2", "z2")]));
    let get = |stage: &Stage, name: &str| stage.get(&grpc(), ResourceType::Endpoints, name).expect("there");
    let before = made(&stage);
    for number in 0..300 {
        let name = format!("shop/pay@a/b/{number}");
        let message: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, &name);
        assert_eq!((message.cluster_name, message.endpoints.len()), (name, 2));
    }
    assert_eq!(made(&stage) - before, 2, "the plain ones, and which places count");
    let (one, other) = (get(&stage, "shop/pay@a/b/1"), get(&stage, "shop/pay@a/b/2"));
    assert_eq!(one.body.as_ptr(), other.body.as_ptr(), "the content is shared");
    assert!(one.differs(&other) && *one == *get(&stage, "shop/pay@a/b/1"));
    near(&mut stage, "CAMPUS");
    let before = made(&stage);
    for number in 0..300 {
        get(&stage, &format!("shop/pay@a/b/{number}"));
        get(&stage, &format!("shop/pay@eu/z1/{number}"));
    }
    assert_eq!(made(&stage) - before, 3, "far from all, near to one, and which places count");
    let near_to_one: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, "shop/pay@eu/z1/9");
    assert!(endpoint_texts(&near_to_one)[0].starts_with("0 eu/z1/c"), "{:?}", endpoint_texts(&near_to_one));
}

#[test]
fn context_parameters_share_the_content() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    stage.instances(Op::Create, "shop", "pay", json!([{"host": "10.0.0.1"}]));
    let name = |number: usize| {
        format!("xdstp://thuban.example/envoy.config.endpoint.v3.ClusterLoadAssignment/shop/pay?x={number}")
    };
    let get = |number| stage.get(&grpc(), ResourceType::Endpoints, &name(number)).expect("there");
    assert_eq!(get(1).body.as_ptr(), get(2).body.as_ptr());
    let message: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, &name(3));
    assert_eq!(message.cluster_name, name(3));
}

/// A change is rebuilt once per affected locality, for any number of localities.
#[test]
fn many_places_cost_what_changed() {
    let mut stage = Stage::new();
    let names: Vec<_> = (0..20).map(|number| format!("s{number}")).collect();
    stage.services(Op::Create, &names.iter().map(|name| ("shop", name.as_str())).collect::<Vec<_>>());
    near(&mut stage, "CAMPUS");
    let clients: Vec<_> = (0..300).map(|number| at("eu", "z1", &format!("c{number}"))).collect();
    let look = |stage: &Stage| {
        let before = made(stage);
        let all: Vec<_> = clients.iter().map(|client| stage.all(client, ResourceType::Cluster)).collect();
        (all, made(stage) - before)
    };
    let (first, _) = look(&stage);
    let (again, made_again) = look(&stage);
    assert!(first.iter().zip(&again).all(|(one, other)| one.ptr_eq(other)));
    assert_eq!(made_again, 0);
    stage.services(Op::Create, &[("shop", "new")]);
    let (all, made) = look(&stage);
    assert!(all.iter().all(|clusters| clusters.len() == 21));
    assert_eq!(made, 301, "one cluster for each place, and for a client without one");
    // Clients that specify less than the first level share few variants.
    near(&mut stage, "REGION");
    look(&stage);
    stage.cache.units.lock().made = 0;
    stage.all(&at("eu", "z9", "c9"), ResourceType::Cluster);
    assert_eq!(stage.cache.units.lock().made, 0);
}

#[test]
fn made_up_namespaces_are_no_scopes() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("web", "front")]);
    let of = |own: &str, namespaces: &[&str]| Client {
        namespaces: Some(namespaces.iter().map(|name| (*name).to_owned()).collect()),
        ..client(Dialect::Envoy, &[("namespace", own)])
    };
    let routes = |client: &Client| stage.get(client, ResourceType::Route, "outbound").expect("there");
    let plain = routes(&of("nowhere", &["shop"]));
    for number in 0..50 {
        let made_up = of(&format!("own-{number}"), &["shop", &format!("zzz-{number}")]);
        assert!(Arc::ptr_eq(&routes(&made_up), &plain));
    }
    assert_eq!(stage.cache.units.lock().wildcards.len(), 1);
    // A client's own namespace matters only if its services are in the scope.
    assert!(Arc::ptr_eq(&routes(&of("web", &["shop"])), &plain));
    assert!(routes(&of("shop", &["shop"])).differs(&plain));
    let empty: RouteConfiguration = stage.decoded(&envoy(), ResourceType::Route, "outbound/made-up");
    assert_eq!(empty.virtual_hosts, []);
    assert_eq!(stage.cache.units.lock().wildcards.len(), 1);
}

#[test]
fn a_scope_is_forgotten_when_no_stream_uses_it() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("web", "front")]);
    let client = Client { namespaces: Some(["shop".to_owned()].into()), ..envoy() };
    stage.all(&client, ResourceType::Cluster);
    stage.get(&client, ResourceType::Route, "outbound");
    let forget = |stage: &Stage| {
        let garbage = stage.cache.units.lock().wildcards.forget_idle();
        drop(garbage);
        stage.cache.units.lock().wildcards.len()
    };
    assert_eq!((forget(&stage), forget(&stage)), (2, 2), "a stream has it");
    drop(client);
    assert_eq!(forget(&stage), 0);
}

/// Resources with invented names are evicted if there are too many and no stream uses them. Resources in use remain
/// shared.
#[test]
fn bytes_that_nobody_has_are_bounded() {
    let mut stage = Stage::new();
    let long = "n".repeat(100);
    let names: Vec<_> = (0..100).map(|number| format!("{long}{number}")).collect();
    stage.services(Op::Create, &names.iter().map(|name| ("shop", name.as_str())).collect::<Vec<_>>());
    near(&mut stage, "CAMPUS");
    let stays = at("eu", "z1", "stays");
    let held = stage.all(&stays, ResourceType::Cluster);
    let mut most = 0;
    for number in 0..1_200 {
        stage.all(&at("eu", "z1", &format!("c{number}")), ResourceType::Cluster);
        most = most.max(stage.cache.units.lock().retained_bytes());
    }
    let max = limits::XDS_KEPT_BYTES_MAX;
    assert!(most > max / 2 && most <= max + max / 8, "{most}");
    let before = made(&stage);
    assert!(stage.all(&stays, ResourceType::Cluster).ptr_eq(&held));
    assert_eq!(made(&stage), before);
}

fn texts(all: Vec<Arc<crate::xds::Touched>>, names: &[&'static str]) -> BTreeSet<&'static str> {
    names.iter().copied().filter(|name| all.iter().any(|touched| touched.has(name))).collect()
}

#[test]
fn a_change_tells_whose_resources_may_differ() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("shop", "cart"), ("web", "front"), ("a/b", "c")]);
    let to = json!([{"name": "r", "destinations": [{"namespace": "shop", "service": "pay", "transfer": "cart",
        "labels": {"version": exact("1")}}]}]);
    stage.route("pay", to);
    for kind in [ResourceType::Cluster, ResourceType::Endpoints, ResourceType::Route] {
        stage.all(&envoy(), kind);
    }
    let number = |cache: &ResourceCache| *cache.changes().borrow();
    let names = ["shop/pay", "shop/cart", "web/front", "a%2Fb/c"];
    let seen = number(&stage.cache);
    stage.instances(Op::Create, "shop", "cart", json!([{"host": "10.0.0.1"}]));
    let touched = texts(stage.cache.touched_since(seen).expect("known"), &names);
    assert_eq!(
        touched,
        BTreeSet::from(["shop/cart", "shop/pay"]),
        "the one's instances are those of a set of the other"
    );
    let seen = number(&stage.cache);
    stage.instances(Op::Create, "a/b", "c", json!([{"host": "10.0.0.1"}]));
    assert_eq!(texts(stage.cache.touched_since(seen).expect("known"), &names), BTreeSet::from(["a%2Fb/c"]));
    assert!(stage.cache.touched_since(number(&stage.cache)).expect("known").is_empty());
    for number in 0..80 {
        stage.instances(Op::Create, "shop", "cart", json!([{"host": format!("10.0.1.{number}")}]));
    }
    assert!(stage.cache.touched_since(seen).is_none(), "too long ago");
}

/// A state received as a whole, as from a snapshot, retires subsets like any other change.
#[tokio::test(start_paused = true)]
async fn clusters_of_labels_stay_after_a_snapshot() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    stage.route("pay", json!([{"name": "r", "destinations": [group(json!({"version": exact("1")}), 1, 0)]}]));
    let clusters = |stage: &Stage| names(&stage.all(&envoy(), ResourceType::Cluster)).len();
    assert_eq!(clusters(&stage), 2);
    let last_modified = stage.newest_release("pay");
    let draft: Vec<_> = drafts(json!([{"rule_name": "pay", "release_name": last_modified}]));
    stage.bench.apply(Command::RuleReleases(Family::Routing, ReleaseOp::Withdraw, draft));
    stage.state.replace(stage.bench.catalog.view(), stage.bench.index);
    stage.cache.apply_changes();
    assert_eq!((clusters(&stage), route_names(&stage, &grpc()).len()), (2, 1));
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    stage.cache.apply_changes();
    assert_eq!(clusters(&stage), 1);
}

/// Maps shared by few clients are charged to the streams of these clients.
#[test]
fn who_answers_alone_pays_for_its_map() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("shop", "cart")]);
    let callee = json!({"namespace": "shop", "service": "pay"});
    stage.save(Family::Routing, "pay", json!({"routing_config": {"callee": callee, "rules": []}}));
    stage.publish(Family::Routing, "pay", "all", None);
    let group = json!({"namespace": "shop", "service": "pay", "labels": {"version": exact("2")}});
    let rules = json!([{"name": "r", "destinations": [group]}]);
    stage.save(Family::Routing, "pay", json!({"routing_config": {"callee": callee, "rules": rules}}));
    stage.publish(Family::Routing, "pay", "gray", Some("eu"));
    let of_zone = |zone: &str| client(Dialect::Envoy, &[("zone", zone)]);
    let charge = |client: &Client| {
        let before = client.retained_bytes();
        assert!(stage.get(client, ResourceType::Route, "outbound").is_some());
        client.retained_bytes() - before
    };
    let alone = of_zone("eu");
    let whole = charge(&alone);
    assert!(whole > 200, "{whole}");
    assert!(charge(&of_zone("eu")) <= whole / 2, "it is there for two");
}
