//! Rules as rows of a list, by family or by service.

use super::releases::{ReleaseRow, called};
use super::texts::{self, Texts};
use super::time_ago::TimeAgo;
use crate::catalog::Catalog;
use crate::model::rule::Rule;
use crate::model::rule::matching::ALL;
use crate::sentences;

/// A rule in a list.
pub(super) struct RuleRow {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) family: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Services that it names as caller or callee.
    pub(super) about: String,
    pub(super) priority: u32,
    pub(super) enable: bool,
    pub(super) time: TimeAgo,
    /// Active normal release; `None` if there is none.
    pub(super) in_force: Option<String>,
    /// True if there is an active normal release and the saved rule differs from it.
    pub(super) differs: bool,
    pub(super) grays: usize,
    /// Beginning of the rule in words.
    pub(super) sentence: String,
}

/// Maximum length of the words of a rule in a list.
const SENTENCE_CHARS_MAX: usize = 140;

/// Returns the columns of a list of rules of one family, each with its key for sorting.
pub(super) fn columns(t: &Texts) -> [(&'static str, &'static str); 6] {
    [
        ("name", t.name),
        ("namespace", t.namespace),
        ("", t.service),
        ("", t.state),
        ("priority", t.priority),
        ("changed", t.home.changed),
    ]
}

impl RuleRow {
    pub(super) fn of(catalog: &Catalog, t: &'static Texts, rule: &Rule) -> RuleRow {
        let book = catalog.rules.of(rule.family());
        let normal = book.active().normal(&rule.id);
        let words = sentences::rule(t.language(), rule);
        let grays = book.releases_of(&rule.id).map(|release| ReleaseRow::of_rule(release));
        RuleRow {
            id: rule.id.clone(),
            kind: rule.family().kind(),
            family: texts::family(t, rule.family()),
            namespace: rule.namespace.clone(),
            name: rule.name.clone(),
            about: about(rule),
            priority: rule.priority,
            enable: rule.enable,
            time: TimeAgo::of(t, catalog.clock(), rule.modified.time),
            in_force: normal.map(|release| called(&release.name, release.version)),
            differs: normal.is_some_and(|release| release.rule.revision != rule.revision),
            grays: grays.filter(|row| row.is_gray && row.is_active()).count(),
            sentence: words.first().map(|words| sentences::cut(words, SENTENCE_CHARS_MAX)).unwrap_or_default(),
        }
    }
}

/// Formats the services of a rule. Leaves out "all services" next to named ones, and the rule's own namespace.
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
