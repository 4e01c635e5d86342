//! Namespaces: changes and queries.

use std::sync::Arc;

use imbl::OrdMap;

use super::Catalog;
use super::change::{Change, ChangeSet, Entity, Outcome};
use super::command::Op;
use super::ctx::{Apply, Ctx};
use super::index::set_digest::SetDigest;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::resource::{StoredResource, newest_first, resource};
use super::row::{Row, RowKey, Table};
use crate::model::code::Code;
use crate::model::grant::ReadScope;
use crate::model::namespace::{Namespace, NamespaceDraft};
use crate::model::text::{NameFilter, names_owner};

/// Namespace that is created with the cluster.
pub const DEFAULT: &str = "default";

impl Row for Namespace {
    const TABLE: Table = Table::Namespace;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.name);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespaces {
    by_name: OrdMap<Arc<str>, Arc<Namespace>>,
    fold: SetDigest,
}

/// Filter of a list of namespaces; an absent part matches all.
#[derive(Clone, Debug, Default)]
pub struct NamespaceFilter {
    pub name: Option<NameFilter>,
    pub owner: Option<String>,
    /// Namespaces that the caller may see.
    pub read_scope: ReadScope,
}

impl Placed for Namespace {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.name])
    }
}

impl Namespaces {
    pub fn get(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.by_name.get(name)
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns all namespaces, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.by_name.values()
    }

    /// Returns a digest that changes with every change of a namespace.
    pub fn fold(&self) -> SetDigest {
        self.fold
    }

    /// Lists namespaces, newest change first, then by name.
    pub fn list(&self, filter: &NamespaceFilter, page: &Page) -> Listed<Arc<Namespace>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        let wanted = |namespace: &&Arc<Namespace>| {
            NameFilter::passes(&filter.name, &namespace.name)
                && filter.read_scope.sees_namespace(&namespace.name)
                && names_owner(&namespace.owners, &filter.owner)
        };
        cut_sorted(self.all().filter(wanted).collect(), newest_first, page)
    }

    /// Creates the namespace if it does not exist, for a write that needs it.
    pub(super) fn ensure(&mut self, ctx: &Ctx, name: &str, changes: &mut ChangeSet) {
        if !self.by_name.contains_key(name) {
            self.insert(Self::new_namespace(ctx, name), changes);
        }
    }

    fn new_namespace(ctx: &Ctx, name: &str) -> Namespace {
        Namespace {
            name: name.to_owned(),
            ctime: ctx.time,
            mtime: ctx.time,
            revision: ctx.draw_id(),
            ..Namespace::default()
        }
    }

    fn insert(&mut self, namespace: Namespace, changes: &mut ChangeSet) -> Arc<Namespace> {
        changes.put(&namespace);
        changes.changed(Change::Namespaces);
        self.load(namespace)
    }

    pub(super) fn load(&mut self, namespace: Namespace) -> Arc<Namespace> {
        let namespace = Arc::new(namespace);
        let old = self.by_name.insert(namespace.name.as_str().into(), namespace.clone());
        for changed in old.iter().chain([&namespace]) {
            self.fold.toggle(SetDigest::of(&changed.name, &changed.revision));
        }
        namespace
    }

    fn remove(&mut self, namespace: &Namespace, changes: &mut ChangeSet) {
        changes.delete(namespace);
        changes.changed(Change::Namespaces);
        self.by_name.remove(namespace.name.as_str());
        self.fold.toggle(SetDigest::of(&namespace.name, &namespace.revision));
    }
}

impl StoredResource for Namespace {
    resource!(NamespaceDraft => Entity::Namespace, mtime);

    fn find(catalog: &Catalog, _: Op, draft: &NamespaceDraft) -> Option<Arc<Namespace>> {
        catalog.namespaces.get(&draft.name).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &NamespaceDraft) -> Result<Namespace, Outcome> {
        let mut namespace = Namespaces::new_namespace(apply.ctx, &draft.name);
        draft.lay_over(&mut namespace);
        Ok(namespace)
    }

    fn put(apply: &mut Apply<'_>, namespace: Namespace) -> Arc<Namespace> {
        apply.catalog.namespaces.insert(namespace, apply.changes)
    }

    fn delete(Apply { catalog, changes, .. }: &mut Apply<'_>, old: &Arc<Namespace>) -> Result<(), Outcome> {
        if catalog.services.count_in(&old.name) > 0 || catalog.aliases.has_any_in(&old.name) {
            return Err(Code::NamespaceExistedServices.into());
        }
        if catalog.configs.has_groups_in(&old.name) {
            return Err(Code::NamespaceExistedConfigGroups.into());
        }
        if catalog.rules.has_any_in(&old.name) {
            return Err(Code::NamespaceExistedGovernanceRules.into());
        }
        catalog.namespaces.remove(old, changes);
        catalog.xds_marks.remove(&old.name, changes);
        Ok(())
    }
}
