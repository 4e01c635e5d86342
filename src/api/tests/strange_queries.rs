//! Keys of queries that a route does not read.

use axum::http::Method;

use super::*;

/// A list with a misspelled filter has all rows: its answer says so.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_names_the_keys_that_it_does_not_read() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let mut warned = 0;
    for route in routes().into_iter().filter(|route| !route.path.ends_with("/logout")) {
        let Route { method, path, port, .. } = &route;
        if *port == crate::openapi::Port::Both || path == http::route::METRICS {
            continue;
        }
        let shown = format!("{method} {path}");
        let (status, answer) =
            bench.send(method.as_str(), &format!("{path}?unknown=refuse&zz=1&aa"), Some(&token), Value::Null).await;
        let refusal = (StatusCode::BAD_REQUEST, json!(400_103), json!("aa is not known, zz is not known"));
        let info = answer["info"].as_str().and_then(|info| info.split_once(": ")).map(|(_, why)| json!(why));
        assert_eq!((status, answer["code"].clone(), info.unwrap_or_default()), refusal, "{shown} {answer}");
        // A backup is no JSON, and targets are a list: both have the header.
        if *method == Method::GET && ![http::route::BACKUP, http::route::TARGETS].contains(&path.as_str()) {
            let (status, answer) = bench.send("GET", &format!("{path}?zz=1"), Some(&token), Value::Null).await;
            warned += usize::from(status == StatusCode::OK);
            assert!(!status.is_success() || answer["warnings"] == json!(["zz is not known"]), "{shown} {answer}");
        }
    }
    assert!(warned > 30, "{warned} reads");
    for (path, known) in [
        ("/naming/v1/services?namespace=n&limit=0&order=key&consistency=local", true),
        ("/naming/v1/instances?namespace=n&healthStatus=true&cmdb_region=r", true),
        ("/naming/v1/services?namspace=n", false),
        ("/naming/v1/services?namespace=n&", true),
    ] {
        let (_, answer) = bench.send("GET", path, Some(&token), Value::Null).await;
        assert_eq!((&answer["code"], answer["warnings"].is_null()), (&json!(200_000), known), "{path} {answer}");
    }
    let body = json!({"namespace": "n", "name": "s", "zz": 1});
    let (_, answer) = bench.send("POST", "/naming/v1/services?aa=1", Some(&token), body).await;
    assert_eq!(answer["warnings"], json!(["aa is not known"]), "{answer}");
    assert_eq!(answer["responses"][0]["warnings"], json!(["zz is not known"]), "{answer}");
    bench.stop().await;
}
