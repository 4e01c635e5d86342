//! Values that a form offers: services and labels that exist.

use std::collections::BTreeMap;

use crate::catalog::Catalog;
use crate::model::grant::ReadScope;
use crate::model::rule::Rule;

const SERVICES_MAX: usize = 500;
const INSTANCES_MAX: usize = 2000;
const LABELS_MAX: usize = 50;
const VALUES_MAX: usize = 200;

/// Offered values, each with a number of instances or a remark.
#[derive(Default)]
pub(super) struct Offers {
    pub(super) namespaces: Vec<String>,
    pub(super) services: Vec<(String, usize)>,
    pub(super) labels: Vec<(String, usize)>,
    /// Values with their label and their number of instances.
    pub(super) values: Vec<(String, String, usize)>,
}

impl Offers {
    /// Collects the services of the rule's namespaces, and the labels of the instances of those that it calls.
    pub(super) fn of(catalog: &Catalog, read_scope: &ReadScope, namespace: &str, rule: Option<&Rule>) -> Offers {
        let ends = rule.map(Rule::called_ends).unwrap_or_default();
        let mut namespaces: Vec<&str> = ends.iter().map(|end| end.namespace.as_str()).chain([namespace]).collect();
        namespaces.retain(|name| !name.is_empty());
        namespaces.sort_unstable();
        namespaces.dedup();
        let all = namespaces.iter().flat_map(|namespace| catalog.services.all_in(Some(namespace)));
        let seen = all.filter(|service| read_scope.sees(&service.namespace, &service.name));
        let count = |namespace: &str, name: &str| catalog.instances.of_service(namespace, name).total;
        let mut services: Vec<_> = seen
            .take(SERVICES_MAX)
            .map(|service| (service.name.clone(), count(&service.namespace, &service.name)))
            .collect();
        services.sort();
        let mut tally: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new(); // bound: bodies
        let called = ends.iter().filter(|end| read_scope.sees(&end.namespace, &end.service));
        let instances = called.flat_map(|end| catalog.instances.all_of(&end.namespace, &end.service));
        for instance in instances.take(INSTANCES_MAX) {
            for (key, value) in &instance.metadata {
                *tally.entry(key).or_default().entry(value).or_default() += 1;
            }
        }
        let labels = tally.iter().take(LABELS_MAX);
        let values = labels.clone().flat_map(|(key, values)| {
            values.iter().map(|(value, number)| ((*value).to_owned(), (*key).to_owned(), *number))
        });
        Offers {
            namespaces: Vec::new(),
            services,
            values: values.take(VALUES_MAX).collect(),
            labels: labels.map(|(key, values)| ((*key).to_owned(), values.values().sum())).collect(),
        }
    }
}
