//! Answers of the metrics listener while the store is opened and the state is loaded, which takes a while if the state
//! is large: the process is alive, and not ready. Supervisors probe this listener.
//!
//! The ports of clients are bound by then, so that a conflict is found before anything is created. They start to listen
//! only when the node can serve ([`await_ready`]): most balancers retry a refused connection on another node, but pass
//! an answer of 503 to the client.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use tokio::time::{sleep, timeout};
use tower::{ServiceExt, service_fn};

use crate::api;
use crate::raft::node::Node;

/// Longest time from a loaded state to open ports of clients, equal to the time that a request waits for a leader. A
/// node that is not ready by then serves what it has.
const OPEN_WITHIN: Duration = Duration::from_millis(2500);
const READY_POLL: Duration = Duration::from_millis(10);

/// Slot for the router that takes over once the state is loaded.
#[derive(Clone, Default)]
pub(super) struct Loaded(Arc<OnceLock<Router>>);

impl Loaded {
    pub(super) fn set(&self, router: Router) {
        // This is the only setter, so it cannot fail.
        let _ = self.0.set(router);
    }

    /// Returns a router that answers for a loading node, and delegates to the loaded router once it is set, on open
    /// connections too.
    pub(super) fn router(&self) -> Router {
        let (loaded, loading) = (self.0.clone(), api::loading_router());
        Router::new().fallback_service(service_fn(move |request: Request| {
            loaded.get().unwrap_or(&loading).clone().oneshot(request)
        }))
    }
}

/// Waits until the node is ready, for [`OPEN_WITHIN`] at most.
pub(super) async fn await_ready(node: &Node) {
    let ready = async {
        while node.readiness().await.iter().any(|check| check.failure.is_some()) {
            sleep(READY_POLL).await;
        }
    };
    if timeout(OPEN_WITHIN, ready).await.is_err() {
        tracing::info!("opening the ports of clients before the node is ready");
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;

    use super::*;

    async fn ask(router: &Router, path: &str) -> (u16, String) {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("it answers");
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        (status, String::from_utf8(body.to_vec()).expect("a text"))
    }

    #[tokio::test]
    async fn a_node_that_loads_its_state_lives_and_is_not_ready() {
        let loaded = Loaded::default();
        let router = loaded.router();
        assert_eq!(ask(&router, "/livez").await, (200, "ok\n".to_owned()));
        let (status, body) = ask(&router, "/readyz").await;
        assert!(status == 503 && body.contains("[-]loaded failed: ") && body.ends_with("not ready\n"), "{body}");
        let (status, body) = ask(&router, "/metrics").await;
        assert!(status == 503 && body.contains(r#""code":503001"#) && body.contains("loaded"), "{body}");
        loaded.set(Router::new().route("/metrics", get(async || "served\n")));
        assert_eq!(ask(&router, "/metrics").await, (200, "served\n".to_owned()));
    }
}
