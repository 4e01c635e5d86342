//! Releases of config files, as [`Releasable`].

use std::sync::Arc;

use super::{Releasable, ReleaseParams, Standing, digest_of, free, says_of_itself};
use crate::catalog::Catalog;
use crate::catalog::access::AccountAt;
use crate::catalog::change::Entity;
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::history::Thing;
use crate::model::audience::Audience;
use crate::model::config_file::{ConfigRelease, ConfigReleaseDraft};
use crate::model::release::{Plan, ReleaseState, ReleaseType};
use crate::model::rollout::StagedRollout;
use crate::model::rule::Effect;

impl<'a> From<&'a ConfigReleaseDraft> for ReleaseParams<'a> {
    fn from(draft: &'a ConfigReleaseDraft) -> Self {
        ReleaseParams {
            new_name: draft.new_release_name.as_deref().filter(|name| !name.is_empty()),
            to_previous: draft.to_previous.unwrap_or_default(),
            comment: draft.release_description.as_deref().unwrap_or_default(),
            steering: draft.steering(),
        }
    }
}

impl Releasable for ConfigRelease {
    says_of_itself!(ConfigRelease);

    fn digest(&self) -> String {
        let plan = self.rollout.as_ref().map(|rollout| &rollout.plan);
        let content = (self.content.digest().bytes(), self.format, self.encrypted);
        digest_of(&(content, &self.labels, &self.client_percent, plan))
    }

    fn rule_revision(&self) -> &str {
        ""
    }

    fn promoted(&self, ctx: &Ctx, name: String, version: u64) -> Self {
        ConfigRelease {
            id: ctx.draw_number(),
            name,
            release_type: ReleaseType::Normal,
            labels: Vec::new(),
            client_percent: None,
            rollout: None,
            version,
            active: true,
            created: ctx.stamp(),
            modified: ctx.stamp(),
            ..self.clone()
        }
    }

    fn into_entity(this: Arc<Self>) -> Entity {
        Entity::ConfigRelease(this)
    }

    fn of(&self) -> Thing {
        Thing::File(self.key.clone())
    }

    fn in_force(&self, catalog: &Catalog) -> Option<Arc<Self>> {
        catalog.configs.active_release(&self.key).cloned()
    }

    fn active_grays(&self, catalog: &Catalog) -> usize {
        catalog.configs.active_grays(&self.key)
    }

    /// Returns no effects: a file acts only on the clients that pull it.
    fn effects(&self, _: &Catalog) -> Vec<Effect> {
        Vec::new()
    }

    fn siblings(&self, catalog: &Catalog) -> Vec<Arc<Self>> {
        catalog.configs.releases_of(&self.key).cloned().collect()
    }

    fn free_name(&self, catalog: &Catalog, ctx: &Ctx, version: u64) -> String {
        let name = format!("{}-{}-{version}", self.key.file, ctx.time.0 / 1000);
        free(name, |name| catalog.configs.release(&self.key, name).is_none())
    }

    fn take_version(&self, apply: &mut Apply<'_>) -> u64 {
        apply.catalog.configs.next_version(&self.key, apply.changes)
    }

    fn keep(self, apply: &mut Apply<'_>) -> Arc<Self> {
        apply.catalog.configs.put_release(self, apply.changes)
    }

    fn discard(&self, apply: &mut Apply<'_>) {
        apply.catalog.configs.remove_release(self, apply.changes);
    }

    fn on_visible_change(&self, apply: &mut Apply<'_>) {
        apply.catalog.configs.mark(&self.key, apply.changes);
        self.retain(apply);
    }

    fn retain(&self, apply: &mut Apply<'_>) {
        apply.retain_config_releases(&self.key);
    }
}
