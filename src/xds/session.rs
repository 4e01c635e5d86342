//! Session of a stream: feeds it with requests, state changes, time and shutdown, and sends its responses.
//!
//! A response is built only when there is room for it, so a slow client gets the newest state and skips the states
//! before.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::client::{Client, Identity, Peer};
use super::delta::Delta;
use super::end::StreamEnd;
use super::protocol::ProtocolVariant;
use super::sotw::Sotw;
use super::stream_state::{Event, StreamFault};
use super::type_state::Now;
use super::{Source, View};
use crate::budget::Held;
use crate::catalog::client_refusals::ClientRefusal;
use crate::catalog::history::Thing;
use crate::log_once::LogOnce;
use crate::metrics::Metrics;
use crate::model::limits;
use crate::model::mesh::resource::ResourceType;
use crate::model::text::first_bytes;
use crate::model::time::Timestamp;
use crate::origin::Short;
use crate::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use crate::reads::catch_up::Reached;
use crate::subscribers::Subscribers;
use crate::subscribers::streams::{Registered, StreamClient};
use crate::tasks::in_place;

/// Minimum time between two log lines about the same client.
const LOG_PAUSE: Duration = Duration::from_secs(60);
/// Random variation of stream ages in percent, so that clients do not reconnect all at once.
const AGE_SPREAD_PERCENT: u32 = 10;
const LOGGED_ID_BYTES: usize = 128;

/// Parts of the node that streams use.
pub struct Context {
    pub subscribers: Arc<Subscribers>,
    pub metrics: Arc<Metrics>,
    /// Id of this node, sent to clients.
    pub node: String,
    /// Age at which streams end, varied by [`AGE_SPREAD_PERCENT`]; none for unlimited.
    pub max_age: Option<Duration>,
    pub shutdown: CancellationToken,
    /// Clock of the cluster.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Service of streams over the resources of this node.
pub struct Session<S> {
    source: Arc<S>,
    context: Context,
    control_plane: Arc<str>,
    refusals: LogOnce<(ResourceType, String)>,
    too_large: LogOnce<(ResourceType, String)>,
    too_many: LogOnce<(bool, String)>,
    /// Permits for processing a stream, which limit how many build resources at the same time.
    turns: Semaphore,
}

impl<S: Source> Session<S> {
    pub fn new(source: Arc<S>, context: Context) -> Session<S> {
        let control_plane = format!("thuban {}", context.node).into();
        let (refusals, too_large) = (LogOnce::every(LOG_PAUSE), LogOnce::every(LOG_PAUSE));
        let too_many = LogOnce::every(LOG_PAUSE);
        Session { source, context, control_plane, refusals, too_large, too_many, turns: Semaphore::new(turns()) }
    }

    /// Serves a SotW stream until it ends. `room` is charged with the memory of its state.
    pub async fn serve_sotw<E>(
        &self,
        peer: Peer,
        room: Held,
        requests: impl Stream<Item = Result<DiscoveryRequest, E>> + Send + Unpin,
        responses: mpsc::Sender<Box<DiscoveryResponse>>,
    ) -> StreamEnd {
        self.serve::<Sotw, E>(peer, room, requests, responses).await
    }

    /// Serves a delta stream until it ends. `room` is charged with the memory of its state.
    pub async fn serve_delta<E>(
        &self,
        peer: Peer,
        room: Held,
        requests: impl Stream<Item = Result<DeltaDiscoveryRequest, E>> + Send + Unpin,
        responses: mpsc::Sender<Box<DeltaDiscoveryResponse>>,
    ) -> StreamEnd {
        self.serve::<Delta, E>(peer, room, requests, responses).await
    }

    async fn serve<M: ProtocolVariant, E>(
        &self,
        peer: Peer,
        room: Held,
        mut requests: impl Stream<Item = Result<M::Request, E>> + Send + Unpin,
        responses: mpsc::Sender<Box<M::Response>>,
    ) -> StreamEnd {
        if !self.source.is_ready() {
            return StreamEnd::NotReady;
        }
        let ending = self.ending();
        tokio::pin!(ending);
        let first = tokio::select! {
            end = &mut ending => return end,
            () = responses.closed() => return StreamEnd::Closed,
            first = requests.next() => first,
        };
        let Some(Ok(mut first)) = first else { return StreamEnd::Closed };
        // Boxed, so that it is moved only once.
        let mut running = Box::new(self.begin::<M>(&first, &peer, room));
        // The description was read and may be large.
        M::forget_node(&mut first);
        tokio::select! {
            end = &mut ending => end,
            Err(end) = running.run(first, requests, responses) => end,
        }
    }

    /// Waits until a stream reaches its maximum age or this node stops.
    async fn ending(&self) -> StreamEnd {
        let aged = async {
            match self.context.max_age {
                Some(age) => tokio::time::sleep(spread(age)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.context.shutdown.cancelled() => StreamEnd::Shutdown,
            () = aged => StreamEnd::Aged,
        }
    }

    fn begin<M: ProtocolVariant>(&self, first: &M::Request, peer: &Peer, room: Held) -> Running<'_, S, M> {
        let Identity { client, cut } = Identity::read(M::node(first), peer);
        self.context.metrics.xds_labels_cut.inc_by(cut as u64);
        let registered = self.context.subscribers.streams().begin(StreamClient {
            dialect: client.dialect,
            node_id: client.node_id.clone(),
            agent: client.agent.clone(),
            address: client.address,
            labels: client.labels.clone(),
            is_delta: M::IS_DELTA,
            since: (self.context.clock)(),
        });
        let mut protocol = M::new(client.dialect, self.control_plane.clone());
        protocol.state_mut().configure_steps(&client);
        let (changes, seen_change, is_counted) = (self.source.changes(), 0, [false; 4]);
        Running { session: self, changes, seen_change, client, protocol, registered, room, is_counted }
    }
}

/// A running stream.
struct Running<'a, S: Source, M: ProtocolVariant> {
    session: &'a Session<S>,
    changes: watch::Receiver<u64>,
    /// Number of the last change that was taken into account.
    seen_change: u64,
    client: Client,
    protocol: M,
    registered: Registered,
    /// Memory budget held for the stream's state.
    room: Held,
    /// Types for which the metrics count this stream.
    is_counted: [bool; 4],
}

/// Reason why no more responses are built for now.
#[derive(PartialEq, Eq)]
enum SendOutcome {
    NothingDue,
    NoRoom,
}

impl<S: Source, M: ProtocolVariant> Running<'_, S, M> {
    /// Serves the stream until it ends.
    async fn run<E>(
        &mut self,
        first: M::Request,
        mut requests: impl Stream<Item = Result<M::Request, E>> + Send + Unpin,
        responses: mpsc::Sender<Box<M::Response>>,
    ) -> Result<(), StreamEnd> {
        self.session.source.catch_up();
        self.take(first).await?;
        let mut outcome = self.send_ready(&responses).await?;
        loop {
            let deadline = self.protocol.state().deadline();
            tokio::select! {
                request = requests.next() => match request {
                    Some(Ok(request)) => self.take(request).await?,
                    Some(Err(_)) | None => return Err(StreamEnd::Closed),
                },
                changed = self.changes.changed() => {
                    changed.map_err(|_| StreamEnd::Shutdown)?;
                    if !self.is_affected() {
                        continue;
                    }
                }
                () = until(deadline), if outcome == SendOutcome::NothingDue => {}
                room = responses.reserve(), if outcome == SendOutcome::NoRoom => {
                    drop(room.map_err(|_| StreamEnd::Closed)?);
                }
                () = responses.closed() => return Err(StreamEnd::Closed),
            }
            outcome = self.send_ready(&responses).await?;
        }
    }

    /// Reports whether a resource that the stream subscribes to may have changed. If not, the change counts as
    /// processed.
    fn is_affected(&mut self) -> bool {
        let number = *self.changes.borrow_and_update();
        let touched = self.session.source.touched_since(self.seen_change);
        let state = self.protocol.state();
        let is_affected = touched.is_none_or(|all| all.iter().any(|one| state.is_affected(one, &self.client)));
        if !is_affected {
            self.seen_change = number;
        }
        is_affected
    }

    async fn take(&mut self, mut request: M::Request) -> Result<(), StreamEnd> {
        self.reach(&mut request).await?;
        let now = self.now();
        let source = &self.session.source;
        let turn = self.session.turns.acquire().await;
        let taken = self.protocol.take(request, &source.view(&self.client), now);
        drop(turn);
        self.report();
        let taken = taken.map_err(|fault| match fault {
            StreamFault::TooMany(text) => StreamEnd::TooMany(text),
            StreamFault::Invalid(text) => StreamEnd::Invalid(text),
        });
        taken.and_then(|()| self.charge()).inspect_err(|end| {
            if let StreamEnd::TooMany(reason) = end
                && self.session.too_many.is_due((true, self.logged_id().to_owned()))
            {
                let (node_id, address) = (self.logged_id(), self.client.address);
                tracing::warn!(node_id, ?address, reason, "ended an xDS stream whose client exceeds a limit");
            }
        })
    }

    /// Adjusts the budget to the current size of the stream's state.
    fn charge(&mut self) -> Result<(), StreamEnd> {
        let bytes = self.client.retained_bytes() + self.protocol.state().retained_bytes();
        let bytes = limits::XDS_STREAM_BYTES + bytes.saturating_sub(limits::XDS_STREAM_NAMES_BYTES);
        self.room.shrink_to(bytes);
        self.room.grow_to(bytes).map_err(|short| {
            let whose = match short {
                Short::Origin => "of one client",
                Short::Total => "of all clients",
            };
            StreamEnd::TooMany(format!("streams {whose} keep as much memory as they may"))
        })
    }

    fn logged_id(&self) -> &str {
        first_bytes(&self.client.node_id, LOGGED_ID_BYTES)
    }

    /// Waits until this node has applied what the client has seen elsewhere. An index that no node of this cluster
    /// knows belongs to another cluster; the client's versions are then ignored.
    async fn reach(&self, request: &mut M::Request) -> Result<(), StreamEnd> {
        let Some(index) = self.protocol.named_index(request) else { return Ok(()) };
        let Session { source, context, .. } = self.session;
        if source.view(&self.client).applied_index() >= index {
            return Ok(());
        }
        match source.reach(index).await {
            Reached::Here => {}
            Reached::Elsewhere => {
                context.metrics.foreign_ids.inc();
                M::forget_versions(request);
            }
            Reached::Unknown => return Err(StreamEnd::Behind),
        }
        Ok(())
    }

    /// Acquires a permit and sends responses while there is room.
    async fn send_ready(&mut self, responses: &mpsc::Sender<Box<M::Response>>) -> Result<SendOutcome, StreamEnd> {
        let _turn = self.session.turns.acquire().await;
        match self.protocol.state().is_large() {
            true => in_place(|| self.send_ready_now(responses)),
            false => self.send_ready_now(responses),
        }
    }

    fn send_ready_now(&mut self, responses: &mpsc::Sender<Box<M::Response>>) -> Result<SendOutcome, StreamEnd> {
        let now = self.now();
        let source = &self.session.source;
        // Later changes wake the stream again.
        let number = *self.changes.borrow_and_update();
        if number != self.seen_change {
            self.seen_change = number;
            self.protocol.state_mut().invalidate();
        }
        let view = source.view(&self.client);
        let outcome = loop {
            let room = match responses.try_reserve() {
                Ok(room) => room,
                Err(mpsc::error::TrySendError::Full(())) => break SendOutcome::NoRoom,
                Err(mpsc::error::TrySendError::Closed(())) => return Err(StreamEnd::Closed),
            };
            match self.protocol.next(&view, now) {
                Some(response) => room.send(Box::new(response)),
                None => break SendOutcome::NothingDue,
            }
        };
        drop(view);
        self.report();
        Ok(outcome)
    }

    fn now(&self) -> Now {
        Now { instant: Instant::now(), time: (self.session.context.clock)() }
    }

    /// Reports state changes to the register of clients, the metrics and the log.
    fn report(&mut self) {
        for event in self.protocol.state_mut().take_events() {
            self.report_event(event);
        }
        let streams = &self.session.context.metrics.xds_streams;
        for type_state in self.protocol.state_mut().type_states_mut() {
            let kind = type_state.kind;
            let Some(update) = type_state.take_update() else { continue };
            let is_counted = &mut self.is_counted[kind.index()];
            if update.is_subscribed != *is_counted {
                let gauge = streams.with_label_values(&[kind.label(), self.client.dialect.label()]);
                gauge.add(if update.is_subscribed { 1 } else { -1 });
                *is_counted = update.is_subscribed;
            }
            self.registered.replace(kind, update.clone());
        }
    }

    /// Queues a webhook event for each rule release that the refused response was built from.
    fn report_refusal(&self, kind: ResourceType) {
        let Some(refusal) = self.protocol.state().type_state(kind).last_refusal() else { return };
        let (address, agent) = (self.client.address.map(|one| one.to_string()).unwrap_or_default(), &self.client.agent);
        let refusals = self.session.context.subscribers.refusals();
        for release in refusal.resources.values().flat_map(|resource| &resource.releases) {
            let event = ClientRefusal {
                thing: Thing::Rule(release.rule.family(), release.rule.id.clone()),
                version: release.version,
                address: address.clone(),
                agent: agent.clone(),
                message: refusal.message.clone(),
                others: 0,
            };
            refusals.note([&address, agent, &self.client.node_id], event);
        }
    }

    fn report_event(&self, event: Event) {
        let Session { context, refusals, too_large, .. } = self.session;
        let (metrics, client) = (&context.metrics, self.client.dialect.label());
        let node_id = self.logged_id();
        match event {
            Event::Sent { kind, bytes } => {
                metrics.xds_responses.with_label_values(&[kind.label(), client]).inc();
                metrics.xds_response_bytes.with_label_values(&[kind.label(), client]).inc_by(bytes as u64);
            }
            Event::Refused(kind) => {
                self.report_refusal(kind);
                metrics.xds_nacks.with_label_values(&[kind.label(), client]).inc();
                if refusals.is_due((kind, node_id.to_owned())) {
                    tracing::warn!(kind = kind.label(), client, node_id, address = ?self.client.address,
                        "xDS client refused a response; thuban xds clients shows the reason");
                }
            }
            Event::ManyNames(names) => {
                if self.session.too_many.is_due((false, node_id.to_owned())) {
                    let (address, max) = (self.client.address, limits::XDS_NAMES_MAX);
                    tracing::warn!(node_id, ?address, names, max, "xDS stream is close to its limit of names");
                }
            }
            Event::TooLarge { kind, bytes } => {
                metrics.xds_too_large.with_label_values(&[kind.label(), client]).inc();
                if too_large.is_due((kind, node_id.to_owned())) {
                    tracing::warn!(
                        kind = kind.label(),
                        client,
                        node_id,
                        bytes,
                        "response exceeds the size limit of gRPC clients and was not sent"
                    );
                }
            }
        }
    }
}

impl<S: Source, M: ProtocolVariant> Drop for Running<'_, S, M> {
    fn drop(&mut self) {
        let streams = &self.session.context.metrics.xds_streams;
        for (kind, is_counted) in ResourceType::ALL.into_iter().zip(self.is_counted) {
            if is_counted {
                streams.with_label_values(&[kind.label(), self.client.dialect.label()]).dec();
            }
        }
    }
}

/// Returns the number of streams that are processed at the same time: one per processor, and at least two.
fn turns() -> usize {
    std::thread::available_parallelism().map_or(2, |count| count.get().max(2))
}

/// Returns an age varied by [`AGE_SPREAD_PERCENT`].
fn spread(age: Duration) -> Duration {
    let percent = rand::random_range(100 - AGE_SPREAD_PERCENT..=100 + AGE_SPREAD_PERCENT);
    age.saturating_mul(percent) / 100
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
