//! Releases of one family that clients see: for each rule the newest active gray release whose labels all match the
//! client, else the active normal one, else nothing.

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

/// The active releases of one family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Active {
    /// By id of the rule.
    of_rule: OrdMap<Arc<str>, Arc<ActiveOfRule>>,
    /// Every end of an active release, to the rules.
    of_end: OrdMap<Arc<End>, OrdSet<Arc<str>>>,
    /// Namespace and name of the rule in each active release, to the rules.
    of_name: OrdMap<Arc<[String; 2]>, OrdSet<Arc<str>>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ActiveOfRule {
    normal: Option<Arc<RuleRelease>>,
    /// Highest version first.
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
pub(in crate::catalog) struct ChangedEnds {
    all: BTreeSet<End>,
    /// Those on whose calls they may act.
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

    /// Clients see another release of the rule, also those of the services that only the other one is about.
    pub(super) fn change_by(mut self, release: &RuleRelease) -> Change {
        self.add(&release.rule);
        let [ends, called] = [self.all, self.called].map(|ends| ends.into_iter().collect());
        Change::Rules { family: release.rule.family(), ends, called }
    }
}

/// The releases of one rule that clients see.
#[derive(Clone, Copy)]
pub struct RuleInForce<'a> {
    pub id: &'a Arc<str>,
    active: &'a ActiveOfRule,
}

impl<'a> RuleInForce<'a> {
    /// True if not all clients see the same one.
    pub fn is_gray(self) -> bool {
        !self.active.grays.is_empty()
    }

    pub fn normal(self) -> Option<&'a Arc<RuleRelease>> {
        self.active.normal.as_ref()
    }

    /// Gray ones first, highest version first.
    pub fn all(self) -> impl Iterator<Item = &'a Arc<RuleRelease>> {
        self.active.all()
    }
}

/// The ends under which rules for this service are found.
pub fn ends_of(namespace: &str, service: &str) -> [End; 4] {
    let end = |namespace: &str, service: &str| End { namespace: namespace.to_owned(), service: service.to_owned() };
    [end(namespace, service), end(namespace, ALL), end(ALL, service), end(ALL, ALL)]
}

impl Active {
    /// The releases that concern a service, as a client with these labels sees them: by priority of
    /// the rule, 0 first, then by its id.
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

    /// The rules with gray releases of which a release may concern a service: by the priority that the newest gray one
    /// has, then by id.
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

    /// The rules of which a release may concern a service, by id.
    fn about(&self, namespace: &str, service: &str) -> impl Iterator<Item = &ActiveOfRule> {
        self.about_with_ids(namespace, service).map(|(_, active)| active)
    }

    fn about_with_ids(&self, namespace: &str, service: &str) -> impl Iterator<Item = (&Arc<str>, &ActiveOfRule)> {
        let ends = ends_of(namespace, service);
        let rules: BTreeSet<&Arc<str>> = ends.iter().filter_map(|end| self.of_end.get(end)).flatten().collect();
        rules.into_iter().filter_map(|rule| Some((rule, self.of_rule.get(rule)?.as_ref())))
    }

    /// The rules of which a release may concern a service, by id.
    pub fn rules_about(&self, namespace: &str, service: &str) -> impl Iterator<Item = RuleInForce<'_>> {
        self.about_with_ids(namespace, service).map(|(id, active)| RuleInForce { id, active })
    }

    /// The release of a rule that a client with these labels sees.
    pub fn release_for<'a>(&self, rule_id: &str, label: impl Fn(&str) -> Option<&'a str>) -> Option<&Arc<RuleRelease>> {
        self.of_rule.get(rule_id)?.for_client(label)
    }

    /// The releases of a rule that clients see: gray ones first, highest version first.
    pub fn releases_of(&self, rule_id: &str) -> impl Iterator<Item = &Arc<RuleRelease>> {
        self.of_rule.get(rule_id).into_iter().flat_map(|active| active.all())
    }

    /// The rules of which clients see a release under this name, whatever the rule is called by now.
    pub fn released_as(&self, namespace: &str, name: &str) -> impl Iterator<Item = &Arc<str>> {
        self.of_name.get(&[namespace.to_owned(), name.to_owned()]).into_iter().flatten()
    }

    /// The ends of all releases of a rule that clients see.
    pub(in crate::catalog) fn ends_of_rule(&self, rule_id: &str) -> ChangedEnds {
        let (mut ends, active) = (ChangedEnds::default(), self.of_rule.get(rule_id));
        active.into_iter().flat_map(|active| active.all()).for_each(|release| ends.add(&release.rule));
        ends
    }

    /// True if a release of the rule that clients see has one of these ends.
    pub fn is_about(&self, rule_id: &str, ends: &[End]) -> bool {
        ends.iter().any(|end| self.of_end.get(end).is_some_and(|rules| rules.contains(rule_id)))
    }

    /// Number of rules that [`Active::of_service`] walks at most.
    pub fn reach(&self, namespace: &str, service: &str) -> usize {
        ends_of(namespace, service).iter().filter_map(|end| self.of_end.get(end)).map(OrdSet::len).sum()
    }

    /// The normal release of a rule that clients see.
    pub fn normal(&self, rule_id: &str) -> Option<&Arc<RuleRelease>> {
        self.of_rule.get(rule_id)?.normal.as_ref()
    }

    /// Number of gray releases of a rule that clients may see.
    pub(in crate::catalog) fn grays(&self, rule_id: &str) -> usize {
        self.of_rule.get(rule_id).map_or(0, |active| active.grays.len())
    }

    /// Takes a release in, if it is active.
    pub(in crate::catalog) fn insert(&mut self, release: &Arc<RuleRelease>) {
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

    /// Takes a release out, if it is here.
    pub(in crate::catalog) fn remove(&mut self, release: &RuleRelease) {
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
