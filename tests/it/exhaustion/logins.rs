//! Logins: the one request that is expensive and needs no token.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Memory, dial};
use crate::harness::{ADMIN_PASSWORD, Answer, Api, Cluster, eventually};

const LOGIN: &str = "/auth/v1/user/login";
const LIMIT: Duration = Duration::from_secs(60);
const ATTACKS: usize = 300;
/// Maximum growth: a hash takes 19 MiB, and two may be computed at a time.
const GROWTH_MIB_MAX: f64 = 160.0;
/// Failures of one user from one address in a minute.
const FAILURES_MAX: usize = 5;

fn request(body: &Value) -> String {
    let body = body.to_string();
    format!("POST {LOGIN} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A login for which a proxy names the client.
async fn log_in_from(api: &Api, forwarded: &str, name: &str, password: &str) -> Answer {
    let request = api.request(Method::POST, LOGIN).header("X-Forwarded-For", forwarded);
    Answer::read(request.json(&json!({"name": name, "password": password}))).await.expect("the login is answered")
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_whose_clients_hang_up_cost_no_memory_and_keep_nobody_out() {
    let cluster = Cluster::start(1).await;
    let (api, door) = (cluster.api(1), cluster.ports(1).api);
    let mut memory = Memory::of(&cluster, 1);
    let mut flood = Vec::new();
    for number in 0..ATTACKS {
        let mut connection = dial(door).await.expect("the node listens");
        let body = json!({"name": format!("guess {number}"), "password": "wrong"});
        connection.write_all(request(&body).as_bytes()).await.expect("the request is taken");
        flood.push(connection);
        memory.look(&cluster, 1);
    }
    // One client reads its answer, to know that the logins have arrived; the others disconnect.
    let mut answer = [0; 12];
    flood.pop().expect("many of them").read_exact(&mut answer).await.expect("an answer");
    assert!([b"HTTP/1.1 401", b"HTTP/1.1 429"].contains(&&answer), "{}", String::from_utf8_lossy(&answer));
    drop(flood);
    // Another user can log in, and token holders are served.
    eventually(LIMIT, "an honest login", || async {
        let answer = log_in_from(&api, "192.0.2.7", "admin", ADMIN_PASSWORD).await;
        if answer.code() == 200_000 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    api.get("/naming/v1/services").await.expect_code(200_000);
    memory.look(&cluster, 1);
    memory.expect_growth_below(GROWTH_MIB_MAX, &format!("{ATTACKS} logins hung up on"));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_are_not_remembered() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1).without_token();
    let mut memory = Memory::of(&cluster, 1);
    for number in 0..ATTACKS {
        let name = format!("{number}{}", "n".repeat(1 << 20));
        api.post(LOGIN, &json!({"name": name, "password": "wrong"})).await.expect_code(413_000);
        memory.look(&cluster, 1);
    }
    for number in 0..ATTACKS {
        let name = format!("{number}{}", "n".repeat(3 << 10));
        api.post(LOGIN, &json!({"name": name, "password": "wrong"})).await.expect_code(401_001);
    }
    memory.look(&cluster, 1);
    memory.expect_growth_below(96.0, &format!("{ATTACKS} names of a megabyte"));
    api.login(ADMIN_PASSWORD).await.expect("the right one gets in");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_throttle_is_not_got_around() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1).without_token();
    let all_wrong = |codes: &[u64]| codes.iter().filter(|code| **code == 401_001).count();

    // A client writes what it likes; the proxy appends the address that it sees.
    let mut codes = Vec::new();
    for number in 0..2 * FAILURES_MAX {
        codes.push(log_in_from(&api, &format!("203.0.113.{number}, 198.51.100.9"), "forwarded", "wrong").await.code());
    }
    assert_eq!(all_wrong(&codes), FAILURES_MAX, "addresses that were made up: {codes:?}");

    let mut codes = Vec::new();
    for number in 0..2 * FAILURES_MAX {
        codes.push(log_in_from(&api, &format!("2001:db8:1:2::{number:x}"), "in one net", "wrong").await.code());
    }
    assert_eq!(all_wrong(&codes), FAILURES_MAX, "addresses of one /64: {codes:?}");

    // The answer does not reveal which loopback address it is.
    let mut codes = Vec::new();
    for number in 0..2 * FAILURES_MAX {
        codes.push(log_in_from(&api, &format!("127.0.0.{}", number + 2), "of loopback", "wrong").await.code());
    }
    assert_eq!(all_wrong(&codes), FAILURES_MAX, "addresses of loopback: {codes:?}");

    let guesses = (0..3 * FAILURES_MAX).map(|_| log_in_from(&api, "198.51.100.10", "parallel", "wrong"));
    let codes: Vec<_> = join_all(guesses).await.iter().map(Answer::code).collect();
    assert_eq!(all_wrong(&codes), FAILURES_MAX, "guesses at the same time: {codes:?}");
    assert!(codes.iter().all(|code| [401_001, 429_002].contains(code)), "{codes:?}");
}

/// A user whose password is guessed from many addresses can still log in from known addresses.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_guessed_at_from_everywhere_is_closed_to_strangers_only() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1).without_token();
    log_in_from(&api, "192.0.2.7", "admin", ADMIN_PASSWORD).await.expect_code(200_000);
    let mut guesses = 0;
    let told = loop {
        let answer = log_in_from(&api, &format!("198.51.100.{}", guesses % 250), "admin", "wrong").await;
        guesses += 1;
        match answer.code() {
            401_001 if guesses < 200 => {}
            _ => break answer.expect_code(429_002),
        }
    };
    assert!(!told.header("retry-after").is_empty(), "{told}");
    for stranger in ["203.0.113.1", "127.0.0.1", "127.0.0.7", "::1"] {
        log_in_from(&api, stranger, "admin", ADMIN_PASSWORD).await.expect_code(429_002);
    }
    log_in_from(&api, "192.0.2.7", "admin", ADMIN_PASSWORD).await.expect_code(200_000);
    api.login(ADMIN_PASSWORD).await.expect("who is on this machine gets in");
}
