//! Access keys of config clients: changes and queries.

use std::sync::{Arc, OnceLock};

use super::Catalog;
use super::change::{ChangeSet, Entity, Outcome, admits_one_more};
use super::command::Op;
use super::index::names::Names;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::resource::{StoredResource, newest_first, resource};
use super::row::{Row, RowKey, Table};
use crate::catalog::ctx::Apply;
use crate::model::access_key::{AccessKey, AccessKeyDraft};
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::signature::SigningKey;
use crate::model::text::NameFilter;

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
        let of_app = self.by_app.count_in(app_id);
        admits_one_more("access keys of an app", of_app, limits::ACCESS_KEYS_PER_APP_MAX)?;
        admits_one_more("access keys", self.count, limits::ACCESS_KEYS_MAX)
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

impl StoredResource for AccessKey {
    resource!(AccessKeyDraft => Entity::AccessKey, modified);

    fn find(catalog: &Catalog, _: Op, draft: &AccessKeyDraft) -> Option<Arc<AccessKey>> {
        catalog.access_keys.get(&draft.app_id, &draft.name).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &AccessKeyDraft) -> Result<AccessKey, Outcome> {
        if draft.secret.is_none() {
            return Err(Refusal::new(Code::InvalidParameter, "a key without a secret").into());
        }
        apply.catalog.access_keys.check_room(&draft.app_id)?;
        let mut key = AccessKey {
            app_id: draft.app_id.clone(),
            name: draft.name.clone(),
            created: apply.ctx.stamp(),
            ..AccessKey::default()
        };
        key.stamp(apply.ctx);
        draft.lay_over(&mut key);
        Ok(key)
    }

    fn put(apply: &mut Apply<'_>, key: AccessKey) -> Arc<AccessKey> {
        apply.changes.put(&key);
        apply.catalog.access_keys.load(key)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<AccessKey>) -> Result<(), Outcome> {
        apply.catalog.access_keys.remove(old, apply.changes);
        Ok(())
    }
}
