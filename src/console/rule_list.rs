//! The list of the rules of a family.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::Console;
use super::families::{Tab, family_of, tabs};
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::listing::{Chip, Heading, STATE, Sorting, chips, cut, headings};
use super::pager::Pager;
use super::rule_rows::{RuleRow, columns};
use super::session::SessionUser;
use crate::catalog::Catalog;
use crate::catalog::page::Page as Rows;
use crate::catalog::rules::RuleFilter;
use crate::model::grant::Verb;
use crate::model::release::ReleaseType;
use crate::model::rule::Rule;
use crate::model::text::NameFilter;
use crate::operations::FAR;

#[derive(Template)]
#[template(path = "rules.html")]
struct RulesPage {
    frame: Frame,
    tabs: Vec<Tab>,
    kind: &'static str,
    query: Fields,
    headings: Vec<Heading>,
    chips: Vec<Chip>,
    rows: Vec<RuleRow>,
    pager: Pager,
    edits: bool,
}

pub(super) async fn list(
    State(console): State<Console>,
    visitor: SessionUser,
    Path(kind): Path<String>,
    query: Fields,
) -> Response {
    let Some(family) = family_of(&kind) else { return visitor.nowhere() };
    let glob = |key| query.name_filter(key);
    let filter = RuleFilter {
        name: glob("name"),
        namespace: query.given("namespace").map(|text| NameFilter::parse(&text)),
        service: glob("service"),
        read_scope: visitor.caller.read_scope(),
        ..RuleFilter::default()
    };
    let frame = visitor.frame(Section::Rules);
    let (t, state, sorting, rows) = (frame.t, query.get(STATE).to_owned(), Sorting::of(&query), Pager::page_of(&query));
    let find = move |catalog: &Catalog| {
        let mut found = catalog.rules.of(family).list(&filter, &Rows::ALL).rows;
        found.retain(|rule| is_in(catalog, rule, &state));
        sorting.sort(&mut found, by_key, |one, other| name_of(one).cmp(&name_of(other)));
        cut(found, &rows).map(|rule| RuleRow::of(catalog, t, &rule))
    };
    let listed = match console.operations.scan(FAR, find, |listed| listed).await {
        Ok(listed) => listed,
        Err(refusal) => return visitor.failed(&refusal),
    };
    let path = format!("/ui/rules/{}", family.kind());
    let states =
        [("", t.all), ("draft", t.draft_differs), ("new", t.not_released), ("gray", t.gray), ("off", t.disabled)];
    page(&RulesPage {
        tabs: tabs(t, family),
        kind: family.kind(),
        headings: headings(&path, &query, &columns(t)),
        chips: chips(&path, &query, &states),
        pager: Pager::new(&path, &query, &listed),
        rows: listed.rows,
        edits: visitor.may_somewhere(Verb::Edit),
        query,
        frame,
    })
}

fn name_of(rule: &Rule) -> (&str, &str) {
    (&rule.name, &rule.namespace)
}

fn by_key(key: &str, one: &Arc<Rule>, other: &Arc<Rule>) -> Ordering {
    match key {
        "namespace" => one.namespace.cmp(&other.namespace),
        "priority" => one.priority.cmp(&other.priority),
        "changed" => one.modified.time.cmp(&other.modified.time),
        "name" => one.name.cmp(&other.name),
        _ => Ordering::Equal,
    }
}

/// Reports whether a rule is in the state of an address.
fn is_in(catalog: &Catalog, rule: &Rule, state: &str) -> bool {
    let active = catalog.rules.of(rule.family()).active();
    let normal = active.normal(&rule.id);
    match state {
        "draft" => normal.is_some_and(|release| release.rule.revision != rule.revision),
        "new" => normal.is_none(),
        "gray" => active.releases_of(&rule.id).any(|release| release.release_type == ReleaseType::Gray),
        "off" => !rule.enable,
        _ => true,
    }
}
