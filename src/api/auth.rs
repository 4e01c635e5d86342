//! `Authorization` to [`Caller`], and passwords. The one place that lets a request in.

use argon2::Argon2;
use argon2::password_hash::{self, PasswordHasher, PasswordVerifier, SaltString};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::App;
use super::error::ApiError;
use crate::model::access::{PasswordHash, Role, TokenHash};
use crate::model::code::Code;

/// The Polaris family's own header for the same token.
const POLARIS_TOKEN: &str = "x-polaris-token";
const BEARER: &str = "Bearer";

/// Who makes the request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) token: TokenHash,
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    /// Put there by [`require_token`]; a route that asks for a caller and is not guarded refuses.
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| Code::EmptyAuthToken.into())
    }
}

/// Lets holders of a live token pass and tells the handler who they are.
pub(super) async fn require_token(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match identify(&app, request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

async fn identify(app: &App, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let token = presented_token(headers)?;
    let hash = token_hash(token);
    if let Some(caller) = holder(app, &hash) {
        return Ok(caller);
    }
    // Issued a moment ago on another node? Then this node is behind, and a linearizable look tells. Where
    // none is possible nobody can say that the token is wrong.
    app.node.await_linearizable().await?;
    holder(app, &hash).ok_or_else(|| Code::TokenNotExisted.into())
}

/// Looks the token of a request up again, in a state that is as fresh as the request asked for: a node
/// that was behind may have let in somebody whose token was revoked.
pub(super) fn admit_again(app: &App, extensions: &mut Extensions) -> Result<(), ApiError> {
    let Some(caller) = extensions.get::<Caller>() else { return Ok(()) };
    let caller = holder(app, &caller.token).ok_or(Code::TokenNotExisted)?;
    extensions.insert(caller);
    Ok(())
}

pub(super) fn holder(app: &App, hash: &TokenHash) -> Option<Caller> {
    let user = app.node.state().catalog().access.holder(hash, app.node.now())?;
    Some(Caller { name: user.name.clone(), role: user.role, token: hash.clone() })
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

/// What is kept of a token.
pub(crate) fn token_hash(token: &str) -> TokenHash {
    TokenHash(hex::encode(Sha256::digest(token)))
}

/// argon2id with the library's recommended cost. Slow on purpose: not for async threads.
pub fn hash_password(password: &str) -> Result<String, password_hash::Error> {
    let salt = SaltString::encode_b64(&rand::random::<[u8; 16]>())?;
    Ok(Argon2::default().hash_password(password.as_bytes(), &salt)?.to_string())
}

/// Compares in the time that one hash takes, whether or not there is a hash to compare with: an
/// unknown user is not told apart by the clock.
pub(super) fn verify_password(password: &str, hash: Option<&PasswordHash>) -> bool {
    let parsed = hash.and_then(|hash| password_hash::PasswordHash::new(&hash.0).ok());
    match parsed {
        Some(parsed) => Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok(),
        None => {
            let _ = hash_password(password);
            false
        }
    }
}
