//! Approvals by several people, over three nodes: requested on one, approved on others, with the leader killed in
//! between.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Cluster, eventually, run};

const USERS: &str = "/auth/v1/users";
const POLICIES: &str = "/admin/v1/policies";
const REQUESTS: &str = "/admin/v1/requests";
const RELEASE: &str = "/config/v1/configfiles/release";
const FILES: &str = "/config/v1/configfiles";
const LIMIT: Duration = Duration::from_secs(20);

/// Users with what they may do in the namespace of the tests.
const PEOPLE: [(&str, &[&str]); 4] = [
    ("rita", &["releaser", "editor"]),
    ("abe", &["approver"]),
    ("bea", &["approver"]),
    ("eva", &["releaser", "approver"]),
];

async fn hire(cluster: &Cluster) {
    for (name, roles) in PEOPLE {
        let grants: Vec<_> = roles.iter().map(|role| json!({"role": role, "namespace": "default"})).collect();
        let user = json!([{"name": name, "password": format!("password of {name}"), "grants": grants}]);
        cluster.api(1).post(USERS, &user).await.expect_code(200_000);
    }
}

/// A person at a node.
async fn at(cluster: &Cluster, id: u64, name: &str) -> Api {
    let api = cluster.api(id).without_token();
    let body = json!({"name": name, "password": format!("password of {name}")});
    let answer = api.post("/auth/v1/user/login", &body).await.expect_code(200_000);
    let token = answer.body["loginResponse"]["token"].as_str().unwrap_or_else(|| panic!("no token in {answer}"));
    api.with_token(token)
}

fn file(content: &str) -> Value {
    json!({"namespace": "default", "group": "app", "name": "application", "content": content})
}

fn release(more: Value) -> Value {
    let mut release = json!({"namespace": "default", "group": "app", "file_name": "application"});
    release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!([release])
}

fn request_id(answer: &Answer) -> String {
    let id = answer.body["responses"][0]["request"]["id"].as_str();
    id.unwrap_or_else(|| panic!("no request in {answer}")).to_owned()
}

/// Returns the state of a request, as a node reports it.
async fn state(api: &Api, id: &str) -> String {
    let answer = api.get(&format!("{REQUESTS}?id={id}")).await.expect_code(200_000);
    answer.body["data"][0]["state"].as_str().unwrap_or("none").to_owned()
}

async fn content_of(cluster: &Cluster, id: u64) -> Option<String> {
    let pulled = cluster.apollo(id).get("/configs/app/default/application").await;
    let body: Value = serde_json::from_str(&pulled.text).ok()?;
    body["configurations"]["v"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_approve_through_other_nodes_while_the_leader_dies() {
    let mut cluster = Cluster::start(3).await;
    hire(&cluster).await;
    let policy = json!([{"name": "two", "namespace": "default", "approvals": 2, "kinds": ["configfile"]}]);
    cluster.api(2).post(POLICIES, &policy).await.expect_code(200_000);
    let rita = at(&cluster, 1, "rita").await;
    rita.post(FILES, &file("v=approved")).await.expect_code(200_000);
    let refused = rita.post(RELEASE, &release(json!({}))).await.expect_code(409_001);
    assert_eq!(refused.status, 409);
    assert_eq!(refused.body["responses"][0]["policies"], json!(["two"]), "{refused}");

    let asked = rita.post(RELEASE, &release(json!({"request": "a new value"}))).await.expect_code(202_000);
    assert_eq!(asked.status, 202);
    let id = request_id(&asked);
    rita.put(FILES, &file("v=later")).await.expect_code(200_000);
    let decision = json!([{"id": id, "comment": "seen"}]);
    let approve = format!("{REQUESTS}/approve");
    rita.post(&approve, &decision).await.expect_code(401_001);
    at(&cluster, 2, "abe").await.post(&approve, &decision).await.expect_code(200_000);
    let diff = at(&cluster, 3, "bea").await.get(&format!("{REQUESTS}/diff?id={id}")).await.expect_code(200_000);
    assert!(diff.to_string().contains("approved") && !diff.to_string().contains("later"), "{diff}");

    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let alive = cluster.running();
    let bea = at(&cluster, alive[0], "bea").await;
    eventually(LIMIT, "the second approval carries it out", || async {
        let sent = bea.try_send(Method::POST, &approve, Some(&decision)).await;
        let answer = sent.map_err(|error| error.to_string())?;
        match answer.code() {
            200_000 => Ok(()),
            // The first try was carried out, and its answer was lost.
            409_000 if state(&bea, &id).await == "done" => Ok(()),
            _ => Err(answer.to_string()),
        }
    })
    .await;
    for node in alive {
        eventually(LIMIT, "clients of every node have what was approved", || async {
            match content_of(&cluster, node).await.as_deref() {
                Some("approved") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    cluster.restart(leader).await;
    cluster.expect_equal_state().await;
    assert_eq!(state(&cluster.api(leader), &id).await, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_holds_until_an_emergency_or_its_end() {
    let cluster = Cluster::start(1).await;
    hire(&cluster).await;
    let freeze = json!({"from": "2020-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z", "comment": "year's end"});
    let policy = json!([{"name": "ice", "namespace": "default", "approvals": 1, "freezes": [freeze]}]);
    cluster.api(1).post(POLICIES, &policy).await.expect_code(200_000);
    let rita = at(&cluster, 1, "rita").await;
    rita.post(FILES, &file("v=1")).await.expect_code(200_000);
    let refused = rita.post(RELEASE, &release(json!({}))).await.expect_code(409_002);
    let item = &refused.body["responses"][0];
    assert_eq!(item["until"], "2099-01-01T00:00:00Z", "{refused}");
    assert!(item["info"].as_str().is_some_and(|info| info.contains("year's end")), "{refused}");
    // No other door gets around it.
    let written = json!({"namespace": "default", "group": "app", "file_name": "application", "content": "v=2"});
    rita.post("/config/v1/configfiles/createandpub", &written).await.expect_code(409_002);
    rita.post(RELEASE, &release(json!({"publish_at": "2098-01-01T00:00:00Z"}))).await.expect_code(409_002);

    let id = request_id(&rita.post(RELEASE, &release(json!({"request": "after it"}))).await.expect_code(202_000));
    let abe = at(&cluster, 1, "abe").await;
    let (node, token) = (format!("http://{}", cluster.ports(1).api), abe.token().expect("logged in"));
    let open = run(&node, token, &["requests"], "").await.expect(0);
    assert!(open.contains("0 of 1"), "{open}");
    let approved = run(&node, token, &["approve", &id], "").await.expect(0);
    let standing = "approved 1 of 1; nothing is changed yet; it waits for the freeze of ice, which ends at \
                    2099-01-01T00:00:00Z; after that somebody has to carry it out";
    assert!(approved.contains(&format!("publish of configfile default/app/application: {standing}")), "{approved}");
    assert_eq!(state(&abe, &id).await, "approved");
    let kept = abe.get(&format!("{REQUESTS}?id={id}")).await.expect_code(200_000);
    let kept = &kept.body["data"][0];
    assert_eq!((&kept["standing"], &kept["approvals_needed"]), (&json!(standing), &json!(1)));
    rita.post(&format!("{REQUESTS}/run"), &json!([{"id": id}])).await.expect_code(409_002);

    let emergency = release(json!({"emergency": "the shop is down"}));
    rita.post(RELEASE, &emergency).await.expect_code(401_001);
    at(&cluster, 1, "eva").await.post(RELEASE, &emergency).await.expect_code(200_000);
    assert_eq!(content_of(&cluster, 1).await.as_deref(), Some("1"));
    let trail = cluster.api(1).get("/admin/v1/audit?kind=emergency").await.expect_code(200_000);
    assert_eq!(trail.amount(), 1, "{trail}");

    cluster.api(1).put(POLICIES, &json!([{"name": "ice", "freezes": []}])).await.expect_code(200_000);
    rita.post(&format!("{REQUESTS}/run"), &json!([{"id": id}])).await.expect_code(409_000);
    assert_eq!(state(&abe, &id).await, "stale", "the emergency has put another version in force");
}

/// Files and a rule, some of which are gated.
const TREE: &str = "kind: configfile\nnamespace: default\nname: app/application\nspec: { content: v=1 }\n---\n\
    kind: configfile\nnamespace: default\nname: app/second\nspec: { content: v=2 }\n---\n\
    kind: ratelimit\nnamespace: default\nname: limit\nspec:\n  callee: {service: pay, namespace: default}\n  \
    rules:\n  - amounts: [{maxAmount: 5, validDuration: 1s}]\n";
const APPLY: [&str; 5] = ["apply", "-f", "-", "--release", "--yes"];

/// A cluster where one other has to approve what rita releases, and her token.
async fn gated(options: &[&str], size: u64) -> (Cluster, String) {
    let cluster = Cluster::start_with(size, options).await;
    hire(&cluster).await;
    let policy = json!([{"name": "two", "namespace": "default"}]);
    cluster.api(1).post(POLICIES, &policy).await.expect_code(200_000);
    let body = json!({"name": "rita", "password": "password of rita"});
    let answer = cluster.api(1).without_token().post("/auth/v1/user/login", &body).await.expect_code(200_000);
    let token = answer.body["loginResponse"]["token"].as_str().expect("a token").to_owned();
    (cluster, token)
}

/// Returns the ids after "thuban approve" in the output of a command.
fn ids_to_approve(out: &str) -> Vec<String> {
    let parts = out.split("thuban approve ").skip(1);
    parts.filter_map(|rest| rest.split_whitespace().next()).map(str::to_owned).collect()
}

async fn releases_of_limit(api: &Api) -> usize {
    api.get("/naming/v1/ratelimits/releases?rule_name=limit").await.expect_code(200_000).amount() as usize
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_one_request_and_is_done_as_a_whole_though_the_leader_dies() {
    let (mut cluster, token) = gated(&[], 3).await;
    let nodes: Vec<_> = [2, 3].map(|id| format!("http://{}", cluster.ports(id).api)).into();
    let refused = run(&nodes[0], &token, &APPLY, TREE).await;
    assert_eq!(refused.code, 3, "{}{}", refused.out, refused.error);
    let arguments = [&APPLY[..], &["--request", "as planned"]].concat();
    let out = run(&nodes[1], &token, &arguments, TREE).await.expect(0);
    let ids = ids_to_approve(&out);
    assert!(ids.len() == 1 && out.contains("3 acts wait"), "{out}");
    assert!(out.contains(" 3 wait for approval, 0 refused"), "what waits is not done: {out}");
    let abe = at(&cluster, 1, "abe").await;
    let heads = abe.get(&format!("{REQUESTS}?heads=true")).await.expect_code(200_000);
    assert_eq!((heads.amount(), &heads.body["data"][0]["parts"]), (1, &json!(2)), "{heads}");
    let parts = abe.get(&format!("{REQUESTS}?part_of={}", ids[0])).await.expect_code(200_000);
    assert_eq!(parts.amount(), 2, "{parts}");
    let told = run(&nodes[0], &token, &["requests", "--id", &ids[0]], "").await.expect(0);
    assert!(told.contains("v=1") && told.contains("v=2") && told.contains("maxAmount"), "{told}");

    // Without a number of parts the command approves only a request without further acts.
    let unseen = run(&nodes[0], abe.token().expect("logged in"), &["approve", &ids[0]], "").await;
    assert!(unseen.code == 2 && unseen.error.contains(&format!("{} --parts 2", ids[0])), "{}", unseen.error);
    let fewer = run(&nodes[0], abe.token().expect("logged in"), &["approve", &ids[0], "--parts", "1"], "").await;
    assert!(fewer.code == 3 && state(&abe, &ids[0]).await == "open", "{}", fewer.error);

    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let alive = cluster.running();
    let abe = at(&cluster, alive[0], "abe").await;
    let (approve, decision) =
        (format!("{REQUESTS}/approve"), json!([{"id": ids[0], "parts": 2, "comment": "all of it"}]));
    eventually(LIMIT, "the approval carries the tree out", || async {
        let sent = abe.try_send(Method::POST, &approve, Some(&decision)).await;
        let answer = sent.map_err(|error| error.to_string())?;
        match answer.code() {
            200_000 => Ok(()),
            409_000 if state(&abe, &ids[0]).await == "done" => Ok(()),
            _ => Err(answer.to_string()),
        }
    })
    .await;
    for node in alive {
        eventually(LIMIT, "every node has all of it", || async {
            let found = (content_of(&cluster, node).await, releases_of_limit(&cluster.api(node)).await);
            if found == (Some("1".to_owned()), 1) { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }
    cluster.restart(leader).await;
    cluster.expect_equal_state().await;
}
