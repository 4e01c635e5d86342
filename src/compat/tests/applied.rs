//! Reports of clients on pulled releases.

use super::access_keys::{Keys, NOW, ONE, get, serving, signed};
use super::*;
use crate::model::grant::ReadScope;
use crate::origin::Origin;

const PATH: &str = "/configs/app/default/application/applied";

async fn report(served: &Served, target: &str, headers: &[(&str, &str)], body: &str) -> StatusCode {
    answer(served, target, headers, body).await.status()
}

async fn answer(served: &Served, target: &str, headers: &[(&str, &str)], body: &str) -> axum::response::Response {
    let mut request = Request::builder().method(Method::POST).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.extension(ConnectInfo(SocketAddr::from(([192, 0, 2, 7], 1))));
    let request = request.body(Body::from(body.to_owned())).expect("a request");
    served.router.clone().oneshot(request).await.expect("infallible")
}

#[tokio::test(start_paused = true)]
async fn a_report_is_of_the_client_that_pulled() {
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    let ok = r#"{"releaseKey":"default-app-application-1","ok":true}"#;
    let refused = r#"{"releaseKey":"k","ok":false,"message":"no such port","more":1}"#;
    for (target, body) in [
        (PATH, ok),
        ("/configs/app/east/dir/db.yml/applied?ip=10.0.0.1&dataCenter=sz", refused),
        ("/configs/app/default/applied/applied", r#"{"releaseKey":"k","ok":false,"message":null}"#),
    ] {
        assert_eq!(report(&served, target, &[("user-agent", "a client")], body).await, 204, "{target} {body}");
    }
    let expected = [
        "192.0.2.7 a client: app application of default, default-app-application-1: yes ",
        "10.0.0.1 a client: app dir/db.yml of east sz default, k: refused no such port",
        "192.0.2.7 a client: app applied of default, k: refused ",
    ];
    assert_eq!(*served.source.0.said.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_of_a_client_is_paid_by_its_user_or_app() {
    let served = serving(Keys::Observed(ONE), false);
    *served.source.0.read_scope.lock() = ReadScope::Everything;
    let pull = "/configs/app/default/application";
    let poll = poll_target(&list(&[("application", -1)]), "&cluster=default");
    let fleet = [("authorization", TOKEN.to_owned())];
    for (headers, payer) in [(&fleet[..], Origin::of_user(NAMED)), (&[], Origin::of([192, 0, 2, 7].into()))] {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let peer = SocketAddr::from(([192, 0, 2, 7], 1));
        for target in [pull, &poll] {
            assert_eq!(served.ask(Method::GET, target, &headers, peer).await.status, 200, "{target}");
        }
        assert_eq!(report(&served, PATH, &headers, r#"{"releaseKey":"k","ok":true}"#).await, 204);
        assert_eq!(std::mem::take(&mut *served.source.0.payers.lock()), [payer; 3], "{headers:?}");
    }
    for target in [pull, &poll] {
        assert_eq!(get(&served, target, &signed("one", "app", target, NOW)).await.status, 200, "{target}");
    }
    let [(authorization, signature), (timestamp, time)] = signed("one", "app", PATH, NOW);
    let headers = [(authorization, signature.as_str()), (timestamp, time.as_str())];
    assert_eq!(report(&served, PATH, &headers, r#"{"releaseKey":"k","ok":true}"#).await, 204);
    assert_eq!(*served.source.0.payers.lock(), [Origin::of_app("app"); 3]);
}

/// As on the management surface: a warning, or with `?unknown=refuse` a refusal.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_known_is_named() {
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    let body = |more: &str| format!(r#"{{"releaseKey":"default-app-application-1","ok":true{more}}}"#);
    let strange = body(r#","version":1,"at":{"x":2}"#);
    let warnings = "at is not known, version is not known";
    for (target, body, status, expected) in [
        (PATH.to_owned(), &body(""), 204, None),
        (PATH.to_owned(), &strange, 204, Some(warnings)),
        (format!("{PATH}?unknown=warn"), &strange, 204, Some(warnings)),
        (format!("{PATH}?unknown=refuse"), &strange, 400, None),
        (format!("{PATH}?unknown=refuse"), &body(r#","message":"m""#), 204, None),
    ] {
        let answer = answer(&served, &target, &[], body).await;
        let told = answer.headers().get("x-thuban-warnings").map(|value| value.to_str().expect("a text"));
        assert_eq!((answer.status().as_u16(), told), (status, expected), "{target} {body}");
    }
    assert_eq!(served.source.0.said.lock().len(), 4, "what was refused was not taken");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_report_is_refused() {
    let served = Served::new();
    let long = format!(r#"{{"releaseKey":"k","ok":false,"message":"{}"}}"#, "x".repeat(20_000));
    for (target, body, status) in [
        (PATH, "", 400),
        (PATH, "[]", 400),
        (PATH, r#"["k",true,null]"#, 400),
        (PATH, r#"{"releaseKey":"k"}"#, 400),
        (PATH, r#"{"ok":true}"#, 400),
        (PATH, r#"{"releaseKey":1,"ok":true}"#, 400),
        (PATH, long.as_str(), 400),
        ("/configs/a%20b/default/application/applied", r#"{"releaseKey":"k","ok":true}"#, 400),
        ("/configs/app/default/application", r#"{"releaseKey":"k","ok":true}"#, 405),
        ("/configs/app/default/applied", r#"{"releaseKey":"k","ok":true}"#, 405),
    ] {
        assert_eq!(report(&served, target, &[], body).await, status, "{target} {body:.40}");
    }
    assert!(served.source.0.said.lock().is_empty());
    served.source.publish("default", "x/applied", "a=1");
    assert_eq!(served.get("/configs/app/default/x/applied").await.status, 200, "a file may be called so");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_pull_may_not_report() {
    let served = serving(Keys::Enforced(ONE), true);
    let body = r#"{"releaseKey":"k","ok":true}"#;
    assert_eq!(report(&served, PATH, &[], body).await, 401);
    assert_eq!(report(&served, PATH, &[("authorization", "guess")], body).await, 401);
    for (secret, status) in [("guess", 401), (ONE[0], 204)] {
        let signature = signed(secret, "app", PATH, NOW);
        let headers: Vec<_> = signature.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(report(&served, PATH, &headers, body).await, status);
    }
    assert_eq!(report(&served, PATH, &[("authorization", TOKEN)], body).await, 204);
    assert_eq!(served.source.0.said.lock().len(), 2);
}
