//! `/health`: health check of balancers in front of Apollo's config service.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::doc::{self, Doc};
use super::{Surface, answer};
use crate::openapi::{Reply, Security, schema_of};
use crate::reads::ConfigSource;

pub(super) const PATH: &str = "/health";

/// Health of the node in the form of Spring Boot.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Health")]
struct HealthAnswer {
    status: HealthStatus,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum HealthStatus {
    Up,
    Down,
}

pub(super) const HEALTH: Doc = Doc {
    summary: "Readiness of this node, as `/readyz` has it, in the form of Apollo's config service.",
    path: &[],
    query: &[],
    body: None,
    security: Security::Open,
    replies: |schemas| {
        let schema = schema_of::<HealthAnswer>()(schemas);
        let down = Reply::new("It may not get traffic; `/readyz` names the reason.", doc::JSON, schema.clone());
        vec![doc::success("It may get traffic.", schema), (503, down)]
    },
};

pub(super) async fn health<S: ConfigSource>(State(surface): State<Surface<S>>) -> Response {
    let (code, status) = match surface.reads.source().is_ready().await {
        true => (StatusCode::OK, HealthStatus::Up),
        false => (StatusCode::SERVICE_UNAVAILABLE, HealthStatus::Down),
    };
    let body = serde_json::to_string(&HealthAnswer { status }).expect("a word is JSON");
    (code, [(header::CONTENT_TYPE, answer::JSON)], body).into_response()
}
