//! `Authorization`, or the certificate of a connection, to a [`Caller`].

use axum::extract::{FromRequestParts, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use axum::response::{IntoResponse, Response};

use super::App;
use super::error::ApiError;
use super::routes::Access;
use crate::address::sender;
use crate::catalog::Credential;
use crate::connections::PeerCertificate;
use crate::model::code::{Code, Refusal};
use crate::operations::token_hash;

pub(super) use crate::operations::Caller;

/// The Polaris family's own header for the same token.
const POLARIS_TOKEN: &str = "x-polaris-token";
const BEARER: &str = "Bearer";

impl FromRequestParts<App> for Caller {
    type Rejection = Response;

    /// Put there by [`admit`]; a route that asks for a caller and is not guarded refuses.
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Response> {
        let refuse = || ApiError::from(Code::EmptyAuthToken).into_response();
        parts.extensions.get::<Caller>().cloned().ok_or_else(refuse)
    }
}

/// Lets pass whom the row of the route lets, and tells the handler who it is.
pub(super) async fn admit(app: &App, access: Access, request: &mut Request) -> Result<(), ApiError> {
    if access == Access::Anyone {
        return Ok(());
    }
    let caller = identify(app, request.headers(), request.extensions()).await?;
    let may = match access {
        Access::Everywhere(verb) => caller.check_everywhere(verb),
        Access::Anyone | Access::TokenHolder => Ok(()),
    };
    request.extensions_mut().insert(caller);
    Ok(may?)
}

pub(super) async fn identify(app: &App, headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, ApiError> {
    let credential = presented(headers, extensions)?;
    let sender = sender(headers, extensions, &app.settings.trusted_proxies);
    Ok(app.identify(credential, sender, crate::request_id::of(extensions)).await?)
}

/// Looks the token of a request up again, in a state that is as fresh as the request asked for: a node
/// that was behind may have let in somebody whose token was revoked, or whose grants were others.
pub(super) fn admit_again(app: &App, extensions: &mut Extensions) -> Result<(), ApiError> {
    let Some(caller) = extensions.get_mut::<Caller>() else { return Ok(()) };
    *caller = caller.again(app)?;
    Ok(())
}

/// A token, or without one the certificate with which the connection began.
fn presented(headers: &HeaderMap, extensions: &Extensions) -> Result<Credential, ApiError> {
    match (presented_token(headers), extensions.get::<PeerCertificate>()) {
        (Ok(token), _) => Ok(Credential::Token(token_hash(token))),
        (Err(ApiError(Refusal { code: Code::EmptyAuthToken, .. })), Some(PeerCertificate { common_name })) => {
            Ok(Credential::Certificate(common_name.clone()))
        }
        (Err(error), _) => Err(error),
    }
}

/// The token as it was sent: raw, as a bearer token, or in Polaris' header.
fn presented_token(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let header = match (values.next(), values.next()) {
        (Some(_), Some(_)) => return Err(ApiError::new(Code::TokenNotExisted, "more than one Authorization header")),
        (Some(value), None) => Some(value),
        (None, _) => headers.get(POLARIS_TOKEN),
    };
    let text = header.map(|value| value.to_str().unwrap_or("?")).unwrap_or("").trim();
    let token = match text.split_at_checked(BEARER.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(BEARER) => rest.trim(),
        _ => text,
    };
    if token.is_empty() { Err(Code::EmptyAuthToken.into()) } else { Ok(token) }
}
