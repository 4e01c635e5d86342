//! Bodies of answers: each keeps the place of its stream until its last byte, and ends when the node stops.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

use super::admission::Place;

/// The body of an answer.
pub(super) struct AnswerBody {
    body: Body,
    ending: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    has_ended: bool,
    _place: Place,
}

impl AnswerBody {
    pub(super) fn new(body: Body, place: Place) -> AnswerBody {
        AnswerBody { body, ending: None, has_ended: false, _place: place }
    }

    /// Ends with UNAVAILABLE when the node stops: of services that know nothing of that.
    pub(super) fn ending_with(self, ending: CancellationToken) -> AnswerBody {
        AnswerBody { ending: Some(Box::pin(ending.cancelled_owned())), ..self }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        match self.ending.as_mut().map(|ending| ending.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                self.has_ended = true;
                Poll::Ready(Some(Ok(Frame::trailers(trailers(&stopping())))))
            }
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Status of what ends as the node stops.
pub(super) fn stopping() -> Status {
    Status::unavailable("this node stops: another one serves")
}

fn trailers(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // It fails for a message that no header could hold, which this one is not.
    let _ = status.add_header(&mut headers);
    headers
}
