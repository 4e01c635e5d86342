//! `/naming/v1/{kind}`: drafts of rules. Clients see only their releases.

use axum::extract::{Extension, FromRequest, Request, State};
use serde_json::value::RawValue;
use thuban_documents::{RuleView, folded, parse_rule};

use crate::api::http::{
    ApiError, ApiResult, App, Batch, Caller, Fresh, Input, Query, Sketch, Unknown, answer, envelope, read_body,
};
use crate::catalog::rules::RuleFilter;
use crate::catalog::{Catalog, Op};
use crate::model::rule::{Family, RuleDraft};
use crate::operations::XdsWarnings;

/// Lists rules, newest change first: whole, or with `brief` only the fields that all families have.
pub(crate) async fn list(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> ApiResult {
    let with_body = !query.flag("brief")?.unwrap_or(false);
    answer_list(&app, family, &query, &caller, with_body).await
}

/// Lists whole rules; accepts the same query as [`list`].
pub(crate) async fn detail(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> ApiResult {
    answer_list(&app, family, &query, &caller, true).await
}

async fn answer_list(app: &App, family: Family, query: &Query, caller: &Caller, with_body: bool) -> ApiResult {
    let filter = RuleFilter {
        id: query.text("id"),
        name: query.name("name"),
        namespace: query.name("namespace"),
        service: query.name("service"),
        enable: query.flag("enable")?,
        read_scope: caller.read_scope(),
    };
    let page = query.page()?;
    let reach = app.node().state().catalog().rules.of(family).reach(&filter, &page);
    let find = move |catalog: &Catalog| catalog.rules.of(family).list(&filter, &page);
    app.scan(reach, find, move |listed| envelope::list("data", &listed, |rule| RuleView::new(rule, with_body))).await
}

/// Items of a write on rules; their fields depend on the family.
pub(crate) struct RuleBatch(Batch<RuleDraft>);

impl FromRequest<App> for RuleBatch {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let family = *request.extensions().get::<Family>().expect("every route of rules has its family");
        let unknown = Unknown::of(&request)?;
        let read = |raw: &RawValue| {
            let folded = folded(family, raw.get()).and_then(|text| RawValue::from_string(text).ok());
            let (rule, fields) = parse_rule(family, folded.as_deref().unwrap_or(raw));
            unknown.judge(rule, fields)
        };
        Ok(RuleBatch(Batch::parse_noting(&read_body(request).await?, read)?))
    }
}

/// Fields of an item depend on the family of the route, whose documentation describes them.
impl Input for RuleBatch {
    fn describe(sketch: &mut Sketch<'_>) {
        Unknown::describe(sketch);
        sketch.batch(sketch.item.expect("the documentation of a route on rules says what an item is"));
    }
}

/// Creates or updates rules. Per item 200000; 200002 nothing changed; 400103 value out of range; 400201 name or id
/// exists; 400202 missing; 409000 stale revision.
pub(crate) async fn save(
    op: Op,
    app: State<App>,
    caller: Caller,
    (due, RuleBatch(batch)): (XdsWarnings, RuleBatch),
) -> ApiResult {
    let outcomes = app.operations.rules(&caller, op, batch.items).await?;
    let warnings = super::with_advice(&app, &caller, &outcomes, (batch.warnings, due)).await;
    Ok(answer::batch(&app, outcomes, warnings))
}

/// Deletes rules with their releases. Per item 200000, even if it does not exist.
pub(crate) async fn delete(app: State<App>, caller: Caller, RuleBatch(batch): RuleBatch) -> ApiResult {
    let outcomes = app.operations.rules(&caller, Op::Delete, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}
