//! The management surface: JSON over HTTP on port 8090, one envelope for every answer.
//!
//! [`mod@routes`] holds the table of contents; the last column of a row is its documentation. A handler
//! extracts, calls the catalog through the node and answers; it decides nothing that depends on state,
//! as another request may come between.

mod access_keys;
mod aliases;
mod answer;
mod audit;
mod auth;
mod backup;
mod bodies;
mod bounded;
mod bundles;
mod carried;
mod cluster;
mod config_files;
mod config_groups;
mod config_releases;
mod contents;
mod diffs;
mod discover;
mod doc;
pub(crate) mod documents;
mod envelope;
mod error;
mod explain;
mod extract;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod health;
mod heartbeats;
mod instances;
mod judged;
mod layers;
mod loading;
mod login;
mod namespaces;
mod objects;
mod oneself;
mod query;
mod reference;
mod resealing;
mod routes;
mod rule_docs;
mod rules;
mod sealed;
mod services;
mod settings;
mod strict;
mod subscribers;
mod templates;
#[cfg(test)]
mod tests;
mod tokens;
mod unknown;
mod upstream;
mod users;
mod view;
mod webhooks;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use ipnet::IpNet;

use crate::budget::Budget;
use crate::catalog::Catalog;
use crate::hosts::Hosts;
use crate::model::code::Code;
use crate::openapi::{Document, LazyDocument, Port};
use crate::operations::Operations;
use error::ApiError;
use layers::Guard;
use routes::{Route, routes};

pub use layers::{Counting, Tracked, track};
pub use loading::{loading_router, loading_routes};
// What a body means, for who compares it before it is sent.
pub(crate) use rules::parse_rule;
pub(crate) use unknown::parse_noting;
pub(crate) use upstream::folded;

/// Settings of the surface.
pub struct ApiSettings {
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Of bodies and large answers under way; none where they are not counted.
    pub budget: Option<Budget>,
    /// The names that the listener answers to.
    pub hosts: Hosts,
    /// `/metrics` has a listener of its own, see [`metrics_router`].
    pub metrics_elsewhere: bool,
    /// Response to `/openapi.json`.
    pub document: LazyDocument,
}

/// State that the handlers share; cheap to clone.
#[derive(Clone)]
pub struct App {
    operations: Operations,
    settings: Arc<ApiSettings>,
}

impl std::ops::Deref for App {
    type Target = Operations;

    fn deref(&self) -> &Operations {
        &self.operations
    }
}

impl App {
    pub fn new(operations: Operations, settings: ApiSettings) -> Self {
        App { operations, settings: Arc::new(settings) }
    }

    /// [`Operations::scan`], refused in this surface's form.
    async fn scan<T, A: Send + 'static>(
        &self,
        reach: usize,
        find: impl FnOnce(&Catalog) -> T + Send + 'static,
        answer: impl FnOnce(T) -> A + Send + 'static,
    ) -> Result<A, ApiError> {
        Ok(self.operations.scan(reach, find, answer).await?)
    }
}

/// Adds every route to the description of both surfaces.
pub fn describe(document: &mut Document) {
    for route in routes() {
        let Route { method, path, access, port, is_always, inputs, doc, .. } = route;
        let operation = doc.operation(&method, &path, (access, is_always), inputs, document.schemas());
        document.add(port, operation);
    }
}

/// The routes that another surface's port has too.
pub fn shared_routes(app: App) -> Router {
    let shared = routes().into_iter().filter(|route| route.port == Port::Both);
    shared.fold(Router::new(), |router, route| router.route(&route.path, route.handler)).with_state(app)
}

/// Routes that are served where metrics have a listener of their own.
pub fn metrics_router(app: App) -> Router {
    let served = routes().into_iter().filter(|route| [routes::METRICS, "/livez"].contains(&route.path.as_str()));
    served.fold(Router::new(), |router, route| router.route(&route.path, route.handler)).with_state(app)
}

/// The surface, ready to be served.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for route in routes().into_iter().filter(|route| !app.settings.metrics_elsewhere || route.path != routes::METRICS) {
        let Route { access, is_held, is_always, .. } = route;
        let guard = Guard { app: app.clone(), access, is_held, is_always };
        let handler = route.handler.layer(from_fn_with_state(guard, layers::guard));
        router = router.route(&route.path, handler);
    }
    let counting = app.settings.budget.clone().map(|budget| {
        let trusted_proxies = app.settings.trusted_proxies.clone();
        Counting { budget, trusted_proxies }
    });
    let tracked = Tracked::new(layers::SURFACE, &app.node, app.settings.hosts.clone(), counting);
    router
        .fallback(|| async { ApiError::from(Code::UnknownRoute) })
        .method_not_allowed_fallback(|| async { ApiError::from(Code::MethodNotAllowed) })
        .layer(from_fn_with_state(tracked, layers::track))
        .with_state(app)
}
