//! Namespaces: changes and queries.

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::OrdMap;

use super::Catalog;
use super::change::{Change, ChangeSet, Entity, Outcome};
use super::command::Op;
use super::ctx::Ctx;
use super::index::set_digest::SetDigest;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::row::{Row, RowKey, Table};
use crate::model::code::Code;
use crate::model::grant::ReadScope;
use crate::model::is_stale;
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

/// Compares namespaces in the order of a list: newest change first, then by name.
fn newest_first(one: &Arc<Namespace>, other: &Arc<Namespace>) -> Ordering {
    other.mtime.cmp(&one.mtime).then_with(|| one.name.cmp(&other.name))
}

impl Catalog {
    pub(super) fn write_namespace(
        &mut self,
        ctx: &Ctx,
        op: Op,
        draft: &NamespaceDraft,
        changes: &mut ChangeSet,
    ) -> Outcome {
        match (op, self.namespaces.get(&draft.name).cloned()) {
            (Op::Create, Some(old)) => Outcome { entity: Entity::Namespace(old), ..Code::ExistedResource.into() },
            (Op::Create, None) => {
                let mut namespace = Namespaces::new_namespace(ctx, &draft.name);
                draft.lay_over(&mut namespace);
                Outcome::done(Entity::Namespace(self.namespaces.insert(namespace, changes)))
            }
            (Op::Update, None) => Code::NotFoundResource.into(),
            (Op::Update, Some(old)) => self.update_namespace(ctx, &old, draft, changes),
            (Op::Delete, None) => Outcome::default(),
            (Op::Delete, Some(old)) if is_stale(&draft.revision, &old.revision) => {
                Outcome::stale(Entity::Namespace(old))
            }
            (Op::Delete, Some(old)) => self.delete_namespace(&old, changes),
        }
    }

    fn update_namespace(
        &mut self,
        ctx: &Ctx,
        old: &Arc<Namespace>,
        draft: &NamespaceDraft,
        changes: &mut ChangeSet,
    ) -> Outcome {
        if is_stale(&draft.revision, &old.revision) {
            return Outcome::stale(Entity::Namespace(old.clone()));
        }
        let mut namespace = Namespace::clone(old);
        draft.lay_over(&mut namespace);
        if namespace == **old {
            return Outcome::unchanged(Entity::Namespace(old.clone()));
        }
        namespace.mtime = ctx.time;
        namespace.revision = ctx.draw_id();
        Outcome::done(Entity::Namespace(self.namespaces.insert(namespace, changes)))
    }

    fn delete_namespace(&mut self, old: &Arc<Namespace>, changes: &mut ChangeSet) -> Outcome {
        if self.services.count_in(&old.name) > 0 || self.aliases.has_any_in(&old.name) {
            return Code::NamespaceExistedServices.into();
        }
        if self.configs.has_groups_in(&old.name) {
            return Code::NamespaceExistedConfigGroups.into();
        }
        if self.rules.has_any_in(&old.name) {
            return Code::NamespaceExistedGovernanceRules.into();
        }
        self.namespaces.remove(old, changes);
        self.xds_marks.remove(&old.name, changes);
        Outcome::done(Entity::Namespace(old.clone()))
    }
}
