//! Calls with a large body, each on its own connection: over a slow link it takes minutes, and nothing else has to wait
//! for it.
//!
//! The connection is a control connection like that of a [`Link`], so the server does not distinguish the two. A caller
//! that gives up does not cancel the call: a half-sent body would have to be sent again from the beginning.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::tasks;

use super::call::{Call, CallError, Outstanding, Ticket};
use super::frame::{Connection, Outbox};
use super::handshake::{Purpose, dial_as};
use super::limits::{CALLS_ALONE_MAX, transfer_time};
use super::link::Link;
use super::messages::Kind;
use super::peers::Local;

/// Permits for the large calls of this node.
#[derive(Clone)]
pub(super) struct DedicatedConnection {
    places: Arc<Semaphore>,
}

impl Default for DedicatedConnection {
    fn default() -> Self {
        DedicatedConnection { places: Arc::new(Semaphore::new(CALLS_ALONE_MAX)) }
    }
}

impl DedicatedConnection {
    /// Forwards `body` and waits for the answer at most `within`. The call itself continues until it is answered, or
    /// until `within` has passed after its last byte moved.
    pub(super) async fn call(
        &self,
        local: Arc<Local>,
        link: &Link,
        body: Bytes,
        within: Duration,
    ) -> Result<Bytes, CallError> {
        let deadline = Instant::now() + within;
        let busy = |_| CallError::NotSent("too many large calls are on their way".to_owned());
        let place = timeout_at(deadline, self.places.clone().acquire_owned()).await.map_err(busy)?;
        let (target, address) = (link.target, link.address());
        let (reply, answer) = oneshot::channel();
        tasks::errand(async move {
            let _place = place;
            let dialled = dial_as(&*local.introductions, &local.credentials, &address, target, Purpose::Control).await;
            match dialled {
                Ok((connection, _)) => converse(connection, body, reply, within).await,
                // The receiver is gone if the caller is.
                Err(error) => drop(reply.send(Err(CallError::NotSent(error.to_string())))),
            }
        });
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(CallError::Unknown("the connection was lost".to_owned())),
            Err(_) => Err(CallError::Unknown(format!("node {target} did not answer within {within:?}"))),
        }
    }
}

async fn converse(
    connection: Connection,
    body: Bytes,
    reply: oneshot::Sender<Result<Bytes, CallError>>,
    within: Duration,
) {
    let Connection { mut reader, mut writer } = connection;
    let (mut outbox, mut calls) = (Outbox::default(), Outstanding::new());
    let (inner, mut answer) = oneshot::channel();
    calls.write(Call { kind: Kind::Forward, body, ticket: Arc::new(Ticket::default()), reply: inner }, &mut outbox);
    let mut last_wrote = Instant::now();
    let end = loop {
        let due = last_wrote.max(reader.last_byte()) + within + transfer_time(outbox.len());
        tokio::select! {
            answered = &mut answer => break answered.map_err(|_| "the call was lost".to_owned()),
            frame = reader.next() => match frame {
                Some(Ok(frame)) => if let Err(error) = calls.settle(frame) { break Err(error) },
                Some(Err(error)) => break Err(error.to_string()),
                None => break Err("closed by the peer".to_owned()),
            },
            written = outbox.write_some(&mut writer), if !outbox.is_empty() => match written {
                Ok(()) => last_wrote = Instant::now(),
                Err(error) => break Err(error.to_string()),
            },
            () = sleep_until(due) => break Err(format!("no answer within {within:?} after the last byte")),
        }
    };
    // The peer cannot have read a frame that was not sent completely.
    let failed = |text: String| if outbox.is_empty() { CallError::Unknown(text) } else { CallError::NotSent(text) };
    drop(reply.send(end.unwrap_or_else(|text| Err(failed(text)))));
}
