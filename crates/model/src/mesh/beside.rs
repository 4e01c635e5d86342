//! Warnings that depend on more than the rule: on instances of its destination services, and on rules before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::{PARAMETER_VALUES_MAX, PlannedGroup};
use super::warning::{ENVOY, EVERY_CLIENT, GRPC, Warning};
use super::warnings::route_plans;
use super::{Dialect, probes};
use crate::model::instance::Instance;
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, Rule};

/// Returns the services whose instances decide whether a rule is carried: those of groups with a label that takes a
/// value of the request.
pub fn services(rule: &Rule) -> BTreeSet<(String, String)> {
    let plans = [Dialect::Grpc, Dialect::Envoy].map(|dialect| route_plans(rule, dialect));
    let groups = plans.iter().flatten().flat_map(|plan| &plan.routes).flat_map(|route| &route.groups);
    let taking = groups.filter(|group| !group.parameters.is_empty());
    taking.map(|group| (group.service.namespace.clone(), group.service.service.clone())).collect()
}

/// Returns warnings on sub-rules whose labels have more values than are carried.
pub fn crowded(rule: &Rule, instances: &dyn Fn(&ServiceKey) -> Vec<Arc<Instance>>) -> Vec<Warning> {
    let [grpc, envoy] = Dialect::ALL.map(|dialect| crowded_sub_rules(rule, dialect, instances));
    let places: BTreeSet<usize> = grpc.keys().chain(envoy.keys()).copied().collect();
    let told = places.into_iter().map(|place| {
        let (dialects, values) = match (grpc.get(&place), envoy.get(&place)) {
            (Some(values), None) => (GRPC, *values),
            (None, values) => (ENVOY, values.copied().unwrap_or_default()),
            (Some(one), Some(other)) => (EVERY_CLIENT, *one.max(other)),
        };
        let text = format!(
            "rules[{place}]: label takes over a parameter with {values} values: the first {PARAMETER_VALUES_MAX} are \
             carried"
        );
        Warning::approximate(9, dialects, text)
    });
    told.collect()
}

/// Returns the number of values by position of the sub-rule, if there are too many.
fn crowded_sub_rules(
    rule: &Rule,
    dialect: Dialect,
    instances: &dyn Fn(&ServiceKey) -> Vec<Arc<Instance>>,
) -> BTreeMap<usize, usize> {
    let mut found: BTreeMap<usize, usize> = BTreeMap::new();
    for route in route_plans(rule, dialect).iter().flat_map(|plan| &plan.routes) {
        let values: BTreeSet<_> = route.groups.iter().flat_map(|group| values_of(group, instances)).collect();
        if values.len() > PARAMETER_VALUES_MAX {
            let known = found.entry(route.sub_rule).or_default();
            *known = values.len().max(*known);
        }
    }
    found
}

/// Returns the values that instances of a group have in labels that take a value of the request.
fn values_of(group: &PlannedGroup<'_>, instances: &dyn Fn(&ServiceKey) -> Vec<Arc<Instance>>) -> Vec<Vec<String>> {
    if group.parameters.is_empty() {
        return Vec::new();
    }
    let is_possible = group.possible();
    let of_instance = |instance: Arc<Instance>| {
        let labels = group.parameters.iter().map(|parameter| instance.metadata.get(parameter.label).cloned());
        labels.collect::<Option<Vec<_>>>().filter(|_| is_possible(&instance))
    };
    instances(&group.service).into_iter().filter_map(of_instance).collect()
}

/// Returns the rules of one service whose probes are not carried, each with the rule before it whose probe is.
pub fn displaced<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<(&'a Rule, &'a Rule)> {
    let has_probe = |rule: &&Rule| matches!(rule.body, Body::FaultDetect(_)) && probes::plan(&[*rule]).probe.is_some();
    let mut probing = rules.into_iter().filter(has_probe);
    let Some(first) = probing.next() else { return Vec::new() };
    probing.map(|behind| (first, behind)).collect()
}

/// Returns the warning on a rule whose probes are not carried.
pub fn second_probe(first: &Rule) -> Warning {
    let text = format!("not carried beside the probe of the rule {}: Envoy takes one a service", first.name);
    Warning::left_out(15, ENVOY, text)
}

/// Returns the warning on a rule whose probe excludes those of another one.
pub fn only_probe(behind: &Rule) -> Warning {
    let text =
        format!("the probe of the rule {} is not carried beside this one: Envoy takes one a service", behind.name);
    Warning::approximate(15, ENVOY, text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::mesh::testing;
    use crate::model::rule::Family;

    fn instances(versions: usize) -> Vec<Arc<Instance>> {
        let of = |number: usize| {
            let version = format!("v{number}");
            let one = json!({ "id": version, "namespace": "shop", "service": "order", "host": "h", "port": 1,
                "metadata": { "version": version, "old": if number < 70 { "yes" } else { "no" } } });
            Arc::new(testing::instance(&one))
        };
        (0..versions).map(of).collect()
    }

    fn taking(kind: &str, more: &Value) -> Rule {
        let mut labels = json!({ "version": { "type": "EXACT", "value": "v", "value_type": "PARAMETER" } });
        labels.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let argument = json!({ "type": kind, "key": "v", "value": { "value": "v", "value_type": "PARAMETER" } });
        let route = json!({ "arguments": { "arguments": [argument] },
            "destinations": [{ "service": "order", "labels": labels }] });
        testing::rule(
            Family::Routing,
            &json!({ "name": "r", "namespace": "shop", "enable": true,
            "routing_config": { "rules": [{ "destinations": [{ "service": "order" }] }, route] } }),
        )
    }

    #[test]
    fn more_values_than_are_carried_are_told() {
        let told = |kind: &str, more: Value, count: usize| {
            let rule = taking(kind, &more);
            assert_eq!(services(&rule), BTreeSet::from([("shop".to_owned(), "order".to_owned())]));
            let warnings = crowded(&rule, &|service| {
                assert_eq!((&*service.namespace, &*service.service), ("shop", "order"));
                instances(count)
            });
            warnings.iter().map(|warning| (warning.dialects, warning.to_string())).collect::<Vec<_>>()
        };
        let text = |values: usize| {
            format!("W9: rules[1]: label takes over a parameter with {values} values: the first 64 are carried")
        };
        assert_eq!(told("HEADER", json!({}), 64), []);
        assert_eq!(told("HEADER", json!({}), 65), [(EVERY_CLIENT, text(65))]);
        assert_eq!(told("QUERY", json!({}), 90), [(ENVOY, text(90))], "gRPC has no query");
        let old = json!({ "old": { "type": "EXACT", "value": "yes" } });
        assert_eq!(told("HEADER", old, 90), [(EVERY_CLIENT, text(70))], "those of the other labels alone");
    }

    #[test]
    fn of_several_probes_the_first_is_carried() {
        let rule = |name: &str, enable: bool, protocol: &str| {
            testing::rule(
                Family::FaultDetect,
                &json!({ "name": name, "namespace": "shop", "enable": enable,
                "target_service": { "service": "order" }, "rules": [{ "protocol": protocol }] }),
            )
        };
        let names = |rules: &[Rule]| {
            let found = displaced(rules).into_iter();
            found.map(|(first, behind)| format!("{} {}", first.name, behind.name)).collect::<Vec<_>>()
        };
        let rules = [rule("off", false, "TCP"), rule("none", true, "UDP"), rule("a", true, "TCP")];
        assert_eq!(names(&rules), [""; 0]);
        let more = [rules[2].clone(), rule("b", true, "HTTP"), rules[1].clone(), rule("c", true, "TCP")];
        assert_eq!(names(&more), ["a b", "a c"]);
        let told = "W15: not carried beside the probe of the rule a: Envoy takes one a service";
        assert_eq!(second_probe(&more[0]).to_string(), told);
    }
}
