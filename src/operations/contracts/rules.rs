//! Contracts of rules.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{ContractVerdict, Engines, Sifted, with_places};
use crate::catalog::{Catalog, Command, Entity, Outcome};
use crate::contracts::{JudgedThing, Material};
use crate::model::code::{Code, Refusal};
use crate::model::contract::{Broken, Contract};
use crate::model::grant::{ReadScope, Verb};
use crate::model::limits;
use crate::model::policy::PolicyKind;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, Rule};
use crate::operations::{Caller, Items, Operations};

/// A rule with its contracts, and what they compare it with.
#[derive(Clone)]
pub(super) struct JudgedRule {
    pub(super) rule: Arc<Rule>,
    contracts: Vec<Arc<Contract>>,
    in_force: Option<Arc<Rule>>,
    user: String,
}

impl JudgedRule {
    /// `None` for a rule that no contract binds.
    pub(super) fn of(
        catalog: &Catalog,
        (rule, in_force): (Arc<Rule>, Option<Arc<Rule>>),
        caller: &Caller,
    ) -> Option<JudgedRule> {
        let kind = PolicyKind::Rule(rule.family());
        let contracts = catalog.contracts.binding(kind, &rule.namespace, &rule.name);
        (!contracts.is_empty()).then(|| JudgedRule { rule, contracts, in_force, user: caller.name.clone() })
    }

    pub(super) fn broken(&self, engines: &Engines) -> Vec<Broken> {
        let subject = JudgedThing {
            kind: PolicyKind::Rule(self.rule.family()),
            namespace: self.rule.namespace.clone(),
            name: self.rule.name.clone(),
            user: self.user.clone(),
            new: Material::Rule(body(&self.rule)),
            old: self.in_force.as_ref().map(|rule| Material::Rule(body(rule))),
            may_see: true,
        };
        engines.judge(&self.contracts, &subject)
    }
}

/// Fields of a rule that somebody writes, as its details show them.
pub(super) fn body(rule: &Rule) -> Value {
    let mut fields = Map::new();
    fields.insert("name".into(), Value::from(rule.name.as_str()));
    fields.insert("namespace".into(), Value::from(rule.namespace.as_str()));
    fields.insert("enable".into(), Value::from(rule.enable));
    fields.insert("description".into(), Value::from(rule.description.as_str()));
    fields.insert("priority".into(), Value::from(rule.priority));
    let metadata = rule.metadata.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    fields.insert("metadata".into(), Value::Object(metadata.collect()));
    if let Ok(Value::Object(own)) = serde_json::to_value(rule.body.fields()) {
        fields.extend(own);
    }
    for field in rule.body.unset() {
        fields.entry(field).or_insert(Value::Null);
    }
    Value::Object(fields)
}

impl Operations {
    /// Publishes rules that keep their contracts. One that is changed meanwhile is looked at again.
    pub(in crate::operations) async fn publish_kept_rules(
        &self,
        caller: &Caller,
        family: Family,
        items: Items<RuleReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let command = |items| Command::PublishRules(family, items);
        if self.node().state().catalog().contracts.is_empty() {
            return self.write(caller, items, command).await;
        }
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut under_way: Vec<(usize, Result<RuleReleaseDraft, Refusal>)> = items.into_iter().enumerate().collect();
        for round in 1..=limits::PUBLISH_ROUNDS_MAX {
            let (places, items): (Vec<usize>, Vec<_>) = under_way.into_iter().unzip();
            let given: Items<RuleReleaseDraft> = items.clone();
            let judged =
                self.judged_rules(caller, &items, |catalog, draft, scope| catalog.rule_to_judge(family, draft, scope));
            let judged = judged.await?;
            let (items, pinned) = pinned(items, &judged);
            let sifted = self.sift_rules(items, pinned.iter().map(|(judged, _)| judged.clone()).collect()).await?;
            let made = with_places(self.write(caller, sifted.items, command).await?, sifted.refused);
            let mut again = Vec::new();
            for (index, outcome) in made.into_iter().enumerate() {
                let (is_pinned, place) = (pinned[index].1, places[index]);
                if is_pinned && outcome.code == Code::DataConflict && round < limits::PUBLISH_ROUNDS_MAX {
                    again.push((place, given[index].clone()));
                }
                if place < outcomes.len() {
                    outcomes[place] = outcome;
                } else {
                    outcomes.push(outcome);
                }
            }
            under_way = again;
            if under_way.is_empty() {
                break;
            }
        }
        Ok(outcomes)
    }

    /// Promotes gray releases of rules, unless a contract refuses what all clients would get.
    pub(in crate::operations) async fn promote_kept_rules(
        &self,
        caller: &Caller,
        (family, op): (Family, ReleaseOp),
        items: Items<RuleReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let command = |items| Command::RuleReleases(family, op, items);
        if self.node().state().catalog().contracts.is_empty() {
            return self.write(caller, items, command).await;
        }
        let judged = self
            .judged_rules(caller, &items, |catalog, draft, scope| catalog.release_to_judge((family, op), draft, scope));
        let judged = judged.await?;
        let Sifted { items, refused } = self.sift_rules(items, judged).await?;
        Ok(with_places(self.write(caller, items, command).await?, refused))
    }

    /// Rules that items are about, as far as the caller may release them.
    async fn judged_rules(
        &self,
        caller: &Caller,
        items: &Items<RuleReleaseDraft>,
        find: impl Fn(&Catalog, &RuleReleaseDraft, &ReadScope) -> Option<(Arc<Rule>, Option<Arc<Rule>>)>,
    ) -> Result<Vec<Option<JudgedRule>>, Refusal> {
        self.node().await_linearizable().await?;
        let caller = caller.again(self)?;
        let read_scope = caller.read_scope();
        let catalog = self.node().state().catalog();
        let of = |draft: &RuleReleaseDraft| {
            let found = find(&catalog, draft, &read_scope)?;
            let may = caller.grants.may(Verb::Release, &found.0.namespace, &found.0.name);
            may.then(|| JudgedRule::of(&catalog, found, &caller)).flatten()
        };
        Ok(items.iter().map(|item| item.as_ref().ok().and_then(of)).collect())
    }

    async fn sift_rules(
        &self,
        items: Items<RuleReleaseDraft>,
        judged: Vec<Option<JudgedRule>>,
    ) -> Result<Sifted<RuleReleaseDraft>, Refusal> {
        if judged.iter().all(Option::is_none) {
            let verdicts = judged.iter().map(|_| ContractVerdict::default()).collect();
            return Ok(Sifted::new(items, verdicts));
        }
        let engines = self.engines.clone();
        let verdict = move |judged: &Option<JudgedRule>| {
            judged.as_ref().map(|judged| ContractVerdict::of(judged.broken(&engines))).unwrap_or_default()
        };
        let verdicts = self.on_scan_turn(move || judged.iter().map(verdict).collect()).await?;
        Ok(Sifted::new(items, verdicts))
    }

    /// Contracts that rules break which were saved or published, for each outcome.
    pub(in crate::operations) async fn broken_by_rules(
        &self,
        caller: &Caller,
        rules: &[Option<Arc<Rule>>],
    ) -> Vec<Vec<String>> {
        let judged: Vec<Option<JudgedRule>> = {
            let catalog = self.node().state().catalog();
            let of = |rule: &Option<Arc<Rule>>| {
                let rule = rule.clone()?;
                let in_force = catalog.rule_in_force_of(&rule);
                JudgedRule::of(&catalog, (rule, in_force), caller)
            };
            rules.iter().map(of).collect()
        };
        if judged.iter().all(Option::is_none) {
            return Vec::new();
        }
        let engines = self.engines.clone();
        let told = move |judged: &Option<JudgedRule>| {
            let broken = judged.as_ref().map(|judged| judged.broken(&engines)).unwrap_or_default();
            broken.iter().map(Broken::text).collect()
        };
        self.on_scan_turn(move || judged.iter().map(told).collect()).await.unwrap_or_default()
    }
}

/// Publications for the rules that were judged alone; with whether that was not asked for.
fn pinned(
    items: Items<RuleReleaseDraft>,
    judged: &[Option<JudgedRule>],
) -> (Items<RuleReleaseDraft>, Vec<(Option<JudgedRule>, bool)>) {
    let mut pins = Vec::with_capacity(items.len());
    let pin = |(item, judged): (Result<RuleReleaseDraft, Refusal>, &Option<JudgedRule>)| {
        let is_open = item.as_ref().is_ok_and(|draft| draft.revision.as_deref().is_none_or(str::is_empty));
        let revision = judged.as_ref().filter(|_| is_open).map(|judged| judged.rule.revision.clone());
        pins.push((judged.clone(), revision.is_some()));
        match revision {
            Some(revision) => item.map(|draft| RuleReleaseDraft { revision: Some(revision), ..draft }),
            None => item,
        }
    };
    let items = items.into_iter().zip(judged).map(pin).collect();
    (items, pins)
}

/// The rule of an outcome, if it was written.
pub(in crate::operations) fn written(outcome: &Outcome) -> Option<Arc<Rule>> {
    match &outcome.entity {
        _ if !outcome.code.is_success() => None,
        Entity::Rule(rule) => Some(rule.clone()),
        Entity::RuleRelease(release) => Some(release.rule.clone()),
        _ => None,
    }
}
