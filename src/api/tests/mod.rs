//! The surface without sockets, over a real one-node cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap, HeaderValue, Request, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::http::route::Access;
use super::http::{Asked, Fresh, identify};
use super::*;
use crate::controllers::Controllers;
use crate::controllers::testing::{founding, lone_setup};
use crate::data_key::DataKey;
use crate::format::level::LevelRange;
use crate::hosts::Hosts;
use crate::metrics::Metrics;
use crate::model::limits;
use crate::openapi::LazyDocument;
use crate::operations::scan_limiter::at_once;
use crate::operations::{Bounds, FAR, Operations, hash_password};
use crate::raft::node::Node;
use crate::raft::start::{Setup, start};
use crate::store::Store;
use crate::watch::Hub;

mod act_words;
mod audit;
mod bundles;
mod empty_keys;
mod fleet;
mod judged;
mod matrix;
mod nulls;
mod pages;
mod revisions;
mod sealed;
mod spelling;
mod strange_queries;
mod targets;
mod templates;
mod told;
mod trust;
mod unknown;
mod upstream;

const PASSWORD: &str = "correct horse";
const BOUNDS: Bounds = Bounds {
    config_content_chars_max: 1000,
    token_trust: Duration::from_secs(30),
    webhook_networks: Vec::new(),
    sso_ca_file: None,
};
/// Prefix of a body in base64.
const RAW: &str = "raw base64:";

/// A node in a temporary directory, and its surface.
struct Bench {
    router: Router,
    app: App,
    node: Node,
    shutdown: CancellationToken,
    _dir: tempfile::TempDir,
}

impl Bench {
    async fn start() -> Self {
        Bench::start_with(&[]).await
    }

    /// Starts a node with data keys of these digits.
    async fn start_with(digits: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let metrics = Arc::new(Metrics::new().expect("a consistent table"));
        let store = Store::open(dir.path(), 1, LevelRange::OWN, metrics.clone()).expect("a new directory");
        let data_keys: Vec<DataKey> = digits.iter().filter_map(|digit| DataKey::of_hex(&digit.repeat(64))).collect();
        let admin_password_hash = hash_password(PASSWORD).expect("a hash");
        let controllers = Controllers::new(founding(&admin_password_hash), data_keys);
        let setup = Setup { extension: controllers.clone(), ..lone_setup() };
        let shutdown = CancellationToken::new();
        let hub = Hub::new(10);
        let (node, _failed) = start(setup, store, hub, metrics, &TaskTracker::new(), &shutdown).await.expect("a node");
        let founded = node.state().wait_applied(std::time::Duration::from_secs(20), |applied| applied.index >= 3).await;
        assert!(founded, "a single node founds its cluster and announces itself");
        let settings = ApiSettings {
            trusted_proxies: vec!["127.0.0.0/8".parse().expect("a network")],
            budget: None,
            hosts: Hosts::any(),
            metrics_elsewhere: false,
            document: LazyDocument::new(Box::new(Bytes::new)),
        };
        let app = App::new(Operations::new(node.clone(), controllers, BOUNDS), settings);
        Bench { router: router(app.clone()), app, node, shutdown, _dir: dir }
    }

    async fn send(&self, method: &str, path: &str, token: Option<&str>, body: Value) -> (StatusCode, Value) {
        self.send_from("192.0.2.1", method, path, token, body).await
    }

    /// Sends a request through a proxy that names the client.
    async fn send_from(
        &self,
        client: &str,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Value,
    ) -> (StatusCode, Value) {
        let (status, bytes) = self.send_bytes(client, method, path, token, body).await;
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn send_bytes(
        &self,
        client: &str,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Value,
    ) -> (StatusCode, Bytes) {
        let mut request = Request::builder().method(method).uri(path).header("X-Forwarded-For", client);
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let body = match body.as_str().and_then(|text| text.strip_prefix(RAW)) {
            Some(encoded) => Body::from(STANDARD.decode(encoded).expect("base64")),
            None if body.is_null() => Body::empty(),
            None => Body::from(body.to_string()),
        };
        let mut request = request.body(body).expect("a request");
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        let response = self.router.clone().oneshot(request).await.expect("the surface always answers");
        let status = response.status();
        (status, response.into_body().collect().await.expect("a whole body").to_bytes())
    }

    async fn log_in(&self) -> String {
        let (_, answer) =
            self.send("POST", "/auth/v1/user/login", None, json!({ "name": "admin", "password": PASSWORD })).await;
        answer["loginResponse"]["token"].as_str().expect("a token").to_owned()
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.node.stop().await;
    }
}

/// Covers every route, because it uses the table from which the router is built.
#[tokio::test(flavor = "multi_thread")]
async fn no_route_but_login_health_metrics_and_documentation_answers_without_a_token() {
    let bench = Bench::start().await;
    let mut open = Vec::new();
    for route in routes() {
        if route.terms.access == Access::Anyone {
            open.push(route.path);
            continue;
        }
        for (token, code) in [(None, 401002), (Some(""), 401002), (Some("Bearer "), 401002), (Some("guess"), 401004)] {
            let (status, answer) = bench.send(route.method.as_str(), &route.path, token, json!([{}])).await;
            let shown = format!("{} {} with {token:?}", route.method, route.path);
            assert_eq!((status, &answer["code"]), (StatusCode::UNAUTHORIZED, &json!(code)), "{shown}");
        }
    }
    let of_sso = ["", "/{name}", "/{name}/login", "/{name}/logout"].map(|path| format!("/auth/v1/sso{path}"));
    let expected =
        ["/livez", "/readyz", "/openapi.json", "/docs", "/metrics", "/auth/v1/user/login", "/core/v1/user/login"];
    let expected: Vec<_> = expected.into_iter().map(str::to_owned).chain(of_sso).collect();
    assert_eq!(open, expected);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_route_answers_in_the_envelope() {
    let bench = Bench::start().await;
    let rows = [
        ("GET", "/", 404000),
        ("GET", "/naming/v1/services/", 404000),
        ("GET", "/naming//v1/services", 404000),
        ("GET", "/naming/v1/%2e%2e/v1/services", 404000),
        ("DELETE", "/naming/v1/services", 405000),
        ("OPTIONS", "/naming/v1/services", 405000),
        ("GET", "/auth/v1/user/login", 405000),
    ];
    for (method, path, code) in rows {
        let (status, answer) = bench.send(method, path, None, Value::Null).await;
        assert_eq!((u32::from(status.as_u16()) * 1000, &answer["code"]), (code, &json!(code)), "{method} {path}");
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_until_it_is_revoked() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let bearer = format!("bearer {token}");
    for header in [token.as_str(), bearer.as_str()] {
        let (status, answer) = bench.send("GET", "/naming/v1/services", Some(header), Value::Null).await;
        assert_eq!((status, &answer["code"]), (StatusCode::OK, &json!(200000)));
    }
    let (_, answer) = bench.send("POST", "/auth/v1/user/logout", Some(&token), Value::Null).await;
    assert_eq!(answer["code"], 200000);
    let (_, answer) = bench.send("GET", "/naming/v1/services", Some(&token), Value::Null).await;
    assert_eq!(answer["code"], 401004);
    bench.stop().await;
}

/// A node that is behind admits a token that was revoked elsewhere; once the read has waited for what was acknowledged
/// before it, the node knows of the revocation.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_revoked_while_a_read_waited_reads_nothing() {
    let bench = Bench::start().await;
    let app = App::new(
        Operations::new(bench.node.clone(), bench.app.node().controllers().clone(), BOUNDS),
        ApiSettings {
            trusted_proxies: Vec::new(),
            budget: None,
            hosts: Hosts::any(),
            metrics_elsewhere: false,
            document: LazyDocument::new(Box::new(Bytes::new)),
        },
    );
    let token = bench.log_in().await;
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&token).expect("text"))]);
    let caller = identify(&app, &headers, &Extensions::new()).await.expect("the token is alive");
    let read = async |query: &str| {
        let request = Request::builder().uri(format!("/naming/v1/services{query}")).extension(caller.clone());
        let (mut parts, ()) = request.body(()).expect("a request").into_parts();
        Fresh::from_request_parts(&mut parts, &app).await.map(drop).map_err(|error| error.0.code)
    };
    assert_eq!(read("").await, Ok(()));
    let (_, answer) = bench.send("POST", "/auth/v1/user/logout", Some(&token), Value::Null).await;
    assert_eq!(answer["code"], 200000);
    assert_eq!(read("").await, Err(Code::TokenNotExisted), "let in before, and found out after the wait");
    assert_eq!(read("?consistency=local").await, Ok(()), "a local read is as this node knew when it let it in");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_names_and_passwords_answer_alike_and_are_slowed() {
    let bench = Bench::start().await;
    let login = |name: &str, password: &str| json!({ "name": name, "password": password });
    let (_, wrong_name) = bench.send("POST", "/auth/v1/user/login", None, login("nobody", PASSWORD)).await;
    let (status, wrong_password) = bench.send("POST", "/auth/v1/user/login", None, login("admin", "guess")).await;
    assert_eq!((wrong_name, status), (wrong_password.clone(), StatusCode::UNAUTHORIZED));
    assert_eq!(wrong_password["code"], 401001);
    let long = "x".repeat(1000);
    for _ in 0..4 {
        let (_, answer) = bench.send("POST", "/auth/v1/user/login", None, login("admin", &long)).await;
        assert_eq!(answer["code"], 401001);
    }
    let (status, answer) = bench.send("POST", "/auth/v1/user/login", None, login("admin", PASSWORD)).await;
    assert_eq!((status, &answer["code"]), (StatusCode::TOO_MANY_REQUESTS, &json!(429002)));
    let body = login("admin", PASSWORD);
    let (status, _) = bench.send_from("192.0.2.2", "POST", "/auth/v1/user/login", None, body).await;
    assert_eq!(status, StatusCode::OK, "another client behind the same proxy is not locked out");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_answers_item_by_item() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let items = json!([{ "name": "a", "namespace": "n" }, { "name": "b c", "namespace": "n" }, { "name": 5 }, null]);
    let (status, answer) = bench.send("POST", "/naming/v1/services", Some(&token), items).await;
    let codes: Vec<_> =
        answer["responses"].as_array().expect("a batch").iter().map(|item| item["code"].clone()).collect();
    assert_eq!(codes, [json!(200000), json!(400120), json!(400001), json!(400001)]);
    assert_eq!((status, &answer["code"], &answer["size"]), (StatusCode::BAD_REQUEST, &json!(400120), &json!(4)));
    let created = &answer["responses"][0]["service"];
    assert_eq!(created["token"].as_str().map(str::len), Some(32), "the token is shown to who made it");
    let (_, answer) = bench.send("GET", "/naming/v1/services?name=a", Some(&token), Value::Null).await;
    assert_eq!((&answer["amount"], &answer["services"][0]["token"]), (&json!(1), &Value::Null));
    let renamed = json!({ "name": "n", "comment": "c" });
    let (_, answer) = bench.send("PUT", "/naming/v1/namespaces", Some(&token), renamed).await;
    assert_eq!(
        answer["responses"][0]["namespace"]["total_service_count"], 1,
        "what is derived is shown after a write too"
    );
    bench.stop().await;
}

/// Called without any key and with every described key, handlers read all described keys and no others.
#[tokio::test(flavor = "multi_thread")]
async fn every_key_of_a_query_that_is_read_is_described() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    // Without a body every write is refused except logout, which would end the token of this test.
    for route in routes().into_iter().filter(|route| !route.path.ends_with("/logout")) {
        let described = route.doc.query_params();
        let pairs: Vec<_> = described.iter().map(|param| format!("{}={}", param.name, param.sample())).collect();
        let asked = Asked::default();
        for text in [String::new(), pairs.join("&")] {
            let uri = format!("{}?{text}", route.path);
            let request = Request::builder().method(&route.method).uri(uri).header("Authorization", &token);
            let mut request = request.body(Body::empty()).expect("a request");
            request.extensions_mut().insert(asked.clone());
            bench.router.clone().oneshot(request).await.expect("the surface always answers");
        }
        let mut asked = asked.lock().clone();
        for param in described {
            assert!(asked.remove(param.name), "{} {} does not read {}", route.method, route.path, param.name);
            asked.retain(|key| !param.also.contains(&key.as_str()));
        }
        assert!(asked.is_empty(), "{} {} reads {asked:?}, which is not described", route.method, route.path);
    }
    bench.stop().await;
}

/// A scan of much of the catalog blocks neither this thread nor apply, sees one state, and is limited in concurrency.
#[tokio::test]
async fn long_walks_are_made_elsewhere_and_only_so_many_at_a_time() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let here = std::thread::current().id();
    let where_made = |reach| bench.app.scan(reach, |_| std::thread::current().id(), |thread| thread);
    assert_eq!(where_made(limits::SCAN_INLINE_MAX).await.expect("made"), here);
    assert_ne!(where_made(limits::SCAN_INLINE_MAX + 1).await.expect("made"), here);

    let (begun, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
    let go_on = Arc::new((parking_lot::Mutex::new(false), parking_lot::Condvar::new()));
    let walks: Vec<_> = (0..=at_once())
        .map(|_| {
            let (app, begun, go_on) = (bench.app.clone(), begun.clone(), go_on.clone());
            let walk = move |catalog: &crate::catalog::Catalog| {
                begun.send(()).expect("the test waits");
                go_on.1.wait_while_for(&mut go_on.0.lock(), |go_on| !*go_on, std::time::Duration::from_secs(20));
                catalog.namespaces.get("later").is_some()
            };
            tokio::spawn(async move { app.scan(FAR, walk, |saw| saw).await })
        })
        .collect();
    for _ in 0..at_once() {
        beginnings.recv().await.expect("a walk begins");
    }
    let (status, _) = bench.send("POST", "/naming/v1/namespaces", Some(&token), json!([{"name": "later"}])).await;
    assert_eq!(status, StatusCode::OK, "a write waits for no walk");
    assert!(beginnings.try_recv().is_err(), "one more than may be made at a time");
    *go_on.0.lock() = true;
    go_on.1.notify_all();
    let mut saw = Vec::new();
    for walk in walks {
        saw.push(walk.await.expect("no panic").expect("its turn came"));
    }
    assert_eq!(saw.iter().filter(|saw| **saw).count(), 1, "the last began after the write, the others before");
    bench.stop().await;
}

/// Two backups run at a time; a reader that disconnects makes room, and a backup that is read to its end is complete.
#[tokio::test(flavor = "multi_thread")]
async fn backups_are_few_at_a_time_and_end_with_their_readers() {
    use crate::catalog::{Command, Op};
    use crate::model::config_file::ConfigFileDraft;
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    // More bytes than fit into the buffers to a stalled reader; all contents differ.
    let file = |number: usize| ConfigFileDraft {
        namespace: "n".into(),
        group: "g".into(),
        name: format!("f{number}"),
        content: Some(number.to_string().repeat(1024 * 1024)),
        ..ConfigFileDraft::default()
    };
    for number in 0..8 {
        bench.node.propose("test", Command::ConfigFiles(Op::Create, vec![file(number)])).await.expect("written");
    }
    let ask = || async {
        let request = Request::builder().uri(http::route::BACKUP).header("Authorization", &token);
        let request = request.body(Body::empty()).expect("a request");
        bench.router.clone().oneshot(request).await.expect("the surface always answers")
    };
    let (first, second) = (ask().await, ask().await);
    assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
    let (status, answer) = bench.send("GET", http::route::BACKUP, Some(&token), Value::Null).await;
    assert_eq!((status, &answer["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(503002)));
    drop(first);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    let third = loop {
        let third = ask().await;
        if third.status() == StatusCode::OK {
            break third;
        }
        assert!(tokio::time::Instant::now() < deadline, "a reader that hung up still takes the room");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, response) in [("second", second), ("third", third)] {
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        let path = dir.path().join(name);
        std::fs::write(&path, &bytes).expect("written");
        let seen = crate::offline::inspect::inspect(&path).expect("whole");
        assert_eq!((seen.config_files, seen.file.map(|file| file.bytes)), (8, Some(bytes.len() as u64)));
    }
    bench.stop().await;
}

/// Returns the warnings of an item on fields that nothing reads.
fn unread(item: &Value) -> Vec<String> {
    let warnings = item["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    warnings.filter(|told| told.ends_with(" is not known")).map(str::to_owned).collect()
}
