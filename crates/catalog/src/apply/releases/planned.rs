//! Planned releases: the leader finds those that are due, and apply publishes each once, or records why it cannot.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::scope::refused_at;
use super::{Releasable, TargetState, published};
use crate::catalog::Catalog;
use crate::catalog::change::{Outcome, admits_gray};
use crate::catalog::ctx::{Apply, Ctx};
use crate::catalog::history::Thing;
use crate::model::access::CLUSTER;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::ConfigKey;
use crate::model::grant::{Grants, Verb};
use crate::model::limits;
use crate::model::policy::Gate;
use crate::model::release::{Action, Plan, ReleaseState, ReleaseType, publishable};
use crate::model::time::Timestamp;

/// A planned release that the leader found due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    pub thing: Thing,
    pub release_name: String,
    pub at: Timestamp,
}

impl Catalog {
    /// Refuses a release whose author no longer has the right to make it.
    pub(super) fn check_author<R: Releasable>(&self, ctx: &Ctx, release: &R) -> Result<(), Refusal> {
        let author = release.author();
        if author == CLUSTER {
            return Ok(());
        }
        let grants = self.access.grants_of(release.author_at(), ctx.sure()).unwrap_or_default();
        // The text becomes part of hashed rows (`tests::words`).
        let why = || Refusal::new(Code::NotAllowedAccess, "its author may not any more");
        let effects = release.effects(self);
        let may = self.may_release(&grants, &release.of()) && refused_at(&grants, &[Verb::Release], &effects).is_none();
        may.then_some(()).ok_or_else(why)
    }

    fn may_release(&self, grants: &Grants, thing: &Thing) -> bool {
        match thing {
            Thing::File(key) => grants.may(Verb::Release, &key.namespace, &key.group),
            Thing::Rule(family, id) => {
                let rule = self.rules.of(*family).get(id);
                rule.is_some_and(|rule| grants.may(Verb::Release, &rule.namespace, &rule.name))
            }
        }
    }

    /// Returns the releases to be published by `now`, files first, at most [`limits::BATCH_ITEMS_MAX`].
    pub fn due(&self, now: Timestamp) -> Vec<Due> {
        let files = self.configs.due(now).map(|(at, key, name)| Due {
            thing: Thing::File(ConfigKey::clone(key)),
            release_name: name.to_string(),
            at,
        });
        let rules = self.rules.due(now).map(|(family, at, id, name)| Due {
            thing: Thing::Rule(family, id.to_string()),
            release_name: name.to_string(),
            at,
        });
        files.chain(rules).take(limits::BATCH_ITEMS_MAX).collect()
    }
}

impl Apply<'_> {
    /// Publishes a release that is due. It may have been deleted since the leader found it.
    pub(crate) fn publish_due(&mut self, due: &Due) -> Outcome {
        match &due.thing {
            Thing::File(key) => {
                let release = self.catalog.configs.release(key, &due.release_name).cloned();
                self.publish_planned(release, due)
            }
            Thing::Rule(family, id) => {
                let release = self.catalog.rules.of(*family).release(id, &due.release_name).cloned();
                self.publish_planned(release, due)
            }
        }
    }

    fn publish_planned<R: Releasable>(&mut self, release: Option<Arc<R>>, due: &Due) -> Outcome {
        let is_due = |release: &Arc<R>| {
            let plan = release.plan().filter(|plan| plan.state() == ReleaseState::Scheduled);
            plan.is_some_and(|plan| plan.at == due.at && plan.at <= self.ctx.sure())
        };
        let Some(release) = release.filter(is_due) else { return Code::NoNeedUpdate.into() };
        let active_grays = release.active_grays(self.catalog);
        let verdict = publishable(release.release_type(), release.audience().is_everybody(), active_grays > 0)
            .and_then(|()| admits_gray(release.release_type(), active_grays));
        let gate = if release.release_type() == ReleaseType::Gray { Gate::Gray } else { Gate::Publish };
        let is_approved = release.plan().is_some_and(|plan| plan.approved);
        let verdict = verdict
            .and_then(|()| self.catalog.check_author(self.ctx, &*release))
            .and_then(|()| self.catalog.check_planned(self.ctx, (&release.of(), gate), is_approved));
        let Err(refusal) = verdict else {
            return self.activate_again(&*release, published(release.release_type()), "");
        };
        let from = release.in_force(self.catalog);
        // The text becomes part of hashed rows, so it must not change within a level (`tests::words`).
        let plan = Plan { at: due.at, failed: refusal.detail.clone(), approved: false, author: None };
        let failed = release.in_state(self.ctx, TargetState::Planned(plan)).insert(self);
        self.remember(&*failed, Action::Failed, from.as_deref(), &refusal.detail);
        failed.enforce_retention(self);
        Outcome { entity: R::into_entity(failed), ..refusal.into() }
    }
}
