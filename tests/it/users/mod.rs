//! People and programs: what they may do on every node, and how soon they may not any more.

mod command_line;
mod oneself;
mod reset;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{ADMIN_PASSWORD, Answer, Api, Cluster, eventually, report};

const USERS: &str = "/auth/v1/users";
const TOKENS: &str = "/auth/v1/tokens";
const PASSWORD: &str = "a password of somebody";
const SERVICES: &str = "/naming/v1/services";
const LOCAL: &str = "/naming/v1/services?consistency=local&limit=0";
const FILES: &str = "/config/v1/configfiles";
/// Promised is a second; a busy machine may take longer, and what it took is reported.
const OUT_WITHIN: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(30);

/// The answer of a login as a user on a node.
async fn log_in(cluster: &Cluster, node: u64, name: &str, password: &str) -> Answer {
    let login = json!({"name": name, "password": password});
    Api::new(cluster.ports(node).api).post("/auth/v1/user/login", &login).await
}

/// Returns the API of a node for a user who logged in there.
async fn as_user(cluster: &Cluster, node: u64, name: &str, password: &str) -> Api {
    let answer = log_in(cluster, node, name, password).await.expect_code(200_000);
    cluster.api(node).with_token(answer.body["loginResponse"]["token"].as_str().expect("a token"))
}

async fn make_user(api: &Api, name: &str, grants: Value) {
    let item = json!([{"name": name, "password": PASSWORD, "grants": grants}]);
    api.post(USERS, &item).await.expect_code(200_000);
}

/// Waits until each token is refused as unknown.
async fn expect_out(apis: &[Api], since: Instant) {
    join_all(apis.iter().map(|api| {
        eventually(OUT_WITHIN, "the token is dead", move || async move {
            match api.get(LOCAL).await {
                answer if answer.code() == 401_004 => Ok(()),
                answer => Err(answer.to_string()),
            }
        })
    }))
    .await;
    report(format!("{} tokens were dead on their nodes after {:?}", apis.len(), since.elapsed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_users_on_every_node_and_out_on_every_node() {
    let cluster = Cluster::start(3).await;
    let ids = cluster.ids();
    for (turn, id) in ids.iter().enumerate() {
        let name = format!("user-{turn}");
        make_user(&cluster.api(*id), &name, json!([{"role": "reader", "namespace": "*"}])).await;
        // Without a pause: once answered on one node, it holds on all.
        for other in &ids {
            let api = as_user(&cluster, *other, &name, PASSWORD).await;
            api.get(SERVICES).await.expect_code(200_000);
            api.get(USERS).await.expect_code(401_001);
        }
    }

    let admin = cluster.api(1);
    let logins = || join_all(ids.iter().map(|id| as_user(&cluster, *id, "user-0", PASSWORD)));
    let disabled = |disabled: bool| json!([{"name": "user-0", "disabled": disabled}]);
    let before = logins().await;
    admin.put(USERS, &disabled(true)).await.expect_code(200_000);
    let since = Instant::now();
    for api in &before {
        api.get(SERVICES).await.expect_code(401_004);
    }
    expect_out(&before, since).await;
    log_in(&cluster, 2, "user-0", PASSWORD).await.expect_code(401_001);
    cluster.api(2).put(USERS, &disabled(false)).await.expect_code(200_000);
    for api in &before {
        api.get(SERVICES).await.expect_code(401_004);
    }

    let before = logins().await;
    let own = |old: &str| json!({"old_password": old, "new_password": "another password"});
    before[1].put("/auth/v1/user/password", &own("not the old one")).await.expect_code(401_001);
    before[1].put("/auth/v1/user/password", &own(PASSWORD)).await.expect_code(200_000);
    expect_out(&before, Instant::now()).await;
    for id in &ids {
        log_in(&cluster, *id, "user-0", PASSWORD).await.expect_code(401_001);
        as_user(&cluster, *id, "user-0", "another password").await;
    }

    let before = [as_user(&cluster, 3, "user-1", PASSWORD).await, as_user(&cluster, 1, "user-2", PASSWORD).await];
    let another = json!({"name": "user-1", "new_password": "reset by the administrator"});
    before[1].put("/auth/v1/user/password", &another).await.expect_code(401_001);
    cluster.api(2).put("/auth/v1/user/password", &another).await.expect_code(200_000);
    let gone = json!([{"name": "user-2"}, {"name": "nobody"}]);
    cluster.api(2).post(&format!("{USERS}/delete"), &gone).await.expect_code(200_000);
    expect_out(&before, Instant::now()).await;
    as_user(&cluster, 1, "user-1", "reset by the administrator").await;
    log_in(&cluster, 1, "user-2", PASSWORD).await.expect_code(401_001);
    cluster.expect_equal_state().await;
}

/// A node that would miss revocations stops accepting tokens, and accepts them again later.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_believes_no_token() {
    let cluster = Cluster::start_with(3, &["--token-trust-ms", "2000"]).await;
    let service = json!([{"namespace": "cut", "name": "off"}]);
    cluster.api(1).post(SERVICES, &service).await.expect_code(200_000);
    let leader = cluster.leader().await;
    for alone in [leader, cluster.followers().await[0]] {
        let api = cluster.api(alone);
        api.get(LOCAL).await.expect_code(200_000);
        let others: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != alone).collect();
        join_all(others.iter().map(|id| cluster.pause(*id))).await;
        let since = Instant::now();
        eventually(LIMIT, "no token is believed", || async {
            match api.get(LOCAL).await {
                answer if answer.code() == 503_001 => Ok(()),
                answer => Err(answer.to_string()),
            }
        })
        .await;
        report(format!("a node that is alone believed no token after {:?}", since.elapsed()));
        api.clone().without_token().get(LOCAL).await.expect_code(401_002);
        join_all(others.iter().map(|id| cluster.resume(*id))).await;
        eventually(LIMIT, "tokens are believed again", || async {
            match api.get(LOCAL).await {
                answer if answer.code() == 200_000 => Ok(()),
                answer => Err(answer.to_string()),
            }
        })
        .await;
        cluster.wait_ready(alone).await;
    }
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_stays_whoever_asks_at_the_same_time() {
    const ROUNDS: usize = 10;
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    for stripped in [json!({"name": "admin", "grants": []}), json!({"name": "admin", "disabled": true})] {
        api.put(USERS, &json!([stripped])).await.expect_code(403_002);
    }
    let narrower = json!([{"role": "admin", "namespace": "prod"}]);
    api.put(USERS, &json!([{"name": "admin", "grants": narrower}])).await.expect_code(403_002);
    api.post(&format!("{USERS}/delete"), &json!([{"name": "admin"}])).await.expect_code(403_002);

    make_user(&api, "second", json!([{"role": "admin", "namespace": "*"}])).await;
    let everything = json!([{"role": "admin", "namespace": "*"}]);
    for round in 0..ROUNDS {
        let tokens =
            [as_user(&cluster, 1, "admin", ADMIN_PASSWORD).await, as_user(&cluster, 2, "second", PASSWORD).await];
        let strip = |name: &str| json!([{"name": name, "grants": []}]);
        let (first, second) = (strip("second"), strip("admin"));
        let (one, other) = tokio::join!(tokens[0].put(USERS, &first), tokens[1].put(USERS, &second));
        let done: Vec<bool> = [&one, &other].map(|answer| answer.code() == 200_000).to_vec();
        assert_eq!(done.iter().filter(|done| **done).count(), 1, "round {round}: {one} {other}");
        let left = if done[0] { &tokens[0] } else { &tokens[1] };
        let both = json!([{"name": "admin", "grants": everything}, {"name": "second", "grants": everything}]);
        let answer = left.put(USERS, &both).await;
        assert!(answer.item_codes().contains(&200_000), "round {round}: {answer}");
    }
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_edits_need_not_release_and_who_releases_need_not_edit() {
    let cluster = Cluster::start(3).await;
    let on_shop = |role: &str| json!([{"role": role, "namespace": "shop", "name": "app*"}]);
    for role in ["editor", "releaser"] {
        make_user(&cluster.api(1), role, on_shop(role)).await;
    }
    let both = json!([{"role": "editor", "namespace": "shop"}, {"role": "releaser", "namespace": "shop"}]);
    make_user(&cluster.api(1), "both", both).await;
    let editor = as_user(&cluster, 2, "editor", PASSWORD).await;
    let releaser = as_user(&cluster, 3, "releaser", PASSWORD).await;
    let file = json!({"namespace": "shop", "group": "app", "name": "f.properties", "content": "v=1"});
    let release = json!({"namespace": "shop", "group": "app", "file_name": "f.properties", "name": "r1"});
    let at_once = json!({"namespace": "shop", "group": "app", "file_name": "f.properties", "content": "v=2"});
    let (publish, publish_new) = (format!("{FILES}/release"), format!("{FILES}/createandpub"));

    editor.post(FILES, &file).await.expect_code(200_000);
    editor.post(&publish, &release).await.expect_code(401_001);
    releaser.post(&publish, &release).await.expect_code(200_000);
    let mut changed = file.clone();
    changed["content"] = json!("v=3");
    releaser.put(FILES, &changed).await.expect_code(401_001);
    for api in [&editor, &releaser] {
        api.post(&publish_new, &at_once).await.expect_code(401_001);
    }
    assert_eq!(cluster.apollo(1).config("app", "shop", "f").await["configurations"], json!({"v": "1"}));
    as_user(&cluster, 1, "both", PASSWORD).await.post(&publish_new, &at_once).await.expect_code(200_000);

    // One item among a hundred that is not the editor's is refused by itself.
    let name = |number: usize| if number == 57 { "other".to_owned() } else { format!("app-{number}") };
    let items: Vec<_> = (0..100).map(|number| json!({"namespace": "shop", "name": name(number)})).collect();
    let answer = editor.post(SERVICES, &json!(items)).await;
    let expected: Vec<u64> = (0..100).map(|number| if number == 57 { 401_001 } else { 200_000 }).collect();
    assert_eq!(answer.item_codes(), expected, "{answer}");
    let made = cluster.api(3).get("/naming/v1/services?namespace=shop&limit=0").await;
    assert_eq!(made.expect_code(200_000).amount(), 99);
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_tokens_end_stay_in_their_networks_and_are_shown_once() {
    let cluster = Cluster::start(3).await;
    let grants = json!([{"role": "reader", "namespace": "*"}]);
    let items = json!([
        {"name": "local", "grants": grants, "networks": ["127.0.0.0/8"]},
        {"name": "brief", "grants": grants, "expires_in_s": 2},
        {"name": "plain", "grants": grants},
    ]);
    let answer = cluster.api(1).post(TOKENS, &items).await.expect_code(200_000);
    let secrets: Vec<String> = (0..3)
        .map(|item| answer.body["responses"][item]["token"]["secret"].as_str().expect("a secret").to_owned())
        .collect();
    for id in cluster.ids() {
        let with = |secret: &str| cluster.api(id).with_token(secret);
        with(&secrets[0]).get(SERVICES).await.expect_code(200_000);
        with(&secrets[2]).get(SERVICES).await.expect_code(200_000);
        // Through a balancer that names the client.
        let request = with(&secrets[0]).request(reqwest::Method::GET, SERVICES);
        let answer = Answer::read(request.header("X-Forwarded-For", "198.51.100.9")).await.expect("answered");
        answer.expect_code(401_004);
        eventually(LIMIT, "the token is over", || async {
            match with(&secrets[1]).get(SERVICES).await {
                answer if answer.code() == 401_004 => Ok(()),
                answer => Err(answer.to_string()),
            }
        })
        .await;
        for list in [TOKENS, USERS] {
            let shown = cluster.api(id).get(list).await.expect_code(200_000).to_string();
            let told = secrets.iter().any(|secret| shown.contains(secret.as_str()));
            assert!(!told && !shown.contains("argon2") && !shown.contains("password"), "{shown}");
        }
    }
    cluster.api(2).post(TOKENS, &json!([{"name": "plain", "grants": grants}])).await.expect_code(400_201);
    cluster.api(3).post(&format!("{TOKENS}/delete"), &json!([{"name": "plain"}])).await.expect_code(200_000);
    let apis: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id).with_token(&secrets[2])).collect();
    expect_out(&apis, Instant::now()).await;
    let logs: String = cluster.ids().iter().filter_map(|id| std::fs::read_to_string(cluster.log(*id)).ok()).collect();
    assert!(secrets.iter().all(|secret| !logs.contains(secret.as_str())), "a secret is in a log");
    cluster.expect_equal_state().await;
}

/// The user of a token counts on the config clients' port too.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_config_clients_are_judged_like_all_others() {
    let cluster = Cluster::start_with(3, &["--compat-auth", "required"]).await;
    cluster.api(1).publish("default", "app", "application", "sealed=words").await;
    let items = json!([
        {"name": "client", "grants": [{"role": "client", "namespace": "*"}]},
        {"name": "reader", "grants": [{"role": "reader", "namespace": "default", "name": "app"}]},
        {"name": "operator", "grants": [{"role": "operator", "namespace": "*"}]},
        {"name": "nothing"},
        {"name": "elsewhere", "grants": [{"role": "client", "namespace": "*"}], "networks": ["198.51.100.0/24"]},
    ]);
    let made = cluster.api(1).post(TOKENS, &items).await.expect_code(200_000);
    let secret = |item: usize| made.body["responses"][item]["token"]["secret"].as_str().expect("a secret").to_owned();
    cluster.expect_equal_state().await;
    for id in cluster.ids() {
        for path in ["/configs/app/default/application", "/configfiles/app/default/application"] {
            for (item, status) in [(0, 200), (1, 200), (2, 404), (3, 404), (4, 401)] {
                let pulled = cluster.apollo(id).get_as(path, Some(&secret(item))).await;
                assert_eq!(pulled.status, status, "{path}, token {item} on node {id}: {pulled:?}");
            }
            assert_eq!(cluster.apollo(id).get(path).await.status, 401);
        }
    }
    cluster.api(2).post(&format!("{TOKENS}/delete"), &json!([{"name": "client"}])).await.expect_code(200_000);
    for id in cluster.ids() {
        eventually(OUT_WITHIN, "the token opens nothing", || async {
            match cluster.apollo(id).get_as("/configs/app/default/application", Some(&secret(0))).await {
                pulled if pulled.status == 401 => Ok(()),
                pulled => Err(format!("{pulled:?}")),
            }
        })
        .await;
    }
}
