//! Governance rules: the book of each family and its queries. The rules of change are in
//! `rule_changes`, what clients see of the releases in `active`.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::active::Active;
use super::change::{Change, Journal};
use super::ledger::{Entry, Ledger};
use super::page::{Listed, Page, cut_sorted};
use super::row::{Row, Table};
use crate::model::rule::matching::ALL;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Family, Rule};
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;

impl Row for Rule {
    const TABLE: Table = Table::Rule;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        vec![self.family().kind().as_bytes().into(), self.id.as_bytes().into()]
    }
}

impl Row for RuleRelease {
    const TABLE: Table = Table::RuleRelease;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        let family = self.rule.family().kind();
        vec![family.as_bytes().into(), self.rule.id.as_bytes().into(), self.name.as_bytes().into()]
    }
}

impl Entry for Rule {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn mtime(&self) -> Timestamp {
        self.modified.time
    }
}

/// The books of all families, each of which has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    books: BTreeMap<Family, RuleBook>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { books: Family::ALL.iter().map(|family| (*family, RuleBook::default())).collect() }
    }
}

/// The rules of one family with their releases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleBook {
    rules: Ledger<Rule>,
    /// Namespace, then name, to the rule.
    by_name: BTreeMap<String, BTreeMap<String, Arc<Rule>>>,
    /// By id of the rule, then by name.
    releases: BTreeMap<String, BTreeMap<String, Arc<RuleRelease>>>,
    releases_by_id: BTreeMap<String, Arc<RuleRelease>>,
    active: Active,
}

/// Which rules a list wants; an absent part wants all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleFilter {
    pub id: Option<String>,
    pub name: Option<NameFilter>,
    pub namespace: Option<NameFilter>,
    /// A service on either end; rules for every service match as well.
    pub service: Option<NameFilter>,
    pub enable: Option<bool>,
}

impl RuleFilter {
    fn matches(&self, rule: &Rule) -> bool {
        self.id.as_ref().is_none_or(|id| *id == rule.id)
            && self.enable.is_none_or(|enable| enable == rule.enable)
            && NameFilter::passes(&self.name, &rule.name)
            && NameFilter::passes(&self.namespace, &rule.namespace)
            && self
                .service
                .as_ref()
                .is_none_or(|wanted| rule.is_about(|service| service == ALL || wanted.matches(service)))
    }
}

/// Whose releases a list wants. Without any part it wants none.
#[derive(Clone, Debug, Default)]
pub struct ReleaseFilter {
    pub rule_id: Option<String>,
    pub rule_name: Option<String>,
    pub only_active: bool,
}

impl Rules {
    pub fn of(&self, family: Family) -> &RuleBook {
        &self.books[&family]
    }

    pub(super) fn of_mut(&mut self, family: Family) -> &mut RuleBook {
        self.books.get_mut(&family).expect("every family has a book")
    }

    pub fn has_any_in(&self, namespace: &str) -> bool {
        self.books.values().any(|book| book.by_name.contains_key(namespace))
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
        self.by_name.get(namespace)?.get(name)
    }

    /// The rules of this name in all namespaces.
    pub fn all_named(&self, name: &str) -> impl Iterator<Item = &Arc<Rule>> {
        self.by_name.values().filter_map(move |names| names.get(name))
    }

    /// Newest change first, then by id.
    pub fn list(&self, filter: &RuleFilter, page: Page) -> Listed<Arc<Rule>> {
        let one = match (&filter.id, &filter.namespace, &filter.name) {
            (Some(id), _, _) => self.get(id),
            (_, Some(NameFilter::Exact(namespace)), Some(NameFilter::Exact(name))) => self.named(namespace, name),
            _ => {
                let rest = RuleFilter { name: None, ..filter.clone() };
                let asks_more = rest != RuleFilter::default();
                return self.rules.list(
                    filter.name.as_ref(),
                    asks_more.then_some(|one: &Rule| rest.matches(one)),
                    page,
                );
            }
        };
        Listed::cut(one.into_iter().filter(|rule| filter.matches(rule)), page)
    }

    /// What clients see.
    pub fn active(&self) -> &Active {
        &self.active
    }

    pub fn release(&self, rule_id: &str, name: &str) -> Option<&Arc<RuleRelease>> {
        self.releases.get(rule_id)?.get(name)
    }

    pub fn release_by_id(&self, id: &str) -> Option<&Arc<RuleRelease>> {
        self.releases_by_id.get(id)
    }

    pub fn releases_of(&self, rule_id: &str) -> impl Iterator<Item = &Arc<RuleRelease>> {
        self.releases.get(rule_id).into_iter().flat_map(BTreeMap::values)
    }

    /// Highest version first.
    pub fn list_releases(&self, filter: &ReleaseFilter, page: Page) -> Listed<Arc<RuleRelease>> {
        let by_name = filter.rule_name.iter().flat_map(|name| self.all_named(name)).map(|rule| &rule.id);
        let rules: Vec<&String> = match &filter.rule_id {
            Some(id) => vec![id],
            None => by_name.collect(),
        };
        let of_rules = rules.into_iter().flat_map(|id| self.releases_of(id));
        let wanted = of_rules.filter(|release| {
            (!filter.only_active || release.active)
                && filter
                    .rule_name
                    .as_ref()
                    .is_none_or(|name| self.get(&release.rule.id).is_some_and(|rule| rule.name == *name))
        });
        cut_sorted(wanted.cloned().collect(), |release| (Reverse(release.version), release.id.clone()), page)
    }

    // ---- the ways in which anything here changes ----

    pub(super) fn put_rule(&mut self, rule: Rule, journal: &mut Journal) -> Arc<Rule> {
        journal.put(&rule);
        self.load_rule(rule)
    }

    /// The rule goes, and its releases with it.
    pub(super) fn remove_rule(&mut self, rule: &Rule, journal: &mut Journal) {
        let releases: Vec<_> = self.releases_of(&rule.id).cloned().collect();
        for release in releases {
            self.remove_release(&release, journal);
        }
        journal.delete(rule);
        self.unlink(rule);
        self.rules.remove(&rule.id);
    }

    pub(super) fn put_release(&mut self, release: RuleRelease, journal: &mut Journal) -> Arc<RuleRelease> {
        journal.put(&release);
        let was_active = self.release(&release.rule.id, &release.name).is_some_and(|old| old.active);
        let release = self.load_release(release);
        if was_active || release.active {
            journal.changed(Change::Rules(release.rule.family(), release.rule.ends()));
        }
        release
    }

    pub(super) fn remove_release(&mut self, release: &RuleRelease, journal: &mut Journal) {
        journal.delete(release);
        if release.active {
            journal.changed(Change::Rules(release.rule.family(), release.rule.ends()));
        }
        self.active.remove(release);
        self.releases_by_id.remove(&release.id);
        if let Some(releases) = self.releases.get_mut(&release.rule.id) {
            releases.remove(&release.name);
            if releases.is_empty() {
                self.releases.remove(&release.rule.id);
            }
        }
    }

    fn unlink(&mut self, rule: &Rule) {
        if let Some(names) = self.by_name.get_mut(&rule.namespace) {
            names.remove(&rule.name);
            if names.is_empty() {
                self.by_name.remove(&rule.namespace);
            }
        }
    }

    fn load_rule(&mut self, rule: Rule) -> Arc<Rule> {
        let rule = Arc::new(rule);
        if let Some(old) = self.rules.insert(rule.clone()) {
            self.unlink(&old);
        }
        self.by_name.entry(rule.namespace.clone()).or_default().insert(rule.name.clone(), rule.clone());
        rule
    }

    fn load_release(&mut self, release: RuleRelease) -> Arc<RuleRelease> {
        let release = Arc::new(release);
        if let Some(old) = self.releases_by_id.insert(release.id.clone(), release.clone()) {
            self.active.remove(&old);
        }
        self.active.insert(&release);
        self.releases.entry(release.rule.id.clone()).or_default().insert(release.name.clone(), release.clone());
        release
    }
}
