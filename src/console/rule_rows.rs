//! Rules as rows of a list: of their family, of a service.

use super::releases::{ReleaseRow, called};
use crate::catalog::Catalog;
use crate::model::rule::Rule;
use crate::model::rule::matching::ALL;

/// A rule in a list.
pub(super) struct RuleRow {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The services that it names, on either end.
    pub(super) about: String,
    pub(super) priority: u32,
    pub(super) enable: bool,
    pub(super) time: String,
    /// Normal release that clients see; `None` if none is in force.
    pub(super) in_force: Option<String>,
    /// True if a normal release is in force and the saved rule differs from it.
    pub(super) differs: bool,
    pub(super) grays: usize,
}

impl RuleRow {
    pub(super) fn of(catalog: &Catalog, rule: &Rule) -> RuleRow {
        let book = catalog.rules.of(rule.family());
        let normal = book.active().normal(&rule.id);
        let grays = book.releases_of(&rule.id).map(|release| ReleaseRow::of_rule(release));
        RuleRow {
            id: rule.id.clone(),
            kind: rule.family().kind(),
            namespace: rule.namespace.clone(),
            name: rule.name.clone(),
            about: about(rule),
            priority: rule.priority,
            enable: rule.enable,
            time: rule.modified.time.text(),
            in_force: normal.map(|release| called(&release.name, release.version)),
            differs: normal.is_some_and(|release| release.rule.revision != rule.revision),
            grays: grays.filter(|row| row.is_gray && row.is_active()).count(),
        }
    }
}

/// Those of all services are left out where others are named, the namespace where it is the rule's.
fn about(rule: &Rule) -> String {
    let ends = rule.ends();
    let named = ends.iter().filter(|end| end.service != ALL);
    let named = named.map(|end| {
        let is_near = end.namespace == rule.namespace;
        if is_near { end.service.clone() } else { format!("{} / {}", end.namespace, end.service) }
    });
    let named: Vec<_> = named.collect();
    if named.is_empty() && !ends.is_empty() { ALL.to_owned() } else { named.join(", ") }
}
