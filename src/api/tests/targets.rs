//! Targets for Prometheus: who gets them, in which form, and when they are sent again.

use super::*;

const TARGETS: &str = http::route::TARGETS;

struct Answered {
    status: u16,
    tag: String,
    warnings: String,
    body: Value,
}

async fn ask(bench: &Bench, query: &str, authorization: Option<&str>, known: Option<&str>) -> Answered {
    let mut request = Request::builder().uri(format!("{TARGETS}{query}"));
    for (name, value) in [("authorization", authorization), ("if-none-match", known)] {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    let request = request.body(Body::empty()).expect("a request");
    let response = bench.router.clone().oneshot(request).await.expect("an answer");
    let header = |name| response.headers().get(name).map_or("", |value| value.to_str().expect("a text")).to_owned();
    let (status, tag, warnings) = (response.status().as_u16(), header("etag"), header("x-thuban-warnings"));
    let bytes = response.into_body().collect().await.expect("whole").to_bytes();
    Answered { status, tag, warnings, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
}

/// Returns the targets, sorted by name: instances are listed by their ids.
fn hosts(answered: &Answered) -> Vec<&str> {
    let groups = answered.body.as_array().unwrap_or_else(|| panic!("{}", answered.body));
    let mut hosts: Vec<_> = groups.iter().map(|group| group["targets"][0].as_str().expect("a target")).collect();
    hosts.sort_unstable();
    hosts
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_are_the_instances_that_the_caller_may_discover() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let of = |service: &str, host: &str| json!({"namespace": "n", "service": service, "host": host, "port": 80});
    let sick = upstream::with(&of("a", "10.0.0.2"), &json!({"healthy": false}));
    let isolated = upstream::with(&of("a", "10.0.0.3"), &json!({"isolate": true, "metadata": {"k": "v"}}));
    let all = json!([of("a", "10.0.0.1"), sick, isolated, of("b", "10.0.0.4")]);
    bench.send("POST", "/naming/v1/instances", Some(&token), all).await;
    let made = json!([{"name": "scraper", "grants": [{"role": "client", "namespace": "n", "name": "a"}]}]);
    let (_, made) = bench.send("POST", "/auth/v1/tokens", Some(&token), made).await;
    let scraper = made["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned();
    let basic = |name: &str| format!("Basic {}", STANDARD.encode(format!("{name}:{scraper}")));

    assert_eq!((ask(&bench, "", None, None).await.body["code"].clone()), json!(401_002));
    assert_eq!((ask(&bench, "", Some("Basic Og=="), None).await.body["code"].clone()), json!(401_002));
    let guess = format!("Basic {}", STANDARD.encode("admin:guess"));
    assert_eq!((ask(&bench, "", Some(&guess), None).await.body["code"].clone()), json!(401_004));
    for authorization in [scraper.clone(), format!("Bearer {scraper}"), basic("any"), basic("")] {
        let seen = ask(&bench, "", Some(&authorization), None).await;
        assert_eq!((seen.status, hosts(&seen)), (200, vec!["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]));
    }
    // Elsewhere the password of basic authentication is no token.
    let (status, _) = bench.send("GET", "/naming/v1/services", Some(&basic("any")), Value::Null).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    for (query, expected) in [
        ("", 4),
        ("?service=a", 3),
        ("?service=a&healthy=true", 2),
        ("?healthy=false", 1),
        ("?namespace=N*&service=b", 1),
        ("?namespace=other", 0),
    ] {
        assert_eq!(hosts(&ask(&bench, query, Some(&token), None).await).len(), expected, "{query}");
    }
    let seen = ask(&bench, "?service=a", Some(&token), None).await;
    let of_isolated = seen.body.as_array().expect("a list").iter().find(|group| group["targets"][0] == "10.0.0.3:80");
    let labels = &of_isolated.expect("it is isolated")["labels"];
    assert_eq!(labels["__meta_thuban_metadata_k"], "v", "{labels}");
    assert_eq!((&labels["__meta_thuban_service"], &labels["__meta_thuban_healthy"]), (&json!("a"), &json!("true")));

    let same = ask(&bench, "?service=a", Some(&token), Some(&format!("\"x\", W/{}", seen.tag))).await;
    assert_eq!((same.status, &same.tag, same.body), (304, &seen.tag, Value::Null));
    let strange = ask(&bench, "?service=a&zz=1", Some(&token), None).await;
    assert_eq!((strange.status, strange.warnings.as_str()), (200, "zz is not known"));
    let change = upstream::with(&of("a", "10.0.0.1"), &json!({"version": "2"}));
    bench.send("PUT", "/naming/v1/instances", Some(&token), json!([change])).await;
    let changed = ask(&bench, "?service=a", Some(&token), Some(&seen.tag)).await;
    assert_eq!((changed.status, changed.tag == seen.tag), (200, false));
    bench.stop().await;
}
