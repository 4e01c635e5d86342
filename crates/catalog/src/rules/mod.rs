//! Governance rules: the book of each family and its queries. Releases in force are in `active`.

mod active;
mod changes;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use super::change::ChangeSet;
use super::index::archive::{Archive, Archived};
use super::index::list_index::{Indexed, ListIndex, TextFilter};
use super::index::names::Names;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::row::{Row, RowKey, Table};
use crate::model::grant::ReadScope;
use crate::model::release::ReleaseState;
use crate::model::rule::matching::ALL;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Family, Rule};
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;
pub use active::{Active, RuleInForce, ends_of};

/// Columns of the texts that lists filter by.
const NAME: usize = 0;
const NAMESPACE: usize = 1;
const SERVICE: usize = 2;

impl Row for Rule {
    const TABLE: Table = Table::Rule;
    fn name(&self, key: &mut RowKey) {
        key.part(self.family().kind()).part(&self.id);
    }
}

impl Row for RuleRelease {
    const TABLE: Table = Table::RuleRelease;
    fn name(&self, key: &mut RowKey) {
        key.part(self.rule.family().kind()).part(&self.rule.id).part(&self.name);
    }
}

impl Archived for RuleRelease {
    type Subject = str;

    fn thing(&self) -> Arc<str> {
        self.rule.id.as_str().into()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_active(&self) -> bool {
        self.active
    }

    fn due(&self) -> Option<Timestamp> {
        self.plan.as_ref().filter(|plan| plan.state() == ReleaseState::Scheduled).map(|plan| plan.at)
    }

    fn is_rolling(&self) -> bool {
        self.active && self.rollout.as_ref().is_some_and(|rollout| rollout.is_live())
    }
}

impl Indexed for Rule {
    type Key = str;

    const COLUMNS: usize = 3;

    fn key(&self) -> &str {
        &self.id
    }

    fn shared_key(&self) -> Arc<str> {
        self.id.as_str().into()
    }

    fn mtime(&self) -> Timestamp {
        self.modified.time
    }

    fn texts(&self, column: usize, tell: &mut dyn FnMut(&str)) {
        match column {
            NAME => tell(&self.name),
            NAMESPACE => tell(&self.namespace),
            _ => self.each_service(tell),
        }
    }
}

/// Books of all families.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    books: BTreeMap<Family, RuleBook>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { books: Family::ALL.iter().map(|family| (*family, RuleBook::default())).collect() }
    }
}

/// Rules of one family, with their releases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleBook {
    rules: ListIndex<Rule>,
    by_name: Names<Arc<Rule>>,
    /// Releases by the id of the rule.
    releases: Archive<RuleRelease>,
    releases_by_id: OrdMap<Arc<str>, Arc<RuleRelease>>,
    active: Active,
}

/// Filter of a list of rules; an absent part matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleFilter {
    pub id: Option<String>,
    pub name: Option<NameFilter>,
    pub namespace: Option<NameFilter>,
    /// Service on either side; rules for every service match as well.
    pub service: Option<NameFilter>,
    pub enable: Option<bool>,
    /// Rules that the caller may see.
    pub read_scope: ReadScope,
}

impl Placed for Rule {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.namespace, "", &self.name])
    }
}

/// Places a release by the name of the rule in the released copy.
impl Placed for RuleRelease {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.rule.namespace, &self.rule.name, &self.name, &self.id])
    }
}

impl RuleFilter {
    fn matches(&self, rule: &Rule) -> bool {
        self.id.as_ref().is_none_or(|id| *id == rule.id)
            && self.enable.is_none_or(|enable| enable == rule.enable)
            && NameFilter::passes(&self.name, &rule.name)
            && NameFilter::passes(&self.namespace, &rule.namespace)
            && rule.is_seen_by(&self.read_scope)
            && self
                .service
                .as_ref()
                .is_none_or(|wanted| rule.is_about(|service| service == ALL || wanted.matches(service)))
    }
}

/// Filter of a list of releases; without a rule, those of all rules match.
#[derive(Clone, Debug, Default)]
pub struct ReleaseFilter {
    pub rule_id: Option<String>,
    pub rule_name: Option<String>,
    pub only_active: bool,
    /// Rules that the caller may see.
    pub read_scope: ReadScope,
}

impl Rules {
    pub fn of(&self, family: Family) -> &RuleBook {
        &self.books[&family]
    }

    pub(super) fn of_mut(&mut self, family: Family) -> &mut RuleBook {
        self.books.get_mut(&family).expect("every family has a book")
    }

    pub fn has_any_in(&self, namespace: &str) -> bool {
        self.books.values().any(|book| book.by_name.has_any_in(namespace))
    }

    pub fn len(&self) -> usize {
        self.books.values().map(|book| book.rules.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn release_count(&self) -> usize {
        self.books.values().map(|book| book.releases_by_id.len()).sum()
    }

    /// Returns the releases to be published by `now`: family, time, rule and release name of each.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = (Family, Timestamp, &Arc<str>, &Arc<str>)> {
        self.books
            .iter()
            .flat_map(move |(family, book)| book.releases.due(now).map(move |(at, id, name)| (*family, at, id, name)))
    }

    /// Returns the releases of staged rollouts.
    pub(super) fn rolling(&self) -> impl Iterator<Item = &Arc<RuleRelease>> {
        self.books.values().flat_map(|book| book.releases.rolling())
    }

    pub(super) fn load_rule(&mut self, rule: Rule) {
        self.of_mut(rule.family()).load_rule(rule);
    }

    pub(super) fn load_release(&mut self, release: RuleRelease) {
        self.of_mut(release.rule.family()).load_release(release);
    }
}

impl RuleBook {
    pub fn get(&self, id: &str) -> Option<&Arc<Rule>> {
        self.rules.get(id)
    }

    pub fn named(&self, namespace: &str, name: &str) -> Option<&Arc<Rule>> {
        self.by_name.get(namespace, name)
    }

    /// Returns the rules of this name in all namespaces.
    pub fn all_named(&self, name: &str) -> impl Iterator<Item = &Arc<Rule>> {
        self.by_name.named(name)
    }

    /// Lists rules, newest change first, then by id.
    pub fn list(&self, filter: &RuleFilter, page: &Page) -> Listed<Arc<Rule>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        let one = match (&filter.id, &filter.namespace, &filter.name) {
            (Some(id), _, _) => self.get(id),
            (_, Some(NameFilter::Exact(namespace)), Some(NameFilter::Exact(name))) => self.named(namespace, name),
            _ => {
                let every_service = NameFilter::Exact(ALL.to_owned());
                let mut text_filters = TextFilter::all([(NAME, &filter.name), (NAMESPACE, &filter.namespace)]);
                text_filters
                    .extend(filter.service.as_ref().map(|wanted| TextFilter::new(SERVICE, [wanted, &every_service])));
                let rest = RuleFilter { name: None, namespace: None, service: None, ..filter.clone() };
                let asks_more = rest != RuleFilter::default();
                let listed = |page: &Page| {
                    self.rules.list(&text_filters, asks_more.then_some(|one: &Rule| rest.matches(one)), page)
                };
                let onward = |[namespace, _, name, _]: ListKey<'_>| self.by_name.onward(&namespace, &name);
                return Listed::ordered(page, &filter.namespace, listed, onward, |rule| filter.matches(rule));
            }
        };
        Listed::cut(one.into_iter().filter(|rule| filter.matches(rule)), page)
    }

    /// Returns the number of rules that [`RuleBook::list`] walks at most.
    pub fn reach(&self, filter: &RuleFilter, page: &Page) -> usize {
        if filter.read_scope.is_blind() {
            return 0;
        }
        match (&filter.id, &filter.namespace, &filter.name) {
            (Some(_), _, _) | (_, Some(NameFilter::Exact(_)), Some(NameFilter::Exact(_))) => 1,
            _ => self.rules.reach(*filter != RuleFilter::default(), page),
        }
    }

    /// Returns the releases in force.
    pub fn active(&self) -> &Active {
        &self.active
    }

    pub fn release(&self, rule_id: &str, name: &str) -> Option<&Arc<RuleRelease>> {
        self.releases.get(rule_id, name)
    }

    pub fn release_by_id(&self, id: &str) -> Option<&Arc<RuleRelease>> {
        self.releases_by_id.get(id)
    }

    pub fn releases_of(&self, rule_id: &str) -> impl Iterator<Item = &Arc<RuleRelease>> {
        self.releases.of(rule_id)
    }

    /// Returns the rules with more than `kept` inactive releases.
    pub(super) fn overfull(&self, kept: usize) -> impl Iterator<Item = &Arc<str>> {
        self.releases.overfull(kept)
    }

    /// Returns the oldest inactive release of the rule, if it has more than `kept`.
    pub(super) fn surplus(&self, rule_id: &str, kept: usize) -> Option<&Arc<RuleRelease>> {
        self.releases.surplus(rule_id, kept)
    }

    /// Lists releases: those of one rule by highest version, those of all rules by newest change.
    pub fn list_releases(&self, filter: &ReleaseFilter, page: &Page) -> Listed<Arc<RuleRelease>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        if filter.rule_id.is_none() && filter.rule_name.is_none() {
            let all = self.releases_by_id.values();
            let wanted = all.filter(|release| {
                (!filter.only_active || release.active) && self.is_seen(&release.rule, &filter.read_scope)
            });
            return cut_sorted(wanted.collect(), newest_change_first, page);
        }
        let by_name = filter.rule_name.iter().flat_map(|name| self.all_named(name)).map(|rule| &rule.id);
        let rules: Vec<&String> = match &filter.rule_id {
            Some(id) => vec![id],
            None => by_name.collect(),
        };
        let of_rules = rules.into_iter().flat_map(|id| self.releases_of(id));
        let wanted = of_rules.filter(|release| {
            (!filter.only_active || release.active)
                && self.is_seen(&release.rule, &filter.read_scope)
                && filter
                    .rule_name
                    .as_ref()
                    .is_none_or(|name| self.get(&release.rule.id).is_some_and(|rule| rule.name == *name))
        });
        cut_sorted(wanted.collect(), highest_version_first, page)
    }

    /// Reports whether a release is visible in `read_scope`: through the rule as it is now, through the services that
    /// the release acts on, or, if the rule was deleted, through the released copy.
    pub fn is_seen(&self, released: &Rule, read_scope: &ReadScope) -> bool {
        read_scope.is_whole()
            || match self.get(&released.id) {
                Some(rule) => rule.is_seen_by(read_scope) || released.is_felt_by(read_scope),
                None => released.is_seen_by(read_scope),
            }
    }

    /// Returns the number of releases that [`RuleBook::list_releases`] walks at most.
    pub fn reach_of_releases(&self, filter: &ReleaseFilter) -> usize {
        if filter.read_scope.is_blind() {
            return 0;
        }
        let count = |id: &str| self.releases.len_of(id);
        let by_name = || filter.rule_name.iter().flat_map(|name| self.all_named(name)).map(|rule| count(&rule.id));
        match (&filter.rule_id, &filter.rule_name) {
            (Some(id), _) => count(id),
            (None, Some(_)) => by_name().sum(),
            (None, None) => self.releases_by_id.len(),
        }
    }

    /// Returns the highest version of a release that retention removed, 0 if it removed none; `None` unless the filter
    /// names one rule.
    pub fn removed_through_version_of(&self, filter: &ReleaseFilter) -> Option<u64> {
        let rule = match (&filter.rule_id, &filter.rule_name) {
            (Some(id), _) => self.get(id),
            (None, Some(name)) => {
                let mut named = self.all_named(name);
                let first = named.next();
                if named.next().is_some() {
                    return None;
                }
                first
            }
            (None, None) => return None,
        };
        let seen = rule.filter(|rule| rule.is_seen_by(&filter.read_scope));
        Some(seen.map_or(0, |rule| rule.removed_through))
    }

    // ---- changes ----

    pub(super) fn put_rule(&mut self, rule: Rule, changes: &mut ChangeSet) -> Arc<Rule> {
        changes.put(&rule);
        self.load_rule(rule)
    }

    /// Deletes a rule and its releases.
    pub(super) fn remove_rule(&mut self, rule: &Rule, changes: &mut ChangeSet) {
        let releases: Vec<_> = self.releases_of(&rule.id).cloned().collect();
        for release in releases {
            self.remove_release(&release, changes);
        }
        changes.delete(rule);
        self.by_name.remove(&rule.namespace, &rule.name);
        self.rules.remove(&rule.id);
    }

    pub(super) fn put_release(&mut self, release: RuleRelease, changes: &mut ChangeSet) -> Arc<RuleRelease> {
        changes.put(&release);
        let was_active = self.release(&release.rule.id, &release.name).is_some_and(|old| old.active);
        let mut ends = self.active.ends_of_rule(&release.rule.id);
        let release = self.load_release(release);
        if was_active || release.active {
            ends.extend(self.active.ends_of_rule(&release.rule.id));
            changes.changed(ends.change_by(&release));
        }
        release
    }

    pub(super) fn remove_release(&mut self, release: &RuleRelease, changes: &mut ChangeSet) {
        changes.delete(release);
        if release.active {
            changes.changed(self.active.ends_of_rule(&release.rule.id).change_by(release));
        }
        self.active.remove(release);
        self.releases_by_id.remove(release.id.as_str());
        self.releases.remove(&release.rule.id, &release.name);
    }

    /// Records that retention removed releases up to this version.
    pub(super) fn removed_through(&mut self, rule_id: &str, version: u64, changes: &mut ChangeSet) {
        if let Some(rule) = self.get(rule_id).cloned() {
            let removed_through = rule.removed_through.max(version);
            self.put_rule(Rule { removed_through, ..Rule::clone(&rule) }, changes);
        }
    }

    fn load_rule(&mut self, rule: Rule) -> Arc<Rule> {
        let rule = Arc::new(rule);
        if let Some(old) = self.rules.insert(rule.clone()) {
            self.by_name.remove(&old.namespace, &old.name);
        }
        self.by_name.insert(&rule.namespace, &rule.name, rule.clone());
        rule
    }

    fn load_release(&mut self, release: RuleRelease) -> Arc<RuleRelease> {
        let release = Arc::new(release);
        if let Some(old) = self.releases_by_id.insert(release.id.as_str().into(), release.clone()) {
            self.active.remove(&old);
        }
        self.active.insert(&release);
        self.releases.insert(release.clone());
        release
    }
}

/// Compares releases of many rules in the order of a list: newest change first, then by rule and highest version.
fn newest_change_first(one: &Arc<RuleRelease>, other: &Arc<RuleRelease>) -> Ordering {
    let by_rule = || one.rule.id.cmp(&other.rule.id).then_with(|| highest_version_first(one, other));
    other.modified.time.cmp(&one.modified.time).then_with(by_rule)
}

/// Compares releases of one rule in the order of a list: highest version first, then by id.
fn highest_version_first(one: &Arc<RuleRelease>, other: &Arc<RuleRelease>) -> Ordering {
    other.version.cmp(&one.version).then_with(|| one.id.cmp(&other.id))
}
