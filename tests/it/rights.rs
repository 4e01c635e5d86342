//! Rights in black-box tests: a rule requires them where it acts, a delete cannot withdraw what only a release may
//! change, and a caller without rights leaves no trace in the log.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Api, Cluster, eventually, report};

const PASSWORD: &str = "a password of somebody";
const LIMITS: &str = "/naming/v1/ratelimits";
const RELEASES: &str = "/naming/v1/ratelimits/releases";
const TRAIL: &str = "/admin/v1/audit";
const LIMIT: Duration = Duration::from_secs(20);

async fn user(cluster: &Cluster, node: u64, name: &str, grants: Value) -> Api {
    let item = json!([{"name": name, "password": PASSWORD, "grants": grants}]);
    cluster.api(node).post("/auth/v1/users", &item).await.expect_code(200_000);
    let login = json!({"name": name, "password": PASSWORD});
    let answer = Api::new(cluster.ports(node).api).post("/auth/v1/user/login", &login).await.expect_code(200_000);
    cluster.api(node).with_token(answer.body["loginResponse"]["token"].as_str().expect("a token"))
}

fn limit(name: &str, callee: &Value) -> Value {
    let amounts = json!([{"maxAmount": 0, "validDuration": "1s"}]);
    json!([{"name": name, "namespace": "dev", "callee": callee, "rules": [{"amounts": amounts}]}])
}

fn release(name: &str) -> Value {
    json!([{"rule_name": name, "namespace": "dev"}])
}

/// Rules that a client of prod/pay gets.
async fn discovered(api: &Api) -> usize {
    let question = json!({"type": "RATE_LIMIT", "service": {"namespace": "prod", "name": "pay"}});
    let answer = api.post("/v1/Discover", &question).await.expect_code(200_000);
    answer.body["rateLimit"]["rules"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_one_namespace_does_not_act_on_another() {
    let cluster = Cluster::start(3).await;
    let (admin, all) =
        (cluster.api(1), json!([{"role": "editor", "namespace": "dev"}, {"role": "releaser", "namespace": "dev"}]));
    let eve = user(&cluster, 2, "eve", all).await;
    let pia = user(&cluster, 3, "pia", json!([{"role": "reader", "namespace": "prod", "name": "pay"}])).await;
    let client = user(&cluster, 3, "client", json!([{"role": "client", "namespace": "prod", "name": "pay"}])).await;
    for (callee, place) in [
        (json!({"namespace": "prod", "service": "pay"}), "prod/pay"),
        (json!({"namespace": "prod", "service": "*"}), "prod/*"),
        (json!({"namespace": "*", "service": "*"}), "*/*"),
    ] {
        let answer = eve.post(LIMITS, &limit("x", &callee)).await.expect_code(401_001);
        assert!(answer.to_string().contains(place), "{answer}");
    }
    // Created by an authorized user, it is visible from the service that it affects, and not editable from there.
    let callee = json!({"namespace": "prod", "service": "pay"});
    admin.post(LIMITS, &limit("x", &callee)).await.expect_code(200_000);
    eve.post(RELEASES, &release("x")).await.expect_code(401_001);
    assert_eq!(discovered(&client).await, 0);
    admin.post(RELEASES, &release("x")).await.expect_code(200_000);
    eventually(LIMIT, "the client of prod has the rule", || async {
        if discovered(&client).await == 1 { Ok(()) } else { Err("none yet".to_owned()) }
    })
    .await;
    assert_eq!(pia.get(LIMITS).await.expect_code(200_000).amount(), 1);
    pia.put(LIMITS, &json!([{"name": "x", "namespace": "dev", "priority": 1}])).await.expect_code(401_001);
    eve.post(&format!("{LIMITS}/delete"), &json!([{"name": "x", "namespace": "dev"}])).await.expect_code(401_001);
    assert_eq!(discovered(&client).await, 1);
    cluster.expect_equal_state().await;
}

/// Existing rules stay in force when authorization by their ends is turned on, and an administrator is shown them.
#[tokio::test(flavor = "multi_thread")]
async fn what_would_be_refused_goes_on_and_is_listed() {
    let cluster = Cluster::start(1).await;
    let admin = cluster.api(1);
    admin.put("/admin/v1/settings", &json!({"rule_scope": "name"})).await.expect_code(200_000);
    let grants = json!([{"role": "editor", "namespace": "dev"}, {"role": "releaser", "namespace": "dev"}]);
    let eve = user(&cluster, 1, "eve", grants).await;
    let callee = json!({"namespace": "prod", "service": "pay"});
    eve.post(LIMITS, &limit("old", &callee)).await.expect_code(200_000);
    eve.post(RELEASES, &release("old")).await.expect_code(200_000);
    admin.put("/admin/v1/settings", &json!({"rule_scope": "ends"})).await.expect_code(200_000);
    assert_eq!(discovered(&admin).await, 1, "nothing vanishes");
    let listed = admin.get(&format!("{TRAIL}/wouldrefuse")).await.expect_code(200_000);
    let rows = listed.body["data"].as_array().expect("rows");
    let told: Vec<_> =
        rows.iter().map(|row| format!("{} {} {} {}", row["name"], row["user"], row["verb"], row["at"])).collect();
    assert_eq!(told, [r#""old" "eve" "edit" "prod/pay""#, r#""old" "eve" "release" "prod/pay""#], "{listed}");
    let eve = cluster.api(1).with_token(eve.token().expect("a token"));
    eve.post(RELEASES, &release("old")).await.expect_code(401_001);
    eve.get(&format!("{TRAIL}/wouldrefuse")).await.expect_code(401_001);
}

async fn trail_amount(api: &Api, query: &str) -> u64 {
    api.get(&format!("{TRAIL}?{query}&limit=1")).await.expect_code(200_000).amount()
}

async fn applied(api: &Api) -> u64 {
    let view: Answer = api.cluster().await.expect("a view");
    view.body["members"][0]["applied"].as_u64().expect("an index")
}

/// A token that may do nothing asks ten thousand times for a hundred things each: what an administrator did before is
/// still the trail, and the log has grown by the notes of a few seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_grants_leaves_the_log_alone() {
    let cluster = Cluster::start(1).await;
    let admin = cluster.api(1);
    let nobody = user(&cluster, 1, "nobody", json!([])).await;
    let before = (applied(&admin).await, trail_amount(&admin, "user=admin").await);
    let nothing: Vec<_> = (0..100).map(|number| json!({"namespace": "x", "name": format!("n{number}")})).collect();
    let answer = nobody.post("/naming/v1/services/delete", &json!(nothing)).await.expect_code(401_001);
    assert_eq!(answer.item_codes(), vec![401_001; 100]);
    let rounds = 1000;
    for _ in 1..rounds {
        nobody.post("/naming/v1/services/delete", &json!(nothing)).await.expect_code(401_001);
    }
    let after = (applied(&admin).await, trail_amount(&admin, "user=admin").await);
    let rows = trail_amount(&admin, "user=nobody&code=401001").await;
    let grown = after.0 - before.0;
    report(format!("{rounds} requests of 100 items without a grant: {grown} entries, {rows} rows"));
    assert!(grown < 200 && rows <= 150, "{grown} entries, {rows} rows");
    assert!(after.1 >= before.1);
    let dropped = admin.metric("thuban_audit_refusals_dropped_total").await;
    assert!(dropped.is_some(), "a metric");

    // With a grant elsewhere apply refuses: one row per batch, and none after a hundred.
    let eve = user(&cluster, 1, "eve", json!([{"role": "editor", "namespace": "dev"}])).await;
    for _ in 0..130 {
        eve.post("/naming/v1/services", &json!(nothing)).await.expect_code(401_001);
    }
    let rows = trail_amount(&admin, "user=eve&code=401001").await;
    assert!((90..=125).contains(&rows), "{rows} rows of 130 batches");
    let dropped = admin.metric("thuban_audit_refusals_dropped_total").await.unwrap_or_default();
    assert!(dropped >= 500.0, "{dropped} refusals are only counted");
    let row = admin.get(&format!("{TRAIL}?user=eve&code=401001&limit=1")).await;
    assert_eq!(row.body["data"][0]["count"], 100, "{row}");
    assert_eq!(row.body["data"][0]["namespace"], "x");
}
