//! The gRPC server on its listeners.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

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
use crate::catalog::Catalog;
use crate::config::{CompatAuth, Config};
use crate::connections::{Listener, Protocol};
use crate::grpc::{Grpc, GrpcSettings, HEALTH_CHECK, Health, HealthWatch};
use crate::hosts::Hosts;
use crate::operations::Operations;
use crate::raft::node::Node;
use crate::raft::run_task;
use crate::reads::{ConfigReads, LocalView};
use crate::watch::feed::FeedChanges;
use crate::xds::{AppliedChanges, AppliedState, Context, ResourceCache, Session};

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
    pub(super) reads: ConfigReads<LocalView>,
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
    let GrpcParts { node, operations, reads, budget, kept, ending, tasks, shutdown } = parts;
    let health = Health::default();
    run_task("grpc-health", health.follower().follow(node.clone()), tasks, shutdown);
    let seen = health.seen();
    let authority = config.tuning.xds.authority().map(str::to_owned);
    let state = Arc::new(NodeState { node: node.clone(), health: seen });
    let cache = Arc::new(ResourceCache::new(state, authority));
    run_task("xds-cache", cache.clone().follow(), tasks, shutdown);
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
    let router = Grpc { operations, session, reads, health, settings }.router();
    let router = router.context("the services of gRPC cannot be described")?;
    Ok(router.layer(from_fn_with_state(tracked, api::track)))
}

/// Applied state of a node for the resource cache.
struct NodeState {
    node: Node,
    health: HealthWatch,
}

impl AppliedState for NodeState {
    fn was_ready(&self) -> bool {
        self.health.borrow().was_ready
    }

    fn follow(&self) {
        self.node.state().feed().follow();
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.node.state().feed().changed())
    }

    fn take(&self, read: &mut dyn FnMut(&Catalog)) -> AppliedChanges {
        let state = self.node.state();
        // The lock is held until the changes are taken, so they cover everything in the catalog.
        let catalog = state.catalog();
        read(&catalog);
        let (news, applied) = (state.feed().take(), state.applied().index);
        drop(catalog);
        let (changes, newest) = match news {
            FeedChanges::Changes(changes) => (Some(changes), None),
            FeedChanges::Everything(newest) => (None, Some(newest)),
        };
        let indexes = changes.iter().flatten().map(|(index, _)| *index).chain(newest);
        let index = indexes.fold(applied, u64::max);
        AppliedChanges { changes, index }
    }

    fn index(&self) -> u64 {
        self.node.state().applied().index
    }

    fn wait_for(&self, index: u64, limit: Duration) -> BoxFuture<'_, bool> {
        Box::pin(self.node.state().wait_applied(limit, move |applied| applied.index >= index))
    }

    fn await_read_barrier(&self, limit: Duration) -> BoxFuture<'_, bool> {
        Box::pin(self.node.await_horizon(limit))
    }
}
