//! The control connection to one peer: dialled, kept alive and redialled by one task, and shared by
//! everybody in this process who has something to ask that peer.
//!
//! Calls are multiplexed: each has an id, and answers come in any order (see [`super::call`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::call::{Call, CallError, Outstanding, Ticket};
use super::frame::{Connection, Outbox};
use super::handshake::{IntroduceError, Purpose, dial_as};
use super::limits::{
    CALLS_QUEUED_MAX, OUTBOX_BYTES_MAX, PING_INTERVAL, REACHABLE_WITHIN, REDIAL_PAUSE_MAX, REDIAL_PAUSE_MIN,
};
use super::messages::Kind;
use super::peers::Local;
use crate::raft::types::NodeId;

/// The handle of a control connection; its task ends when the last handle is dropped.
pub(super) struct Link {
    pub(super) target: NodeId,
    pub(super) address: String,
    calls: mpsc::Sender<Call>,
    pulse: Arc<Pulse>,
    _stop: DropGuard,
}

impl Link {
    pub(super) fn start(local: Arc<Local>, target: NodeId, address: String) -> Self {
        let (calls, queue) = mpsc::channel(CALLS_QUEUED_MAX);
        let pulse =
            Arc::new(Pulse { label: target.to_string(), started: Instant::now(), last_pong: AtomicU64::new(0) });
        let stop = CancellationToken::new();
        let task = Task { local, target, address: address.clone(), queue, held: None, pulse: pulse.clone() };
        let stopped = stop.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(task.run()).await });
        Link { target, address, calls, pulse, _stop: stop.drop_guard() }
    }

    /// Asks the peer and waits for its answer, `within` at most.
    pub(super) async fn call(&self, kind: Kind, body: Bytes, within: Duration) -> Result<Bytes, CallError> {
        let (reply, answer) = oneshot::channel();
        let ticket = Arc::new(Ticket::default());
        let call = Call { kind, body, ticket: ticket.clone(), reply };
        let exchange = async {
            self.calls.send(call).await.ok()?;
            answer.await.ok()
        };
        let text = match timeout(within, exchange).await {
            Ok(Some(answer)) => return answer,
            Ok(None) => format!("the link to node {} is closed", self.target),
            Err(_) => format!("node {} did not answer within {within:?}", self.target),
        };
        Err(if ticket.take() { CallError::NotSent(text) } else { CallError::Unknown(text) })
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.pulse.is_reachable()
    }
}

/// What the pings tell.
struct Pulse {
    label: String,
    started: Instant,
    /// Microseconds after `started`, or 0 before the first pong.
    last_pong: AtomicU64,
}

impl Pulse {
    fn is_reachable(&self) -> bool {
        let last = self.last_pong.load(Ordering::Relaxed);
        last != 0 && self.started.elapsed().saturating_sub(Duration::from_micros(last)) <= REACHABLE_WITHIN
    }

    fn pong(&self, local: &Local, round_trip: Duration) {
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last_pong.store(micros.max(1), Ordering::Relaxed);
        local.metrics.peer_round_trip.with_label_values(&[&self.label]).set(round_trip.as_secs_f64());
        self.publish(local);
    }

    fn publish(&self, local: &Local) {
        local.metrics.peer_reachable.with_label_values(&[&self.label]).set(self.is_reachable().into());
    }
}

/// The task behind a [`Link`].
struct Task {
    local: Arc<Local>,
    target: NodeId,
    address: String,
    queue: mpsc::Receiver<Call>,
    /// A call that cut a pause short; the first to be written on the next connection.
    held: Option<Call>,
    pulse: Arc<Pulse>,
}

impl Task {
    async fn run(mut self) {
        let mut pause = REDIAL_PAUSE_MIN;
        let mut last_problem = None;
        loop {
            let Local { introductions, secret, .. } = &*self.local;
            match dial_as(&**introductions, secret, &self.address, self.target, Purpose::Control).await {
                Ok(connection) => {
                    tracing::info!(peer = self.target, address = self.address, "connected to a peer");
                    (pause, last_problem) = (REDIAL_PAUSE_MIN, None);
                    let end = self.converse(connection).await;
                    tracing::warn!(peer = self.target, reason = end, "the connection to a peer ended");
                }
                Err(problem) => {
                    self.refuse_waiting(&problem.to_string());
                    self.report(&mut last_problem, problem);
                }
            }
            self.pulse.publish(&self.local);
            self.pause(pause).await;
            pause = (pause * 2).min(REDIAL_PAUSE_MAX);
        }
    }

    /// Logs a problem when it is a new one: a peer that stays away is one line, not one a second.
    fn report(&self, last: &mut Option<IntroduceError>, problem: IntroduceError) {
        if last.as_ref() != Some(&problem) {
            tracing::warn!(peer = self.target, address = self.address, %problem, "a peer cannot be connected");
            *last = Some(problem);
        }
    }

    fn refuse_waiting(&mut self, text: &str) {
        for call in self.held.take().into_iter().chain(std::iter::from_fn(|| self.queue.try_recv().ok())) {
            call.refuse(text);
        }
    }

    /// Waits before the next dial; a call cuts it down to the shortest pause.
    async fn pause(&mut self, pause: Duration) {
        tokio::time::sleep(REDIAL_PAUSE_MIN).await;
        if let Ok(Some(call)) = timeout(pause - REDIAL_PAUSE_MIN, self.queue.recv()).await {
            self.held = Some(call);
        }
    }

    /// Serves one connection until it ends; says why it did.
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
            let has_room = outbox.len() < OUTBOX_BYTES_MAX && calls.has_room();
            tokio::select! {
                call = self.queue.recv(), if has_room => {
                    calls.write(call.ok_or("the link is closed")?, outbox);
                    // What is queued already leaves in the same system call.
                    while outbox.len() < OUTBOX_BYTES_MAX && calls.has_room() && let Ok(call) = self.queue.try_recv() {
                        calls.write(call, outbox);
                    }
                }
                frame = reader.next() => {
                    let frame = frame.ok_or("closed by the peer")?.map_err(|error| error.to_string())?;
                    if let Some(round_trip) = calls.settle(frame)? {
                        self.pulse.pong(&self.local, round_trip);
                    }
                }
                written = outbox.write_some(writer), if !outbox.is_empty() => {
                    written.map_err(|error| error.to_string())?;
                }
                _ = ticks.tick() => {
                    calls.ping(outbox)?;
                    self.pulse.publish(&self.local);
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
