//! Rules and their releases.

use std::sync::Arc;

use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Entity, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::mesh::warnings::warnings;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, Rule, RuleDraft};

impl Operations {
    pub async fn rules(&self, caller: &Caller, op: Op, items: Items<RuleDraft>) -> Result<Vec<Outcome>, Refusal> {
        let check = match op {
            Op::Create => RuleDraft::check_new,
            Op::Update => RuleDraft::check_update,
            Op::Delete => RuleDraft::check_named,
        };
        self.write(caller, checked(items, check), |items| Command::Rules(op, items)).await
    }

    /// Publishes rules as they stand.
    pub async fn publish_rules(
        &self,
        caller: &Caller,
        family: Family,
        items: Items<RuleReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let items = checked(items, |draft| draft.check_publish(family));
        self.write(caller, items, |items| Command::PublishRules(family, items)).await
    }

    /// Has something become of releases that are there.
    pub async fn change_rule_releases(
        &self,
        caller: &Caller,
        family: Family,
        op: ReleaseOp,
        items: Items<RuleReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let items = checked(items, |draft| draft.check_named(family));
        self.write(caller, items, |items| Command::RuleReleases(family, op, items)).await
    }

    /// Parts of the rules that were saved or published which clients of xDS do not carry out, for each outcome. It is
    /// advice: what was done is done, and nothing is told where no turn comes in time.
    pub async fn advice(&self, outcomes: &[Outcome]) -> Vec<Vec<String>> {
        let rules: Vec<Option<Arc<Rule>>> = outcomes.iter().map(written).collect();
        let bytes: usize = rules.iter().flatten().map(|rule| bytes_of(rule)).sum();
        let work = move || rules.iter().map(|rule| rule.as_deref().map(told).unwrap_or_default()).collect();
        self.read_through(bytes, work).await.unwrap_or_default()
    }
}

fn written(outcome: &Outcome) -> Option<Arc<Rule>> {
    match &outcome.entity {
        _ if !outcome.code.is_success() => None,
        Entity::Rule(rule) => Some(rule.clone()),
        Entity::RuleRelease(release) => Some(release.rule.clone()),
        _ => None,
    }
}

fn bytes_of(rule: &Rule) -> usize {
    serde_json::to_vec(&rule.body.fields()).map_or(0, |bytes| bytes.len())
}

fn told(rule: &Rule) -> Vec<String> {
    warnings(rule).iter().map(ToString::to_string).collect()
}
