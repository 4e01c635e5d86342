//! Body of a discovery stream: its responses, each held in the budget while it is written, and its status.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::answer_body::ended_by;
use super::frames::{Framed, Frames, own_bytes};
use crate::budget::{Budget, Held};
use crate::model::limits;
use crate::origin::{Origin, Short};

/// Maximum time that a response waits for room in the budget.
const ROOM_WITHIN: Duration = Duration::from_secs(60);

/// Budget for responses. The bytes that a response needs for its stream alone are held from before it is encoded until
/// it was written.
struct Room<R> {
    budget: Budget,
    origin: Origin,
    waiting: Option<(Box<R>, Waiting)>,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Held, Short>> + Send>>;

impl<R: Framed> Room<R> {
    /// Returns the response if there is room at once; otherwise it starts to wait.
    fn ask(&mut self, mut response: Box<R>) -> Option<Frames<R>> {
        // Every client is granted this much, so a larger response is charged no more and can always be sent.
        let bytes = own_bytes(&mut *response).min(limits::UNDER_WAY_PER_ORIGIN_MIN);
        if let Ok(held) = self.budget.take(self.origin, bytes) {
            return Some(Frames::new(*response, held));
        }
        let (budget, origin) = (self.budget.clone(), self.origin);
        self.waiting = Some((response, Box::pin(async move { patiently(&budget, origin, bytes).await })));
        None
    }

    /// Polls for room for the waiting response. Returns `None` if no response waits.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frames<R>, Status>>> {
        let Some((_, waiting)) = self.waiting.as_mut() else { return Poll::Ready(None) };
        let held = ready!(waiting.as_mut().poll(cx));
        let response = self.waiting.take().map(|(response, _)| response);
        let exhausted = |_| Status::resource_exhausted("responses take as much memory as they may");
        Poll::Ready(response.map(|response| held.map(|held| Frames::new(*response, held)).map_err(exhausted)))
    }
}

async fn patiently(budget: &Budget, origin: Origin, bytes: usize) -> Result<Held, Short> {
    let until = Instant::now() + ROOM_WITHIN;
    loop {
        match budget.wait(origin, bytes).await {
            Err(_) if Instant::now() < until => {}
            taken => return taken,
        }
    }
}

/// Responses of a stream, followed by its status.
pub(super) struct Answers<R: Framed> {
    responses: mpsc::Receiver<Box<R>>,
    room: Room<R>,
    sending: Option<Frames<R>>,
    /// Set once a piece of a response was handed to HTTP/2.
    has_answered: bool,
    /// Task that produces the responses; `None` once its status was sent.
    ended: Option<JoinHandle<Result<(), Status>>>,
}

impl<R: Framed> Answers<R> {
    /// Creates a body of the responses in `responses`, which are charged to `origin`. `ended` returns the status.
    pub(super) fn new(
        responses: mpsc::Receiver<Box<R>>,
        (budget, origin): (Budget, Origin),
        ended: JoinHandle<Result<(), Status>>,
    ) -> Self {
        let room = Room { budget, origin, waiting: None };
        Answers { responses, room, sending: None, has_answered: false, ended: Some(ended) }
    }

    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.ended = None;
        // Clients reconnect on any status (gRFC A57). After a status other than OK, `@grpc/grpc-js-xds` fails calls to
        // clusters it waits for as if the stream had never been answered.
        let is_taken_up_again = self.has_answered && status.code() == Code::Unavailable;
        let status = if is_taken_up_again { &Status::ok(status.message()) } else { status };
        Poll::Ready(Some(Ok(ended_by(status))))
    }
}

impl<R: Framed> HttpBody for Answers<R> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.ended.is_none() {
            return Poll::Ready(None);
        }
        loop {
            if let Some(sending) = &mut this.sending {
                if let Some(piece) = sending.next() {
                    this.has_answered = true;
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                // The budget of the previous response is released before the next one arrives.
                this.sending = None;
            }
            this.sending = match ready!(this.room.poll(cx)) {
                Some(Ok(frames)) => Some(frames),
                Some(Err(status)) => return this.end(&status),
                None => match ready!(this.responses.poll_recv(cx)) {
                    Some(response) => this.room.ask(response),
                    None => break,
                },
            };
        }
        let Some(task) = this.ended.as_mut() else { return Poll::Ready(None) };
        let ended = ready!(Pin::new(task).poll(cx));
        let status = ended.unwrap_or_else(|_| Err(Status::internal("the stream could not go on")));
        this.end(&status.err().unwrap_or_else(|| Status::ok("")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use tokio::time::timeout;

    use super::*;
    use crate::metrics::Metrics;
    use crate::proto::envoy::service::discovery::v3::DiscoveryResponse;

    #[tokio::test]
    async fn a_stream_that_was_answered_ends_with_ok_where_its_client_comes_back() {
        for (is_answered, said, ends) in [
            (true, Code::Unavailable, Code::Ok),
            (false, Code::Unavailable, Code::Unavailable),
            (true, Code::Unauthenticated, Code::Unauthenticated),
        ] {
            let metrics = Arc::new(Metrics::new().expect("a table"));
            let (sender, responses) = mpsc::channel::<Box<DiscoveryResponse>>(1);
            if is_answered {
                sender.send(Box::new(DiscoveryResponse::default())).await.expect("it is read");
            }
            drop(sender);
            let ended = tokio::spawn(async move { Err(Status::new(said, "the stream is old")) });
            let answers = Answers::new(responses, (Budget::new(None, metrics), Origin::UNKNOWN), ended);
            let trailers = answers.collect().await.expect("frames").trailers().cloned().expect("a status");
            let code = trailers["grpc-status"].to_str().expect("digits").to_owned();
            assert_eq!(code, i32::from(ends).to_string(), "{is_answered} {said}");
            assert_eq!(trailers["grpc-message"], "the%20stream%20is%20old");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_was_sent_takes_no_room_while_the_stream_goes_on() {
        let metrics = Arc::new(Metrics::new().expect("a table"));
        let (sender, responses) = mpsc::channel::<Box<DiscoveryResponse>>(1);
        let ended = tokio::spawn(std::future::pending::<Result<(), Status>>());
        let mut answers = Answers::new(responses, (Budget::new(None, metrics.clone()), Origin::UNKNOWN), ended);
        for nonce in ["1", "2"] {
            let response = DiscoveryResponse { nonce: nonce.to_owned(), ..DiscoveryResponse::default() };
            sender.send(Box::new(response)).await.expect("it is read");
            let piece = answers.frame().await.expect("a piece");
            assert!(metrics.under_way.get() > 0);
            drop(piece);
            assert!(timeout(Duration::from_secs(15), answers.frame()).await.is_err(), "nothing is due");
            assert_eq!(metrics.under_way.get(), 0);
        }
    }
}
