//! Routers of the surfaces, from the settings of a node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;

use super::scheme;
use crate::api::{self, App};
use crate::compat::{self, CompatSettings, Surface};
use crate::config::{CompatAuth, Config};
use crate::console::{self, Console, ConsoleSettings, CookieKeys};
use crate::hosts::Hosts;
use crate::metrics::Metrics;
use crate::openapi::Document;
use crate::operations::Operations;
use crate::raft::node::Node;
use crate::reads::{ConfigReads, LocalView};

/// Returns the host names that a listener answers to.
pub(super) fn hosts(config: &Config, bound: SocketAddr) -> Hosts {
    let advertised = [&config.advertise_api, &config.advertise_compat].into_iter().flatten();
    Hosts::of(bound, config.tuning.allowed_hosts.iter().chain(advertised).cloned())
}

/// Builds the description of both surfaces.
pub(super) fn document(scheme: &str, api: SocketAddr, compat: SocketAddr) -> Document {
    let mut document = Document::new(scheme, api, compat);
    api::describe(&mut document);
    compat::describe::<LocalView>(&mut document);
    document
}

pub(super) fn console_router(config: &Config, operations: Arc<Operations>, bound: SocketAddr) -> Router {
    let secrets = config.cluster_secret.iter().flat_map(|secret| std::iter::once(&secret.shown).chain(&secret.other));
    let secrets: Vec<_> = secrets.map(|secret| secret.0.as_bytes()).collect();
    let settings = ConsoleSettings {
        is_secure: config.tls.is_some(),
        trusted_proxies: config.tuning.trusted_proxies.clone(),
        public_url: config.tuning.public_url.clone(),
        keys: CookieKeys::of(&secrets),
    };
    let tracked = api::Tracked::new("ui", operations.node().member(), hosts(config, bound), None);
    console::router(Console::new(operations, settings)).layer(from_fn_with_state(tracked, api::track))
}

/// Returns the reads of config files, which the ports of config clients and of gRPC share.
pub(super) fn config_reads(config: &Config, node: &Node, app: &App, metrics: Arc<Metrics>) -> ConfigReads<LocalView> {
    let token_trust = Duration::from_millis(config.tuning.token_trust_ms);
    let (controllers, providers) = (app.node().controllers().clone(), app.identity_providers().clone());
    let view = LocalView::new(node.clone(), controllers, providers, token_trust);
    let auth_required = config.tuning.compat_auth == CompatAuth::Required;
    ConfigReads::new(view, metrics, auth_required, config.tuning.bounds.render_cache_bytes)
}

pub(super) fn compat_router(config: &Config, reads: ConfigReads<LocalView>, app: &App, bound: SocketAddr) -> Router {
    let settings = CompatSettings {
        hold: config.hold,
        auth_required: config.tuning.compat_auth == CompatAuth::Required,
        trusted_proxies: config.tuning.trusted_proxies.clone(),
        hosts: hosts(config, bound),
        bound,
        scheme: scheme(config),
        render_cache_bytes: config.tuning.bounds.render_cache_bytes,
    };
    let surface = compat::router(Surface::over(reads, settings));
    let tracked = api::Tracked::new("compat", app.node().member(), Hosts::any(), None);
    compat::behind_slashes(
        api::shared_routes(app.clone()).merge(surface).layer(from_fn_with_state(tracked, api::track)),
    )
}
