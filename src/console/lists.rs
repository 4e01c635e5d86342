//! Lists of objects that have only a form ([`super::resources`]).

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::kinds::ResourceKind;
use super::pager::Pager;
use super::session::SessionUser;
use super::time_ago::TimeAgo;
use crate::catalog::Catalog;
use crate::catalog::namespaces::NamespaceFilter;
use crate::model::config_template::ConfigTemplate;
use crate::model::grant::Verb;
use crate::model::policy::PolicyKind;
use crate::model::webhook::Webhook;
use crate::model::wire::Words;
use crate::operations::FAR;

/// A line of a list: name, description, health.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) about: Vec<String>,
    pub(super) badge: (&'static str, &'static str),
    /// Time of the last change, in the last column.
    pub(super) changed: Option<TimeAgo>,
}

#[derive(Template)]
#[template(path = "things.html")]
pub(super) struct ThingsPage {
    pub(super) frame: Frame,
    pub(super) sort: ResourceKind,
    pub(super) query: Fields,
    /// Heading of the badges; `None` if the rows have none.
    pub(super) badges: Option<&'static str>,
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
    pub(super) pager: Pager,
    pub(super) edits: bool,
}

pub(super) async fn webhooks(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let sort = match ResourceKind::seen_by(&visitor, ResourceKind::Webhooks.word()) {
        Ok(sort) => sort,
        Err(refusal) => return visitor.failed(&refusal),
    };
    let frame = visitor.frame(Section::Setup);
    let hooks = console.node().state().catalog().webhooks.clone();
    let t = frame.t;
    let name = query.name_filter("name");
    let row = |hook: &Arc<Webhook>| {
        let progress = &hook.progress;
        let failed = progress.failed.as_ref().filter(|_| progress.failing_since.is_some());
        let failed = failed.map(|(time, why)| format!("{} {why}", time.text()));
        let badge = match (hook.disabled, &failed) {
            (true, _) => ("", t.disabled),
            (_, Some(_)) => ("fault", t.failing),
            _ => ("good", t.healthy),
        };
        let waiting = hooks.pending(&hook.name).to_string();
        let about = vec![hook.url.clone(), progress.delivered.to_string(), waiting, progress.dropped.to_string()];
        let about = [about, vec![failed.unwrap_or_default()]].concat();
        Row { name: hook.name.clone(), about, badge, changed: None }
    };
    let listed = hooks.list(name.as_ref(), &Pager::page_of(&query));
    let pager = Pager::new("/ui/webhooks", &query, &listed);
    let rows = listed.rows.iter().map(row).collect();
    let columns = vec!["URL", t.delivered, t.waiting, t.dropped, t.last_failure];
    page(&ThingsPage { badges: Some(t.state), frame, sort, query, columns, rows, pager, edits: true })
}

pub(super) async fn namespaces(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let frame = visitor.frame(Section::Setup);
    let edits = visitor.may_somewhere(Verb::Edit);
    let filter = NamespaceFilter {
        name: query.name_filter("name"),
        read_scope: visitor.caller.read_scope(),
        ..NamespaceFilter::default()
    };
    let page_of = Pager::page_of(&query);
    let (read_scope, t) = (visitor.caller.read_scope(), frame.t);
    let find = move |catalog: &Catalog| {
        catalog.namespaces.list(&filter, &page_of).map(|namespace| Row {
            about: vec![
                catalog.counts_in(&namespace.name, &read_scope).0.to_string(),
                namespace.comment.clone(),
                namespace.owners.clone(),
            ],
            changed: Some(TimeAgo::of(t, catalog.clock(), namespace.mtime)),
            name: namespace.name.clone(),
            badge: ("", ""),
        })
    };
    match console.operations.scan(FAR, find, |listed| listed).await {
        Ok(listed) => {
            let pager = Pager::new("/ui/namespaces", &query, &listed);
            let columns = vec![t.services, t.comment, t.owners, t.home.changed];
            let sort = ResourceKind::Namespaces;
            page(&ThingsPage { badges: None, frame, sort, query, columns, rows: listed.rows, pager, edits })
        }
        Err(refusal) => visitor.failed(&refusal),
    }
}

pub(super) async fn templates(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let frame = visitor.frame(Section::Setup);
    let edits = visitor.caller.check_everywhere(Verb::Edit).is_ok();
    let name = query.name_filter("name");
    let listed = console.node().state().catalog().templates.list(&name, &Pager::page_of(&query));
    let pager = Pager::new("/ui/templates", &query, &listed);
    let (t, now) = (frame.t, console.node().now());
    let row = |template: &Arc<ConfigTemplate>| Row {
        name: template.name.clone(),
        about: vec![template.comment.clone(), template.modified.by.clone()],
        badge: ("", template.format.word()),
        changed: Some(TimeAgo::of(t, now, template.modified.time)),
    };
    let rows = listed.rows.iter().map(row).collect();
    let columns = vec![t.comment, t.made_by, t.home.changed];
    let sort = ResourceKind::Templates;
    page(&ThingsPage { badges: Some(t.format), frame, sort, query, columns, rows, pager, edits })
}

/// Formats the kinds in the scope of a policy or a contract.
pub(super) fn kinds_of(kinds: &[PolicyKind]) -> String {
    let words: Vec<_> = kinds.iter().map(|kind| kind.word()).collect();
    if words.is_empty() { "*".to_owned() } else { words.join(", ") }
}
