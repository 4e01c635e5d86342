//! `/naming/v1/{kind}/releases` and `/naming/v1/{kind}/subscribers`: releases of rules and their clients.

use std::sync::Arc;

use axum::extract::{Extension, State};
use thuban_documents::written;

use crate::api::http::{ApiError, ApiResult, App, Batch, Caller, Fresh, Query, answer, envelope};
use crate::api::releases::{ACTIVE, DRAFT, DiffSide, Difference, answer_history, answer_subscribers, no_release};
use crate::api::view::RuleReleaseView;
use crate::catalog::Catalog;
use crate::catalog::approvals::ReleasedRule;
use crate::catalog::history::Thing;
use crate::catalog::page::Listed;
use crate::catalog::rules::ReleaseFilter;
use crate::model::code::{Code, Refusal, placed};
use crate::model::diff;
use crate::model::grant::ReadScope;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::{Family, Rule};
use crate::operations::{FAR, XdsWarnings};

/// Lists the releases of one rule, highest version first, or those of all rules that the caller may see, newest change
/// first; with `brief=false` including the released rules.
pub(crate) async fn list_releases(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> ApiResult {
    let filter = ReleaseFilter {
        rule_id: query.text("id").or_else(|| query.text("rule_id")),
        rule_name: query.text("rule_name"),
        only_active: query.flag("only_active")?.unwrap_or(false),
        read_scope: caller.read_scope(),
    };
    let with_rule = query.flag("brief")? == Some(false);
    let page = query.page()?;
    let reach = app.node().state().catalog().rules.of(family).reach_of_releases(&filter);
    let find = move |catalog: &Catalog| {
        let book = catalog.rules.of(family);
        (book.list_releases(&filter, &page), book.removed_through_version_of(&filter))
    };
    app.scan(reach, find, move |(listed, removed_through)| {
        envelope::list_releases("data", &listed, removed_through, |release| RuleReleaseView::new(release, with_rule))
    })
    .await
}

/// Publishes rules. Per item 200000; 400202 no such rule; 400201 the release name exists; 409000 a gray release is
/// active; 400904 gray without labels.
pub(crate) async fn publish(
    app: State<App>,
    Extension(family): Extension<Family>,
    caller: Caller,
    due: XdsWarnings,
    batch: Batch<RuleReleaseDraft>,
) -> ApiResult {
    let outcomes = app.operations.publish_rules(&caller, family, batch.items).await?;
    let warnings = super::with_advice(&app, &caller, &outcomes, (batch.warnings, due)).await;
    Ok(answer::batch(&app, outcomes, warnings))
}

/// Changes releases by an operation; [`super::docs`] has the codes of each.
pub(crate) async fn change(
    (family, op): (Family, ReleaseOp),
    app: State<App>,
    caller: Caller,
    batch: Batch<RuleReleaseDraft>,
) -> ApiResult {
    let outcomes = app.operations.change_rule_releases(&caller, family, op, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

/// The rule that a query names: by `id` or `rule_id`, or by `rule_name` (with `namespace` if several namespaces have a
/// rule of this name).
pub(crate) struct OneRule {
    id: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

impl OneRule {
    pub(crate) fn of(query: &Query) -> Result<Self, ApiError> {
        let id = query.text("id").or_else(|| query.text("rule_id"));
        let (name, namespace) = (query.text("rule_name"), query.text("namespace"));
        if id.is_none() && name.is_none() {
            return Err(ApiError::new(Code::InvalidParameter, "id (of the rule), rule_id or rule_name is required"));
        }
        Ok(OneRule { id, name, namespace })
    }

    /// Returns the name in texts.
    fn text(&self, family: Family) -> String {
        match (&self.name, &self.id) {
            (Some(name), _) => placed(family.word(), self.namespace.as_deref().unwrap_or_default(), name),
            (None, id) => format!("{} with the id {}", family.word(), id.as_deref().unwrap_or_default()),
        }
    }

    pub(crate) fn find(&self, catalog: &Catalog, family: Family, read_scope: &ReadScope) -> Result<Arc<Rule>, Refusal> {
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
        // A rule visible by its own name takes precedence over rules visible by the services that they act on.
        if found.iter().any(|rule| read_scope.sees(&rule.namespace, &rule.name)) {
            found.retain(|rule| read_scope.sees(&rule.namespace, &rule.name));
        }
        match &found[..] {
            [rule] => Ok(Arc::clone(rule)),
            [_, _, ..] => {
                let why = "several namespaces have a rule of this name, give its id or namespace";
                Err(Refusal::new(Code::InvalidParameter, why))
            }
            [] => Err(Refusal::missing(&self.text(family))),
        }
    }
}

/// Lists the release history of one rule, newest first.
pub(crate) async fn history(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> ApiResult {
    let (wanted, read_scope, page) = (OneRule::of(&query)?, caller.read_scope(), query.page()?);
    let find = move |catalog: &Catalog| {
        let rule = wanted.find(catalog, family, &read_scope)?;
        let events = catalog.history.numbered(&Thing::Rule(family, rule.id.clone()));
        Ok((Listed::cut(events.iter(), &page), Some(rule.removed_through)))
    };
    answer_history(&app, find).await
}

/// Lists the clients of all nodes that have, or should have, a release of one rule.
pub(crate) async fn subscribers(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> ApiResult {
    let (wanted, page) = (OneRule::of(&query)?, query.page()?);
    let rule = wanted.find(&app.node().state().catalog(), family, &caller.read_scope())?;
    answer_subscribers(&app, Thing::Rule(family, rule.id.clone()), page, Vec::new()).await
}

/// Compares two sides by field, without the fields that the server sets on every rule.
pub(crate) async fn diff(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> ApiResult {
    let (wanted, read_scope, (from, to)) = (OneRule::of(&query)?, caller.read_scope(), DiffSide::named(&query));
    let find = move |catalog: &Catalog| {
        let rule = wanted.find(catalog, family, &read_scope)?;
        Ok((rule_of(catalog, &rule, &from)?, rule_of(catalog, &rule, &to)?))
    };
    app.scan(FAR, find, |found: Result<_, Refusal>| {
        let ((from, before), (to, after)) = found?;
        let changes = Some(diff::of_values(&written(before.as_deref()), &written(after.as_deref())));
        Ok(envelope::single("diff", &Difference { from, to, changes, lines: None }))
    })
    .await?
}

/// Returns the difference between two releases of a rule, or releases to be.
pub(crate) fn of_rules(from: Option<&ReleasedRule>, to: Option<&ReleasedRule>) -> Difference {
    let side = |released: Option<&ReleasedRule>| {
        released.map_or_else(DiffSide::unreleased, |released| DiffSide {
            release_name: released.release_name.clone(),
            version: released.version,
        })
    };
    let of = |released: Option<&ReleasedRule>| written(released.map(|released| &*released.rule));
    let changes = Some(diff::of_values(&of(from), &of(to)));
    Difference { from: side(from), to: side(to), changes, lines: None }
}

fn rule_of(catalog: &Catalog, rule: &Arc<Rule>, word: &str) -> Result<(DiffSide, Option<Arc<Rule>>), Refusal> {
    let nothing = DiffSide::unreleased;
    let of_release = |release: &Arc<RuleRelease>| {
        let side = DiffSide { release_name: release.name.clone(), version: release.version };
        (side, Some(release.rule.clone()))
    };
    let book = catalog.rules.of(rule.family());
    match word {
        DRAFT => Ok((nothing(), Some(rule.clone()))),
        ACTIVE => Ok(book.active().normal(&rule.id).map_or_else(|| (nothing(), None), of_release)),
        name => book
            .release(&rule.id, name)
            .map(of_release)
            .ok_or_else(|| no_release(name, &placed(rule.family().word(), &rule.namespace, &rule.name))),
    }
}
