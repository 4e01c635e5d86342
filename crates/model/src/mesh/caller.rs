//! Conditions on the caller of a service, evaluated for a client.

use std::net::IpAddr;

use super::plan::CallerCondition;
use crate::model::rule::matchers::Matchers;
use crate::model::rule::matching::{ALL, MatchString};
use crate::model::rule::traffic::ServiceKey;

/// Known properties of a client that calls services.
pub trait CallerFacts {
    /// Returns the service of which the client is an instance.
    fn service(&self) -> Option<&ServiceKey>;

    fn address(&self) -> Option<IpAddr>;

    fn label(&self, key: &str) -> Option<&str>;
}

impl CallerCondition<'_> {
    /// Evaluates the condition as an explanation does for a request from this caller, with expressions from `matchers`.
    pub fn holds(&self, caller: &dyn CallerFacts, matchers: &Matchers) -> bool {
        let meets = |condition: Option<&MatchString>, value: Option<&str>| {
            let holds =
                |condition: &MatchString, value: &str| condition.is_open() || matchers.matches(condition, value);
            value.is_some_and(|value| condition.is_none_or(|condition| holds(condition, value)))
        };
        match self {
            CallerCondition::Is { end, is_met_by_unknown } => match caller.service() {
                Some(service) => end.covers(&service.namespace, &service.service),
                None => *is_met_by_unknown,
            },
            CallerCondition::Service { namespace, condition } => {
                let is_there = |service: &&ServiceKey| {
                    namespace.is_empty() || *namespace == ALL || *namespace == service.namespace
                };
                meets(*condition, caller.service().filter(is_there).map(|service| service.service.as_str()))
            }
            CallerCondition::Ip(condition) => {
                let address = caller.address().map(|address| address.to_canonical().to_string());
                meets(*condition, address.as_deref())
            }
            CallerCondition::Metadata { key, condition } => meets(*condition, caller.label(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rule::End;
    use crate::model::rule::matching::MatchType;

    struct Caller {
        service: Option<ServiceKey>,
        address: Option<IpAddr>,
    }

    impl CallerFacts for Caller {
        fn service(&self) -> Option<&ServiceKey> {
            self.service.as_ref()
        }

        fn address(&self) -> Option<IpAddr> {
            self.address
        }

        fn label(&self, key: &str) -> Option<&str> {
            (key == "env").then_some("gray")
        }
    }

    fn is(namespace: &str, service: &str) -> CallerCondition<'static> {
        let end = End { namespace: namespace.into(), service: service.into() };
        CallerCondition::Is { end, is_met_by_unknown: namespace == "shop" && service == ALL }
    }

    fn equal(value: &str) -> MatchString {
        MatchString { kind: MatchType::Exact, value: value.into(), ..MatchString::default() }
    }

    #[test]
    fn a_caller_is_judged_by_what_is_known_of_it() {
        let (web, gray, address) = (equal("web"), equal("gray"), equal("10.0.0.1"));
        let service = |namespace| CallerCondition::Service { namespace, condition: Some(&web) };
        let label = |key, condition| CallerCondition::Metadata { key, condition };
        let known = Caller {
            service: Some(ServiceKey { namespace: "shop".into(), service: "web".into() }),
            address: "::ffff:10.0.0.1".parse().ok(),
        };
        let unknown = Caller { service: None, address: None };
        let rows = [
            (is("shop", "web"), true, false),
            (is("shop", "*"), true, true),
            (is("pay", "*"), false, false),
            (service(""), true, false),
            (service("*"), true, false),
            (service("shop"), true, false),
            (service("pay"), false, false),
            (CallerCondition::Service { namespace: "", condition: None }, true, false),
            (CallerCondition::Ip(Some(&address)), true, false),
            (CallerCondition::Ip(Some(&gray)), false, false),
            (CallerCondition::Ip(None), true, false),
            (label("env", Some(&gray)), true, true),
            (label("env", Some(&web)), false, false),
            (label("zone", None), false, false),
        ];
        let matchers = Matchers::default();
        for (condition, by_known, by_unknown) in rows {
            assert_eq!(condition.holds(&known, &matchers), by_known, "{condition:?}");
            assert_eq!(condition.holds(&unknown, &matchers), by_unknown, "{condition:?}");
        }
    }
}
