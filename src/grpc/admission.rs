//! Admission: who asks, and whether there is a place for it, before a service sees the request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::Mutex;
use prost_types::value::Kind;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

use super::GrpcSettings;
use super::answer_body::{AnswerBody, Cut};
use super::request_body::counted;
use crate::address::sender;
use crate::brief_places::{BriefPlace, CheckPlaces, check};
use crate::catalog::Credential;
use crate::connections::{LastingCertificate, PeerCertificate, StreamCut};
use crate::model::code::{Code, Refusal};
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::mesh::TOKEN_KEY;
use crate::operations::{Caller, Operations, token_hash};
use crate::origin::{Origin, OriginQuota, Sender, Short};
use crate::proto::envoy::config::core::v3::Node;
use crate::tasks;
use crate::xds::Peer;

const BEARER: &str = "Bearer";
/// Services that show nothing of the state and are open to everybody, as `/readyz` and the reference of the API.
const OPEN_SERVICES: [&str; 2] = ["/grpc.health.", "/grpc.reflection."];
/// The call of a check of health: a question and an answer.
pub const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// The service whose streams end by themselves when the node stops.
const RESOURCES: &str = "/envoy.service.discovery.";

/// Inputs of [`admit`].
pub(super) struct Admission {
    pub(super) operations: Arc<Operations>,
    pub(super) places: Arc<OriginQuota>,
    /// Places for checks of health that find none of those.
    pub(super) checks: CheckPlaces,
    pub(super) settings: GrpcSettings,
}

/// Sender of a request: an extension of each request of a service that shows the state.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub address: Option<IpAddr>,
    /// The caller, where there is one, else the address.
    pub origin: Origin,
    /// None for one without a token or certificate, where that is allowed.
    pub caller: Option<Caller>,
    /// The certificate that the caller is known by, where it is not a token.
    pub certificate: Option<LastingCertificate>,
    /// A visitor without a caller, whose first message of a stream of resources may have a token.
    pub(super) unnamed: Option<Unnamed>,
}

/// Visitor of whom no credential is known before the first message.
#[derive(Clone, Debug)]
pub(super) struct Unnamed {
    sender: Sender,
    request_id: String,
    user: StreamUser,
    /// Streams are for who shows no credential as well.
    pub(super) may_be_nobody: bool,
}

impl Unnamed {
    /// Finds the caller by the token in the description of a node, and hands the place of the stream on to that user;
    /// none where there is no token.
    pub(super) async fn caller(&self, node: Option<&Node>, operations: &Operations) -> Result<Option<Caller>, Status> {
        let Some(token) = token_of(node)? else { return Ok(None) };
        let credential = Credential::Token(token_hash(token));
        let caller = operations.identify(credential, self.sender, self.request_id.clone()).await.map_err(refusal)?;
        let origin = caller.origin();
        self.user.pass_to(origin).map_err(|short| taken(origin, short))?;
        Ok(Some(caller))
    }
}

/// The token in the metadata of a node.
fn token_of(node: Option<&Node>) -> Result<Option<&str>, Status> {
    let metadata = node.and_then(|node| node.metadata.as_ref());
    match metadata.and_then(|metadata| metadata.fields.get(TOKEN_KEY)).map(|value| &value.kind) {
        None => Ok(None),
        Some(Some(Kind::StringValue(token))) if token.trim().is_empty() => {
            Err(Status::unauthenticated("the token is empty"))
        }
        Some(Some(Kind::StringValue(token))) => Ok(Some(token.trim())),
        Some(_) => Err(Status::unauthenticated("the token in the metadata of the node is no text")),
    }
}

impl Visitor {
    /// Takes it from the request.
    pub fn of(extensions: &Extensions) -> Result<Visitor, Status> {
        extensions.get::<Visitor>().cloned().ok_or_else(|| Status::unauthenticated("nobody was let in"))
    }

    /// The client as xDS knows it. One who shows no credential sees every service, as config clients without one see
    /// every file of an app without keys.
    pub(super) fn peer(&self) -> Peer {
        let read_scope = self.caller.as_ref().map_or(ReadScope::Everything, Caller::client_sight);
        Peer { address: self.address, origin: self.origin, read_scope }
    }
}

/// Place of a stream, among those of its origin or among those of checks; free again when this is dropped.
pub(super) enum StreamPlace {
    Counted(StreamUser),
    Check(#[expect(dead_code, reason = "the end of the check is that this is dropped")] DropGuard),
}

/// Origin that a stream is counted for, until it ends.
#[derive(Clone)]
pub(super) struct StreamUser {
    places: Arc<OriginQuota>,
    origin: Arc<Mutex<Option<Origin>>>,
}

impl StreamPlace {
    /// A place that was taken.
    pub(super) fn new(places: Arc<OriginQuota>, origin: Origin) -> StreamPlace {
        StreamPlace::Counted(StreamUser { places, origin: Arc::new(Mutex::new(Some(origin))) })
    }

    /// A place for a check of health, which is cut when another one takes it, or when it takes too long.
    fn of_check(place: BriefPlace, cut: StreamCut) -> StreamPlace {
        let ended = CancellationToken::new();
        let end = ended.clone();
        tasks::errand(async move {
            if check(&place, ended.cancelled()).await.is_none() {
                cut.cut();
            }
        });
        StreamPlace::Check(end.drop_guard())
    }

    fn user(&self) -> Option<&StreamUser> {
        match self {
            StreamPlace::Counted(user) => Some(user),
            StreamPlace::Check(_) => None,
        }
    }
}

impl StreamUser {
    /// Hands it on to the user of a token, who is known by now.
    fn pass_to(&self, user: Origin) -> Result<(), Short> {
        let mut origin = self.origin.lock();
        if let Some(before) = *origin {
            self.places.pass(before, user, 1)?;
            *origin = Some(user);
        }
        Ok(())
    }
}

impl fmt::Debug for StreamUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.lock().fmt(f)
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        if let Some(user) = self.user()
            && let Some(origin) = user.origin.lock().take()
        {
            user.places.give_back(origin, 1);
        }
    }
}

fn failed() -> Status {
    Status::internal("this node has failed at the request, which is a defect: its log says where")
}

/// Lets a request pass, or answers it with its status.
pub(super) async fn admit(State(door): State<Arc<Admission>>, mut request: Request, next: Next) -> Response {
    let sender = sender(request.headers(), request.extensions(), &door.settings.trusted_proxies);
    let mut origin = Origin::of_any(sender.address);
    let cut = request.extensions().get::<StreamCut>().cloned();
    let place = match (door.place(origin), &cut) {
        (Ok(place), _) => place,
        (Err(_), Some(cut)) if request.uri().path() == HEALTH_CHECK => {
            StreamPlace::of_check(door.checks.enter(sender), cut.clone())
        }
        (Err(status), _) => return status.into_http(),
    };
    let is_open = OPEN_SERVICES.iter().any(|service| request.uri().path().starts_with(service));
    if !is_open {
        let is_of_resources = request.uri().path().starts_with(RESOURCES);
        let user = place.user().filter(|_| is_of_resources).cloned();
        match door.visitor(request.headers(), request.extensions(), sender, user).await {
            Ok(visitor) => {
                origin = visitor.origin;
                if let Some(Err(short)) = place.user().map(|user| user.pass_to(origin)) {
                    return taken(origin, short).into_http();
                }
                request.extensions_mut().insert(visitor);
            }
            Err(status) => return status.into_http(),
        }
    }
    let counter = &door.operations.node().metrics().unread_streams;
    let cut = cut.map(|stream| Cut { stream, counter: counter.clone() });
    // A stream of resources counts what it reads and sends, and ends by itself, behind its last response.
    if request.uri().path().starts_with(RESOURCES) {
        let Some(response) = tasks::caught(next.run(request)).await else { return failed().into_http() };
        return response.map(|body| Body::new(AnswerBody::new(body, place, cut)));
    }
    let GrpcSettings { budget, ending, .. } = &door.settings;
    let limit = limits::GRPC_QUESTION_BYTES_MAX;
    let answered = tasks::caught(next.run(request.map(|body| counted(body, budget.clone(), origin, limit)))).await;
    let Some(response) = answered else { return failed().into_http() };
    response.map(|body| {
        let body = AnswerBody::new(body, place, cut).counting(budget.clone(), origin);
        Body::new(body.ending_with(ending.clone()))
    })
}

impl Admission {
    fn place(&self, origin: Origin) -> Result<StreamPlace, Status> {
        match self.places.take(origin, 1) {
            Ok(()) => Ok(StreamPlace::new(self.places.clone(), origin)),
            Err(short) => Err(taken(origin, short)),
        }
    }

    /// `user` is there of a stream of resources, whose first message may have a token.
    async fn visitor(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        sender: Sender,
        user: Option<StreamUser>,
    ) -> Result<Visitor, Status> {
        let id = crate::request_id::of(extensions);
        let may_be_nobody = !self.settings.is_auth_required;
        let origin = Origin::of_any(sender.address);
        let visitor = |caller: Option<Caller>| {
            let origin = caller.as_ref().map_or(origin, Caller::origin);
            Visitor { address: sender.address, origin, caller, certificate: None, unnamed: None }
        };
        if let Some(token) = presented_token(headers)? {
            let credential = Credential::Token(token_hash(token));
            let caller = self.operations.identify(credential, sender, id).await.map_err(refusal)?;
            return Ok(visitor(Some(caller)));
        }
        if let Some(PeerCertificate { common_name }) = extensions.get() {
            let credential = Credential::Certificate(common_name.clone());
            match self.operations.identify(credential, sender, id.clone()).await {
                Ok(caller) => {
                    let certificate = extensions.get::<LastingCertificate>().cloned();
                    return Ok(Visitor { certificate, ..visitor(Some(caller)) });
                }
                // It was signed for another purpose: it names nobody here.
                Err(Refusal { code: Code::TokenNotExisted, .. }) if may_be_nobody => {}
                Err(refused) => return Err(refusal(refused)),
            }
        }
        let unnamed = user.map(|user| Unnamed { sender, request_id: id, user, may_be_nobody });
        if may_be_nobody || unnamed.is_some() { Ok(Visitor { unnamed, ..visitor(None) }) } else { Err(needed()) }
    }
}

/// The status of a stream of who shows no credential where one has to be.
pub(super) fn needed() -> Status {
    Status::unauthenticated("a token is needed")
}

/// The status of a stream for which there is no place.
fn taken(origin: Origin, short: Short) -> Status {
    Status::resource_exhausted(match short {
        Short::Origin => format!("{origin} has as many streams as it may"),
        Short::Total => "there are as many streams as there may be".to_owned(),
    })
}

/// The token as it was sent: raw, or as a bearer token.
fn presented_token(headers: &HeaderMap) -> Result<Option<&str>, Status> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Status::unauthenticated("more than one authorization"));
    }
    let text = value.to_str().map_err(|_| Status::unauthenticated("the authorization is no text"))?.trim();
    let token = match text.split_at_checked(BEARER.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(BEARER) => rest.trim(),
        _ => text,
    };
    if token.is_empty() { Err(Status::unauthenticated("the token is empty")) } else { Ok(Some(token)) }
}

/// The status of a refusal of the operations.
pub(super) fn refusal(refused: Refusal) -> Status {
    let text = refused.info();
    match refused.code.status() {
        401 => Status::unauthenticated(text),
        403 => Status::permission_denied(text),
        429 => Status::resource_exhausted(text),
        503 => Status::unavailable(text),
        _ => Status::internal(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_as_the_api_takes_them() {
        let of = |values: &[&'static str]| {
            let pairs = values.iter().map(|value| (AUTHORIZATION, value.parse().expect("text")));
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(name, value);
            }
            presented_token(&headers).map(|token| token.map(str::to_owned)).map_err(|status| status.code())
        };
        assert_eq!(of(&[]), Ok(None));
        for one in ["abc", "Bearer abc", "bearer  abc "] {
            assert_eq!(of(&[one]), Ok(Some("abc".to_owned())), "{one}");
        }
        for none in [&[""][..], &["Bearer "], &["a", "b"]] {
            assert_eq!(of(none), Err(tonic::Code::Unauthenticated), "{none:?}");
        }
    }
}
