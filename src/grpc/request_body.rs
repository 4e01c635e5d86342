//! Request bodies of all services except the discovery service ([`super::requests`]). Each message has a size and a
//! time limit and is charged to the budget of its client from its first byte until the service asks for the next one.

use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use crate::budget::{Budget, Held};
use crate::model::limits;
use crate::origin::{Origin, Short};

/// Bytes before each message: a compression flag and the length.
pub(super) const HEADER_BYTES: usize = 5;

/// Returns the time limit for a message of this size, counted from its first byte.
pub(super) fn message_within(bytes: usize) -> Duration {
    let more = bytes / limits::GRPC_REQUEST_BYTES_PER_SECOND;
    Duration::from_secs(limits::GRPC_REQUEST_SECONDS.saturating_add(more as u64))
}

/// Wraps a body with accounting and limits.
pub(super) fn counted(body: Body, budget: Budget, origin: Origin, limit: usize) -> Body {
    let counted =
        MeasuredBody { body, messages: Messages::new(limit), budget, origin, held: Vec::new(), ends_at: None };
    Body::new(StreamBody::new(stream::try_unfold(counted, MeasuredBody::next)))
}

struct MeasuredBody {
    body: Body,
    messages: Messages,
    budget: Budget,
    origin: Origin,
    held: Vec<Held>,
    /// Deadline of the current message.
    ends_at: Option<Instant>,
}

impl MeasuredBody {
    async fn next(mut self) -> Result<Option<(Frame<bytes::Bytes>, Self)>, Status> {
        let frame = if self.messages.is_between() {
            // The service has read every previous message and asks for more.
            self.held.clear();
            self.ends_at = None;
            self.body.frame().await
        } else {
            let ends_at = *self.ends_at.get_or_insert_with(|| Instant::now() + message_within(self.messages.limit));
            let frame = timeout_at(ends_at, self.body.frame()).await;
            frame.map_err(|_| Status::deadline_exceeded("a request was begun and not finished in time"))?
        };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| Status::from_error(error.into_inner()))?;
        if let Some(data) = frame.data_ref() {
            let begun = self.messages.take(data)?;
            if begun > limits::BODY_BYTES_FREE {
                let held = self.budget.wait(self.origin, begun).await;
                self.held.push(held.map_err(too_much)?);
            }
        }
        Ok(Some((frame, self)))
    }
}

pub(super) fn too_much(short: Short) -> Status {
    let whose = match short {
        Short::Origin => "of one client",
        Short::Total => "of all clients",
    };
    Status::resource_exhausted(format!("requests {whose} take as much memory as they may"))
}

/// Position in a sequence of messages, each of which follows its header.
struct Messages {
    limit: usize,
    header: [u8; HEADER_BYTES],
    header_read: usize,
    /// Bytes of the current message that are still to come.
    missing: usize,
}

impl Messages {
    fn new(limit: usize) -> Messages {
        Messages { limit, header: [0; HEADER_BYTES], header_read: 0, missing: 0 }
    }

    fn is_between(&self) -> bool {
        self.header_read == 0 && self.missing == 0
    }

    /// Advances over received data. Returns the total size of the messages that begin in it.
    fn take(&mut self, mut data: &[u8]) -> Result<usize, Status> {
        let mut begun = 0_usize;
        while !data.is_empty() {
            if self.missing > 0 {
                let taken = self.missing.min(data.len());
                self.missing -= taken;
                data = &data[taken..];
                continue;
            }
            let taken = (HEADER_BYTES - self.header_read).min(data.len());
            self.header[self.header_read..self.header_read + taken].copy_from_slice(&data[..taken]);
            self.header_read += taken;
            data = &data[taken..];
            if self.header_read == HEADER_BYTES {
                self.header_read = 0;
                self.missing = self.announced()?;
                begun = begun.saturating_add(self.missing);
            }
        }
        Ok(begun)
    }

    fn announced(&self) -> Result<usize, Status> {
        let [_, length @ ..] = self.header;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.limit {
            let limit = self.limit;
            return Err(Status::resource_exhausted(format!("a request of {length} bytes: {limit} are the most")));
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tonic::Code;

    use super::*;
    use crate::metrics::Metrics;

    fn message(length: usize) -> Vec<u8> {
        let announced = u32::try_from(length).expect("a small number").to_be_bytes();
        [&[0][..], &announced, &vec![7; length]].concat()
    }

    #[test]
    fn messages_are_told_apart_however_they_are_cut() {
        let all = [message(3), message(0), message(70)].concat();
        for cut in 1..all.len() {
            let mut messages = Messages::new(70);
            let begun: usize = all.chunks(cut).map(|piece| messages.take(piece).expect("within the limit")).sum();
            assert_eq!((begun, messages.is_between()), (73, true), "pieces of {cut}");
        }
        let mut messages = Messages::new(69);
        let told = messages.take(&all).expect_err("the last one is too large");
        assert_eq!(told.code(), Code::ResourceExhausted);
        let mut half = Messages::new(70);
        assert_eq!((half.take(&all[..7]).expect("fine"), half.is_between()), (3, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_trickles_in_is_given_up() {
        let metrics = Arc::new(Metrics::new().expect("a table"));
        let frames = stream::unfold(Some([0, 0, 0, 0, 99].to_vec()), |bytes| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Some((Ok::<_, Status>(Frame::data(bytes::Bytes::from(bytes.unwrap_or_else(|| vec![1])))), None))
        });
        let body = Body::new(StreamBody::new(Box::pin(frames)));
        let mut body = counted(body, Budget::new(None, metrics), Origin::UNKNOWN, limits::GRPC_QUESTION_BYTES_MAX);
        let mut came = 0;
        let error = loop {
            match body.frame().await.expect("it goes on") {
                Ok(_) => came += 1,
                Err(error) => break Status::from_error(error.into_inner()),
            }
        };
        assert_eq!((error.code(), came), (Code::DeadlineExceeded, 3));
    }

    /// A message counts until the service requests the next one.
    #[tokio::test(start_paused = true)]
    async fn messages_count_while_they_are_looked_at() {
        let metrics = Arc::new(Metrics::new().expect("a table"));
        let budget = Budget::new(Some(1), metrics.clone());
        let room = limits::UNDER_WAY_PER_ORIGIN_MIN;
        let (origin, limit) = (Origin::UNKNOWN, limits::XDS_REQUEST_BYTES_MAX);
        let of = |messages: Vec<Vec<u8>>| {
            let frames = messages.into_iter().map(|bytes| Ok::<_, Status>(Frame::data(bytes::Bytes::from(bytes))));
            counted(Body::new(StreamBody::new(stream::iter(frames))), budget.clone(), origin, limit)
        };
        let mut first = of(vec![message(room), message(10)]);
        first.frame().await.expect("one").expect("there is room");
        assert_eq!(metrics.under_way.get(), i64::try_from(room).expect("small"));
        let error = of(vec![message(room)]).frame().await.expect("one").expect_err("no room");
        assert_eq!(Status::from_error(error.into_inner()).code(), Code::ResourceExhausted);
        first.frame().await.expect("one").expect("small ones are free");
        assert_eq!(metrics.under_way.get(), 0);
        of(vec![message(room)]).frame().await.expect("one").expect("there is room again");
    }
}
