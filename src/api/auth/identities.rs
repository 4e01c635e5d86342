//! `/auth/v1/identities`: people that have signed in at identity providers.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;

use crate::api::http::{
    ApiError, ApiResult, App, Caller, Doc, Fresh, Input, PAGING, Query, Shape, Strict, answer, envelope,
};
use crate::api::view::{FreedIdentityView, IdentityView};
use crate::catalog::access::Sso;
use crate::model::code::Code;
use crate::model::sso::{IdentityRequest, SsoIdentity};
use crate::model::text::NameFilter;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Single sign-on");

/// Returns the name of the provider of a person.
fn provider_of<'a>(identity: &SsoIdentity, sso: &'a Sso) -> &'a str {
    sso.provider_by_id(&identity.provider).map_or("", |provider| &provider.name)
}

pub(crate) const LIST: Doc = DOC
    .says("A page of the people that have signed in at a provider, by provider and name.")
    .query(&[
        &[
            Param::text("provider", "Exact, or with `*` a glob that ignores case."),
            Param::text("sub", "Exact, or with `*` a glob that ignores case."),
        ],
        PAGING,
    ])
    .gives(Shape::list::<IdentityView>("data"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let (provider, sub, page) = (query.name("provider"), query.name("sub"), query.page()?);
    let access = app.node().state().access().clone();
    let sso = access.sso();
    let wanted = |identity: &SsoIdentity| {
        NameFilter::passes(&provider, provider_of(identity, sso)) && NameFilter::passes(&sub, &identity.key.sub)
    };
    let listed = sso.list_identities(wanted, &page);
    Ok(envelope::list("data", &listed, |identity| IdentityView::new(identity, sso)))
}

pub(crate) const DELETE: Doc = DOC
    .says(
        "Deletes identities, so that other people can have their names, and ends their sessions. The answer names the \
         service tokens of each; `tokens=true` ends them. One that is not there is success.",
    )
    .query(&[&[Param::flag("tokens", "Ends the service tokens of these people too.")]])
    .gives(Shape::batch::<FreedIdentityView>("identity"))
    .codes(&[&[Code::InvalidParameter, Code::LevelNotReached]]);

/// The choice to end service tokens too, which is read before the body.
pub(crate) struct WithTokens(bool);

impl FromRequestParts<App> for WithTokens {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Ok(query) = Query::from_request_parts(parts, app).await;
        Ok(WithTokens(query.flag("tokens")?.unwrap_or(false)))
    }
}

impl Input for WithTokens {}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    WithTokens(tokens): WithTokens,
    Strict(batch): Strict<IdentityRequest>,
) -> ApiResult {
    let outcomes = app.operations.free_identities(&caller, batch.items, tokens).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}
