//! Search in the names of services, rules and config files.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::links;
use super::session::SessionUser;
use super::texts;
use crate::catalog::Catalog;
use crate::catalog::configs::FileFilter;
use crate::catalog::page::Page as Rows;
use crate::catalog::rules::RuleFilter;
use crate::catalog::services::ServiceFilter;
use crate::model::grant::ReadScope;
use crate::model::rule::Family;
use crate::model::text::NameFilter;
use crate::operations::FAR;

/// Maximum hits shown of each kind.
const SHOWN: usize = 20;

struct Hit {
    kind: &'static str,
    name: String,
    link: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    frame: Frame,
    query: Fields,
    hits: Vec<Hit>,
    /// Number of further hits.
    more: usize,
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let frame = visitor.frame(Section::Elsewhere);
    let t = frame.t;
    let read_scope = visitor.caller.read_scope();
    let Some(name) = query.name_filter("q") else {
        return page(&SearchPage { frame, query, hits: Vec::new(), more: 0 });
    };
    let find = move |catalog: &Catalog| found(t, catalog, &read_scope, name);
    match console.operations.scan(FAR, find, |found| found).await {
        Ok((hits, more)) => page(&SearchPage { frame, query, hits, more }),
        Err(refusal) => visitor.failed(&refusal),
    }
}

fn found(t: &'static texts::Texts, catalog: &Catalog, read_scope: &ReadScope, name: NameFilter) -> (Vec<Hit>, usize) {
    let rows = &Rows::new(0, SHOWN);
    let read_scope = || read_scope.clone();
    let name = || Some(name.clone());
    let services = ServiceFilter { name: name(), read_scope: read_scope(), ..ServiceFilter::default() };
    let services = catalog.services.list(&services, &catalog.instances, rows);
    let files = catalog
        .configs
        .list_files(&FileFilter { file: name(), read_scope: read_scope(), ..FileFilter::default() }, rows);
    let mut amount = services.amount + files.amount;
    let mut hits: Vec<_> = services
        .rows
        .iter()
        .map(|service| Hit {
            kind: t.services,
            name: format!("{} / {}", service.namespace, service.name),
            link: links::service(&service.namespace, &service.name),
        })
        .collect();
    for family in Family::ALL {
        let listed = catalog
            .rules
            .of(*family)
            .list(&RuleFilter { name: name(), read_scope: read_scope(), ..RuleFilter::default() }, rows);
        amount += listed.amount;
        hits.extend(listed.rows.iter().map(|rule| Hit {
            kind: texts::family(t, *family),
            name: format!("{} / {}", rule.namespace, rule.name),
            link: links::rule(*family, &rule.id),
        }));
    }
    hits.extend(files.rows.iter().map(|file| Hit {
        kind: t.config_files,
        name: format!("{} / {} / {}", file.key.namespace, file.key.group, file.key.file),
        link: super::links::file(&file.key),
    }));
    let more = amount - hits.len();
    (hits, more)
}
