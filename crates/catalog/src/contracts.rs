//! Contracts: changes, queries, and the contracts of a thing.

use std::sync::Arc;

use imbl::OrdMap;

use super::Catalog;
use super::change::{Entity, Outcome, admits_one_more};
use super::command::Op;
use super::page::{self, Listed, Page, Placed, cut_sorted, place_of};
use super::resource::{StoredResource, newest_first, resource};
use super::row::{Row, RowKey, Table};
use crate::catalog::ctx::Apply;
use crate::model::contract::{Contract, ContractDraft};
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::policy::{Place, PolicyKind};
use crate::model::release::ReleaseOp;
use crate::model::rollout::gives_to_all;
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::{Family, Rule};
use crate::model::text::NameFilter;

impl Row for Contract {
    const TABLE: Table = Table::Contract;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.name);
    }
}

impl Placed for Contract {
    fn place(&self) -> page::ListKey<'_> {
        place_of([&self.name])
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contracts {
    by_name: OrdMap<Arc<str>, Arc<Contract>>,
}

impl Contracts {
    pub fn get(&self, name: &str) -> Option<&Arc<Contract>> {
        self.by_name.get(name)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Lists contracts, newest change first, then by name, that cover something the caller may read.
    pub fn list(&self, name: &Option<NameFilter>, read_scope: &ReadScope, page: &Page) -> Listed<Arc<Contract>> {
        let is_seen = |contract: &Contract| {
            let scopes = contract.scopes();
            scopes.into_iter().any(|name| read_scope.meets(&contract.namespace, name))
        };
        let wanted = |contract: &&Arc<Contract>| NameFilter::passes(name, &contract.name) && is_seen(contract);
        cut_sorted(self.by_name.values().filter(wanted).collect(), newest_first, page)
    }

    /// Returns the contracts that bind a thing at one of its places, by name.
    pub fn applicable(&self, kind: PolicyKind, places: &[Place]) -> Vec<Arc<Contract>> {
        let applies_to = |contract: &&Arc<Contract>| places.iter().any(|place| contract.applies_to(kind, place));
        self.by_name.values().filter(applies_to).cloned().collect()
    }

    pub(super) fn load(&mut self, contract: Contract) -> Arc<Contract> {
        let contract = Arc::new(contract);
        self.by_name.insert(contract.name.as_str().into(), contract.clone());
        contract
    }
}

impl Catalog {
    /// Returns the rule that a publication would release, and its release in force. A rule named without a namespace is
    /// the visible one of that name, as in apply.
    pub fn rule_to_judge(
        &self,
        family: Family,
        draft: &RuleReleaseDraft,
        read_scope: &ReadScope,
    ) -> Option<(Arc<Rule>, Option<Arc<Rule>>)> {
        let draft = self.named_in(family, draft, read_scope);
        let rule = self.rule_to_publish(family, &draft).ok()?;
        let in_force = self.rule_in_force_of(&rule);
        Some((rule, in_force))
    }

    /// Returns the release that a promotion would give to all clients, and the rule in force.
    pub fn release_to_judge(
        &self,
        (family, op): (Family, ReleaseOp),
        draft: &RuleReleaseDraft,
        read_scope: &ReadScope,
    ) -> Option<(Arc<RuleRelease>, Option<Arc<Rule>>)> {
        let draft = self.named_in(family, draft, read_scope);
        let release = self.release_named_by(family, &draft).ok()??;
        if !gives_to_all(op, draft.action, release.rollout.as_deref()) {
            return None;
        }
        let in_force = self.rule_in_force_of(&release.rule);
        Some((release, in_force))
    }

    fn named_in(&self, family: Family, draft: &RuleReleaseDraft, read_scope: &ReadScope) -> RuleReleaseDraft {
        let mut draft = draft.clone();
        let name = draft.given_rule_name().map(str::to_owned);
        if let (None, None, Some(name)) = (draft.given_namespace(), draft.given_rule_id(), name) {
            let mut seen =
                self.rules.of(family).all_named(&name).filter(|rule| read_scope.sees(&rule.namespace, &rule.name));
            if let (Some(one), None) = (seen.next(), seen.next()) {
                draft.namespace = Some(one.namespace.clone());
            }
        }
        draft
    }

    /// Returns the rule in its normal release in force.
    pub fn rule_in_force_of(&self, rule: &Rule) -> Option<Arc<Rule>> {
        self.rules.of(rule.family()).active().normal(&rule.id).map(|release| release.rule.clone())
    }
}

impl StoredResource for Contract {
    resource!(ContractDraft => Entity::Contract, modified);

    fn find(catalog: &Catalog, _: Op, draft: &ContractDraft) -> Option<Arc<Contract>> {
        catalog.contracts.get(&draft.name).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &ContractDraft) -> Result<Contract, Outcome> {
        admits_one_more("contracts", apply.catalog.contracts.len(), limits::CONTRACTS_MAX)?;
        let mut contract = Contract { created: apply.ctx.stamp(), ..Contract::new(&draft.name) };
        contract.stamp(apply.ctx);
        draft.lay_over(&mut contract);
        Ok(contract)
    }

    fn put(apply: &mut Apply<'_>, contract: Contract) -> Arc<Contract> {
        apply.changes.put(&contract);
        apply.catalog.contracts.load(contract)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<Contract>) -> Result<(), Outcome> {
        apply.changes.delete(&**old);
        apply.catalog.contracts.by_name.remove(old.name.as_str());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::testing::Bench;
    use crate::catalog::{Command, fuzzing};
    use crate::model::config_file::ConfigKey;
    use crate::model::contract::ContractMode;
    use crate::model::grant::{Grant, Grants, Role, Verb};

    fn draft(json: &str) -> ContractDraft {
        serde_json::from_str(json).expect("a draft")
    }

    fn write(op: Op, json: &str) -> Command {
        Command::Contracts(op, vec![draft(json)])
    }

    #[test]
    fn contracts_come_change_and_go_and_rows_keep_them() {
        let mut bench = Bench::founded();
        let made = r#"{"name":"c","namespace":"prod","names":["pay"],"schema":{"const":null},"mode":"refuse"}"#;
        assert_eq!(bench.codes(write(Op::Create, made)), [200000]);
        assert_eq!(bench.codes(write(Op::Create, made)), [400201]);
        fuzzing::check(&bench);
        let there = bench.catalog.contracts.get("c").expect("made").clone();
        assert_eq!((there.mode, there.schema.as_str()), (ContractMode::Refuse, r#"{"const":null}"#));
        assert_eq!(bench.codes(write(Op::Update, r#"{"name":"c","rules":[{"expression":"true"}]}"#)), [200000]);
        assert_eq!(bench.codes(write(Op::Update, r#"{"name":"c","mode":"refuse"}"#)), [200002]);
        assert_eq!(bench.codes(write(Op::Update, r#"{"name":"c","mode":"warn","revision":"x"}"#)), [409000]);
        assert_eq!(bench.codes(write(Op::Update, r#"{"name":"none"}"#)), [400202]);
        fuzzing::check(&bench);
        let bound = |group: &str| {
            let place = Place::File(ConfigKey::new("prod", group, "app.yml"));
            bench.catalog.contracts.applicable(PolicyKind::ConfigFile, &[place]).len()
        };
        assert_eq!([bound("pay"), bound("payment"), bound("pay/eu")], [1, 0, 0]);
        assert_eq!(bench.codes(write(Op::Delete, r#"{"name":"c"}"#)), [200000]);
        assert_eq!(bench.codes(write(Op::Delete, r#"{"name":"c"}"#)), [200000]);
        fuzzing::check(&bench);
    }

    #[test]
    fn contracts_belong_to_their_level_and_have_a_limit() {
        let mut bench = Bench::founded();
        let many = |count: usize| {
            let drafts = (0..count).map(|number| draft(&format!(r#"{{"name":"c{number}","schema":true}}"#)));
            Command::Contracts(Op::Create, drafts.collect())
        };
        let codes = bench.codes(many(limits::CONTRACTS_MAX + 1));
        assert_eq!(codes.iter().filter(|code| **code == 200000).count(), limits::CONTRACTS_MAX);
        assert_eq!(codes.last(), Some(&507002));
    }

    #[test]
    fn lists_show_what_covers_something_that_is_read() {
        let mut bench = Bench::founded();
        for (name, namespace, names) in [("all", "*", "*"), ("pay", "prod", "pay"), ("dev", "dev*", "*")] {
            let json = format!(r#"{{"name":"{name}","namespace":"{namespace}","names":["{names}"],"schema":true}}"#);
            assert_eq!(bench.codes(write(Op::Create, &json)), [200000]);
        }
        let shown = |namespace: &str, name: &str| {
            let grant = Grant { role: Role::Reader, namespace: namespace.into(), name: name.into() };
            let scope = ReadScope::new(&Grants::new([grant]), &[Verb::Read]);
            let listed = bench.catalog.contracts.list(&None, &scope, &Page::ALL);
            let mut names: Vec<String> = listed.rows.iter().map(|contract| contract.name.clone()).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(shown("*", "*"), "all dev pay");
        assert_eq!(shown("prod", "pay"), "all pay");
        assert_eq!(shown("prod", "x"), "all");
        assert_eq!(shown("dev-2", "x"), "all dev");
        assert_eq!(shown("d*", "x*"), "all dev");
    }
}
