//! The caller's own account on every node: identity, logins, and tokens.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use super::{LIMIT, OUT_WITHIN, PASSWORD, SERVICES, TOKENS, as_user, expect_out, make_user};
use crate::harness::{Answer, Api, Cluster, eventually, report};

/// The same token on every node.
fn everywhere(cluster: &Cluster, secret: &str) -> Vec<Api> {
    cluster.ids().into_iter().map(|id| cluster.api(id).with_token(secret)).collect()
}

fn secret(answer: &Answer) -> String {
    answer.body["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned()
}

/// Waits until the config port of every node refuses a token.
async fn expect_out_of_config(cluster: &Cluster, secret: &str) {
    let since = Instant::now();
    join_all(cluster.ids().into_iter().map(|id| {
        eventually(OUT_WITHIN, "the token opens nothing", move || async move {
            match cluster.apollo(id).get_as("/configs/app/default/application", Some(secret)).await {
                pulled if pulled.status == 401 => Ok(()),
                pulled => Err(format!("{pulled:?}")),
            }
        })
    }))
    .await;
    report(format!("a token opened nothing on the config ports after {:?}", since.elapsed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_rotated_disabled_or_over_is_believed_nowhere() {
    let cluster = Cluster::start(3).await;
    cluster.api(1).publish("default", "app", "application", "v=1").await;
    let grants = json!([{"role": "client", "namespace": "*"}, {"role": "reader", "namespace": "*"}]);
    let made = cluster.api(1).post(TOKENS, &json!([{"name": "ci", "grants": grants}])).await.expect_code(200_000);
    let (first, rotate) = (secret(&made), format!("{TOKENS}/rotate"));
    cluster.expect_equal_state().await;

    let rotated = cluster.api(2).post(&rotate, &json!([{"name": "ci"}])).await.expect_code(200_000);
    let second = secret(&rotated);
    expect_out(&everywhere(&cluster, &first), Instant::now()).await;
    expect_out_of_config(&cluster, &first).await;
    for api in everywhere(&cluster, &second) {
        api.get(SERVICES).await.expect_code(200_000);
    }

    // For a while both, and then without anybody doing anything the new one alone.
    let overlapping = json!([{"name": "ci", "overlap_s": 3}]);
    let since = Instant::now();
    let third = secret(&cluster.api(3).post(&rotate, &overlapping).await.expect_code(200_000));
    for api in everywhere(&cluster, &third).into_iter().chain(everywhere(&cluster, &second)) {
        if since.elapsed() < Duration::from_secs(2) {
            api.get(SERVICES).await.expect_code(200_000);
        }
    }
    expect_out(&everywhere(&cluster, &second), Instant::now()).await;
    expect_out_of_config(&cluster, &second).await;

    let put = |change: serde_json::Value| {
        let mut item = json!({"name": "ci"});
        item.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        let api = cluster.api(1);
        async move { api.put(TOKENS, &json!([item])).await.expect_code(200_000) }
    };
    put(json!({"disabled": true})).await;
    expect_out(&everywhere(&cluster, &third), Instant::now()).await;
    expect_out_of_config(&cluster, &third).await;
    put(json!({"disabled": false, "expires_in_s": 2})).await;
    expect_out(&everywhere(&cluster, &third), Instant::now()).await;
    put(json!({"expires_in_s": 0, "grants": []})).await;
    for api in everywhere(&cluster, &third) {
        eventually(LIMIT, "it is let in and sees nothing", || async {
            match api.get(SERVICES).await {
                answer if answer.code() == 200_000 && answer.amount() == 0 => Ok(()),
                answer => Err(answer.to_string()),
            }
        })
        .await;
    }
    let logs: String = cluster.ids().iter().filter_map(|id| std::fs::read_to_string(cluster.log(*id)).ok()).collect();
    assert!([&first, &second, &third].iter().all(|secret| !logs.contains(secret.as_str())), "a secret is in a log");
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_ended_from_another_one_on_every_node() {
    const SESSIONS: &str = "/auth/v1/sessions";
    let cluster = Cluster::start(3).await;
    make_user(&cluster.api(1), "ann", json!([{"role": "reader", "namespace": "prod"}])).await;
    let (lost, own) = (as_user(&cluster, 1, "ann", PASSWORD).await, as_user(&cluster, 2, "ann", PASSWORD).await);
    let me = own.get("/auth/v1/user").await.expect_code(200_000);
    assert_eq!((&me.body["user"]["name"], &me.body["user"]["verbs"]), (&json!("ann"), &json!(["read"])), "{me}");
    let before = cluster.api(3).with_token(own.token().expect("a token")).get(SESSIONS).await.expect_code(200_000);
    assert_eq!(before.amount(), 2, "{before}");
    assert_eq!(before.body["data"][0]["address"], "127.0.0.1", "{before}");
    let id_of = |api: &Api| {
        use sha2::Digest;
        hex::encode(sha2::Sha256::digest(api.token().expect("a token")))[..16].to_owned()
    };
    own.post(&format!("{SESSIONS}/delete"), &json!([{"id": id_of(&lost)}])).await.expect_code(200_000);
    let everywhere = everywhere(&cluster, lost.token().expect("a token"));
    expect_out(&everywhere, Instant::now()).await;
    own.get(SERVICES).await.expect_code(200_000);
    let of_ann = cluster.api(1).get(&format!("{SESSIONS}?user=ann")).await.expect_code(200_000);
    assert_eq!(of_ann.amount(), 1, "{of_ann}");
    own.get(&format!("{SESSIONS}?user=admin")).await.expect_code(401_001);
    cluster.expect_equal_state().await;
}
