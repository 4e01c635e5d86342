//! The surface for unmodified Apollo clients: pulls and long polls, with routes at `/`, and reports on applied releases
//! by POST.
//!
//! This module alone translates Apollo's terms: cluster or data centre is a namespace, appId a group, namespace a file.
//! It reads through [`ConfigReads`] and does not depend on Raft, storage or writes of configuration.

mod answer;
mod applied;
mod client_request;
mod config;
mod discovery;
mod doc;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod health;
mod lookup;
mod notifications;
mod notifications_param;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use ipnet::IpNet;
use tower::util::MapRequest;

use crate::hosts::Hosts;
use crate::metrics::Metrics;
use crate::openapi::{Document, Port};
use crate::reads::{ConfigReads, ConfigSource, ReadRefusal};
use crate::tasks;

use doc::Doc;

/// Paths of health checks and metrics on the port of config clients; all but the first exist on the management port
/// too.
pub const CHECKS: &[&str] = &[health::PATH, "/metrics", "/livez", "/readyz"];

/// Settings of the surface.
#[derive(Debug, Clone)]
pub struct CompatSettings {
    /// Time for which a poll is held without a change.
    pub hold: Duration,
    /// True to refuse clients without a token or the signature of an access key.
    pub auth_required: bool,
    /// Networks of proxies whose `X-Forwarded-*` headers are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Host names that the listener answers to.
    pub hosts: Hosts,
    /// Address at which this node listens; `/services/config` falls back to it.
    pub bound: SocketAddr,
    /// `http`, or `https` if the listener uses TLS.
    pub scheme: &'static str,
    /// Maximum bytes of cached rendered files.
    pub render_cache_bytes: u64,
}

/// State shared by the handlers; cheap to clone, because each layer clones it for each request.
#[derive(Clone)]
pub struct Surface<S> {
    reads: ConfigReads<S>,
    settings: Arc<CompatSettings>,
}

impl<S: ConfigSource> Surface<S> {
    pub fn new(source: S, settings: CompatSettings, metrics: Arc<Metrics>) -> Self {
        let reads = ConfigReads::new(source, metrics, settings.auth_required, settings.render_cache_bytes);
        Surface::over(reads, settings)
    }

    /// Creates the surface over reads that other surfaces share.
    pub fn over(reads: ConfigReads<S>, settings: CompatSettings) -> Self {
        Surface { reads, settings: Arc::new(settings) }
    }
}

/// Refuses requests while this node is out of service and requests of foreign sites; adds the headers that every answer
/// has.
async fn surround<S: ConfigSource>(State(surface): State<Surface<S>>, request: Request, next: Next) -> Response {
    let mut response = match surface.refusal_of_all(&request) {
        Some(refusal) => refusal,
        None => {
            let uri = request.uri().clone();
            let answered = tasks::caught(next.run(request)).await;
            answered.unwrap_or_else(|| refused(&ReadRefusal::Failed, uri.path()))
        }
    };
    answer::set_common_headers(response.headers_mut());
    response
}

/// Returns the refusal in the shape of the path.
fn refused(refusal: &ReadRefusal, path: &str) -> Response {
    match path.split('/').nth(1) {
        Some("notifications") => refusal.for_poll(),
        Some("configfiles") => refusal.bare(),
        _ => refusal.for_path(path),
    }
}

impl<S: ConfigSource> Surface<S> {
    fn refusal_of_all(&self, request: &Request) -> Option<Response> {
        // Balancers send no host name; a node that is out of service reports it by its health.
        if request.uri().path() == health::PATH {
            return None;
        }
        let foreign = self.settings.hosts.stranger(request.uri(), request.headers());
        let foreign = foreign.map(|host| ReadRefusal::BadRequest(format!("this node is not known as {host:?}")));
        let refusal = foreign.or_else(|| self.reads.source().out_of_service().map(ReadRefusal::OutOfService))?;
        Some(refused(&refusal, request.uri().path()))
    }
}

/// Wraps the router of the port so that routes match with several slashes at the beginning or end of a path.
pub fn behind_slashes(router: Router) -> Router {
    let request_of: fn(Request) -> Request = client_request::with_one_slash;
    Router::new().fallback_service(MapRequest::new(router, request_of))
}

/// One row of the table of routes.
struct Route<S> {
    method: Method,
    path: &'static str,
    /// Suffix of the path after its wildcard, which the handler checks.
    suffix: &'static str,
    handler: MethodRouter<Surface<S>>,
    doc: Doc,
}

fn route<S, H, T>(path: &'static str, handler: H, doc: Doc) -> Route<S>
where
    S: ConfigSource,
    H: Handler<T, Surface<S>>,
    T: 'static,
{
    // Answers HEAD requests too.
    Route { method: Method::GET, path, suffix: "", handler: get(handler), doc }
}

/// Creates a route for reports of clients on a file: the path of its pull with a suffix.
fn report<S, H, T>(path: &'static str, suffix: &'static str, handler: H, doc: Doc) -> Route<S>
where
    S: ConfigSource,
    H: Handler<T, Surface<S>>,
    T: 'static,
{
    Route { method: Method::POST, path, suffix, handler: post(handler), doc }
}

/// Returns every route of the surface. File names may contain slashes, hence the wildcards; with four or more segments,
/// a first segment `json` or `raw` is the form and not an app id.
fn routes<S: ConfigSource>() -> Vec<Route<S>> {
    vec![
        route("/configs/{appId}/{cluster}/{*namespace}", config::configs, config::CONFIGS),
        report("/configs/{appId}/{cluster}/{*namespace}", applied::SUFFIX, applied::applied, applied::APPLIED),
        route("/configfiles/{appId}/{cluster}/{*namespace}", config::text, config::TEXT),
        route("/configfiles/json/{appId}/{cluster}/{*namespace}", config::json, config::JSON),
        route("/configfiles/raw/{appId}/{cluster}/{*namespace}", config::raw, config::RAW),
        route("/notifications/v2", notifications::poll, notifications::POLL),
        route("/services/config", discovery::config_services, discovery::CONFIG_SERVICES),
        route("/services/meta", discovery::meta_services, discovery::META_SERVICES),
        route(health::PATH, health::health, health::HEALTH),
    ]
}

/// Adds every route to the description of both surfaces.
pub fn describe<S: ConfigSource>(document: &mut Document) {
    for Route { method, path, suffix, doc, .. } in routes::<S>() {
        let operation = doc.operation(method, &format!("{path}{suffix}"), document.schemas());
        document.add(Port::Clients, operation);
    }
}

/// Builds the router of the surface. The caller adds the health routes and a listener that provides the peer's address
/// (`ConnectInfo<SocketAddr>`).
pub fn router<S: ConfigSource>(surface: Surface<S>) -> Router {
    let routes = routes().into_iter();
    routes
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::method_not_allowed)
        .layer(middleware::from_fn_with_state(surface.clone(), surround::<S>))
        .with_state(surface)
}
