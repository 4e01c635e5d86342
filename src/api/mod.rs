//! The management surface: JSON over HTTP on port 8090, one envelope for every answer.
//!
//! [`routes`] is the table of contents. A handler extracts, calls the catalog through the node and
//! answers; it decides nothing that depends on state, as another request may come between.

mod aliases;
mod auth;
mod cluster;
mod configs;
mod discover;
mod envelope;
mod error;
mod explain;
mod extract;
mod health;
mod instances;
mod layers;
mod login;
mod namespaces;
mod objects;
mod query;
mod rules;
mod services;
#[cfg(test)]
mod tests;
mod throttle;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::extract::Extension;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, on};
use ipnet::IpNet;
use tokio::sync::Semaphore;

use crate::model::code::Code;
use crate::model::rule::Family;
use crate::raft::node::Node;
use error::ApiError;
use throttle::LoginThrottle;

pub use auth::hash_password;
pub(crate) use auth::token_hash;
pub use health::health_routes;
pub use layers::{Tracked, track};

/// Password hashes computed at a time: each takes 19 MiB and tens of milliseconds.
const PASSWORD_CHECKS_AT_ONCE: usize = 2;

/// How the surface behaves.
pub struct ApiSettings {
    /// Characters of one config file.
    pub config_content_chars_max: usize,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
}

/// What handlers get; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    pub(crate) node: Node,
    settings: ApiSettings,
    throttle: LoginThrottle,
    password_checks: Semaphore,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub fn new(node: Node, settings: ApiSettings) -> Self {
        App(Arc::new(Shared {
            node,
            settings,
            throttle: LoginThrottle::default(),
            password_checks: Semaphore::new(PASSWORD_CHECKS_AT_ONCE),
        }))
    }
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Login, health and metrics.
    Anyone,
    /// Everything else.
    TokenHolder,
}

/// One row of the table of routes.
struct Route {
    /// For the walk through the table in the tests; the handler holds it too.
    #[cfg(test)]
    method: Method,
    path: String,
    access: Access,
    is_held: bool,
    handler: MethodRouter<App>,
}

fn open<H, T>(method: Method, path: &str, handler: H) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("the table holds standard methods");
    Route {
        #[cfg(test)]
        method,
        path: path.to_owned(),
        access: Access::Anyone,
        is_held: false,
        handler: on(filter, handler),
    }
}

fn guarded<H, T>(method: Method, path: &str, handler: H) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    Route { access: Access::TokenHolder, ..open(method, path, handler) }
}

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const PUT: Method = Method::PUT;
const DELETE: Method = Method::DELETE;

/// Held on purpose, within limits of its own.
fn held<H, T>(method: Method, path: &str, handler: H) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    Route { is_held: true, ..guarded(method, path, handler) }
}

/// Every route of the surface.
fn routes() -> Vec<Route> {
    let rules = Family::ALL.iter().flat_map(|family| rule_routes(*family));
    fixed_routes().into_iter().chain(rules).collect()
}

/// The routes that every family of rules has; the handlers are told which family it is.
fn rule_routes(family: Family) -> Vec<Route> {
    let path = |rest: &str| format!("/naming/v1/{}{rest}", family.kind());
    let routes = vec![
        guarded(GET, &path(""), rules::list),
        guarded(GET, &path("/detail"), rules::detail),
        guarded(POST, &path(""), rules::create),
        guarded(PUT, &path(""), rules::update),
        guarded(POST, &path("/delete"), rules::delete),
        guarded(POST, &path(layers::EXPLAIN), explain::explain),
        guarded(POST, &path("/releases"), rules::publish),
        guarded(GET, &path("/releases"), rules::list_releases),
        guarded(PUT, &path("/releases/rollback"), rules::roll_back),
        guarded(PUT, &path("/releases/stopbeta"), rules::stop_gray),
        guarded(POST, &path("/releases/delete"), rules::delete_releases),
    ];
    let of_family = |route: Route| Route { handler: route.handler.layer(Extension(family)), ..route };
    routes.into_iter().map(of_family).collect()
}

fn fixed_routes() -> Vec<Route> {
    vec![
        open(GET, "/livez", health::live),
        open(GET, "/readyz", health::ready),
        open(GET, "/metrics", health::metrics),
        open(POST, "/auth/v1/user/login", login::log_in),
        open(POST, "/core/v1/user/login", login::log_in),
        guarded(POST, "/auth/v1/user/logout", login::log_out),
        guarded(POST, "/core/v1/user/logout", login::log_out),
        guarded(GET, "/naming/v1/namespaces", namespaces::list),
        guarded(POST, "/naming/v1/namespaces", namespaces::create),
        guarded(PUT, "/naming/v1/namespaces", namespaces::update),
        guarded(POST, "/naming/v1/namespaces/delete", namespaces::delete),
        guarded(GET, "/core/v1/namespaces", namespaces::list),
        guarded(POST, "/core/v1/namespaces", namespaces::create),
        guarded(PUT, "/core/v1/namespaces", namespaces::update),
        guarded(POST, "/core/v1/namespaces/delete", namespaces::delete),
        guarded(GET, "/naming/v1/services", services::list),
        guarded(POST, "/naming/v1/services", services::create),
        guarded(PUT, "/naming/v1/services", services::update),
        guarded(POST, "/naming/v1/services/delete", services::delete),
        guarded(GET, "/naming/v1/services/all", services::all),
        guarded(GET, "/naming/v1/services/count", services::count),
        guarded(GET, "/naming/v1/service/aliases", aliases::list),
        guarded(POST, "/naming/v1/service/alias", aliases::create),
        guarded(PUT, "/naming/v1/service/alias", aliases::update),
        guarded(POST, "/naming/v1/service/aliases/delete", aliases::delete),
        guarded(GET, "/naming/v1/instances", instances::list),
        guarded(POST, "/naming/v1/instances", instances::register),
        guarded(PUT, "/naming/v1/instances", instances::update),
        guarded(POST, "/naming/v1/instances/delete", instances::delete),
        guarded(POST, "/naming/v1/instances/delete/host", instances::delete_host),
        guarded(PUT, "/naming/v1/instances/isolate/host", instances::isolate_host),
        guarded(GET, "/naming/v1/instances/count", instances::count),
        guarded(GET, "/naming/v1/instances/labels", instances::labels),
        guarded(POST, "/v1/RegisterInstance", instances::register_one),
        guarded(POST, "/v1/DeregisterInstance", instances::deregister_one),
        guarded(POST, "/v1/Heartbeat", instances::heartbeat),
        held(POST, layers::DISCOVER_ROUTE, discover::discover),
        guarded(GET, "/config/v1/configfilegroups", configs::list_groups),
        guarded(POST, "/config/v1/configfilegroups", configs::create_groups),
        guarded(PUT, "/config/v1/configfilegroups", configs::update_groups),
        guarded(DELETE, "/config/v1/configfilegroups", configs::delete_group),
        guarded(POST, "/config/v1/configfilegroups/delete", configs::delete_groups),
        guarded(GET, "/config/v1/configfiles", configs::get_file),
        guarded(POST, "/config/v1/configfiles", configs::create_files),
        guarded(PUT, "/config/v1/configfiles", configs::update_files),
        guarded(DELETE, "/config/v1/configfiles", configs::delete_file),
        guarded(POST, "/config/v1/configfiles/delete", configs::delete_files),
        guarded(POST, "/config/v1/configfiles/batchdelete", configs::delete_files),
        guarded(GET, "/config/v1/configfiles/search", configs::list_files),
        guarded(GET, "/config/v1/configfiles/by-group", configs::list_files),
        guarded(POST, "/config/v1/configfiles/createandpub", configs::create_and_publish),
        guarded(POST, "/config/v1/configfiles/release", configs::publish),
        guarded(GET, "/config/v1/configfiles/release", configs::get_release),
        guarded(GET, "/config/v1/configfiles/releases", configs::list_releases),
        guarded(GET, "/config/v1/configfiles/release/versions", configs::list_versions),
        guarded(PUT, "/config/v1/configfiles/releases/rollback", configs::roll_back),
        guarded(POST, "/config/v1/configfiles/releases/stopbeta", configs::stop_gray),
        guarded(PUT, "/config/v1/configfiles/releases/stopbeta", configs::stop_gray),
        guarded(POST, "/config/v1/configfiles/releases/delete", configs::delete_releases),
        guarded(DELETE, "/config/v1/configfiles/releases", configs::delete_release),
        guarded(GET, "/admin/v1/cluster", cluster::status),
        guarded(POST, "/admin/v1/cluster/add", cluster::add),
        guarded(POST, "/admin/v1/cluster/promote", cluster::promote),
        guarded(POST, "/admin/v1/cluster/remove", cluster::remove),
        guarded(POST, "/admin/v1/cluster/transfer", cluster::transfer),
        guarded(POST, "/admin/v1/cluster/snapshot", cluster::snapshot),
    ]
}

/// The surface, ready to be served.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let handler = match route.access {
            Access::Anyone => route.handler,
            Access::TokenHolder => route.handler.layer(from_fn_with_state(app.clone(), auth::require_token)),
        };
        let handler = if route.is_held { handler } else { handler.layer(from_fn(layers::limit_time)) };
        router = router.route(&route.path, handler);
    }
    router
        .fallback(|| async { ApiError::from(Code::UnknownRoute) })
        .method_not_allowed_fallback(|| async { ApiError::from(Code::MethodNotAllowed) })
        .layer(layers::catch_panics())
        .layer(from_fn_with_state(layers::Tracked::new("api", &app.node), layers::track))
        .with_state(app)
}
