//! Services: changes and queries.

use std::sync::Arc;

use imbl::OrdMap;

use super::Catalog;
use super::change::{Change, ChangeSet, Entity, Outcome};
use super::command::Op;
use super::ctx::Apply;
use super::index::list_index::{Indexed, ListIndex, TextFilter};
use super::index::names::{Names, in_place};
use super::index::set_digest::SetDigest;
use super::instances::{InstanceCounts, InstanceNeeds, Instances};
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::resource::{StoredResource, newest_first, resource};
use super::row::{Row, RowKey, Table};
use crate::model::code::{Code, Refusal};
use crate::model::grant::ReadScope;
use crate::model::service::{Service, ServiceDraft};
use crate::model::text::{NameFilter, names_owner};
use crate::model::time::Timestamp;

/// Columns of the texts that lists filter by.
const NAME: usize = 0;
const NAMESPACE: usize = 1;

impl Row for Service {
    const TABLE: Table = Table::Service;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.namespace).part(&self.name);
    }
}

impl Placed for Service {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.namespace, "", &self.name])
    }
}

impl Indexed for Service {
    type Key = str;

    const COLUMNS: usize = 2;

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
            NAME => tell(&self.name),
            _ => tell(&self.namespace),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Services {
    by_name: Names<Arc<Service>>,
    /// Digests by namespace.
    folds: OrdMap<Arc<str>, SetDigest>,
    all: ListIndex<Service>,
}

/// Filter of a list of services; an absent part matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceFilter {
    pub name: Option<NameFilter>,
    pub namespace: Option<NameFilter>,
    /// Part of the business, ignoring case.
    pub business: Option<String>,
    pub department: Option<String>,
    pub cmdb_mod1: Option<String>,
    pub cmdb_mod2: Option<String>,
    pub cmdb_mod3: Option<String>,
    /// One of the owners, who must match.
    pub owner: Option<String>,
    /// Pairs that must all be present.
    pub metadata: Vec<(String, String)>,
    /// Instances that the service must have.
    pub instances: InstanceNeeds,
    /// Services that the caller may see.
    pub read_scope: ReadScope,
}

impl ServiceFilter {
    fn matches(&self, service: &Service, instances: &Instances) -> bool {
        let equal = |wanted: &Option<String>, value: &String| wanted.as_ref().is_none_or(|wanted| wanted == value);
        NameFilter::passes(&self.name, &service.name)
            && NameFilter::passes(&self.namespace, &service.namespace)
            && self.business.as_ref().is_none_or(|part| service.business.to_lowercase().contains(&part.to_lowercase()))
            && equal(&self.department, &service.department)
            && equal(&self.cmdb_mod1, &service.cmdb_mod1)
            && equal(&self.cmdb_mod2, &service.cmdb_mod2)
            && equal(&self.cmdb_mod3, &service.cmdb_mod3)
            && names_owner(&service.owners, &self.owner)
            && self.metadata.iter().all(|(key, value)| service.metadata.get(key) == Some(value))
            && self.read_scope.sees(&service.namespace, &service.name)
            && instances.satisfy(&service.namespace, &service.name, &self.instances)
    }
}

impl Services {
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Service>> {
        self.by_name.get(namespace, name)
    }

    /// Returns the services of a namespace, or of all namespaces.
    pub fn all_in(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Service>> {
        self.by_name.values(namespace)
    }

    /// Returns a digest that changes with every change of a service in the namespace, or in any namespace.
    pub fn fold_of(&self, namespace: Option<&str>) -> SetDigest {
        match namespace {
            Some(namespace) => self.folds.get(namespace).copied().unwrap_or_default(),
            None => self.folds.values().copied().sum(),
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn count_in(&self, namespace: &str) -> usize {
        self.by_name.count_in(namespace)
    }

    /// Lists services, newest change first, then by id. A filter that names one service looks it up; one that names a
    /// small namespace walks only that namespace.
    pub fn list(&self, filter: &ServiceFilter, instances: &Instances, page: &Page) -> Listed<Arc<Service>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        let matches = |service: &Service| filter.matches(service, instances);
        match (&filter.namespace, &filter.name) {
            (Some(NameFilter::Exact(namespace)), Some(NameFilter::Exact(name))) => {
                let found = self.get(namespace, name);
                Listed::cut(found.into_iter().filter(|service| matches(service)), page)
            }
            (Some(NameFilter::Exact(namespace)), _) if self.is_small(namespace) => {
                let matching = self.all_in(Some(namespace)).filter(|service| matches(service)).collect();
                cut_sorted(matching, newest_first, page)
            }
            _ => {
                let rest = ServiceFilter { name: None, namespace: None, ..filter.clone() };
                let asks_more = rest != ServiceFilter::default();
                let listed = |page: &Page| {
                    let text_filters = TextFilter::all([(NAME, &filter.name), (NAMESPACE, &filter.namespace)]);
                    self.all.list(
                        &text_filters,
                        asks_more.then_some(|one: &Service| rest.matches(one, instances)),
                        page,
                    )
                };
                let onward = |[namespace, _, name, _]: ListKey<'_>| self.onward(&namespace, &name);
                Listed::ordered(page, &filter.namespace, listed, onward, |service| matches(service))
            }
        }
    }

    /// Returns the services by namespace and name, from this position on.
    pub(super) fn onward<'a>(
        &'a self,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = &'a Arc<Service>> + use<'a> {
        self.by_name.onward(namespace, name)
    }

    /// Returns the number of services, and of instances if the filter needs them, that [`Services::list`] walks at
    /// most.
    pub fn reach(&self, filter: &ServiceFilter, instances: &Instances, page: &Page) -> usize {
        if filter.read_scope.is_blind() {
            return 0;
        }
        let (services, of_them) = match (&filter.namespace, &filter.name) {
            (Some(NameFilter::Exact(namespace)), Some(NameFilter::Exact(name))) => {
                (1, instances.of_service(namespace, name))
            }
            (Some(NameFilter::Exact(namespace)), _) if self.is_small(namespace) => {
                (self.count_in(namespace), instances.of_namespace(namespace))
            }
            _ => (self.all.reach(*filter != ServiceFilter::default(), page), instances.counts()),
        };
        if filter.instances == InstanceNeeds::default() { services } else { services + of_them.total }
    }

    /// Reports whether walking the namespace is faster than searching the names of all services.
    fn is_small(&self, namespace: &str) -> bool {
        self.count_in(namespace) <= self.len() / 16
    }

    /// Finds the service of a draft: by namespace and name, or by id if it has neither.
    pub(super) fn named_by(&self, draft: &ServiceDraft) -> Option<Arc<Service>> {
        match (draft.given_id(), &draft.namespace, &draft.name) {
            (Some(id), None, None) => self.all.get(id).cloned(),
            (id, Some(namespace), Some(name)) => {
                self.get(namespace, name).filter(|service| id.is_none_or(|id| id == service.id)).cloned()
            }
            _ => None,
        }
    }

    fn insert(&mut self, service: Service, changes: &mut ChangeSet) -> Arc<Service> {
        changes.put(&service);
        changes.changed(Change::service(&service.namespace, &service.name));
        self.load(service)
    }

    fn remove(&mut self, service: &Arc<Service>, changes: &mut ChangeSet) {
        changes.delete(&**service);
        changes.changed(Change::service(&service.namespace, &service.name));
        self.all.remove(&service.id);
        self.unlink(service);
    }

    fn unlink(&mut self, service: &Arc<Service>) {
        self.by_name.remove(&service.namespace, &service.name);
        self.toggle(service);
        if !self.by_name.has_any_in(&service.namespace) {
            self.folds.remove(&*service.namespace);
        }
    }

    /// Adds a service to the digest of its namespace, or removes it.
    fn toggle(&mut self, service: &Service) {
        in_place(&mut self.folds, &service.namespace).toggle(SetDigest::of(&service.id, &service.revision));
    }

    pub(super) fn load(&mut self, service: Service) -> Arc<Service> {
        let service = Arc::new(service);
        match self.all.insert(service.clone()) {
            Some(old) if old.name == service.name && old.namespace == service.namespace => self.toggle(&old),
            Some(old) => self.unlink(&old),
            None => {}
        }
        self.toggle(&service);
        self.by_name.insert(&service.namespace, &service.name, service.clone());
        service
    }
}

impl Catalog {
    /// Returns the digest of a service and all its instances, which clients use as the revision of the list.
    pub fn fold_of_list(&self, namespace: &str, service: &str) -> Option<SetDigest> {
        let found = self.services.get(namespace, service)?;
        let folds = [SetDigest::of(&found.id, &found.revision), self.instances.fold(namespace, service)];
        Some(folds.into_iter().sum())
    }

    /// Counts the services of a namespace and their instances, as far as `read_scope` shows them.
    pub fn counts_in(&self, namespace: &str, read_scope: &ReadScope) -> (usize, InstanceCounts) {
        if read_scope.is_whole() {
            return (self.services.count_in(namespace), self.instances.of_namespace(namespace));
        }
        let seen = self.services.all_in(Some(namespace)).filter(|service| read_scope.sees(namespace, &service.name));
        seen.fold((0, InstanceCounts::default()), |(services, mut counts), service| {
            counts += self.instances.of_service(namespace, &service.name);
            (services + 1, counts)
        })
    }
}

impl Apply<'_> {
    /// Creates the service if it does not exist, for a registration. Refuses the name of an alias.
    pub(super) fn ensure_service(&mut self, namespace: &str, name: &str) -> Result<(), Refusal> {
        if self.catalog.services.get(namespace, name).is_some() {
            return Ok(());
        }
        if self.catalog.aliases.get(namespace, name).is_some() {
            return Err(Code::NotAllowAliasCreateInstance.into());
        }
        let (namespace, name) = (Some(namespace.to_owned()), Some(name.to_owned()));
        let draft = ServiceDraft { namespace, name, ..ServiceDraft::default() };
        self.write::<Service>(Op::Create, &draft);
        Ok(())
    }
}

impl StoredResource for Service {
    resource!(ServiceDraft => Entity::Service, mtime);

    fn order(&self) -> ListKey<'_> {
        place_of([&self.id])
    }

    fn find(catalog: &Catalog, op: Op, draft: &ServiceDraft) -> Option<Arc<Service>> {
        if op != Op::Create {
            return catalog.services.named_by(draft);
        }
        let taken = catalog.services.get(draft.namespace.as_ref()?, draft.name.as_ref()?);
        taken.or_else(|| catalog.services.all.get(draft.given_id()?)).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &ServiceDraft) -> Result<Service, Outcome> {
        let Apply { catalog, ctx, changes } = apply;
        let (Some(namespace), Some(name)) = (&draft.namespace, &draft.name) else {
            return Err(Code::InvalidServiceName.into());
        };
        if catalog.aliases.get(namespace, name).is_some() {
            return Err(Refusal::new(Code::ExistedResource, "an alias has this name").into());
        }
        catalog.namespaces.ensure(ctx, namespace, changes);
        let mut service = Service {
            id: draft.given_id().map_or_else(|| ctx.draw_id(), str::to_owned),
            name: name.clone(),
            namespace: namespace.clone(),
            token: ctx.draw_id(),
            ctime: ctx.time,
            ..Service::default()
        };
        service.stamp(ctx);
        draft.lay_over(&mut service);
        Ok(service)
    }

    fn put(apply: &mut Apply<'_>, service: Service) -> Arc<Service> {
        apply.catalog.services.insert(service, apply.changes)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<Service>) -> Result<(), Outcome> {
        let refused = |code: Code| Err(Outcome { entity: Entity::Service(old.clone()), ..code.into() });
        if apply.catalog.instances.of_service(&old.namespace, &old.name).total > 0 {
            return refused(Code::ServiceExistedInstances);
        }
        if apply.catalog.aliases.has_any_of(&old.namespace, &old.name) {
            return refused(Code::ServiceExistedAlias);
        }
        apply.catalog.services.remove(old, apply.changes);
        Ok(())
    }
}
