//! Login and logout: the one way to a token.

use std::net::IpAddr;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::auth::{Caller, new_token, token_hash};
use super::doc::{Doc, PROPOSED};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::extract::{ClientAddress, RequestId, SmallObject};
use super::passwords::NotChecked;
use crate::catalog::{Asked, Command, Credential};
use crate::model::access::User;
use crate::model::code::Code;
use crate::model::limits;
use crate::origin::Origin;

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
        "A new token, valid for 7 days. After 5 failures of a user in a minute, and where too many wait, `Retry-After` says when to come back.",
    )
    .gives(Shape::single::<Login>("loginResponse"))
    .codes(&[&[Code::NotAllowedAccess, Code::TooManyLogins]]);

/// A wrong name and a wrong password are answered alike.
pub(super) async fn log_in(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    RequestId(request): RequestId,
    SmallObject(credentials): SmallObject<Credentials>,
) -> Result<Response, ApiError> {
    let Credentials { name, password } = credentials;
    let is_too_long = |text: &str| text.chars().count() > limits::CREDENTIAL_CHARS_MAX;
    let wrong = || {
        app.node.metrics().login_failures.with_label_values(&["credentials"]).inc();
        app.note_login(&name, address, &request, Code::NotAllowedAccess);
        ApiError::new(Code::NotAllowedAccess, "name or password is wrong")
    };
    if is_too_long(&name) {
        // Nobody has such a name, so there is nothing to hash, and nothing to remember.
        return Err(wrong());
    }
    // A user made, or a password changed, a moment ago on another node: this one may be behind. The login goes
    // through the leader anyway, and without one it is not worth a hash.
    app.node.await_linearizable().await?;
    let user = app.node.state().catalog().access.user_named(&name);
    let (password, hash) = match &user {
        Some(user) if !is_too_long(&password) && !user.disabled => (password, Some(user.password_hash.clone())),
        _ => (String::new(), None),
    };
    let is_right = match app.passwords.check(&name, Origin::of_any(address), password, hash).await {
        Ok(is_right) => is_right,
        Err(not_checked) => {
            app.note_login(&name, address, &request, Code::TooManyLogins);
            return Ok(come_back(&app, not_checked));
        }
    };
    match user.filter(|_| is_right) {
        Some(user) => issue(&app, &user, address, request.clone()).await,
        None => Err(wrong()),
    }
}

/// Not now: `Retry-After` says when.
fn come_back(app: &App, not_checked: NotChecked) -> Response {
    let (reason, seconds, why) = match not_checked {
        NotChecked::Throttled(wait) => ("throttled", wait.as_secs() + 1, "too many failed logins"),
        NotChecked::Busy => ("busy", 1, "too many logins are waiting"),
    };
    app.node.metrics().login_failures.with_label_values(&[reason]).inc();
    let mut response = ApiError::new(Code::TooManyLogins, why).into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

async fn issue(app: &App, user: &User, address: Option<IpAddr>, request: String) -> Result<Response, ApiError> {
    let token = new_token();
    let password = user.password_hash.clone();
    let command = Command::SignIn { hash: token_hash(&token), user_id: user.id.clone(), password };
    let asked = Asked { credential: Credential::Login, address, request, itself: false, command };
    let outcomes = app.ask(&user.name, asked).await?;
    if outcomes.first().is_some_and(|outcome| !outcome.code.is_success()) {
        return Err(ApiError::new(Code::NotAllowedAccess, "name or password is wrong"));
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
