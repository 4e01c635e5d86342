//! The management surface: JSON over HTTP on port 8090, one envelope for every answer.
//!
//! [`mod@routes`] is the table of routes; the last column of a row is its documentation. A handler extracts, calls the
//! catalog through the node and answers; it decides nothing that depends on state, because another request may come
//! between.
//!
//! Handlers are grouped by URL in [`naming`], [`rules`], [`mod@config`], [`auth`], [`admin`] and [`discover`], which do
//! not use each other. They share the HTTP plumbing ([`http`]), the views of objects ([`view`]), and the common parts
//! of releases of rules and of config files ([`releases`]).

mod admin;
mod approval;
mod auth;
mod config;
mod discover;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod http;
mod loading;
mod naming;
mod releases;
mod routes;
mod rules;
#[cfg(test)]
mod tests;
mod view;

use axum::Router;
use axum::middleware::from_fn_with_state;

use crate::model::code::Code;
use crate::openapi::{Document, Port};
use http::layers::{self, RouteGuard};
use http::{ApiError, QueryKeys, route};
use routes::{Route, routes};

pub(crate) use admin::xds::dump_of;
pub use http::layers::{Counting, Tracked, track};
pub use http::{ApiSettings, App};
pub use loading::loading_router;

/// Adds every route to the description of both surfaces.
pub fn describe(document: &mut Document) {
    for route in routes() {
        let Route { method, path, terms, port, inputs, doc, .. } = route;
        let operation = doc.operation(&method, &path, terms, inputs, document.schemas());
        document.add(port, operation);
    }
}

/// Returns the routes that the config clients' port serves too.
pub fn shared_routes(app: App) -> Router {
    let shared = routes().into_iter().filter(|route| route.port == Port::Both);
    shared.fold(Router::new(), |router, route| router.route(&route.path, route.handler)).with_state(app)
}

/// Paths of health checks and of metrics, on the ports of both surfaces.
pub const CHECKS: &[&str] = &[route::METRICS, route::LIVE, route::READY];

/// Returns the routes of the separate metrics listener.
pub fn metrics_router(app: App) -> Router {
    let served = routes().into_iter().filter(|route| CHECKS.contains(&route.path.as_str()));
    served.fold(Router::new(), |router, route| router.route(&route.path, route.handler)).with_state(app)
}

/// Builds the router of the surface.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for route in routes().into_iter().filter(|route| !app.settings.metrics_elsewhere || route.path != route::METRICS) {
        let query_keys = QueryKeys::new(route.doc, route.inputs);
        let guard = RouteGuard { app: app.clone(), terms: route.terms, query_keys };
        let handler = route.handler.layer(from_fn_with_state(guard, layers::guard));
        router = router.route(&route.path, handler);
    }
    let counting = app.settings.budget.clone().map(|budget| {
        let trusted_proxies = app.settings.trusted_proxies.clone();
        Counting { budget, trusted_proxies }
    });
    let tracked = Tracked::new(layers::SURFACE, app.node().member(), app.settings.hosts.clone(), counting);
    router
        .fallback(|| async { ApiError::from(Code::UnknownRoute) })
        .method_not_allowed_fallback(|| async { ApiError::from(Code::MethodNotAllowed) })
        .layer(from_fn_with_state(tracked, layers::track))
        .with_state(app)
}
