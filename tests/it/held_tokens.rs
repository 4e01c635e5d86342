//! A held request ends with its token, on every node, within a second and without any change of the requested data.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Api, Cluster, eventually, report};

const TOKENS: &str = "/auth/v1/tokens";
const LIMIT: Duration = Duration::from_secs(20);
/// Hold of each request; the answer without a change arrives no earlier.
const HOLD_MS: u64 = 14_000;
/// Well before the answer without a change, on a busy machine too.
const ENDS_WITHIN: Duration = Duration::from_secs(12);
const PASSWORD: &str = "a password of somebody";

async fn service_token(cluster: &Cluster, name: &str, more: Value) -> String {
    let mut item = json!({"name": name, "grants": [{"role": "client", "namespace": "shop"}]});
    item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let made = cluster.api(1).post(TOKENS, &json!([item])).await.expect_code(200_000);
    made.body["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned()
}

async fn login_of(cluster: &Cluster, name: &str) -> String {
    let grants = json!([{"role": "client", "namespace": "shop"}]);
    let user = json!([{"name": name, "password": PASSWORD, "grants": grants}]);
    cluster.api(1).post("/auth/v1/users", &user).await.expect_code(200_000);
    let login = json!({"name": name, "password": PASSWORD});
    let answer = Api::new(cluster.ports(1).api).post("/auth/v1/user/login", &login).await.expect_code(200_000);
    answer.body["loginResponse"]["token"].as_str().expect("a token").to_owned()
}

/// The token of what ended, where, how, and when.
type Ended = (String, &'static str, u64, Instant);

/// A question and a poll on every node, by this token.
async fn hold(cluster: &Cluster, name: &str, token: &str, ended: &mut JoinSet<Ended>) {
    let question = |more: Value| {
        let mut question = json!({"type": "INSTANCE", "service": {"namespace": "shop", "name": "pay"}});
        question.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        question
    };
    for id in cluster.ids() {
        let api = Api::unpooled(cluster.ports(id).api).with_token(token);
        let answer = eventually(LIMIT, "the token is known", || async {
            let answer = api.post("/v1/Discover", &question(json!({}))).await;
            if answer.code() == 200_000 { Ok(answer) } else { Err(answer.to_string()) }
        })
        .await;
        let service = json!({"namespace": "shop", "name": "pay", "revision": answer.body["service"]["revision"]});
        let asked = question(json!({"service": service, "timeout_ms": HOLD_MS}));
        let called = name.to_owned();
        ended.spawn(async move {
            let answer = api.post("/v1/Discover", &asked).await;
            (called, "question", answer.code(), Instant::now())
        });
        let (apollo, called, token) = (cluster.apollo(id), name.to_owned(), format!("Bearer {token}"));
        let path = "/notifications/v2?appId=app&cluster=shop&notifications=[{%22namespaceName%22:%22none%22}]";
        ended.spawn(async move {
            let answer = apollo.get_as(path, Some(&token)).await;
            (called, "poll", u64::from(answer.status), Instant::now())
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_ends_with_its_token_on_every_node() {
    let cluster = Cluster::start_with(3, &["--long-poll-timeout-ms", &HOLD_MS.to_string()]).await;
    let admin = cluster.api(1);
    admin.post("/naming/v1/services", &json!([{"namespace": "shop", "name": "pay"}])).await.expect_code(200_000);
    let mut ended = JoinSet::new();
    for name in ["deleted", "disabled", "moved", "kept"] {
        let token = service_token(&cluster, name, json!({})).await;
        hold(&cluster, name, &token, &mut ended).await;
    }
    let person = login_of(&cluster, "person").await;
    hold(&cluster, "person", &person, &mut ended).await;
    for id in cluster.ids() {
        let api = cluster.api(id);
        eventually(LIMIT, "all of them are held", || async {
            let held = api.metric("thuban_long_polls_held").await;
            if held == Some(10.0) { Ok(()) } else { Err(format!("{held:?}")) }
        })
        .await;
    }
    // A token that ends by itself: the last one, as its time runs.
    let ends_after = Duration::from_secs(3);
    let expires = service_token(&cluster, "expired", json!({"expires_in_s": ends_after.as_secs()})).await;
    let expired = Instant::now() + ends_after;
    hold(&cluster, "expired", &expires, &mut ended).await;

    let began = Instant::now();
    admin.post(&format!("{TOKENS}/delete"), &json!([{"name": "deleted"}])).await.expect_code(200_000);
    admin.put(TOKENS, &json!([{"name": "disabled", "disabled": true}])).await.expect_code(200_000);
    let grants = json!([{"role": "client", "namespace": "elsewhere"}]);
    admin.put(TOKENS, &json!([{"name": "moved", "grants": grants}])).await.expect_code(200_000);
    admin.put("/auth/v1/users", &json!([{"name": "person", "disabled": true}])).await.expect_code(200_000);
    let mut slowest = Duration::ZERO;
    while let Some(one) = ended.join_next().await {
        let (name, what, code, at) = one.expect("no panic");
        // A caller whose view changed is not rejected, but gets the new data.
        let expected = match (name.as_str(), what) {
            ("kept", "question") => 200_001,
            ("kept", _) => 304,
            ("moved", "question") => 400_202,
            (_, "question") => 401_004,
            _ => 401,
        };
        assert_eq!(code, expected, "the {what} of {name}");
        if name == "kept" {
            continue;
        }
        let since = at.saturating_duration_since(if name == "expired" { expired } else { began });
        assert!(since < ENDS_WITHIN, "the {what} of {name} ended after {since:?}");
        slowest = slowest.max(since);
    }
    report(format!("what was held ended {slowest:?} after its token at the latest"));
}
