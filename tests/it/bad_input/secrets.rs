//! Logins that guess, and secrets that must not appear in logs, metrics and answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::everything;
use crate::envelope::both;
use crate::harness::{ADMIN_PASSWORD, Answer, Api, Cluster, eventually, report, setting};

const LOGIN: &str = "/auth/v1/user/login";
/// From the answer of a logout to its effect on every other node.
const REVOKED_WITHIN: Duration = Duration::from_secs(20);

const LEVEL_WITHIN: Duration = Duration::from_secs(20);

/// Everything that the nodes have logged.
fn logs(cluster: &Cluster) -> String {
    let logs = cluster.ids().into_iter().map(|id| std::fs::read_to_string(cluster.log(id)).expect("a log can be read"));
    logs.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_logins_are_refused() {
    let cluster = Cluster::start(3).await;
    let before = everything(&cluster.api(1)).await;
    let megabyte = "p".repeat(1 << 20);
    let refused = [
        ("a megabyte", json!({"name": "admin", "password": megabyte}), 413_000),
        ("a megabyte of name", json!({"name": megabyte, "password": "p"}), 413_000),
        ("129 characters", json!({"name": "admin2", "password": "p".repeat(129)}), 401_001),
        ("129 characters of name", json!({"name": "n".repeat(129), "password": ADMIN_PASSWORD}), 401_001),
        ("nothing", json!({"name": "admin2", "password": ""}), 401_001),
        ("no name", json!({"name": "", "password": ADMIN_PASSWORD}), 401_001),
        ("NUL after the password", json!({"name": "admin", "password": format!("{ADMIN_PASSWORD}\u{0}")}), 401_001),
        ("a blank after it", json!({"name": "admin", "password": format!("{ADMIN_PASSWORD} ")}), 401_001),
        ("another case", json!({"name": "Admin", "password": ADMIN_PASSWORD}), 401_001),
        ("a blank before the name", json!({"name": " admin", "password": ADMIN_PASSWORD}), 401_001),
        ("NUL after the name", json!({"name": "admin\u{0}", "password": ADMIN_PASSWORD}), 401_001),
        ("full width", json!({"name": "ａdmin", "password": ADMIN_PASSWORD}), 401_001),
        ("no password", json!({"name": "admin"}), 400_001),
        ("a number", json!({"name": "admin", "password": 1}), 400_001),
        ("a list", json!({"name": "admin", "password": [ADMIN_PASSWORD]}), 400_001),
        ("a condition", json!({"name": "admin", "password": {"$ne": ""}}), 400_001),
        ("a batch", json!([{"name": "admin", "password": ADMIN_PASSWORD}]), 400_001),
        ("more than the limit", json!({"name": "admin", "password": "p".repeat(2 << 20)}), 413_000),
    ];
    for (role, api) in both(&cluster).await {
        for (title, body, code) in &refused {
            let answer = api.clone().without_token().post(LOGIN, body).await;
            assert_eq!(answer.code(), *code, "{role}, {title}: {answer}");
            assert_eq!(answer.body["loginResponse"], Value::Null, "{role}, {title}: {answer}");
        }
        // None of that locks the right one out.
        api.login(ADMIN_PASSWORD).await.unwrap_or_else(|answer| panic!("{role}: {answer}"));
    }
    assert_eq!(everything(&cluster.api(1)).await, before);
}

/// There are hashes that look at 72 bytes of a password and no further.
#[tokio::test(flavor = "multi_thread")]
async fn every_byte_of_a_password_counts() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let password = "0123456789".repeat(10);
    let user = json!([{"name": "long", "password": password}]);
    eventually(LEVEL_WITHIN, "the cluster's level knows users", || async {
        match api.post("/auth/v1/users", &user).await {
            answer if answer.code() == 200_000 => Ok(()),
            answer => Err(answer.to_string()),
        }
    })
    .await;
    let log_in = async |password: &str| {
        let body = json!({"name": "long", "password": password});
        api.clone().without_token().post(LOGIN, &body).await.code()
    };
    assert_eq!(log_in(&password[..72]).await, 401_001);
    assert_eq!(log_in(&format!("{}x", &password[..99])).await, 401_001);
    assert_eq!(log_in(&password).await, 200_000);
}

/// An unknown name cannot be distinguished from a wrong password by time: the fastest of each are compared, because a
/// busy machine makes answers slower and never faster.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_take_as_long_as_wrong_passwords() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1).without_token();
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..4 {
        for (which, name) in ["admin", "nobody"].into_iter().enumerate() {
            let began = Instant::now();
            api.post(LOGIN, &json!({"name": name, "password": "wrong"})).await.expect_code(401_001);
            fastest[which] = fastest[which].min(began.elapsed());
        }
    }
    let [known, unknown] = fastest;
    report(format!("a wrong password is answered after {known:?}, an unknown name after {unknown:?}, at the soonest"));
    assert!(unknown > known / 4 && known > unknown / 4, "{known:?} and {unknown:?}");
}

/// 10 000 guesses by default (`THUBAN_IT_GUESSES`): all but a handful are turned away unseen.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_guesses_come_to_nothing() {
    const HANDS: usize = 8;
    let cluster = Cluster::start(1).await;
    let (api, guesses) = (cluster.api(1).without_token(), setting("THUBAN_IT_GUESSES", 10_000));
    let began = Instant::now();
    let guess = async |hand: usize| {
        let mut judged = 0;
        for number in 0..guesses / HANDS {
            let body = json!({"name": "admin", "password": format!("guess {hand} {number}")});
            match api.post(LOGIN, &body).await.code() {
                401_001 => judged += 1,
                code => assert_eq!(code, 429_002),
            }
        }
        judged
    };
    let judged: usize = join_all((0..HANDS).map(guess)).await.into_iter().sum();
    // Five a minute, regardless of the duration of the test.
    let minutes = began.elapsed().as_secs() as usize / 60;
    report(format!("{judged} of {guesses} guesses were judged in {:?}", began.elapsed()));
    assert!((1..=5 * (minutes + 1)).contains(&judged), "{judged} guesses were judged");
    let elsewhere = api.request(Method::POST, LOGIN).header("X-Forwarded-For", "192.0.2.7");
    let right = elsewhere.json(&json!({"name": "admin", "password": ADMIN_PASSWORD}));
    Answer::read(right).await.expect("the login is answered").expect_code(200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_is_dead_everywhere() {
    let cluster = Cluster::start(3).await;
    for id in cluster.ids() {
        let token = cluster.api(id).login(ADMIN_PASSWORD).await.expect("the right password logs in");
        let holder = |id| cluster.api(id).with_token(&token);
        for other in cluster.ids() {
            holder(other).get("/naming/v1/services").await.expect_code(200_000);
        }
        holder(id).post("/auth/v1/user/logout", &json!({})).await.expect_code(200_000);
        holder(id).get("/naming/v1/services").await.expect_code(401_004);
        for other in cluster.ids() {
            eventually(REVOKED_WITHIN, "the token is dead on every node", || async {
                match holder(other).get("/naming/v1/services?consistency=local").await {
                    answer if answer.code() == 401_004 => Ok(()),
                    answer => Err(format!("node {other}: {answer}")),
                }
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_and_metrics_keep_secrets_and_lines() {
    let cluster = Cluster::start(3).await;
    let token = cluster.token().to_owned();
    let forged = "x\nFORGED 2026 ERROR all is lost\r\nFORGED\u{1b}[31m";
    for (role, api) in both(&cluster).await {
        let bare = api.clone().without_token();
        bare.post(LOGIN, &json!({"name": forged, "password": "a wrong password"})).await.expect_code(401_001);
        bare.get(&format!("/naming/v1/services?token={token}")).await.expect_code(401_002);
        bare.clone().with_token(&format!("{token}guess")).get("/naming/v1/services").await.expect_code(401_004);
        bare.get("/naming/v1/%0AFORGED%1b[31m").await.expect_code(404_000);
        api.get("/naming/v1/services?name=%0AFORGED%0D%1b[31m").await.expect_code(200_000);
        let named =
            json!([{"namespace": forged, "name": forged}, {"namespace": "log", "name": role, "comment": forged}]);
        api.post("/naming/v1/services", &named).await.expect_code(400_110);
        api.post("/naming/v1/routings", &json!([{"namespace": "log", "name": forged}])).await.expect_code(400_103);
        api.publish("log", "group", "file.json", &json!({"forged": forged}).to_string()).await;
    }
    let secrets = [token.as_str(), ADMIN_PASSWORD, "a wrong password", "a cluster secret for tests"];
    let log = logs(&cluster);
    let mut shown = vec![("the log", log.clone())];
    for id in cluster.ids() {
        let metrics = cluster.api(id).health("/metrics").await.expect("metrics are answered").1;
        shown.push(("metrics", metrics));
        let status = cluster.api(id).cluster().await.expect("the node tells");
        shown.push(("the cluster's status", status.body.to_string()));
    }
    for (place, text) in &shown {
        for secret in secrets {
            assert!(!text.contains(secret), "{place} tells {secret:?}");
        }
    }
    assert!(!log.is_empty(), "nothing was logged at all");
    assert!(!log.contains('\u{1b}'), "a caller colours the log");
    assert!(!log.lines().any(|line| line.trim_start().starts_with("FORGED")), "a caller writes lines of the log");
}

/// Series are labelled by routes and codes, never by text that a caller chose.
#[tokio::test(flavor = "multi_thread")]
async fn names_do_not_become_series() {
    let cluster = Cluster::start(3).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    // What names a series: everything on a line but its value.
    let series = async || {
        let text = api.health("/metrics").await.expect("metrics are answered").1;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>()
    };
    let round = async |round: usize| {
        for number in 0..20 {
            let name = format!("attacker-{round}-{number}");
            api.get(&format!("/{name}")).await.expect_code(404_000);
            api.get(&format!("/naming/v1/services?{name}={name}")).await.expect_code(200_000);
            let method = Method::from_bytes(name.to_uppercase().as_bytes()).expect("a method");
            api.try_send(method, "/naming/v1/services", None)
                .await
                .expect("the request is answered")
                .expect_code(405_000);
            api.post("/naming/v1/services", &json!([{"namespace": name, "name": name}])).await.expect_code(200_000);
            api.clone()
                .without_token()
                .post(LOGIN, &json!({"name": name, "password": name}))
                .await
                .expect_code(401_001);
            assert_eq!(apollo.get(&format!("/configs/{name}/{name}/{name}")).await.status, 404);
            let request = api.request(Method::GET, "/livez").header("Request-Id", &name).header("User-Agent", &name);
            Answer::read(request).await.expect("health is answered");
        }
    };
    // The first look at the metrics is a request that has a series too.
    round(0).await;
    series().await;
    let before = series().await;
    round(1).await;
    let after = series().await;
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.is_empty(), "names of callers make series: {new:?}");
    assert!(!after.iter().any(|name| name.to_lowercase().contains("attacker")), "{after:?}");
}

/// A refused body is not repeated in the answer.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_do_not_repeat_secrets() {
    let cluster = Cluster::start(1).await;
    let api: Api = cluster.api(1);
    let cases = [
        (LOGIN, json!({"name": 1, "password": "the secret one"})),
        (LOGIN, json!({"name": "nobody", "password": "the secret one"})),
        ("/naming/v1/services", json!([{"namespace": "", "name": "s", "token": "the secret one"}])),
        ("/naming/v1/services", json!([{"namespace": "n", "name": "a b", "token": "the secret one"}])),
    ];
    for (path, body) in cases {
        let answer = api.post(path, &body).await;
        assert!(answer.status >= 400 && !answer.body.to_string().contains("the secret one"), "{path}: {answer}");
    }
    let service = json!([{"namespace": "n", "name": "s", "token": "the secret one"}]);
    api.post("/naming/v1/services", &service).await.expect_code(200_000);
    let taken = api.post("/naming/v1/services", &service).await.expect_code(400_201);
    assert!(!taken.body.to_string().contains("the secret one"), "{taken}");
}
