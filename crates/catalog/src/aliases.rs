//! Service aliases: changes and queries. Aliases and services of a namespace share one space of names. An alias of an
//! alias is refused, and so is the deletion of a service with aliases.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Catalog;
use super::change::{Change, ChangeSet, Entity, Outcome};
use super::command::Op;
use super::index::list_index::{Indexed, ListIndex, TextFilter};
use super::index::names::Names;
use super::page::{ListKey, Listed, Page, Placed, place_of};
use super::resource::{StoredResource, resource};
use super::row::{Row, RowKey, Table};
use crate::catalog::ctx::Apply;
use crate::model::alias::{AliasDraft, AliasType, ServiceAlias};
use crate::model::code::{Code, Refusal};
use crate::model::grant::ReadScope;
use crate::model::text::{NameFilter, names_owner};
use crate::model::time::Timestamp;

/// Namespaces that support Cl5 names, with the number that such a name contains.
const CL5_LAYOUTS: [(&str, u32); 6] =
    [("Production", 1), ("Development", 2), ("Pre-release", 3), ("Test", 4), ("Polaris", 5), ("default", 6)];

/// Columns of the texts that lists filter by.
const ALIAS: usize = 0;
const ALIAS_NAMESPACE: usize = 1;
const SERVICE: usize = 2;
const NAMESPACE: usize = 3;

impl Row for ServiceAlias {
    const TABLE: Table = Table::Alias;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.alias_namespace).part(&self.alias);
    }
}

impl Indexed for ServiceAlias {
    type Key = str;

    const COLUMNS: usize = 4;

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
            ALIAS => tell(&self.alias),
            ALIAS_NAMESPACE => tell(&self.alias_namespace),
            SERVICE => tell(&self.service),
            _ => tell(&self.namespace),
        }
    }
}

/// Counters of generated names: a command number within an interface within a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cl5Counter {
    module: u32,
    interface: u32,
    range: u32,
}

impl Default for Cl5Counter {
    fn default() -> Self {
        Cl5Counter { module: 3_000_001, interface: 1, range: 0 }
    }
}

impl Cl5Counter {
    const RANGE_MAX: u32 = 65_535;
    const INTERFACE_MAX: u32 = 4_095;

    fn next(&self) -> Self {
        match self {
            Cl5Counter { range, .. } if *range < Self::RANGE_MAX => Cl5Counter { range: range + 1, ..self.clone() },
            Cl5Counter { interface, .. } if *interface < Self::INTERFACE_MAX => {
                Cl5Counter { interface: interface + 1, range: 0, ..self.clone() }
            }
            Cl5Counter { module, .. } => Cl5Counter { module: module + 1, interface: 1, range: 0 },
        }
    }

    /// Returns a counter at least `numbers` ahead, rounded up to whole interfaces of [`Self::RANGE_MAX`] each.
    pub(super) fn far_ahead(&self, numbers: u64) -> Self {
        let interfaces = numbers.div_ceil(u64::from(Self::RANGE_MAX)) as u32;
        if self.interface + interfaces <= Self::INTERFACE_MAX {
            Cl5Counter { interface: self.interface + interfaces, ..self.clone() }
        } else {
            Cl5Counter { module: self.module + 1, interface: interfaces, ..self.clone() }
        }
    }

    fn name(&self, layout: u32) -> String {
        format!("{}:{}", (self.module << 6) + layout, (self.interface << 16) + self.range)
    }
}

impl Row for Cl5Counter {
    const TABLE: Table = Table::Cl5Counter;
    fn name(&self, _: &mut RowKey) {}
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aliases {
    by_name: Names<Arc<ServiceAlias>>,
    all: ListIndex<ServiceAlias>,
    /// Number of aliases of each service.
    of_service: Names<usize>,
    cl5: Cl5Counter,
}

/// Filter of a list of aliases; an absent part matches all.
#[derive(Clone, Debug, Default)]
pub struct AliasFilter {
    pub service: Option<NameFilter>,
    pub namespace: Option<NameFilter>,
    pub alias: Option<NameFilter>,
    pub alias_namespace: Option<NameFilter>,
    /// One of the owners, who must match.
    pub owner: Option<String>,
    /// Services that the caller may see.
    pub read_scope: ReadScope,
}

impl Placed for ServiceAlias {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.alias_namespace, "", &self.alias])
    }
}

impl Aliases {
    pub fn get(&self, namespace: &str, alias: &str) -> Option<&Arc<ServiceAlias>> {
        self.by_name.get(namespace, alias)
    }

    /// Returns the aliases of a namespace, or of all namespaces.
    pub fn all_in(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<ServiceAlias>> {
        self.by_name.values(namespace)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn has_any_of(&self, namespace: &str, service: &str) -> bool {
        self.of_service.get(namespace, service).is_some()
    }

    pub fn has_any_in(&self, namespace: &str) -> bool {
        self.by_name.has_any_in(namespace)
    }

    /// Lists aliases, newest change first, then by id.
    pub fn list(&self, filter: &AliasFilter, page: &Page) -> Listed<Arc<ServiceAlias>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        let text_filters = TextFilter::all([
            (ALIAS, &filter.alias),
            (ALIAS_NAMESPACE, &filter.alias_namespace),
            (SERVICE, &filter.service),
            (NAMESPACE, &filter.namespace),
        ]);
        let rest = |alias: &ServiceAlias| {
            names_owner(&alias.owners, &filter.owner) && filter.read_scope.sees(&alias.namespace, &alias.service)
        };
        let asks_more = filter.owner.is_some() || !filter.read_scope.is_whole();
        let listed = |page: &Page| self.all.list(&text_filters, asks_more.then_some(rest), page);
        let wanted = |alias: &Arc<ServiceAlias>| {
            rest(alias)
                && NameFilter::passes(&filter.alias, &alias.alias)
                && NameFilter::passes(&filter.alias_namespace, &alias.alias_namespace)
                && NameFilter::passes(&filter.service, &alias.service)
                && NameFilter::passes(&filter.namespace, &alias.namespace)
        };
        let onward = |[namespace, _, alias, _]: ListKey<'_>| self.by_name.onward(&namespace, &alias);
        Listed::ordered(page, &filter.alias_namespace, listed, onward, wanted)
    }

    /// Returns the number of aliases that [`Aliases::list`] walks at most.
    pub fn reach(&self, page: &Page) -> usize {
        self.all.reach(true, page)
    }

    /// Finds the alias of a draft: by id if the draft has no alias, otherwise by alias namespace and alias.
    pub(super) fn named_by(&self, draft: &AliasDraft) -> Option<Arc<ServiceAlias>> {
        match (&draft.alias, draft.given_id()) {
            (None, Some(id)) => self.all.get(id).cloned(),
            (Some(alias), id) => {
                self.get(draft.alias_namespace(), alias).filter(|found| id.is_none_or(|id| id == found.id)).cloned()
            }
            (None, None) => None,
        }
    }

    fn insert(&mut self, alias: ServiceAlias, changes: &mut ChangeSet) -> Arc<ServiceAlias> {
        changes.put(&alias);
        changes.changed(Change::service(&alias.alias_namespace, &alias.alias));
        self.load(alias)
    }

    fn remove(&mut self, alias: &ServiceAlias, changes: &mut ChangeSet) {
        changes.delete(alias);
        changes.changed(Change::service(&alias.alias_namespace, &alias.alias));
        self.all.remove(&alias.id);
        self.unlink(alias);
    }

    fn unlink(&mut self, alias: &ServiceAlias) {
        self.by_name.remove(&alias.alias_namespace, &alias.alias);
        let count = self.of_service.or_default(&alias.namespace, &alias.service);
        *count -= 1;
        if *count == 0 {
            self.of_service.remove(&alias.namespace, &alias.service);
        }
    }

    pub(super) fn load(&mut self, alias: ServiceAlias) -> Arc<ServiceAlias> {
        let alias = Arc::new(alias);
        if let Some(old) = self.all.insert(alias.clone()) {
            self.unlink(&old);
        }
        *self.of_service.or_default(&alias.namespace, &alias.service) += 1;
        self.by_name.insert(&alias.alias_namespace, &alias.alias, alias.clone());
        alias
    }

    pub(super) fn load_counter(&mut self, counter: Cl5Counter) {
        self.cl5 = counter;
    }
}

impl Catalog {
    /// Refuses a source that is not a service, such as another alias.
    fn check_source(&self, namespace: &str, service: &str) -> Result<(), Refusal> {
        if self.services.get(namespace, service).is_some() {
            Ok(())
        } else if self.aliases.get(namespace, service).is_some() {
            Err(Code::NotAllowCreateAliasForAlias.into())
        } else {
            Err(Code::NotFoundService.into())
        }
    }
}

impl Apply<'_> {
    /// Returns the next generated name that is not in use.
    fn next_cl5_name(&mut self, namespace: &str) -> Result<String, Refusal> {
        let layout = CL5_LAYOUTS.iter().find(|(known, _)| *known == namespace).map(|(_, layout)| *layout);
        let layout = layout.ok_or_else(|| Refusal::from(Code::InvalidNamespaceWithAlias))?;
        loop {
            self.catalog.aliases.cl5 = self.catalog.aliases.cl5.next();
            let name = self.catalog.aliases.cl5.name(layout);
            if self.catalog.aliases.get(namespace, &name).is_none()
                && self.catalog.services.get(namespace, &name).is_none()
            {
                self.changes.put(&self.catalog.aliases.cl5);
                return Ok(name);
            }
        }
    }
}

impl StoredResource for ServiceAlias {
    resource!(AliasDraft => Entity::Alias, mtime);
    const MISSING: Code = Code::NotFoundServiceAlias;

    /// Returns `None` for a create, which checks the service of the alias first.
    fn find(catalog: &Catalog, op: Op, draft: &AliasDraft) -> Option<Arc<ServiceAlias>> {
        (op != Op::Create).then(|| catalog.aliases.named_by(draft)).flatten()
    }

    fn create(apply: &mut Apply<'_>, draft: &AliasDraft) -> Result<ServiceAlias, Outcome> {
        let (namespace, service) =
            (draft.namespace.clone().unwrap_or_default(), draft.service.clone().unwrap_or_default());
        apply.catalog.check_source(&namespace, &service)?;
        let alias_namespace = draft.alias_namespace().to_owned();
        let alias = match draft.kind.unwrap_or_default() {
            AliasType::Default => draft.alias.clone().unwrap_or_default(),
            AliasType::Cl5Sid => apply.next_cl5_name(&alias_namespace)?,
        };
        if let Some(taken) = apply.catalog.aliases.get(&alias_namespace, &alias).cloned() {
            return Err(Outcome::existed(Entity::Alias(taken)));
        }
        let is_id_taken = draft.given_id().is_some_and(|id| apply.catalog.aliases.all.get(id).is_some());
        if is_id_taken || apply.catalog.services.get(&alias_namespace, &alias).is_some() {
            return Err(Code::ExistedResource.into());
        }
        let ctx = apply.ctx;
        apply.catalog.namespaces.ensure(ctx, &alias_namespace, apply.changes);
        Ok(ServiceAlias {
            id: draft.given_id().map_or_else(|| ctx.draw_id(), str::to_owned),
            alias,
            alias_namespace,
            service,
            namespace,
            kind: draft.kind.unwrap_or_default(),
            owners: draft.owners.clone().unwrap_or_default(),
            comment: draft.comment.clone().unwrap_or_default(),
            ctime: ctx.time,
            mtime: ctx.time,
            service_token: draft.service_token.clone().unwrap_or_default(),
            revision: ctx.draw_id(),
        })
    }

    fn check_update(catalog: &Catalog, _: &ServiceAlias, draft: &AliasDraft) -> Result<(), Outcome> {
        let Some(service) = &draft.service else { return Ok(()) };
        Ok(catalog.check_source(draft.namespace.as_deref().unwrap_or_default(), service)?)
    }

    fn put(apply: &mut Apply<'_>, alias: ServiceAlias) -> Arc<ServiceAlias> {
        apply.catalog.aliases.insert(alias, apply.changes)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<ServiceAlias>) -> Result<(), Outcome> {
        apply.catalog.aliases.remove(old, apply.changes);
        Ok(())
    }
}
