//! The composition root: settings to a running node and back down again.
//!
//! Up: listeners, data directory, consensus, surfaces. Down: readiness off, held polls answered,
//! the lead handed over, connections drained, consensus ended, the log synced. Each step has a
//! limit of time.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::ConnectInfo;
use axum::middleware::from_fn_with_state;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::api::{self, ApiSettings, App};
use crate::compat::{self, CompatSettings, Surface};
use crate::config::{CompatAuth, Config};
use crate::metrics::Metrics;
use crate::model::limits;
use crate::openapi::{Document, LazyDocument};
use crate::raft::node::Node;
use crate::raft::peer::Secret;
use crate::raft::start::{Setup, start};
use crate::store::Store;
use crate::view::LocalView;
use crate::watch::Hub;

/// A client that does not finish its request head in this time is cut off.
const REQUEST_HEAD_WITHIN: Duration = Duration::from_secs(10);
/// What is still open after this time at shutdown is cut off.
const DRAIN_WITHIN: Duration = Duration::from_secs(8);
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// After an accept that failed (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a node listens.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Bound {
    pub node_id: u64,
    pub api: SocketAddr,
    pub compat: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<SocketAddr>,
}

/// A node that runs; [`Server::run`] serves until it is told to stop.
pub struct Server {
    pub bound: Bound,
    pub node: Node,
    /// The password of the administrator, where this start generated one.
    pub generated_password: Option<String>,
    listeners: [(TcpListener, Router); 2],
    hub: Hub,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    failed: oneshot::Receiver<anyhow::Error>,
}

impl Server {
    /// Binds, opens and starts everything. Nothing is created where a listener cannot be bound.
    pub async fn start(config: Config) -> anyhow::Result<Server> {
        let api_listener = bind("--api-addr", config.api_addr).await?;
        let compat_listener = bind("--compat-addr", config.compat_addr).await?;
        let peer_listener = match config.peer_addr {
            Some(address) => Some(bind("--peer-addr", address).await?),
            None => None,
        };
        let bound = Bound {
            node_id: config.node_id,
            api: api_listener.local_addr()?,
            compat: compat_listener.local_addr()?,
            peer: peer_listener.as_ref().map(TcpListener::local_addr).transpose()?,
        };
        let metrics = Arc::new(Metrics::new()?);
        metrics.build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let store = open_store(&config.data_dir, config.node_id, metrics.clone()).await?;
        let (password, generated_password) = first_password(&config, &store)?;
        let hash = tokio::task::spawn_blocking(move || api::hash_password(&password)).await?;
        let hub = Hub::new(limits::POLL_WAITERS_MAX);
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let setup = Setup {
            node_id: config.node_id,
            initial_cluster: config.initial_cluster.clone(),
            secret: config.cluster_secret.as_ref().map(|secret| Secret::new(secret.0.as_bytes())),
            peer_listener,
            api: config.advertise_api.clone().unwrap_or_else(|| bound.api.to_string()),
            compat: config.advertise_compat.clone().unwrap_or_else(|| bound.compat.to_string()),
            admin_password_hash: hash.map_err(|error| anyhow::anyhow!("the password could not be hashed: {error}"))?,
            snapshot_every_entries: config.tuning.snapshot_entries,
            log_entries_kept: config.tuning.log_entries_kept,
        };
        let (node, failed) = start(setup, store, hub.clone(), metrics.clone(), &tasks, &shutdown).await?;
        let (api_address, compat_address) = (bound.api, bound.compat);
        let app = App::new(
            node.clone(),
            ApiSettings {
                config_content_chars_max: config.tuning.config_content_max,
                trusted_proxies: config.tuning.trusted_proxies.clone(),
                document: LazyDocument::new(Box::new(move || document(api_address, compat_address).into_bytes())),
            },
        );
        let compat = compat_router(&config, &node, &app, bound.compat, metrics);
        let api = api::router(app);
        let listeners = [(api_listener, api), (compat_listener, compat)];
        Ok(Server { bound, node, generated_password, listeners, hub, tasks, shutdown, failed })
    }

    /// Serves until `stop` is ready or the node fails, then goes down in order.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Server { node, listeners, hub, tasks, shutdown, failed, .. } = self;
        let closing = CancellationToken::new();
        let surfaces = TaskTracker::new();
        for (listener, router) in listeners {
            surfaces.spawn(serve(listener, router, closing.clone()));
        }
        surfaces.close();
        let failure = tokio::select! {
            () = stop => None,
            Ok(error) = failed => Some(error),
            fatal = node.fatal() => Some(fatal),
        };
        match &failure {
            None => tracing::info!("shutting down"),
            Some(error) => tracing::error!(%error, "the node cannot go on"),
        }
        node.begin_stop();
        // Polls first: a client that is answered now asks another node while this one still works.
        hub.close();
        node.hand_over().await;
        closing.cancel();
        if tokio::time::timeout(DRAIN_WITHIN, surfaces.wait()).await.is_err() {
            tracing::warn!("connections were still open at the end of the drain time");
        }
        if tokio::time::timeout(STOP_WITHIN, node.stop()).await.is_err() {
            tracing::error!("consensus did not end in time");
        }
        shutdown.cancel();
        tasks.close();
        if tokio::time::timeout(STOP_WITHIN, tasks.wait()).await.is_err() {
            tracing::warn!("background tasks did not end in time");
        }
        failure.map_or(Ok(()), Err)
    }
}

async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{flag} {address} cannot be bound"))
}

/// Opening replays the write-ahead log: off the async threads.
async fn open_store(dir: &Path, node_id: u64, metrics: Arc<Metrics>) -> anyhow::Result<Store> {
    let dir = dir.to_owned();
    Ok(tokio::task::spawn_blocking(move || Store::open(&dir, node_id, metrics)).await??)
}

/// The administrator's password if the cluster is founded now: the given one, else a generated one,
/// which is worth printing only where there is no data yet.
fn first_password(config: &Config, store: &Store) -> anyhow::Result<(String, Option<String>)> {
    if let Some(given) = &config.admin_password {
        return Ok((given.0.clone(), None));
    }
    let generated = hex::encode(rand::random::<[u8; 12]>());
    let is_first = store.is_fresh()? && config.initial_cluster.contains_key(&config.node_id);
    Ok((generated.clone(), is_first.then_some(generated)))
}

/// What both surfaces say of themselves.
fn document(api: SocketAddr, compat: SocketAddr) -> Document {
    let mut document = Document::new(api, compat);
    api::describe(&mut document);
    compat::describe::<LocalView>(&mut document);
    document
}

fn compat_router(config: &Config, node: &Node, app: &App, bound: SocketAddr, metrics: Arc<Metrics>) -> Router {
    let settings = CompatSettings {
        hold: config.hold,
        auth_required: config.tuning.compat_auth == CompatAuth::Required,
        trusted_proxies: config.tuning.trusted_proxies.clone(),
        bound,
    };
    let surface = compat::router(Surface::new(LocalView::new(node.clone()), settings, metrics));
    let tracked = api::Tracked::new("compat", node);
    api::shared_routes(app.clone()).merge(surface).layer(from_fn_with_state(tracked, api::track))
}

/// Accepts until `closing`, then lets what is open finish.
async fn serve(listener: TcpListener, router: Router, closing: CancellationToken) {
    let connections = GracefulShutdown::new();
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => attend(stream, peer, &router, &connections),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

fn attend(stream: TcpStream, peer: SocketAddr, router: &Router, connections: &GracefulShutdown) {
    // A small answer must not wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let router = router.clone();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_WITHIN)
        .max_buf_size(limits::REQUEST_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, %peer, "a connection ended early");
        }
    });
}
