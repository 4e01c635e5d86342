//! `/auth/v1/user` and `/auth/v1/sessions`: the caller's account and logins.

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, answer, envelope};
use crate::catalog::page::Listed;
use crate::model::access::Token;
use crate::model::code::Code;
use crate::model::grant::{Grant, Verb};
use crate::model::time::Timestamp;
use crate::openapi::Param;
use crate::operations::oneself::{Oneself, SessionRequest};

const DOC: Doc = Doc::new("Oneself");

/// The caller.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Oneself")]
struct OneselfView<'a> {
    /// User name, or `token:NAME`.
    name: &'a str,
    grants: Vec<OwnGrant<'a>>,
    /// Verbs that these grants give in at least one place.
    verbs: Vec<Verb>,
    /// `login`, `provider`, `token`, `certificate` or `bearer`.
    signed_in_by: &'a str,
    /// Expiry of the token: `YYYY-MM-DD HH:MM:SS`, UTC; empty for never.
    until: String,
}

/// A grant of the caller.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OwnGrant")]
struct OwnGrant<'a> {
    #[serde(flatten)]
    grant: &'a Grant,
    /// `binding` for a grant that follows from the claims of an identity provider; absent for one given by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
}

pub(crate) const SHOW: Doc = DOC.says("The caller and its grants.").gives(Shape::single::<OneselfView>("user"));

pub(crate) async fn show(State(app): State<App>, caller: Caller, _: Fresh) -> Response {
    let Oneself { name, grants, bound, verbs, signed_in_by, until } = app.operations.oneself(&caller);
    let until = until.map(Timestamp::text).unwrap_or_default();
    let own = |grant| OwnGrant { grant, source: bound.contains(grant).then_some("binding") };
    let (grants, verbs) = (grants.iter().map(own).collect(), verbs.into_iter().collect());
    envelope::single("user", &OneselfView { name: &name, grants, verbs, signed_in_by, until })
}

/// A login of the caller.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Session")]
struct SessionView<'a> {
    /// Id of its token in the audit trail.
    id: &'a str,
    /// Start of the login, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    since: String,
    until: String,
    /// Address from which the login was made; empty if unknown.
    address: String,
    /// User agent that made it.
    agent: &'a str,
}

impl<'a> SessionView<'a> {
    fn new(session: &'a Token) -> Self {
        SessionView {
            id: session.hash.id(),
            since: session.ctime.text(),
            until: session.expires.text(),
            address: session.from.address.map(|address| address.to_string()).unwrap_or_default(),
            agent: &session.from.agent,
        }
    }
}

pub(crate) const SESSIONS: Doc = DOC
    .says(
        "A page of the logins of the caller, or with `user` of somebody else for who manages everybody; newest first.",
    )
    .query(&[&[Param::text("user", "Whose; absent for the caller's own.")], PAGING])
    .gives(Shape::list::<SessionView>("data"));

pub(crate) async fn sessions(State(app): State<App>, caller: Caller, query: Query, _: Fresh) -> ApiResult {
    let page = query.page()?;
    let sessions = app.operations.sessions(&caller, query.get("user"))?;
    Ok(envelope::list("data", &Listed::cut(sessions.iter(), &page), |session| SessionView::new(session)))
}

pub(crate) const END_SESSIONS: Doc = DOC
    .says(
        "Ends logins by their ids, on every node: one's own, or those of others for who manages everybody. One that is \
         not there is success.",
    )
    .gives(Shape::batch::<()>("session"))
    .codes(&[&[Code::InvalidParameter, Code::LevelNotReached]]);

pub(crate) async fn end_sessions(
    State(app): State<App>,
    caller: Caller,
    Strict(batch): Strict<SessionRequest>,
) -> ApiResult {
    let outcomes = app.operations.end_sessions(&caller, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}
