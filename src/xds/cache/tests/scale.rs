//! Caches with many services and many clients.

use super::*;
use crate::catalog::Command;
use crate::xds::View;
use crate::xds::cache::testing::drafts;

const SERVICES: usize = 1_000;
const CLIENTS: usize = 200;

fn crowd(stage: &mut Stage) -> Vec<Client> {
    for from in (0..SERVICES).step_by(100) {
        let batch = (from..from + 100).map(|number| json!({"namespace": "shop", "name": format!("s{number:04}")}));
        stage.apply(Command::Services(Op::Create, drafts(batch.collect())));
    }
    let client = |number: usize| {
        let zone = format!("z{}", number % 4);
        Client { node_id: number.to_string(), ..client(Dialect::Envoy, &[("zone", &zone), ("NODE_ID", "x")]) }
    };
    (0..CLIENTS).map(client).collect()
}

/// Returns the number of units built while all clients request everything.
fn made_while_all_look(stage: &Stage, clients: &[Client]) -> usize {
    let before = stage.cache.units.lock().made;
    for client in clients {
        let view = stage.cache.view(client);
        assert_eq!(view.all(ResourceType::Cluster).len(), SERVICES);
        assert_eq!(view.all(ResourceType::Endpoints).len(), SERVICES);
        assert!(view.get(ResourceType::Route, "outbound").is_some());
    }
    stage.cache.units.lock().made - before
}

#[test]
fn a_change_costs_what_it_changed() {
    let mut stage = Stage::new();
    let clients = crowd(&mut stage);
    assert_eq!(made_while_all_look(&stage, &clients), 3 * SERVICES, "clusters, endpoints and virtual hosts");
    assert_eq!(made_while_all_look(&stage, &clients), 0);
    let shared = stage.all(&clients[0], ResourceType::Cluster);
    assert!(clients.iter().all(|client| stage.all(client, ResourceType::Cluster).ptr_eq(&shared)), "one map for all");
    stage.instances(Op::Create, "shop", "s0500", json!([{"host": "10.0.0.1"}]));
    assert_eq!(made_while_all_look(&stage, &clients), 2, "cluster and endpoints of that service");
    let endpoints = stage.all(&clients[0], ResourceType::Endpoints);
    let by_name = stage.get(&grpc(), ResourceType::Endpoints, "shop/s0500").expect("there");
    assert!(Arc::ptr_eq(&endpoints["shop/s0500"], &by_name), "made once for all");
    // A gray release rebuilds only the units it concerns, once per variant.
    let callee = json!({"namespace": "shop", "service": "s0500"});
    let group = json!({"namespace": "shop", "service": "s0500", "labels": {"version": exact("2")}});
    let body = json!({"routing_config": {"callee": callee, "rules": [{"name": "r", "destinations": [group]}]}});
    stage.save(Family::Routing, "gray", body);
    stage.publish(Family::Routing, "gray", "r", Some("z1"));
    assert_eq!(made_with_sets(&stage, &clients), 3, "its clusters, and two virtual hosts");
    let routes = |client: &Client| stage.get(client, ResourceType::Route, "outbound").expect("there");
    let gray = routes(&clients[1]);
    assert!(clients.iter().all(|one| Arc::ptr_eq(&routes(one), &gray) == (one.labels["zone"] == "z1")));
}

fn made_with_sets(stage: &Stage, clients: &[Client]) -> usize {
    let before = stage.cache.units.lock().made;
    for client in clients {
        assert_eq!(stage.all(client, ResourceType::Cluster).len(), SERVICES + 1);
        assert!(stage.get(client, ResourceType::Route, "outbound").is_some());
    }
    stage.cache.units.lock().made - before
}

/// Every service may call it, but no units of the callers depend on the rule.
#[test]
fn a_rule_for_callers_of_one_service_costs_that_service() {
    let mut stage = Stage::new();
    let clients = crowd(&mut stage);
    made_while_all_look(&stage, &clients);
    let number = *stage.cache.changes().borrow();
    let rule = |value: &str| {
        let caller = json!({"namespace": "*", "service": "*"});
        let callee = json!({"namespace": "shop", "service": "s0500"});
        let argument = json!({"type": "HEADER", "key": "k", "value": {"value": value}});
        let rule = json!({"name": "r", "arguments": {"arguments": [argument]}, "destinations": [callee]});
        json!({"routing_config": {"caller": caller, "callee": callee, "rules": [rule]}})
    };
    for value in ["a", "b"] {
        stage.save(Family::Routing, "of one", rule(value));
        stage.publish(Family::Routing, "of one", value, None);
        assert_eq!(made_while_all_look(&stage, &clients), 3, "its cluster, endpoints and virtual host");
    }
    let touched = stage.cache.touched_since(number).expect("known");
    let has = |name: &str| touched.iter().any(|touched| touched.has(name));
    assert_eq!((has("shop/s0500"), has("shop/s0499")), (true, false));
}
