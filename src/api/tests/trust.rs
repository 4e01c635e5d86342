//! Security-relevant objects: unknown fields are refused, a read object can be sent back; the caller's own account.

use axum::http::HeaderMap;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};

use super::*;
use crate::operations::token_hash;

const USERS: &str = "/auth/v1/users";
const TOKENS: &str = "/auth/v1/tokens";
const KEYS: &str = "/auth/v1/accesskeys";
const HOOKS: &str = "/admin/v1/webhooks";

impl Bench {
    async fn item(&self, method: &str, path: &str, token: &str, body: Value) -> (u64, Value) {
        let (_, answer) = self.send(method, path, Some(token), json!([body])).await;
        let item = &answer["responses"][0];
        (item["code"].as_u64().or(answer["code"].as_u64()).expect("a code"), item.clone())
    }

    async fn headers(&self, path: &str, token: Option<&str>) -> (StatusCode, HeaderMap) {
        let request = Request::builder().uri(path).header("X-Forwarded-For", "192.0.2.1");
        let request = match token {
            Some(token) => request.header("Authorization", token),
            None => request,
        };
        let request = request.body(Body::empty()).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("the surface always answers");
        (response.status(), response.headers().clone())
    }

    /// Returns the first row of a list.
    async fn row(&self, path: &str, token: &str) -> Value {
        let (status, answer) = self.send("GET", path, Some(token), Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer["data"][0].clone()
    }
}

/// Lists, the naming fields of an object, and the fields of a create.
fn objects() -> [(&'static str, Value, Value); 4] {
    let grants = json!([{ "role": "reader", "namespace": "n" }]);
    [
        (USERS, json!({ "name": "eve" }), json!({ "password": "long enough", "grants": grants })),
        (TOKENS, json!({ "name": "ci" }), json!({ "grants": grants, "networks": ["10.0.0.0/8"] })),
        (KEYS, json!({ "app_id": "app", "name": "k" }), json!({ "mode": "observe" })),
        (HOOKS, json!({ "name": "h" }), json!({ "url": "https://hooks.example.org/" })),
    ]
}

fn joined(one: &Value, more: &Value) -> Value {
    let mut joined = one.clone();
    joined.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    joined
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_nothing_reads_is_refused_whatever_unknown_says() {
    let bench = Bench::start_with(&["a"]).await;
    let token = bench.log_in().await;
    for (path, named, made) in objects() {
        let whole = joined(&named, &made);
        for more in [json!({ "disable": true }), json!({ "active": true }), json!({ "expires_in": 3600 })] {
            for query in ["", "?unknown=warn", "?unknown=refuse"] {
                let asked = format!("{path}{query}");
                let (code, item) = bench.item("POST", &asked, &token, joined(&whole, &more)).await;
                assert_eq!(code, 400_001, "{path} {more}: {item}");
                assert!(item["info"].as_str().is_some_and(|info| info.contains("is not known")), "{item}");
            }
        }
        assert_eq!(bench.item("POST", path, &token, whole).await.0, 200_000, "{path}");
        // All fields of an answer are known, so the object can be sent back.
        let query = format!("{path}?name={}", named["name"].as_str().expect("a name"));
        let row = bench.row(&query, &token).await;
        let (code, item) = bench.item("PUT", path, &token, row.clone()).await;
        assert_eq!(code, 200_002, "{path}: {row} {item}");
        assert_eq!(bench.item("PUT", path, &token, joined(&named, &json!({ "x": 1 }))).await.0, 400_001);
        assert_eq!(
            bench.item("POST", &format!("{path}/delete"), &token, joined(&named, &json!({ "x": 1 }))).await.0,
            400_001
        );
        assert_eq!(bench.row(&query, &token).await, row, "{path}: nothing was done");
    }
    for grant in [
        json!({ "role": "editor" }),
        json!({ "role": "editor", "ns": "dev" }),
        json!({ "role": "editor", "namespace": "dev", "group": "app" }),
    ] {
        for path in [USERS, TOKENS] {
            let item = json!({ "name": "wide", "password": "long enough", "grants": [grant] });
            let item = if path == USERS { item } else { json!({ "name": "wide", "grants": [grant] }) };
            let (code, answer) = bench.item("POST", path, &token, item).await;
            assert_eq!(code, 400_001, "{grant}: {answer}");
        }
    }
    let item = json!({ "name": "wide", "grants": [{ "role": "editor", "namespace": "*" }] });
    assert_eq!(bench.item("POST", TOKENS, &token, item).await.0, 200_000, "all may be meant, and is then said");
    let own = json!({ "old_passwort": PASSWORD, "new_password": "long enough" });
    assert_eq!(bench.send("PUT", "/auth/v1/user/password", Some(&token), own).await.1["code"], 400_001);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_is_changed_and_deleted_as_it_was_read() {
    let bench = Bench::start_with(&["a"]).await;
    let token = bench.log_in().await;
    let comment = |named: &Value, comment: &str, revision: &Value| {
        joined(named, &json!({ "comment": comment, "revision": revision }))
    };
    let further = [
        ("/naming/v1/namespaces", json!({ "name": "space" }), json!({})),
        ("/naming/v1/services", json!({ "namespace": "n", "name": "s" }), json!({})),
        ("/config/v1/configfilegroups", json!({ "namespace": "n", "name": "g" }), json!({})),
        ("/config/v1/configfiles", json!({ "namespace": "n", "group": "g", "name": "f" }), json!({ "content": "a=1" })),
        ("/config/v1/configfiletemplates", json!({ "name": "t" }), json!({ "content": "a=1" })),
    ];
    for (path, named, made) in objects().into_iter().chain(further) {
        let (code, item) = bench.item("POST", path, &token, joined(&named, &made)).await;
        assert_eq!(code, 200_000, "{path}: {item}");
        let revision = |item: &Value| {
            let members = item.as_object().expect("an item");
            members.values().find_map(|member| member.get("revision")).expect("a revision").clone()
        };
        let first = revision(&item);
        assert!(first.as_str().is_some_and(|first| first.len() == 32), "{path}: {item}");
        let (code, item) = bench.item("PUT", path, &token, comment(&named, "one", &first)).await;
        assert_eq!(code, 200_000, "{path}: {item}");
        let second = revision(&item);
        assert_ne!(first, second, "{path}");
        assert_eq!(bench.item("PUT", path, &token, comment(&named, "two", &first)).await.0, 409_000, "{path}");
        let delete = format!("{path}/delete");
        let at = |revision: &Value| joined(&named, &json!({ "revision": revision }));
        assert_eq!(bench.item("POST", &delete, &token, at(&first)).await.0, 409_000, "{path}");
        // Deleting the group deletes its files.
        let is_needed = path.ends_with("configfilegroups");
        let code = if is_needed { 200_000 } else { bench.item("POST", &delete, &token, at(&second)).await.0 };
        assert_eq!(code, 200_000, "{path}");
    }
    for (path, query) in
        [("configfilegroups", "namespace=n&name=g&group=g"), ("configfiles", "namespace=n&group=g&name=f")]
    {
        if path == "configfiles" {
            let file = json!({ "namespace": "n", "group": "g", "name": "f", "content": "a=1" });
            assert_eq!(bench.item("POST", "/config/v1/configfiles", &token, file).await.0, 200_000);
        }
        let of = |revision: &str| format!("/config/v1/{path}?{query}&revision={revision}");
        let (_, answer) = bench.send("DELETE", &of("stale"), Some(&token), Value::Null).await;
        assert_eq!(answer["code"], 409_000, "{path}: {answer}");
        let (_, answer) = bench.send("DELETE", &of(""), Some(&token), Value::Null).await;
        assert_eq!(answer["code"], 200_000, "{path}: {answer}");
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_have_a_revision_and_those_of_the_trail_need_more() {
    const SETTINGS: &str = "/admin/v1/settings";
    let bench = Bench::start().await;
    let admin = bench.log_in().await;
    let shown = bench.send("GET", SETTINGS, Some(&admin), Value::Null).await.1;
    assert_eq!(shown["settings"]["revision"], "", "before the first change");
    let put = async |token: &str, body: Value| {
        let (_, answer) = bench.send("PUT", SETTINGS, Some(token), body).await;
        (answer["code"].as_u64().expect("a code"), answer["settings"]["revision"].clone())
    };
    let (code, first) = put(&admin, json!({ "releases_kept": 7 })).await;
    assert_eq!(code, 200_000);
    let (code, second) = put(&admin, json!({ "releases_kept": 8, "revision": first })).await;
    assert_eq!(code, 200_000);
    assert_ne!(first, second);
    assert_eq!(put(&admin, json!({ "releases_kept": 9, "revision": first })).await.0, 409_000);
    let operator = json!({ "name": "op", "grants": [{ "role": "operator", "namespace": "*" }] });
    let (_, item) = bench.item("POST", TOKENS, &admin, operator).await;
    let operator = item["token"]["secret"].as_str().expect("a secret");
    assert_eq!(put(operator, json!({ "releases_kept": 10 })).await.0, 200_000);
    for name in ["audit_kept_days", "audit_kept_rows", "audit_instances"] {
        assert_eq!(
            put(operator, json!({ name: 1 })).await.0,
            if name == "audit_kept_rows" { 400_103 } else { 401_001 }
        );
    }
    assert_eq!(put(operator, json!({ "audit_kept_rows": 1000 })).await.0, 401_001);
    assert_eq!(put(&admin, json!({ "audit_kept_rows": 1000 })).await.0, 200_000);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_one_is_and_where_one_is_logged_in() {
    let bench = Bench::start().await;
    let admin = bench.log_in().await;
    let grants = json!([{ "role": "editor", "namespace": "n", "name": "*" }]);
    for name in ["ann", "bob"] {
        let item = json!({ "name": name, "password": "long enough", "grants": grants });
        assert_eq!(bench.item("POST", USERS, &admin, item).await.0, 200_000);
    }
    let log_in = async |name: &str| {
        let login = json!({ "name": name, "password": "long enough" });
        let (_, answer) = bench.send_from("192.0.2.9", "POST", "/auth/v1/user/login", None, login).await;
        answer["loginResponse"]["token"].as_str().expect("a token").to_owned()
    };
    let (ann, other, bob) = (log_in("ann").await, log_in("ann").await, log_in("bob").await);
    let me = bench.send("GET", "/auth/v1/user", Some(&ann), Value::Null).await.1["user"].clone();
    assert_eq!(
        (&me["name"], &me["grants"], &me["verbs"], &me["signed_in_by"]),
        (&json!("ann"), &grants, &json!(["read", "edit"]), &json!("login"))
    );
    assert_ne!(me["until"], "");
    let token = json!({ "name": "ci", "grants": grants });
    let secret = bench.item("POST", TOKENS, &admin, token).await.1["token"]["secret"].clone();
    let me = bench.send("GET", "/auth/v1/user", secret.as_str(), Value::Null).await.1["user"].clone();
    assert_eq!((&me["name"], &me["signed_in_by"], &me["until"]), (&json!("token:ci"), &json!("token"), &json!("")));

    let sessions = async |token: &str, query: &str| {
        bench.send("GET", &format!("/auth/v1/sessions{query}"), Some(token), Value::Null).await.1
    };
    let own = sessions(&ann, "").await;
    assert_eq!((&own["amount"], &own["data"][0]["address"]), (&json!(2), &json!("192.0.2.9")), "{own}");
    for field in ["id", "since", "until"] {
        assert_ne!(own["data"][0][field], "", "{own}");
    }
    assert_eq!(sessions(&ann, "?user=bob").await["code"], 401_001);
    assert_eq!(sessions(&admin, "?user=bob").await["amount"], 1);
    assert_eq!(sessions(secret.as_str().expect("a secret"), "").await["amount"], 0);

    let end = async |token: &str, id: &Value| {
        bench.item("POST", "/auth/v1/sessions/delete", token, json!({ "id": id })).await.0
    };
    let of_bob = sessions(&bob, "").await["data"][0]["id"].clone();
    assert_eq!(end(&ann, &of_bob).await, 401_001, "somebody else's");
    assert_eq!(end(&ann, &json!("0000000000000000")).await, 200_000, "there is none");
    assert_eq!(end(&ann, &json!("")).await, 400_103);
    let id = |token: &str| json!(token_hash(token).id());
    assert_eq!(end(&ann, &id(&other)).await, 200_000);
    assert_eq!(bench.send("GET", "/naming/v1/services", Some(&other), Value::Null).await.1["code"], 401_004);
    assert_eq!(end(&admin, &of_bob).await, 200_000);
    assert_eq!(bench.send("GET", "/naming/v1/services", Some(&bob), Value::Null).await.1["code"], 401_004);
    assert_eq!(sessions(&ann, "").await["amount"], 1);
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_changed_and_rotated_where_it_stands() {
    let bench = Bench::start().await;
    let admin = bench.log_in().await;
    let item = json!({ "name": "ci", "comment": "builds", "grants": [{ "role": "reader", "namespace": "*" }] });
    let (code, made) = bench.item("POST", TOKENS, &admin, item).await;
    assert_eq!((code, &made["token"]["comment"]), (200_000, &json!("builds")));
    let first = made["token"]["secret"].as_str().expect("a secret").to_owned();
    let reads = async |secret: &str| {
        bench.send("GET", "/naming/v1/services", Some(secret), Value::Null).await.1["code"].as_u64().expect("a code")
    };
    let put = async |body: Value| bench.item("PUT", TOKENS, &admin, joined(&json!({ "name": "ci" }), &body)).await;
    assert_eq!(put(json!({ "networks": ["198.51.100.0/24"] })).await.0, 200_000);
    assert_eq!(reads(&first).await, 401_004, "from another network");
    assert_eq!(put(json!({ "networks": [] })).await.0, 200_000);
    assert_eq!(reads(&first).await, 200_000);
    assert_eq!(put(json!({ "grants": [] })).await.0, 200_000);
    assert_eq!(bench.send("GET", "/naming/v1/services", Some(&first), Value::Null).await.1["amount"], 0);
    let (_, changed) = put(json!({ "expires_in_s": 3600, "disabled": true })).await;
    assert_ne!(changed["token"]["expires"], "");
    assert_eq!((reads(&first).await, changed["token"]["secret"].clone()), (401_004, Value::Null));
    assert_eq!(put(json!({ "disabled": false })).await.0, 200_000);
    assert_eq!(reads(&first).await, 200_000);
    assert_eq!(put(json!({ "disabled": false })).await.0, 200_002);

    let rotate = async |body: Value| {
        let (code, item) = bench.item("POST", "/auth/v1/tokens/rotate", &admin, body).await;
        (code, item["token"]["secret"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(rotate(json!({ "name": "none" })).await.0, 400_202);
    assert_eq!(rotate(json!({ "name": "ci", "overlap_s": 31 * 24 * 3600 })).await.0, 400_103);
    let (code, second) = rotate(json!({ "name": "ci", "overlap_s": 3600 })).await;
    assert_eq!((code, reads(&first).await, reads(&second).await), (200_000, 200_000, 200_000));
    let row = bench.row(&format!("{TOKENS}?name=ci"), &admin).await;
    assert_ne!(row["previous_until"], "");
    let (code, third) = rotate(json!({ "name": "ci" })).await;
    assert_eq!(
        (code, reads(&first).await, reads(&second).await, reads(&third).await),
        (200_000, 401_004, 401_004, 200_000)
    );
    assert_eq!(bench.row(&format!("{TOKENS}?name=ci"), &admin).await["previous_until"], "");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_to_log_in_again_is_told_and_nobody_else() {
    let bench = Bench::start().await;
    let token = json!({ "name": "nothing" });
    let admin = bench.log_in().await;
    let secret = bench.item("POST", TOKENS, &admin, token).await.1["token"]["secret"].clone();
    for (presented, is_told) in [(None, true), (Some("guess"), true), (secret.as_str(), false)] {
        let (status, headers) = bench.headers(USERS, presented).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        let told = headers.get(WWW_AUTHENTICATE).map(|value| value.to_str().expect("text"));
        assert_eq!(told, is_told.then_some("Bearer"), "{presented:?}");
    }
    // Every answer 429002 has Retry-After.
    let wrong = json!({ "old_password": "not the right one", "new_password": "long enough" });
    let mut last = None;
    for _ in 0..6 {
        let request = Request::builder().method("PUT").uri("/auth/v1/user/password").header("Authorization", &admin);
        let mut request =
            request.header("X-Forwarded-For", "192.0.2.1").body(Body::from(wrong.to_string())).expect("one");
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        let response = bench.router.clone().oneshot(request).await.expect("the surface always answers");
        last = Some((response.status(), response.headers().get(RETRY_AFTER).cloned()));
    }
    let (status, wait) = last.expect("asked");
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = wait.expect("Retry-After").to_str().expect("text").parse().expect("seconds");
    assert!((1..=61).contains(&wait), "{wait}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn private_networks_are_reached_where_the_operator_of_the_node_names_them() {
    let bench = Bench::start_with(&["a"]).await;
    let token = bench.log_in().await;
    let settings = ApiSettings {
        trusted_proxies: Vec::new(),
        budget: None,
        hosts: Hosts::any(),
        metrics_elsewhere: false,
        document: LazyDocument::new(Box::new(Bytes::new)),
    };
    let bounds = Bounds { webhook_networks: vec!["10.0.0.0/8".parse().expect("a network")], ..BOUNDS };
    let lenient =
        App::new(Operations::new(bench.node.clone(), bench.app.node().controllers().clone(), bounds), settings);
    let lenient = Bench {
        router: router(lenient.clone()),
        app: lenient,
        node: bench.node.clone(),
        shutdown: CancellationToken::new(),
        _dir: tempfile::tempdir().expect("one"),
    };
    let hook = |name: &str, url: &str, allow: bool| json!({ "name": name, "url": url, "allow_private": allow });
    for (url, allow, strict_code, code) in [
        ("https://hooks.example.org/", false, 200_000, 200_000),
        ("https://hooks.example.org/", true, 400_103, 200_000),
        ("http://10.1.2.3/", true, 400_103, 200_000),
        ("http://10.1.2.3/", false, 400_103, 400_103),
        ("http://127.0.0.1/", true, 400_103, 400_103),
        ("http://169.254.169.254/", true, 400_103, 400_103),
    ] {
        for (at, code) in [(&bench, strict_code), (&lenient, code)] {
            let (found, item) = at.item("POST", HOOKS, &token, hook("h", url, allow)).await;
            assert_eq!(found, code, "{url} {allow}: {item}");
            at.item("POST", &format!("{HOOKS}/delete"), &token, json!({ "name": "h" })).await;
        }
    }
    assert_eq!(lenient.item("POST", HOOKS, &token, hook("h", "http://10.1.2.3/", true)).await.0, 200_000);
    let moved = json!({ "name": "h", "url": "http://192.168.1.1/" });
    assert_eq!(lenient.item("PUT", HOOKS, &token, moved).await.0, 400_103, "what is not said is what is there");
    assert_eq!(bench.item("PUT", HOOKS, &token, json!({ "name": "h", "comment": "c" })).await.0, 200_000);
    bench.stop().await;
}
