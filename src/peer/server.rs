//! The peer listener: admits connections within limits and serves them by their purpose.
//!
//! Whatever a stranger sends ends in a closed connection and a count in `thuban_peer_connections_refused_total`;
//! nothing else changes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::Raft;
use openraft::storage::RaftStateMachine;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::credentials::Credentials;
use super::handshake::{Purpose, Turned, receive};
use super::hello::Introductions;
use super::limits::{
    CONNECTIONS_MAX, HANDSHAKE_WITHIN, RAFT_IN_FLIGHT_MAX, SNAPSHOTS_RECEIVED_MAX, WORK_IN_FLIGHT_MAX,
};
use super::messages::{ExtensionCall, ForwardAnswer, PeerProgress, ReadIndexAnswer};
use super::pending_handshakes::{PendingHandshakes, Seat};
use super::snapshot::SnapshotPort;
use super::{serving, snapshot};
use crate::format::types::{NodeId, TypeConfig};
use crate::metrics::Metrics;
use crate::origin::Origin;
use crate::tasks;

/// Pause after a failed accept (mostly for lack of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Services of a node for its peers in addition to consensus.
pub trait PeerService: Send + Sync + 'static {
    /// Reports whether this node has the row of the level that exists in tests.
    #[cfg(feature = "next-level")]
    fn has_next_level(&self) -> bool {
        false
    }

    /// Proposes a command that a peer received from its client. Never forwards it again.
    fn forward(&self, command: Bytes) -> impl Future<Output = ForwardAnswer> + Send;

    /// Confirms leadership and returns the index that a linearizable read has to wait for.
    fn read_index(&self) -> impl Future<Output = ReadIndexAnswer> + Send;

    /// Returns the progress of this node, and the reason why it does not reach the peer that asks.
    fn progress(&self, asker: NodeId) -> PeerProgress;

    /// Records that this node accepted an append of its leader, possibly an empty one.
    fn hear_leader(&self);

    /// Records that bytes of an append arrived from this node, which may be the leader.
    fn hear_bytes_of(&self, node_id: NodeId);

    /// Answers a call for the room above consensus; an error refuses it, for the reason that it names.
    fn extension(&self, call: ExtensionCall, body: Bytes) -> impl Future<Output = Result<Bytes, String>> + Send;
}

/// Shared state of the connections.
pub(super) struct ServerContext<SM, S, P>
where
    SM: RaftStateMachine<TypeConfig>,
{
    pub(super) raft: Raft<TypeConfig, SM>,
    pub(super) service: S,
    port: P,
    credentials: Credentials,
    pub(super) introductions: Arc<dyn Introductions>,
    pub(super) metrics: Arc<Metrics>,
    handshake_within: Duration,
    pending: Arc<PendingHandshakes>,
    guests: Arc<Semaphore>,
    snapshots: Semaphore,
    pub(super) work: Arc<Semaphore>,
    pub(super) raft_calls: Arc<Semaphore>,
    /// Calls in progress.
    pub(super) calls: TaskTracker,
}

/// Server of the peer wire.
pub struct PeerServer<SM, S, P>
where
    SM: RaftStateMachine<TypeConfig>,
{
    pub(super) context: Arc<ServerContext<SM, S, P>>,
}

impl<SM, S, P> PeerServer<SM, S, P>
where
    SM: RaftStateMachine<TypeConfig, SnapshotData = P::Data>,
    S: PeerService,
    P: SnapshotPort,
{
    pub fn new(
        raft: Raft<TypeConfig, SM>,
        service: S,
        port: P,
        credentials: Credentials,
        introductions: Arc<dyn Introductions>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let room = |permits| Arc::new(Semaphore::new(permits));
        let context = ServerContext {
            raft,
            service,
            port,
            credentials,
            introductions,
            metrics,
            handshake_within: HANDSHAKE_WITHIN,
            pending: Arc::default(),
            guests: room(CONNECTIONS_MAX),
            snapshots: Semaphore::new(SNAPSHOTS_RECEIVED_MAX),
            work: room(WORK_IN_FLIGHT_MAX),
            raft_calls: room(RAFT_IN_FLIGHT_MAX),
            calls: TaskTracker::new(),
        };
        PeerServer { context: Arc::new(context) }
    }

    /// Sets another time limit for handshakes than [`HANDSHAKE_WITHIN`].
    #[cfg(test)]
    pub(super) fn with_handshake_within(mut self, limit: Duration) -> Self {
        Arc::get_mut(&mut self.context).expect("not serving yet").handshake_within = limit;
        self
    }

    /// Returns the tracker of calls in progress, including those whose connection is closed.
    pub(crate) fn calls(&self) -> TaskTracker {
        self.context.calls.clone()
    }

    /// Accepts connections until `shutdown`; returns when every connection is closed. Calls that peers made before are
    /// still performed, but not answered.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        let connections = TaskTracker::new();
        while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, peer)) => self.admit(stream, Origin::of(peer.ip()), &connections, &shutdown),
                Err(error) => {
                    tracing::warn!(%error, "a peer connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
    }

    fn admit(&self, stream: TcpStream, origin: Origin, connections: &TaskTracker, shutdown: &CancellationToken) {
        let (context, seat, shutdown) = (self.context.clone(), self.context.pending.enter(origin), shutdown.clone());
        tasks::errand_in(connections, async move { shutdown.run_until_cancelled(context.attend(stream, seat)).await });
    }
}

impl<SM, S, P> ServerContext<SM, S, P>
where
    SM: RaftStateMachine<TypeConfig, SnapshotData = P::Data>,
    S: PeerService,
    P: SnapshotPort,
{
    /// Serves one connection from its first byte to its last.
    async fn attend(self: Arc<Self>, stream: TcpStream, seat: Seat) {
        let handshake = timeout(self.handshake_within, receive(stream, &self.credentials, &*self.introductions));
        let met = tokio::select! {
            handshake = handshake => handshake.unwrap_or(Err(Turned("slow"))),
            () = seat.taken_away() => Err(Turned("crowded")),
        };
        let (connection, purpose, hello) = match met {
            Ok(met) => met,
            Err(turned) => return self.refuse(turned),
        };
        seat.recognise();
        drop(seat);
        let Ok(_guest) = self.guests.clone().try_acquire_owned() else { return self.refuse(Turned("crowded")) };
        let end = match purpose {
            Purpose::Control => serving::control(&self, hello.node_id, connection).await,
            Purpose::Append => serving::append(&self, hello.node_id, connection).await,
            Purpose::Snapshot => self.take_snapshot(connection).await,
        };
        if let Err(error) = end {
            if error.kind() == std::io::ErrorKind::InvalidData {
                tracing::warn!(peer = hello.node_id, ?purpose, %error, "a peer sent an unreadable frame");
                self.refuse(Turned("frame"));
            } else {
                // The link to the peer logs its loss, once.
                tracing::debug!(peer = hello.node_id, ?purpose, %error, "a peer connection ended");
            }
        }
    }

    pub(super) fn refuse(&self, turned: Turned) {
        tracing::debug!(reason = turned.0, "a peer connection was refused");
        self.metrics.peer_refused.with_label_values(&[turned.0]).inc();
    }

    async fn take_snapshot(&self, connection: super::frame::Connection) -> std::io::Result<()> {
        let Ok(_turn) = self.snapshots.try_acquire() else {
            self.refuse(Turned("crowded"));
            return Ok(());
        };
        let install = |vote, snapshot| async move {
            self.raft.install_full_snapshot(vote, snapshot).await.map_err(|fatal| fatal.to_string())
        };
        snapshot::receive(connection, &self.port, install).await
    }
}
