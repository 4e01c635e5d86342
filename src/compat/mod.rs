//! The surface that unmodified Apollo clients read: pulls and held polls, GET only, routes at `/`.
//!
//! This is the one place that translates their words into ours: cluster or data centre is a
//! namespace, appId a group, namespace a file. It reads this node's own applied state through
//! [`ConfigSource`] and knows nothing of Raft, of storage, or of how configuration gets in.

mod answer;
mod auth;
mod client_request;
mod config;
mod discovery;
mod doc;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod lookup;
mod notifications;
mod notifications_param;
mod renderings;
mod repeat_limiter;

#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, SocketAddr},
    ops::Deref,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    handler::Handler,
    http::Method,
    middleware::{self, Next},
    response::Response,
    routing::{MethodRouter, get},
};
use ipnet::IpNet;

use crate::hosts::Hosts;
use crate::log_once::LogOnce;
use crate::metrics::Metrics;
use crate::openapi::{Document, Port};
use crate::view::ConfigSource;

use answer::Refusal;
use doc::Doc;
use renderings::Renderings;
use repeat_limiter::RepeatLimiter;

/// Longest wait of a pull for what its client has already been told of.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(2);
/// More changes than a cluster makes while [`ConfigSource::was_at_horizon_lately`] holds.
const FAR: u64 = 1_000_000;
/// Time for which a reader is not logged again, nor written into the audit trail.
const QUIET: Duration = Duration::from_secs(60);

/// Settings of the surface.
#[derive(Debug, Clone)]
pub struct CompatSettings {
    /// Time for which a poll is held when nothing changes.
    pub hold: Duration,
    /// True if readers are refused that bring neither a token nor the signature of an access key.
    pub auth_required: bool,
    /// Peers whose `X-Forwarded-*` headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The names that the listener answers to.
    pub hosts: Hosts,
    /// Address at which this node listens: the last resort of `/services/config`.
    pub bound: SocketAddr,
    /// `http`, or `https` where it listens with TLS.
    pub scheme: &'static str,
    /// Of what clients were sent, kept for the next ones.
    pub render_cache_bytes: u64,
}

/// State that every handler gets; cheap to clone, as each layer does for each request.
pub struct Surface<S>(Arc<Shared<S>>);

/// App id and address of a client.
type ReaderKey = (String, Option<IpAddr>);

pub struct Shared<S> {
    source: S,
    settings: CompatSettings,
    metrics: Arc<Metrics>,
    renderings: Renderings,
    floor: RepeatLimiter,
    observed: LogOnce<ReaderKey>,
    refused: LogOnce<ReaderKey>,
}

impl<S> Clone for Surface<S> {
    fn clone(&self) -> Self {
        Surface(self.0.clone())
    }
}

impl<S> Deref for Surface<S> {
    type Target = Shared<S>;

    fn deref(&self) -> &Shared<S> {
        &self.0
    }
}

impl<S: ConfigSource> Surface<S> {
    pub fn new(source: S, settings: CompatSettings, metrics: Arc<Metrics>) -> Self {
        let floor = RepeatLimiter::default();
        let (observed, refused) = (LogOnce::every(QUIET), LogOnce::every(QUIET));
        let renderings = Renderings::new(settings.render_cache_bytes, metrics.clone());
        Surface(Arc::new(Shared { source, settings, metrics, renderings, floor, observed, refused }))
    }
}

/// Lets nobody read a state that must not be served, and no page of a foreign site read anything; puts the headers
/// on the answer that all have.
async fn surround<S: ConfigSource>(State(surface): State<Surface<S>>, request: Request, next: Next) -> Response {
    let mut response = match surface.refusal_of_all(&request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    answer::set_common_headers(response.headers_mut());
    response
}

/// Refuses a request of this surface in the shape that its path has.
fn refused(refusal: &Refusal, path: &str) -> Response {
    match path.split('/').nth(1) {
        Some("notifications") => refusal.for_poll(),
        Some("configfiles") => refusal.bare(),
        _ => refusal.for_path(path),
    }
}

impl<S: ConfigSource> Surface<S> {
    fn refusal_of_all(&self, request: &Request) -> Option<Response> {
        let foreign = self.settings.hosts.stranger(request.uri(), request.headers());
        let foreign = foreign.map(|host| Refusal::BadRequest(format!("this node is not known as {host:?}")));
        let refusal = foreign.or_else(|| self.source.out_of_service().map(Refusal::OutOfService))?;
        Some(refused(&refusal, request.uri().path()))
    }
}

/// Router that answers while the node loads its state.
pub fn loading_router() -> Router {
    Router::new().fallback(async |request: Request| {
        let refusal = Refusal::OutOfService("the state of this node is being loaded".to_owned());
        let mut response = refused(&refusal, request.uri().path());
        answer::set_common_headers(response.headers_mut());
        response
    })
}

/// One row of the table of routes.
struct Route<S> {
    path: &'static str,
    handler: MethodRouter<Surface<S>>,
    doc: Doc,
}

fn route<S, H, T>(path: &'static str, handler: H, doc: Doc) -> Route<S>
where
    S: ConfigSource,
    H: Handler<T, Surface<S>>,
    T: 'static,
{
    // Answers HEAD too.
    Route { path, handler: get(handler), doc }
}

/// Every route of the surface. A file name may hold slashes, hence the wildcards; with four segments
/// or more, a first segment `json` or `raw` is the form and not an app id.
fn routes<S: ConfigSource>() -> Vec<Route<S>> {
    vec![
        route("/configs/{appId}/{cluster}/{*namespace}", config::configs, config::CONFIGS),
        route("/configfiles/{appId}/{cluster}/{*namespace}", config::text, config::TEXT),
        route("/configfiles/json/{appId}/{cluster}/{*namespace}", config::json, config::JSON),
        route("/configfiles/raw/{appId}/{cluster}/{*namespace}", config::raw, config::RAW),
        route("/notifications/v2", notifications::poll, notifications::POLL),
        route("/services/config", discovery::config_services, discovery::CONFIG_SERVICES),
        route("/services/meta", discovery::meta_services, discovery::META_SERVICES),
    ]
}

/// Adds every route to the description of both surfaces.
pub fn describe<S: ConfigSource>(document: &mut Document) {
    for Route { path, doc, .. } in routes::<S>() {
        let operation = doc.operation(Method::GET, path, document.schemas());
        document.add(Port::Clients, operation);
    }
}

/// The surface; health is merged in by whoever serves it, on a listener that passes the peer's
/// address along (`ConnectInfo<SocketAddr>`).
pub fn router<S: ConfigSource>(surface: Surface<S>) -> Router {
    let routes = routes().into_iter();
    routes
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::method_not_allowed)
        .layer(middleware::from_fn_with_state(surface.clone(), surround::<S>))
        .with_state(surface)
}
