//! Rules and their releases.

use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, RuleDraft};

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
}
