//! Names whose resources may have changed.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::names::{self, ServiceName, federated};
use crate::model::mesh::resource::ResourceType;

/// Names of resources of one type that may be others than they were.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Prefix of their names.
    beginnings: Vec<String>,
}

impl Changed {
    pub(super) fn new(kind: ResourceType, services: BTreeSet<ServiceName>, authority: Option<Arc<str>>) -> Changed {
        let mut beginnings = Vec::new();
        for service in services {
            let name = service.to_string();
            beginnings.extend(authority.as_ref().map(|authority| federated(authority, kind, &name)));
            if kind == ResourceType::Cluster {
                beginnings.push(names::inbound(&service));
            }
            beginnings.push(name);
        }
        Changed { beginnings }
    }

    pub fn is_empty(&self) -> bool {
        self.beginnings.is_empty()
    }

    /// Those among a set of names.
    pub fn among<'a>(&self, names: &'a BTreeSet<Arc<str>>) -> impl Iterator<Item = &'a Arc<str>> {
        self.beginnings.iter().flat_map(move |beginning| {
            let behind = names.range::<str, _>((Bound::Included(beginning.as_str()), Bound::Unbounded));
            let begun = behind.take_while(move |name| name.starts_with(beginning.as_str()));
            begun.filter(move |name| is_ended(&name[beginning.len()..]))
        })
    }
}

/// True if the name of a service ends before what is left.
fn is_ended(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['|', '@', '?', '#']) || rest.starts_with("%7C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_service_are_found() {
        let under = |name: &str| federated("a", ResourceType::Cluster, name);
        let of_pay = ["inbound/shop/pay", "shop/pay", "shop/pay@eu//", "shop/pay|000102abcdef"].map(str::to_owned);
        let of_pay = of_pay.into_iter().chain([under("shop/pay"), under("shop/pay|000102abcdef")]);
        let others = ["shop/pa", "shop/pay2", "shop/pay-x|000102abcdef", "shop/payments"].map(str::to_owned);
        let wanted: BTreeSet<Arc<str>> = of_pay.map(Arc::from).collect();
        let all = wanted.iter().cloned().chain(others.into_iter().map(Arc::from)).collect();
        let services = [ServiceName::new("shop", "pay"), ServiceName::new("shop", "none")].into();
        let changed = Changed::new(ResourceType::Cluster, services, Some("a".into()));
        assert_eq!(changed.among(&all).cloned().collect::<BTreeSet<_>>(), wanted);
        assert!(Changed::default().is_empty());
    }
}
