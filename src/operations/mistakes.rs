//! Warnings on what is probably a mistake of a rule's author: services that no client asks for by that name, two
//! callees, and a probe that outlasts its interval.

use std::collections::BTreeSet;

use crate::catalog::Catalog;
use crate::model::grant::ReadScope;
use crate::model::rule::matching::ALL;
use crate::model::rule::{Body, End, EndRole, Rule};

/// Returns the probable mistakes of a rule. A service that the caller does not see counts as missing.
pub(super) fn mistakes(catalog: &Catalog, rule: &Rule, read_scope: &ReadScope) -> Vec<String> {
    let (mut named, mut callees, mut found) = (BTreeSet::new(), Vec::new(), Vec::new());
    rule.each_role(&mut |role, namespace, service| {
        let end = End { namespace: namespace.to_owned(), service: service.to_owned() };
        if role == EndRole::Callee && !callees.contains(&end) {
            callees.push(end.clone());
        }
        if namespace != ALL && service != ALL && named.insert((end.namespace.clone(), end.service.clone())) {
            found.extend(unreached(catalog, role, &end, read_scope));
        }
    });
    if let [one, other, ..] = &callees[..] {
        found.push(format!("the rule names two services, {one:?} and {other:?}, and applies to both"));
    }
    if let Body::FaultDetect(body) = &rule.body {
        let slow = body.probes().into_iter().filter(|(_, probe)| probe.is_slower_than_its_interval());
        found.extend(slow.map(|(place, probe)| {
            let (timeout, interval) = (probe.timeout.0, probe.interval.0);
            format!(
                "{place}: the timeout of {timeout} s is longer than the interval of {interval} s: both are in seconds"
            )
        }));
    }
    found
}

/// Returns the warning on a service by whose name no client gets the rule. A caller need not be registered.
fn unreached(catalog: &Catalog, role: EndRole, end: &End, read_scope: &ReadScope) -> Option<String> {
    let End { namespace, service } = end;
    let sees = |namespace: &str, service: &str| read_scope.sees(namespace, service);
    if sees(namespace, service) {
        if catalog.services.get(namespace, service).is_some() {
            return None;
        }
        if let Some(alias) = catalog.aliases.get(namespace, service) {
            let what = format!("service {end:?} is an alias");
            return Some(match sees(&alias.namespace, &alias.service) {
                true => {
                    let (namespace, service) = (&alias.namespace, &alias.service);
                    format!("{what}, which rules do not follow: name {namespace}/{service}")
                }
                false => format!("{what}, which rules do not follow: name its service"),
            });
        }
    }
    let is_caller = matches!(role, EndRole::Caller | EndRole::AnyCaller);
    (!is_caller).then(|| format!("service {end:?} is not registered"))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed;
    use serde_json::{Value, json};

    use super::*;
    use crate::catalog::testing::Bench;
    use crate::catalog::{Command, Op};
    use crate::model::grant::{Grant, Grants, Role, Verb};
    use crate::model::rule::{Family, RuleDraft, RuleHead};

    /// A namespace `shop` with the services `pay` and `stock`, and the alias `till` of `pay`.
    fn shop() -> Bench {
        let mut bench = Bench::founded();
        let services = json!([{"namespace": "shop", "name": "pay"}, {"namespace": "shop", "name": "stock"}]);
        let services = serde_json::from_value(services).expect("drafts");
        assert_eq!(bench.codes(Command::Services(Op::Create, services)), [200_000, 200_000]);
        let alias = json!([{"namespace": "shop", "service": "pay", "alias": "till", "alias_namespace": "shop"}]);
        let alias = serde_json::from_value(alias).expect("a draft");
        assert_eq!(bench.codes(Command::Aliases(Op::Create, alias)), [200_000]);
        bench
    }

    fn warned(bench: &mut Bench, family: Family, body: Value, read_scope: &ReadScope) -> Vec<String> {
        let body = DeserializeSeed::deserialize(family, body).expect("a body");
        let name = format!("r{}", bench.index);
        let head = RuleHead { name: Some(name.clone()), namespace: Some("shop".into()), ..RuleHead::default() };
        assert_eq!(bench.codes(Command::Rules(Op::Create, vec![RuleDraft { head, body }])), [200_000]);
        let rule = bench.catalog.rules.of(family).named("shop", &name).expect("saved");
        mistakes(&bench.catalog, rule, read_scope)
    }

    #[test]
    fn services_that_no_client_asks_for_are_named() {
        let mut bench = shop();
        let route = |config: Value| (Family::Routing, json!({ "routing_config": config }));
        let breaker = |from: &str, to: &str| {
            let ends = json!({"source": {"namespace": "shop", "service": from},
                "destination": {"namespace": "shop", "service": to}});
            (Family::CircuitBreaker, json!({ "rule_matcher": ends }))
        };
        let to = |service: &str, transfer: &str| json!([{"service": service, "transfer": transfer}]);
        let missing = |service: &str| format!("service {service} is not registered");
        let alias = "service shop/till is an alias, which rules do not follow: name shop/pay".to_owned();
        let rows = [
            (Family::RateLimit, json!({"service": "pay"}), vec![]),
            (Family::RateLimit, json!({}), vec![]),
            (Family::RateLimit, json!({"service": "*"}), vec![]),
            (Family::RateLimit, json!({"service": "pya"}), vec![missing("shop/pya")]),
            (Family::RateLimit, json!({"service": "till"}), vec![alias.clone()]),
            (Family::RateLimit, json!({"callee": {"namespace": "sohp", "service": "pay"}}), vec![missing("sohp/pay")]),
            (Family::FaultDetect, json!({"target_service": {"service": "pya"}}), vec![missing("shop/pya")]),
            (Family::FaultDetect, json!({"target_service": {"namespace": "*", "service": "*"}}), vec![]),
        ];
        let of_pay = json!({"callee": {"service": "pay"}, "caller": {"service": "nobody"},
            "rules": [{"destinations": to("stock", "")}, {"destinations": to("stcok", "tsock")}]});
        let ((routing, transfers), (_, of_caller)) = (route(of_pay), route(json!({"caller": {"service": "till"}})));
        let ((breaking, open), (_, to_alias)) = (breaker("*", "pay"), breaker("nobody", "till"));
        let rows = rows.into_iter().chain([
            (routing, transfers, vec![missing("shop/stcok"), missing("shop/tsock")]),
            (routing, of_caller, vec![alias.clone()]),
            (breaking, open, vec![]),
            (breaking, to_alias, vec![alias]),
        ]);
        for (family, body, expected) in rows {
            assert_eq!(warned(&mut bench, family, body.clone(), &ReadScope::Everything), expected, "{body}");
        }
        let grant = Grant { role: Role::Reader, namespace: "shop".into(), name: "till".into() };
        let narrow = ReadScope::new(&Grants::new([grant]), &[Verb::Read]);
        let words = warned(&mut bench, Family::RateLimit, json!({"service": "till"}), &narrow);
        assert_eq!(words, ["service shop/till is an alias, which rules do not follow: name its service"]);
        let words = warned(&mut bench, Family::RateLimit, json!({"service": "pay"}), &narrow);
        assert_eq!(words, ["service shop/pay is not registered"], "what is not seen is missing");
    }

    #[test]
    fn a_second_callee_is_named() {
        let mut bench = shop();
        let both = "the rule names two services, shop/stock and shop/pay, and applies to both";
        let rows = [
            (Family::RateLimit, json!({"callee": {"service": "stock"}, "service": "pay"}), &[both][..]),
            (Family::RateLimit, json!({"callee": {"service": "pay", "namespace": "shop"}, "service": "pay"}), &[]),
            (Family::FaultDetect, json!({"target_service": {"service": "stock"}, "service": "pay"}), &[both]),
        ];
        for (family, body, expected) in rows {
            assert_eq!(warned(&mut bench, family, body.clone(), &ReadScope::Everything), expected, "{body}");
        }
    }

    #[test]
    fn a_timeout_in_milliseconds_is_noticed() {
        let mut bench = shop();
        let too_long = |place: &str| {
            format!("{place}: the timeout of 1000 s is longer than the interval of 30 s: both are in seconds")
        };
        let rows = [
            (json!({"rules": [{"interval": 30, "timeout": 30}, {"timeout": 1000}]}), vec![]),
            (
                json!({"rules": [{}, {"interval": 30, "timeout": 1000}], "interval": 30, "timeout": 1000}),
                vec![too_long("rules[1]"), too_long("the probe of the rule itself")],
            ),
        ];
        for (mut body, expected) in rows {
            body["service"] = json!("pay");
            assert_eq!(
                warned(&mut bench, Family::FaultDetect, body.clone(), &ReadScope::Everything),
                expected,
                "{body}"
            );
        }
    }

    /// A new rule in an editor needs only its names.
    #[test]
    fn a_blank_rule_has_no_mistake() {
        let mut bench = shop();
        for family in Family::LISTED {
            let blank = format!("{{{}}}", family.blank()).replace(r#""service": """#, r#""service": "pay""#);
            let body: Value = serde_json::from_str(&blank).expect("members of an object");
            assert_eq!(warned(&mut bench, family, body, &ReadScope::Everything), [""; 0], "{blank}");
        }
    }
}
