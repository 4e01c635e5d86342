//! Shares drawn from one number, counted over all numbers.

use serde_json::{Value, json};

use super::*;
use crate::model::mesh::library::Library;
use crate::model::mesh::plan::{Abilities, RoutePlan};
use crate::model::mesh::routing::plan;
use crate::model::mesh::testing;
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Family, Rule};

fn rule(sub_rules: &Value) -> Rule {
    let callee = json!({ "namespace": "shop", "service": "order" });
    let config = json!({ "callee": callee, "rules": sub_rules });
    testing::rule(
        Family::Routing,
        &json!({ "name": "r", "namespace": "shop", "routing_config": config, "enable": true }),
    )
}

fn planned(rule: &Rule, dialect: Dialect) -> RoutePlan<'_> {
    let called = ServiceKey { namespace: "shop".into(), service: "order".into() };
    let mut plan = plan(
        &[rule],
        &called,
        Abilities {
            dialect,
            is_gateway: false,
            has_caller_header: false,
            takes_large_expressions: false,
            is_callee_grpc: false,
            library: Library::Core,
        },
    );
    let warnings = settle_shares(&mut plan.routes, dialect);
    plan.warnings.extend(warnings);
    plan
}

fn sub_rule(percent: u32, conditions: Value, weights: &[u32]) -> Value {
    let groups: Vec<Value> = weights
        .iter()
        .enumerate()
        .map(|(index, weight)| json!({ "name": format!("g{index}"), "service": "order", "weight": weight }))
        .collect();
    let arguments = json!({ "arguments": conditions, "random_percent": percent, "matchMode": "OR" });
    json!({ "arguments": arguments, "destinations": groups })
}

fn header(name: &str, value: &str) -> Value {
    json!({ "type": "HEADER", "key": name, "value": { "value": value } })
}

fn fractions(plan: &RoutePlan<'_>) -> Vec<String> {
    let shown = |fraction: Fraction| format!("{}/{}", fraction.numerator, fraction.denominator.count());
    plan.routes.iter().map(|route| route.fraction.map_or("all".into(), shown)).collect()
}

fn numbers(plan: &RoutePlan<'_>) -> Vec<u8> {
    plan.warnings.iter().map(|warning| warning.number).collect()
}

/// Successive percentages of sub-rules without conditions, and the resulting shares of the requests.
#[test]
fn fractions_do_not_depend_on_each_other() {
    let rows: [(&[u32], &[&str], &[f64]); 5] = [
        (&[50, 100], &["50/100", "all"], &[0.5, 0.5]),
        (&[50, 50], &["50/100", "5000/10000"], &[0.5, 0.25]),
        (&[50, 50, 50, 100], &["50/100", "5000/10000", "500000/1000000", "all"], &[0.5, 0.25, 0.125, 0.125]),
        (&[30, 20, 10, 50], &["30/100", "2000/10000", "100000/1000000", "550000/1000000"], &[0.3, 0.14, 0.056, 0.252]),
        (&[1, 1, 1, 1], &["1/100", "100/10000", "10000/1000000", "19900/1000000"], &[0.01, 0.0099, 0.009801, 0.0097]),
    ];
    for (percents, expected, shares) in rows {
        let sub_rules: Vec<Value> = percents.iter().map(|percent| sub_rule(*percent, json!([]), &[1])).collect();
        let rule = rule(&json!(sub_rules));
        let plan = planned(&rule, Dialect::Envoy);
        assert_eq!((fractions(&plan).as_slice(), numbers(&plan).len()), (expected_of(expected).as_slice(), 0));
        let counted = counted(&plan.routes);
        for (counted, share) in counted.iter().zip(shares) {
            assert!((counted - share).abs() < 0.001, "{percents:?}: {counted} of {share}");
        }
    }
}

fn expected_of(expected: &[&str]) -> Vec<String> {
    expected.iter().map(|fraction| (*fraction).to_owned()).collect()
}

/// Counts the shares of the routes over every number, if all their conditions hold.
fn counted(routes: &[PlannedRoute<'_>]) -> Vec<f64> {
    let mut taken = vec![0_u32; routes.len()];
    for number in 0..1_000_000_u32 {
        let is_drawn = |route: &PlannedRoute<'_>| {
            route.fraction.is_none_or(|fraction| number % fraction.denominator.count() < fraction.numerator)
        };
        if let Some(first) = routes.iter().position(is_drawn) {
            taken[first] += 1;
        }
    }
    taken.into_iter().map(|taken| f64::from(taken) / 1_000_000.0).collect()
}

#[test]
fn routes_that_never_meet_share_a_denominator() {
    let apart: Vec<Value> =
        ["a", "b", "c", "d", "e"].map(|value| sub_rule(50, json!([header("h", value)]), &[1])).into();
    let rule_apart = rule(&json!(apart));
    let plan = planned(&rule_apart, Dialect::Envoy);
    assert_eq!(fractions(&plan), ["50/100"; 5]);
    assert!(plan.warnings.is_empty());

    let together: Vec<Value> = ["a", "b", "c", "d"].map(|name| sub_rule(50, json!([header(name, "1")]), &[1])).into();
    let rule_together = rule(&json!(together));
    let plan = planned(&rule_together, Dialect::Envoy);
    assert_eq!(fractions(&plan), ["50/100", "5000/10000", "500000/1000000", "500000/1000000"]);
    assert_eq!(numbers(&plan), [10]);
}

/// One number for all routes of OR is exact; a gRPC client draws per route.
#[test]
fn conditions_of_or_draw_together() {
    let either =
        json!([sub_rule(30, json!([header("a", "1"), header("b", "1")]), &[1]), sub_rule(50, json!([]), &[1])]);
    let rule_either = rule(&either);
    let plan = planned(&rule_either, Dialect::Envoy);
    assert_eq!(fractions(&plan), ["30/100", "30/100", "5000/10000"]);
    assert!(plan.warnings.is_empty());
    let grpc = planned(&rule_either, Dialect::Grpc);
    assert_eq!(fractions(&grpc), ["30/100", "30/100", "50/100"]);
    assert_eq!(numbers(&grpc), [8]);
    let apart = json!([sub_rule(30, json!([header("a", "1"), header("a", "2")]), &[1])]);
    assert_eq!(numbers(&planned(&rule(&apart), Dialect::Grpc)), [] as [u8; 0]);
    let whole = json!([sub_rule(100, json!([header("a", "1"), header("b", "1")]), &[1])]);
    assert_eq!(numbers(&planned(&rule(&whole), Dialect::Grpc)), [] as [u8; 0]);
}

/// Weights, and their adjusted values within and after a fraction.
#[test]
fn weights_behind_a_fraction_have_no_factor_of_it() {
    let rows: [(&[u32], &[u32]); 6] = [
        (&[50, 50], &[5_000, 5_001]),
        (&[1, 2], &[1, 2]),
        (&[1, 2, 3], &[1_667, 3_334, 5_002]),
        (&[90, 10], &[9_001, 1_000]),
        (&[1], &[1]),
        (&[4_000_000_000, 4_000_000_000], &[1_000_000_000, 1_000_000_001]),
    ];
    for (weights, settled) in rows {
        let own = json!([sub_rule(30, json!([]), weights)]);
        let behind = json!([sub_rule(30, json!([]), &[1]), sub_rule(100, json!([]), weights)]);
        let alone = json!([sub_rule(100, json!([]), weights)]);
        for (sub_rules, is_settled) in [(own, true), (behind, true), (alone, false)] {
            let rule = rule(&sub_rules);
            for dialect in [Dialect::Envoy, Dialect::Grpc] {
                let plan = planned(&rule, dialect);
                let last = plan.routes.last().expect("a route");
                let mut found: Vec<u32> = last.groups.iter().map(|group| group.weight).collect();
                if is_settled && dialect == Dialect::Envoy {
                    let sum: u64 = found.iter().map(|weight| u64::from(*weight)).sum();
                    assert!(found.len() == 1 || (!sum.is_multiple_of(2) && !sum.is_multiple_of(5)), "{found:?}");
                    assert!(u32::try_from(sum).is_ok(), "{found:?}");
                    found.sort_unstable();
                    let mut settled = settled.to_vec();
                    settled.sort_unstable();
                    assert_eq!(found, settled);
                } else if weights.iter().all(|weight| *weight < 1_000) {
                    assert_eq!(found, weights, "{dialect:?}");
                }
            }
        }
    }
}
