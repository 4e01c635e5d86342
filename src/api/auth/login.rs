//! Login and logout: tokens of users.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::RETRY_AFTER;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::http::{
    Agent, ApiError, ApiResult, App, Caller, Doc, Object, PROPOSED, RequestIdText, SentBy, Shape, envelope,
};
use crate::model::code::Code;
use crate::model::limits::LOGIN_BODY_BYTES_MAX;
use crate::operations::new_token;
use crate::operations::sign_in::{Applicant, NotSignedIn, SignedIn};

const DOC: Doc = Doc::new("Login");

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Credentials")]
pub(crate) struct LoginRequest {
    name: String,
    password: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Login<'a> {
    pub(crate) user_id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) role: &'static str,
    pub(crate) owner_id: &'a str,
    pub(crate) token: &'a str,
}

pub(crate) const LOG_IN: Doc = DOC
    .says(
        "A new token, valid for 7 days. After 5 failures of a user in a minute, and where too many wait, `Retry-After` \
         says when to come back.",
    )
    .gives(Shape::single::<Login>("loginResponse"))
    .codes(&[&[Code::NotAllowedAccess, Code::TooManyLogins]]);

pub(crate) async fn log_in(
    State(app): State<App>,
    SentBy(sender): SentBy,
    RequestIdText(request): RequestIdText,
    Agent(agent): Agent,
    Object(LoginRequest { name, password }): Object<LoginRequest, LOGIN_BODY_BYTES_MAX>,
) -> ApiResult {
    match app.operations.sign_in(Applicant { name, password, sender, agent, request, token: new_token() }).await {
        Ok(SignedIn { user, token }) => {
            let login =
                Login { user_id: &user.id, name: &user.name, role: user.role_word(), owner_id: "", token: &token };
            Ok(envelope::single("loginResponse", &login))
        }
        Err(not) => refused(not),
    }
}

/// Returns the response to a login that was refused or postponed.
pub(crate) fn refused(not: NotSignedIn) -> ApiResult {
    let (refusal, wait) = not.into_parts();
    let Some(seconds) = wait else { return Err(refusal.into()) };
    let mut response = ApiError(refusal).into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    Ok(response)
}

pub(crate) const LOG_OUT: Doc = DOC.says("Revokes the token of the request, on every node.").codes(&[PROPOSED]);

pub(crate) async fn log_out(State(app): State<App>, caller: Caller) -> ApiResult {
    app.operations.sign_out(&caller).await?;
    Ok(envelope::done())
}
