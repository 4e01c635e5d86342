//! Calls on a control connection.
//!
//! A caller without an answer needs to know whether the peer may have acted: [`CallError`] distinguishes the two cases,
//! and a [`Ticket`] decides the race between the task that writes a call and the caller that gives it up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::frame::Outbox;
use super::limits::{CALLS_OUTSTANDING_MAX, REACHABLE_WITHIN};
use super::messages::{Kind, Status, put_call, read_call};

/// Reason why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The peer has not acted: the call was not sent, or was refused. Safe to repeat.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The peer may have acted.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

pub(super) type Reply = oneshot::Sender<Result<Bytes, CallError>>;

/// Token of a call. The first to take it wins: the link, to write the call, or the caller, to withdraw it.
#[derive(Default)]
pub(super) struct Ticket(AtomicBool);

impl Ticket {
    pub(super) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

pub(super) struct Call {
    pub(super) kind: Kind,
    pub(super) body: Bytes,
    pub(super) ticket: Arc<Ticket>,
    pub(super) reply: Reply,
}

impl Call {
    pub(super) fn refuse(self, text: &str) {
        if self.ticket.take() {
            // The receiver is gone if the caller is.
            let _ = self.reply.send(Err(CallError::NotSent(text.into())));
        }
    }
}

/// Calls of one connection that were written and are not answered yet.
pub(super) struct Outstanding {
    replies: HashMap<u64, Reply>,
    last_id: u64,
    /// Id and time of the unanswered ping.
    ping: Option<(u64, Instant)>,
}

impl Outstanding {
    pub(super) fn new() -> Self {
        Outstanding { replies: HashMap::new(), last_id: 0, ping: None }
    }

    pub(super) fn has_room(&self) -> bool {
        self.replies.len() < CALLS_OUTSTANDING_MAX
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Puts a call into the outbox, unless its caller has withdrawn it. From then on its outcome is unknown until it is
    /// answered: part of the frame may reach the peer's kernel.
    pub(super) fn write(&mut self, call: Call, outbox: &mut Outbox) {
        if call.reply.is_closed() || !call.ticket.take() {
            return;
        }
        let id = self.next_id();
        match outbox.put(|out| put_call(out, call.kind as u8, id, &call.body)) {
            Ok(()) => drop(self.replies.insert(id, call.reply)),
            Err(error) => drop(call.reply.send(Err(CallError::NotSent(error.to_string())))),
        }
    }

    /// Sends a ping, or fails if the last one was not answered in time. Removes calls whose callers have given up,
    /// since their answers may never arrive.
    ///
    /// A peer that sends any bytes is alive: a pong may have to wait for a long answer.
    pub(super) fn ping(&mut self, outbox: &mut Outbox, last_byte: Instant) -> Result<(), String> {
        self.replies.retain(|_, reply| !reply.is_closed());
        if let Some((_, sent)) = self.ping {
            return match sent.max(last_byte).elapsed() >= REACHABLE_WITHIN {
                true => Err(format!("no pong within {REACHABLE_WITHIN:?}")),
                false => Ok(()),
            };
        }
        let id = self.next_id();
        self.ping = Some((id, Instant::now()));
        outbox.put(|out| put_call(out, Kind::Ping as u8, id, &[])).map_err(|error| error.to_string())
    }

    /// Passes an answer to its caller; returns the round trip if it was a pong.
    pub(super) fn settle(&mut self, frame: Bytes) -> Result<Option<Duration>, String> {
        let (status, id, body) = read_call(frame).map_err(|error| error.to_string())?;
        let status = Status::from_byte(status).ok_or("an answer with an unknown status")?;
        if let Some((ping, sent)) = self.ping
            && ping == id
        {
            self.ping = None;
            return Ok(Some(sent.elapsed()));
        }
        // An answer after the caller's deadline has no receiver, which is no error.
        if let Some(reply) = self.replies.remove(&id) {
            let text = || String::from_utf8_lossy(&body).into_owned();
            let _ = reply.send(match status {
                Status::Answered => Ok(body),
                Status::Refused => Err(CallError::NotSent(text())),
                Status::Failed => Err(CallError::Unknown(text())),
            });
        }
        Ok(None)
    }

    pub(super) fn lose(&mut self, reason: &str) {
        for (_, reply) in self.replies.drain() {
            let _ = reply.send(Err(CallError::Unknown(format!("the connection was lost: {reason}"))));
        }
    }
}
