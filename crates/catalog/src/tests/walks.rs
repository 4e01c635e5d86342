//! A walk by key, page by page, with changes between the pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::properties::some_command;
use super::*;
use crate::catalog::access_keys::AccessKeyFilter;
use crate::catalog::configs::{FileFilter, GroupFilter};
use crate::catalog::instances::InstanceFilter;
use crate::catalog::namespaces::NamespaceFilter;
use crate::catalog::page::{After, Listed, Placed};
use crate::catalog::rules::{ReleaseFilter, RuleFilter};
use crate::model::rule::Family;
use crate::model::service::Service;

/// Names of the rows of a page, and where it ended.
type Paged = (Vec<String>, Option<After>);
type List = fn(&Catalog, &Page) -> Paged;

fn called<T: Placed>(listed: Listed<T>) -> Paged {
    (listed.rows.iter().map(|row| row.place().join("\n")).collect(), listed.after)
}

fn services(filter: &ServiceFilter, catalog: &Catalog, page: &Page) -> Paged {
    called(catalog.services.list(filter, &catalog.instances, page))
}

fn instances(filter: &InstanceFilter, catalog: &Catalog, page: &Page) -> Paged {
    called(catalog.instances.list(filter, page))
}

fn exact(text: &str) -> Option<NameFilter> {
    Some(NameFilter::Exact(text.to_owned()))
}

/// Every way to find a list.
const LISTS: [List; 16] = [
    |catalog, page| called(catalog.namespaces.list(&NamespaceFilter::default(), page)),
    |catalog, page| services(&ServiceFilter::default(), catalog, page),
    |catalog, page| services(&ServiceFilter { namespace: exact("b"), ..ServiceFilter::default() }, catalog, page),
    |catalog, page| {
        let name = Some(NameFilter::parse("*c*"));
        services(&ServiceFilter { name, ..ServiceFilter::default() }, catalog, page)
    },
    |catalog, page| called(catalog.aliases.list(&AliasFilter::default(), page)),
    |catalog, page| {
        called(catalog.aliases.list(&AliasFilter { alias_namespace: exact("a"), ..AliasFilter::default() }, page))
    },
    |catalog, page| instances(&InstanceFilter::default(), catalog, page),
    |catalog, page| instances(&InstanceFilter { namespace: exact("c"), ..InstanceFilter::default() }, catalog, page),
    |catalog, page| {
        let filter = InstanceFilter { namespace: exact("a"), service: exact("b"), ..InstanceFilter::default() };
        instances(&filter, catalog, page)
    },
    |catalog, page| called(catalog.rules.of(Family::RateLimit).list(&RuleFilter::default(), page)),
    |catalog, page| called(catalog.rules.of(Family::RateLimit).list_releases(&ReleaseFilter::default(), page)),
    |catalog, page| called(catalog.configs.list_groups(&GroupFilter::default(), page)),
    |catalog, page| called(catalog.configs.list_files(&FileFilter::default(), page)),
    |catalog, page| {
        called(catalog.configs.list_files(&FileFilter { content: Some("k".into()), ..FileFilter::default() }, page))
    },
    |catalog, page| called(catalog.configs.list_releases(&FileFilter::default(), page)),
    |catalog, page| called(catalog.access_keys.list(&AccessKeyFilter { app_id: None, name: None }, page)),
];

proptest! {
    #![proptest_config(crate::test_seed::cases(256))]

    #[test]
    fn what_stays_is_on_one_page_by_key_and_nothing_is_on_two(
        before in prop::collection::vec(some_command(), 20..80),
        beside in prop::collection::vec(prop::collection::vec(some_command(), 0..6), 0..40),
        limit in 1..4_usize,
    ) {
        for list in LISTS {
            let mut bench = Bench::default();
            before.iter().for_each(|command| drop(bench.apply(command.clone())));
            let whole = |bench: &Bench| list(&bench.catalog, &Page::ALL).0.into_iter().collect::<BTreeSet<_>>();
            let (mut stayed, mut seen, mut after) = (whole(&bench), Vec::new(), None);
            let mut beside = beside.iter();
            loop {
                let (rows, end) = list(&bench.catalog, &Page::first(limit).by_key(after));
                prop_assert_eq!(end.is_some(), rows.len() == limit);
                seen.extend(rows);
                let Some(end) = end else { break };
                after = After::read(&end.text());
                beside.next().into_iter().flatten().for_each(|command| drop(bench.apply(command.clone())));
                let whole = whole(&bench);
                stayed.retain(|row| whole.contains(row));
            }
            prop_assert!(seen.is_sorted_by(|one, other| one < other), "in order, none twice: {:?}", seen);
            let seen: BTreeSet<_> = seen.into_iter().collect();
            prop_assert!(stayed.is_subset(&seen), "{:?} without {:?}", seen, stayed);
        }
    }
}

/// A page by key costs only its own rows, at any position: no row before or after it is read.
#[test]
fn a_page_by_key_looks_at_its_own_rows_alone() {
    let mut bench = Bench::default();
    for part in 0..20 {
        let many = (0..100).map(|number| service("n", &format!("s{:04}", part * 100 + number))).collect();
        bench.apply(Command::Services(Op::Create, many));
    }
    let looked_at = std::cell::Cell::new(0);
    let page = Page::first(100).by_key(None);
    let is_wanted = |_: &Arc<Service>| {
        looked_at.set(looked_at.get() + 1);
        true
    };
    let onward = bench.catalog.services.onward("n", "s1500");
    let listed = Listed::walked(2000, onward, &None, is_wanted, &page);
    assert_eq!((listed.rows.len(), looked_at.get(), listed.rows[0].name.as_str()), (100, 100, "s1500"));
    let rest = bench.catalog.services.list(
        &ServiceFilter::default(),
        &bench.catalog.instances,
        &Page::first(100).by_key(listed.after),
    );
    assert_eq!((rest.amount, rest.rows[0].name.as_str(), rest.rows.len()), (2000, "s1600", 100));
}
