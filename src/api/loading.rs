//! Answers of the metrics listener while the node loads its state.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use super::admin::health;
use super::http::ApiError;
use crate::model::code::Code;

/// Returns a router that answers health checks and refuses all other requests.
pub fn loading_router() -> Router {
    let not_ready =
        async || (StatusCode::SERVICE_UNAVAILABLE, "[-]loaded failed: the state is being loaded\nnot ready\n");
    let refused = async || ApiError::new(Code::NoLeader, "the state of this node is being loaded");
    Router::new().route("/livez", get(health::live)).route("/readyz", get(not_ready)).fallback(refused)
}
