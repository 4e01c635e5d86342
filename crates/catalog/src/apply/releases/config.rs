//! Releases of config files, as [`Releasable`].

use std::sync::Arc;

use super::{Releasable, TargetState, digest_of, free, release_accessors};
use crate::catalog::Catalog;
use crate::catalog::access::AccountAt;
use crate::catalog::change::Entity;
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::history::Thing;
use crate::model::audience::Audience;
use crate::model::config_file::ConfigRelease;
use crate::model::release::{Plan, ReleaseState, ReleaseType};
use crate::model::rollout::StagedRollout;
use crate::model::rule::Effect;

impl Releasable for ConfigRelease {
    release_accessors!(ConfigRelease, id draw_number, labels labels);

    fn digest(&self) -> String {
        let plan = self.rollout.as_ref().map(|rollout| &rollout.plan);
        let content = (self.content.digest().bytes(), self.format, self.encrypted);
        digest_of(&(content, &self.labels, &self.client_percent, plan))
    }

    fn rule_revision(&self) -> &str {
        ""
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

    fn insert(self, apply: &mut Apply<'_>) -> Arc<Self> {
        apply.catalog.configs.put_release(self, apply.changes)
    }

    fn remove(&self, apply: &mut Apply<'_>) {
        apply.catalog.configs.remove_release(self, apply.changes);
    }

    fn on_visible_change(&self, apply: &mut Apply<'_>) {
        apply.catalog.configs.mark(&self.key, apply.changes);
        self.enforce_retention(apply);
    }

    fn enforce_retention(&self, apply: &mut Apply<'_>) {
        apply.retain_config_releases(&self.key);
    }
}
