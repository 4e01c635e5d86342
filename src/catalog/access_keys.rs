//! Access keys of config clients: changes and queries.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use super::Catalog;
use super::change::{ChangeSet, Entity, Outcome, too_many};
use super::command::Op;
use super::ctx::Ctx;
use super::index::names::Names;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::row::{Row, RowKey, Table};
use crate::model::access_key::{AccessKey, AccessKeyDraft};
use crate::model::code::{Code, Refusal};
use crate::model::signature::SigningKey;
use crate::model::text::NameFilter;
use crate::model::{is_stale, limits};

impl Row for AccessKey {
    const TABLE: Table = Table::AccessKey;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.app_id).part(&self.name);
    }
}

/// An access key, and the signing key made of its secret, which is cached as long as this version of the row.
#[derive(Debug)]
pub struct HeldKey {
    pub key: Arc<AccessKey>,
    opened: OnceLock<Option<SigningKey>>,
}

impl HeldKey {
    /// Returns the signing key for checking requests. `open` is called once for this version of the row, and its result
    /// is cached, even if it is `None`.
    pub fn signing_key(&self, open: impl FnOnce(&AccessKey) -> Option<SigningKey>) -> Option<&SigningKey> {
        self.opened.get_or_init(|| open(&self.key)).as_ref()
    }
}

/// Compares the rows only; the signing key is derived.
impl PartialEq for HeldKey {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessKeys {
    by_app: Names<Arc<HeldKey>>,
    count: usize,
}

/// Filter of a list of access keys; an absent part matches all.
#[derive(Clone, Debug, Default)]
pub struct AccessKeyFilter {
    pub app_id: Option<NameFilter>,
    pub name: Option<NameFilter>,
}

impl Placed for AccessKey {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.app_id, "", &self.name])
    }
}

impl AccessKeys {
    /// Returns the keys of one app, by name.
    pub fn of_app(&self, app_id: &str) -> impl Iterator<Item = &Arc<HeldKey>> {
        self.by_app.values(Some(app_id))
    }

    pub fn has_any_of(&self, app_id: &str) -> bool {
        self.by_app.has_any_in(app_id)
    }

    /// Returns all keys, by app id and name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<HeldKey>> {
        self.by_app.values(None)
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lists keys, newest change first, then by app id and name.
    pub fn list(&self, filter: &AccessKeyFilter, page: &Page) -> Listed<Arc<AccessKey>> {
        let wanted = |key: &&Arc<AccessKey>| {
            NameFilter::passes(&filter.app_id, &key.app_id) && NameFilter::passes(&filter.name, &key.name)
        };
        cut_sorted(self.all().map(|held| &held.key).filter(wanted).collect(), newest_first, page)
    }

    pub fn get(&self, app_id: &str, name: &str) -> Option<&Arc<AccessKey>> {
        self.by_app.get(app_id, name).map(|held| &held.key)
    }

    /// Refuses a further key of this app beyond the limits.
    fn check_room(&self, app_id: &str) -> Result<(), Refusal> {
        if self.by_app.count_in(app_id) >= limits::ACCESS_KEYS_PER_APP_MAX {
            let most = limits::ACCESS_KEYS_PER_APP_MAX;
            return Err(too_many("access keys of an app", most));
        }
        if self.count >= limits::ACCESS_KEYS_MAX {
            return Err(too_many("access keys", limits::ACCESS_KEYS_MAX));
        }
        Ok(())
    }

    fn insert(&mut self, key: AccessKey, changes: &mut ChangeSet) -> Arc<AccessKey> {
        changes.put(&key);
        self.load(key)
    }

    fn remove(&mut self, key: &AccessKey, changes: &mut ChangeSet) {
        changes.delete(key);
        self.by_app.remove(&key.app_id, &key.name);
        self.count -= 1;
    }

    pub(super) fn load(&mut self, key: AccessKey) -> Arc<AccessKey> {
        let key = Arc::new(key);
        if self.get(&key.app_id, &key.name).is_none() {
            self.count += 1;
        }
        let held = HeldKey { key: key.clone(), opened: OnceLock::new() };
        self.by_app.insert(&key.app_id, &key.name, Arc::new(held));
        key
    }
}

/// Compares keys in the order of a list.
fn newest_first(one: &Arc<AccessKey>, other: &Arc<AccessKey>) -> Ordering {
    let by_time = other.modified.time.cmp(&one.modified.time);
    by_time.then_with(|| (&one.app_id, &one.name).cmp(&(&other.app_id, &other.name)))
}

impl Catalog {
    pub(super) fn write_access_key(
        &mut self,
        ctx: &Ctx,
        op: Op,
        draft: &AccessKeyDraft,
        changes: &mut ChangeSet,
    ) -> Outcome {
        match (op, self.access_keys.get(&draft.app_id, &draft.name).cloned()) {
            (Op::Create, Some(old)) => Outcome { entity: Entity::AccessKey(old), ..Code::ExistedResource.into() },
            (Op::Create, None) => self.create_access_key(ctx, draft, changes).unwrap_or_else(Outcome::from),
            (Op::Update, None) => Code::NotFoundResource.into(),
            (Op::Update, Some(old)) => self.update_access_key(ctx, &old, draft, changes),
            (Op::Delete, None) => Outcome::default(),
            (Op::Delete, Some(old)) if is_stale(&draft.revision, &old.revision) => {
                Outcome::stale(Entity::AccessKey(old))
            }
            (Op::Delete, Some(old)) => {
                self.access_keys.remove(&old, changes);
                Outcome::done(Entity::AccessKey(old))
            }
        }
    }

    fn create_access_key(
        &mut self,
        ctx: &Ctx,
        draft: &AccessKeyDraft,
        changes: &mut ChangeSet,
    ) -> Result<Outcome, Refusal> {
        if draft.secret.is_none() {
            return Err(Refusal::new(Code::InvalidParameter, "a key without a secret"));
        }
        self.access_keys.check_room(&draft.app_id)?;
        let mut key = AccessKey {
            app_id: draft.app_id.clone(),
            name: draft.name.clone(),
            created: ctx.stamp(),
            modified: ctx.stamp(),
            revision: ctx.draw_id(),
            ..AccessKey::default()
        };
        draft.lay_over(&mut key);
        Ok(Outcome::done(Entity::AccessKey(self.access_keys.insert(key, changes))))
    }

    fn update_access_key(
        &mut self,
        ctx: &Ctx,
        old: &Arc<AccessKey>,
        draft: &AccessKeyDraft,
        changes: &mut ChangeSet,
    ) -> Outcome {
        if is_stale(&draft.revision, &old.revision) {
            return Outcome::stale(Entity::AccessKey(old.clone()));
        }
        let mut key = AccessKey::clone(old);
        draft.lay_over(&mut key);
        if key == **old {
            return Outcome::unchanged(Entity::AccessKey(old.clone()));
        }
        key.modified = ctx.stamp();
        key.revision = ctx.draw_id();
        Outcome::done(Entity::AccessKey(self.access_keys.insert(key, changes)))
    }
}
