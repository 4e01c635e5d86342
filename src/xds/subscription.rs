//! Subscription of a stream to one type, and the rules for changing it.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::names::{INBOUND, OUTBOUND};
use crate::model::mesh::resource::ResourceType;

/// Name that subscribes to all resources.
pub(super) const WILDCARD: &str = "*";

/// Subscription of a stream to one type.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    is_wildcard: bool,
    /// Set once names were given. From then on an empty list means nothing instead of everything.
    has_named: bool,
    names: BTreeSet<Arc<str>>, // bound: xds-names
    bytes: usize,
    /// Number of names that do not have the form `NAMESPACE/SERVICE` with an optional subset and locality.
    others: usize,
}

/// Reports whether a name has the form `NAMESPACE/SERVICE` with an optional suffix, without escapes.
fn is_of_service(name: &str) -> bool {
    let first = name.split_once('/').map(|(first, _)| first);
    first.is_some_and(|first| first != OUTBOUND && first != INBOUND && first != "xdstp:") && !name.contains('%')
}

/// Change of a subscription by a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Names that are new or were repeated.
    pub(super) added: Vec<Arc<str>>,
    /// Names that were removed.
    pub(super) dropped: Vec<Arc<str>>,
    /// Set if the wildcard was added.
    pub(super) is_all_added: bool,
    /// Set if the wildcard was removed.
    pub(super) is_all_dropped: bool,
}

impl Changed {
    /// Reports whether the subscription was extended.
    pub(super) fn is_wider(&self) -> bool {
        !self.added.is_empty() || self.is_all_added
    }

    pub(super) fn is_nothing(&self) -> bool {
        *self == Changed::default()
    }
}

impl Subscription {
    pub(super) fn is_wildcard(&self) -> bool {
        self.is_wildcard
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_wildcard && self.names.is_empty()
    }

    /// Returns the subscribed names, without the wildcard.
    pub(super) fn names(&self) -> &BTreeSet<Arc<str>> {
        &self.names
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Reports whether [`Subscription::has_service`] covers all names.
    pub(super) fn is_of_services(&self) -> bool {
        self.others == 0
    }

    /// Reports whether a name belongs to this service: the service itself, a subset, or its endpoints for a locality.
    pub(super) fn has_service(&self, service: &str) -> bool {
        let begins = |after: char| {
            let beginning = format!("{service}{after}");
            let mut from = self.names.range::<str, _>((Bound::Included(&*beginning), Bound::Unbounded));
            from.next().is_some_and(|name| name.starts_with(&beginning))
        };
        !self.names.is_empty() && (self.names.contains(service) || begins('|') || begins('@'))
    }

    /// Returns the bytes of all names.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Applies the list of a SotW request, which contains the whole subscription. `shared` returns a shared copy of a
    /// name.
    pub(super) fn replace(
        &mut self,
        kind: ResourceType,
        list: &[String],
        shared: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Changed {
        let is_all = kind.is_whole() && (list.iter().any(|name| name == WILDCARD) || self.means_all(list));
        self.has_named |= !list.is_empty();
        let wanted = list.iter().filter(|name| !kind.is_whole() || *name != WILDCARD);
        let mut added = Vec::new();
        let retained = wanted.map(|name| {
            self.names.get(name.as_str()).cloned().unwrap_or_else(|| {
                let name = shared(name).unwrap_or_else(|| name.as_str().into());
                added.push(name.clone());
                name
            })
        });
        let names: BTreeSet<Arc<str>> = retained.collect();
        added.sort_unstable();
        added.dedup();
        let dropped = self.names.difference(&names).cloned().collect();
        let changed = Changed {
            added,
            dropped,
            is_all_added: is_all && !self.is_wildcard,
            is_all_dropped: self.is_wildcard && !is_all,
        };
        self.is_wildcard = is_all;
        self.names = names;
        self.bytes = self.names.iter().map(|name| name.len()).sum();
        self.others = self.names.iter().filter(|name| !is_of_service(name)).count();
        changed
    }

    /// Applies the two lists of a delta request, which add and remove names.
    pub(super) fn change(
        &mut self,
        kind: ResourceType,
        is_first: bool,
        subscribe: &[String],
        unsubscribe: &[String],
        shared: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Changed {
        let mut changed = Changed::default();
        let was_wildcard = self.is_wildcard;
        if is_first && kind.is_whole() && subscribe.is_empty() {
            self.is_wildcard = true;
        }
        for name in subscribe {
            if kind.is_whole() && name == WILDCARD {
                self.is_wildcard = true;
                continue;
            }
            let known = self.names.get(name.as_str()).cloned();
            let name = known.or_else(|| shared(name)).unwrap_or_else(|| name.as_str().into());
            if self.names.insert(name.clone()) {
                self.bytes += name.len();
                self.others += usize::from(!is_of_service(&name));
            }
            changed.added.push(name);
        }
        for name in unsubscribe {
            if kind.is_whole() && name == WILDCARD {
                self.is_wildcard = false;
            } else if let Some(name) = self.names.take(name.as_str()) {
                self.bytes -= name.len();
                self.others -= usize::from(!is_of_service(&name));
                changed.dropped.push(name);
            }
        }
        changed.added.retain(|name| self.names.contains(name));
        changed.is_all_added = self.is_wildcard && !was_wildcard;
        changed.is_all_dropped = was_wildcard && !self.is_wildcard;
        changed
    }

    fn means_all(&self, list: &[String]) -> bool {
        list.is_empty() && !self.has_named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CDS: ResourceType = ResourceType::Cluster;
    const EDS: ResourceType = ResourceType::Endpoints;

    fn strings(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn names_of(subscription: &Subscription) -> String {
        let mut told: Vec<&str> = subscription.is_wildcard().then_some("ALL").into_iter().collect();
        told.extend(subscription.names().iter().map(|name| &**name));
        told.join(" ")
    }

    /// Lists of consecutive SotW requests, with the subscription after each.
    #[test]
    fn a_list_of_sotw_has_all_names() {
        let rows: [(ResourceType, &[(&str, &str)]); 8] = [
            (CDS, &[("", "ALL"), ("", "ALL"), ("a", "a"), ("", "")]),
            (CDS, &[("a b", "a b"), ("", ""), ("", "")]),
            (CDS, &[("* a", "ALL a"), ("a", "a"), ("*", "ALL"), ("", "")]),
            (CDS, &[("*", "ALL"), ("* a", "ALL a"), ("*", "ALL")]),
            (EDS, &[("", ""), ("a", "a"), ("", "")]),
            (EDS, &[("b a a", "a b"), ("c b", "b c")]),
            (EDS, &[("*", "*")]),
            (ResourceType::Listener, &[("", "ALL"), ("x *", "ALL x")]),
        ];
        for (kind, lists) in rows {
            let mut subscription = Subscription::default();
            for (list, after) in lists {
                subscription.replace(kind, &strings(list), |_| None);
                assert_eq!(names_of(&subscription), *after, "{kind:?} {lists:?}");
                let bytes = subscription.names().iter().map(|name| name.len()).sum::<usize>();
                assert_eq!(subscription.bytes(), bytes);
            }
        }
    }

    #[test]
    fn differences_of_sotw_are_told() {
        let mut subscription = Subscription::default();
        let changed = subscription.replace(CDS, &[], |_| None);
        assert!(changed.is_all_added && changed.is_wider());
        assert!(subscription.replace(CDS, &[], |_| None).is_nothing());
        let changed = subscription.replace(CDS, &strings("b a a"), |_| None);
        assert_eq!((changed.added, changed.is_all_dropped), (vec!["a".into(), "b".into()], true));
        let changed = subscription.replace(CDS, &strings("b c"), |_| None);
        assert_eq!((changed.added, changed.dropped), (vec!["c".into()], vec!["a".into()]));
    }

    /// Consecutive delta requests, with the subscription after each.
    #[test]
    fn lists_of_delta_add_and_remove() {
        type Row<'a> = (ResourceType, &'a [(&'a str, &'a str, &'a str)]);
        let rows: [Row<'_>; 7] = [
            (CDS, &[("", "", "ALL"), ("a", "", "ALL a"), ("", "a", "ALL"), ("", "*", "")]),
            (CDS, &[("* a", "", "ALL a"), ("", "*", "a"), ("", "", "a")]),
            (CDS, &[("a", "", "a"), ("", "a", ""), ("", "", "")]),
            (CDS, &[("a", "", "a"), ("*", "", "ALL a")]),
            (EDS, &[("", "", ""), ("a b", "", "a b"), ("a", "b", "a")]),
            (EDS, &[("a", "a", "")]),
            (EDS, &[("", "b", "")]),
        ];
        for (kind, requests) in rows {
            let mut subscription = Subscription::default();
            for (number, (subscribe, unsubscribe, after)) in requests.iter().enumerate() {
                subscription.change(kind, number == 0, &strings(subscribe), &strings(unsubscribe), |_| None);
                assert_eq!(names_of(&subscription), *after, "{kind:?} {requests:?}");
                let bytes = subscription.names().iter().map(|name| name.len()).sum::<usize>();
                assert_eq!(subscription.bytes(), bytes);
            }
        }
    }

    #[test]
    fn services_are_found_by_the_beginning_of_names() {
        let mut subscription = Subscription::default();
        let names = "shop/pay@a/b/c shop/pay-2 shop/pay.x|0123456789ab shop/stock|0123456789ab@a shop/mail";
        subscription.replace(EDS, &strings(names), |_| None);
        let rows =
            [("shop/pay", true), ("shop/pay-2", true), ("shop/pay.x", true), ("shop/stock", true), ("shop/mail", true)];
        for (service, is_there) in
            rows.into_iter().chain([("shop/pa", false), ("shop/pay.", false), ("shop/sto", false)])
        {
            assert_eq!(subscription.has_service(service), is_there, "{service}");
        }
        assert!(subscription.is_of_services());
        for other in ["outbound/shop", "inbound/shop/pay", "plain", "xdstp://a/b", "a%2Fb/c"] {
            subscription.change(EDS, false, &strings(other), &[], |_| None);
            assert!(!subscription.is_of_services(), "{other}");
            subscription.change(EDS, false, &[], &strings(other), |_| None);
            assert!(subscription.is_of_services(), "{other}");
        }
    }

    #[test]
    fn a_name_asked_for_again_counts_as_added() {
        let mut subscription = Subscription::default();
        subscription.change(EDS, true, &strings("a"), &[], |_| None);
        let changed = subscription.change(EDS, false, &strings("a"), &strings("b"), |_| None);
        assert_eq!(changed, Changed { added: vec!["a".into()], ..Changed::default() });
    }
}
