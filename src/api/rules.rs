//! `/naming/v1/{kind}` and `/naming/v1/{kind}/releases`, once for all families of rules: which one
//! a request is about comes with the route.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{Extension, FromRequest, Request, State};
use axum::response::Response;
use serde_json::value::RawValue;

use super::auth::Caller;
use super::bodies::read_body;
use super::envelope;
use super::error::ApiError;
use super::extract::Batch;
use super::query::{Fresh, Query};
use super::unknown::{Noted, Unknown, parse_noting};
use super::view::{EventView, RuleReleaseView, RuleView};
use super::{App, answer, upstream};
use crate::catalog::history::{Numbered, Thing};
use crate::catalog::page::Listed;
use crate::catalog::rules::{ReleaseFilter, RuleFilter};
use crate::catalog::{Catalog, Op};
use crate::model::code::{Code, Refusal};
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, Rule, RuleDraft, RuleHead};

/// A page of rules, newest change first. They are whole, unless `brief` asks for the fields that
/// all families have.
pub(super) async fn list(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> Result<Response, ApiError> {
    let with_body = !query.flag("brief")?.unwrap_or(false);
    answer_list(&app, family, &query, &caller, with_body).await
}

/// A page of whole rules; takes what [`list`] takes.
pub(super) async fn detail(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> Result<Response, ApiError> {
    answer_list(&app, family, &query, &caller, true).await
}

async fn answer_list(
    app: &App,
    family: Family,
    query: &Query,
    caller: &Caller,
    with_body: bool,
) -> Result<Response, ApiError> {
    let filter = RuleFilter {
        id: query.text("id"),
        name: query.name("name"),
        namespace: query.name("namespace"),
        service: query.name("service"),
        enable: query.flag("enable")?,
        read_scope: caller.read_scope(),
    };
    let page = query.page()?;
    let reach = app.node.state().catalog().rules.of(family).reach(&filter, &page);
    let find = move |catalog: &Catalog| catalog.rules.of(family).list(&filter, &page);
    app.scan(reach, find, move |listed| envelope::list("data", &listed, |rule| RuleView::new(rule, with_body))).await
}

/// The items of a write on rules: which fields they have, the family says.
pub(super) struct RuleBatch(Batch<RuleDraft>);

impl FromRequest<App> for RuleBatch {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let family = *request.extensions().get::<Family>().expect("every route of rules has its family");
        let unknown = Unknown::of(&request)?;
        let read = |raw: &RawValue| {
            let folded = upstream::folded(family, raw.get()).and_then(|text| RawValue::from_string(text).ok());
            let raw = folded.as_deref().unwrap_or(raw);
            unknown.judge(parse_rule(family, raw))
        };
        Ok(RuleBatch(Batch::parse_noting(&read_body(request).await?, read)?))
    }
}

/// Head and body are read one after the other from the same object, each ignoring the other's
/// fields, so that a wrong type is refused by the path of its field. With the fields that neither reads.
pub(crate) fn parse_rule(family: Family, raw: &RawValue) -> (Result<RuleDraft, Refusal>, Vec<String>) {
    let (head, of_head) = parse_noting(PhantomData::<RuleHead>, raw);
    let (body, of_body) = parse_noting(family, raw);
    let is_known_to_head = |field: &String| !field.contains(['.', '[']) && !of_head.contains(field);
    let unread = of_body.into_iter().filter(|field| !is_known_to_head(field)).collect();
    (head.and_then(|head| Ok(RuleDraft { head, body: body? })), unread)
}

/// Per item 200000; 400103 a value out of its range; 400201 name or id is taken.
pub(super) async fn create(app: State<App>, caller: Caller, RuleBatch(batch): RuleBatch) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Create, batch).await
}

/// Per item 200000; 200002 nothing changed; 400202 missing; 409000 stale revision.
pub(super) async fn update(app: State<App>, caller: Caller, RuleBatch(batch): RuleBatch) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Update, batch).await
}

/// Per item 200000, also if it was not there. The releases go with the rule.
pub(super) async fn delete(app: State<App>, caller: Caller, RuleBatch(batch): RuleBatch) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch).await
}

async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<RuleDraft>) -> Result<Response, ApiError> {
    let outcomes = app.rules(caller, op, batch.items).await?;
    Ok(answer::batch(app, outcomes, batch.warnings))
}

// ---- releases ----

/// The releases of one rule, highest version first, or without a rule those of all that the caller may see, newest
/// change first; with `brief=false` the rule as released in each.
pub(super) async fn list_releases(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> Result<Response, ApiError> {
    let filter = ReleaseFilter {
        rule_id: query.text("id").or_else(|| query.text("rule_id")),
        rule_name: query.text("rule_name"),
        only_active: query.flag("only_active")?.unwrap_or(false),
        read_scope: caller.read_scope(),
    };
    let with_rule = query.flag("brief")? == Some(false);
    let page = query.page()?;
    let reach = app.node.state().catalog().rules.of(family).reach_of_releases(&filter);
    let find = move |catalog: &Catalog| {
        let book = catalog.rules.of(family);
        (book.list_releases(&filter, &page), book.removed_through_version_of(&filter))
    };
    app.scan(reach, find, move |(listed, removed_through)| {
        envelope::list_releases("data", &listed, removed_through, |release| RuleReleaseView::new(release, with_rule))
    })
    .await
}

/// Per item 200000; 400202 no such rule; 400201 the rule has a release of this name; 409000 a gray
/// release is active; 400904 gray without labels.
pub(super) async fn publish(
    app: State<App>,
    Extension(family): Extension<Family>,
    caller: Caller,
    Noted(batch): Noted<RuleReleaseDraft>,
) -> Result<Response, ApiError> {
    let outcomes = app.publish_rules(&caller, family, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

/// Per item 200000; 200002 it is active; 400000 it is gray; 400202 missing.
pub(super) async fn roll_back(
    app: State<App>,
    family: Extension<Family>,
    caller: Caller,
    Noted(batch): Noted<RuleReleaseDraft>,
) -> Result<Response, ApiError> {
    change_releases(&app, &caller, *family, ReleaseOp::Rollback, batch).await
}

/// Per item 200000; 400000 it is not an active gray release; 400201 the new name is taken; 400202 missing.
pub(super) async fn promote(
    app: State<App>,
    family: Extension<Family>,
    caller: Caller,
    Noted(batch): Noted<RuleReleaseDraft>,
) -> Result<Response, ApiError> {
    change_releases(&app, &caller, *family, ReleaseOp::Promote, batch).await
}

/// Per item 200000; 200002 it is not active; 400000 it is gray; 400202 missing, or none is before it.
pub(super) async fn withdraw(
    app: State<App>,
    family: Extension<Family>,
    caller: Caller,
    Noted(batch): Noted<RuleReleaseDraft>,
) -> Result<Response, ApiError> {
    change_releases(&app, &caller, *family, ReleaseOp::Withdraw, batch).await
}

/// Per item 200000; 200002 it was stopped before; 400000 it is not gray; 400202 missing.
pub(super) async fn stop_gray(
    app: State<App>,
    family: Extension<Family>,
    caller: Caller,
    Noted(batch): Noted<RuleReleaseDraft>,
) -> Result<Response, ApiError> {
    change_releases(&app, &caller, *family, ReleaseOp::StopGray, batch).await
}

/// Per item 200000, also if it was not there; 400000 it is active.
pub(super) async fn delete_releases(
    app: State<App>,
    family: Extension<Family>,
    caller: Caller,
    Noted(batch): Noted<RuleReleaseDraft>,
) -> Result<Response, ApiError> {
    change_releases(&app, &caller, *family, ReleaseOp::Delete, batch).await
}

async fn change_releases(
    app: &App,
    caller: &Caller,
    family: Family,
    op: ReleaseOp,
    batch: Batch<RuleReleaseDraft>,
) -> Result<Response, ApiError> {
    let outcomes = app.change_rule_releases(caller, family, op, batch.items).await?;
    Ok(answer::batch(app, outcomes, batch.warnings))
}

/// The one rule that a query is about: by `id` or `rule_id`, or by `rule_name` (with `namespace` where several
/// namespaces have one of this name).
pub(super) struct OneRule {
    id: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

impl OneRule {
    pub(super) fn of(query: &Query) -> Result<Self, ApiError> {
        let id = query.text("id").or_else(|| query.text("rule_id"));
        let (name, namespace) = (query.text("rule_name"), query.text("namespace"));
        if id.is_none() && name.is_none() {
            return Err(ApiError::new(Code::InvalidParameter, "id (of the rule), rule_id or rule_name is required"));
        }
        Ok(OneRule { id, name, namespace })
    }

    pub(super) fn find(&self, catalog: &Catalog, family: Family, read_scope: &ReadScope) -> Result<Arc<Rule>, Refusal> {
        let book = catalog.rules.of(family);
        let named = self.name.iter().flat_map(|name| book.all_named(name));
        let fits = |rule: &&Arc<Rule>| {
            rule.is_seen_by(read_scope)
                && self.name.as_ref().is_none_or(|name| *name == rule.name)
                && self.namespace.as_ref().is_none_or(|namespace| *namespace == rule.namespace)
        };
        let mut found: Vec<&Arc<Rule>> = match &self.id {
            Some(id) => book.get(id).into_iter().filter(fits).collect(),
            None => named.filter(fits).collect(),
        };
        // One that is seen by its name is meant before those that are seen by what they act on.
        if found.iter().any(|rule| read_scope.sees(&rule.namespace, &rule.name)) {
            found.retain(|rule| read_scope.sees(&rule.namespace, &rule.name));
        }
        match &found[..] {
            [rule] => Ok(Arc::clone(rule)),
            [_, _, ..] => {
                let why = "several namespaces have a rule of this name, give its id or namespace";
                Err(Refusal::new(Code::InvalidParameter, why))
            }
            [] => Err(Refusal::new(Code::NotFoundResource, "no such rule")),
        }
    }
}

/// History of the releases of one rule, newest first.
pub(super) async fn history(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (wanted, read_scope, page) = (OneRule::of(&query)?, caller.read_scope(), query.page()?);
    let find = move |catalog: &Catalog| {
        let rule = wanted.find(catalog, family, &read_scope)?;
        let events = catalog.history.numbered(&Thing::Rule(family, rule.id.clone()));
        Ok((Listed::cut(events.iter(), &page), Some(rule.removed_through)))
    };
    answer_history(&app, find).await
}

pub(super) async fn answer_history(
    app: &App,
    find: impl FnOnce(&Catalog) -> Result<(Listed<Numbered>, Option<u64>), Refusal> + Send + 'static,
) -> Result<Response, ApiError> {
    app.scan(limits::HISTORY_EVENTS_MAX, find, |found| {
        let (listed, removed_through) = found?;
        Ok(envelope::list_releases("data", &listed, removed_through, |row| EventView::new(&row.event)))
    })
    .await?
}
