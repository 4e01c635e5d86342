//! openraft's view of the wire: a factory of clients, one per target and use.
//!
//! Elections, leadership transfers and heartbeats are calls on the control connection, so that no bulk transfer delays
//! them. Log replication and snapshots use separate connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use openraft::OptionalSend;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::SnapshotOf;
use prometheus::IntCounter;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::append::{Parking, Route, Session};
use super::backoff::{self, SharedBackoff};
use super::call::CallError;
use super::handshake::{Purpose, dial_as};
use super::limits::APPEND_ANSWERED_WITHIN;
use super::link::Link;
use super::messages::{AppendParts, Kind};
use super::peers::Peers;
use super::snapshot::{self, SnapshotPort};
use crate::format::codec;
use crate::format::types::{Member, NodeId, TypeConfig, Vote};

/// Factory of openraft's clients.
pub struct PeerNetwork<P> {
    peers: Peers,
    port: P,
}

impl<P: SnapshotPort> PeerNetwork<P> {
    pub fn new(peers: Peers, port: P) -> Self {
        PeerNetwork { peers, port }
    }

    fn client(&self, target: NodeId, member: &Member, pipelined: bool) -> PeerClient<P> {
        let link = self.peers.link(target, &member.peer);
        PeerClient {
            arrivals: link.arrivals(),
            link,
            peers: self.peers.clone(),
            port: self.port.clone(),
            pipelined,
            parking: Parking::default(),
            backoff: SharedBackoff::default(),
        }
    }
}

impl<P: SnapshotPort> RaftNetworkFactory<TypeConfig> for PeerNetwork<P> {
    type Network = PeerClient<P>;

    async fn new_client(&mut self, target: NodeId, node: &Member) -> PeerClient<P> {
        self.client(target, node, true)
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, node: &Member) -> PeerClient<P> {
        self.client(target, node, false)
    }
}

/// openraft's client of one peer, for one use.
pub struct PeerClient<P> {
    link: Arc<Link>,
    peers: Peers,
    port: P,
    /// True if appends use their own connection, false if they use the control connection.
    pipelined: bool,
    parking: Parking,
    /// Failed append sessions, and the pause before the next one.
    backoff: SharedBackoff,
    arrivals: watch::Receiver<u64>,
}

impl<P: SnapshotPort> PeerClient<P> {
    async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        (kind, action): (Kind, RPCTypes),
        question: &Q,
        option: &RPCOption,
    ) -> Result<A, RPCError<TypeConfig>> {
        self.ask_bytes((kind, action), codec::to_bytes(question).into(), option.soft_ttl()).await
    }

    async fn ask_bytes<A: DeserializeOwned>(
        &self,
        (kind, action): (Kind, RPCTypes),
        question: Bytes,
        within: Duration,
    ) -> Result<A, RPCError<TypeConfig>> {
        let asked = tokio::time::Instant::now();
        match self.link.call(kind, question, within).await {
            Ok(answer) => codec::from_bytes(&answer).map_err(|error| NetworkError::new(&error).into()),
            Err(_) if asked.elapsed() >= within => Err(self.timeout(action, within)),
            Err(error @ CallError::NotSent(_)) => Err(Unreachable::new(&error).into()),
            Err(error @ CallError::Unknown(_)) => Err(NetworkError::new(&error).into()),
        }
    }

    fn timeout(&self, action: RPCTypes, timeout: Duration) -> RPCError<TypeConfig> {
        let Route { from, to } = self.route();
        Timeout { action, id: from, target: to, timeout }.into()
    }

    fn route(&self) -> Route {
        Route { from: self.peers.local.node_id, to: self.link.target }
    }

    async fn dial(&self, purpose: Purpose) -> Result<super::frame::Connection, Unreachable<TypeConfig>> {
        let local = &self.peers.local;
        let (target, address) = (self.link.target, self.link.address());
        let dialled = dial_as(&*local.introductions, &local.credentials, &address, target, purpose).await;
        dialled.map(|(connection, _)| connection).map_err(|error| Unreachable::new(&error))
    }

    /// Opens a session. Waits first after failures, because openraft retries at once.
    async fn open_session<S>(&mut self, input: S) -> Result<Session<S>, RPCError<TypeConfig>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        let connection = match self.parking.take() {
            Some(parked) => parked,
            None => {
                self.backoff.wait(&mut self.arrivals).await;
                let dialled = self.dial(Purpose::Append).await;
                dialled.inspect_err(|_| self.account().note(false))?
            }
        };
        let session = Session::new(connection, input, APPEND_ANSWERED_WITHIN, self.parking.clone(), self.route());
        let link = self.link.clone();
        Ok(session.ended_by(self.link.cuts()).while_there(move || link.is_reachable()))
    }

    /// Returns the account in which results of appends to this peer are recorded.
    fn account(&self) -> AppendAccount {
        let failures = &self.peers.local.metrics.peer_append_failures;
        AppendAccount {
            backoff: self.backoff.clone(),
            failures: failures.with_label_values(&[&self.link.target.to_string()]),
        }
    }
}

impl<P: SnapshotPort> RaftNetworkV2<TypeConfig> for PeerClient<P> {
    type SnapshotData = P::Data;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let mut body = BytesMut::new();
        let mut parts = AppendParts::new(&request);
        let (write, covered) = parts.next().expect("a fresh request has a first part");
        write(&mut body);
        let kind = (Kind::Append, RPCTypes::AppendEntries);
        let answer = self.ask_bytes(kind, body.freeze(), option.soft_ttl()).await?;
        // openraft sends the rest again.
        Ok(match answer {
            AppendEntriesResponse::Success if !parts.is_finished() => AppendEntriesResponse::PartialSuccess(covered),
            answer => answer,
        })
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<
        's,
        Result<BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>>, RPCError<TypeConfig>>,
    >
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        if !self.pipelined {
            return stream_append_sequential(self, input, option);
        }
        Box::pin(async move {
            let (session, account) = (self.open_session(input).await?, self.account());
            Ok(session.answers().inspect(move |answer| account.note(answer.is_ok())).boxed())
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.ask((Kind::Vote, RPCTypes::Vote), &request, &option).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.ask((Kind::PreVote, RPCTypes::Vote), &request, &option).await
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.ask((Kind::TransferLeader, RPCTypes::TransferLeader), &request, &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<TypeConfig, P::Data>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let transfer = async {
            // Registered before the dial: a peer that has just started takes a moment to answer, in which the log that
            // follows this snapshot must not be purged.
            let mut under_way = self.peers.transfers.begin(self.link.target);
            let connection = self.dial(Purpose::Snapshot).await?;
            under_way.let_in();
            let sent = snapshot::send(connection, &self.port, vote, snapshot).await;
            sent.map_err(|error| StreamingError::from(Unreachable::new(&error)))
        };
        let result = tokio::select! {
            closed = cancel => Err(closed.into()),
            result = transfer => result,
        };
        let event = if result.is_ok() { "sent" } else { "failed" };
        self.peers.local.metrics.snapshots.with_label_values(&[event]).inc();
        result
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(backoff::pauses()))
    }
}

struct AppendAccount {
    backoff: SharedBackoff,
    failures: IntCounter,
}

impl AppendAccount {
    fn note(&self, succeeded: bool) {
        self.backoff.note(succeeded);
        if !succeeded {
            self.failures.inc();
        }
    }
}
