//! Contents of answers: the consistency of a read, the faulty field, and the name of an object.

use super::*;

/// Every read reports the consistency with which it was answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_says_what_it_was_answered_from() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let sketch = json!({ "service": "s", "namespace": "n" });
    let question = json!({ "type": "NAMESPACES" });
    let rows = [
        ("GET", "/naming/v1/services", Value::Null, Some("linearizable")),
        ("GET", "/naming/v1/services?consistency=local", Value::Null, Some("local")),
        ("GET", "/naming/v1/services?consistency=none", Value::Null, Some("local")),
        ("GET", "/admin/v1/settings", Value::Null, Some("linearizable")),
        ("GET", "/admin/v1/cluster", Value::Null, Some("local")),
        ("GET", "/livez", Value::Null, Some("local")),
        ("GET", "/readyz", Value::Null, Some("local")),
        ("GET", "/metrics", Value::Null, Some("local")),
        ("GET", "/docs", Value::Null, Some("local")),
        ("GET", "/nothing", Value::Null, Some("local")),
        ("POST", "/naming/v1/routings/explain", sketch.clone(), Some("linearizable")),
        ("POST", "/naming/v1/routings/explain?consistency=local", sketch, Some("local")),
        ("POST", "/v1/Discover", question, Some("local")),
        ("POST", "/naming/v1/services", json!([{ "name": "s", "namespace": "n" }]), None),
    ];
    for (method, path, body, expected) in rows {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("Authorization", &token).body(body);
        let response = bench.router.clone().oneshot(request.expect("a request")).await.expect("an answer");
        let told = response.headers().get("x-thuban-consistency").map(|value| value.to_str().expect("a word"));
        assert_eq!(told, expected, "{method} {path}");
    }
    bench.stop().await;
}

/// A refusal names the faulty field of the alias.
#[tokio::test(flavor = "multi_thread")]
async fn aliases_are_named_and_refused_by_their_own_fields() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let services = json!([{ "name": "pay", "namespace": "n" }, { "name": "stock", "namespace": "n" }]);
    bench.send("POST", "/naming/v1/services", Some(&token), services).await;
    let rows = [
        (json!({ "namespace": "n" }), 400120, "service is required", ""),
        (json!({ "namespace": "n", "service": "a b", "alias": "x" }), 400120, "service may hold", ""),
        (json!({ "namespace": "n", "alias": "pay", "alias_namespace": "other" }), 200000, "", "other/pay of pay"),
        (
            json!({ "namespace": "n", "service": "stock", "alias_namespace": "other" }),
            200000,
            "",
            "other/stock of stock",
        ),
        (json!({ "namespace": "n", "alias": "pay" }), 400201, "", ""),
        (json!({ "namespace": "n", "alias": "none", "alias_namespace": "other" }), 400301, "", ""),
    ];
    for (item, code, words, made) in rows {
        let (_, answer) = bench.send("POST", "/naming/v1/service/alias", Some(&token), json!([item])).await;
        let response = &answer["responses"][0];
        assert_eq!(response["code"], code, "{item} {answer}");
        assert!(response["info"].as_str().is_some_and(|info| info.contains(words)), "{item} {answer}");
        if !made.is_empty() {
            let alias = &response["serviceAlias"];
            let text = |field: &str| alias[field].as_str().expect("a text").to_owned();
            assert_eq!(format!("{}/{} of {}", text("alias_namespace"), text("alias"), text("service")), made);
        }
    }
    let with = json!([{ "namespace": "n", "alias": "pay", "alias_namespace": "other", "service_token": "secret" }]);
    let (_, answer) = bench.send("PUT", "/naming/v1/service/alias", Some(&token), with).await;
    assert_eq!(answer["responses"][0]["serviceAlias"]["service_token"], "secret", "{answer}");
    let (_, listed) = bench.send("GET", "/naming/v1/service/aliases?alias=pay", Some(&token), Value::Null).await;
    assert!(!listed.to_string().contains("secret") && listed["amount"] == 1, "{listed}");
    let stale =
        json!([{ "namespace": "n", "alias": "pay", "alias_namespace": "other", "revision": "old", "comment": "c" }]);
    let (_, answer) = bench.send("PUT", "/naming/v1/service/alias", Some(&token), stale).await;
    let info = answer["responses"][0]["info"].as_str().unwrap_or_default();
    assert!(answer["code"] == 409000 && info.contains("read it again") && !info.contains("try again"), "{answer}");
    let instance = json!([{ "namespace": "n", "host": "h", "port": 1 }]);
    let (_, answer) = bench.send("POST", "/naming/v1/instances", Some(&token), instance).await;
    assert_eq!(answer["responses"][0]["info"], "invalid service name: service is required", "{answer}");
    bench.stop().await;
}

/// Ids of config objects are numbers, and accepted as text too, like all numbers.
#[tokio::test(flavor = "multi_thread")]
async fn a_config_release_is_named_by_a_number_or_its_text() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let publish =
        json!({ "namespace": "n", "group": "g", "file_name": "f.txt", "content": "x", "release_name": "one" });
    let (_, answer) = bench.send("POST", "/config/v1/configfiles/createandpub", Some(&token), publish).await;
    let id = answer["configFileRelease"]["id"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    for (id, code) in
        [(json!(id), 200002), (json!(id.to_string()), 200002), (json!("x"), 400001), (json!("-1"), 400001)]
    {
        let item = json!({ "namespace": "n", "group": "g", "file_name": "f.txt", "id": id });
        let path = "/config/v1/configfiles/releases/rollback";
        let (_, answer) = bench.send("PUT", path, Some(&token), json!([item])).await;
        assert_eq!(answer["responses"][0]["code"], code, "{answer}");
    }
    // Given twice, they have to agree, as for a release of a rule.
    let second = json!({ "namespace": "n", "group": "g", "file_name": "f.txt", "content": "y", "release_name": "two" });
    bench.send("POST", "/config/v1/configfiles/createandpub", Some(&token), second).await;
    for (name, code) in [("two", 400202), ("one", 200000)] {
        let item = json!({ "namespace": "n", "group": "g", "file_name": "f.txt", "id": id, "release_name": name });
        let path = "/config/v1/configfiles/releases/rollback";
        let (_, answer) = bench.send("PUT", path, Some(&token), json!([item])).await;
        assert_eq!(answer["responses"][0]["code"], code, "{answer}");
    }
    bench.stop().await;
}

/// A read that timed out changed nothing; the outcome of a write is unknown.
#[tokio::test]
async fn what_takes_too_long_says_whether_something_may_have_been_done() {
    let bench = Bench::start().await;
    let terms = http::route::Terms { access: Access::Anyone, is_held: false, is_always: false };
    let query_keys = QueryKeys::new(http::Doc::new("Test"), |_| {});
    let guard = RouteGuard { app: bench.app.clone(), terms, query_keys };
    let never = || std::future::pending::<()>();
    let router = Router::new()
        .route("/thing", axum::routing::get(never).put(never))
        .route("/thing/explain", axum::routing::post(never))
        .layer(axum::middleware::from_fn_with_state(guard, layers::guard));
    tokio::time::pause();
    for (method, path, code, words) in [
        ("GET", "/thing", 504002, "nothing was changed, it is safe to ask again"),
        ("POST", "/thing/explain", 504002, "nothing was changed"),
        ("PUT", "/thing", 504001, "may or may not have been carried out"),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("an answer");
        let body = response.into_body().collect().await.expect("whole").to_bytes();
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        let info = answer["info"].as_str().unwrap_or_default();
        assert!(answer["code"] == code && info.contains(words), "{method} {path}: {answer}");
    }
    tokio::time::resume();
    bench.stop().await;
}

/// A list of releases needs no rule; labels that no client can have are refused with their name.
#[tokio::test(flavor = "multi_thread")]
async fn releases_of_all_rules_are_listed_and_their_labels_refused_in_their_own_words() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    for name in ["one", "two"] {
        let rule = json!([{ "name": name, "namespace": "n", "service": "s" }]);
        bench.send("POST", "/naming/v1/ratelimits", Some(&token), rule).await;
        let release = json!([{ "rule_name": name, "release_name": "first" }]);
        let (_, answer) = bench.send("POST", "/naming/v1/ratelimits/releases", Some(&token), release).await;
        assert_eq!(answer["code"], 200000, "{answer}");
    }
    let (_, listed) = bench.send("GET", "/naming/v1/ratelimits/releases", Some(&token), Value::Null).await;
    let rules: Vec<_> = listed["data"].as_array().expect("a list").iter().map(|row| row["rule_name"].clone()).collect();
    assert_eq!((&listed["code"], rules), (&json!(200000), vec![json!("two"), json!("one")]), "{listed}");
    let gray = json!([{ "rule_name": "one", "release_name": "gray", "release_type": "gray" }]);
    let (_, answer) = bench.send("POST", "/naming/v1/ratelimits/releases", Some(&token), gray).await;
    let info = answer["responses"][0]["info"].as_str().unwrap_or_default();
    assert!(answer["responses"][0]["code"] == 400904 && !info.contains("config"), "{answer}");
    bench.stop().await;
}

/// All versions of a file at once, and by pages; with contents on request.
#[tokio::test(flavor = "multi_thread")]
async fn the_versions_of_a_file_are_listed_whole_or_by_pages() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    bench.send("PUT", "/admin/v1/settings", Some(&token), json!({ "releases_kept": 1000 })).await;
    for number in 1..=105 {
        let file = json!({ "namespace": "n", "group": "g", "file_name": "f.txt", "content": number.to_string() });
        let (_, answer) = bench.send("POST", "/config/v1/configfiles/createandpub", Some(&token), file).await;
        assert_eq!(answer["code"], 200000, "{answer}");
    }
    let path = "/config/v1/configfiles/release/versions?namespace=n&group=g&file_name=f.txt";
    for (query, first, count) in [
        ("", 105, 105),
        ("&offset=0", 105, 100),
        ("&offset=99&limit=10", 6, 6),
        ("&limit=2", 105, 2),
        ("&limit=0", 0, 0),
        ("&offset=1000", 0, 0),
    ] {
        let (_, answer) = bench.send("GET", &format!("{path}{query}"), Some(&token), Value::Null).await;
        let rows = answer["configFileReleases"].as_array().expect("a list");
        let version = rows.first().map_or(0, |row| row["version"].as_u64().expect("a number"));
        assert_eq!((&answer["amount"], version, rows.len()), (&json!(105), first, count), "{query}");
    }
    for (query, count, content) in
        [("&limit=1", 1, Value::Null), ("&brief=true", 105, Value::Null), ("&brief=false", 100, json!("105"))]
    {
        let (_, answer) = bench.send("GET", &format!("{path}{query}"), Some(&token), Value::Null).await;
        let rows = answer["configFileReleases"].as_array().expect("a list");
        assert_eq!((rows.len(), &rows[0]["content"]), (count, &content), "{query}");
    }
    let (_, refused) = bench.send("GET", &format!("{path}&limit=x"), Some(&token), Value::Null).await;
    assert_eq!(refused["code"], 400103, "{refused}");
    bench.stop().await;
}
