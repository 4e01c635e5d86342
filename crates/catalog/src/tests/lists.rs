//! Lists return what their filter matches, whichever index they use.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::instances::instance;
use super::*;
use crate::catalog::configs::GroupFilter;
use crate::catalog::instances::InstanceFilter;
use crate::catalog::page::Listed;
use crate::model::grant::{Grants, ReadScope, Verb};

fn filters() -> Vec<Option<NameFilter>> {
    let texts = ["pay-7", "PAY-7", "*7*", "pay*", "*1", "*"].map(|text| Some(NameFilter::parse(text)));
    [None].into_iter().chain(texts).collect()
}

/// Returns forty services in a large namespace, and one in each of two small ones, with an instance each.
fn bench() -> Bench {
    let mut bench = Bench::default();
    for number in 0..42 {
        let namespace = match number {
            0 => "small",
            1 => "SMALL",
            _ => "Large",
        };
        let name = if number % 2 == 0 { format!("Pay-{number}") } else { format!("pay-{number}") };
        let host = format!("host-{}", number % 3);
        let made = Command::Instances(Op::Create, vec![instance(namespace, &name, &host, 80)]);
        assert_eq!(bench.codes(made), [200000]);
    }
    bench
}

#[test]
fn services_are_listed_alike_whether_a_namespace_is_walked_or_searched() {
    let catalog = bench().catalog;
    let list = |filter: &ServiceFilter, page: &Page| catalog.services.list(filter, &catalog.instances, page);
    let all = list(&ServiceFilter::default(), &Page::ALL).rows;
    let namespaces = ["small", "Large", "large", "*all", "S*"].map(|text| Some(NameFilter::parse(text)));
    for namespace in namespaces.into_iter().chain([None]) {
        for name in filters() {
            let filter = ServiceFilter { name: name.clone(), namespace: namespace.clone(), ..ServiceFilter::default() };
            let is_wanted = |service: &&Arc<Service>| {
                NameFilter::passes(&name, &service.name) && NameFilter::passes(&namespace, &service.namespace)
            };
            let expected: Vec<_> = all.iter().filter(is_wanted).cloned().collect();
            assert_eq!(list(&filter, &Page::ALL).rows, expected, "{filter:?}");
            let page = list(&filter, &Page::new(3, 2));
            assert_eq!(page.amount, expected.len(), "{filter:?}");
            assert!(page.rows.iter().eq(expected.iter().skip(3).take(2)), "{filter:?}");
        }
    }
}

#[test]
fn instances_are_listed_by_any_of_several_hosts() {
    let catalog = bench().catalog;
    let all = catalog.instances.list(&InstanceFilter::default(), &Page::ALL).rows;
    assert_eq!(all.len(), 42);
    let many = (1..50).map(|number| format!("host-{number}")).collect::<Vec<_>>();
    let some = [&[][..], &["host-1"], &["host-2", "host-0"], &["HOST-1"]];
    let some = some.map(|hosts| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>());
    for hosts in some.into_iter().chain([many]) {
        let hosts: HashSet<_> = hosts.into_iter().collect();
        for service in filters() {
            let filter = InstanceFilter { hosts: hosts.clone(), service: service.clone(), ..InstanceFilter::default() };
            let is_wanted = |instance: &&Arc<Instance>| {
                (hosts.is_empty() || hosts.contains(&instance.host)) && NameFilter::passes(&service, &instance.service)
            };
            let listed = catalog.instances.list(&filter, &Page::ALL);
            assert!(listed.rows.iter().eq(all.iter().filter(is_wanted)), "{filter:?}");
            assert_eq!(listed.amount, listed.rows.len(), "{filter:?}");
        }
    }
}

/// Services and groups are searched alike.
#[test]
fn a_business_is_found_by_a_part_of_it_in_either_case() {
    let mut bench = Bench::default();
    for (name, business) in [("a", "Checkout"), ("b", "checking"), ("c", "Stock"), ("d", "")] {
        let service = ServiceDraft { business: Some(business.into()), ..service("n", name) };
        let group = ConfigGroupDraft {
            namespace: "n".into(),
            name: name.into(),
            business: Some(business.into()),
            ..ConfigGroupDraft::default()
        };
        assert_eq!(bench.codes(Command::Services(Op::Create, vec![service])), [200000]);
        assert_eq!(bench.codes(Command::ConfigGroups(Op::Create, vec![group])), [200000]);
    }
    let catalog = &bench.catalog;
    for (part, expected) in [("check", "ab"), ("CHECK", "ab"), ("out", "a"), ("k", "abc"), ("Checkouts", "")] {
        let filter = ServiceFilter { business: Some(part.into()), ..ServiceFilter::default() };
        let services = catalog.services.list(&filter, &catalog.instances, &Page::ALL).rows;
        let mut services: Vec<_> = services.iter().map(|service| service.name.clone()).collect();
        let filter = GroupFilter { business: Some(part.into()), ..GroupFilter::default() };
        let groups = catalog.configs.list_groups(&filter, &Page::ALL).rows;
        let mut groups: Vec<_> = groups.iter().map(|group| group.name.clone()).collect();
        services.sort();
        groups.sort();
        assert_eq!((services.concat(), groups.concat()), (expected.into(), expected.into()), "{part}");
    }
}

/// A caller that may see nothing gets empty lists, without a walk.
#[test]
fn who_sees_nothing_is_answered_without_a_walk() {
    let catalog = bench().catalog;
    let read_scope = || ReadScope::new(&Grants::default(), &[Verb::Read]);
    let page = Page::new(0, 10);
    let instances = InstanceFilter { ports: [80].into(), read_scope: read_scope(), ..InstanceFilter::default() };
    assert_eq!(catalog.instances.list(&instances, &page), Listed::default());
    assert_eq!(catalog.instances.reach(&instances, &page), 0);
    let services = ServiceFilter { read_scope: read_scope(), ..ServiceFilter::default() };
    assert_eq!(catalog.services.list(&services, &catalog.instances, &page), Listed::default());
    assert_eq!(catalog.services.reach(&services, &catalog.instances, &page), 0);
    assert!(catalog.instances.reach(&InstanceFilter { read_scope: ReadScope::Everything, ..instances }, &page) > 0);
}

/// A cancelled walk stops, and no other walk does.
#[test]
fn a_walk_that_is_abandoned_stops() {
    let catalog = bench().catalog;
    let amount = || catalog.instances.list(&InstanceFilter::default(), &Page::ALL).amount;
    let flag = |is_set| Arc::new(AtomicBool::new(is_set));
    assert_eq!((abandoned::walk(flag(false), amount), abandoned::walk(flag(true), amount), amount()), (42, 0, 42));
}
