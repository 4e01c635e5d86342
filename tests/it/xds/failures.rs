//! Nodes die and stop while clients call: no call fails, and changes of rules still arrive.

use serde_json::json;

use super::drivers::{Client, Kind, Options, Request};
use super::world::{World, all_settle, group, publish, sub_rule};
use crate::harness::report;

const FLOW: &str = "on and on";
/// Share of the calls of grpc-go that may fail: a node that has just started does not know the client's routes, so a
/// change arrives in one step, and calls fail until the client has connected to the new servers.
const FAILURES_OF_GO: f64 = 0.05;

#[tokio::test(flavor = "multi_thread")]
async fn clients_live_on_when_nodes_die() {
    live_on_when_nodes_die(&Kind::ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_other_languages_live_on_when_nodes_die() {
    live_on_when_nodes_die(&Kind::languages()).await;
}

async fn live_on_when_nodes_die(kinds: &[Kind]) {
    let mut world = World::start(3).await;
    let request = Request::to("pay");
    let mut clients = world.clients_of(kinds, "cart", &[]).await;
    put_in_force(&world, 1).await;
    all_settle(&mut clients, "the first version", &request, &world.version(1)).await;
    for client in &mut clients {
        client.flow(FLOW, &request).await;
    }
    let leader = world.cluster.leader().await;
    world.cluster.kill(leader).await;
    changes_arrive(&world, &mut clients).await;
    world.cluster.restart(leader).await;
    // Whichever of the others a client went to, it is moved again.
    for id in world.cluster.ids().into_iter().filter(|id| *id != leader) {
        let status = world.cluster.terminate(id).await;
        assert!(status.success(), "{status}");
        changes_arrive(&world, &mut clients).await;
        world.cluster.restart(id).await;
    }
    for client in &mut clients {
        let calls = client.stop(FLOW).await;
        report(format!("{:?}: {} calls while nodes died, {} failed", client.kind, calls.answered(), calls.failed()));
        assert!(calls.failed() == 0 && calls.answered() > 100, "{:?}: {calls:?}", client.kind);
        client.expect_nothing_refused().await;
    }
}

/// Clients with a single node keep their resources while it is down, and get the changes when it returns.
#[tokio::test(flavor = "multi_thread")]
async fn clients_live_on_without_a_balancer() {
    let mut world = World::start(3).await;
    let servers = Some(world.cluster.ports(2).grpc.to_string());
    let mut clients = Vec::new();
    for kind in Kind::languages() {
        let options = Options { servers: servers.clone(), ..Options::default() };
        clients.extend(Client::start_if_there(kind, &world.cluster, "cart", &options).await);
    }
    let request = Request::to("pay");
    put_in_force(&world, 1).await;
    all_settle(&mut clients, "by one node", &request, &world.version(1)).await;
    for client in &mut clients {
        client.flow(FLOW, &request).await;
    }
    for (is_killed, before, after) in [(true, 1, 2), (false, 2, 3)] {
        if is_killed {
            world.cluster.kill(2).await;
        } else {
            world.cluster.terminate(2).await;
        }
        put_in_force(&world, after).await;
        for client in &mut clients {
            let calls = client.call(&request, 10).await;
            let by = calls.answered_by().into_iter().map(str::to_owned).collect::<Vec<_>>();
            assert!(
                calls.failed() == 0 && by == world.version(before),
                "{:?}, without its node: {calls:?}",
                client.kind
            );
        }
        world.cluster.restart(2).await;
        all_settle(&mut clients, "its node is back", &request, &world.version(after)).await;
    }
    for client in &mut clients {
        let calls = client.stop(FLOW).await;
        report(format!("{:?}: {} calls by one node, {} failed", client.kind, calls.answered(), calls.failed()));
        let allowed = if matches!(client.kind, Kind::Go | Kind::Go2024) { FAILURES_OF_GO } else { 0.0 };
        let is_allowed = calls.failed() as f64 <= allowed * calls.answered() as f64;
        assert!(is_allowed && calls.answered() > 100, "{:?}: {calls:?}", client.kind);
        client.expect_nothing_refused().await;
    }
}

/// A rule and an instance, with a node down.
async fn changes_arrive(world: &World, clients: &mut [Client]) {
    let request = Request::to("pay");
    for version in [2, 3, 1] {
        put_in_force(world, version).await;
        all_settle(clients, "a node is down", &request, &world.version(version)).await;
    }
    let [first, second] = [0, 1].map(|position| world.version(1)[position].clone());
    world.change(&first, json!({"isolate": true})).await;
    all_settle(clients, "a node is down, an instance is isolated", &request, &[second]).await;
    world.change(&first, json!({"isolate": false})).await;
    all_settle(clients, "a node is down, an instance is back", &request, &world.version(1)).await;
}

/// The request is retried as any client of the API does while there is no leader.
async fn put_in_force(world: &World, version: u8) {
    world.cluster.leader().await;
    publish(&world.api(), "parts", &[sub_rule(&[], &[group(&format!("v{version}"), json!({}))])]).await;
}
