//! Contracts of rules.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CompiledContracts, ContractVerdict};
use crate::catalog::{Catalog, Command, Entity, Outcome};
use crate::contracts::{ContractDocument, ValidationSubject};
use crate::model::code::Refusal;
use crate::model::contract::{Contract, Violation};
use crate::model::policy::PolicyKind;
use crate::model::release::{Pin, ReleaseOp};
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, Rule};
use crate::operations::{Caller, Items, Operations};

/// Text in place of warnings if no turn came in time.
const UNJUDGED: &str = "its contracts were not checked: too many checks are waiting";

/// A rule with its contracts, and the release that they compare it with.
#[derive(Clone)]
pub(super) struct JudgedRule {
    pub(super) rule: Arc<Rule>,
    contracts: Vec<Arc<Contract>>,
    in_force: Option<Arc<Rule>>,
    user: String,
}

impl JudgedRule {
    /// Returns `None` for a rule that no contract binds.
    pub(super) fn of(
        catalog: &Catalog,
        (rule, in_force): (Arc<Rule>, Option<Arc<Rule>>),
        caller: &Caller,
    ) -> Option<JudgedRule> {
        let kind = PolicyKind::Rule(rule.family());
        let contracts = catalog.contracts.applicable(kind, &catalog.places_of_rule(&rule));
        (!contracts.is_empty()).then(|| JudgedRule { rule, contracts, in_force, user: caller.name.clone() })
    }

    /// Reports whether a contract compares the rule with the one in force.
    fn compares(&self) -> bool {
        self.contracts.iter().any(|contract| !contract.rules.is_empty())
    }

    pub(super) fn broken(&self, engines: &CompiledContracts) -> Vec<Violation> {
        let subject = ValidationSubject {
            kind: PolicyKind::Rule(self.rule.family()),
            namespace: self.rule.namespace.clone(),
            name: self.rule.name.clone(),
            user: self.user.clone(),
            new: ContractDocument::Rule(body(&self.rule)),
            old: self.in_force.as_ref().map(|rule| ContractDocument::Rule(body(rule))),
            may_see: true,
        };
        engines.judge(&self.contracts, &subject)
    }
}

/// Returns the fields of a rule that an author writes, as its details show them.
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
    /// Publishes rules that satisfy their contracts. A rule that is changed meanwhile is validated again.
    pub(in crate::operations) async fn publish_kept_rules(
        &self,
        caller: &Caller,
        family: Family,
        items: Items<RuleReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let find = |catalog: &Catalog, draft: &RuleReleaseDraft, by: &Caller| {
            let (rule, in_force) = catalog.rule_to_judge(family, draft, &by.read_scope())?;
            let named = RuleReleaseDraft { rule_id: Some(rule.id.clone()), ..RuleReleaseDraft::default() };
            let pin = Pin { revision: Some(rule.revision.clone()), ..Pin::default() };
            catalog.lets_publish(&by.grants, family, &named).then_some((rule, in_force, pin))
        };
        self.keep_rules(caller, items, find, |items| Command::PublishRules(family, items)).await
    }

    /// Promotes gray releases of rules, unless a contract refuses what all clients would get.
    pub(in crate::operations) async fn promote_kept_rules(
        &self,
        caller: &Caller,
        (family, op): (Family, ReleaseOp),
        items: Items<RuleReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let find = |catalog: &Catalog, draft: &RuleReleaseDraft, by: &Caller| {
            let (release, in_force) = catalog.release_to_judge((family, op), draft, &by.read_scope())?;
            let named = RuleReleaseDraft { id: Some(release.id.clone()), ..RuleReleaseDraft::default() };
            let pin = Pin { version: Some(release.version), ..Pin::default() };
            let lets = catalog.lets_change_release(&by.grants, family, &named);
            lets.then(|| (release.rule.clone(), in_force, pin))
        };
        self.keep_rules(caller, items, find, |items| Command::RuleReleases(family, op, items)).await
    }

    /// Proposes rules that satisfy their contracts. `find` returns the rule, the one in force and the pin of a draft.
    async fn keep_rules(
        &self,
        caller: &Caller,
        items: Items<RuleReleaseDraft>,
        find: impl Fn(&Catalog, &RuleReleaseDraft, &Caller) -> Option<(Arc<Rule>, Option<Arc<Rule>>, Pin)>,
        command: impl Fn(Vec<RuleReleaseDraft>) -> Command,
    ) -> Result<Vec<Outcome>, Refusal> {
        let find = |catalog: &Catalog, draft: &RuleReleaseDraft, by: &Caller| {
            // Without contracts, renaming a rule cannot bring it below one.
            let (rule, in_force, pin) = find(catalog, draft, by).filter(|_| !catalog.contracts.is_empty())?;
            let beside = catalog.pin_beside(&rule).in_force;
            let judged = JudgedRule::of(catalog, (rule, in_force), by);
            let compares = judged.as_ref().is_some_and(JudgedRule::compares);
            Some((judged, Pin { in_force: beside.filter(|_| compares), ..pin }))
        };
        let engines = self.engines.clone();
        let verdict = move |judged: JudgedRule| ContractVerdict::of(judged.broken(&engines));
        self.publish_rounds(caller, items, find, |draft, pin| draft.pin = pin, verdict, command).await
    }

    /// Returns for each outcome the contracts that the written rule breaks.
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
        let mut told = Vec::with_capacity(judged.len());
        for judged in judged {
            let Some(judged) = judged else {
                told.push(Vec::new());
                continue;
            };
            let engines = self.engines.clone();
            let broken = self.on_turn(&self.turns.judgements, move || judged.broken(&engines)).await;
            told.push(match broken {
                Ok(broken) => broken.iter().map(Violation::text).collect(),
                Err(_) => vec![UNJUDGED.to_owned()],
            });
        }
        told
    }
}

/// Returns the rule of an outcome, if it was written.
pub(in crate::operations) fn written(outcome: &Outcome) -> Option<Arc<Rule>> {
    match &outcome.entity {
        _ if !outcome.code.is_success() => None,
        Entity::Rule(rule) => Some(rule.clone()),
        Entity::RuleRelease(release) => Some(release.rule.clone()),
        _ => None,
    }
}
