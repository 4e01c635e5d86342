//! `/admin/v1/audit`: the audit trail.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::http::{ApiError, ApiResult, App, Doc, Fresh, PAGING, Query, Shape, envelope};
use crate::catalog::audit::{AuditEvent, Filter};
use crate::catalog::page::Page;
use crate::catalog::would_refuse::WouldRefuse;
use crate::model::code::Code;
use crate::model::grant::Verb;
use crate::model::time::Timestamp;
use crate::openapi::Param;

/// One audited act and its outcome.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditRow")]
struct AuditView<'a> {
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    time: String,
    /// User, `token:NAME` for a service token, or `cluster` for the cluster itself; for a failed login the given name.
    user: &'a str,
    /// Id of the token, as in lists of tokens; empty without one.
    token: &'a str,
    /// Address of the client; empty if unknown.
    address: String,
    /// Action: `create`, `update`, `delete`, `publish`, `rollback`, `stopbeta`, `login`, …
    action: &'a str,
    /// Kind of the object; `route` for a request refused before its body was read, `app` for a config client.
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// Code of the answer.
    code: u32,
    request_id: &'a str,
    /// Revision, or active version, before and after.
    before: &'a str,
    after: &'a str,
    /// Number of equal events in this row.
    count: u32,
}

impl<'a> AuditView<'a> {
    fn new(event: &'a AuditEvent) -> Self {
        AuditView {
            time: event.time.text(),
            user: &event.user,
            token: &event.token,
            address: event.address.map(|address| address.to_string()).unwrap_or_default(),
            action: &event.action,
            kind: &event.kind,
            namespace: &event.namespace,
            name: &event.name,
            code: event.code,
            request_id: &event.request,
            before: &event.before,
            after: &event.after,
            count: event.count,
        }
    }
}

const GLOB: &str = "Exact, or with `*` a glob that ignores case.";

pub(crate) const LIST: Doc = Doc::new("Audit")
    .says(
        "A page of the audit trail, newest first. A filter that would have to look at more than 1,000,000 stored \
         rows is refused: bound it with `since`.",
    )
    .query(&[
        &[
            Param::text("user", GLOB),
            Param::text("kind", "Exact."),
            Param::text("namespace", GLOB),
            Param::text("name", GLOB),
            Param::text("code", "A code, as it was answered."),
            Param::text("since", "`YYYY-MM-DD HH:MM:SS` in UTC, or RFC 3339: from this time on."),
            Param::text("until", "The same: before this time."),
        ],
        PAGING,
    ])
    .gives(Shape::list::<AuditView>("data"))
    .codes(&[&[Code::InvalidParameter, Code::TooManyWaiters, Code::StoreLayerException]]);

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let (filter, page) = wanted(&query)?;
    Ok(app.operations.audit(filter, page, |listed| envelope::list("data", &listed, AuditView::new)).await?)
}

/// A draft or a release that would be refused to its author now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WouldRefuse")]
struct WouldRefuseView<'a> {
    /// Kind, as in the audit trail: `ratelimit`, `routing`, …
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// Name of an active or planned release; empty for the draft.
    release_name: &'a str,
    /// Author.
    user: &'a str,
    /// Missing verb.
    verb: Verb,
    /// Place where it is missing: `namespace/name`.
    at: &'a str,
}

impl<'a> WouldRefuseView<'a> {
    fn new(row: &'a WouldRefuse) -> Self {
        let WouldRefuse { kind, namespace, name, release_name, user, verb, at } = row;
        WouldRefuseView { kind, namespace, name, release_name, user, verb: *verb, at }
    }
}

pub(crate) const WOULD_REFUSE: Doc = Doc::new("Audit")
    .says(
        "Drafts of rules, and releases of them that are in force or planned, whose authors could not make them now: \
         they lack the right at the rule or at a service that it acts on. All of them go on working.",
    )
    .query(&[PAGING])
    .gives(Shape::list::<WouldRefuseView>("data"))
    .codes(&[&[Code::InvalidParameter, Code::TooManyWaiters]]);

pub(crate) async fn would_refuse(State(app): State<App>, query: Query, _: Fresh) -> ApiResult {
    let page = query.page()?;
    Ok(app.operations.would_refuse(page, |listed| envelope::list("data", &listed, WouldRefuseView::new)).await?)
}

fn wanted(query: &Query) -> Result<(Filter, Page), ApiError> {
    let filter = Filter {
        user: query.name("user"),
        kind: query.text("kind"),
        namespace: query.name("namespace"),
        name: query.name("name"),
        code: query.number("code")?,
        since: time(query, "since")?,
        until: time(query, "until")?,
    };
    Ok((filter, query.page()?))
}

fn time(query: &Query, key: &str) -> Result<Option<Timestamp>, ApiError> {
    let read = |text| {
        Timestamp::parse(text).ok_or_else(|| {
            let why = format!("{key} has to be YYYY-MM-DD HH:MM:SS in UTC, or a time of RFC 3339");
            ApiError::new(Code::InvalidParameter, why)
        })
    };
    query.get(key).map(read).transpose()
}
