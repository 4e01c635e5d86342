//! Calls between services: those seen in clients' lists of instances, and those named by rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::Catalog;
use super::instances::InstanceCounts;
use super::page::Page;
use super::rules::RuleFilter;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::rule::matching::ALL;
use crate::model::rule::{EndRole, Family, Rule};

/// A client, by address, that has the list of instances of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListHolder {
    pub namespace: String,
    pub service: String,
    pub address: String,
}

/// Services and the calls between them.
#[derive(Debug, Default)]
pub struct CallGraph {
    /// Services by namespace and name.
    pub services: Vec<CalledService>,
    /// Calls by caller and callee.
    pub calls: Vec<Call>,
    /// Rules in force for every service.
    pub everywhere: Vec<RuleName>,
    /// Number of services beyond the limit.
    pub left_out: usize,
}

#[derive(Debug)]
pub struct CalledService {
    pub namespace: String,
    pub name: String,
    pub instances: InstanceCounts,
    /// Rules in force for calls of the service by any caller.
    pub rules: Vec<RuleName>,
}

/// Calls of one service by another, as indexes into the list of services.
#[derive(Debug)]
pub struct Call {
    pub caller: usize,
    pub callee: usize,
    /// Number of instances of the caller that have the list of the callee; 0 if only rules indicate the call.
    pub clients: usize,
    /// Rules in force that name both services.
    pub rules: Vec<RuleName>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName {
    pub family: Family,
    pub id: String,
    pub name: String,
}

/// Builder of a [`CallGraph`], with its services by name.
struct GraphBuilder<'a> {
    graph: CallGraph,
    by_name: HashMap<(&'a str, &'a str), usize>,
    calls: BTreeMap<(usize, usize), (usize, BTreeSet<RuleName>)>,
}

impl Catalog {
    /// Returns the calls between the services that a caller may see, in one namespace or in all.
    pub fn call_graph(
        &self,
        read_scope: &ReadScope,
        namespace: Option<&str>,
        holders: &BTreeSet<ListHolder>,
    ) -> CallGraph {
        let seen = self.services.all_in(namespace).filter(|one| read_scope.sees(&one.namespace, &one.name));
        let mut seen = seen.peekable();
        let mut builder = GraphBuilder { graph: CallGraph::default(), by_name: HashMap::new(), calls: BTreeMap::new() };
        let mut by_host: HashMap<&str, BTreeSet<usize>> = HashMap::new();
        while let Some(service) = seen.next_if(|_| builder.by_name.len() < limits::MAP_SERVICES_MAX) {
            let at = builder.graph.services.len();
            builder.by_name.insert((&service.namespace, &service.name), at);
            for instance in self.instances.all_of(&service.namespace, &service.name) {
                by_host.entry(&instance.host).or_default().insert(at);
            }
            builder.graph.services.push(CalledService {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
                instances: self.instances.of_service(&service.namespace, &service.name),
                rules: Vec::new(),
            });
        }
        builder.graph.left_out = seen.count();
        for holder in holders {
            let Some(callee) = builder.by_name.get(&(holder.namespace.as_str(), holder.service.as_str())) else {
                continue;
            };
            let callers = by_host.get(holder.address.as_str()).into_iter().flatten();
            for caller in callers.filter(|caller| *caller != callee) {
                builder.calls.entry((*caller, *callee)).or_default().0 += 1;
            }
        }
        for family in Family::ALL {
            let filter = RuleFilter { read_scope: read_scope.clone(), ..RuleFilter::default() };
            let book = self.rules.of(*family);
            for rule in book.list(&filter, &Page::ALL).rows {
                if let Some(release) = book.active().normal(&rule.id).filter(|release| release.rule.enable) {
                    builder.add_rule(&release.rule);
                }
            }
        }
        builder.finish()
    }
}

impl GraphBuilder<'_> {
    fn add_rule(&mut self, rule: &Rule) {
        let name = RuleName { family: rule.family(), id: rule.id.clone(), name: rule.name.clone() };
        let (mut callers, mut callees, mut is_everywhere) = (BTreeSet::new(), BTreeSet::new(), false);
        let mut names_callers = false;
        rule.each_role(&mut |role, namespace, service| {
            let known = self.by_name.get(&(namespace, service)).copied();
            match role {
                EndRole::Caller => {
                    names_callers |= service != ALL;
                    callers.extend(known);
                }
                EndRole::AnyCaller => {}
                EndRole::Callee if service == ALL => is_everywhere = true,
                EndRole::Callee | EndRole::Destination | EndRole::Transfer => callees.extend(known),
            }
        });
        if is_everywhere && callees.is_empty() {
            self.graph.everywhere.push(name);
            return;
        }
        for callee in callees {
            // A rule for callers outside of this map describes no call on it.
            if !names_callers {
                self.graph.services[callee].rules.push(name.clone());
            }
            for caller in callers.iter().filter(|caller| **caller != callee) {
                self.calls.entry((*caller, callee)).or_default().1.insert(name.clone());
            }
        }
    }

    fn finish(self) -> CallGraph {
        let calls = self.calls.into_iter().map(|((caller, callee), (clients, rules))| Call {
            caller,
            callee,
            clients,
            rules: rules.into_iter().collect(),
        });
        CallGraph { calls: calls.collect(), ..self.graph }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed;
    use serde_json::json;

    use super::*;
    use crate::catalog::testing::Bench;
    use crate::catalog::{Command, Op};
    use crate::model::rule::release::RuleReleaseDraft;
    use crate::model::rule::{RuleDraft, RuleHead};
    use crate::model::service::ServiceDraft;

    fn service(namespace: &str, name: &str) -> ServiceDraft {
        let draft = json!({ "namespace": namespace, "name": name });
        serde_json::from_value(draft).expect("a service")
    }

    /// Returns a catalog with a routing rule in force for calls of `shop/pay` by this caller.
    fn with_route(caller: &str) -> Catalog {
        let mut bench = Bench::founded();
        for (namespace, name) in [("shop", "pay"), ("shop", "front"), ("other", "back")] {
            let service = service(namespace, name);
            assert_eq!(bench.codes(Command::Services(Op::Create, vec![service])), [200_000]);
        }
        let (namespace, service) = caller.split_once('/').expect("a namespace and a name");
        let destination = json!({"namespace": "shop", "service": "pay", "labels": {}, "weight": 100});
        let config = json!({
            "caller": {"namespace": namespace, "service": service},
            "callee": {"namespace": "shop", "service": "pay"},
            "rules": [{"name": "one", "destinations": [destination]}]
        });
        let body = json!({"route_policy": "RulePolicy", "routing_config": config});
        let body = DeserializeSeed::deserialize(Family::Routing, body).expect("a route");
        let head = RuleHead { name: Some("r".into()), namespace: Some("shop".into()), ..RuleHead::default() };
        assert_eq!(bench.codes(Command::Rules(Op::Create, vec![RuleDraft { head, body }])), [200_000]);
        let release = RuleReleaseDraft { rule_name: Some("r".into()), ..RuleReleaseDraft::default() };
        assert_eq!(bench.codes(Command::PublishRules(Family::Routing, vec![release])), [200_000]);
        bench.catalog.view()
    }

    /// Returns the number of rules of `pay` for all callers, and the pairs of services with a rule between them.
    fn drawn(catalog: &Catalog, namespace: &str) -> (usize, Vec<(String, String)>) {
        let graph = catalog.call_graph(&ReadScope::Everything, Some(namespace), &BTreeSet::new());
        let name = |at: usize| graph.services[at].name.clone();
        let pay = graph.services.iter().find(|service| service.name == "pay").expect("there");
        (pay.rules.len(), graph.calls.iter().map(|call| (name(call.caller), name(call.callee))).collect())
    }

    #[test]
    fn a_rule_is_of_its_callers_though_they_are_not_on_the_map() {
        let pair = vec![("front".to_owned(), "pay".to_owned())];
        assert_eq!(drawn(&with_route("shop/front"), "shop"), (0, pair));
        assert_eq!(drawn(&with_route("other/back"), "shop"), (0, Vec::new()), "no call between these services");
        assert_eq!(drawn(&with_route("shop/gone"), "shop"), (0, Vec::new()));
        assert_eq!(drawn(&with_route("*/*"), "shop"), (1, Vec::new()));
    }
}
