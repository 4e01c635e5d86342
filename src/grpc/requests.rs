//! Requests of a discovery stream, decoded from the bytes of HTTP/2. Each is charged to the budget of its client by the
//! memory it occupies, from its first byte until the next one is requested.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::time::timeout;
use tonic::Status;

use super::measure::{RequestShape, XdsRequest, is_of_envoy};
use super::request_body::{HEADER_BYTES, message_within, too_much};
use crate::budget::{Budget, Held};
use crate::model::limits;
use crate::origin::Origin;

/// Error that ended a stream of requests, for the status of the stream.
#[derive(Clone, Default)]
pub(super) struct RequestFault(Arc<Mutex<Option<Status>>>);

impl RequestFault {
    pub(super) fn take(&self) -> Option<Status> {
        self.0.lock().take()
    }
}

/// Stream of a client's requests; ends with the first one that cannot be read.
pub(super) struct Requests<Q> {
    messages: Pin<Box<dyn Stream<Item = Result<Q, Status>> + Send>>,
    fault: RequestFault,
    /// Request that was peeked at and not yet taken.
    ahead: Option<Box<Q>>,
}

impl<Q: XdsRequest> Requests<Q> {
    pub(super) fn new(body: Body, budget: &Budget, origin: Origin, fault: RequestFault) -> Requests<Q> {
        let incoming = Incoming { body, rest: Bytes::new(), is_proxy: None, held: budget.nothing(origin) };
        Requests { messages: Box::pin(stream::try_unfold(incoming, Incoming::next::<Q>)), fault, ahead: None }
    }

    /// Returns the next request without removing it. Returns `None` at the end and on errors.
    pub(super) async fn peek(&mut self) -> Option<&Q> {
        if self.ahead.is_none() {
            self.ahead = Some(Box::new(self.next().await?.ok()?));
        }
        self.ahead.as_deref()
    }
}

impl<Q: Unpin> Stream for Requests<Q> {
    type Item = Result<Q, ()>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Q, ()>>> {
        let this = self.get_mut();
        if let Some(ahead) = this.ahead.take() {
            return Poll::Ready(Some(Ok(*ahead)));
        }
        let next = ready!(this.messages.as_mut().poll_next(cx));
        Poll::Ready(next.map(|message| {
            message.map_err(|status| {
                this.fault.0.lock().get_or_insert(status);
            })
        }))
    }
}

/// Incoming bytes of a client.
struct Incoming {
    body: Body,
    /// Received bytes that were not read yet.
    rest: Bytes,
    /// Set if the first request names Envoy; `None` before the first request.
    is_proxy: Option<bool>,
    /// Budget held for the current or the last request.
    held: Held,
}

impl Incoming {
    async fn next<Q: XdsRequest>(mut self) -> Result<Option<(Q, Incoming)>, Status> {
        // The caller is done with the previous request.
        self.held.shrink_to(0);
        let Some(length) = self.header().await? else { return Ok(None) };
        let late = |_| Status::deadline_exceeded("a request was begun and not finished in time");
        let message = timeout(message_within(length), self.message::<Q>(length)).await.map_err(late)??;
        let undecoded = || Status::internal("a request cannot be decoded");
        let shape = RequestShape::of::<Q>(&message).ok_or_else(undecoded)?;
        let is_first = self.is_proxy.is_none();
        let is_proxy = *self.is_proxy.get_or_insert_with(|| is_of_envoy::<Q>(&message));
        shape.check(is_proxy)?;
        let decoded_bytes = shape.decoded_bytes();
        self.hold(message.len() + decoded_bytes).await?;
        let mut request = Q::decode(message).map_err(|_| undecoded())?;
        if !is_first {
            request.forget_node();
        }
        self.held.shrink_to(decoded_bytes);
        Ok(Some((request, self)))
    }

    /// Returns the length of the next message, or `None` at the end. There is no time limit for its first byte.
    async fn header(&mut self) -> Result<Option<usize>, Status> {
        if self.rest.is_empty() && !self.more().await? {
            return Ok(None);
        }
        let late = |_| Status::deadline_exceeded("a request was begun and not finished in time");
        let header = timeout(message_within(0), self.message_bytes(HEADER_BYTES)).await.map_err(late)??;
        let length = match header[..] {
            [0, a, b, c, d] => usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX),
            [_, ..] => return Err(Status::unimplemented("requests are not to be compressed")),
            [] => return Err(Status::internal("a request without a header")),
        };
        let limit =
            if self.is_proxy == Some(false) { limits::GRPC_REQUEST_BYTES_MAX } else { limits::XDS_REQUEST_BYTES_MAX };
        if length > limit { Err(too_long(length, limit)) } else { Ok(Some(length)) }
    }

    async fn message_bytes(&mut self, length: usize) -> Result<Bytes, Status> {
        let mut whole = Vec::new();
        while whole.len() < length {
            self.await_more().await?;
            let taken = self.rest.len().min(length - whole.len());
            whole.extend_from_slice(&self.rest.split_to(taken));
        }
        Ok(whole.into())
    }

    /// Returns a message. Only the bytes that were received are charged.
    async fn message<Q: XdsRequest>(&mut self, length: usize) -> Result<Bytes, Status> {
        if self.rest.len() >= length {
            return Ok(self.rest.split_to(length));
        }
        let mut whole = Vec::new();
        while whole.len() < length {
            self.await_more().await?;
            let taken = self.rest.len().min(length - whole.len());
            let come = whole.len() + taken;
            if come > whole.capacity() {
                let capacity = (2 * whole.capacity()).clamp(come, length);
                // The old and the new buffer exist at the same time during the copy.
                self.hold(whole.capacity() + capacity).await?;
                whole.reserve_exact(capacity - whole.len());
            }
            whole.extend_from_slice(&self.rest.split_to(taken));
            if come > limits::GRPC_REQUEST_BYTES_MAX && self.is_proxy.is_none() {
                // The program's name is at the beginning of the message.
                if !is_of_envoy::<Q>(&whole) {
                    return Err(too_long(length, limits::GRPC_REQUEST_BYTES_MAX));
                }
                self.is_proxy = Some(true);
            }
        }
        Ok(whole.into())
    }

    async fn await_more(&mut self) -> Result<(), Status> {
        if self.rest.is_empty() && !self.more().await? {
            return Err(Status::internal("a request ends before its announced length"));
        }
        Ok(())
    }

    /// Waits for bytes. Returns false at the end.
    async fn more(&mut self) -> Result<bool, Status> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| Status::from_error(error.into_inner()))?;
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                self.rest = data;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Holds this much of the budget, unless the amount is small enough to be free.
    async fn hold(&mut self, bytes: usize) -> Result<(), Status> {
        if bytes <= limits::BODY_BYTES_FREE {
            return Ok(());
        }
        self.held.wait_to(bytes).await.map_err(too_much)
    }
}

fn too_long(length: usize, limit: usize) -> Status {
    Status::resource_exhausted(format!("a request of {length} bytes: {limit} are the most"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::StreamExt;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use prost::Message;
    use tokio::sync::mpsc;
    use tokio::time::Instant;
    use tokio_stream::wrappers::UnboundedReceiverStream;
    use tonic::Code;

    use super::*;
    use crate::metrics::Metrics;
    use crate::proto::envoy::config::core::v3::Node;
    use crate::proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;

    /// A client that sends bytes.
    struct Sender {
        bytes: mpsc::UnboundedSender<Bytes>,
        requests: Requests<DeltaDiscoveryRequest>,
        fault: RequestFault,
        metrics: Arc<Metrics>,
    }

    impl Sender {
        fn new() -> Sender {
            let (bytes, come) = mpsc::unbounded_channel();
            let frames = UnboundedReceiverStream::new(come).map(|bytes| Ok::<_, Status>(Frame::data(bytes)));
            let (metrics, fault) = (Arc::new(Metrics::new().expect("a table")), RequestFault::default());
            let budget = Budget::new(Some(1), metrics.clone());
            let body = Body::new(StreamBody::new(frames));
            let requests = Requests::new(body, &budget, Origin::UNKNOWN, fault.clone());
            Sender { bytes, requests, fault, metrics }
        }

        fn send(&self, bytes: impl Into<Bytes>) {
            self.bytes.send(bytes.into()).expect("it is read");
        }

        async fn next(&mut self) -> Result<DeltaDiscoveryRequest, Code> {
            let next = self.requests.next().await.expect("it goes on");
            next.map_err(|()| self.fault.take().expect("a status").code())
        }

        fn held(&self) -> usize {
            usize::try_from(self.metrics.under_way.get()).expect("a size")
        }
    }

    fn framed(request: &DeltaDiscoveryRequest) -> Vec<u8> {
        let message = request.encode_to_vec();
        let length = u32::try_from(message.len()).expect("short").to_be_bytes();
        [&[0][..], &length, &message].concat()
    }

    fn request(agent: &str, versions: usize, value: usize) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest {
            node: Some(Node { user_agent_name: agent.to_owned(), ..Node::default() }),
            initial_resource_versions: (0..versions).map(|one| (format!("{one:04}"), "v".repeat(value))).collect(),
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn requests_come_however_they_are_cut_and_only_the_first_says_who_asks() {
        let (first, second) = (request("envoy", 3, 5), request("envoy", 0, 0));
        let all = [framed(&first), framed(&second), framed(&DeltaDiscoveryRequest::default())].concat();
        for cut in 1..all.len() {
            let mut sender = Sender::new();
            all.chunks(cut).for_each(|piece| sender.send(piece.to_vec()));
            assert_eq!(sender.next().await.as_ref(), Ok(&first), "pieces of {cut}");
            for _ in 0..2 {
                assert_eq!(sender.next().await, Ok(DeltaDiscoveryRequest::default()), "pieces of {cut}");
            }
        }
        let mut sender = Sender::new();
        sender.send(vec![1, 0, 0, 0, 0]);
        assert_eq!(sender.next().await, Err(Code::Unimplemented));
    }

    #[tokio::test]
    async fn what_a_request_takes_when_it_is_decoded_counts_until_the_next_one() {
        let mut sender = Sender::new();
        let large = request("envoy", 5_000, 1);
        let bytes = framed(&large);
        sender.send(bytes.clone());
        assert_eq!(sender.next().await, Ok(large));
        assert!(sender.held() > 10 * bytes.len(), "{} of {}", sender.held(), bytes.len());
        sender.send(framed(&DeltaDiscoveryRequest::default()));
        sender.next().await.expect("a request");
        assert_eq!(sender.held(), 0);
        // The maximum number of entries of each kind, and one more.
        for (agent, max) in [("gRPC", limits::XDS_NAMES_MAX), ("envoy", limits::XDS_PROXY_ENTRIES_MAX)] {
            let mut sender = Sender::new();
            sender.send(framed(&request(agent, max + 1, 0)));
            assert_eq!(sender.next().await, Err(Code::ResourceExhausted), "{agent}");
        }
    }

    #[tokio::test]
    async fn only_a_proxy_sends_large_requests() {
        for (agent, expected) in [("envoy", true), ("gRPC", false)] {
            let mut sender = Sender::new();
            let large = request(agent, 3_000, 500);
            framed(&large).chunks(16 * 1024).for_each(|piece| sender.send(piece.to_vec()));
            let got = sender.next().await;
            assert_eq!(got.as_ref().err(), (!expected).then_some(&Code::ResourceExhausted), "{agent}");
        }
        let mut sender = Sender::new();
        let length = u32::try_from(limits::XDS_REQUEST_BYTES_MAX + 1).expect("a length").to_be_bytes();
        sender.send([&[0][..], &length].concat());
        assert_eq!(sender.next().await, Err(Code::ResourceExhausted));
    }

    /// A message that was announced and does not arrive occupies no memory and is subject to its time limit.
    #[tokio::test(start_paused = true)]
    async fn a_trickle_holds_what_has_come_and_not_for_long() {
        let mut sender = Sender::new();
        let length = u32::try_from(limits::XDS_REQUEST_BYTES_MAX).expect("a length").to_be_bytes();
        sender.send([&[0][..], &length, &[0x0a; 10]].concat());
        let (bytes, began) = (sender.bytes.clone(), Instant::now());
        let drip = tokio::spawn(async move {
            while bytes.send(Bytes::from_static(&[1])).is_ok() {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
        assert_eq!(sender.next().await, Err(Code::DeadlineExceeded));
        assert_eq!((began.elapsed().as_secs(), sender.held()), (10 + 256, 0));
        drop(sender);
        drip.await.expect("it ends");
    }
}
