//! Streams of the aggregated discovery service: connects each to a [`Session`], and ends it when its conditions no
//! longer hold.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use axum::routing::any;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};
use tonic::Status;
use tonic::server::NamedService;

use super::HealthWatch;
use super::admission::{Unnamed, Visitor, needed, refusal};
use super::answer_body::stopping;
use super::frames::Framed;
use super::measure::XdsRequest;
use super::requests::{RequestFault, Requests};
use super::stream_body::Answers;
use crate::budget::{Budget, Held};
use crate::connections::LastingCertificate;
use crate::controllers::credential_watch::Guard;
use crate::metrics::Metrics;
use crate::operations::member::LocalMember;
use crate::operations::{Caller, Operations};
use crate::proto::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use crate::proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use crate::tasks;
use crate::watch::{Wake, Watch};
use crate::xds::{Session, Source, StreamEnd};

/// Number of responses built in advance. A response is built only once there is room for it, from the newest state.
const RESPONSES_READY_MAX: usize = 1;
/// Maximum time that a new stream waits for a node that was never ready.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for the first message of a client that must authenticate by a token in it.
const TOKEN_WITHIN: Duration = Duration::from_secs(10);
/// Interval at which an open stream re-checks its credential.
const LOOK_PAUSE: Duration = Duration::from_secs(15);
/// The same interval for clients with a certificate, whose expiry causes no notification.
const CERTIFICATE_LOOK_PAUSE: Duration = Duration::from_secs(2);

/// The aggregated discovery service. It encodes and decodes messages itself, because tonic's buffers retain the size of
/// the largest message for the life of a stream.
pub(super) struct Ads<S> {
    pub(super) session: Arc<Session<S>>,
    pub(super) vouching: Vouching,
    pub(super) health: HealthWatch,
    pub(super) budget: Budget,
    /// Memory budget for the state of open streams.
    pub(super) kept: Budget,
}

/// Parts of the node that authenticate and authorize clients.
#[derive(Clone)]
pub(super) struct Vouching {
    pub(super) operations: Arc<Operations>,
    pub(super) member: LocalMember,
}

impl<S: Source> Ads<S> {
    /// Returns the routes of both protocol variants.
    pub(super) fn routes(self) -> Router {
        let service = <AggregatedDiscoveryServiceServer<()> as NamedService>::NAME;
        let (sotw, delta) = (Arc::new(self), format!("/{service}/DeltaAggregatedResources"));
        let ads = sotw.clone();
        let sotw = move |request: Request| {
            let ads = sotw.clone();
            async move { ads.sotw(request).await.unwrap_or_else(Status::into_http) }
        };
        let delta_of = move |request: Request| {
            let ads = ads.clone();
            async move { ads.delta(request).await.unwrap_or_else(Status::into_http) }
        };
        Router::new().route(&format!("/{service}/StreamAggregatedResources"), any(sotw)).route(&delta, any(delta_of))
    }

    async fn sotw(&self, request: Request) -> Result<Response, Status> {
        await_readiness(&self.health).await;
        let session = self.session.clone();
        self.open(request, move |visitor, room, requests: Requests<DiscoveryRequest>, responses| {
            let peer = visitor.peer();
            Box::pin(async move { session.serve_sotw(peer, room, requests, responses).await })
        })
    }

    async fn delta(&self, request: Request) -> Result<Response, Status> {
        await_readiness(&self.health).await;
        let session = self.session.clone();
        self.open(request, move |visitor, room, requests: Requests<DeltaDiscoveryRequest>, responses| {
            let peer = visitor.peer();
            Box::pin(async move { session.serve_delta(peer, room, requests, responses).await })
        })
    }

    fn open<Q: XdsRequest, R: Framed>(
        &self,
        request: Request,
        serve: impl FnOnce(&Visitor, Held, Requests<Q>, mpsc::Sender<Box<R>>) -> Serving + Send + 'static,
    ) -> Result<Response, Status> {
        let (parts, body) = request.into_parts();
        let visitor = Visitor::of(&parts.extensions)?;
        check(&self.health)?;
        let (origin, fault) = (visitor.origin, RequestFault::default());
        let mut requests = Requests::new(body, &self.budget, origin, fault.clone());
        let (sender, responses) = mpsc::channel(RESPONSES_READY_MAX); // bound: xds-unread
        let (vouching, kept, to) = (self.vouching.clone(), self.kept.clone(), sender.clone());
        let metrics = vouching.member.metrics().clone();
        let opening: Opening = match visitor.unnamed.clone() {
            None => {
                let vouched = visitor.caller.clone().map(|caller| vouching.vouch(caller, &visitor)).transpose()?;
                let session = serve(&visitor, kept.nothing(visitor.origin), requests, to);
                Box::pin(std::future::ready(Ok((session, vouched))))
            }
            Some(unnamed) => Box::pin(async move {
                let visitor = named(visitor, &unnamed, &mut requests, &vouching.operations).await?;
                let vouched = visitor.caller.clone().map(|caller| vouching.vouch(caller, &visitor)).transpose()?;
                Ok((serve(&visitor, kept.nothing(visitor.origin), requests, to), vouched))
            }),
        };
        let watched = StreamMonitor { vouched: None, health: self.health.clone(), fault, metrics };
        let ended = tasks::errand(watched.attend(opening, sender));
        let answers = Answers::new(responses, (self.budget.clone(), origin), ended);
        let mut response = Response::new(Body::new(answers));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        Ok(response)
    }
}

impl Vouching {
    /// Registers for changes of the credential, then re-checks it, so that no change is missed.
    fn vouch(&self, caller: Caller, visitor: &Visitor) -> Result<AuthorizedCaller, Status> {
        let guard = self.member.guard(&caller.credential);
        let watch = self.member.state().hub().watch(visitor.origin, vec![guard.key()], 0);
        let watch = watch.map_err(|full| Status::resource_exhausted(full.to_string()))?;
        let certificate = visitor.certificate.clone();
        let vouched =
            AuthorizedCaller { caller, certificate, operations: self.operations.clone(), watch, _guard: guard };
        vouched.check()?;
        Ok(vouched)
    }
}

/// Identifies the caller by the token in the first message. A client without a token is admitted if anonymous clients
/// are allowed.
async fn named<Q: XdsRequest>(
    visitor: Visitor,
    unnamed: &Unnamed,
    requests: &mut Requests<Q>,
    operations: &Operations,
) -> Result<Visitor, Status> {
    let first = match unnamed.may_be_nobody {
        true => requests.peek().await,
        false => timeout(TOKEN_WITHIN, requests.peek()).await.map_err(|_| needed())?,
    };
    let node = first.and_then(XdsRequest::node);
    match unnamed.caller(node, operations).await? {
        Some(caller) => Ok(Visitor { origin: caller.origin(), caller: Some(caller), ..visitor }),
        None if unnamed.may_be_nobody => Ok(visitor),
        None => Err(needed()),
    }
}

/// A running session. It is boxed because each future that it is moved into would otherwise contain a copy of its size.
type Serving = Pin<Box<dyn Future<Output = StreamEnd> + Send>>;

/// A stream whose client is being identified.
type Opening = Pin<Box<dyn Future<Output = Result<(Serving, Option<AuthorizedCaller>), Status>> + Send>>;

/// A caller whose credential is watched for changes.
struct AuthorizedCaller {
    caller: Caller,
    certificate: Option<LastingCertificate>,
    operations: Arc<Operations>,
    watch: Watch,
    _guard: Guard,
}

impl AuthorizedCaller {
    /// Returns an error if the credential has expired or its grants have changed since the stream began.
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

    /// Waits for a change of the credential. Returns false if the node stops.
    async fn changed(&self) -> bool {
        self.watch.changed().await == Wake::Changed
    }
}

/// Waits up to [`READY_WITHIN`] for the node's first readiness, which is polled and may be noticed late.
async fn await_readiness(health: &HealthWatch) {
    let mut health = health.clone();
    let is_known = health.wait_for(|seen| seen.was_ready || seen.out_of_service.is_some());
    // After a timeout the stream is refused by [`check`].
    let _ = timeout(READY_WITHIN, is_known).await.is_ok();
}

/// Returns an error if the node does not serve streams.
pub(super) fn check(health: &HealthWatch) -> Result<(), Status> {
    let health = health.borrow();
    match &health.out_of_service {
        Some(why) => Err(Status::unavailable(why.clone())),
        None if !health.was_ready => Err(Status::unavailable("this node was not ready yet")),
        None => Ok(()),
    }
}

/// Conditions under which a stream continues.
struct StreamMonitor {
    vouched: Option<AuthorizedCaller>,
    health: HealthWatch,
    fault: RequestFault,
    metrics: Arc<Metrics>,
}

impl StreamMonitor {
    /// Serves a stream to its end and returns its status. The last response is in the channel by then.
    async fn attend<R>(mut self, opening: Opening, responses: mpsc::Sender<R>) -> Result<(), Status> {
        let opened = tokio::select! {
            opened = opening => opened,
            () = responses.closed() => return Ok(()),
            Err(status) = self.conditions() => Err(status),
        };
        let session = match opened {
            Ok((session, vouched)) => {
                self.vouched = vouched;
                session
            }
            Err(status) => {
                self.metrics.xds_ends.with_label_values(&["credential"]).inc();
                return Err(status);
            }
        };
        let (reason, status) = tokio::select! {
            end = session => match self.fault.take() {
                Some(status) => ("request", Err(status)),
                None => (end.reason(), status_of(end)),
            },
            () = responses.closed() => (StreamEnd::Closed.reason(), Ok(())),
            Err(status) = self.conditions() => ("credential", Err(status)),
        };
        self.metrics.xds_ends.with_label_values(&[reason]).inc();
        status
    }

    /// Returns the status once the stream may not continue; never returns otherwise.
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

async fn woken(vouched: Option<&AuthorizedCaller>) -> bool {
    match vouched {
        Some(vouched) => vouched.changed().await,
        None => std::future::pending().await,
    }
}

/// Returns the status for the end of a session.
fn status_of(end: StreamEnd) -> Result<(), Status> {
    match end {
        StreamEnd::Closed => Ok(()),
        StreamEnd::Aged => Err(Status::unavailable("the stream is old: the client comes back, here or elsewhere")),
        StreamEnd::Shutdown => Err(stopping()),
        StreamEnd::Behind => Err(Status::unavailable("this node has not applied what the client has seen")),
        StreamEnd::NotReady => Err(Status::unavailable("this node was not ready yet")),
        StreamEnd::TooMany(text) => Err(Status::resource_exhausted(text)),
        StreamEnd::Invalid(text) => Err(Status::invalid_argument(text)),
    }
}
