//! The gRPC server on its listeners.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::middleware::from_fn_with_state;
use futures_util::future::BoxFuture;
use tokio::net::TcpSocket;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{listen, reserve};
use crate::api;
use crate::budget::Budget;
use crate::config::{CompatAuth, Config};
use crate::connections::{Listener, Protocol};
use crate::grpc::{Grpc, GrpcSettings, HEALTH_CHECK, Health};
use crate::hosts::Hosts;
use crate::operations::Operations;
use crate::raft::node::Node;
use crate::raft::run_task;
use crate::reads::catch_up::CATCH_UP_LIMIT;
use crate::xds::{Context, ResourceCache, Session};

/// Bound gRPC listeners.
pub(super) struct GrpcListeners(Vec<TcpSocket>);

impl GrpcListeners {
    pub(super) fn bind(config: &Config) -> anyhow::Result<GrpcListeners> {
        let mut listeners = Vec::new();
        for address in &config.grpc_addrs {
            listeners.push(reserve("--grpc-addr", *address)?);
        }
        Ok(GrpcListeners(listeners))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        self.0.iter().map(|listener| Ok(listener.local_addr()?)).collect()
    }

    /// Returns one listener per address, all with the same services.
    pub(super) fn doors(self, config: &Config, router: &Router) -> anyhow::Result<Vec<Listener>> {
        let door = |socket| {
            Ok(Listener {
                name: "grpc",
                listener: listen("--grpc-addr", socket)?,
                router: router.clone(),
                checks: &[HEALTH_CHECK],
                tls: config.tls.clone(),
                protocol: Protocol::Http2,
                proxies: config.tuning.trusted_proxies.clone().into(),
            })
        };
        self.0.into_iter().map(door).collect()
    }
}

/// Parts of a node that its gRPC server uses.
pub(super) struct GrpcParts<'a> {
    pub(super) node: Node,
    pub(super) operations: Arc<Operations>,
    pub(super) budget: Budget,
    /// Memory budget for the state of open streams.
    pub(super) kept: Budget,
    /// Token that ends all streams.
    pub(super) ending: CancellationToken,
    pub(super) tasks: &'a TaskTracker,
    pub(super) shutdown: &'a CancellationToken,
}

/// Builds the router of all gRPC services and starts the tasks that they need.
pub(super) fn router(config: &Config, parts: GrpcParts<'_>) -> anyhow::Result<Router> {
    let GrpcParts { node, operations, budget, kept, ending, tasks, shutdown } = parts;
    let health = Health::default();
    run_task("grpc-health", health.follower().follow(node.clone()), tasks, shutdown);
    let seen = health.seen();
    let authority = config.tuning.xds.authority().map(str::to_owned);
    let asked = node.clone();
    let horizon = move || -> BoxFuture<'static, bool> {
        let node = asked.clone();
        Box::pin(async move { node.await_horizon(CATCH_UP_LIMIT).await })
    };
    let cache = ResourceCache::new(node.state().clone(), authority, move || seen.borrow().was_ready, horizon);
    let cache = Arc::new(cache);
    run_task("xds-world", cache.clone().follow(), tasks, shutdown);
    let clock = node.clone();
    let context = Context {
        subscribers: operations.node().controllers().subscribers.clone(),
        metrics: node.metrics().clone(),
        node: node.id().to_string(),
        max_age: config.tuning.xds.stream_max_age(),
        shutdown: ending.clone(),
        clock: Arc::new(move || clock.now()),
    };
    let settings = GrpcSettings {
        is_auth_required: config.tuning.compat_auth == CompatAuth::Required,
        trusted_proxies: config.tuning.trusted_proxies.clone(),
        streams_per_address: config.tuning.bounds.connections_per_address,
        budget,
        kept,
        ending,
    };
    let tracked = api::Tracked::new("grpc", operations.node().member(), Hosts::any(), None);
    let session = Arc::new(Session::new(cache, context));
    let router = Grpc { operations, session, health, settings }.router();
    let router = router.context("the services of gRPC cannot be described")?;
    Ok(router.layer(from_fn_with_state(tracked, api::track)))
}
