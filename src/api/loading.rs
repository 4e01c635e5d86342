//! The management port's answers while the node loads its state, and the health of both ports by then.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use super::admin::health;
use super::http::ApiError;
use crate::model::code::Code;

/// Health, which is the same on all ports.
pub fn loading_routes() -> Router {
    let not_ready = async || (StatusCode::SERVICE_UNAVAILABLE, "[-] loaded: the state is being loaded\nnot ready\n");
    Router::new().route("/livez", get(health::live)).route("/readyz", get(not_ready))
}

pub fn loading_router() -> Router {
    let refused = async || ApiError::new(Code::NoLeader, "the state of this node is being loaded");
    loading_routes().fallback(refused)
}
