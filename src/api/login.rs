//! Login and logout: the one way to a token.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::auth::{Caller, new_token, token_hash, verify_password};
use super::doc::{Doc, PROPOSED};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::extract::{ClientAddress, Object, RequestId};
use crate::catalog::{Asked, Command, Credential};
use crate::model::access::User;
use crate::model::code::Code;
use crate::model::limits;

const DOC: Doc = Doc::new("Login");

#[derive(Deserialize, JsonSchema)]
pub(super) struct Credentials {
    name: String,
    password: String,
}

#[derive(Serialize, JsonSchema)]
struct Login<'a> {
    user_id: &'a str,
    name: &'a str,
    role: &'static str,
    owner_id: &'a str,
    token: &'a str,
}

pub(super) const LOG_IN: Doc = DOC
    .says(
        "A new token, valid for 7 days. After 5 failures of a user in a minute, `Retry-After` says when to come back.",
    )
    .gives(Shape::single::<Login>("loginResponse"))
    .codes(&[&[Code::NotAllowedAccess, Code::TooManyLogins]]);

/// A wrong name and a wrong password are answered alike.
pub(super) async fn log_in(
    State(app): State<App>,
    ClientAddress(known): ClientAddress,
    RequestId(request): RequestId,
    Object(credentials): Object<Credentials>,
) -> Result<Response, ApiError> {
    // Behind a balancer all clients come from its address, and one that guesses must not lock out all.
    let address = known.unwrap_or(IpAddr::from(Ipv4Addr::UNSPECIFIED));
    if let Some(wait) = app.throttle.wait(&credentials.name, address) {
        app.node.metrics().login_failures.with_label_values(&["throttled"]).inc();
        let mut response = ApiError::from(Code::TooManyLogins).into_response();
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        return Ok(response);
    }
    let name = credentials.name.clone();
    let Some(user) = authenticate(&app, credentials).await? else {
        app.throttle.failed(&name, address);
        app.node.metrics().login_failures.with_label_values(&["credentials"]).inc();
        return Err(wrong());
    };
    app.throttle.succeeded(&name, address);
    issue(&app, &user, known, request).await
}

fn wrong() -> ApiError {
    ApiError::new(Code::NotAllowedAccess, "name or password is wrong")
}

/// Hashing takes tens of milliseconds and much memory: off the async threads, a few at a time.
async fn authenticate(app: &App, credentials: Credentials) -> Result<Option<Arc<User>>, ApiError> {
    // A node that has just started may not have applied the founding of the cluster yet, and one that waits
    // to be added knows nobody.
    if app.node.state().catalog().nodes.cluster_id().is_none() {
        app.node.await_linearizable().await?;
    }
    let user = app.node.state().catalog().access.user_named(&credentials.name);
    let is_too_long = credentials.password.chars().count() > limits::CREDENTIAL_CHARS_MAX;
    let password = if is_too_long { String::new() } else { credentials.password };
    let hash = user.as_ref().filter(|user| !is_too_long && !user.disabled).map(|user| user.password_hash.clone());
    let is_right = app.with_password_turn(move || verify_password(&password, hash.as_ref())).await?;
    Ok(is_right.then_some(user).flatten())
}

async fn issue(app: &App, user: &User, address: Option<IpAddr>, request: String) -> Result<Response, ApiError> {
    let token = new_token();
    let password = user.password_hash.clone();
    let command = Command::SignIn { hash: token_hash(&token), user_id: user.id.clone(), password };
    let asked = Asked { credential: Credential::Login, address, request, itself: false, command };
    let outcomes = app.ask(&user.name, asked).await?;
    if outcomes.first().is_some_and(|outcome| !outcome.code.is_success()) {
        return Err(wrong());
    }
    let login = Login { user_id: &user.id, name: &user.name, role: user.role_word(), owner_id: "", token: &token };
    Ok(envelope::single("loginResponse", &login))
}

pub(super) const LOG_OUT: Doc = DOC.says("Revokes the token of the request, on every node.").codes(&[PROPOSED]);

pub(super) async fn log_out(State(app): State<App>, caller: Caller) -> Result<Response, ApiError> {
    if let Credential::Token(hash) = &caller.credential {
        app.ask(&caller.name, caller.asks(Command::SignOut { hash: hash.clone() })).await?;
    }
    Ok(envelope::plain(Code::ExecuteSuccess, Code::ExecuteSuccess.info().to_owned()))
}
