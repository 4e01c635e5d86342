//! The sending end of log replication: a dedicated connection on which append frames are pipelined.
//!
//! One [`Session`] is one call of openraft's `stream_append`. It is a stream that does all its work when polled
//! (accepts requests, writes frames, reads answers), so no task can leak, and the back-pressure of the socket reaches
//! the log reader.
//!
//! A request with a commit index and no entries is held for a moment while answers are outstanding: the next request
//! includes it, and under load follows at once. So a batch costs one frame and one answer instead of two of each.
//!
//! A session that ends with everything acknowledged parks its connection for the next one: probing a follower's log
//! takes several sessions of one request each.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use openraft::errors::{NetworkError, RPCError, Timeout};
use openraft::network::RPCTypes;
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::frame::{Connection, Outbox};
use super::limits::{
    APPEND_KEEPALIVE, APPEND_PARKED_MAX, APPENDS_OUTSTANDING_MAX, COMMIT_HELD_MAX, OUTBOX_BYTES_MAX, transfer_time,
};
use super::messages::AppendParts;
use crate::format::codec;
use crate::format::types::{NodeId, TypeConfig};

/// Pause between two checks whether a peer that owes an answer is alive.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

type Request = AppendEntriesRequest<TypeConfig>;
type Answer = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>;

/// Slot for a connection between two sessions.
#[derive(Clone, Default)]
pub(super) struct Parking(Arc<parking_lot::Mutex<Option<(Instant, Connection)>>>);

impl Parking {
    pub(super) fn take(&self) -> Option<Connection> {
        let (since, connection) = self.0.lock().take()?;
        (since.elapsed() < APPEND_PARKED_MAX).then_some(connection)
    }

    fn park(&self, connection: Connection) {
        *self.0.lock() = Some((Instant::now(), connection));
    }
}

/// The two ends of a session, for errors.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
}

pub(super) struct Session<S> {
    route: Route,
    input: S,
    input_ended: bool,
    connection: Connection,
    outbox: Outbox,
    /// Bytes of each unanswered frame.
    outstanding: VecDeque<usize>,
    outstanding_bytes: usize,
    /// Request without entries that waits for the next one, and its time limit.
    held: Option<(Request, Instant)>,
    held_max: Duration,
    last_wrote: Instant,
    patience: Duration,
    parking: Parking,
    /// Changes when the session has to end, whatever is in flight.
    cuts: Option<watch::Receiver<u64>>,
    /// Check whether the peer answers pings on the control connection.
    is_there: Box<dyn Fn() -> bool + Send + Sync>,
    /// Time of the next check whether a peer that owes an answer is alive.
    looks_at: Instant,
}

impl<S> Session<S>
where
    S: Stream<Item = Request> + Send + Unpin + 'static,
{
    /// Creates a session. `patience` is the time in which an answer has to arrive after the last byte moved, in
    /// addition to the transfer time of the bytes.
    pub(super) fn new(connection: Connection, input: S, patience: Duration, parking: Parking, route: Route) -> Self {
        Session {
            route,
            input,
            input_ended: false,
            connection,
            outbox: Outbox::default(),
            outstanding: VecDeque::new(),
            outstanding_bytes: 0,
            held: None,
            held_max: COMMIT_HELD_MAX,
            last_wrote: Instant::now(),
            patience,
            parking,
            cuts: None,
            is_there: Box::new(|| true),
            looks_at: Instant::now(),
        }
    }

    /// Makes the session end when `cuts` changes.
    pub(super) fn ended_by(self, cuts: watch::Receiver<u64>) -> Self {
        Session { cuts: Some(cuts), ..self }
    }

    /// Grants the transfer time of bytes only while `is_there` holds: a stopped process receives none.
    pub(super) fn while_there(self, is_there: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Session { is_there: Box::new(is_there), ..self }
    }

    /// Replaces the limit for which a commit index is held.
    #[cfg(test)]
    pub(super) fn holding_for(self, held_max: Duration) -> Self {
        Session { held_max, ..self }
    }

    /// Returns the answers in the order of the requests. After an error, or after an answer that ends openraft's
    /// session on the follower (a conflict, a higher vote), the connection is dropped.
    pub(super) fn answers(self) -> impl Stream<Item = Answer> + Send + 'static {
        futures_util::stream::unfold(Some(self), |session| async move {
            let mut session = session?;
            match session.next_answer().await {
                Ok(Some(answer)) if answer.is_ok() => Some((Ok(answer), Some(session))),
                Ok(Some(answer)) => Some((Ok(answer), None)),
                Ok(None) => {
                    session.parking.park(session.connection);
                    None
                }
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Drives the connection until an answer arrives, or until everything is sent and answered.
    async fn next_answer(&mut self) -> Result<Option<StreamAppendResult<TypeConfig>>, RPCError<TypeConfig>> {
        loop {
            self.release_held()?;
            if self.input_ended && self.outstanding.is_empty() && self.outbox.is_empty() {
                return Ok(None);
            }
            let wants_input = !self.input_ended
                && self.outbox.len() < OUTBOX_BYTES_MAX
                && self.outstanding.len() < APPENDS_OUTSTANDING_MAX;
            let alarm = self.alarm();
            let held_until = self.held.as_ref().map(|(_, until)| *until);
            tokio::select! {
                frame = self.connection.reader.next() => {
                    self.outstanding_bytes -= self.outstanding.pop_front().unwrap_or_default();
                    let frame = frame.ok_or(io::ErrorKind::UnexpectedEof).map_err(io::Error::from).flatten();
                    return frame.and_then(|frame| codec::from_bytes(&frame)).map(Some).map_err(lost);
                }
                request = self.input.next(), if wants_input => match request {
                    Some(request) => self.take(request)?,
                    None => self.input_ended = true,
                },
                written = self.outbox.write_some(&mut self.connection.writer), if !self.outbox.is_empty() => {
                    written.map_err(lost)?;
                    self.last_wrote = Instant::now();
                }
                () = cut(&mut self.cuts) => return Err(lost(io::Error::other("ended, as the log it carries is to go"))),
                // Released in the next iteration.
                () = sleep_until(held_until.unwrap_or(alarm)), if held_until.is_some() => {}
                () = sleep_until(alarm) => self.wake()?,
            }
        }
    }

    /// Accepts a request. It replaces a held one, as a later request includes everything in an earlier one.
    fn take(&mut self, request: Request) -> Result<(), RPCError<TypeConfig>> {
        self.held = None;
        if request.entries.is_empty() && !self.outstanding.is_empty() {
            self.held = Some((request, Instant::now() + self.held_max));
            return Ok(());
        }
        self.encode(&request)
    }

    /// Sends the held request once there is no reason to wait.
    fn release_held(&mut self) -> Result<(), RPCError<TypeConfig>> {
        let is_due = |until: Instant| self.outstanding.is_empty() || self.input_ended || until <= Instant::now();
        match self.held.take_if(|(_, until)| is_due(*until)) {
            Some((request, _)) => self.encode(&request),
            None => Ok(()),
        }
    }

    fn encode(&mut self, request: &Request) -> Result<(), RPCError<TypeConfig>> {
        let mut parts = AppendParts::new(request);
        while let Some((write, _)) = parts.next() {
            let before = self.outbox.len();
            if self.outstanding.is_empty() {
                // The time to an answer starts with the request.
                self.last_wrote = Instant::now();
            }
            self.outbox.put(write).map_err(lost)?;
            let bytes = self.outbox.len() - before;
            self.outstanding.push_back(bytes);
            self.outstanding_bytes += bytes;
        }
        Ok(())
    }

    /// Returns the time at which to stop waiting: when an answer is due, or else when the connection needs a keepalive.
    fn alarm(&self) -> Instant {
        if self.outstanding.is_empty() {
            return self.last_wrote + APPEND_KEEPALIVE;
        }
        self.answer_due().max(self.looks_at).min(self.answer_due_at_last())
    }

    /// Returns the time at which an answer is due if all bytes have arrived.
    fn answer_due(&self) -> Instant {
        self.last_wrote.max(self.connection.reader.last_byte()) + self.patience
    }

    /// Returns the time at which an answer is due if the bytes pass the slowest supported link.
    fn answer_due_at_last(&self) -> Instant {
        self.answer_due() + transfer_time(self.outstanding_bytes)
    }

    fn wake(&mut self) -> Result<(), RPCError<TypeConfig>> {
        if Instant::now() < self.alarm() {
            // Bytes of an incomplete answer have arrived meanwhile.
            return Ok(());
        }
        if !self.outstanding.is_empty() && Instant::now() < self.answer_due_at_last() && (self.is_there)() {
            self.looks_at = Instant::now() + LOOK_PAUSE;
            return Ok(());
        }
        if self.outstanding.is_empty() {
            self.last_wrote = Instant::now();
            return self.outbox.put(|_| ()).map_err(lost);
        }
        let Route { from, to } = self.route;
        Err(Timeout { action: RPCTypes::AppendEntries, id: from, target: to, timeout: self.patience }.into())
    }
}

async fn cut(cuts: &mut Option<watch::Receiver<u64>>) {
    if let Some(cuts) = cuts
        && cuts.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Converts the failure of an open connection, after which an immediate retry makes sense.
fn lost(error: io::Error) -> RPCError<TypeConfig> {
    NetworkError::new(&error).into()
}
