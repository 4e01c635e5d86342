//! Write path of all resources that drafts create, update and delete.

use std::cmp::Ordering;
use std::sync::Arc;

use super::change::{Entity, Outcome};
use super::command::Op;
use super::ctx::{Apply, Ctx};
use crate::catalog::Catalog;
use crate::catalog::page::{ListKey, Placed};
use crate::model::code::Code;
use crate::model::is_stale;
use crate::model::time::Timestamp;

/// Kind of resource that drafts create, update and delete. A step that fails returns the outcome of the item.
pub(crate) trait StoredResource: Placed + Clone + PartialEq {
    type Draft;
    /// Code of an update of a resource that does not exist.
    const MISSING: Code = Code::NotFoundResource;

    fn entity(resource: Arc<Self>) -> Entity;
    fn revision(&self) -> &str;
    fn modified(&self) -> Timestamp;
    fn given_revision(draft: &Self::Draft) -> &Option<String>;

    /// Sets the time of the change and a new revision.
    fn stamp(&mut self, ctx: &Ctx);

    /// Applies the given fields of a draft to a resource; absent fields keep their values.
    fn lay_over(draft: &Self::Draft, resource: &mut Self) -> Result<(), Outcome>;

    /// Returns the list position among resources that were modified at the same time.
    fn order(&self) -> ListKey<'_> {
        self.place()
    }

    /// Finds the resource that a draft names; for a create, one that already has its name or id.
    fn find(catalog: &Catalog, op: Op, draft: &Self::Draft) -> Option<Arc<Self>>;

    /// Builds a new resource from a draft, and creates what it depends on, such as its namespace.
    fn create(apply: &mut Apply<'_>, draft: &Self::Draft) -> Result<Self, Outcome>;

    /// Checks a draft before it is applied to `old`.
    fn check_update(_catalog: &Catalog, _old: &Self, _draft: &Self::Draft) -> Result<(), Outcome> {
        Ok(())
    }

    /// Checks and completes an update that changes at least one field.
    fn before_update(_apply: &mut Apply<'_>, _old: &Self, _new: &mut Self) -> Result<(), Outcome> {
        Ok(())
    }

    fn put(apply: &mut Apply<'_>, resource: Self) -> Arc<Self>;

    /// Deletes a resource, unless another one depends on it.
    fn delete(apply: &mut Apply<'_>, old: &Arc<Self>) -> Result<(), Outcome>;
}

/// Implements the common methods of kinds whose time of change is in a [`Stamp`](crate::model::stamp::Stamp) or
/// in a field `mtime`.
macro_rules! resource {
    (@time modified $kept:ident, $ctx:ident) => { $kept.modified = $ctx.stamp() };
    (@time mtime $kept:ident, $ctx:ident) => { $kept.mtime = $ctx.time };
    (@modified modified $kept:ident) => { $kept.modified.time };
    (@modified mtime $kept:ident) => { $kept.mtime };
    ($draft:ty => Entity::$entity:ident, $time:ident) => {
        type Draft = $draft;

        fn entity(resource: Arc<Self>) -> Entity {
            Entity::$entity(resource)
        }

        fn revision(&self) -> &str {
            &self.revision
        }

        fn modified(&self) -> $crate::model::time::Timestamp {
            $crate::catalog::resource::resource!(@modified $time self)
        }

        fn given_revision(draft: &$draft) -> &Option<String> {
            &draft.revision
        }

        fn stamp(&mut self, ctx: &$crate::catalog::Ctx) {
            $crate::catalog::resource::resource!(@time $time self, ctx);
            self.revision = ctx.draw_id();
        }

        fn lay_over(draft: &$draft, resource: &mut Self) -> Result<(), Outcome> {
            draft.lay_over(resource);
            Ok(())
        }
    };
}
pub(crate) use resource;

/// Compares resources in the order of a list: newest change first.
pub(crate) fn newest_first<R: StoredResource>(one: &Arc<R>, other: &Arc<R>) -> Ordering {
    other.modified().cmp(&one.modified()).then_with(|| one.order().cmp(&other.order()))
}

impl Apply<'_> {
    pub(crate) fn write<R: StoredResource>(&mut self, op: Op, draft: &R::Draft) -> Outcome {
        let result = match (op, R::find(self.catalog, op, draft)) {
            (Op::Create, Some(taken)) => Err(Outcome::existed(R::entity(taken))),
            (Op::Create, None) => R::create(self, draft).map(|new| R::put(self, new)),
            (Op::Update, None) => Err(R::MISSING.into()),
            (Op::Delete, None) => Err(Outcome::default()),
            (_, Some(old)) if is_stale(R::given_revision(draft), old.revision()) => Err(Outcome::stale(R::entity(old))),
            (Op::Update, Some(old)) => self.try_update(&old, draft),
            (Op::Delete, Some(old)) => R::delete(self, &old).map(|()| old),
        };
        outcome_of(result)
    }

    pub(crate) fn update<R: StoredResource>(&mut self, old: &Arc<R>, draft: &R::Draft) -> Outcome {
        outcome_of(self.try_update(old, draft))
    }

    fn try_update<R: StoredResource>(&mut self, old: &Arc<R>, draft: &R::Draft) -> Result<Arc<R>, Outcome> {
        R::check_update(self.catalog, old, draft)?;
        let mut new = R::clone(old);
        R::lay_over(draft, &mut new)?;
        if new == **old {
            return Err(Outcome::unchanged(R::entity(old.clone())));
        }
        R::before_update(self, old, &mut new)?;
        new.stamp(self.ctx);
        Ok(R::put(self, new))
    }
}

fn outcome_of<R: StoredResource>(result: Result<Arc<R>, Outcome>) -> Outcome {
    result.map_or_else(|outcome| outcome, |resource| Outcome::done(R::entity(resource)))
}
