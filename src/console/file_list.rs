//! The list of config files, with the tree of their groups.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::config::FileRow;
use super::fields::Fields;
use super::file_form::{FileEdit, FileForm, named_file};
use super::flash::{Flash, on_to};
use super::frame::{Frame, Section, page, page_refused};
use super::links;
use super::listing::{Chip, Heading, STATE, Sorting, chips, cut, headings};
use super::pager::Pager;
use super::session::SessionUser;
use crate::catalog::configs::{FileFilter, GroupFilter};
use crate::catalog::namespaces::NamespaceFilter;
use crate::catalog::page::Page as Rows;
use crate::catalog::{Catalog, Op};
use crate::model::code::Refusal;
use crate::model::config_file::{ConfigFile, ConfigFileDraft};
use crate::model::grant::{ReadScope, Verb};
use crate::model::limits;
use crate::model::text::NameFilter;
use crate::operations::{FAR, one};

const PATH: &str = "/ui/config";

/// A namespace with its groups.
struct Branch {
    namespace: String,
    groups: Vec<(String, usize)>,
}

#[derive(Template)]
#[template(path = "config.html")]
struct TreePage {
    frame: Frame,
    query: Fields,
    branches: Vec<Branch>,
    headings: Vec<Heading>,
    chips: Vec<Chip>,
    rows: Vec<FileRow>,
    pager: Pager,
    edits: bool,
    templates: Vec<String>,
}

impl TreePage {
    fn is_open(&self, namespace: &str, group: &str) -> &'static str {
        let is_it = self.query.get("namespace") == namespace && self.query.get("group") == group;
        if is_it { "page" } else { "false" }
    }
}

pub(super) async fn tree(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    match listed(&console, &visitor, query).await {
        Ok(tree) => page(&tree),
        Err(refusal) => visitor.failed(&refusal),
    }
}

async fn listed(console: &Console, visitor: &SessionUser, query: Fields) -> Result<TreePage, Refusal> {
    let read_scope = visitor.caller.read_scope();
    let exactly = |key| query.given(key).map(NameFilter::Exact);
    let frame = visitor.frame(Section::Config);
    let filter = FileFilter {
        namespace: exactly("namespace"),
        group: exactly("group"),
        file: query.name_filter("name"),
        content: query.given("content"),
        read_scope: read_scope.clone(),
        ..FileFilter::default()
    };
    let (state, sorting, rows) = (query.get(STATE).to_owned(), Sorting::of(&query), Pager::page_of(&query));
    let within = query.given("namespace");
    let t = frame.t;
    let find = move |catalog: &Catalog| {
        let mut found = catalog.configs.list_files(&filter, &Rows::ALL).rows;
        found.retain(|file| is_in(catalog, file, &state));
        sorting.sort(&mut found, by_key, |one, other| one.key.cmp(&other.key));
        let files = cut(found, &rows).map(|file| FileRow::of(catalog, t, &file));
        let templates = catalog.templates.list(&None, &Rows::new(0, limits::PAGE_ROWS_MAX)).rows;
        (
            branches(catalog, &read_scope, within.as_deref()),
            files,
            templates.iter().map(|template| template.name.clone()).collect(),
        )
    };
    let (branches, files, templates) = console.operations.scan(FAR, find, |found| found).await?;
    let states = [("", t.all), ("draft", t.draft_differs), ("new", t.not_released), ("gray", t.gray)];
    let mut columns = vec![("name", t.name), ("namespace", t.namespace), ("group", t.group), ("", t.format)];
    if query.is_set("group") {
        columns.retain(|(key, _)| !matches!(*key, "namespace" | "group"));
    }
    columns.extend([("", t.state), ("changed", t.home.changed)]);
    Ok(TreePage {
        headings: headings(PATH, &query, &columns),
        chips: chips(PATH, &query, &states),
        pager: Pager::new(PATH, &query, &files),
        rows: files.rows,
        edits: visitor.may_somewhere(Verb::Edit),
        frame,
        query,
        branches,
        templates,
    })
}

/// Returns the namespaces that have groups, as many as fit on a page.
fn branches(catalog: &Catalog, read_scope: &ReadScope, within: Option<&str>) -> Vec<Branch> {
    let all = &Rows::new(0, limits::PAGE_ROWS_MAX);
    let namespaces =
        catalog.namespaces.list(&NamespaceFilter { read_scope: read_scope.clone(), ..Default::default() }, &Rows::ALL);
    let mut branches: Vec<_> = namespaces.rows.iter().filter(|one| catalog.configs.has_groups_in(&one.name)).collect();
    branches.retain(|one| within.is_none_or(|name| name == one.name));
    branches.sort_by(|one, other| one.name.cmp(&other.name));
    let branch = |namespace: &String| {
        let filter = GroupFilter {
            namespace: Some(NameFilter::Exact(namespace.clone())),
            read_scope: read_scope.clone(),
            ..GroupFilter::default()
        };
        let groups = catalog.configs.list_groups(&filter, all).rows.into_iter();
        let mut groups: Vec<_> =
            groups.map(|group| (group.name.clone(), catalog.configs.file_count_in(&group))).collect();
        groups.sort();
        Branch { namespace: namespace.clone(), groups }
    };
    branches.into_iter().take(limits::PAGE_ROWS_MAX).map(|namespace| branch(&namespace.name)).collect()
}

fn by_key(key: &str, one: &Arc<ConfigFile>, other: &Arc<ConfigFile>) -> Ordering {
    match key {
        "name" => one.key.file.cmp(&other.key.file),
        "namespace" => one.key.namespace.cmp(&other.key.namespace),
        "group" => one.key.group.cmp(&other.key.group),
        "changed" => one.modified.time.cmp(&other.modified.time),
        _ => Ordering::Equal,
    }
}

/// Reports whether a file is in the state of an address.
fn is_in(catalog: &Catalog, file: &ConfigFile, state: &str) -> bool {
    let normal = catalog.configs.active_release(&file.key);
    match state {
        "draft" => normal.is_some_and(|release| release.content != file.content),
        "new" => normal.is_none(),
        "gray" => catalog.configs.has_gray(&file.key),
        _ => true,
    }
}

/// Creates a file, empty or from a template.
pub(super) async fn create(State(console): State<Console>, form: FileEdit) -> Response {
    let FileForm { visitor, fields, key } = form;
    let template = fields.given("template");
    let draft = ConfigFileDraft {
        content: template.is_none().then(String::new),
        template,
        encrypted: fields.is_set("encrypted").then_some(true),
        ..named_file(&key)
    };
    let made = console.operations.config_files(&visitor.caller, Op::Create, vec![Ok(draft)]).await;
    match one(made.map(|(outcomes, _)| outcomes)) {
        Ok(outcome) => on_to(&links::file(&key), Flash::of(&outcome, Flash::Created)),
        Err(refusal) => match listed(&console, &visitor, fields).await {
            Ok(tree) => page_refused(refusal.code, &TreePage { frame: tree.frame.refused(&refusal), ..tree }),
            Err(_) => visitor.undone(&refusal),
        },
    }
}
