//! Instances: every route on the leader and on a follower, and health by heartbeats over faults.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::envelope::both;
use crate::harness::{Api, Beaters, Cluster, eventually};
use crate::services::{SERVICES, names};

const INSTANCES: &str = "/naming/v1/instances";
/// A ttl of 1 s is three of them, and half a second to the next look; the rest is a busy machine.
const FOUND_OUT_LIMIT: Duration = Duration::from_secs(20);

fn instance(service: &str, host: &str, more: Value) -> Value {
    let mut item = json!({"namespace": "fleet", "service": service, "host": host, "port": 80});
    item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    item
}

/// Returns an instance with a health check of ttl 1.
fn checked(service: &str, host: &str) -> Value {
    instance(service, host, json!({"enableHealthCheck": true, "healthCheck": {"type": 1, "heartbeat": {"ttl": "1"}}}))
}

async fn list(api: &Api, query: &str) -> Vec<Value> {
    let answer = api.get(&format!("{INSTANCES}?{query}")).await.expect_code(200_000);
    answer.body["instances"].as_array().expect("a list of instances").clone()
}

async fn hosts(api: &Api, query: &str) -> Vec<String> {
    let mut hosts: Vec<_> = list(api, query).await.iter().map(|one| text(&one["host"])).collect();
    hosts.sort();
    hosts
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// Registers, and returns the ids.
async fn register(api: &Api, items: Vec<Value>) -> Vec<String> {
    let answer = api.post(INSTANCES, &Value::Array(items)).await.expect_code(200_000);
    let responses = answer.body["responses"].as_array().expect("a batch");
    responses.iter().map(|item| text(&item["instance"]["id"])).collect()
}

async fn await_health(api: &Api, id: &str, healthy: bool) {
    eventually(FOUND_OUT_LIMIT, &format!("{id} is healthy: {healthy}"), || async move {
        match list(api, &format!("id={id}")).await.as_slice() {
            [one] if one["healthy"] == healthy => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_come_change_and_go_through_any_node() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let service = format!("life-{role}");
        let item = |more: Value| json!([instance(&service, "10.0.0.1", more)]);
        let created = api.post(INSTANCES, &item(json!({"port": "8080", "enable_health_check": true}))).await;
        let created = created.expect_code(200_000).body["responses"][0]["instance"].clone();
        for (field, value) in [
            ("weight", json!(100)),
            ("healthy", json!(true)),
            ("isolate", json!(false)),
            ("priority", json!(0)),
            ("port", json!(8080)),
            ("enableHealthCheck", json!(true)),
            ("healthCheck", json!({"type": "HEARTBEAT", "heartbeat": {"ttl": 5}})),
            ("location", json!({"region": "", "zone": "", "campus": ""})),
        ] {
            assert_eq!(created[field], value, "{role}, {field} of {created}");
        }
        let by_id = |more: Value| {
            let mut item = json!({"id": created["id"]});
            item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            json!([item])
        };
        api.post(INSTANCES, &item(json!({"port": 8080, "enableHealthCheck": true}))).await.expect_code(200_000);
        api.put(INSTANCES, &by_id(json!({"weight": 7}))).await.expect_code(200_000);
        api.put(INSTANCES, &by_id(json!({"weight": "7"}))).await.expect_code(200_002);
        api.put(INSTANCES, &by_id(json!({"weight": 8, "revision": created["revision"]}))).await.expect_code(409_000);
        api.put(INSTANCES, &json!([{"id": "nobody", "weight": 7}])).await.expect_code(400_303);
        api.post("/naming/v1/services/delete", &json!([{"namespace": "fleet", "name": service}]))
            .await
            .expect_code(400_204);

        let isolated = json!([{"namespace": "fleet", "service": service, "host": "10.0.0.1", "isolate": true}]);
        api.put(&format!("{INSTANCES}/isolate/host"), &isolated).await.expect_code(200_000);
        api.put(&format!("{INSTANCES}/isolate/host"), &isolated).await.expect_code(200_002);
        api.post(INSTANCES, &item(json!({"port": 8080}))).await.expect_code(200_000);
        let now = list(&api, &format!("id={}", text(&created["id"]))).await.remove(0);
        assert_eq!((&now["isolate"], &now["weight"], &now["ctime"]), (&json!(true), &json!(100), &created["ctime"]));
        assert_eq!((&now["enableHealthCheck"], now.get("healthCheck")), (&json!(false), None), "{now}");

        for _ in 0..2 {
            api.post(&format!("{INSTANCES}/delete"), &by_id(json!({}))).await.expect_code(200_000);
        }
        register(
            &api,
            vec![instance(&service, "10.0.0.2", json!({})), instance(&service, "10.0.0.2", json!({"port": 81}))],
        )
        .await;
        let host = json!([{"namespace": "fleet", "service": service, "host": "10.0.0.2"}]);
        for _ in 0..2 {
            api.post(&format!("{INSTANCES}/delete/host"), &host).await.expect_code(200_000);
        }
        assert_eq!(hosts(&api, &format!("service={service}")).await, [""; 0]);
        api.post("/naming/v1/services/delete", &json!([{"namespace": "fleet", "name": service}]))
            .await
            .expect_code(200_000);
        // What a client library sends: one object, one answer.
        let one = instance(&service, "10.0.0.3", json!({}));
        let answer = api.post("/v1/RegisterInstance", &one).await.expect_code(200_000);
        assert_eq!(text(&answer.body["instance"]["id"]).len(), 40, "{answer}");
        api.post("/v1/Heartbeat", &one).await.expect_code(400_140);
        let answer = api.post("/v1/DeregisterInstance", &one).await.expect_code(200_000);
        assert_eq!(answer.body["instance"]["host"], "10.0.0.3", "{answer}");
        api.post("/v1/Heartbeat", &one).await.expect_code(400_202);
    }
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_instances_are_refused_field_by_field() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let rows = [
        (json!({"namespace": "a b"}), 400_110),
        (json!({"service": ""}), 400_120),
        (json!({"id": "a b"}), 400_130),
        (json!({"host": ""}), 400_131),
        (json!({"port": null}), 400_132),
        (json!({"port": 65536}), 400_132),
        (json!({"port": "x"}), 400_001),
        (json!({"protocol": "p".repeat(33)}), 400_136),
        (json!({"version": "v".repeat(33)}), 400_137),
        (json!({"logic_set": "l".repeat(129)}), 400_138),
        (json!({"healthCheck": {"type": "PING"}}), 400_001),
        (json!({"metadata": {"": "v"}}), 400_150),
    ];
    for (more, code) in rows {
        let answer = api.post(INSTANCES, &json!([instance("bad", "h", more.clone())])).await;
        assert_eq!((answer.code(), answer.item_codes()), (code, vec![code]), "{more}: {answer}");
    }
    api.put(&format!("{INSTANCES}/isolate/host"), &json!([instance("bad", "h", json!({}))])).await.expect_code(400_139);
    api.post(SERVICES, &json!([{"namespace": "fleet", "name": "real"}])).await.expect_code(200_000);
    let alias = json!({"namespace": "fleet", "service": "real", "alias": "other", "alias_namespace": "fleet"});
    api.post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    api.post(INSTANCES, &json!([instance("other", "h", json!({}))])).await.expect_code(400_502);
    assert_eq!(api.get(&format!("{INSTANCES}/count")).await.expect_code(200_000).amount(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_filter_and_services_count() {
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    let items = vec![
        instance("shop", "h1", json!({"metadata": {"tier": "gold"}, "version": "1", "location": {"zone": "z1"}})),
        instance("shop", "h2", json!({"port": 81, "healthy": false, "metadata": {"tier": "tin"}, "weight": 5})),
        instance("shop", "h3", json!({"isolate": true, "protocol": "grpc", "priority": 2, "logic_set": "blue"})),
        instance("cart", "h1", json!({"vpc_id": "v"})),
        instance("idle", "h4", json!({"healthy": false})),
    ];
    register(&follower, items).await;
    let rows: [(&str, &[&str]); 20] = [
        ("namespace=fleet", &["h1", "h1", "h2", "h3", "h4"]),
        ("namespace=fleet&service=shop", &["h1", "h2", "h3"]),
        ("service=*HOP", &["h1", "h2", "h3"]),
        ("host=h1,h4", &["h1", "h1", "h4"]),
        ("port=81", &["h2"]),
        ("keys=tier&values=gold", &["h1"]),
        ("healthy=false", &["h2", "h4"]),
        ("health_status=1&service=shop", &["h1", "h3"]),
        ("isolate=true", &["h3"]),
        ("weight=5", &["h2"]),
        ("priority=2", &["h3"]),
        ("protocol=grpc", &["h3"]),
        ("version=1", &["h1"]),
        ("logic_set=blue", &["h3"]),
        ("cmdb_zone=z1", &["h1"]),
        ("cmdb_region=r", &[]),
        ("vpc_id=v", &["h1"]),
        ("id=nobody", &[]),
        ("namespace=fleet&limit=0", &[]),
        ("namespace=fleet&service=shop&offset=3", &[]),
    ];
    for api in [&leader, &follower] {
        for (query, expected) in rows {
            assert_eq!(hosts(api, query).await, expected, "{query}");
        }
        for (query, code) in [("", 400_104), ("limit=5", 400_104), ("keys=tier", 400_105), ("port=x", 400_103)] {
            api.get(&format!("{INSTANCES}?{query}")).await.expect_code(code);
        }
        assert_eq!(api.get(&format!("{INSTANCES}/count")).await.expect_code(200_000).amount(), 5);
        let services: [(&str, &[&str]); 7] = [
            ("host=h1", &["cart", "shop"]),
            ("host=h1&port=81", &["shop"]),
            ("instance_keys=tier&instance_values=t*", &["shop"]),
            ("instance_keys=tier&instance_values=lead", &[]),
            ("only_exist_health_instance=true", &["cart", "shop"]),
            ("port=80,81", &["cart", "idle", "shop"]),
            ("namespace=fleet", &["cart", "idle", "shop"]),
        ];
        for (query, expected) in services {
            assert_eq!(names(api, query).await, expected, "{query}");
        }
        let service = api.get(&format!("{SERVICES}?name=shop")).await.expect_code(200_000).body["services"][0].clone();
        let counts = (&service["total_instance_count"], &service["healthy_instance_count"]);
        assert_eq!(counts, (&json!(3), &json!(1)), "{service}");
        let space =
            api.get("/naming/v1/namespaces?name=fleet").await.expect_code(200_000).body["namespaces"][0].clone();
        let counts = (&space["total_instance_count"], &space["total_health_instance_count"]);
        assert_eq!(counts, (&json!(5), &json!(2)), "{space}");
        let labels = api.get(&format!("{INSTANCES}/labels?namespace=fleet&service=shop")).await.expect_code(200_000);
        assert_eq!(labels.body["instanceLabels"]["labels"], json!({"tier": {"values": ["gold", "tin"]}}), "{labels}");
        assert_eq!(labels.body["instanceLabels"]["service_id"], service["id"], "{labels}");
        api.get(&format!("{INSTANCES}/labels?namespace=fleet&service=none")).await.expect_code(400_301);
    }
}

/// A heartbeat may follow its registration through another node at once, and health follows the
/// heartbeats through any node.
#[tokio::test(flavor = "multi_thread")]
async fn health_follows_the_heartbeats() {
    let cluster = Cluster::start(3).await;
    for round in 0..20 {
        let id = register(&cluster.api(1 + round % 3), vec![checked("quick", &format!("h{round}"))]).await.remove(0);
        cluster.api(1 + (round + 1) % 3).post("/v1/Heartbeat", &json!({ "id": id })).await.expect_code(200_000);
    }
    let api = cluster.api(1);
    let id = register(&api, vec![checked("one", "h")]).await.remove(0);
    for node in cluster.ids() {
        await_health(&api, &id, false).await;
        let service = api.get(&format!("{SERVICES}?name=one")).await.expect_code(200_000).body["services"][0].clone();
        assert_eq!(service["healthy_instance_count"], 0, "{service}");
        cluster.api(node).post("/v1/Heartbeat", &json!({ "id": id })).await.expect_code(200_000);
        await_health(&api, &id, true).await;
    }
    let beaters = Beaters::start(&[cluster.api(2)], std::slice::from_ref(&id), Duration::from_millis(500));
    let silent = register(&api, vec![checked("one", "silent")]).await.remove(0);
    await_health(&api, &silent, false).await;
    assert_eq!(hosts(&api, "service=one&healthy=true").await, ["h"], "one beats, one does not");
    drop(beaters);
    await_health(&api, &id, false).await;
    cluster.expect_equal_state().await;
}

/// An agent sends heartbeats for many instances in one request: each has its own result, in its position.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_beats_for_many() {
    let cluster = Cluster::start(3).await;
    for (role, api) in both(&cluster).await {
        let service = format!("agent-{role}");
        let ids = register(&cluster.api(1), vec![checked(&service, "h1"), checked(&service, "h2")]).await;
        let unchecked = register(&api, vec![instance(&service, "h3", json!({}))]).await.remove(0);
        let all = json!([{"id": ids[0]}, checked(&service, "h2")]);
        let answer = api.post("/v1/Heartbeat", &all).await.expect_code(200_000);
        assert_eq!((answer.amount(), answer.item_codes()), (2, vec![200_000, 200_000]), "{answer}");
        assert_eq!(answer.body["responses"][1]["instance"], json!({"id": ids[1]}), "{answer}");
        let some = json!([{"id": "nobody"}, {"id": ids[1]}, {"id": unchecked}, {"id": "a b"}, {"host": "h"}, 5]);
        let answer = api.post("/v1/Heartbeat", &some).await;
        let codes = [400_202, 200_000, 400_140, 400_130, 400_110, 400_001];
        assert_eq!((answer.code(), answer.item_codes()), (400_202, codes.to_vec()), "{answer}");
        assert_eq!(answer.body["responses"][0].get("instance"), None, "{answer}");
        api.post("/v1/Heartbeat", &json!([])).await.expect_code(400_002);
        api.post("/v1/Heartbeat", &json!(vec![json!({"id": ids[0]}); 101])).await.expect_code(400_003);
        await_health(&api, &ids[0], false).await;
        api.post("/v1/Heartbeat", &all).await.expect_code(200_000);
        await_health(&api, &ids[0], true).await;
    }
}

/// Instances that fail together are reported together, and so are those that recover together.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_dies_and_returns_is_no_flood_of_entries() {
    const ZONE: usize = 300;
    let cluster = Cluster::start(3).await;
    let (api, leader) = (cluster.api(cluster.followers().await[0]), cluster.api(cluster.leader().await));
    let items: Vec<Value> = (0..ZONE).map(|number| checked("zone", &format!("h{number}"))).collect();
    let mut ids = Vec::new();
    for batch in items.chunks(100) {
        ids.extend(register(&api, batch.to_vec()).await);
    }
    for (to, healthy) in [("unhealthy", false), ("healthy", true)] {
        let before = leader.metric("thuban_raft_last_log_index").await.expect("the series is there");
        if healthy {
            for batch in ids.chunks(100) {
                let beats = batch.iter().map(|id| json!({ "id": id })).collect();
                api.post("/v1/Heartbeat", &Value::Array(beats)).await.expect_code(200_000);
            }
        }
        let (leader, series) = (&leader, &format!("thuban_instance_health_changes_total{{to=\"{to}\"}}"));
        eventually(FOUND_OUT_LIMIT, "all have changed", || async move {
            let changes = leader.metric(series).await;
            if changes == Some(ZONE as f64) { Ok(()) } else { Err(format!("{changes:?}")) }
        })
        .await;
        let entries = leader.metric("thuban_raft_last_log_index").await.expect("the series is there") - before;
        assert!(entries <= 2.0, "{entries} entries until all were {to}");
    }
    cluster.expect_equal_state().await;
}

/// A held discovery is answered on every node when the health of an instance changes.
#[tokio::test(flavor = "multi_thread")]
async fn clients_discover_instances_and_what_becomes_of_them() {
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    let ids = register(&api, vec![instance("pay", "mortal", json!({})), instance("pay", "eternal", json!({}))]).await;
    let alias = json!({"namespace": "fleet", "service": "pay", "alias": "checkout", "alias_namespace": "fleet"});
    api.post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    let question = |revision: &Value, more: Value| {
        let service = json!({"namespace": "fleet", "name": "checkout", "revision": revision});
        let mut question = json!({"type": "INSTANCE", "service": service});
        question.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        question
    };
    let found = api.post("/v1/Discover", &question(&json!(""), json!({}))).await.expect_code(200_000);
    assert_eq!(found.body["instances"].as_array().map(Vec::len), Some(2), "{found}");
    assert_eq!(found.body["aliasFor"]["name"], "pay", "{found}");
    let (revision, index) = (&found.body["service"]["revision"], &found.body["applied_index"]);
    api.post("/v1/Discover", &question(revision, json!({}))).await.expect_code(200_001);
    let wait = json!({"timeout_ms": 14_000, "applied_index": index, "filter": {"OnlyHealthyInstance": true}});
    let mut waiting = JoinSet::new();
    for id in cluster.ids() {
        let (api, held) = (cluster.api(id), question(revision, wait.clone()));
        waiting.spawn(async move { api.post("/v1/Discover", &held).await });
        let api = &cluster.api(id);
        eventually(FOUND_OUT_LIMIT, "the question is held", || async move {
            let polls = api.metric("thuban_long_polls_held").await;
            if polls == Some(1.0) { Ok(()) } else { Err(format!("{polls:?}")) }
        })
        .await;
    }
    api.put(INSTANCES, &json!([{"id": ids[0], "healthy": false}])).await.expect_code(200_000);
    while let Some(answer) = waiting.join_next().await {
        let answer = answer.expect("no panic").expect_code(200_000);
        let healthy = answer.body["instances"].as_array().expect("instances");
        let hosts: Vec<_> = healthy.iter().map(|one| text(&one["host"])).collect();
        assert_eq!(hosts, ["eternal"], "{answer}");
    }
    let nobody = json!({"type": 1, "service": {"namespace": "fleet", "name": "none"}});
    api.post("/v1/Discover", &nobody).await.expect_code(400_202);
}

/// The instances of a fleet that beats; a change of health would renew their revisions.
async fn revisions(api: &Api) -> Vec<Value> {
    list(api, "service=fleet&limit=100").await.into_iter().map(|one| one["revision"].clone()).collect()
}

/// Waits until a silent instance is detected, so a whole window has passed under the present leader; no instance with
/// heartbeats became unhealthy in it.
async fn expect_nobody_flipped(api: &Api, before: &[Value], host: &str) {
    let silent = register(api, vec![checked("canary", host)]).await.remove(0);
    await_health(api, &silent, false).await;
    assert_eq!(revisions(api).await, before, "a living instance was declared dead");
}

fn fleet() -> Vec<Value> {
    (0..60).map(|number| checked("fleet", &format!("h{number}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_flips_when_leaders_die() {
    let mut cluster = Cluster::start(3).await;
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    let ids = register(&nodes[0], fleet()).await;
    let beaters = Beaters::start(&nodes, &ids, Duration::from_millis(500));
    beaters.flow(FOUND_OUT_LIMIT, ids.len()).await;
    let before = revisions(&nodes[0]).await;
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let survivor = cluster.api(cluster.running()[0]);
    expect_nobody_flipped(&survivor, &before, "after-a-kill").await;
    cluster.restart(leader).await;
    // An orderly end hands the lead over.
    let leader = cluster.leader().await;
    cluster.terminate(leader).await;
    expect_nobody_flipped(&cluster.api(cluster.running()[0]), &before, "after-an-end").await;
}

/// A suspended process received no heartbeats: after it resumes it declares no instance unhealthy for that.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_flips_when_the_leader_pauses() {
    let cluster = Cluster::start(3).await;
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    let ids = register(&nodes[0], fleet()).await;
    let beaters = Beaters::start(&nodes, &ids, Duration::from_millis(500));
    beaters.flow(FOUND_OUT_LIMIT, ids.len()).await;
    let before = revisions(&nodes[0]).await;
    let (leader, others) = (cluster.leader().await, cluster.followers().await);
    cluster.pause(leader).await;
    expect_nobody_flipped(&cluster.api(others[0]), &before, "while-paused").await;
    cluster.resume(leader).await;
    expect_nobody_flipped(&cluster.api(leader), &before, "after-the-pause").await;
}

/// A single node that is suspended for longer than every window, without another leader.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_flips_when_the_only_node_pauses() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let ids = register(&api, fleet()).await;
    let beaters = Beaters::start(std::slice::from_ref(&api), &ids, Duration::from_millis(500));
    beaters.flow(FOUND_OUT_LIMIT, ids.len()).await;
    let before = revisions(&api).await;
    cluster.pause(1).await;
    // Four calls of each that are given up after 1.5 s: twice the window.
    beaters.miss(FOUND_OUT_LIMIT, 4 * ids.len()).await;
    cluster.resume(1).await;
    expect_nobody_flipped(&api, &before, "after-the-pause").await;
}
