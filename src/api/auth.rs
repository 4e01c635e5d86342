//! `Authorization` to [`Caller`], and passwords. The one place that lets a request in.

use std::net::IpAddr;

use argon2::Argon2;
use argon2::password_hash::{self, PasswordHasher, PasswordVerifier, SaltString};
use axum::extract::{FromRequestParts, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use sha2::{Digest, Sha256};

use super::App;
use super::error::ApiError;
use super::layers::RequestName;
use super::routes::Access;
use crate::address::client_address;
use crate::catalog::access::Holder;
use crate::catalog::asked::SEEING;
use crate::catalog::audit::AuditNote;
use crate::catalog::{Asked, Command, Credential, Outcome};
use crate::connections::PeerCertificate;
use crate::model::access::{PasswordHash, TokenHash};
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, Sight, Verb};

/// The Polaris family's own header for the same token.
const POLARIS_TOKEN: &str = "x-polaris-token";
const BEARER: &str = "Bearer";

/// Who makes the request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The user, or `token:NAME` for a service token.
    pub(super) name: String,
    pub(super) credential: Credential,
    pub(super) grants: Grants,
    address: Option<IpAddr>,
    request: String,
}

impl Caller {
    /// What the caller sees in lists and look-ups of this surface.
    pub(super) fn sight(&self) -> Sight {
        Sight::new(&self.grants, &[Verb::Read])
    }

    /// What the caller sees where it asks as a client.
    pub(super) fn client_sight(&self) -> Sight {
        Sight::new(&self.grants, SEEING)
    }

    /// The same caller by what this node knows now, if it is still let in.
    pub(super) fn again(&self, app: &App) -> Result<Caller, ApiError> {
        let holder = holder(app, &self.credential, self.address).ok_or(Code::TokenNotExisted)?;
        Ok(Caller { grants: holder.grants, ..self.clone() })
    }

    /// Refuses who may not do this on everything: what belongs to the cluster as a whole.
    pub(super) fn check_everywhere(&self, verb: Verb) -> Result<(), ApiError> {
        match self.grants.may_everywhere(verb) {
            true => Ok(()),
            false => Err(ApiError::new(Code::NotAllowedAccess, format!("this needs {} on everything", verb.word()))),
        }
    }

    /// A note of what this caller did, where there is no command.
    pub(super) fn signs(&self, note: AuditNote) -> AuditNote {
        AuditNote {
            user: self.name.clone(),
            token: self.credential.token_id().to_owned(),
            address: self.address,
            request: self.request.clone(),
            ..note
        }
    }

    /// A command of this caller.
    pub(super) fn asks(&self, command: Command) -> Asked {
        Asked {
            credential: self.credential.clone(),
            address: self.address,
            request: self.request.clone(),
            itself: false,
            command,
        }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    /// Put there by [`admit`]; a route that asks for a caller and is not guarded refuses.
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| Code::EmptyAuthToken.into())
    }
}

impl App {
    /// Has something done that somebody asked for. One outcome per item; a token that was retired meanwhile
    /// refuses all of it.
    pub(super) async fn ask(&self, by: &str, asked: Asked) -> Result<Vec<Outcome>, ApiError> {
        let outcomes = self.node.ask(by, asked).await?;
        match outcomes.first() {
            Some(Outcome { code: Code::TokenNotExisted, .. }) => Err(Code::TokenNotExisted.into()),
            _ => Ok(outcomes),
        }
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
    may
}

pub(super) async fn identify(app: &App, headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, ApiError> {
    let credential = presented(headers, extensions)?;
    let address = client_address(headers, extensions, &app.settings.trusted_proxies);
    let request = RequestName::of(extensions);
    let caller = |holder: Holder| {
        let Holder { name, grants, .. } = holder;
        Caller { name, credential: credential.clone(), grants, address, request: request.clone() }
    };
    if let Some(holder) = holder(app, &credential, address) {
        return Ok(caller(holder));
    }
    // Issued a moment ago on another node? Then this node is behind, and a linearizable look tells. Where
    // none is possible nobody can say that the token is wrong.
    Box::pin(app.node.await_linearizable()).await?;
    holder(app, &credential, address).map(caller).ok_or_else(|| Code::TokenNotExisted.into())
}

/// Looks the token of a request up again, in a state that is as fresh as the request asked for: a node
/// that was behind may have let in somebody whose token was revoked, or whose grants were others.
pub(super) fn admit_again(app: &App, extensions: &mut Extensions) -> Result<(), ApiError> {
    let Some(caller) = extensions.get_mut::<Caller>() else { return Ok(()) };
    *caller = caller.again(app)?;
    Ok(())
}

/// Who stands behind what was presented, as far as this node may say: one that has been cut off for too
/// long believes nobody, as it would not hear of a revocation.
fn holder(app: &App, credential: &Credential, address: Option<IpAddr>) -> Option<Holder> {
    if !app.node.was_led_within(app.settings.token_trust) {
        return None;
    }
    let now = app.node.now();
    let catalog = app.node.state().catalog();
    let holder = match credential {
        Credential::Token(hash) => catalog.access.holder(hash, now)?,
        Credential::Certificate(name) => catalog.access.holder_named(name)?,
        Credential::Login => return None,
    };
    holder.is_for(address).then_some(holder)
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

/// A token that nobody can guess.
pub(super) fn new_token() -> String {
    hex::encode(rand::random::<[u8; 32]>())
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
