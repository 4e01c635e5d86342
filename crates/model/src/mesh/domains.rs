//! Domains by which proxies call a service or an alias.
//!
//! Proxies compare domains without regard to case, and refuse a configuration that contains one twice. A domain belongs
//! to the name that was created first by the log; among names of the same time to the first in order. Full domains,
//! which include the namespace, take precedence over short ones.

use std::collections::HashMap;

use super::warning::{ENVOY, Warning};
use crate::model::time::Timestamp;

/// Port of a domain that is valid for any port.
const ANY_PORT: &str = "*";

/// Name by which a service is called: its own or an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalledName<'a> {
    /// Creation time of the name.
    pub since: Timestamp,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl CalledName<'_> {
    /// Returns the domain that all proxies know.
    pub fn full(&self) -> String {
        format!("{}.{}", self.name, self.namespace)
    }

    /// Reports whether the host is that of the full domain.
    fn is_called(&self, host: &str) -> bool {
        split(host, self.namespace).is_some_and(|name| name.eq_ignore_ascii_case(self.name))
    }

    fn is_short_in(&self, namespace: Option<&str>) -> bool {
        namespace == Some(self.namespace)
    }
}

/// Returns the part of a full domain before its namespace, if it is in that namespace.
fn split<'d>(host: &'d str, namespace: &str) -> Option<&'d str> {
    let (name, behind) = host.split_at_checked(host.len().checked_sub(namespace.len() + 1)?)?;
    behind.strip_prefix('.')?.eq_ignore_ascii_case(namespace).then_some(name)
}

/// Returns the domains of each name in the configuration of a proxy of this namespace.
pub fn assign(names: &[CalledName<'_>], own_namespace: Option<&str>) -> Vec<Vec<String>> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|at| names[*at]);
    let mut taken = TakenDomains::default();
    let mut domains = vec![Vec::new(); names.len()];
    for at in &order {
        let full = names[*at].full();
        let any_port = format!("{full}:{ANY_PORT}");
        domains[*at].extend([full, any_port].into_iter().filter(|domain| taken.claim(*at, domain)));
    }
    for at in order.into_iter().filter(|at| names[*at].is_short_in(own_namespace)) {
        domains[at].extend(Some(names[at].name.to_owned()).filter(|domain| taken.claim(at, domain)));
    }
    domains
}

/// Owners by domain in lower case.
#[derive(Default)]
struct TakenDomains(HashMap<String, usize>);

impl TakenDomains {
    /// Assigns a domain to an owner, unless another one has it, or has its host with any port.
    fn claim(&mut self, owner: usize, domain: &str) -> bool {
        let domain = domain.to_ascii_lowercase();
        let has_port_of_another = domain.match_indices(':').any(|(at, colon)| {
            let any_port = format!("{}{colon}{ANY_PORT}", &domain[..at]);
            self.0.get(&any_port).is_some_and(|known| *known != owner)
        });
        if has_port_of_another || self.0.contains_key(&domain) {
            return false;
        }
        self.0.insert(domain, owner);
        true
    }
}

/// Returns the first name that takes the full domain of a new one, or its short one in its own namespace.
pub fn conflict<'a>(new: &CalledName<'_>, others: impl IntoIterator<Item = CalledName<'a>>) -> Option<CalledName<'a>> {
    let full = new.full();
    let is_before = |other: &CalledName<'_>| {
        let is_other = (other.namespace, other.name) != (new.namespace, new.name);
        let is_of_full = || other < new && hosts(&full).any(|host| other.is_called(host));
        is_other && (is_of_full() || hosts(new.name).any(|host| other.is_called(host)))
    };
    others.into_iter().find(is_before)
}

/// Returns the hosts in a domain: itself, and prefixes before a possible port.
fn hosts(domain: &str) -> impl Iterator<Item = &str> {
    domain.match_indices(':').map(|(at, _)| &domain[..at]).chain([domain])
}

/// Reports whether a name in this namespace may have one of the domains of `new`.
pub fn may_conflict(new: &CalledName<'_>, namespace: &str) -> bool {
    let is_there = |host: &str| split(host, namespace).is_some();
    hosts(&new.full()).any(is_there) || hosts(new.name).any(is_there)
}

/// Returns the warning on a name whose domain belongs to another one. `before` names that one if the reader may see it.
pub fn taken(new: &CalledName<'_>, before: Option<&CalledName<'_>>) -> Warning {
    let owner = before.map_or("another name".to_owned(), |name| format!("{}/{}", name.namespace, name.name));
    let text = format!(
        "{}/{}: a domain of it belongs to {owner}, as proxies compare domains without regard to case: they reach this \
         one by what is free",
        new.namespace, new.name
    );
    Warning::approximate(26, ENVOY, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name<'a>(since: u64, text: &'a str) -> CalledName<'a> {
        let (namespace, name) = text.split_once('/').expect("a namespace");
        CalledName { since: Timestamp(since), namespace, name }
    }

    /// Returns the domains of names that were created one after another, in the order of the names.
    fn assigned(names: &[&str], own_namespace: Option<&str>) -> Vec<String> {
        let mut all: Vec<_> = names.iter().zip(1..).map(|(text, since)| name(since, text)).collect();
        all.sort_by_key(|name| (name.namespace, name.name));
        let domains = assign(&all, own_namespace);
        let shown = all.iter().zip(domains);
        shown.map(|(name, domains)| format!("{}/{}: {}", name.namespace, name.name, domains.join(" "))).collect()
    }

    #[test]
    fn the_first_name_keeps_its_domains() {
        assert_eq!(assigned(&["shop/pay", "Shop/pay"], None), ["Shop/pay: ", "shop/pay: pay.shop pay.shop:*"]);
        assert_eq!(assigned(&["Shop/pay", "shop/pay"], None), ["Shop/pay: pay.Shop pay.Shop:*", "shop/pay: "]);
        assert_eq!(
            assigned(&["shop/api.pay", "pay.shop/api"], None),
            ["pay.shop/api: ", "shop/api.pay: api.pay.shop api.pay.shop:*"]
        );
        assert_eq!(
            assigned(&["shop/pay", "shop/PAY"], Some("shop")),
            ["shop/PAY: ", "shop/pay: pay.shop pay.shop:* pay"]
        );
    }

    #[test]
    fn a_full_domain_goes_before_a_short_one() {
        assert_eq!(
            assigned(&["web/pay.shop", "shop/pay"], Some("web")),
            ["shop/pay: pay.shop pay.shop:*", "web/pay.shop: pay.shop.web pay.shop.web:*"]
        );
    }

    #[test]
    fn a_port_in_a_name_takes_no_host() {
        assert_eq!(assigned(&["shop/pay", "shop:80/pay"], None), ["shop/pay: pay.shop pay.shop:*", "shop:80/pay: "]);
        assert_eq!(
            assigned(&["shop:80/pay", "shop/pay"], None),
            ["shop/pay: pay.shop pay.shop:*", "shop:80/pay: pay.shop:80 pay.shop:80:*"]
        );
    }

    #[test]
    fn names_of_one_moment_are_in_order() {
        let both = [name(1, "shop/PAY"), name(1, "shop/pay")];
        assert_eq!(assign(&both, None)[1], Vec::<String>::new());
        assert_eq!(conflict(&both[1], both), Some(both[0]));
        assert_eq!(conflict(&both[0], both), None);
    }

    #[test]
    fn a_new_name_is_told_of_the_one_before() {
        let old = [name(1, "shop/pay"), name(2, "shop/api.pay"), name(3, "other/x")];
        for (text, before) in [
            ("Shop/pay", Some("shop/pay")),
            ("pay.shop/api", Some("shop/api.pay")),
            ("web/pay.shop", Some("shop/pay")),
            ("shop:80/pay", Some("shop/pay")),
            ("shop/payments", None),
            ("web/pay", None),
        ] {
            let new = name(9, text);
            let near = old.iter().copied().filter(|old| may_conflict(&new, old.namespace));
            let found = conflict(&new, near).map(|found| format!("{}/{}", found.namespace, found.name));
            assert_eq!(found.as_deref(), before, "{text}");
        }
        assert_eq!(conflict(&name(0, "Shop/pay"), old), None, "it was there before");
    }
}
