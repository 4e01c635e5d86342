//! Releases of one family that clients see: for each rule the newest active gray release whose labels all match the
//! client, otherwise the active normal one, if any.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::catalog::change::Change;
use crate::model::audience::Judge;
use crate::model::explain::Rollout;
use crate::model::release::ReleaseType;
use crate::model::rule::matching::ALL;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{End, Rule};

/// Active releases of one family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Active {
    /// Active releases by the id of the rule.
    of_rule: OrdMap<Arc<str>, Arc<ActiveOfRule>>,
    /// Rules by each service of their active releases.
    of_end: OrdMap<Arc<End>, OrdSet<Arc<str>>>,
    /// Rules by their namespace and name in each active release.
    of_name: OrdMap<Arc<[String; 2]>, OrdSet<Arc<str>>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ActiveOfRule {
    normal: Option<Arc<RuleRelease>>,
    /// Gray releases, highest version first.
    grays: Vec<Gray>,
}

#[derive(Clone, Debug, PartialEq)]
struct Gray {
    release: Arc<RuleRelease>,
    judge: Judge,
}

impl ActiveOfRule {
    fn all(&self) -> impl Iterator<Item = &Arc<RuleRelease>> {
        self.grays.iter().map(|gray| &gray.release).chain(&self.normal)
    }

    fn for_client<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> Option<&Arc<RuleRelease>> {
        let mut grays = self.grays.iter();
        let gray = grays.find(|gray| gray.judge.admits(gray.release.audience(), &label));
        gray.map(|gray| &gray.release).or(self.normal.as_ref())
    }

    fn names(&self) -> BTreeSet<[String; 2]> {
        self.all().map(|release| [release.rule.namespace.clone(), release.rule.name.clone()]).collect()
    }

    fn ends(&self) -> BTreeSet<End> {
        self.all().flat_map(|release| release.rule.ends()).collect()
    }
}

/// Services that releases of a rule are about.
#[derive(Debug, Default)]
pub(crate) struct ChangedEnds {
    all: BTreeSet<End>,
    /// Services on whose calls they may act.
    called: BTreeSet<End>,
}

impl ChangedEnds {
    fn add(&mut self, rule: &Rule) {
        self.all.extend(rule.ends());
        self.called.extend(rule.called_ends());
    }

    pub(super) fn extend(&mut self, others: ChangedEnds) {
        self.all.extend(others.all);
        self.called.extend(others.called);
    }

    /// Returns the change for clients of the rule, including services that only the other release is about.
    pub(super) fn change_by(mut self, release: &RuleRelease) -> Change {
        self.add(&release.rule);
        let [ends, called] = [self.all, self.called].map(|ends| ends.into_iter().collect());
        Change::Rules { family: release.rule.family(), ends, called }
    }
}

/// Releases of one rule in force.
#[derive(Clone, Copy)]
pub struct RuleInForce<'a> {
    pub id: &'a Arc<str>,
    active: &'a ActiveOfRule,
}

impl<'a> RuleInForce<'a> {
    /// Reports whether some clients see another release than the others.
    pub fn is_gray(self) -> bool {
        !self.active.grays.is_empty()
    }

    pub fn normal(self) -> Option<&'a Arc<RuleRelease>> {
        self.active.normal.as_ref()
    }

    /// Returns all releases: gray ones first, highest version first.
    pub fn all(self) -> impl Iterator<Item = &'a Arc<RuleRelease>> {
        self.active.all()
    }
}

/// Returns the keys under which rules for this service are indexed.
pub fn ends_of(namespace: &str, service: &str) -> [End; 4] {
    let end = |namespace: &str, service: &str| End { namespace: namespace.to_owned(), service: service.to_owned() };
    [end(namespace, service), end(namespace, ALL), end(ALL, service), end(ALL, ALL)]
}

impl Active {
    /// Returns the releases that concern a service, for a client with these labels: by priority of the rule, 0 first,
    /// then by its id.
    pub fn of_service<'a>(
        &self,
        namespace: &str,
        service: &str,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> Vec<Arc<RuleRelease>> {
        let chosen = self.about(namespace, service).filter_map(|active| active.for_client(&label));
        let mut chosen: Vec<_> = chosen
            .filter(|release| release.rule.ends().iter().any(|end| end.covers(namespace, service)))
            .cloned()
            .collect();
        chosen.sort_by(|one, other| (one.rule.priority, &one.rule.id).cmp(&(other.rule.priority, &other.rule.id)));
        chosen
    }

    /// Returns the rules with gray releases that may concern a service: by the priority in the newest gray release,
    /// then by id.
    pub fn rollouts(&self, namespace: &str, service: &str) -> Vec<Rollout> {
        let active = self.about(namespace, service).filter(|active| !active.grays.is_empty());
        let rollouts = active.map(|active| Rollout {
            grays: active.grays.iter().map(|gray| gray.release.clone()).collect(),
            normal: active.normal.clone(),
        });
        let mut rollouts: Vec<_> = rollouts.collect();
        rollouts.sort_by_key(|rollout| rollout.grays.first().map(|gray| gray.rule.priority));
        rollouts
    }

    /// Returns the rules with releases that may concern a service, by id.
    fn about(&self, namespace: &str, service: &str) -> impl Iterator<Item = &ActiveOfRule> {
        self.about_with_ids(namespace, service).map(|(_, active)| active)
    }

    fn about_with_ids(&self, namespace: &str, service: &str) -> impl Iterator<Item = (&Arc<str>, &ActiveOfRule)> {
        let ends = ends_of(namespace, service);
        let rules: BTreeSet<&Arc<str>> = ends.iter().filter_map(|end| self.of_end.get(end)).flatten().collect();
        rules.into_iter().filter_map(|rule| Some((rule, self.of_rule.get(rule)?.as_ref())))
    }

    /// Returns the rules with releases that may concern a service, by id.
    pub fn rules_about(&self, namespace: &str, service: &str) -> impl Iterator<Item = RuleInForce<'_>> {
        self.about_with_ids(namespace, service).map(|(id, active)| RuleInForce { id, active })
    }

    /// Returns the release of a rule for a client with these labels.
    pub fn release_for<'a>(&self, rule_id: &str, label: impl Fn(&str) -> Option<&'a str>) -> Option<&Arc<RuleRelease>> {
        self.of_rule.get(rule_id)?.for_client(label)
    }

    /// Returns the releases of a rule in force: gray ones first, highest version first.
    pub fn releases_of(&self, rule_id: &str) -> impl Iterator<Item = &Arc<RuleRelease>> {
        self.of_rule.get(rule_id).into_iter().flat_map(|active| active.all())
    }

    /// Returns the rules with a release in force under this name, which may differ from the present name of the rule.
    pub fn released_as(&self, namespace: &str, name: &str) -> impl Iterator<Item = &Arc<str>> {
        self.of_name.get(&[namespace.to_owned(), name.to_owned()]).into_iter().flatten()
    }

    /// Returns the services of all releases of a rule in force.
    pub(crate) fn ends_of_rule(&self, rule_id: &str) -> ChangedEnds {
        let (mut ends, active) = (ChangedEnds::default(), self.of_rule.get(rule_id));
        active.into_iter().flat_map(|active| active.all()).for_each(|release| ends.add(&release.rule));
        ends
    }

    /// Reports whether a release of the rule in force is about one of these services.
    pub fn is_about(&self, rule_id: &str, ends: &[End]) -> bool {
        ends.iter().any(|end| self.of_end.get(end).is_some_and(|rules| rules.contains(rule_id)))
    }

    /// Returns the number of rules that [`Active::of_service`] walks at most.
    pub fn reach(&self, namespace: &str, service: &str) -> usize {
        ends_of(namespace, service).iter().filter_map(|end| self.of_end.get(end)).map(OrdSet::len).sum()
    }

    /// Returns the normal release of a rule in force.
    pub fn normal(&self, rule_id: &str) -> Option<&Arc<RuleRelease>> {
        self.of_rule.get(rule_id)?.normal.as_ref()
    }

    /// Returns the number of gray releases of a rule in force.
    pub(crate) fn grays(&self, rule_id: &str) -> usize {
        self.of_rule.get(rule_id).map_or(0, |active| active.grays.len())
    }

    /// Inserts a release, if it is active.
    pub(crate) fn insert(&mut self, release: &Arc<RuleRelease>) {
        if !release.active {
            return;
        }
        self.change(&release.rule.id, |active| match release.release_type {
            ReleaseType::Normal => active.normal = Some(release.clone()),
            ReleaseType::Gray => {
                active.grays.push(Gray { release: release.clone(), judge: Judge::default() });
                active.grays.sort_by_key(|gray| Reverse(gray.release.version));
            }
        });
    }

    /// Removes a release, if it is active.
    pub(crate) fn remove(&mut self, release: &RuleRelease) {
        self.change(&release.rule.id, |active| {
            active.normal.take_if(|normal| normal.id == release.id);
            active.grays.retain(|gray| gray.release.id != release.id);
        });
    }

    fn change(&mut self, rule_id: &str, change: impl FnOnce(&mut ActiveOfRule)) {
        let (rule, active) = self.of_rule.remove_with_key(rule_id).unwrap_or_else(|| (rule_id.into(), Arc::default()));
        let mut active = Arc::unwrap_or_clone(active);
        for end in active.ends() {
            if let Some(rules) = self.of_end.get_mut(&end) {
                rules.remove(rule_id);
                if rules.is_empty() {
                    self.of_end.remove(&end);
                }
            }
        }
        for name in active.names() {
            if let Some(rules) = self.of_name.get_mut(&name) {
                rules.remove(rule_id);
                if rules.is_empty() {
                    self.of_name.remove(&name);
                }
            }
        }
        change(&mut active);
        for name in active.names() {
            self.of_name.entry(Arc::new(name)).or_default().insert(rule.clone());
        }
        for end in active.ends() {
            self.of_end.entry(Arc::new(end)).or_default().insert(rule.clone());
        }
        if active.all().next().is_some() {
            self.of_rule.insert(rule, Arc::new(active));
        }
    }
}
