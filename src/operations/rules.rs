//! Rules and their releases.

use std::sync::Arc;

use super::contracts::written;
use super::mistakes::mistakes;
use super::reach::XdsWarnings;
use super::write::checked;
use super::{Caller, Items, Operations};
use crate::catalog::{Catalog, Command, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::instance::Instance;
use crate::model::mesh::beside;
use crate::model::mesh::carried::CarriedOutBy;
use crate::model::mesh::warning::Warning;
use crate::model::mesh::warnings::warnings;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, Family, Rule, RuleDraft};
use crate::polaris::carried::SdkExtent;

/// Weight of one instance in bytes, comparable with the size of a rule.
const INSTANCE_BYTES: usize = 64;

/// Warnings on a rule that was written.
#[derive(Debug, Default)]
pub struct RuleAdvice {
    /// Probable mistakes of the author.
    pub mistakes: Vec<String>,
    /// Violations of contracts.
    pub broken: Vec<String>,
    /// Parts of the rule that clients of xDS do not carry out.
    pub not_carried: Vec<String>,
}

impl Operations {
    pub async fn rules(&self, caller: &Caller, op: Op, items: Items<RuleDraft>) -> Result<Vec<Outcome>, Refusal> {
        let check = match op {
            Op::Create => RuleDraft::check_new,
            Op::Update => RuleDraft::check_update,
            Op::Delete => RuleDraft::check_deletion,
        };
        self.write(caller, checked(items, check), |items| Command::Rules(op, items)).await
    }

    /// Publishes the drafts of rules.
    pub async fn publish_rules(
        &self,
        caller: &Caller,
        family: Family,
        items: Items<RuleReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let items = checked(items, |draft| draft.check_publish(family));
        self.publish_kept_rules(caller, family, items).await
    }

    /// Promotes, stops, rolls back or deletes existing releases, or changes their rollouts.
    pub async fn change_rule_releases(
        &self,
        caller: &Caller,
        family: Family,
        op: ReleaseOp,
        items: Items<RuleReleaseDraft>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let items = checked(items, |draft| draft.check_named(family, op));
        if matches!(op, ReleaseOp::Promote | ReleaseOp::Rollout) {
            return self.promote_kept_rules(caller, (family, op), items).await;
        }
        self.write(caller, items, |items| Command::RuleReleases(family, op, items)).await
    }

    /// Returns warnings on each rule that was saved or published; none if no turn comes in time. The write itself is
    /// done.
    pub async fn advice(&self, caller: &Caller, outcomes: &[Outcome], due: XdsWarnings) -> Vec<RuleAdvice> {
        let rules: Vec<Option<Arc<Rule>>> = outcomes.iter().map(written).collect();
        let broken = self.broken_by_rules(caller, &rules).await;
        let (view, now, read_scope) = (self.node.state().view(), self.node.now(), caller.read_scope());
        let bytes: usize = rules.iter().flatten().map(|rule| bytes_of(rule) + instances_beside(&view, rule)).sum();
        let work = move || {
            let are_due = |rule: &&Rule| {
                let ends = rule.ends();
                let namespaces = ends.iter().map(|end| &*end.namespace);
                due.are_due(&view, now, namespaces.chain([&*rule.namespace]))
            };
            let advice = |rule: &Option<Arc<Rule>>| {
                let Some(rule) = rule.as_deref() else { return RuleAdvice::default() };
                let not_carried = Some(rule).filter(are_due).map(|rule| warning_texts(&view, rule)).unwrap_or_default();
                RuleAdvice { mistakes: mistakes(&view, rule, &read_scope), not_carried, ..RuleAdvice::default() }
            };
            rules.iter().map(advice).collect()
        };
        let mut all: Vec<RuleAdvice> = self.read_through(bytes, work).await.unwrap_or_default();
        all.resize_with(outcomes.len(), RuleAdvice::default);
        broken.into_iter().zip(all).map(|(broken, advice)| RuleAdvice { broken, ..advice }).collect()
    }
}

impl Operations {
    /// Returns the extent to which clients of xDS carry out a rule, given the instances and the other rules of its
    /// services; `None` if no turn comes in time.
    pub async fn carried_out_by(&self, rule: &Arc<Rule>) -> Option<CarriedOutBy> {
        let (view, rule) = (self.node.state().view(), rule.clone());
        let bytes = bytes_of(&rule) + instances_beside(&view, &rule);
        let work = move || {
            let mut by = CarriedOutBy::of(&rule);
            SdkExtent::of(&rule).add_to(&mut by);
            surroundings(&view, &rule).iter().for_each(|warning| by.add(warning));
            by
        };
        self.read_through(bytes, work).await.ok()
    }
}

fn bytes_of(rule: &Rule) -> usize {
    serde_json::to_vec(&rule.body.fields()).map_or(0, |bytes| bytes.len())
}

/// Returns the weight of the instances that are examined for a rule.
fn instances_beside(catalog: &Catalog, rule: &Rule) -> usize {
    let services = beside::services(rule).into_iter();
    let count = services.map(|(namespace, service)| catalog.instances.of_service(&namespace, &service).total);
    count.sum::<usize>() * INSTANCE_BYTES
}

fn warning_texts(catalog: &Catalog, rule: &Rule) -> Vec<String> {
    let mut all: Vec<Warning> = warnings(rule).into_iter().chain(surroundings(catalog, rule)).collect();
    all.sort_by_key(|warning| warning.number);
    all.iter().map(ToString::to_string).collect()
}

/// Returns the warnings caused by the instances of a rule's services, and by other rules of these.
fn surroundings(catalog: &Catalog, rule: &Rule) -> Vec<Warning> {
    let crowded = beside::crowded(rule, &|service| instances_of(catalog, service));
    crowded.into_iter().chain(of_probes(catalog, rule)).collect()
}

/// Returns the instances of a service.
pub(super) fn instances_of(catalog: &Catalog, service: &ServiceKey) -> Vec<Arc<Instance>> {
    catalog.instances.all_of(&service.namespace, &service.service).cloned().collect()
}

/// Returns the warnings on probes that displace each other, among this rule and those that most clients of its services
/// see.
fn of_probes(catalog: &Catalog, rule: &Rule) -> Vec<Warning> {
    if !matches!(rule.body, Body::FaultDetect(_)) {
        return Vec::new();
    }
    let active = catalog.rules.of(Family::FaultDetect).active();
    let mut found = Vec::new();
    for end in rule.ends() {
        let others = active.of_service(&end.namespace, &end.service, |_| None);
        let others = others.iter().map(|release| &*release.rule).filter(|other| other.id != rule.id);
        let mut all: Vec<&Rule> = others.chain([rule]).collect();
        all.sort_by_key(|one| (one.priority, &one.id));
        for (first, behind) in beside::displaced(all) {
            let is_about = (first.id == rule.id, behind.id == rule.id);
            found.extend(match is_about {
                (true, _) => Some(beside::only_probe(behind)),
                (_, true) => Some(beside::second_probe(first)),
                (false, false) => None,
            });
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed;
    use serde_json::{Value, json};

    use super::*;
    use crate::catalog::testing::Bench;
    use crate::model::rule::RuleHead;

    fn saved(bench: &mut Bench, family: Family, name: &str, body: Value) -> Arc<Rule> {
        let body = DeserializeSeed::deserialize(family, body).expect("a body");
        let head = RuleHead {
            name: Some(name.into()),
            namespace: Some("shop".into()),
            enable: Some(true),
            ..RuleHead::default()
        };
        assert_eq!(bench.codes(Command::Rules(Op::Create, vec![RuleDraft { head, body }])), [200000]);
        bench.catalog.rules.of(family).named("shop", name).expect("saved").clone()
    }

    fn numbers(bench: &Bench, rule: &Rule, number: &str) -> Vec<String> {
        warning_texts(&bench.catalog, rule).into_iter().filter(|text| text.starts_with(number)).collect()
    }

    #[test]
    fn the_probe_that_is_not_carried_is_told_whichever_rule_is_saved_last() {
        let mut bench = Bench::founded();
        let probe =
            || json!({"target_service": {"service": "pay", "namespace": "shop"}, "rules": [{"protocol": "TCP"}]});
        let names = ["one", "two"];
        let rules = names.map(|name| saved(&mut bench, Family::FaultDetect, name, probe()));
        for rule in &rules {
            assert_eq!(numbers(&bench, rule, "W15"), [""; 0], "no other one is in force");
        }
        for name in names {
            let release = json!([{"rule_name": name, "release_name": "first"}]);
            let drafts: Vec<RuleReleaseDraft> = serde_json::from_value(release).expect("a release");
            assert_eq!(bench.codes(Command::PublishRules(Family::FaultDetect, drafts)), [200000]);
        }
        let [first, behind] = if rules[0].id < rules[1].id { [0, 1] } else { [1, 0] }.map(|index| &rules[index]);
        let text = |words: String| vec![format!("W15: {words}: Envoy takes one a service")];
        let told_first = text(format!("the probe of the rule {} is not carried beside this one", behind.name));
        assert_eq!(numbers(&bench, first, "W15"), told_first);
        let told_behind = text(format!("not carried beside the probe of the rule {}", first.name));
        assert_eq!(numbers(&bench, behind, "W15"), told_behind);
    }

    #[test]
    fn values_of_registered_instances_are_counted() {
        let mut bench = Bench::founded();
        let named = json!({"value": "lane", "value_type": "PARAMETER"});
        let rule = json!({"arguments": {"arguments": [{"type": "HEADER", "key": "lane", "value": named}]},
            "destinations": [{"service": "pay", "namespace": "shop", "labels": {"lane": named}}]});
        let rule = saved(&mut bench, Family::Routing, "lanes", json!({"routing_config": {"rules": [rule]}}));
        assert_eq!(numbers(&bench, &rule, "W9"), [""; 0]);
        let instance = |number: usize| {
            json!({"namespace": "shop", "service": "pay", "host": "10.0.0.1", "port": 1000 + number,
                "metadata": {"lane": format!("l{number}")}})
        };
        let instances = serde_json::from_value((0..65).map(instance).collect()).expect("drafts");
        bench.codes(Command::Instances(Op::Create, instances));
        let text = "W9: rules[0]: label takes over a parameter with 65 values: the first 64 are carried";
        assert_eq!(numbers(&bench, &rule, "W9"), [text]);
        assert_eq!(instances_beside(&bench.catalog, &rule), 65 * INSTANCE_BYTES);
    }
}
