//! A release that three people make in browsers, each at a node of their own, while the leader dies twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::day::Day;
use crate::harness::{Api, Balancer, Cluster, eventually, report, run};

const POLICIES: &str = "/admin/v1/policies";
const FILE: (&str, &str) = ("app", "application");
const CLIENTS: usize = 40;
/// From the first refusal until every client of every running node has the old release again.
const BACK_LIMIT: Duration = Duration::from_secs(10);

/// The house, its rules and its people.
async fn prepare(api: &Api) {
    for (name, roles) in
        [("dora", &["editor", "releaser", "approver"][..]), ("abe", &["approver"]), ("bea", &["approver"])]
    {
        let grants: Vec<_> = roles.iter().map(|role| json!({"role": role, "namespace": "default"})).collect();
        let user = json!([{"name": name, "password": format!("password of {name}"), "grants": grants}]);
        api.post("/auth/v1/users", &user).await.expect_code(200_000);
    }
    let instances = ["10.0.0.1", "10.0.0.2"]
        .map(|host| json!({"namespace": "default", "service": "pay", "host": host, "port": 8080}));
    api.post("/naming/v1/instances", &json!(instances)).await.expect_code(200_000);
    api.publish("default", FILE.0, "application.properties", "v=old").await;
    let freeze = json!({"from": "2020-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z", "comment": "year's end"});
    let policy = json!([{"name": "house", "namespace": "default", "approvals": 0, "freezes": [freeze]}]);
    api.post(POLICIES, &policy).await.expect_code(200_000);
}

async fn change_policy(api: &Api, change: Value) {
    let mut policy = json!({"name": "house"});
    policy.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
    api.put(POLICIES, &json!([policy])).await.expect_code(200_000);
}

/// Returns the state of the only request, and its approvers.
async fn request(api: &Api) -> (String, Vec<String>) {
    let answer = api.get("/admin/v1/requests").await.expect_code(200_000);
    let [request] = &answer.body["data"].as_array().expect("a list")[..] else { panic!("one request: {answer}") };
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{request}")).to_owned();
    let approvals = request["approvals"].as_array().into_iter().flatten();
    (text(&request["state"]), approvals.map(|given| text(&given["user"])).collect())
}

fn address(number: usize) -> String {
    format!("10.7.0.{number}")
}

/// Clients that a node gives the new release, each with its key.
async fn reached(cluster: &Cluster, node: u64) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for address in (0..CLIENTS).map(address) {
        let config = cluster.apollo(node).config_for(FILE.0, FILE.1, &format!("ip={address}")).await;
        if config["configurations"]["v"] == "new" {
            found.push((address, config["releaseKey"].clone()));
        }
    }
    found
}

async fn expect_old_on_all(cluster: &Cluster) {
    cluster.expect_equal_state().await;
    for id in cluster.running() {
        assert_eq!(reached(cluster, id).await, [], "node {id}");
    }
}

/// Returns once another node leads.
async fn kill_leader(cluster: &mut Cluster) -> u64 {
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    cluster.leader().await;
    leader
}

/// Clients of the nodes that are left pull, and a fifth of those with the new release cannot apply it.
async fn refuse(cluster: &Cluster) -> Instant {
    cluster.expect_equal_state().await;
    let alive = cluster.running();
    let having = reached(cluster, alive[0]).await;
    let seen_by_other: BTreeSet<_> = reached(cluster, alive[1]).await.into_iter().map(|(client, _)| client).collect();
    assert_eq!(having.iter().map(|(client, _)| client.clone()).collect::<BTreeSet<_>>(), seen_by_other);
    // A share of 60 % of forty, by a wide margin.
    assert!((16..=32).contains(&having.len()), "{having:?}");
    let first = Instant::now();
    for (number, (client, key)) in having.iter().enumerate() {
        let refusal = (number % 5 == 0).then_some("new is nothing to me");
        // As a balancer spreads them; a node knows whom it served.
        cluster.apollo(alive[number % alive.len()]).say_applied(FILE, client, key, refusal).await;
    }
    first
}

/// Dora is refused in a freeze and makes a request under a policy of two approvals, which neither Abe alone nor she
/// herself can complete; a stepwise rollout continues under the next leader and is stopped by clients; an instance is
/// drained.
#[tokio::test(flavor = "multi_thread")]
async fn three_people_make_a_release_while_the_leader_dies_twice() {
    let mut cluster = Cluster::start(3).await;
    prepare(&cluster.api(1)).await;
    cluster.expect_equal_state().await;
    let mut balancers = Vec::new();
    for own in 0..3 {
        let mut backends: Vec<_> = cluster.ids().into_iter().map(|id| cluster.ports(id).api).collect();
        backends.rotate_left(own);
        balancers.push(Balancer::start_preferring_the_first(backends).await);
    }
    let urls: Vec<_> = balancers.iter().map(|balancer| format!("http://{}", balancer.address())).collect();
    let mut day = Day::start("three_people.py", &urls.iter().map(String::as_str).collect::<Vec<_>>()).await;
    day.comes_to("frozen").await;
    change_policy(&cluster.api(1), json!({"approvals": 2})).await;
    day.go_on().await;

    day.comes_to("asked").await;
    let first = kill_leader(&mut cluster).await;
    day.go_on().await;
    day.comes_to("one approval").await;
    let api = cluster.api(cluster.running()[0]);
    assert_eq!(request(&api).await, ("open".to_owned(), vec!["abe".to_owned()]));
    day.go_on().await;

    day.comes_to("two approvals").await;
    assert_eq!(request(&api).await.0, "approved");
    expect_old_on_all(&cluster).await;
    cluster.restart(first).await;
    change_policy(&api, json!({"freezes": []})).await;
    day.go_on().await;

    day.comes_to("running").await;
    // Guards wait for a client that has the release, and for a member that does not answer.
    let second = kill_leader(&mut cluster).await;
    for id in cluster.running() {
        reached(&cluster, id).await;
    }
    cluster.restart(second).await;
    day.go_on().await;
    day.comes_to("second step").await;
    let refused = refuse(&cluster).await;
    let alive = cluster.running();
    eventually(BACK_LIMIT, "all clients fall back", || async {
        for id in &alive {
            let having = reached(&cluster, *id).await;
            if !having.is_empty() {
                return Err(format!("node {id}: {having:?}"));
            }
        }
        Ok(())
    })
    .await;
    report(format!(
        "a rollout at 60 %, its leader exchanged: all clients were back {:.2?} after a refusal",
        refused.elapsed()
    ));
    day.go_on().await;

    day.comes_to("stopped").await;
    expect_old_on_all(&cluster).await;
    let api = cluster.api(second);
    assert_eq!(request(&api).await, ("done".to_owned(), vec!["abe".to_owned(), "bea".to_owned()]));
    let endpoint = format!("http://{}", cluster.ports(second).api);
    let drain = ["drain", "instance", "10.0.0.1:8080", "--service", "pay", "-n", "default", "--wait", "30s"];
    let out = run(&endpoint, cluster.token(), &drain, "").await.expect(0);
    assert!(out.contains("10.0.0.1:8080 is isolated"), "{out}");
    day.go_on().await;
    day.comes_to("done").await;
    day.ends().await;
    cluster.expect_equal_state().await;
}
