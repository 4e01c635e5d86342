//! The configuration store: changes.
//!
//! The life cycle of releases is shared with rules, see `releases`. Deleting a file deletes its releases and their
//! history; its versions and notification ids remain.
//!
//! A release name that the file uses already is refused with 400201. A content that no client could parse, or that is
//! not the validated one, is not published. An encrypted file never has a content in clear, and other files never have
//! a sealed one.

use std::sync::Arc;

use md5::{Digest, Md5};

use crate::catalog::Catalog;
use crate::catalog::change::{Entity, Outcome, admits_gray};
use crate::catalog::command::Op;
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::history::Thing;
use crate::catalog::releases::{Releasable, later, refuse_unpinned};
use crate::catalog::resource::{StoredResource, resource};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{
    ConfigFile, ConfigFileDraft, ConfigGroup, ConfigGroupDraft, ConfigKey, ConfigPublish, ConfigRelease,
    ConfigReleaseDraft, Format,
};
use crate::model::content::Content;
use crate::model::is_stale;
use crate::model::properties;
use crate::model::release::{Pin, ReleaseOp, publishable};

/// Returns the MD5 of a content in hex, as releases have it.
pub fn md5_of(content: &str) -> String {
    hex::encode(Md5::digest(content))
}

impl StoredResource for ConfigGroup {
    resource!(ConfigGroupDraft => Entity::ConfigGroup, modified);

    fn find(catalog: &Catalog, _: Op, draft: &ConfigGroupDraft) -> Option<Arc<ConfigGroup>> {
        catalog.configs.group(&draft.namespace, &draft.name).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &ConfigGroupDraft) -> Result<ConfigGroup, Outcome> {
        apply.catalog.namespaces.ensure(apply.ctx, &draft.namespace, apply.changes);
        let mut group = new_group(apply.ctx, &draft.namespace, &draft.name);
        draft.lay_over(&mut group);
        Ok(group)
    }

    fn put(apply: &mut Apply<'_>, group: ConfigGroup) -> Arc<ConfigGroup> {
        apply.catalog.configs.put_group(group, apply.changes)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<ConfigGroup>) -> Result<(), Outcome> {
        if apply.catalog.configs.files_in_group(&old.namespace, &old.name).next().is_some() {
            return Err(Refusal::new(Code::ExistedResource, "the group still has config files").into());
        }
        apply.catalog.configs.remove_group(old, apply.changes);
        Ok(())
    }
}

impl StoredResource for ConfigFile {
    resource!(ConfigFileDraft => Entity::ConfigFile, modified);

    fn find(catalog: &Catalog, _: Op, draft: &ConfigFileDraft) -> Option<Arc<ConfigFile>> {
        catalog.configs.file(&draft.key()).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &ConfigFileDraft) -> Result<ConfigFile, Outcome> {
        refuse_unfit(None, draft).map_or(Ok(()), Err)?;
        let file = edited(apply.ctx, None, draft);
        apply.ensure_group(&file.key);
        Ok(file)
    }

    fn check_update(_: &Catalog, old: &ConfigFile, draft: &ConfigFileDraft) -> Result<(), Outcome> {
        refuse_unfit(Some(old), draft).map_or(Ok(()), Err)
    }

    fn put(apply: &mut Apply<'_>, file: ConfigFile) -> Arc<ConfigFile> {
        apply.catalog.configs.put_file(file, apply.changes)
    }

    fn delete(Apply { catalog, changes, .. }: &mut Apply<'_>, old: &Arc<ConfigFile>) -> Result<(), Outcome> {
        let was_visible = catalog.configs.active_release(&old.key).is_some() || catalog.configs.has_gray(&old.key);
        for release in catalog.configs.versions_of(&old.key) {
            catalog.configs.remove_release(&release, changes);
        }
        catalog.configs.remove_file(old, changes);
        catalog.history.forget(&Thing::File(old.key.clone()), changes);
        if was_visible {
            catalog.configs.mark(&old.key, changes);
        }
        Ok(())
    }
}

impl Catalog {
    /// Returns the file as a publication would write it first.
    pub(crate) fn file_to_publish(&self, ctx: &Ctx, publish: &ConfigPublish) -> ConfigFile {
        edited(ctx, self.configs.file(&publish.file.key()), &publish.file)
    }

    /// Refuses if the MD5 of the content in force is not the expected one.
    fn refuse_other_published(&self, key: &ConfigKey, expected: Option<&str>) -> Option<Outcome> {
        let (expected, current) = (expected?, self.configs.active_release(key));
        let refusal = || Refusal::new(Code::DataConflict, "the published content has another md5");
        current.is_none_or(|release| release.md5 != expected).then(|| refusal().into())
    }

    fn refuse_release(&self, ctx: &Ctx, draft: &ConfigReleaseDraft) -> Option<Outcome> {
        let key = draft.key();
        // A planned release is checked when it is due.
        let is_later = later(ctx, draft.publish_at()).is_some();
        let active_grays = if is_later { 0 } else { self.configs.active_grays(&key) };
        let verdict = publishable(draft.release_type(), draft.is_for_everybody(), active_grays > 0)
            .and_then(|()| admits_gray(draft.release_type(), active_grays))
            .and_then(|()| Catalog::admits_plan(self.configs.releases_of(&key), ctx, draft.publish_at()));
        if let Err(refusal) = verdict {
            return Some(refusal.into());
        }
        let taken = self.configs.release(&key, draft.given_name()?)?.clone();
        let refusal = Refusal::new(Code::ExistedResource, "the file has a release of this name");
        Some(Outcome { entity: Entity::ConfigRelease(taken), ..refusal.into() })
    }

    /// Finds the release of a draft: by release name, or by id.
    pub fn named_release(&self, draft: &ConfigReleaseDraft) -> Option<Arc<ConfigRelease>> {
        let key = draft.key();
        match (draft.given_name(), draft.id) {
            (Some(name), id) => {
                self.configs.release(&key, name).filter(|found| id.is_none_or(|id| id == found.id)).cloned()
            }
            (None, Some(id)) => self.configs.versions_of(&key).into_iter().find(|release| release.id == id),
            (None, None) => None,
        }
    }
}

impl Apply<'_> {
    /// Creates the namespace and the group if they do not exist.
    fn ensure_group(&mut self, key: &ConfigKey) {
        self.catalog.namespaces.ensure(self.ctx, &key.namespace, self.changes);
        if self.catalog.configs.group(&key.namespace, &key.group).is_none() {
            self.catalog.configs.put_group(new_group(self.ctx, &key.namespace, &key.group), self.changes);
        }
    }

    pub(crate) fn publish_config(&mut self, draft: &ConfigReleaseDraft) -> Outcome {
        let Some(file) = self.catalog.configs.file(&draft.key()).cloned() else {
            return Refusal::new(Code::NotFoundResource, "no such config file").into();
        };
        let refused = self.catalog.refuse_other_published(&file.key, draft.given_md5());
        let refused = refused.or_else(|| self.catalog.refuse_release(self.ctx, draft));
        let refused = refused.or_else(|| self.refuse_unjudged(&file, draft));
        match refused.or_else(|| refuse_unreadable(&file, draft)) {
            Some(refused) => refused,
            None => {
                let md5 = md5_of(&file.content);
                self.release((ConfigFile::clone(&file), md5), None, draft)
            }
        }
    }

    /// Publishes the copy of a file from the time of the request. The draft is not changed; a file that was deleted
    /// meanwhile is created again from the copy.
    pub(crate) fn publish_config_copy(
        &mut self,
        (copy, md5): (ConfigFile, String),
        draft: &ConfigReleaseDraft,
    ) -> Outcome {
        let refused = self.catalog.refuse_other_published(&copy.key, draft.given_md5());
        if let Some(refused) = refused.or_else(|| self.catalog.refuse_release(self.ctx, draft)) {
            return refused;
        }
        self.ensure_group(&copy.key);
        let kept = self.catalog.configs.file(&copy.key).map(|file| ConfigFile::clone(file));
        self.release((copy, md5), kept, draft)
    }

    /// Writes the file and publishes it, or does neither if one is refused.
    pub(crate) fn create_and_publish_config(&mut self, publish: &ConfigPublish) -> Outcome {
        let key = publish.file.key();
        let expected = publish.md5.as_deref().filter(|md5| !md5.is_empty());
        let refused = self.catalog.refuse_other_published(&key, expected);
        if let Some(refused) = refused.or_else(|| self.catalog.refuse_release(self.ctx, &publish.release)) {
            return refused;
        }
        let old = self.catalog.configs.file(&key).cloned();
        if is_stale(&publish.file.revision, old.as_ref().map_or("", |file| &file.revision)) {
            return Outcome::stale(old.map_or(Entity::None, Entity::ConfigFile));
        }
        if let Some(refused) = refuse_unfit(old.as_deref(), &publish.file) {
            return refused;
        }
        let file = edited(self.ctx, old.as_ref(), &publish.file);
        let refused = self.refuse_unjudged(&file, &publish.release);
        if let Some(refused) = refused.or_else(|| refuse_unreadable(&file, &publish.release)) {
            return refused;
        }
        self.ensure_group(&key);
        let md5 = md5_of(&file.content);
        self.release((file, md5), None, &publish.release)
    }

    /// Refuses a file that is not the validated one, or was validated against another release in force.
    fn refuse_unjudged(&mut self, file: &ConfigFile, draft: &ConfigReleaseDraft) -> Option<Outcome> {
        let Some(judged) = draft.judged.as_ref().filter(|judged| !judged.is_of(file)) else {
            let in_force = Some(self.catalog.configs.active_release(&file.key).map_or(0, |release| release.version));
            return refuse_unpinned(draft.pin.as_ref(), &Pin { in_force, ..Pin::default() }, self.changes);
        };
        if judged.comes_again {
            self.changes.leave_out();
        }
        let refusal = Refusal::new(Code::DataConflict, "the file was changed while it was published");
        Some(Outcome { overtaken: true, ..refusal.into() })
    }

    /// Releases a file. The draft becomes `kept` if given, otherwise the released file.
    fn release(
        &mut self,
        (file, md5): (ConfigFile, String),
        kept: Option<ConfigFile>,
        draft: &ConfigReleaseDraft,
    ) -> Outcome {
        let version = self.catalog.configs.next_version(&file.key, self.changes);
        let mut release = ConfigRelease {
            id: self.ctx.draw_number(),
            name: draft.given_name().unwrap_or_default().to_owned(),
            key: file.key.clone(),
            content: file.content.clone(),
            md5,
            encrypted: file.encrypted,
            format: file.format,
            comment: file.comment.clone(),
            tags: file.tags.clone(),
            description: draft.release_description.clone().unwrap_or_default(),
            release_type: draft.release_type(),
            labels: draft.labels().to_vec(),
            client_percent: draft.share(),
            plan: None,
            rollout: draft.plan.clone().map(|plan| Box::new(self.begin_rollout(plan))),
            version,
            active: true,
            created: self.ctx.stamp(),
            modified: self.ctx.stamp(),
        };
        if release.name.is_empty() {
            release.name = release.free_name(self.catalog, self.ctx, version);
        }
        let is_now = later(self.ctx, draft.publish_at()).is_none();
        let file = kept.unwrap_or(file);
        let file = ConfigFile { released: if is_now { Some(self.ctx.stamp()) } else { file.released.clone() }, ..file };
        let comment = release.description.clone();
        let written = |apply: &mut Apply<'_>| {
            apply.catalog.configs.put_file(file, apply.changes);
        };
        self.begin_release(release, draft.publish_at(), &comment, written)
    }

    pub(crate) fn change_config_release(&mut self, op: ReleaseOp, draft: &ConfigReleaseDraft) -> Outcome {
        let target = self.catalog.named_release(draft);
        if let Some(release) = &target {
            let in_force = Some(self.catalog.configs.active_release(&release.key).map_or(0, |release| release.version));
            let now = Pin { version: Some(release.version), in_force, ..Pin::default() };
            if let Some(refused) = refuse_unpinned(draft.pin.as_ref(), &now, self.changes) {
                return refused;
            }
        }
        self.change_release_of(op, target, draft.into())
    }
}

/// Returns a new file, or `old`, with the fields of the draft applied.
fn edited(ctx: &Ctx, old: Option<&Arc<ConfigFile>>, draft: &ConfigFileDraft) -> ConfigFile {
    let mut file = match old {
        Some(old) => ConfigFile::clone(old),
        None => new_file(ctx, draft.key()),
    };
    draft.lay_over(&mut file);
    if old.is_some_and(|old| **old != file) {
        file.stamp(ctx);
    }
    file
}

fn new_file(ctx: &Ctx, key: ConfigKey) -> ConfigFile {
    ConfigFile {
        id: ctx.draw_number(),
        format: Format::of_new(&key.file),
        key,
        created: ctx.stamp(),
        modified: ctx.stamp(),
        revision: ctx.draw_id(),
        ..ConfigFile::default()
    }
}

/// Refuses a content whose sealing does not match the file after the write, or that was derived from another content
/// than the stored one. So no content is ever stored in the wrong form, even when writes overtake each other.
fn refuse_unfit(old: Option<&ConfigFile>, draft: &ConfigFileDraft) -> Option<Outcome> {
    let before = old.is_some_and(|old| old.encrypted);
    let after = draft.encrypted.unwrap_or(before);
    let is_fit = match &draft.content {
        Some(_) => draft.sealing.as_ref().is_some_and(|sealing| sealing.is_sealed) == after,
        None => before == after,
    };
    let made_of = draft.sealing.as_ref().and_then(|sealing| sealing.made_of.as_ref());
    let is_of = |made_of: &Content| old.map_or_else(Content::default, |old| old.content.reference()) == *made_of;
    if is_fit && made_of.is_none_or(is_of) {
        return None;
    }
    let why = "whether the file is encrypted, or its content, was changed while it was written: try again";
    Some(Refusal::new(Code::DataConflict, why).into())
}

/// Refuses properties that no client could parse. Sealed ones have been validated by the node that received the
/// request, or are not published.
fn refuse_unreadable(file: &ConfigFile, draft: &ConfigReleaseDraft) -> Option<Outcome> {
    if Format::read_as(&file.key.file, file.format) != Format::Properties {
        return None;
    }
    if file.encrypted {
        let refusal = || Refusal::new(Code::DataConflict, "the file was encrypted while it was published: try again");
        return draft.judged.is_none().then(|| refusal().into());
    }
    let error = properties::parse(&file.content).err()?;
    Some(Refusal::new(Code::NotMatchContentToFormat, error.to_string()).into())
}

fn new_group(ctx: &Ctx, namespace: &str, name: &str) -> ConfigGroup {
    ConfigGroup {
        id: ctx.draw_number(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        created: ctx.stamp(),
        modified: ctx.stamp(),
        revision: ctx.draw_id(),
        ..ConfigGroup::default()
    }
}
