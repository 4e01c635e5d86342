//! Answers while the state is loaded: nothing is served yet.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use tonic::Status;

/// UNAVAILABLE for everything: clients ask another node.
pub fn router() -> Router {
    Router::new().fallback(async || -> Response<Body> {
        Status::unavailable("the state of this node is being loaded").into_http()
    })
}
