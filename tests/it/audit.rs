//! The audit trail of a cluster: user, address and outcome of acts, on every node.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{ADMIN_PASSWORD, Api, Cluster, eventually};

const AUDIT: &str = "/admin/v1/audit";
/// Notes wait a second on their node; the rest is a busy machine.
const NOTED_LIMIT: Duration = Duration::from_secs(30);

async fn rows(api: &Api, query: &str) -> Vec<Value> {
    let answer = api.get(&format!("{AUDIT}?{query}")).await.expect_code(200_000);
    answer.body["data"].as_array().unwrap_or_else(|| panic!("no rows in {answer}")).clone()
}

async fn await_row(api: &Api, query: &str) -> Value {
    eventually(NOTED_LIMIT, &format!("a row with {query}"), || async move {
        rows(api, query).await.first().cloned().ok_or_else(|| "none".to_owned())
    })
    .await
}

fn fields_of(row: &Value) -> Value {
    let keys = ["user", "address", "action", "kind", "namespace", "name", "code"];
    Value::from_iter(keys.map(|key| row[key].clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_tells_who_did_what() {
    let mut cluster = Cluster::start(3).await;
    let follower = cluster.followers().await[0];
    let leader = cluster.leader().await;
    let api = cluster.api(follower);
    api.publish("prod", "shop", "app.yml", "secret-content: 1").await;
    let reader =
        json!([{"name": "rita", "password": "the password of rita", "grants": [{"role": "reader", "namespace": "*"}]}]);
    api.post("/auth/v1/users", &reader).await.expect_code(200_000);
    let login = json!({"name": "rita", "password": "the password of rita"});
    let logged_in = Api::new(cluster.ports(follower).api).post("/auth/v1/user/login", &login).await;
    let rita = logged_in.body["loginResponse"]["token"].as_str().expect("a token").to_owned();
    let refused = json!([{"namespace": "prod", "name": "hers"}]);
    let as_rita = Api::new(cluster.ports(follower).api).with_token(&rita);
    as_rita.post("/naming/v1/services", &refused).await.expect_code(401_001);
    let wrong = json!({"name": "admin", "password": "not the password at all"});
    Api::new(cluster.ports(follower).api).post("/auth/v1/user/login", &wrong).await.expect_code(401_001);
    api.post("/admin/v1/cluster/transfer", &json!({"to": follower})).await.expect_code(200_000);
    let member = follower.to_string();
    let expected = [
        (
            "kind=configfile&code=200000",
            json!(["admin", "127.0.0.1", "publish", "configfile", "prod", "shop/app.yml", 200_000]),
        ),
        ("user=rita&kind=service", json!(["rita", "127.0.0.1", "create", "service", "prod", "hers", 401_001])),
        ("kind=user&code=401001", json!(["admin", "127.0.0.1", "login", "user", "", "admin", 401_001])),
        ("kind=member", json!(["admin", "127.0.0.1", "transfer", "member", "", member, 200_000])),
    ];
    for id in cluster.ids() {
        for (query, row) in &expected {
            assert_eq!(fields_of(&await_row(&cluster.api(id), query).await), *row, "node {id}, {query}");
        }
    }
    let all = json!(rows(&api, "").await).to_string();
    for secret in
        [ADMIN_PASSWORD, "not the password at all", "the password of rita", "secret-content", &rita, cluster.token()]
    {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
    // It is in the rows of the node: a start reads it again.
    cluster.kill(leader).await;
    cluster.restart(leader).await;
    let query = "kind=member";
    assert_eq!(fields_of(&await_row(&cluster.api(leader), query).await), expected[3].1);
    cluster.expect_equal_state().await;
}

/// Repeated failures of unknown clients make only a few rows and a few log entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_refusals_leaves_a_short_trail() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let before = rows(&api, "limit=100").await.len();
    let stranger = Api::new(cluster.ports(1).api).with_token("no token of this cluster");
    let knocks = 1500;
    let mut refused = 0;
    for number in 0..knocks {
        // Each appears to come from a different address.
        let address = format!("198.51.{}.{}", number / 250, number % 250);
        let request = stranger.request(reqwest::Method::POST, "/naming/v1/services").header("X-Forwarded-For", address);
        let answer = request.body("[{}]").send().await.expect("an answer");
        refused += u32::from(answer.status() == 401);
    }
    assert_eq!(refused, knocks);
    let merged = api.metric("thuban_audit_notes_merged_total{caused_by=\"stranger\"}").await;
    assert!(merged.is_some_and(|merged| merged > 1000.0), "{merged:?}");
    let left_out = await_row(&api, "kind=audit&name=stranger").await;
    assert_eq!((&left_out["action"], &left_out["user"]), (&json!("untold"), &json!("cluster")));
    assert!(left_out["count"].as_u64().is_some_and(|count| count > 1), "{left_out}");
    let answer = api.get(&format!("{AUDIT}?kind=route&limit=0")).await.expect_code(200_000);
    let told = answer.body["amount"].as_u64().expect("a number");
    assert!((1..1000).contains(&told), "{told} rows of {knocks}, {before} before");
}
