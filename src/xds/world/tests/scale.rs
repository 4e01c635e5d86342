//! Many services and many clients.

use super::*;
use crate::catalog::Command;
use crate::xds::View;
use crate::xds::world::testing::drafts;

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

/// Units that are made while all clients look.
fn made_while_all_look(stage: &Stage, clients: &[Client]) -> usize {
    let before = stage.world.cells.lock().made;
    for client in clients {
        let view = stage.world.view(client);
        assert_eq!(view.all(ResourceType::Cluster).len(), SERVICES);
        assert!(view.get(ResourceType::Route, "outbound").is_some());
    }
    stage.world.cells.lock().made - before
}

#[test]
fn a_change_costs_what_it_changed() {
    let mut stage = Stage::new();
    let clients = crowd(&mut stage);
    assert_eq!(made_while_all_look(&stage, &clients), 2 * SERVICES, "clusters and virtual hosts");
    assert_eq!(made_while_all_look(&stage, &clients), 0);
    let shared = stage.all(&clients[0], ResourceType::Cluster);
    assert!(clients.iter().all(|client| stage.all(client, ResourceType::Cluster).ptr_eq(&shared)), "one map for all");
    stage.instances(Op::Create, "shop", "s0500", json!([{"host": "10.0.0.1"}]));
    assert_eq!(made_while_all_look(&stage, &clients), 1, "the cluster of that service");
    // A gray release makes those anew that it is about, and once for each answer.
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
    let before = stage.world.cells.lock().made;
    for client in clients {
        assert_eq!(stage.all(client, ResourceType::Cluster).len(), SERVICES + 1);
        assert!(stage.get(client, ResourceType::Route, "outbound").is_some());
    }
    stage.world.cells.lock().made - before
}

#[test]
fn it_is_known_what_a_change_was_about() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("shop", "cart")]);
    let names = ["shop/pay", "shop/cart", "shop/new"].map(Arc::from).into_iter().collect();
    let look = |stage: &Stage| {
        for name in ["shop/pay", "shop/cart", "shop/new"] {
            stage.get(&grpc(), ResourceType::Endpoints, name);
        }
        *stage.world.changes().borrow()
    };
    let changed = |stage: &Stage, kind, number| {
        let changed = stage.world.view(&grpc()).changed_since(kind, number);
        changed.map(|changed| changed.among(&names).map(|name| name.to_string()).collect::<Vec<_>>())
    };
    let number = look(&stage);
    assert_eq!(changed(&stage, ResourceType::Endpoints, number), Some(Vec::new()));
    stage.instances(Op::Create, "shop", "pay", json!([{"host": "10.0.0.1"}]));
    assert_eq!(changed(&stage, ResourceType::Endpoints, number), Some(vec!["shop/pay".to_owned()]));
    assert_eq!(changed(&stage, ResourceType::Listener, number), Some(Vec::new()));
    let number = look(&stage);
    stage.services(Op::Create, &[("shop", "new")]);
    for kind in ResourceType::ALL {
        assert_eq!(changed(&stage, kind, number), Some(vec!["shop/new".to_owned()]), "{kind:?}");
    }
    let of_proxy = stage.world.view(&envoy());
    assert!(of_proxy.changed_since(ResourceType::Route, number).is_none(), "they are of many services each");
}
