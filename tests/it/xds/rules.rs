//! Rules in gRPC clients and Envoy, with both variants: the called servers show their effect.

use serde_json::json;

use super::drivers::{Calls, Client, Kind, Request};
use super::world::{LIMIT, ROUTES, World, all_settle, group, publish, release, save, sub_rule, when, with, withdraw};

/// Calls of a check of shares; the bounds are five deviations.
const CALLS: u32 = 600;

/// Each part has its own service rules, one after the other, so that what was before it cannot help.
#[tokio::test(flavor = "multi_thread")]
async fn clients_carry_out_routing_rules() {
    carry_out_routing_rules(&Kind::ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_other_languages_carry_out_routing_rules() {
    carry_out_routing_rules(&Kind::languages()).await;
}

async fn carry_out_routing_rules(kinds: &[Kind]) {
    let mut world = World::start(3).await;
    let mut clients = world.clients_of(kinds, "cart", &[]).await;
    let request = Request::to("pay");
    all_settle(&mut clients, "no rule", &request, &world.pay()).await;
    all_settle(&mut clients, "another service", &Request::to("stock"), &world.stock()).await;
    by_header_path_and_method(&world, &mut clients).await;
    by_share(&mut world, &mut clients).await;
    by_priority(&mut world, &mut clients).await;
    by_place(&world, kinds, &mut clients).await;
    instances_that_are_out(&world, &mut clients).await;
    for client in &mut clients {
        client.expect_nothing_refused().await;
    }
}

async fn by_header_path_and_method(world: &World, clients: &mut [Client]) {
    let api = world.api();
    let [v1, v2, v3] = [1, 2, 3].map(|version| world.version(version));
    let to = |version: &str| vec![group(version, json!({}))];
    let gray = when("HEADER", "Env", "EXACT", "gray");
    let refund = when("PATH", "", "REGEX", "^/shop\\.Pay/Ref");
    let both = [when("HEADER", "Env", "IN", "gray,dark"), when("PATH", "", "EXACT", "/shop.Pay/Refund")];
    let rules = [
        sub_rule(&both, &to("v3")),
        sub_rule(&[gray], &to("v2")),
        sub_rule(&[refund], &to("v2")),
        sub_rule(&[when("HEADER", "level", "RANGE", "5~7")], &to("v3")),
        sub_rule(&[when("QUERY", "user", "EXACT", "7")], &to("v3")),
        sub_rule(&[when("METHOD", "", "EXACT", "Void")], &to("v3")),
        sub_rule(&[], &to("v1")),
    ];
    publish(&api, "parts", &rules).await;
    let request = Request::to("pay");
    all_settle(clients, "what is left", &request, &v1).await;
    let of_envoy = |path: &str| request.clone().path(path);
    for client in clients {
        let gray = request.clone().header("env", "gray");
        client.settles(LIMIT, "a header", &gray, &v2).await;
        client.settles(LIMIT, "header and path", &gray.clone().path("/shop.Pay/Refund"), &v3).await;
        client.settles(LIMIT, "one of two", &request.clone().header("env", "dark"), &v1).await;
        client.settles(LIMIT, "a path", &of_envoy("/shop.Pay/Refuse"), &v2).await;
        client.settles(LIMIT, "a range", &request.clone().header("level", "7"), &v3).await;
        client.settles(LIMIT, "past a range", &request.clone().header("level", "8"), &v1).await;
        if client.kind.is_envoy() {
            client.settles(LIMIT, "a query", &of_envoy("/shop.Pay/Charge?user=7"), &v3).await;
            client.settles(LIMIT, "another query", &of_envoy("/shop.Pay/Charge?user=8"), &v1).await;
        } else {
            client.settles(LIMIT, "a method", &of_envoy("/shop.Pay/Void"), &v3).await;
        }
    }
}

/// Clients name the servers that have counted their calls.
async fn by_share(world: &mut World, clients: &mut [Client]) {
    let api = world.api();
    let [v1, v2, v3] = [1, 2, 3].map(|version| world.version(version));
    let weighted = [group("v1", json!({"weight": 80})), group("v2", json!({"weight": 20}))];
    let mut some = sub_rule(&[], &weighted);
    some["arguments"]["random_percent"] = json!(50);
    publish(&api, "parts", &[some, sub_rule(&[], &[group("v3", json!({}))])]).await;
    let request = Request::to("pay");
    for client in clients {
        client.settles(LIMIT, "shares", &request.clone(), &world.pay()).await;
        world.backends.counts().await;
        let calls = client.call(&request, CALLS).await;
        let counted = world.backends.counts().await;
        let told: Vec<_> = counted.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(calls.answers.clone().into_iter().collect::<Vec<_>>(), told, "{:?}", client.kind);
        for (servers, share) in [(&v1, 0.4), (&v2, 0.1), (&v3, 0.5)] {
            expect_share(client.kind, calls.share_of(servers), share);
        }
    }
}

fn expect_share(kind: Kind, seen: f64, expected: f64) {
    let deviation = (expected * (1.0 - expected) / f64::from(CALLS)).sqrt();
    assert!((seen - expected).abs() < 5.0 * deviation, "{kind:?}: {seen}, not {expected}");
}

/// Groups are unused while the previous one has a healthy instance.
async fn by_priority(world: &mut World, clients: &mut [Client]) {
    let api = world.api();
    let [v1, v2] = [1, 2].map(|version| world.version(version));
    let groups = [
        group("v1", json!({"priority": 0})),
        group("v2", json!({"priority": 1})),
        group("v3", json!({"priority": 2, "isolate": true})),
    ];
    publish(&api, "parts", &[sub_rule(&[], &groups)]).await;
    let request = Request::to("pay");
    all_settle(clients, "the first group", &request, &v1).await;
    world.change(&v1[0], json!({"healthy": false})).await;
    all_settle(clients, "half of the first group", &request, &v1[1..]).await;
    world.change(&v1[1], json!({"healthy": false})).await;
    all_settle(clients, "the second group", &request, &v2).await;
    for server in &v1 {
        world.change(server, json!({"healthy": true})).await;
    }
    all_settle(clients, "the first group again", &request, &v1).await;
    for server in v1.iter().chain(&v2) {
        world.change(server, json!({"isolate": true})).await;
    }
    // The rule isolates the rest too. grpc-java continues with the last server.
    for client in clients.iter_mut().filter(|client| client.kind != Kind::Java) {
        client.comes_to(LIMIT, "no server is left", &request, 8, |calls| calls.answered() == 0).await;
    }
    for server in v1.iter().chain(&v2) {
        world.change(server, json!({"isolate": false})).await;
    }
    all_settle(clients, "after isolation", &request, &v1).await;
}

/// Callers of a zone are answered there while anything is well.
async fn by_place(world: &World, kinds: &[Kind], clients: &mut [Client]) {
    let api = world.api();
    save(&api, "parts", &[]).await;
    release(&api, ROUTES, "parts", json!({"release_name": "none"})).await;
    withdraw(&api, "parts", "none", json!({})).await;
    let near = json!([{"name": "near", "namespace": "shop", "route_policy": "NearbyPolicy", "routing_config":
        {"service": "pay", "namespace": "shop", "match_level": "ZONE", "max_match_level": "ALL"}}]);
    api.post(ROUTES, &near).await.expect_code(200_000);
    release(&api, ROUTES, "near", json!({"release_name": "near"})).await;
    let request = Request::to("pay");
    all_settle(clients, "callers without a place", &request, &world.pay()).await;
    let of_zone_b: Vec<String> = world.pay().into_iter().skip(1).step_by(2).collect();
    let of_zone_a: Vec<String> = world.pay().into_iter().step_by(2).collect();
    let mut near = world.clients_of(kinds, "near", &["--locality", "eu/b"]).await;
    all_settle(&mut near, "the zone of the caller", &request, &of_zone_b).await;
    for server in &of_zone_b {
        world.change(server, json!({"healthy": false})).await;
    }
    all_settle(&mut near, "the other zone", &request, &of_zone_a).await;
    for server in &of_zone_b {
        world.change(server, json!({"healthy": true})).await;
    }
    all_settle(&mut near, "the zone of the caller again", &request, &of_zone_b).await;
    withdraw(&api, "near", "near", json!({})).await;
    all_settle(clients, "no rule again", &request, &world.pay()).await;
    for client in &mut near {
        client.expect_nothing_refused().await;
    }
}

/// Weights, isolation and health of instances, without a rule.
async fn instances_that_are_out(world: &World, clients: &mut [Client]) {
    let stock = world.stock();
    let request = Request::to("stock");
    world.change(&stock[0], json!({"weight": 300})).await;
    for client in clients.iter_mut() {
        let is_right = |calls: &Calls| calls.failed() == 0 && (calls.share_of(&stock[..1]) - 0.75).abs() < 0.15;
        client.comes_to(LIMIT, "a weight of 300 beside 100", &request, 200, is_right).await;
    }
    world.change(&stock[0], json!({"isolate": true})).await;
    all_settle(clients, "one is isolated", &request, &stock[1..]).await;
    world.change(&stock[0], json!({"isolate": false, "weight": 0})).await;
    all_settle(clients, "one has no weight", &request, &stock[1..]).await;
    world.change(&stock[0], json!({"weight": 100})).await;
    world.change(&stock[1], json!({"healthy": false})).await;
    all_settle(clients, "one is not well", &request, &stock[..1]).await;
    world.change(&stock[1], json!({"healthy": true})).await;
    all_settle(clients, "all are well", &request, &stock).await;
}

/// Releases for some clients: those with a label, and a share of them; then for all, back and away.
#[tokio::test(flavor = "multi_thread")]
async fn releases_reach_the_clients_that_they_are_for() {
    reach_the_clients_that_they_are_for(&Kind::ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_reach_the_clients_of_other_languages_that_they_are_for() {
    reach_the_clients_that_they_are_for(&Kind::languages()).await;
}

async fn reach_the_clients_that_they_are_for(kinds: &[Kind]) {
    let world = World::start(3).await;
    let api = world.api();
    let [v1, v2, v3] = [1, 2, 3].map(|version| world.version(version));
    let mut clients = world.clients_of(kinds, "cart", &[]).await;
    let mut canaries = world.clients_of(kinds, "canary", &["--label", "canary=yes"]).await;
    let request = Request::to("pay");
    save(&api, "parts", &[sub_rule(&[], &[group("v1", json!({}))])]).await;
    release(&api, ROUTES, "parts", json!({"release_name": "first"})).await;
    all_settle(&mut clients, "the first release", &request, &v1).await;
    all_settle(&mut canaries, "the first release", &request, &v1).await;

    save(&api, "parts", &[sub_rule(&[], &[group("v2", json!({}))])]).await;
    let gray = json!({"release_name": "gray", "release_type": "gray",
        "client_labels": [{"key": "canary", "value": {"type": "EXACT", "value": "yes"}}]});
    release(&api, ROUTES, "parts", gray).await;
    all_settle(&mut canaries, "a gray release", &request, &v2).await;
    all_settle(&mut clients, "no gray release", &request, &v1).await;

    let of_gray = json!([{"rule_name": "parts", "release_name": "gray"}]);
    api.put(&format!("{ROUTES}/releases/stopbeta"), &of_gray).await.expect_code(200_000);
    all_settle(&mut canaries, "the gray release is stopped", &request, &v1).await;

    save(&api, "parts", &[sub_rule(&[], &[group("v3", json!({}))])]).await;
    release(&api, ROUTES, "parts", json!({"release_name": "full"})).await;
    all_settle(&mut clients, "the second release", &request, &v3).await;
    all_settle(&mut canaries, "the second release", &request, &v3).await;
    by_share_of_clients(&world, &mut clients, &mut canaries).await;
    promoted_and_rolled_back(&world, &mut clients, &mut canaries).await;

    withdraw(&api, "parts", "full", json!({"to_previous": true})).await;
    all_settle(&mut clients, "withdrawn to the release before", &request, &v2).await;
    withdraw(&api, "parts", "promoted", json!({})).await;
    all_settle(&mut clients, "withdrawn", &request, &world.pay()).await;
    an_alias_is_called(&world, &mut clients).await;
    for client in clients.iter_mut().chain(&mut canaries) {
        client.expect_nothing_refused().await;
    }
}

/// A gray release becomes that of all clients; then the one before is put in force again. The draft is that of the
/// share.
async fn promoted_and_rolled_back(world: &World, clients: &mut [Client], canaries: &mut [Client]) {
    let api = world.api();
    let [v2, v3] = [2, 3].map(|version| world.version(version));
    let candidate = json!({"release_name": "candidate", "release_type": "gray",
        "client_labels": [{"key": "canary", "value": {"type": "EXACT", "value": "yes"}}]});
    release(&api, ROUTES, "parts", candidate).await;
    let request = Request::to("pay");
    all_settle(canaries, "a candidate", &request, &v2).await;
    all_settle(clients, "no candidate yet", &request, &v3).await;
    let promote = json!([{"rule_name": "parts", "release_name": "candidate", "new_release_name": "promoted"}]);
    api.put(&format!("{ROUTES}/releases/promote"), &promote).await.expect_code(200_000);
    all_settle(clients, "the candidate is promoted", &request, &v2).await;
    all_settle(canaries, "the candidate is promoted", &request, &v2).await;
    let back = json!([{"rule_name": "parts", "release_name": "full"}]);
    api.put(&format!("{ROUTES}/releases/rollback"), &back).await.expect_code(200_000);
    all_settle(clients, "rolled back", &request, &v3).await;
    all_settle(canaries, "rolled back", &request, &v3).await;
}

/// Half of the clients by their ids: each gets one of the two releases, and `explain` reports which.
async fn by_share_of_clients(world: &World, clients: &mut [Client], canaries: &mut [Client]) {
    let api = world.api();
    let [v2, v3] = [2, 3].map(|version| world.version(version));
    save(&api, "parts", &[sub_rule(&[], &[group("v2", json!({}))])]).await;
    let half = json!({"release_name": "half", "release_type": "gray",
        "client_percent": {"by": "NODE_ID", "percent": 50}});
    release(&api, ROUTES, "parts", half).await;
    let request = Request::to("pay");
    for (name, clients) in [("cart", clients), ("canary", canaries)] {
        for client in clients {
            let node_id = format!("{name}-{:?}", client.kind);
            let sketch = json!({"service": "pay", "namespace": "shop", "client_labels": {"NODE_ID": node_id}});
            let told = api.post(&format!("{ROUTES}/explain"), &sketch).await.expect_code(200_000);
            let grays = told.body["explanation"]["grays"].as_array().expect("a list").clone();
            let is_for_it =
                grays.iter().any(|gray| gray["release"]["release_name"] == "half" && gray["state"] == "in_force");
            client.settles(LIMIT, "a share of the clients", &request, if is_for_it { &v2 } else { &v3 }).await;
        }
    }
    let of_half = json!([{"rule_name": "parts", "release_name": "half"}]);
    api.put(&format!("{ROUTES}/releases/stopbeta"), &of_half).await.expect_code(200_000);
}

async fn an_alias_is_called(world: &World, clients: &mut [Client]) {
    let alias = json!({"namespace": "shop", "service": "pay", "alias": "checkout", "alias_namespace": "shop"});
    world.api().post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    all_settle(clients, "an alias", &Request::to("checkout"), &world.pay()).await;
    let moved = with(alias, json!({"service": "stock"}));
    world.api().put("/naming/v1/service/alias", &json!([moved])).await.expect_code(200_000);
    all_settle(clients, "an alias that was moved", &Request::to("checkout"), &world.stock()).await;
}
