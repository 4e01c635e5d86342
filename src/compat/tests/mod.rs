//! The surface as clients see it: requests through the router, on a node in memory and on a paused clock, which
//! advances when every task waits.

mod access_keys;
mod applied;
mod compressed;
mod foreign;
mod matrix;
mod polls;
mod pulls;
mod readers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::ServiceExt;

use super::*;
use crate::reads::catch_up::CATCH_UP_LIMIT;
use crate::reads::testing::{Fake, NAMED, TOKEN, key};
use crate::watch::Hub;

const HOLD: Duration = Duration::from_secs(55);

/// A surface over a [`Fake`], with the parts that tests inspect.
struct Served {
    source: Fake,
    metrics: Arc<Metrics>,
    router: Router,
    peer: AtomicU64,
}

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Got {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("visible ASCII"))
    }
}

impl Served {
    fn new() -> Self {
        Self::with(Hub::new(100_000), |_| {})
    }

    fn with(hub: Hub, set: impl FnOnce(&mut CompatSettings)) -> Self {
        let mut settings = CompatSettings {
            hold: HOLD,
            auth_required: false,
            trusted_proxies: vec!["127.0.0.0/8".parse().expect("a net")],
            hosts: Hosts::any(),
            bound: SocketAddr::from(([127, 0, 0, 1], 8890)),
            scheme: "http",
            render_cache_bytes: 1024 * 1024,
        };
        set(&mut settings);
        let source = Fake::new(hub);
        let metrics = Arc::new(Metrics::new().expect("the table is valid"));
        let router = router(Surface::new(source.clone(), settings, metrics.clone()));
        Served { source, metrics, router, peer: AtomicU64::new(1) }
    }

    /// Sends a GET from a new address, so that the minimum interval of repeats does not apply.
    async fn get(&self, target: &str) -> Got {
        let peer = self.peer.fetch_add(1, Ordering::Relaxed) as u32;
        self.ask(Method::GET, target, &[], SocketAddr::from((0x0a00_0000_u32.wrapping_add(peer).to_be_bytes(), 1)))
            .await
    }

    async fn get_with(&self, target: &str, headers: &[(&str, &str)]) -> Got {
        self.ask(Method::GET, target, headers, SocketAddr::from(([127, 0, 0, 1], 1))).await
    }

    async fn ask(&self, method: Method, target: &str, headers: &[(&str, &str)], peer: SocketAddr) -> Got {
        ask(self.router.clone(), method, target, headers, peer).await
    }

    /// Starts a poll of cluster `default`; returns once it is held.
    async fn held(&self, notifications: &str) -> JoinHandle<Got> {
        self.held_with(notifications, "&cluster=default").await
    }

    async fn held_with(&self, notifications: &str, rest: &str) -> JoinHandle<Got> {
        let before = self.source.hub().waiters();
        let (router, target) = (self.router.clone(), poll_target(notifications, rest));
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let poll = tokio::spawn(async move { ask(router, Method::GET, &target, &[], peer).await });
        while self.source.hub().waiters() == before {
            assert!(!poll.is_finished(), "the poll was answered at once");
            tokio::task::yield_now().await;
        }
        poll
    }

    async fn poll(&self, notifications: &str) -> Got {
        self.get(&poll_target(notifications, "&cluster=default")).await
    }

    fn ended(&self, outcome: &str) -> u64 {
        self.metrics.polls_ended.with_label_values(&[outcome]).get()
    }
}

/// Returns the names of the members of an object, sorted.
fn members(object: &serde_json::Value) -> Vec<String> {
    let mut members: Vec<_> = object.as_object().expect("an object").keys().cloned().collect();
    members.sort();
    members
}

fn poll_target(notifications: &str, rest: &str) -> String {
    let notifications: String = url::form_urlencoded::byte_serialize(notifications.as_bytes()).collect();
    format!("/notifications/v2?appId=app&notifications={notifications}{rest}")
}

/// Returns the `notifications` parameter for these names and ids.
fn list(items: &[(&str, i64)]) -> String {
    let item = |(name, id): &(&str, i64)| serde_json::json!({"namespaceName": name, "notificationId": id});
    serde_json::Value::from_iter(items.iter().map(item)).to_string()
}

async fn ask(router: Router, method: Method, target: &str, headers: &[(&str, &str)], peer: SocketAddr) -> Got {
    let mut request = Request::builder().method(method).uri(target).extension(ConnectInfo(peer));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.oneshot(request.body(Body::empty()).expect("a request")).await.expect("infallible");
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    Got { status: head.status, headers: head.headers, body }
}
