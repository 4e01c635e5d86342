//! The composition root: start-up from settings to a running node, and shutdown.
//!
//! Start-up: ports bound, the metrics listener, which answers liveness probes (`loading`), data directory, consensus,
//! surfaces, listeners of clients once the node is ready. Shutdown: readiness off, leadership transferred, service for
//! as long as balancers need to notice, listeners closed, held polls answered, connections drained, consensus ended,
//! the log synced. Each step of the shutdown has a time limit.

mod bound;
mod grpc;
mod loading;
mod surfaces;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{self, ApiSettings, App};
use crate::budget::Budget;
use crate::compat;
use crate::config::{Config, Switch};
use crate::connections::{self, ConnectionLimiter, Ending, Listener, Protocol, REST_WITHIN};
use crate::controllers::rollouts::{LastStepJudge, Rollouts};
use crate::controllers::{self, Controllers, FoundingSettings};
use crate::descriptors;
use crate::metrics::Metrics;
use crate::model::limits;
use crate::openapi::LazyDocument;
use crate::operations::{Bounds, Operations, hash_password};
use crate::outbound::prometheus::Prometheus;
use crate::raft::node::Node;
use crate::raft::start::{Secrets, Setup, start};
use crate::raft::{LogBounds, RoomBounds, run_task};
use crate::store::Store;
use crate::tasks;
use crate::tls::{CertificateUse, Certificates};
use crate::watch::Hub;
use crate::webhooks::{WebhookController, WebhookSettings};
pub use bound::Bound;
use grpc::GrpcListeners;
use loading::Loaded;
use surfaces::{compat_router, config_reads, console_router, document, hosts};

/// Time limit for connections at shutdown; those still open are then closed.
const DRAIN_WITHIN: Duration = Duration::from_secs(8);
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for background tasks, which end before consensus does.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);
/// Length of the kernel's accept queue of each listener.
const BACKLOG: u32 = 1024;

/// A running node; [`Server::run`] serves until it is asked to stop.
pub struct Server {
    pub bound: Bound,
    pub node: Node,
    /// Password of the administrator, if this start generated one.
    pub generated_password: Option<String>,
    doors: Vec<Listener>,
    certificates: Arc<Certificates>,
    places: Arc<ConnectionLimiter>,
    hub: Hub,
    /// Token that ends all gRPC streams.
    streams: CancellationToken,
    /// Tokens that end listeners and connections.
    ending: Ending,
    /// Tasks of the listeners.
    surfaces: TaskTracker,
    drain: Duration,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    failed: oneshot::Receiver<anyhow::Error>,
}

impl Server {
    /// Binds, opens and starts everything. Creates nothing if a listener cannot be bound.
    pub async fn start(config: Config) -> anyhow::Result<Server> {
        let api_socket = reserve("--api-addr", config.api_addr)?;
        let compat_socket = reserve("--compat-addr", config.compat_addr)?;
        let metrics_listener = match config.metrics_addr {
            Some(address) => Some(bind("--metrics-addr", address).await?),
            None => None,
        };
        let peer_listener = match config.peer_addr {
            Some(address) => Some(bind("--peer-addr", address).await?),
            None => None,
        };
        let grpc_listeners = GrpcListeners::bind(&config)?;
        let bound = Bound {
            node_id: config.node_id,
            api: api_socket.local_addr()?,
            compat: compat_socket.local_addr()?,
            metrics: metrics_listener.as_ref().map(TcpListener::local_addr).transpose()?,
            peer: peer_listener.as_ref().map(TcpListener::local_addr).transpose()?,
            grpc: grpc_listeners.addresses()?,
        };
        bound.log_start(&config);
        warn_if_readable(&config);
        let descriptors = descriptors::raise();
        let metrics = Arc::new(Metrics::new()?);
        metrics.build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let places = places(&config, descriptors, metrics.clone());
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let (surfaces, ending, loaded) = (TaskTracker::new(), Ending::default(), Loaded::default());
        if let Some(listener) = metrics_listener {
            // The metrics listener neither returns nor accepts a secret.
            let (router, tls, protocol, proxies) = (loaded.router(), None, Protocol::Http1, Arc::default());
            let checks = api::CHECKS;
            let door = Listener { name: "metrics", listener, router, checks, tls, protocol, proxies };
            tasks::needed_in(&surfaces, door.name, connections::serve_until(door, places.clone(), ending.clone()));
        }
        let store = open_store(&config, metrics.clone()).await?;
        let is_fresh = store.is_fresh()?;
        let (password, generated_password) = first_password(&config, &store)?;
        let hash = tasks::blocking(move || hash_password(&password)).await;
        // A held request occupies a connection, unless it came through a trusted proxy: one number limits both.
        let hub = Hub::with_share(limits::POLL_WAITERS_MAX, config.tuning.bounds.connections_per_address);
        let memory_limit_bytes = config.tuning.bounds.memory_limit();
        let controllers = Controllers::new(
            FoundingSettings {
                api: announced(&config, config.advertise_api.as_deref(), bound.api),
                compat: announced(&config, config.advertise_compat.as_deref(), bound.compat),
                grpc: match bound.grpc.first() {
                    Some(first) => announced(&config, config.advertise_grpc.as_deref(), *first),
                    None => String::new(),
                },
                admin_password_hash: hash
                    .map_err(|error| anyhow::anyhow!("the password could not be hashed: {error}"))?,
            },
            config.data_keys.clone(),
        );
        let certificates = certificates(&config).await;
        let setup = Setup {
            certificates: certificates.clone(),
            extension: controllers.clone(),
            node_id: config.node_id,
            initial_cluster: config.initial_cluster.clone(),
            form_with_majority: config.form_with_majority,
            secrets: config.cluster_secret.as_ref().map(|secret| Secrets {
                shown: secret.shown.0.clone().into_bytes(),
                other: secret.other.as_ref().map(|other| other.0.clone().into_bytes()),
            }),
            peer_listener,
            dials_from: None,
            log_bounds: LogBounds {
                snapshot_entries: config.tuning.bounds.snapshot_entries,
                snapshot_bytes: config.tuning.bounds.snapshot_bytes,
                entries_kept: config.tuning.bounds.log_entries_kept,
                bytes_kept: config.tuning.bounds.log_bytes_kept,
            },
            room_bounds: RoomBounds {
                disk_reserve_bytes: config.tuning.bounds.disk_reserve_bytes,
                quota_bytes: config.tuning.bounds.quota(memory_limit_bytes),
                memory_limit_bytes,
            },
            hash_check_entries: config.tuning.hash_check_entries,
            election_timeout: config.tuning.election_timeout_ms.map(Duration::from_millis),
            ready_behind: Duration::from_millis(config.tuning.ready_behind_ms),
        };
        let (node, failed) = start(setup, store, hub.clone(), metrics.clone(), &tasks, &shutdown).await?;
        let private_networks = config.tuning.webhook_private_networks.clone();
        let ca_file = config.tuning.webhook_ca_file.clone();
        let webhooks =
            WebhookController::new(&node, controllers.keyring.clone(), WebhookSettings { ca_file, private_networks });
        run_task("webhooks", controllers::run(node.clone(), webhooks), &tasks, &shutdown);
        let (scheme, api_address, compat_address) = (scheme(&config), bound.api, bound.compat);
        let bounds = Bounds {
            config_content_chars_max: config.tuning.config_content_max,
            token_trust: Duration::from_millis(config.tuning.token_trust_ms),
            webhook_networks: config.tuning.webhook_private_networks.clone(),
            sso_ca_file: config.tuning.sso_ca_file.clone(),
        };
        let operations = Operations::new(node.clone(), controllers.clone(), bounds);
        let prometheus = config.tuning.prometheus_url.as_ref().map(Prometheus::new).transpose();
        let prometheus = prometheus.map_err(|why| anyhow::anyhow!("--prometheus-url: {why}"))?;
        let judge = operations.clone();
        let judge: LastStepJudge = Arc::new(move |live| {
            let judge = judge.clone();
            Box::pin(async move { judge.refused_last_step(live).await })
        });
        let rollouts = Rollouts::new(controllers.subscribers.clone(), prometheus, judge);
        run_task("rollouts", controllers::run(node.clone(), rollouts), &tasks, &shutdown);
        let budget = Budget::new(memory_limit_bytes, metrics.clone());
        let app = App::new(
            operations.clone(),
            ApiSettings {
                trusted_proxies: config.tuning.trusted_proxies.clone(),
                budget: Some(budget.clone()),
                hosts: hosts(&config, bound.api),
                metrics_elsewhere: bound.metrics.is_some(),
                document: LazyDocument::new(Box::new(move || {
                    document(scheme, api_address, compat_address).into_bytes()
                })),
            },
        );
        let streams = CancellationToken::new();
        let reads = config_reads(&config, &node, &app, metrics.clone());
        let parts = grpc::GrpcParts {
            node: node.clone(),
            operations: operations.clone(),
            reads: reads.clone(),
            budget,
            kept: Budget::of_streams(memory_limit_bytes, &metrics),
            ending: streams.clone(),
            tasks: &tasks,
            shutdown: &shutdown,
        };
        let grpc = if grpc_listeners.is_empty() { Router::new() } else { grpc::router(&config, parts)? };
        let console = (config.tuning.ui == Switch::On).then(|| console_router(&config, operations, bound.api));
        let compat = compat_router(&config, reads, &app, bound.compat);
        loaded.set(api::metrics_router(app.clone()));
        let api = api::router(app).merge(console.unwrap_or_default());
        // A node that starts for the first time has no clients yet.
        if !is_fresh {
            loading::await_ready(&node).await;
        }
        let (api_listener, compat_listener) =
            (listen("--api-addr", api_socket)?, listen("--compat-addr", compat_socket)?);
        let doors = [http_door("api", api_listener, api, &config), compat_door(compat_listener, compat, &config)];
        let doors: Vec<_> = doors.into_iter().chain(grpc_listeners.doors(&config, &grpc)?).collect();
        Ok(Server {
            bound,
            node,
            generated_password,
            doors,
            certificates,
            places,
            hub,
            streams,
            ending,
            surfaces,
            drain: config.drain,
            tasks,
            shutdown,
            failed,
        })
    }

    /// Returns the router of a surface, for connections that do not come from its listener.
    pub fn surface(&self, name: &str) -> Option<Router> {
        self.doors.iter().find(|door| door.name == name).map(|door| door.router.clone())
    }

    /// Serves until `stop` is ready or the node fails, then shuts down in order.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Server { node, doors, certificates, places, hub, streams, ending, .. } = self;
        let (surfaces, drain, tasks, shutdown, failed) =
            (self.surfaces, self.drain, self.tasks, self.shutdown, self.failed);
        run_task("certificates", certificates.follow(), &tasks, &shutdown);
        for door in doors {
            tasks::needed_in(&surfaces, door.name, connections::serve_until(door, places.clone(), ending.clone()));
        }
        surfaces.close();
        let failure = tokio::select! {
            // The death of a task may be the reason why consensus has ended, so it is checked first.
            biased;
            () = stop => None,
            died = tasks::death() => Some(died.into()),
            Ok(error) = failed => Some(error),
            fatal = node.fatal() => Some(fatal),
            removed = node.outlived() => Some(removed.into()),
        };
        match &failure {
            None => tracing::info!("shutting down"),
            Some(error) => tracing::error!(%error, "the node stops: it cannot continue"),
        }
        node.begin_stop();
        node.hand_over().await;
        if failure.is_none() && !drain.is_zero() {
            tracing::info!(drain_ms = drain.as_millis(), "still serving until balancers stop sending requests");
            ending.leaving.cancel();
            tokio::time::sleep(drain).await;
        }
        // A client whose poll or stream ends below reconnects; this node refuses it by then, so it goes to another
        // node.
        ending.accepted.cancel();
        tokio::time::sleep(REST_WITHIN).await;
        hub.close();
        streams.cancel();
        ending.closing.cancel();
        if tokio::time::timeout(DRAIN_WITHIN, surfaces.wait()).await.is_err() {
            tracing::warn!("connections were still open at the end of the drain time");
        }
        // Before consensus: a peer or a controller that finds it ended reports a fault. Proposals that wait for a
        // majority end with consensus.
        shutdown.cancel();
        tasks.close();
        let _ = tokio::time::timeout(SETTLE_WITHIN, tasks.wait()).await;
        if tokio::time::timeout(STOP_WITHIN, node.stop()).await.is_err() {
            tracing::error!("consensus did not end in time");
        }
        if tokio::time::timeout(STOP_WITHIN - SETTLE_WITHIN, tasks.wait()).await.is_err() {
            tracing::warn!("background tasks did not end in time");
        }
        node.end_threads(STOP_WITHIN).await;
        failure.map_or(Ok(()), Err)
    }
}

fn http_door(name: &'static str, listener: TcpListener, router: Router, config: &Config) -> Listener {
    let (tls, protocol, proxies) = (config.tls.clone(), Protocol::Http1, Arc::default());
    Listener { name, listener, router, checks: api::CHECKS, tls, protocol, proxies }
}

/// Builds the listener of config clients. Behind a TCP balancer it identifies them as the gRPC listeners do.
fn compat_door(listener: TcpListener, router: Router, config: &Config) -> Listener {
    let proxies = config.tuning.trusted_proxies.clone().into();
    Listener { proxies, checks: compat::CHECKS, ..http_door("compat", listener, router, config) }
}

fn scheme(config: &Config) -> &'static str {
    if config.tls.is_some() { "https" } else { "http" }
}

/// Returns the announced address of a surface: HOST:PORT, with `https://` in front if it speaks TLS.
fn announced(config: &Config, advertised: Option<&str>, bound: SocketAddr) -> String {
    let address = advertised.map_or_else(|| bound.to_string(), str::to_owned);
    if config.tls.is_some() { format!("https://{address}") } else { address }
}

/// Warns if passwords and tokens can be read by anyone who can capture the node's traffic.
fn warn_if_readable(config: &Config) {
    if config.tls.is_none() && !config.api_addr.ip().to_canonical().is_loopback() {
        tracing::warn!(api = %config.api_addr, "--insecure-http: passwords and tokens are readable on the wire");
    }
}

async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{flag} {address} cannot be bound"))
}

/// Binds an address; connections are refused until [`listen`].
fn reserve(flag: &str, address: SocketAddr) -> anyhow::Result<TcpSocket> {
    let bound = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.and_then(|socket| {
        // Connections of the previous process may linger on the port.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    });
    bound.with_context(|| format!("{flag} {address} cannot be bound"))
}

fn listen(flag: &str, socket: TcpSocket) -> anyhow::Result<TcpListener> {
    let address = socket.local_addr()?;
    socket.listen(BACKLOG).with_context(|| format!("{flag} {address} cannot be bound"))
}

/// Returns the connection limiter; its total leaves the reserve of file descriptors free.
fn places(config: &Config, descriptors: u64, metrics: Arc<Metrics>) -> Arc<ConnectionLimiter> {
    let total = descriptors::shares().connections;
    // Half of the total at most, so that one address never occupies all connections.
    let per_address = config.tuning.bounds.connections_per_address.min((total / 2).max(1));
    tracing::info!(descriptors, connections = total, per_address, "connection limits");
    ConnectionLimiter::new(total, per_address, metrics)
}

/// Loads certificate files of the listeners and the authorities for other servers.
async fn certificates(config: &Config) -> Arc<Certificates> {
    let grpc = (!config.grpc_addrs.is_empty()).then_some("grpc");
    let listeners = ["api", "compat"].into_iter().chain(grpc).collect();
    let of_traces = config.traces.as_ref().and_then(|traces| traces.ca_file.clone());
    let (of_webhooks, of_sso) = (config.tuning.webhook_ca_file.clone(), config.tuning.sso_ca_file.clone());
    let bundles = [("webhooks", of_webhooks), ("sso", of_sso), ("traces", of_traces)];
    let bundles = bundles.into_iter().filter_map(|(used_by, file)| Some(CertificateUse { used_by, file: file? }));
    let (tls, bundles, warn_days) = (config.tls.clone(), bundles.collect(), config.certificate_warn_days);
    let made = move || Arc::new(Certificates::new(tls, listeners, bundles, warn_days));
    tasks::blocking(made).await
}

/// Opens the store on a blocking thread, because RocksDB replays its write-ahead log.
async fn open_store(config: &Config, metrics: Arc<Metrics>) -> anyhow::Result<Store> {
    let (dir, node_id, levels) = (config.data_dir.clone(), config.node_id, config.tuning.levels());
    Ok(tasks::blocking(move || Store::open(&dir, node_id, levels, metrics)).await?)
}

/// Returns the administrator's password for a new cluster: the configured one, else a generated one, which is worth
/// printing only if there is no data yet.
fn first_password(config: &Config, store: &Store) -> anyhow::Result<(String, Option<String>)> {
    if let Some(given) = &config.admin_password {
        return Ok((given.0.clone(), None));
    }
    let generated = hex::encode(rand::random::<[u8; 12]>());
    let is_first = store.is_fresh()? && config.initial_cluster.contains_key(&config.node_id);
    Ok((generated.clone(), is_first.then_some(generated)))
}
