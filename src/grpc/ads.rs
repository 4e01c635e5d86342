//! Streams of resources: messages to and from a [`Session`], and what ends a stream besides it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, timeout};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::HealthWatch;
use super::admission::{Visitor, refusal};
use super::answer_body::{Outbox, stopping};
use crate::budget::{Budget, Held};
use crate::connections::LastingCertificate;
use crate::model::limits;
use crate::operations::{Caller, Operations};
use crate::origin::{Origin, Short};
use crate::proto::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryService;
use crate::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use crate::raft::node::Node;
use crate::raft::vigil::Guard;
use crate::watch::{Wake, Watch};
use crate::xds::{End, Peer, Session, Source};

/// Responses that are ready and not taken yet: one of each type.
const RESPONSES_READY_MAX: usize = 4;
/// Longest wait of a stream for a node that has never been ready.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for a response that waits for room.
const ROOM_WITHIN: Duration = Duration::from_secs(60);
/// Pause between two looks whether this node may still vouch for the client.
const LOOK_PAUSE: Duration = Duration::from_secs(15);
/// The same for a client that is known by its certificate, whose end nothing else tells.
const CERTIFICATE_LOOK_PAUSE: Duration = Duration::from_secs(2);

/// The aggregated discovery service.
pub(super) struct Ads<S> {
    pub(super) session: Arc<Session<S>>,
    pub(super) operations: Arc<Operations>,
    pub(super) node: Node,
    pub(super) health: HealthWatch,
    pub(super) budget: Budget,
}

#[async_trait]
impl<S: Source> AggregatedDiscoveryService for Ads<S> {
    type StreamAggregatedResourcesStream = Answers<DiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Answers<DiscoveryResponse>>, Status> {
        await_readiness(&self.health).await;
        let session = self.session.clone();
        self.open(request, move |peer, requests, responses| async move {
            session.serve_sotw(peer, requests, responses).await
        })
    }

    type DeltaAggregatedResourcesStream = Answers<DeltaDiscoveryResponse>;

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Answers<DeltaDiscoveryResponse>>, Status> {
        await_readiness(&self.health).await;
        let session = self.session.clone();
        self.open(request, move |peer, requests, responses| async move {
            session.serve_delta(peer, requests, responses).await
        })
    }
}

impl<S: Source> Ads<S> {
    fn open<Q, R, F>(
        &self,
        request: Request<Streaming<Q>>,
        serve: impl FnOnce(Peer, Requests<Q>, mpsc::Sender<R>) -> F,
    ) -> Result<Response<Answers<R>>, Status>
    where
        R: Message + 'static,
        F: Future<Output = End> + Send + 'static,
    {
        let visitor = Visitor::of(request.extensions())?;
        check(&self.health)?;
        let vouched = visitor.caller.clone().map(|caller| self.vouch(caller, &visitor)).transpose()?;
        let (fault, outbox) = (RequestFault::default(), request.extensions().get::<Outbox>().cloned());
        let requests = Requests { messages: request.into_inner(), fault: fault.clone() };
        let (sender, responses) = mpsc::channel(RESPONSES_READY_MAX);
        let session = serve(visitor.peer(), requests, sender.clone());
        let watched = Watched { vouched, health: self.health.clone(), fault };
        let ended = tokio::spawn(async move { watched.attend(session, sender).await });
        let outbox = outbox.unwrap_or_default();
        let room = Room { budget: self.budget.clone(), origin: visitor.origin, outbox, waiting: None };
        Ok(Response::new(Answers { responses, room, ended: Some(ended) }))
    }

    /// Watches the credential before it is judged once more: nothing that becomes of it is missed.
    fn vouch(&self, caller: Caller, visitor: &Visitor) -> Result<Vouched, Status> {
        let guard = self.node.guard(&caller.credential);
        let watch = self.node.state().hub().watch(visitor.origin, vec![guard.key()], 0);
        let watch = watch.map_err(|full| Status::resource_exhausted(full.to_string()))?;
        let certificate = visitor.certificate.clone();
        let vouched = Vouched { caller, certificate, operations: self.operations.clone(), watch, _guard: guard };
        vouched.check()?;
        Ok(vouched)
    }
}

/// A caller whose credential is watched.
struct Vouched {
    caller: Caller,
    certificate: Option<LastingCertificate>,
    operations: Arc<Operations>,
    watch: Watch,
    _guard: Guard,
}

impl Vouched {
    /// Refuses a credential that counts no more, or for something else than when the stream began.
    fn check(&self) -> Result<(), Status> {
        if self.certificate.as_ref().is_some_and(|certificate| !certificate.is_good()) {
            return Err(Status::unauthenticated("the certificate of this client counts no more"));
        }
        let now = self.caller.again(&self.operations).map_err(refusal)?;
        if now.grants == self.caller.grants {
            return Ok(());
        }
        Err(Status::unavailable("the rights of this client have changed: it begins anew"))
    }

    /// Waits until the credential has to be looked at; false if the node stops.
    async fn changed(&self) -> bool {
        self.watch.changed().await == Wake::Changed
    }
}

/// Waits a moment for the first look that finds the node ready: it may be so since the last one.
async fn await_readiness(health: &HealthWatch) {
    let mut health = health.clone();
    let is_known = health.wait_for(|seen| seen.was_ready || seen.out_of_service.is_some());
    // Out of time, the stream is refused.
    let _ = timeout(READY_WITHIN, is_known).await.is_ok();
}

/// Checks that the node serves streams.
fn check(health: &HealthWatch) -> Result<(), Status> {
    let health = health.borrow();
    match &health.out_of_service {
        Some(why) => Err(Status::unavailable(why.clone())),
        None if !health.was_ready => Err(Status::unavailable("this node was not ready yet")),
        None => Ok(()),
    }
}

/// Conditions under which a stream goes on.
struct Watched {
    vouched: Option<Vouched>,
    health: HealthWatch,
    fault: RequestFault,
}

impl Watched {
    /// Serves a stream to its end. Its last responses stand in the channel when its status is known.
    async fn attend<R>(mut self, session: impl Future<Output = End>, responses: mpsc::Sender<R>) -> Result<(), Status> {
        let mut session = pin!(session);
        let end = tokio::select! {
            end = session.as_mut() => end,
            () = responses.closed() => return Ok(()),
            Err(status) = self.conditions() => return Err(status),
        };
        self.fault.0.lock().take().map_or_else(|| status_of(end), Err)
    }

    /// Ready with the status of a stream that may not go on.
    async fn conditions(&mut self) -> Result<(), Status> {
        let has_certificate = self.vouched.as_ref().is_some_and(|vouched| vouched.certificate.is_some());
        let pause = if has_certificate { CERTIFICATE_LOOK_PAUSE } else { LOOK_PAUSE };
        let mut looks = interval_at(Instant::now() + pause, pause);
        loop {
            let looked = tokio::select! {
                is_open = woken(self.vouched.as_ref()) => is_open,
                _ = looks.tick() => true,
                seen = self.health.changed() => seen.is_ok(),
            };
            if !looked {
                return Err(stopping());
            }
            check(&self.health)?;
            if let Some(vouched) = &self.vouched {
                vouched.check()?;
            }
        }
    }
}

async fn woken(vouched: Option<&Vouched>) -> bool {
    match vouched {
        Some(vouched) => vouched.changed().await,
        None => std::future::pending().await,
    }
}

/// Status at the end of a stream.
fn status_of(end: End) -> Result<(), Status> {
    match end {
        End::Closed => Ok(()),
        End::Aged => Err(Status::unavailable("the stream is old: the client comes back, here or elsewhere")),
        End::Shutdown => Err(stopping()),
        End::Behind => Err(Status::unavailable("this node has not applied what the client has seen")),
        End::NotReady => Err(Status::unavailable("this node was not ready yet")),
        End::TooMany(text) => Err(Status::resource_exhausted(text)),
        End::Invalid(text) => Err(Status::invalid_argument(text)),
    }
}

/// Failure of a stream of requests, for its status.
#[derive(Clone, Default)]
struct RequestFault(Arc<Mutex<Option<Status>>>);

/// Requests of a client, until one cannot be read.
struct Requests<Q> {
    messages: Streaming<Q>,
    fault: RequestFault,
}

impl<Q> Stream for Requests<Q> {
    type Item = Result<Q, ()>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Q, ()>>> {
        let this = self.get_mut();
        let next = ready!(Pin::new(&mut this.messages).poll_next(cx));
        Poll::Ready(next.map(|message| {
            message.map_err(|status| {
                this.fault.0.lock().get_or_insert(status);
            })
        }))
    }
}

/// Room for responses: a large one waits for it before it is encoded, as all streams share what it is made of.
struct Room<R> {
    budget: Budget,
    origin: Origin,
    outbox: Outbox,
    waiting: Option<(R, Option<Waiting>)>,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Held, Short>> + Send>>;

impl<R: Message> Room<R> {
    fn ask(&mut self, response: R) {
        let bytes = response.encoded_len();
        let needs = (bytes > limits::ANSWER_BYTES_FREE).then(|| -> Waiting {
            // No client has more, however large a response is.
            let (budget, origin) = (self.budget.clone(), self.origin);
            let bytes = bytes.min(limits::UNDER_WAY_PER_ORIGIN_MIN);
            Box::pin(async move { patiently(&budget, origin, bytes).await })
        });
        self.waiting = Some((response, needs));
    }

    /// The response that was waiting, when there is room for it; none if there is none.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<R, Status>>> {
        let Some((_, waiting)) = self.waiting.as_mut() else { return Poll::Ready(None) };
        if let Some(waiting) = waiting {
            match ready!(waiting.as_mut().poll(cx)) {
                Ok(held) => self.outbox.put(held),
                Err(_) => {
                    self.waiting = None;
                    let text = "responses take as much memory as they may";
                    return Poll::Ready(Some(Err(Status::resource_exhausted(text))));
                }
            }
        }
        Poll::Ready(self.waiting.take().map(|(response, _)| Ok(response)))
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

/// Responses of a stream, and its status behind the last one.
pub(super) struct Answers<R> {
    responses: mpsc::Receiver<R>,
    room: Room<R>,
    /// None once its status was told.
    ended: Option<JoinHandle<Result<(), Status>>>,
}

impl<R: Message + Unpin> Stream for Answers<R> {
    type Item = Result<R, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<R, Status>>> {
        let this = self.get_mut();
        if this.room.waiting.is_none()
            && let Some(response) = ready!(this.responses.poll_recv(cx))
        {
            this.room.ask(response);
        }
        if let Some(response) = ready!(this.room.poll(cx)) {
            return Poll::Ready(Some(response));
        }
        let Some(task) = this.ended.as_mut() else { return Poll::Ready(None) };
        let ended = ready!(Pin::new(task).poll(cx));
        this.ended = None;
        let status = ended.unwrap_or_else(|_| Err(Status::internal("the stream could not go on")));
        Poll::Ready(status.err().map(Err))
    }
}
