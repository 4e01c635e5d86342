//! Admission of requests: identifies the caller and reserves a stream before a service sees the request.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;
use prost_types::value::Kind;
use tonic::Status;

use super::GrpcSettings;
use super::answer_body::{AnswerBody, Cut};
use super::paths::{POLARIS, request_bytes_max};
use super::request_body::counted;
use super::stream_place::{StreamPlace, StreamUser};
use crate::address::sender;
use crate::brief_places::CheckPlaces;
use crate::catalog::Credential;
use crate::connections::{LastingCertificate, PeerCertificate, StreamCut};
use crate::model::code::{Code, Refusal};
use crate::model::grant::ReadScope;
use crate::model::mesh::TOKEN_KEY;
use crate::operations::{Caller, Operations};
use crate::origin::{Origin, OriginQuota, Sender, Short};
use crate::proto::envoy::config::core::v3::Node;
use crate::tasks;
use crate::xds::Peer;

const BEARER: &str = "Bearer";
/// Header with the token of an SDK of Polaris, which sends an empty one if it has none.
const POLARIS_TOKEN: &str = "x-polaris-token";
/// Services without access to the replicated state. They need no credential, like `/readyz` and the API reference.
const OPEN_SERVICES: [&str; 2] = ["/grpc.health.", "/grpc.reflection."];
/// Path of the unary health check.
pub const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// Path prefix of the service whose streams end on their own when the node stops.
const RESOURCES: &str = "/envoy.service.discovery.";

/// State of [`admit`].
pub(super) struct Admission {
    pub(super) operations: Arc<Operations>,
    pub(super) places: Arc<OriginQuota>,
    /// Extra places for health checks, used when no regular one is free.
    pub(super) checks: CheckPlaces,
    pub(super) settings: GrpcSettings,
}

/// Sender of a request, added as an extension to each request of a service that reads the state.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub address: Option<IpAddr>,
    /// Origin of the caller, or of the address if there is no caller.
    pub origin: Origin,
    /// Identified caller; none for an anonymous client where these are allowed.
    pub caller: Option<Caller>,
    /// Certificate that identified the caller, if it was not a token.
    pub certificate: Option<LastingCertificate>,
    /// Set for a stream of resources without a caller: its first message may contain a token.
    pub(super) unnamed: Option<Unnamed>,
}

/// Client without a credential in the headers or the TLS handshake.
#[derive(Clone, Debug)]
pub(super) struct Unnamed {
    sender: Sender,
    request_id: String,
    user: StreamUser,
    /// Set if anonymous clients are allowed to open streams.
    pub(super) may_be_nobody: bool,
}

impl Unnamed {
    /// Identifies the caller by the token in the node's metadata and charges the stream to that user. Returns `None` if
    /// there is no token.
    pub(super) async fn caller(&self, node: Option<&Node>, operations: &Operations) -> Result<Option<Caller>, Status> {
        let Some(token) = token_of(node)? else { return Ok(None) };
        let credential = operations.credential(token).await.map_err(refusal)?;
        let caller = operations.identify(credential, self.sender, self.request_id.clone()).await.map_err(refusal)?;
        let origin = caller.origin();
        self.user.pass_to(origin).map_err(|short| taken(origin, short))?;
        Ok(Some(caller))
    }
}

/// Returns the token in the metadata of a node.
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

/// Refusal of a sender, added as an extension to a request of a service that answers with it.
#[derive(Clone, Debug)]
pub(super) struct CredentialFault {
    pub(super) code: Code,
    pub(super) status: Status,
}

impl Visitor {
    /// Returns the visitor that [`admit`] added to the request.
    pub fn of(extensions: &Extensions) -> Result<Visitor, Status> {
        extensions.get::<Visitor>().cloned().ok_or_else(|| Status::unauthenticated("nobody was let in"))
    }

    /// Returns the client in terms of xDS. An anonymous client sees every service, as anonymous config clients see
    /// every file of an app without access keys.
    pub(super) fn peer(&self) -> Peer {
        let read_scope = self.caller.as_ref().map_or(ReadScope::Everything, Caller::client_sight);
        Peer { address: self.address, origin: self.origin, read_scope }
    }
}

fn failed() -> Status {
    Status::internal("this node has failed at the request, which is a defect: its log says where")
}

/// Admits a request, or responds with the status of its refusal.
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
            Err(status) if request.uri().path().starts_with(POLARIS) => {
                let is_absent = matches!(presented_token(request.headers()), Ok(None));
                let code = if is_absent { Code::EmptyAuthToken } else { Code::TokenNotExisted };
                request.extensions_mut().insert(CredentialFault { code, status });
            }
            Err(status) => return status.into_http(),
        }
    }
    let counter = &door.operations.node().metrics().unread_streams;
    let cut = cut.map(|stream| Cut { stream, counter: counter.clone() });
    // Streams of resources account for what they read and send, and end on their own after the last response.
    if request.uri().path().starts_with(RESOURCES) {
        let Some(response) = tasks::caught(next.run(request)).await else { return failed().into_http() };
        return response.map(|body| Body::new(AnswerBody::new(body, place, cut)));
    }
    let GrpcSettings { budget, ending, .. } = &door.settings;
    let limit = request_bytes_max(request.uri().path(), &door.operations);
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

    /// Identifies the sender. `user` is set for streams of resources, whose first message may contain a token.
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
            let credential = self.operations.credential(token).await.map_err(refusal)?;
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
                // The certificate was issued for another purpose and identifies no caller here.
                Err(Refusal { code: Code::TokenNotExisted, .. }) if may_be_nobody => {}
                Err(refused) => return Err(refusal(refused)),
            }
        }
        let unnamed = user.map(|user| Unnamed { sender, request_id: id, user, may_be_nobody });
        if may_be_nobody || unnamed.is_some() { Ok(Visitor { unnamed, ..visitor(None) }) } else { Err(needed()) }
    }
}

/// Returns the status for a stream without the required credential.
pub(super) fn needed() -> Status {
    Status::unauthenticated("a token is needed")
}

/// Returns the status for a stream that exceeds a limit.
fn taken(origin: Origin, short: Short) -> Status {
    Status::resource_exhausted(match short {
        Short::Origin => format!("{origin} has as many streams as it may"),
        Short::Total => "there are as many streams as there may be".to_owned(),
    })
}

/// Returns the token of the `authorization` header, with or without `Bearer`, else that of an SDK of Polaris.
fn presented_token(headers: &HeaderMap) -> Result<Option<&str>, Status> {
    let of_sdk = || headers.get(POLARIS_TOKEN).filter(|value| !value.is_empty());
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next().or_else(of_sdk) else { return Ok(None) };
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

/// Converts a refusal of the operations to a status.
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
        let mut of_sdk = HeaderMap::new();
        for (value, expected) in [("", None), ("abc", Some("abc"))] {
            of_sdk.insert(POLARIS_TOKEN, value.parse().expect("text"));
            assert_eq!(presented_token(&of_sdk).map_err(|status| status.code()), Ok(expected));
        }
        for none in [&[""][..], &["Bearer "], &["a", "b"]] {
            assert_eq!(of(none), Err(tonic::Code::Unauthenticated), "{none:?}");
        }
    }
}
