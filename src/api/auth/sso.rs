//! `/auth/v1/sso`: sign-in at identity providers, by clients that have an ID token; logout by a provider; tests.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::login::{Login, refused};
use crate::api::http::{
    Agent, ApiResult, App, Doc, FormBody, Fresh, Object, PROPOSED, PathName, RequestIdText, SentBy, Shape, envelope,
};
use crate::catalog::page::Listed;
use crate::model::code::Code;
use crate::model::limits::SSO_BODY_BYTES_MAX;
use crate::model::sso::Provider;
use crate::operations::new_token;
use crate::operations::sso::{Proof, SsoApplicant};

const DOC: Doc = Doc::new("Single sign-on");

/// The public half of a provider, as a client needs it to sign in there.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SsoProvider")]
struct SsoProviderView<'a> {
    name: &'a str,
    issuer: &'a str,
    /// Client for command lines, which has no secret; absent if the provider has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<&'a str>,
    scopes: &'a [String],
}

impl<'a> SsoProviderView<'a> {
    fn new(provider: &'a Provider) -> Self {
        let Provider { name, issuer, scopes, .. } = provider;
        SsoProviderView { name, issuer, client_id: provider.cli_client(), scopes }
    }
}

pub(crate) const LIST: Doc = DOC
    .says("The enabled identity providers, by name, with what a client needs to sign in there.")
    .gives(Shape::list::<SsoProviderView>("data"));

pub(crate) async fn list(State(app): State<App>, _: Fresh) -> Response {
    let providers = app.operations.sso_providers();
    let listed = Listed { rows: providers.clone(), ..Listed::amount(providers.len()) };
    envelope::list("data", &listed, |provider: &Arc<Provider>| SsoProviderView::new(provider))
}

pub(crate) const SHOW: Doc = DOC
    .says("An enabled identity provider: what a client needs to sign in there.")
    .gives(Shape::single::<SsoProviderView>("provider"))
    .codes(&[&[Code::InvalidParameter, Code::NotFoundResource, Code::NoLeader]]);

pub(crate) async fn show(State(app): State<App>, PathName(name): PathName) -> ApiResult {
    let provider = app.operations.sso_provider(&name).await?;
    Ok(envelope::single("provider", &SsoProviderView::new(&provider)))
}

/// Tokens that a client got from a provider.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SsoProof")]
pub(crate) struct LoginRequest {
    id_token: String,
    /// The nonce that the client sent to the provider; required if the token has one.
    #[serde(default)]
    nonce: Option<String>,
    /// Token for the provider's userinfo, which is asked where the ID token lacks the name or the groups.
    #[serde(default)]
    access_token: Option<String>,
}

pub(crate) const LOG_IN: Doc = DOC
    .says(
        "A new token for a person with an ID token of the provider, at most 5 minutes old and not used before. It is \
         valid for `session_s` of the provider. `Retry-After` says when to come back after too many failures.",
    )
    .gives(Shape::single::<Login>("loginResponse"))
    .codes(&[&[
        Code::InvalidParameter,
        Code::NotAllowedAccess,
        Code::TokenNotExisted,
        Code::NotFoundResource,
        Code::TooManyLogins,
        Code::ProviderAway,
    ]]);

pub(crate) async fn log_in(
    State(app): State<App>,
    PathName(name): PathName,
    SentBy(sender): SentBy,
    RequestIdText(request): RequestIdText,
    Agent(agent): Agent,
    Object(LoginRequest { id_token, nonce, access_token }): Object<LoginRequest, SSO_BODY_BYTES_MAX>,
) -> ApiResult {
    let provider = app.operations.sso_provider(&name).await?;
    let proof = Proof::IdToken { id_token, nonce, access_token };
    let applicant = SsoApplicant { proof, sender, agent, request, token: new_token() };
    match app.operations.sso_sign_in(&provider, applicant).await {
        Ok(signed_in) => {
            let login = Login {
                user_id: &signed_in.person,
                name: &signed_in.name,
                role: signed_in.role,
                owner_id: "",
                token: &signed_in.token,
            };
            Ok(envelope::single("loginResponse", &login))
        }
        Err(not) => refused(not),
    }
}

/// The form of a back-channel logout.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "BackChannelLogout")]
pub(crate) struct LogoutRequest {
    logout_token: String,
}

pub(crate) const LOG_OUT: Doc = DOC
    .says(
        "Ends the sessions that a logout token of the provider names, on every node. Providers call it: enter it there \
         as the address for back-channel logout.",
    )
    .codes(&[
        PROPOSED,
        &[
            Code::InvalidParameter,
            Code::TokenNotExisted,
            Code::NotFoundResource,
            Code::TooManyLogins,
            Code::ProviderAway,
        ],
    ]);

pub(crate) async fn log_out(
    State(app): State<App>,
    PathName(name): PathName,
    SentBy(sender): SentBy,
    RequestIdText(request): RequestIdText,
    FormBody(LogoutRequest { logout_token }): FormBody<LogoutRequest, SSO_BODY_BYTES_MAX>,
) -> ApiResult {
    let provider = app.operations.sso_provider(&name).await?;
    match app.operations.sso_logout(&provider, &logout_token, sender, request).await {
        Ok(()) => Ok(envelope::done()),
        Err(not) => refused(not),
    }
}

/// A token to be examined.
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(rename = "ProviderTest")]
#[serde(default)]
pub(crate) struct TestRequest {
    /// ID token or bearer token; nothing of it is stored.
    token: Option<String>,
}

/// A step of a test.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProviderTestStep")]
struct StepView<'a> {
    step: &'a str,
    ok: bool,
    /// Finding, or the reason of the failure.
    detail: &'a str,
}

pub(crate) const TEST: Doc = DOC
    .says(
        "Tries a provider from this node: discovery, keys, algorithms, clock; with a token its claims, the bindings \
         that hold and the rights that follow. A step that fails is no failure of the request.",
    )
    .gives(Shape::single::<Vec<StepView>>("steps"))
    .codes(&[&[Code::NotFoundResource, Code::InvalidParameter]]);

pub(crate) async fn test(
    State(app): State<App>,
    PathName(name): PathName,
    _: Fresh,
    Object(TestRequest { token }): Object<TestRequest, SSO_BODY_BYTES_MAX>,
) -> ApiResult {
    let token = token.as_deref().map(str::trim).filter(|token| !token.is_empty());
    let steps = app.operations.test_provider(&name, token).await?;
    let steps: Vec<_> =
        steps.iter().map(|step| StepView { step: step.name, ok: step.is_good, detail: &step.detail }).collect();
    Ok(envelope::single("steps", &steps))
}
