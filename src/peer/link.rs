//! The control connection to one peer: dialled, maintained and redialled by one task, and shared by all callers in this
//! process.
//!
//! Calls are multiplexed: each has an id, and answers arrive in any order (see [`super::call`]).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::call::{Call, CallError, Outstanding, Ticket};
use super::frame::{Connection, Outbox};
use super::handshake::{IntroduceError, Purpose, dial_as};
use super::hello::Build;
use super::limits::{
    CALLS_BYTES_MAX, CALLS_QUEUED_MAX, PING_INTERVAL, REDIAL_PAUSE_MAX, REDIAL_PAUSE_MIN, SETTLED_AFTER,
};
use super::liveness::Liveness;
use super::messages::Kind;
use super::peers::Local;
use crate::format::types::NodeId;
use crate::tasks;

/// Handle on a control connection; its task ends when the last handle is dropped.
pub(super) struct Link {
    pub(super) target: NodeId,
    address: watch::Sender<String>,
    calls: mpsc::Sender<Call>,
    urgent: mpsc::Sender<Call>,
    /// Number of times that the append session to the peer was ended.
    cuts: watch::Sender<u64>,
    pulse: Arc<Liveness>,
    _stop: DropGuard,
}

impl Link {
    pub(super) fn start(local: Arc<Local>, target: NodeId, address: String) -> Self {
        let (calls, queue) = mpsc::channel(CALLS_QUEUED_MAX);
        let (urgent, urgent_queue) = mpsc::channel(CALLS_QUEUED_MAX);
        let pulse = Arc::new(Liveness::new(target, address.clone()));
        let stop = CancellationToken::new();
        let (address, addresses) = watch::channel(address);
        let task = Task { local, target, addresses, urgent: urgent_queue, queue, held: None, pulse: pulse.clone() };
        let stopped = stop.clone();
        tasks::needed("link", async move { stopped.run_until_cancelled(task.run()).await });
        Link { target, address, calls, urgent, cuts: watch::Sender::new(0), pulse, _stop: stop.drop_guard() }
    }

    /// Returns the address at which the peer is dialled.
    pub(super) fn address(&self) -> String {
        self.address.borrow().clone()
    }

    /// Sets the address of the peer; a connection to another one is closed.
    pub(super) fn move_to(&self, address: &str) {
        let moved = self.address.send_if_modified(|known| {
            let is_new = known != address;
            if is_new {
                address.clone_into(known);
            }
            is_new
        });
        if moved {
            self.pulse.move_to(address);
        }
    }

    /// Calls the peer and waits for its answer at most `within`.
    pub(super) async fn call(&self, kind: Kind, body: Bytes, within: Duration) -> Result<Bytes, CallError> {
        let (reply, answer) = oneshot::channel();
        let ticket = Arc::new(Ticket::default());
        let call = Call { kind, body, ticket: ticket.clone(), reply };
        let queue = if kind.is_urgent() { &self.urgent } else { &self.calls };
        let exchange = async {
            queue.send(call).await.ok()?;
            answer.await.ok()
        };
        let text = match timeout(within, exchange).await {
            Ok(Some(answer)) => return answer,
            Ok(None) => format!("the link to node {} is closed", self.target),
            Err(_) => format!("node {} did not answer within {within:?}", self.target),
        };
        Err(if ticket.take() { CallError::NotSent(text) } else { CallError::Unknown(text) })
    }

    /// Returns the reason why the peer is not reached.
    pub(super) fn problem(&self) -> Option<String> {
        self.pulse.problem()
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.pulse.is_reachable()
    }

    /// Returns the build of the peer, as reported on the open connection; `None` while there is none.
    pub(super) fn build(&self) -> Option<Build> {
        self.pulse.build()
    }

    /// Ends the append session to the peer, so that nothing is in flight to it; the next one starts at once.
    pub(super) fn cut_appends(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }

    pub(super) fn publish(&self, local: &Local) {
        self.pulse.publish(local);
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.pulse.round_trip()
    }

    /// Returns a receiver that changes when the peer arrives after it was away.
    pub(super) fn arrivals(&self) -> watch::Receiver<u64> {
        self.pulse.arrivals()
    }
}

/// The task of a [`Link`].
struct Task {
    local: Arc<Local>,
    target: NodeId,
    addresses: watch::Receiver<String>,
    /// Raft's own calls, which do not wait for others.
    urgent: mpsc::Receiver<Call>,
    queue: mpsc::Receiver<Call>,
    /// Call that ended a pause; it is the first to be written on the next connection.
    held: Option<Call>,
    pulse: Arc<Liveness>,
}

impl Task {
    async fn run(mut self) {
        let mut pause = REDIAL_PAUSE_MIN;
        loop {
            let address = self.addresses.borrow_and_update().clone();
            let local = self.local.clone();
            let dialled = tokio::select! {
                dialled = dial_as(&*local.introductions, &local.credentials, &address, self.target,
                    Purpose::Control) => dialled,
                Ok(()) = self.addresses.changed() => continue,
            };
            match dialled {
                Ok((connection, welcome)) => {
                    self.pulse.set_build(Some(welcome.build));
                    let begun = Instant::now();
                    let end = self.converse(connection).await;
                    self.pulse.set_build(None);
                    if self.queue.is_closed() {
                        return;
                    }
                    self.pulse.trouble(&format!("the connection was lost: {end}"), false);
                    if begun.elapsed() >= SETTLED_AFTER {
                        pause = REDIAL_PAUSE_MIN;
                    }
                }
                Err(problem) => {
                    let reason = problem.to_string();
                    self.refuse_waiting(&reason);
                    self.pulse.trouble(&reason, !matches!(problem, IntroduceError::Unreachable(_)));
                }
            }
            self.pulse.publish(&self.local);
            self.pause(pause).await;
            pause = (pause * 2).min(REDIAL_PAUSE_MAX);
        }
    }

    fn refuse_waiting(&mut self, text: &str) {
        let urgent = std::iter::from_fn(|| self.urgent.try_recv().ok());
        let others = std::iter::from_fn(|| self.queue.try_recv().ok());
        self.held.take().into_iter().chain(urgent).chain(others).for_each(|call| call.refuse(text));
    }

    /// Waits before the next dial; a call or another address shortens the pause to the minimum.
    async fn pause(&mut self, pause: Duration) {
        tokio::time::sleep(REDIAL_PAUSE_MIN).await;
        let cut = async {
            tokio::select! {
                call = self.urgent.recv() => call,
                call = self.queue.recv() => call,
                Ok(()) = self.addresses.changed() => None,
            }
        };
        if let Ok(Some(call)) = timeout(pause - REDIAL_PAUSE_MIN, cut).await {
            self.held = Some(call);
        }
    }

    /// Serves one connection until it ends; returns the reason.
    async fn converse(&mut self, connection: Connection) -> String {
        let mut conversation = Conversation { connection, outbox: Outbox::default(), calls: Outstanding::new() };
        let end = self.exchange(&mut conversation).await.expect_err("a conversation ends with a reason");
        conversation.calls.lose(&end);
        end
    }

    async fn exchange(&mut self, conversation: &mut Conversation) -> Result<std::convert::Infallible, String> {
        let Conversation { connection: Connection { reader, writer }, outbox, calls } = conversation;
        if let Some(call) = self.held.take() {
            calls.write(call, outbox);
        }
        let mut ticks = tokio::time::interval(PING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_room = outbox.len() < CALLS_BYTES_MAX && calls.has_room();
            tokio::select! {
                biased;
                Some(call) = self.urgent.recv() => calls.write(call, outbox),
                _ = ticks.tick() => {
                    calls.ping(outbox, reader.last_byte())?;
                    self.pulse.publish(&self.local);
                }
                written = outbox.write_some(writer), if !outbox.is_empty() => {
                    written.map_err(|error| error.to_string())?;
                }
                frame = reader.next() => {
                    let frame = frame.ok_or("closed by the peer")?.map_err(|error| error.to_string())?;
                    if let Some(round_trip) = calls.settle(frame)? {
                        self.pulse.pong(&self.local, round_trip);
                    }
                }
                Ok(()) = self.addresses.changed() => return Err("the address of the peer has changed".to_owned()),
                call = self.queue.recv(), if has_room => {
                    calls.write(call.ok_or("the link is closed")?, outbox);
                    // Queued calls leave in the same system call.
                    while outbox.len() < CALLS_BYTES_MAX && calls.has_room() && let Ok(call) = self.queue.try_recv() {
                        calls.write(call, outbox);
                    }
                }
            }
        }
    }
}

struct Conversation {
    connection: Connection,
    outbox: Outbox,
    calls: Outstanding,
}
