//! Effect of a rule: the services whose calls it changes, which may differ from those in its name. The author of a rule
//! or release needs rights on these services too.

use std::fmt;

use super::matching::ALL;
use super::shape::{End, EndRole};
use super::{Body, Rule};
use crate::model::grant::ReadScope;

/// Services on whose calls a rule acts, by their role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Called services.
    callees: Vec<End>,
    /// Calling services, including `*/*` if the rule names it.
    callers: Vec<End>,
    /// Services to which calls are routed, other than the callees.
    others: Vec<End>,
}

impl Effect {
    fn of(body: &Body, namespace: &str) -> Effect {
        let mut effect = Effect::default();
        body.shape().each_end(&mut |side, of, service| {
            let Some(end) = End::of(of, service, namespace) else { return };
            match side {
                EndRole::Callee => effect.callees.push(end),
                EndRole::Caller | EndRole::AnyCaller if of.is_empty() && service == ALL => {
                    effect.callers.push(End::every())
                }
                EndRole::Caller | EndRole::AnyCaller => effect.callers.push(end),
                EndRole::Destination | EndRole::Transfer => effect.others.push(end),
            }
        });
        let Effect { callees, callers, others } = &mut effect;
        others.retain(|other| !callees.contains(other));
        for ends in [callees, callers, others] {
            ends.sort();
            ends.dedup();
        }
        effect
    }

    /// Adds the services to which ends refer as aliases.
    pub fn behind(mut self, target: impl Fn(&End) -> Option<End>) -> Effect {
        for ends in [&mut self.callees, &mut self.callers, &mut self.others] {
            let targets: Vec<_> = ends.iter().filter_map(&target).filter(|end| !ends.contains(end)).collect();
            ends.extend(targets);
        }
        self
    }

    /// Returns the first end on which the author lacks the right. A rule acts on calls to its callees, so the right on
    /// all callees suffices for any callers. If it names callers it acts only on their calls, so the right on all of
    /// them suffices as well. Without a callee it acts on all calls of its callers.
    pub fn refused_at(&self, may: impl Fn(&End) -> bool) -> Option<&End> {
        let may_not = |ends: &'_ [End]| ends.iter().position(|end| !may(end));
        let is_named = |end: &&End| **end != End::every();
        let named: Vec<&End> = self.callers.iter().filter(is_named).collect();
        let at_callers = if !self.callees.is_empty() {
            let may_at_named = !named.is_empty() && named.iter().all(|end| may(end));
            if may_at_named { None } else { may_not(&self.callees).map(|at| &self.callees[at]) }
        } else if named.is_empty() && !self.others.is_empty() {
            None
        } else {
            self.callers.iter().filter(|end| named.is_empty() || is_named(end)).find(|end| !may(end))
        };
        at_callers.or_else(|| may_not(&self.others).map(|at| &self.others[at]))
    }

    /// Returns every end that the rule affects; unnamed callers are omitted if there are other ends.
    pub fn ends(&self) -> impl Iterator<Item = &End> {
        let is_alone = self.callees.is_empty() && self.others.is_empty();
        let callers = self.callers.iter().filter(move |end| is_alone || **end != End::every());
        self.callees.iter().chain(callers).chain(&self.others)
    }
}

/// Formats the distinct services for display.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends: std::collections::BTreeSet<_> = self.ends().collect();
        let words: Vec<_> = ends.into_iter().map(|end| format!("{end:?}")).collect();
        f.write_str(&words.join(", "))
    }
}

impl Rule {
    /// Returns the services on whose calls the rule acts.
    pub fn effect(&self) -> Effect {
        Effect::of(&self.body, &self.namespace)
    }

    /// Reports whether a reader may see the rule, by its name or by a service that it affects.
    pub fn is_seen_by(&self, read_scope: &ReadScope) -> bool {
        read_scope.sees(&self.namespace, &self.name) || self.is_felt_by(read_scope)
    }

    /// Reports whether it affects a service that the reader sees.
    pub fn is_felt_by(&self, read_scope: &ReadScope) -> bool {
        self.effect().ends().any(|end| read_scope.touches(&end.namespace, &end.service))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed;
    use serde_json::{Value, json};

    use super::*;
    use crate::model::rule::Family;

    fn effect(family: Family, fields: &Value) -> Effect {
        let patch = family.deserialize(fields).expect("fields of the family");
        let mut body = family.body();
        patch.lay_over(&mut body);
        Effect::of(&body, "dev")
    }

    /// Services that each kind of rule affects, and refusals of a caller with rights only in `dev`.
    #[test]
    fn a_rule_acts_on_calls() {
        let key = |namespace: &str, service: &str| json!({ "namespace": namespace, "service": service });
        let route = |mut config: Value, destinations: Value| {
            config["rules"] = json!([{ "name": "r", "destinations": destinations }]);
            json!({ "route_policy": "RulePolicy", "routing_config": config })
        };
        let breaker = |source: Value, destination: Value| {
            let matcher = json!({ "source": source, "destination": destination });
            json!({ "rule_matcher": matcher })
        };
        let every = || key("*", "*");
        let to = |namespace: &str| json!([key(namespace, "pay")]);
        let nearby = |config: Value| json!({ "route_policy": "NearbyPolicy", "routing_config": config });
        let limit = json!({ "callee": key("dev", "pay"), "cluster": key("prod", "limits") });
        let open_caller = breaker(json!({ "service": "*" }), key("prod", "pay"));
        let called = json!({ "callee": key("dev", "pay") });
        let of_caller = json!({ "callee": key("prod", "pay"), "caller": key("dev", "web") });
        let transfer = json!([{ "namespace": "prod", "transfer": "bin" }]);
        let from_prod = json!({ "caller": key("prod", "web") });
        #[rustfmt::skip]
        let rows = [
            (Family::RateLimit, json!({}), "dev/*", None),
            (Family::RateLimit, json!({ "service": "pay" }), "dev/pay", None),
            (Family::RateLimit, json!({ "callee": key("prod", "pay") }), "prod/pay", Some("prod/pay")),
            (Family::RateLimit, json!({ "callee": every() }), "*/*", Some("*/*")),
            (Family::RateLimit, limit, "dev/pay", None),
            (Family::FaultDetect, json!({ "target_service": key("", "pay") }), "dev/pay", None),
            (Family::FaultDetect, json!({ "target_service": key("prod", "*") }), "prod/*", Some("prod/*")),
            (Family::FaultDetect, json!({}), "", None),
            (Family::CircuitBreaker, breaker(every(), key("dev", "pay")), "dev/pay", None),
            (Family::CircuitBreaker, breaker(key("prod", "web"), key("dev", "pay")), "dev/pay, prod/web", None),
            (Family::CircuitBreaker, breaker(key("dev", "web"), key("prod", "pay")), "dev/web, prod/pay", None),
            (Family::CircuitBreaker, breaker(key("dev", "*"), key("prod", "pay")), "dev/*, prod/pay", None),
            (Family::CircuitBreaker, open_caller, "prod/pay", Some("prod/pay")),
            (Family::CircuitBreaker, breaker(every(), key("prod", "pay")), "prod/pay", Some("prod/pay")),
            (Family::CircuitBreaker, breaker(every(), json!({})), "*/*", Some("*/*")),
            (Family::Routing, route(called.clone(), to("dev")), "dev/pay", None),
            (Family::Routing, route(called.clone(), to("prod")), "dev/pay, prod/pay", Some("prod/pay")),
            (Family::Routing, route(of_caller, to("prod")), "dev/web, prod/pay", None),
            (Family::Routing, route(called, transfer), "dev/pay, prod/bin", Some("prod/bin")),
            (Family::Routing, route(json!({ "caller": every() }), to("dev")), "dev/pay", None),
            (Family::Routing, route(from_prod, to("dev")), "dev/pay, prod/web", Some("prod/web")),
            (Family::Routing, route(json!({ "caller": every() }), json!([])), "*/*", Some("*/*")),
            (Family::Routing, nearby(json!({ "service": "*" })), "dev/*", None),
            (Family::Routing, nearby(json!({ "service": "*", "namespace": "*" })), "*/*", Some("*/*")),
        ];
        for (family, fields, acts_on, refused) in rows {
            let effect = effect(family, &fields);
            assert_eq!(effect.to_string(), acts_on, "{family:?} {fields}");
            let at = effect.refused_at(|end| end.namespace == "dev").map(|end| format!("{end:?}"));
            assert_eq!(at.as_deref(), refused, "{family:?} {fields}");
            assert_eq!(effect.refused_at(|_| true), None, "{fields}");
        }
    }

    #[test]
    fn an_alias_is_judged_at_its_target_too() {
        let fields = json!({ "callee": { "namespace": "dev", "service": "short" } });
        let end = |namespace: &str, service: &str| End { namespace: namespace.to_owned(), service: service.to_owned() };
        let target = |of: &End| (*of == end("dev", "short")).then(|| end("prod", "pay"));
        let effect = effect(Family::RateLimit, &fields).behind(target);
        assert_eq!(effect.refused_at(|end| end.namespace == "dev"), Some(&end("prod", "pay")));
    }
}
