//! Readers, node discovery, and unknown routes.

use axum::Extension;
use tokio::time::Instant;

use super::*;
use crate::connections::PeerCertificate;
use crate::model::grant::{Grant, Grants, ReadScope, Role, Verb};
use crate::reads::LiveMember;

pub(super) const PATHS: [&str; 5] = [
    "/configs/app/default/application",
    "/configfiles/app/default/application",
    "/configfiles/json/app/default/application",
    "/configfiles/raw/app/default/application",
    "/notifications/v2?appId=app&cluster=default&notifications=[{%22namespaceName%22:%22application%22}]",
];

#[tokio::test(start_paused = true)]
async fn authorization_is_judged_on_every_path_that_reads() {
    let signature = "Apollo app:EoKyziXvKqzHgwx+ijDJwgVTDgE=";
    let (bearer, bad_bearer) = (format!("Bearer {TOKEN}"), format!("Bearer {TOKEN}x"));
    let table = [
        (None, true, false),
        (Some(""), true, false),
        (Some(signature), true, false),
        (Some(TOKEN), true, true),
        (Some(&bearer), true, true),
        (Some("wrong"), false, false),
        (Some(&bad_bearer), false, false),
        (Some("Basic YTpi"), false, false),
    ];
    for (value, admitted, admitted_if_required) in table {
        for (auth_required, admitted) in [(false, admitted), (true, admitted_if_required)] {
            let served = Served::with(Hub::new(10), |settings| settings.auth_required = auth_required);
            served.source.publish("default", "application", "a=1");
            let headers: Vec<_> = value.map(|value| ("authorization", value)).into_iter().collect();
            for path in PATHS {
                let asked = Instant::now();
                let got = served.get_with(path, &headers).await;
                let expected = if admitted { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
                assert_eq!(got.status, expected, "{path} {value:?} {auth_required}");
                let is_delayed = asked.elapsed() >= Duration::from_secs(1);
                assert_eq!(is_delayed, !admitted && path.starts_with("/notifications"), "{path}");
            }
            assert_eq!(served.get_with("/services/config", &headers).await.status, StatusCode::OK);
        }
    }
}

/// The certificate of the connection authenticates if authentication is required, and is ignored otherwise: it may name
/// no user.
#[tokio::test(start_paused = true)]
async fn a_certificate_counts_where_readers_have_to_prove_who_they_are() {
    let of_others = ReadScope::new(&Grants::default(), &[Verb::Discover]);
    let rows = [
        (false, NAMED, None, StatusCode::OK),
        (false, "nobody", None, StatusCode::OK),
        (false, NAMED, Some("wrong"), StatusCode::UNAUTHORIZED),
        (true, NAMED, None, StatusCode::OK),
        (true, "nobody", None, StatusCode::UNAUTHORIZED),
        (true, NAMED, Some("wrong"), StatusCode::UNAUTHORIZED),
        (true, "nobody", Some(TOKEN), StatusCode::OK),
    ];
    for (auth_required, name, token, expected) in rows {
        let served = Served::with(Hub::new(10), |settings| settings.auth_required = auth_required);
        served.source.publish("default", "application", "a=1");
        let headers: Vec<_> = token.map(|token| ("authorization", token)).into_iter().collect();
        let shown = Extension(PeerCertificate { common_name: name.to_owned() });
        let router = served.router.clone().layer(shown);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        for path in PATHS {
            let got = ask(router.clone(), Method::GET, path, &headers, peer).await;
            assert_eq!(got.status, expected, "{path} {auth_required} {name} {token:?}");
        }
        // Reads are limited by the grants of the named user.
        *served.source.0.read_scope.lock() = of_others.clone();
        let blind = ask(router, Method::GET, PATHS[0], &headers, peer).await.status;
        let is_judged = expected == StatusCode::OK && auth_required;
        assert_eq!(blind, if is_judged { StatusCode::NOT_FOUND } else { expected }, "{auth_required} {name} {token:?}");
    }
}

/// A token reads what its grants permit; other files are treated as missing, in fallback namespaces too.
#[tokio::test(start_paused = true)]
async fn a_token_reads_what_it_was_granted() {
    let served = Served::new();
    served.source.publish("default", "application", "of=default");
    served.source.publish("eu", "application", "of=eu");
    let grants = |namespace: &str, name: &str| {
        let grant = Grant { role: Role::Client, namespace: namespace.to_owned(), name: name.to_owned() };
        ReadScope::new(&Grants::new([grant]), &[Verb::Discover])
    };
    let rows = [
        (grants("*", "*"), "eu", Some("eu")),
        (grants("default", "app"), "eu", Some("default")),
        (grants("default", "a*"), "default", Some("default")),
        (grants("eu", "app"), "eu", Some("eu")),
        (grants("eu", "app"), "default", None),
        (grants("*", "other"), "eu", None),
    ];
    for (read_scope, cluster, found) in rows {
        *served.source.0.read_scope.lock() = read_scope;
        let headers = [("authorization", TOKEN)];
        let got = served.get_with(&format!("/configs/app/{cluster}/application"), &headers).await;
        match found {
            Some(namespace) => assert_eq!(got.json()["configurations"]["of"], namespace, "{cluster}"),
            None => assert_eq!(got.status, StatusCode::NOT_FOUND, "{cluster}"),
        }
        let wanted = "[{%22namespaceName%22:%22application%22}]";
        let poll = format!("/notifications/v2?appId=app&cluster={cluster}&notifications={wanted}");
        let expected = if found.is_some() { StatusCode::OK } else { StatusCode::NOT_MODIFIED };
        assert_eq!(served.get_with(&poll, &headers).await.status, expected, "{cluster}");
    }
}

/// Returned in clear only to clients, and only by nodes with the data key; on an error clients keep their content.
#[tokio::test(start_paused = true)]
async fn an_encrypted_file_is_for_clients() {
    for (is_client, has_key) in [(true, true), (true, false), (false, true), (false, false)] {
        let served = Served::new();
        let source = &served.source.0;
        source.is_client.store(is_client, Ordering::Relaxed);
        source.has_key.store(has_key, Ordering::Relaxed);
        served.source.publish_sealed("application", "k=secret");
        served.source.publish("default", "other", "k=1");
        let by_key = if has_key { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        for path in &PATHS[..4] {
            let got = served.get(path).await;
            assert_eq!(got.status, by_key, "{path}");
            assert_eq!((got.text().contains("secret"), got.text().contains("terces")), (has_key, false), "{path}");
            let expected = if is_client { by_key } else { StatusCode::FORBIDDEN };
            let got = served.get_with(path, &[("authorization", TOKEN)]).await;
            assert_eq!((got.status, got.text().contains("secret")), (expected, has_key && is_client), "{path}");
        }
        assert_eq!(served.get_with(PATHS[4], &[("authorization", TOKEN)]).await.status, StatusCode::OK, "ids are told");
        assert_eq!(served.get("/configs/app/default/other").await.status, StatusCode::OK, "the rest goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn live_members_are_found_by_everyone() {
    let served = Served::new();
    let member = |node_id, compat: &str| LiveMember { node_id, compat: compat.to_owned() };
    *served.source.0.members.lock() = vec![member(2, "n2:8890"), member(1, "n1:8890"), member(3, "0.0.0.0:8890")];
    let got = served.get_with("/services/config?appId=app&ip=1", &[("host", "cfg.example:80")]).await;
    assert_eq!(got.header("content-type"), Some("application/json;charset=UTF-8"));
    let row = |id: u64, url: &str| {
        serde_json::json!({"appName": "APOLLO-CONFIGSERVICE",
        "instanceId": format!("node-{id}"), "homepageUrl": url})
    };
    let expected = [row(1, "http://n1:8890/"), row(2, "http://n2:8890/"), row(3, "http://cfg.example:80/")];
    assert_eq!(got.json(), serde_json::Value::from(expected.to_vec()));
    served.source.0.members.lock().remove(0);
    assert_eq!(served.get("/services/config").await.json().as_array().map(Vec::len), Some(2));
    // Never empty: a client without an address has no configuration.
    served.source.0.members.lock().clear();
    assert_eq!(served.get("/services/config").await.json()[0]["homepageUrl"], "http://127.0.0.1:8890/");
    assert_eq!(served.get("/services/meta").await.text(), "[]");
}

#[tokio::test(start_paused = true)]
async fn the_surface_can_only_be_read() {
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    let peer = SocketAddr::from(([192, 0, 2, 1], 1));
    for path in PATHS.into_iter().chain(["/services/config", "/services/meta"]) {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            let (is_post, is_reported) = (method == Method::POST, path.starts_with("/configs/"));
            let got = served.ask(method, path, &[], peer).await;
            assert_eq!(got.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
            // Reports on a pull have a route below it.
            let allowed = if is_reported && !is_post { "GET,HEAD,POST" } else { "GET,HEAD" };
            assert_eq!(got.header("allow"), Some(allowed), "{path}");
            assert_eq!(got.json()["status"], 405, "{path}");
        }
        let got = served.ask(Method::HEAD, path, &[], peer).await;
        assert_eq!((got.status, got.body.len()), (StatusCode::OK, 0), "{path}");
    }
}

/// Balancers for Apollo call it with any host name.
#[tokio::test(start_paused = true)]
async fn health_is_readiness_in_apollos_form() {
    let served = Served::with(Hub::new(1), |settings| {
        settings.hosts = Hosts::of(SocketAddr::from(([127, 0, 0, 1], 1)), [].into_iter());
    });
    for (is_unready, status, body) in
        [(false, StatusCode::OK, r#"{"status":"UP"}"#), (true, StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"DOWN"}"#)]
    {
        served.source.0.is_unready.store(is_unready, Ordering::Relaxed);
        let got = served.get_with("/health", &[("host", "balancer.example")]).await;
        assert_eq!((got.status, got.text()), (status, body));
        assert_eq!(got.header("content-type"), Some("application/json;charset=UTF-8"));
    }
    let got = served.get_with("/services/config", &[("host", "balancer.example")]).await;
    assert_eq!(got.status, StatusCode::BAD_REQUEST, "of other paths the name is looked at");
}

#[tokio::test(start_paused = true)]
async fn other_paths_are_not_found() {
    let served = Served::new();
    for path in ["/", "/configs", "/configs/app/default", "/configs/app/default/", "/notifications/v1", "/services/x"] {
        let got = served.get(path).await;
        assert_eq!(got.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(got.json()["path"], path);
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
}
