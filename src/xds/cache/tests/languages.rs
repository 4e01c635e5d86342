//! Resources that all gRPC libraries interpret equally, and the differences between libraries.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::model::mesh::library::Library;
use crate::proto::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use crate::proto::envoy::config::route::v3::route::Action;
use crate::proto::envoy::config::route::v3::route_match::PathSpecifier;
use crate::proto::envoy::config::route::v3::{HeaderMatcher, Route};
use crate::proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use crate::proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

fn of(library: Library) -> Client {
    Client { library, ..grpc() }
}

fn argument(kind: &str, key: &str, how: &str, value: &str) -> Value {
    json!({"type": kind, "key": key, "value": {"type": how, "value": value}})
}

/// Returns a cache with one rule that has these conditions.
fn stage(conditions: &[Value]) -> Stage {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let with = |host: &str, version: &str| json!({"host": host, "metadata": {"version": version}});
    stage.instances(Op::Create, "shop", "pay", json!([with("10.0.0.1", "1"), with("10.0.0.2", "2")]));
    let labels = json!({"version": {"type": "EXACT", "value": "2"}});
    stage.route(
        "pay",
        json!([{"name": "r", "arguments": {"arguments": conditions},
            "destinations": [{"namespace": "shop", "service": "pay", "labels": labels}]}]),
    );
    stage
}

/// Returns the routes before the catch-all route.
fn routes(stage: &Stage, client: &Client) -> Vec<Route> {
    let name = if client.dialect == Dialect::Envoy { "outbound/shop" } else { "shop/pay" };
    let message: RouteConfiguration = stage.decoded(client, ResourceType::Route, name);
    let mut routes = message.virtual_hosts[0].routes.clone();
    routes.pop();
    routes
}

fn headers(route: &Route) -> Vec<HeaderMatcher> {
    route.r#match.clone().expect("conditions").headers
}

/// Some clients identify a locality by its name alone, across priorities.
#[test]
fn a_locality_is_named_once_in_an_assignment() {
    let mut stage = stage(&[]);
    let group = |version: &str, priority: u32| {
        json!({"namespace": "shop", "service": "pay", "priority": priority,
            "labels": {"version": {"type": "EXACT", "value": version}}})
    };
    let groups = json!([group("1", 0), group("2", 1)]);
    stage.route("pay", json!([{"name": "r", "destinations": groups}]));
    for (name, _) in stage.all(&grpc(), ResourceType::Endpoints) {
        let assignment: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, &name);
        let named: BTreeSet<String> = assignment.endpoints.iter().map(|one| format!("{:?}", one.locality)).collect();
        assert_eq!(named.len(), assignment.endpoints.len(), "{name}: {assignment:?}");
    }
    let name = routes(&stage, &grpc())[0].action.clone().map(|action| format!("{action:?}")).unwrap_or_default();
    let name = name.split('"').find(|text| text.starts_with("shop/pay|")).expect("a cluster of labels").to_owned();
    let endpoints: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, &name);
    let localities: Vec<String> =
        endpoints.endpoints.iter().filter_map(|one| Some(one.locality.clone()?.sub_zone)).collect();
    assert_eq!(localities, [";w=100", ";w=100;p=1"]);
}

#[test]
fn nothing_limits_requests_that_no_rule_limits() {
    let stage = stage(&[]);
    for client in [grpc(), envoy()] {
        for (name, resource) in stage.all(&client, ResourceType::Cluster) {
            let cluster = Cluster::decode(resource.bytes()).expect("a cluster");
            let thresholds = cluster.circuit_breakers.expect("limits of its own").thresholds;
            assert_eq!(thresholds[0].max_requests, Some(0x7fff_ffff), "{name}");
            assert_eq!(thresholds[0].max_connections, Some(u32::MAX), "{name}");
        }
    }
}

/// Reports whether a matcher requires the presence of a header, in the form for this client.
fn is_presence(one: &HeaderMatcher, client: &Client) -> bool {
    let is_go = client.dialect == Dialect::Grpc && client.library == Library::Go;
    match &one.header_match_specifier {
        Some(HeaderMatchSpecifier::PresentMatch(is_present)) => *is_present && !is_go,
        Some(HeaderMatchSpecifier::StringMatch(text)) => {
            let is_any = matches!(&text.match_pattern, Some(MatchPattern::SafeRegex(one)) if one.regex == ".*");
            is_go && is_any && !one.invert_match
        }
        _ => false,
    }
}

#[test]
fn an_inverted_comparison_stands_beside_one_that_the_header_is_there() {
    let stage = stage(&[argument("HEADER", "env", "NOT_IN", "a,b"), argument("HEADER", "x", "EXACT", "1")]);
    let clients = Library::ALL.map(of).into_iter().chain([envoy()]);
    for client in clients {
        let headers = headers(&routes(&stage, &client)[0]);
        let shown: Vec<(&str, bool, bool)> =
            headers.iter().map(|one| (one.name.as_str(), one.invert_match, is_presence(one, &client))).collect();
        let expected = [("env", false, true), ("env", true, false), ("env", true, false), ("x", false, false)];
        assert_eq!(shown, expected, "{:?}", client.library);
    }
}

/// For gRPC in Go an empty header is not present, but a regular expression matches it.
#[test]
fn that_a_header_is_there_is_asked_as_the_library_reads_it() {
    let parameter = json!({"type": "HEADER", "key": "env", "value": {"value_type": "PARAMETER", "value": "e"}});
    let mut conditions = vec![parameter, json!({"type": "HEADER", "key": "env"})];
    for (how, value) in [("EXACT", ""), ("EXACT", "*"), ("REGEX", ".*"), ("NOT_EQUALS", "a"), ("NOT_EQUALS", "")] {
        conditions.push(argument("HEADER", "env", how, value));
    }
    for condition in conditions {
        let stage = stage(std::slice::from_ref(&condition));
        for client in Library::ALL.map(of).into_iter().chain([envoy()]) {
            let headers = headers(&routes(&stage, &client)[0]);
            assert!(is_presence(&headers[0], &client), "{:?} {condition}: {headers:?}", client.library);
        }
    }
}

#[test]
fn the_end_of_a_range_is_what_the_library_takes_it_for() {
    let stage = stage(&[argument("HEADER", "age", "RANGE", "10~20")]);
    let clients = Library::ALL.map(of).into_iter().chain([envoy()]);
    for client in clients {
        let headers = headers(&routes(&stage, &client)[0]);
        let Some(HeaderMatchSpecifier::RangeMatch(range)) = &headers[0].header_match_specifier else {
            panic!("{headers:?}")
        };
        let is_java = client.dialect == Dialect::Grpc && client.library == Library::Java;
        assert_eq!((range.start, range.end), (10, if is_java { 20 } else { 21 }), "{:?}", client.library);
    }
}

#[test]
fn what_acts_on_the_path_is_the_path_of_the_route() {
    let rows = [
        argument("METHOD", "", "EXACT", "Cancel"),
        argument("METHOD", "", "NOT_IN", "Cancel,Void"),
        argument("METHOD", "", "REGEX", "^C"),
        argument("PATH", "", "NOT_EQUALS", "/shop.Pay/Cancel"),
        argument("PATH", "", "IN", "/a,/b"),
    ];
    for condition in rows {
        let stage = stage(std::slice::from_ref(&condition));
        for library in Library::ALL {
            let routes = routes(&stage, &of(library));
            let found = routes[0].r#match.clone().expect("conditions");
            assert!(found.headers.is_empty(), "{library:?} {condition}: {found:?}");
            assert!(matches!(found.path_specifier, Some(PathSpecifier::SafeRegex(_))), "{condition}: {found:?}");
        }
    }
}

#[test]
fn a_second_condition_on_the_path_is_for_who_compares_it() {
    let second = [argument("PATH", "", "EXACT", "/shop.Pay/Cancel"), argument("METHOD", "", "NOT_EQUALS", "Void")];
    let parameter = json!({"type": "METHOD", "value": {"value_type": "PARAMETER", "value": "m"}});
    let stage = stage(&second);
    for library in Library::ALL {
        let count = routes(&stage, &of(library)).len();
        assert_eq!(count, usize::from(library == Library::Core), "{library:?}");
    }
    let mut stage = stage;
    let labels = json!({"version": {"value_type": "PARAMETER", "value": "m"}});
    stage.route(
        "pay",
        json!([{"name": "r", "arguments": {"arguments": [second[0], parameter]},
            "destinations": [{"namespace": "shop", "service": "pay", "labels": labels}]}]),
    );
    for library in Library::ALL {
        let is_there = !routes(&stage, &of(library)).is_empty();
        assert_eq!(is_there, library == Library::Core, "{library:?}");
    }
}

#[test]
fn a_server_of_grpc_is_given_the_listener_that_it_asks_for() {
    let stage = Stage::new();
    for (name, address, port) in [("server/0.0.0.0:50051", "0.0.0.0", 50_051), ("server/[::1]:80", "::1", 80)] {
        for library in Library::ALL {
            let listener: Listener = stage.decoded(&of(library), ResourceType::Listener, name);
            let shown = format!("{:?}", listener.address);
            assert!(
                shown.contains(&format!("{address:?}")) && shown.contains(&format!("PortValue({port})")),
                "{shown}"
            );
            let filter = listener.filter_chains[0].filters[0].clone();
            let Some(crate::proto::envoy::config::listener::v3::filter::ConfigType::TypedConfig(manager)) =
                filter.config_type
            else {
                panic!("a manager")
            };
            let manager = HttpConnectionManager::decode(&manager.value[..]).expect("a manager");
            assert_eq!(manager.http_filters.len(), 1);
            let Some(RouteSpecifier::RouteConfig(routes)) = manager.route_specifier else { panic!("{manager:?}") };
            let action = routes.virtual_hosts[0].routes[0].action.clone();
            assert!(matches!(action, Some(Action::NonForwardingAction(_))), "{action:?}");
        }
    }
    assert!(stage.get(&grpc(), ResourceType::Listener, "server/pay").is_none());
    assert!(stage.get(&envoy(), ResourceType::Listener, "server/0.0.0.0:50051").is_none());
}
