//! Releases of rules, as [`Releasable`].

use std::sync::Arc;

use super::{Releasable, TargetState, digest_of, free, release_accessors};
use crate::catalog::Catalog;
use crate::catalog::access::AccountAt;
use crate::catalog::change::Entity;
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::history::Thing;
use crate::model::audience::Audience;
use crate::model::release::{Plan, ReleaseState, ReleaseType};
use crate::model::rollout::StagedRollout;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Effect, Rule};

impl Releasable for RuleRelease {
    release_accessors!(RuleRelease, id draw_id, labels client_labels);

    fn digest(&self) -> String {
        let plan = self.rollout.as_ref().map(|rollout| &rollout.plan);
        digest_of(&(&*self.rule, &self.client_labels, &self.client_percent, plan))
    }

    fn rule_revision(&self) -> &str {
        &self.rule.revision
    }

    fn of(&self) -> Thing {
        Thing::Rule(self.rule.family(), self.rule.id.clone())
    }

    fn in_force(&self, catalog: &Catalog) -> Option<Arc<Self>> {
        catalog.rules.of(self.rule.family()).active().normal(&self.rule.id).cloned()
    }

    fn active_grays(&self, catalog: &Catalog) -> usize {
        catalog.rules.of(self.rule.family()).active().grays(&self.rule.id)
    }

    fn effects(&self, catalog: &Catalog) -> Vec<Effect> {
        catalog.effects([&*self.rule])
    }

    fn siblings(&self, catalog: &Catalog) -> Vec<Arc<Self>> {
        catalog.rules.of(self.rule.family()).releases_of(&self.rule.id).cloned().collect()
    }

    fn free_name(&self, catalog: &Catalog, _: &Ctx, version: u64) -> String {
        let book = catalog.rules.of(self.rule.family());
        free(format!("v{version}"), |name| book.release(&self.rule.id, name).is_none())
    }

    fn take_version(&self, apply: &mut Apply<'_>) -> u64 {
        let book = apply.catalog.rules.of_mut(self.rule.family());
        let Some(rule) = book.get(&self.rule.id).cloned() else { return self.version + 1 };
        let versions = rule.versions + 1;
        book.put_rule(Rule { versions, ..Rule::clone(&rule) }, apply.changes);
        versions
    }

    fn insert(self, apply: &mut Apply<'_>) -> Arc<Self> {
        apply.catalog.rules.of_mut(self.rule.family()).put_release(self, apply.changes)
    }

    fn remove(&self, apply: &mut Apply<'_>) {
        apply.catalog.rules.of_mut(self.rule.family()).remove_release(self, apply.changes);
    }

    /// Prunes inactive releases. Watchers are notified when the release is stored.
    fn on_visible_change(&self, apply: &mut Apply<'_>) {
        self.enforce_retention(apply);
    }

    fn enforce_retention(&self, apply: &mut Apply<'_>) {
        apply.retain_rule_releases(self.rule.family(), &self.rule.id);
    }
}
