//! `/livez`, `/readyz` and `/metrics`, which need no token.

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::App;
use crate::raft::node::Node;

const METRICS_TYPE: &str = "text/plain; version=0.0.4";

/// The process works.
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// 200 if this node may get traffic, else 503; every failing check is named, with `?verbose` all
/// checks are.
pub(super) async fn ready(State(app): State<App>, uri: Uri) -> Response {
    readiness(&app.node, is_verbose(&uri)).await
}

/// `verbose` needs no value.
fn is_verbose(uri: &Uri) -> bool {
    let keys = uri.query().unwrap_or("").split('&').map(|pair| pair.split('=').next());
    keys.into_iter().any(|key| key == Some("verbose"))
}

async fn readiness(node: &Node, verbose: bool) -> Response {
    let checks = node.readiness().await;
    let is_ready = checks.iter().all(|check| check.failure.is_none());
    let mut text = String::new();
    for check in &checks {
        match &check.failure {
            Some(why) => text.push_str(&format!("[-] {}: {why}\n", check.name)),
            None if verbose => text.push_str(&format!("[+] {}\n", check.name)),
            None => {}
        }
    }
    text.push_str(if is_ready { "ok\n" } else { "not ready\n" });
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, text).into_response()
}

/// All series in Prometheus' text format.
pub(super) async fn metrics(State(app): State<App>) -> Response {
    app.node.record_metrics();
    ([(CONTENT_TYPE, METRICS_TYPE)], app.node.metrics().render()).into_response()
}

/// The two health routes for another surface's port.
pub fn health_routes(node: Node) -> Router {
    let ready = |State(node): State<Node>, uri: Uri| async move { readiness(&node, is_verbose(&uri)).await };
    Router::new().route("/livez", get(live)).route("/readyz", get(ready)).with_state(node)
}
