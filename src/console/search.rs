//! Search in the names of services, rules and config files.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::session::SessionUser;
use super::{services, texts};
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
    let text = query.get("q").to_owned();
    if text.is_empty() {
        return page(&SearchPage { frame, query, hits: Vec::new(), more: 0 });
    }
    let find = move |catalog: &Catalog| found(t, catalog, &read_scope, NameFilter::parse(&searched(&text)));
    match console.operations.scan(FAR, find, |found| found).await {
        Ok((hits, more)) => page(&SearchPage { frame, query, hits, more }),
        Err(refusal) => visitor.failed(&refusal),
    }
}

/// Returns the page of a rule. An id may have any printable character except a blank, slashes too.
pub(super) fn rule_link(family: Family, id: &str) -> String {
    let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/ui/rules/{}/{id}", family.kind())
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
            link: services::link(&service.namespace, &service.name),
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
            link: rule_link(*family, &rule.id),
        }));
    }
    hits.extend(files.rows.iter().map(|file| Hit {
        kind: t.config_files,
        name: format!("{} / {} / {}", file.key.namespace, file.key.group, file.key.file),
        link: super::config::link(&file.key),
    }));
    let more = amount - hits.len();
    (hits, more)
}

/// Returns the pattern for names that contain the text; one with `*` is used as it is.
pub(super) fn searched(text: &str) -> String {
    if text.contains('*') { text.to_owned() } else { format!("*{text}*") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_is_enough() {
        assert_eq!((searched("pay").as_str(), searched("pay*").as_str()), ("*pay*", "pay*"));
    }
}
