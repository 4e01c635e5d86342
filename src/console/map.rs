//! Map of services: callers and callees, and the active rules of each call.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::links;
use super::pager::Pager;
use super::pictures::call_map::{BOXES_MAX, CallMap};
use super::session::SessionUser;
use crate::catalog::Catalog;
use crate::catalog::calls::{Call, CallGraph, ListHolder, RuleName};
use crate::catalog::page::{Listed, Page};
use crate::format::types::NodeId;
use crate::model::code::Refusal;
use crate::model::grant::ReadScope;
use crate::operations::FAR;

const PATH: &str = "/ui/map";

#[derive(Template)]
#[template(path = "map.html")]
struct MapPage {
    frame: Frame,
    query: Fields,
    map: CallMap,
    services: usize,
    calls: Vec<CallRow>,
    pager: Pager,
    everywhere: Vec<RuleLink>,
    left_out: usize,
    silent: Vec<NodeId>,
}

/// A call in the table.
struct CallRow {
    caller: ServiceLink,
    callee: ServiceLink,
    clients: usize,
    rules: Vec<RuleLink>,
}

struct ServiceLink {
    name: String,
    link: String,
}

struct RuleLink {
    name: String,
    link: String,
}

impl RuleLink {
    fn of(rule: &RuleName) -> RuleLink {
        RuleLink { name: rule.name.clone(), link: links::rule(rule.family, &rule.id) }
    }
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    match map_page(&console, &visitor, query).await {
        Ok(map) => page(&map),
        Err(refusal) => visitor.failed(&refusal),
    }
}

async fn map_page(console: &Console, visitor: &SessionUser, query: Fields) -> Result<MapPage, Refusal> {
    let (holders, silent) = console.node().member().callers().await;
    let read_scope = visitor.caller.read_scope();
    let asked = query.clone();
    let find = move |catalog: &Catalog| drawn(catalog, &read_scope, &asked, &holders);
    let (map, graph, listed) = console.operations.scan(FAR, find, |drawn| drawn).await?;
    Ok(MapPage {
        frame: visitor.frame(Section::Services),
        pager: Pager::new(PATH, &query, &listed),
        query,
        map,
        services: graph.services.len(),
        calls: listed.rows,
        everywhere: graph.everywhere.iter().map(RuleLink::of).collect(),
        left_out: graph.left_out,
        silent,
    })
}

fn drawn(
    catalog: &Catalog,
    read_scope: &ReadScope,
    query: &Fields,
    holders: &BTreeSet<ListHolder>,
) -> (CallMap, CallGraph, Listed<CallRow>) {
    let namespace = query.given("namespace");
    let graph = catalog.call_graph(read_scope, namespace.as_deref(), holders);
    let listed = shown_calls(&graph, &Pager::page_of(query));
    (CallMap::of(&graph), graph, listed)
}

fn shown_calls(graph: &CallGraph, page: &Page) -> Listed<CallRow> {
    let rows = graph.calls.iter().skip(page.offset).take(page.limit).map(|call| row(graph, call));
    Listed { rows: rows.collect(), ..Listed::amount(graph.calls.len()) }
}

fn row(graph: &CallGraph, call: &Call) -> CallRow {
    let named = |at: usize| {
        let service = &graph.services[at];
        ServiceLink {
            name: format!("{} / {}", service.namespace, service.name),
            link: links::service(&service.namespace, &service.name),
        }
    };
    let rules = call.rules.iter().chain(&graph.services[call.callee].rules);
    CallRow {
        caller: named(call.caller),
        callee: named(call.callee),
        clients: call.clients,
        rules: rules.map(RuleLink::of).collect(),
    }
}
