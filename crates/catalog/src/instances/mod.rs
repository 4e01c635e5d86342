//! Instances: the book and its queries.
//!
//! Counts and revisions per service are updated with every change, so that service lists and checks for changes cost
//! the same for one instance and for thousands.

mod changes;

use std::collections::HashSet;
use std::ops::{AddAssign, Bound, SubAssign};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::change::ChangeSet;
use super::index::list_index::{Indexed, ListIndex, TextFilter};
use super::index::names::{Names, in_place};
use super::index::set_digest::SetDigest;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::resource::newest_first;
use super::row::{Row, RowKey, Table};
use crate::model::grant::ReadScope;
use crate::model::instance::Instance;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;

/// Columns of the texts that lists filter by.
const HOST: usize = 0;
const SERVICE: usize = 1;
const NAMESPACE: usize = 2;

impl Row for Instance {
    const TABLE: Table = Table::Instance;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.id);
    }
}

impl Indexed for Instance {
    type Key = str;

    const COLUMNS: usize = 3;

    fn key(&self) -> &str {
        &self.id
    }

    fn shared_key(&self) -> Arc<str> {
        self.id.as_str().into()
    }

    fn mtime(&self) -> Timestamp {
        self.mtime
    }

    fn texts(&self, column: usize, tell: &mut dyn FnMut(&str)) {
        match column {
            HOST => tell(&self.host),
            SERVICE => tell(&self.service),
            _ => tell(&self.namespace),
        }
    }
}

/// Number of instances, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstanceCounts {
    pub total: usize,
    /// Instances that clients may call: healthy and not isolated.
    pub healthy: usize,
    pub isolated: usize,
}

impl InstanceCounts {
    fn of(instance: &Instance) -> Self {
        InstanceCounts {
            total: 1,
            healthy: usize::from(instance.healthy && !instance.isolate),
            isolated: usize::from(instance.isolate),
        }
    }
}

impl AddAssign for InstanceCounts {
    fn add_assign(&mut self, more: Self) {
        self.total += more.total;
        self.healthy += more.healthy;
        self.isolated += more.isolated;
    }
}

impl SubAssign for InstanceCounts {
    fn sub_assign(&mut self, less: Self) {
        self.total -= less.total;
        self.healthy -= less.healthy;
        self.isolated -= less.isolated;
    }
}

/// Largest number of hosts in a filter that is searched for in the text columns.
const HOSTS_SEARCHED_MAX: usize = 8;

/// Instances of one service.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfService {
    by_id: OrdMap<Arc<str>, Arc<Instance>>,
    counts: InstanceCounts,
    fold: SetDigest,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instances {
    all: ListIndex<Instance>,
    /// Instances by service; only services that have any.
    by_service: Names<OfService>,
    /// Ids of instances by host.
    by_host: OrdMap<Arc<str>, OrdSet<Arc<str>>>,
    /// Counts by namespace; only namespaces that have instances.
    of_namespace: OrdMap<Arc<str>, InstanceCounts>,
    counts: InstanceCounts,
}

/// Filter of a list of instances; an absent or empty part matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceFilter {
    pub id: Option<String>,
    pub namespace: Option<NameFilter>,
    pub service: Option<NameFilter>,
    pub vpc_id: Option<String>,
    /// Hosts, of which any matches.
    pub hosts: HashSet<String>,
    /// Ports, of which any matches.
    pub ports: HashSet<u16>,
    pub protocol: Option<String>,
    pub version: Option<String>,
    pub logic_set: Option<String>,
    pub region: Option<String>,
    pub zone: Option<String>,
    pub campus: Option<String>,
    pub healthy: Option<bool>,
    pub isolate: Option<bool>,
    pub priority: Option<u32>,
    pub weight: Option<u32>,
    /// Pairs that must all be present.
    pub metadata: Vec<(String, String)>,
    /// Services that the caller may see.
    pub read_scope: ReadScope,
}

impl Placed for Instance {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.namespace, "", &self.service, &self.id])
    }
}

impl InstanceFilter {
    fn matches(&self, instance: &Instance) -> bool {
        self.read_scope.sees(&instance.namespace, &instance.service)
            && NameFilter::passes(&self.namespace, &instance.namespace)
            && NameFilter::passes(&self.service, &instance.service)
            && wants(&self.id, &instance.id)
            && wants(&self.vpc_id, &instance.vpc_id)
            && (self.hosts.is_empty() || self.hosts.contains(&instance.host))
            && (self.ports.is_empty() || self.ports.contains(&instance.port))
            && wants(&self.protocol, &instance.protocol)
            && wants(&self.version, &instance.version)
            && wants(&self.logic_set, &instance.logic_set)
            && wants(&self.region, &instance.location.region)
            && wants(&self.zone, &instance.location.zone)
            && wants(&self.campus, &instance.location.campus)
            && wants(&self.healthy, &instance.healthy)
            && wants(&self.isolate, &instance.isolate)
            && wants(&self.priority, &instance.priority)
            && wants(&self.weight, &instance.weight)
            && self.metadata.iter().all(|(key, value)| instance.metadata.get(key) == Some(value))
    }
}

fn wants<T: PartialEq>(wanted: &Option<T>, value: &T) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted == value)
}

/// Instances that a service must have; each part may be satisfied by another instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceNeeds {
    /// Hosts, on any of which there must be an instance.
    pub hosts: HashSet<String>,
    /// Ports, at any of which there must be an instance.
    pub ports: HashSet<u16>,
    /// Pairs that one instance must have, all of them.
    pub metadata: Vec<(String, NameFilter)>,
    /// True to require an instance that clients may call.
    pub callable: bool,
}

impl Instances {
    pub fn get(&self, id: &str) -> Option<&Arc<Instance>> {
        self.all.get(id)
    }

    /// Returns the counts of all services.
    pub fn counts(&self) -> InstanceCounts {
        self.counts
    }

    pub fn of_service(&self, namespace: &str, service: &str) -> InstanceCounts {
        self.service(namespace, service).map(|service| service.counts).unwrap_or_default()
    }

    pub fn of_namespace(&self, namespace: &str) -> InstanceCounts {
        self.of_namespace.get(namespace).copied().unwrap_or_default()
    }

    /// Returns the digest of a service's instances, which changes with every change of one of them.
    pub fn fold(&self, namespace: &str, service: &str) -> SetDigest {
        self.service(namespace, service).map(|service| service.fold).unwrap_or_default()
    }

    /// Returns the instances of a service, by id.
    pub fn all_of(&self, namespace: &str, service: &str) -> impl Iterator<Item = &Arc<Instance>> {
        self.service(namespace, service).into_iter().flat_map(|service| service.by_id.values())
    }

    /// Returns the instances on a host, by id.
    pub fn on_host(&self, host: &str) -> impl Iterator<Item = &Arc<Instance>> {
        self.by_host.get(host).into_iter().flatten().filter_map(|id| self.all.get(id))
    }

    /// Returns the instances after `after`, by id.
    pub fn behind(&self, after: &str) -> impl Iterator<Item = &Arc<Instance>> {
        self.all.behind(after)
    }

    /// Returns the instances by namespace, service and id, from this position on.
    fn onward<'a>(
        &'a self,
        namespace: &str,
        service: &str,
        id: &str,
    ) -> impl Iterator<Item = &'a Arc<Instance>> + use<'a> {
        let here = self.service(namespace, service);
        let of_this = here.map(|here| here.by_id.range::<_, str>((Bound::Included(id), Bound::Unbounded)));
        let all = self.by_service.onward(namespace, service).skip(usize::from(here.is_some()));
        of_this.into_iter().flatten().map(|(_, one)| one).chain(all.flat_map(|service| service.by_id.values()))
    }

    /// Lists instances, newest change first, then by id. A filter that names one instance looks it up; one that names a
    /// service walks only that service.
    pub fn list(&self, filter: &InstanceFilter, page: &Page) -> Listed<Arc<Instance>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        let matches = |instance: &&Arc<Instance>| filter.matches(instance);
        match (&filter.id, &filter.namespace, &filter.service) {
            (Some(id), _, _) => Listed::cut(self.all.get(id).into_iter().filter(matches), page),
            (None, Some(NameFilter::Exact(namespace)), Some(NameFilter::Exact(service))) => {
                cut_sorted(self.all_of(namespace, service).filter(matches).collect(), newest_first, page)
            }
            _ => {
                // Each searched text is another walk over all texts; for many hosts, a set look-up is faster.
                let few_hosts = filter.hosts.len() <= HOSTS_SEARCHED_MAX;
                let searched = filter.hosts.iter().filter(|_| few_hosts);
                let hosts: Vec<_> = searched.cloned().map(NameFilter::Exact).collect();
                let mut text_filters = TextFilter::all([(SERVICE, &filter.service), (NAMESPACE, &filter.namespace)]);
                text_filters.extend((!hosts.is_empty()).then(|| TextFilter::new(HOST, &hosts)));
                let mut rest = InstanceFilter { service: None, namespace: None, ..filter.clone() };
                if few_hosts {
                    rest.hosts.clear();
                }
                let asks_more = rest != InstanceFilter::default();
                let listed = |page: &Page| {
                    self.all.list(&text_filters, asks_more.then_some(|one: &Instance| rest.matches(one)), page)
                };
                let onward = |[namespace, _, service, id]: ListKey<'_>| self.onward(&namespace, &service, &id);
                Listed::ordered(page, &filter.namespace, listed, onward, |one| filter.matches(one))
            }
        }
    }

    /// Returns the number of instances that [`Instances::list`] walks at most.
    pub fn reach(&self, filter: &InstanceFilter, page: &Page) -> usize {
        if filter.read_scope.is_blind() {
            return 0;
        }
        match (&filter.id, &filter.namespace, &filter.service) {
            (Some(_), _, _) => 1,
            (None, Some(NameFilter::Exact(namespace)), Some(NameFilter::Exact(service))) => {
                self.of_service(namespace, service).total
            }
            _ => self.all.reach(*filter != InstanceFilter::default(), page),
        }
    }

    pub(super) fn satisfy(&self, namespace: &str, service: &str, needs: &InstanceNeeds) -> bool {
        let any = |has: &dyn Fn(&Instance) -> bool| self.all_of(namespace, service).any(|instance| has(instance));
        let has_pairs = |instance: &Instance| {
            let has =
                |(key, value): &(String, NameFilter)| instance.metadata.get(key).is_some_and(|is| value.matches(is));
            needs.metadata.iter().all(has)
        };
        (needs.hosts.is_empty() || any(&|instance| needs.hosts.contains(&instance.host)))
            && (needs.ports.is_empty() || any(&|instance| needs.ports.contains(&instance.port)))
            && (needs.metadata.is_empty() || any(&has_pairs))
            && (!needs.callable || self.of_service(namespace, service).healthy > 0)
    }

    fn service(&self, namespace: &str, service: &str) -> Option<&OfService> {
        self.by_service.get(namespace, service)
    }

    pub(super) fn insert(&mut self, instance: Instance, changes: &mut ChangeSet) -> Arc<Instance> {
        changes.put(&instance);
        self.load(instance)
    }

    pub(super) fn remove(&mut self, instance: &Instance, changes: &mut ChangeSet) {
        changes.delete(instance);
        self.unlink(instance);
    }

    fn unlink(&mut self, instance: &Instance) {
        self.all.remove(&instance.id);
        let on_host = in_place(&mut self.by_host, &instance.host);
        on_host.remove(instance.id.as_str());
        if on_host.is_empty() {
            self.by_host.remove(instance.host.as_str());
        }
        let (namespace, service) = (instance.namespace.as_str(), instance.service.as_str());
        let (left, counts) = (self.by_service.or_default(namespace, service), InstanceCounts::of(instance));
        left.by_id.remove(instance.id.as_str());
        left.counts -= counts;
        left.fold.toggle(SetDigest::of(&instance.id, &instance.revision));
        if left.by_id.is_empty() {
            self.by_service.remove(namespace, service);
        }
        *in_place(&mut self.of_namespace, namespace) -= counts;
        if !self.by_service.has_any_in(namespace) {
            self.of_namespace.remove(namespace);
        }
        self.counts -= counts;
    }

    pub(super) fn load(&mut self, instance: Instance) -> Arc<Instance> {
        if let Some(old) = self.all.get(&instance.id).cloned() {
            self.unlink(&old);
        }
        let instance = Arc::new(instance);
        self.all.insert(instance.clone());
        in_place(&mut self.by_host, &instance.host).insert(instance.id.as_str().into());
        let (namespace, counts) = (instance.namespace.as_str(), InstanceCounts::of(&instance));
        let service = self.by_service.or_default(namespace, &instance.service);
        service.counts += counts;
        service.fold.toggle(SetDigest::of(&instance.id, &instance.revision));
        service.by_id.insert(instance.id.as_str().into(), instance.clone());
        *in_place(&mut self.of_namespace, namespace) += counts;
        self.counts += counts;
        instance
    }
}
