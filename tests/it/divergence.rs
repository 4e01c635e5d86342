//! A node whose state differs from that of the others is found out, stops serving and stays stopped.

use std::path::Path;
use std::time::Duration;

use rocksdb::{DB, IteratorMode, Options};
use serde_json::{Value, json};

use crate::harness::{Api, Cluster, eventually, report};
use crate::polls::hold;

const LIMIT: Duration = Duration::from_secs(30);
/// Entries between two comparisons; each write below is one.
const INTERVAL: usize = 20;
/// The table of services, and the version that begins each row.
const SERVICE_TABLE: u8 = 7;

/// Changes the comment of the one service in the rows of a stopped node, as a flipped bit on its disk or a
/// defect in one version's apply would.
fn tamper(data: &Path) {
    let database = DB::open_cf(&Options::default(), data.join("db"), ["default", "log", "state"]);
    let database = database.expect("a stopped node's database can be opened");
    let state = database.cf_handle("state").expect("the rows of the state");
    let rows = database.iterator_cf(state, IteratorMode::Start).map(|row| row.expect("a row can be read"));
    let (key, value) = rows.into_iter().find(|(key, _)| key[0] == SERVICE_TABLE).expect("a service");
    let mut row: Value = rmp_serde::from_slice(&value[1..]).expect("a row is MessagePack with names");
    assert_eq!(row["comment"], "right", "{row}");
    row["comment"] = json!("wrong");
    let tampered = [&value[..1], &rmp_serde::to_vec(&row).expect("JSON is MessagePack")].concat();
    database.put_cf(state, key, tampered).expect("the row can be written");
}

/// Updates that carry the rest of the row along, enough to pass an index at which states are compared.
async fn pass_a_comparison(api: &Api) {
    for number in 0..2 * INTERVAL {
        let update = json!([{"namespace": "default", "name": "tampered", "business": format!("b{number}")}]);
        api.put("/naming/v1/services", &update).await.expect_code(200_000);
    }
}

async fn expect_metric(api: &Api, value: f64) {
    eventually(LIMIT, &format!("thuban_state_diverged is {value}"), || async {
        match api.metric("thuban_state_diverged").await {
            Some(seen) if seen == value => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
}

async fn expect_stopped(cluster: &Cluster, odd: u64) {
    let api = cluster.api(odd);
    let asked = &api;
    eventually(LIMIT, "the odd node stops serving", || async move {
        match asked.health("/readyz").await? {
            (503, text) if text.contains("[-]state failed: ") => Ok(()),
            (status, text) => Err(format!("{status} {text}")),
        }
    })
    .await;
    let service = json!([{"namespace": "default", "name": "refused"}]);
    for answer in [
        api.get("/naming/v1/services").await,
        api.get("/naming/v1/services?consistency=local").await,
        api.post("/naming/v1/services", &service).await,
        api.get("/config/v1/configfiles/search").await,
        api.post("/auth/v1/user/login", &json!({"name": "admin", "password": "x"})).await,
    ] {
        let answer = answer.expect_code(503_004);
        let info = answer.body["info"].as_str().unwrap_or_default();
        assert!(info.contains(&format!("thuban cluster remove --id {odd}")), "what to do is not in {info:?}");
    }
    let apollo = cluster.apollo(odd);
    for path in ["/configs/app/default/application", "/configfiles/app/default/application", "/services/config"] {
        assert_eq!(apollo.get(path).await.status, 503, "{path}");
    }
    let polled = apollo.poll("app", "default", &[("application", -1)]).await.expect("the poll is answered");
    assert_eq!(polled.status, 503, "{polled:?}");

    assert_eq!(api.health("/livez").await.expect("the node answers").0, 200);
    assert_eq!(apollo.get("/livez").await.status, 200);
    expect_metric(&api, 1.0).await;
    let alarms = api.cluster().await.expect("the cluster can be shown").body["alarms"].clone();
    assert!(alarms[0].as_str().is_some_and(|alarm| alarm.contains(&format!("node {odd}"))), "{alarms}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_state_stops_and_the_others_go_on() {
    let interval = INTERVAL.to_string();
    let mut cluster = Cluster::start_with(3, &["--hash-check-entries", &interval]).await;
    let service = json!([{"namespace": "default", "name": "tampered", "comment": "right"}]);
    cluster.api(1).post("/naming/v1/services", &service).await.expect_code(200_000);
    cluster.api(1).publish("default", "app", "application", "a=1").await;
    pass_a_comparison(&cluster.api(1)).await;
    cluster.expect_equal_state().await;

    let odd = cluster.followers().await[0];
    assert!(cluster.terminate(odd).await.success());
    tamper(&cluster.data(odd));
    cluster.restart(odd).await;
    for id in cluster.ids() {
        assert_eq!(cluster.api(id).cluster().await.expect("shown").body["alarms"], json!([]), "nothing shows yet");
    }
    // The worst case: the odd one leads, and a client of it holds a poll.
    let transfer = json!({"to": odd});
    eventually(LIMIT, "the odd node leads", || async {
        cluster.api(odd).post("/admin/v1/cluster/transfer", &transfer).await;
        if cluster.leader().await == odd { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    let id = cluster.apollo(odd).current_id("app", "default", "application").await;
    let held = hold(&cluster, odd, "app", "default", id).await;

    let sound = cluster.ids().into_iter().find(|id| *id != odd).expect("two others");
    pass_a_comparison(&cluster.api(sound)).await;
    let passed = std::time::Instant::now();
    expect_stopped(&cluster, odd).await;
    report(format!("a node with another state stopped {:?} after the index that told it", passed.elapsed()));
    let polled = held.await.expect("the poll does not panic");
    assert_eq!(polled.status, 304, "a held poll is let go: {polled:?}");

    let sound: Vec<Api> = cluster.ids().into_iter().filter(|id| *id != odd).map(|id| cluster.api(id)).collect();
    eventually(LIMIT, "another node leads", || async {
        match cluster.leader().await {
            leader if leader != odd => Ok(()),
            leader => Err(format!("node {leader} leads")),
        }
    })
    .await;
    for api in &sound {
        expect_metric(api, 1.0).await;
        pass_a_comparison(api).await;
        assert_eq!(api.health("/readyz").await.expect("the node answers").0, 200);
        let alarms = api.cluster().await.expect("the cluster can be shown").body["alarms"].clone();
        let expected = format!("the state of node {odd} is not that of the others");
        assert!(alarms[0].as_str().is_some_and(|alarm| alarm.starts_with(&expected)), "{alarms}");
    }

    // It does not become the leader again, neither by a transfer nor when the leader leaves.
    let leader = cluster.leader().await;
    let refused = cluster.api(leader).post("/admin/v1/cluster/transfer", &transfer).await.expect_code(400_000);
    assert!(refused.body["info"].as_str().is_some_and(|info| info.contains("not that of the others")), "{refused}");
    let heir = cluster.ids().into_iter().find(|id| *id != odd && *id != leader).expect("three nodes");
    assert!(cluster.terminate(leader).await.success());
    let log = std::fs::read_to_string(cluster.log(leader)).expect("there is a log");
    let handed = log.lines().rfind(|line| line.contains("leadership transferred")).unwrap_or_else(|| panic!("{log}"));
    assert!(handed.contains(&format!("raft.leader={heir}")), "{handed}");
    cluster.restart(leader).await;

    // The state persists over a restart.
    assert!(cluster.terminate(odd).await.success());
    cluster.relaunch(odd).await;
    expect_stopped(&cluster, odd).await;
    let removal = json!({"id": odd});
    sound[0].post("/admin/v1/cluster/remove", &removal).await.expect_code(200_000);
    for api in &sound {
        expect_metric(api, 0.0).await;
        assert_eq!(api.cluster().await.expect("the cluster can be shown").body["alarms"], json!([]));
    }
}
