//! Warnings on names and instances: parts of them that clients of xDS do not get.

use std::collections::BTreeMap;

use super::{Caller, Operations};
use crate::catalog::{Catalog, Entity, Outcome};
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::mesh::domains::{self, CalledName};
use crate::model::mesh::reached::Reached;
use crate::model::mesh::warning::Warning;
use crate::model::time::Timestamp;

/// Condition for showing the warnings W1 to W25, on what clients of xDS do not carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdsWarnings {
    /// Shown if such a client was seen in the namespace within the last day.
    WhereSeen,
    /// Requested by the caller.
    Always,
}

impl XdsWarnings {
    /// Reports whether warnings are due for something in one of these namespaces.
    pub(super) fn are_due<'a>(
        self,
        catalog: &Catalog,
        now: Timestamp,
        namespaces: impl IntoIterator<Item = &'a str>,
    ) -> bool {
        let mut namespaces = namespaces.into_iter();
        self == XdsWarnings::Always || namespaces.any(|namespace| catalog.xds_marks.was_seen(namespace, now))
    }
}

/// Limit for the names compared for the warnings of one request; [`Operations::explain`] reports those of each service.
const COMPARED_MAX: usize = 100_000;

impl Operations {
    /// Warns of created services and aliases whose domain belongs to another name.
    pub fn advice_on_names(&self, caller: &Caller, outcomes: &[Outcome]) -> Vec<Vec<String>> {
        let (view, read_scope) = (self.node().state().view(), caller.read_scope());
        let mut left = COMPARED_MAX;
        let mut advice = |outcome: &Outcome| {
            let name = created(&outcome.entity).filter(|_| outcome.code.is_success())?;
            domain_taken(&view, &name, &read_scope, &mut left)
        };
        outcomes.iter().map(|outcome| advice(outcome).iter().map(ToString::to_string).collect()).collect()
    }

    /// Warns of registered or changed instances. Services with very many instances are left out:
    /// [`Operations::explain`] reports theirs.
    pub fn advice_on_instances(&self, outcomes: &[Outcome], due: XdsWarnings) -> Vec<Vec<String>> {
        let (view, now) = (self.node().state().view(), self.node().now());
        let mut services: BTreeMap<(&str, &str), Option<Reached>> = BTreeMap::new();
        let mut all = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            let mut warnings = Vec::new();
            if let Entity::Instance(instance) = &outcome.entity {
                let service = (instance.namespace.as_str(), instance.service.as_str());
                let are_due = || due.are_due(&view, now, [service.0]);
                let reached = || are_due().then(|| reached(&view, service.0, service.1)).flatten();
                let reached = services.entry(service).or_insert_with(reached);
                warnings = reached.as_ref().map(|reached| reached.warnings_on(instance)).unwrap_or_default();
            }
            all.push(warnings.iter().map(ToString::to_string).collect());
        }
        all
    }
}

fn reached(catalog: &Catalog, namespace: &str, service: &str) -> Option<Reached> {
    let is_small = catalog.instances.of_service(namespace, service).total <= limits::SCAN_INLINE_MAX;
    is_small.then(|| Reached::of(catalog.instances.all_of(namespace, service).map(|instance| &**instance)))
}

/// Returns the warnings on a service, its instances and its domain; none if the caller does not see it.
pub(super) fn on_service(catalog: &Catalog, namespace: &str, name: &str, read_scope: &ReadScope) -> Vec<String> {
    if !read_scope.sees(namespace, name) {
        return Vec::new();
    }
    let instances = || catalog.instances.all_of(namespace, name).map(|instance| &**instance);
    let mut warnings = Reached::of(instances()).warnings(instances());
    if let Some(service) = catalog.services.get(namespace, name) {
        let called = CalledName { since: service.ctime, namespace, name };
        warnings.extend(domain_taken(catalog, &called, read_scope, &mut COMPARED_MAX.clone()));
    }
    warnings.iter().map(ToString::to_string).collect()
}

fn created(entity: &Entity) -> Option<CalledName<'_>> {
    match entity {
        Entity::Service(service) => {
            Some(CalledName { since: service.ctime, namespace: &service.namespace, name: &service.name })
        }
        Entity::Alias(alias) => {
            Some(CalledName { since: alias.ctime, namespace: &alias.alias_namespace, name: &alias.alias })
        }
        _ => None,
    }
}

/// Returns the warning on a name whose domain belongs to another name. Compares at most `left` names.
fn domain_taken(catalog: &Catalog, new: &CalledName<'_>, read_scope: &ReadScope, left: &mut usize) -> Option<Warning> {
    let namespaces: Vec<&str> = catalog.namespaces.all().map(|one| one.name.as_str()).collect();
    *left = left.saturating_sub(namespaces.len());
    let near = namespaces.into_iter().filter(|namespace| domains::may_conflict(new, namespace));
    let names = near.flat_map(|namespace| names_in(catalog, namespace)).take(*left).inspect(|_| *left -= 1);
    let before = domains::conflict(new, names)?;
    Some(domains::taken(new, Some(&before).filter(|name| read_scope.sees(name.namespace, name.name))))
}

fn names_in<'a>(catalog: &'a Catalog, namespace: &'a str) -> impl Iterator<Item = CalledName<'a>> {
    let services = catalog.services.all_in(Some(namespace));
    let services = services.map(|one| CalledName { since: one.ctime, namespace: &one.namespace, name: &one.name });
    let aliases = catalog.aliases.all_in(Some(namespace));
    services.chain(aliases.map(|one| CalledName {
        since: one.ctime,
        namespace: &one.alias_namespace,
        name: &one.alias,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::testing::Bench;
    use crate::catalog::{Command, Op};

    #[test]
    fn a_name_whose_domain_is_taken_is_told_of_it() {
        let mut bench = Bench::founded();
        let mut create = |namespace: &str, name: &str| {
            let item = json!([{ "namespace": namespace, "name": name }]);
            let drafts = serde_json::from_value(item).expect("drafts");
            assert_eq!(bench.codes(Command::Services(Op::Create, drafts)), [200_000]);
        };
        create("shop", "pay");
        create("Shop", "pay");
        let all = ReadScope::Everything;
        let told = on_service(&bench.catalog, "Shop", "pay", &all);
        assert!(
            told.len() == 1 && told[0].starts_with("W26: Shop/pay: a domain of it belongs to shop/pay"),
            "{told:?}"
        );
        assert_eq!(on_service(&bench.catalog, "shop", "pay", &all), [""; 0]);
    }
}
