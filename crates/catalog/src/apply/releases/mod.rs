//! Life cycle of releases, shared by rules and config files and defined by the table in
//! [`model::release`](crate::model::release). The kinds differ in where releases are stored and what a new one
//! contains; each implements [`Releasable`] for that.

mod config;
mod news;
mod planned;
mod rollout;
mod rule;

use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::change::{ChangeSet, Entity, Outcome, too_many};
use super::ctx::{Apply, Ctx};
use crate::catalog::Catalog;
use crate::catalog::access::AccountAt;
use crate::catalog::history::Thing;
use crate::catalog::index::archive::Archived;
use crate::format::pack;
use crate::model::access::CLUSTER;
use crate::model::approval::MeantRelease;
use crate::model::audience::Audience;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::ConfigReleaseDraft;
use crate::model::limits;
use crate::model::release::{Action, Event, Pin, Plan, ReleaseOp, ReleaseState, ReleaseType, Transition, transition};
use crate::model::rollout::{RolloutControl, RolloutState, StagedRollout};
use crate::model::rule::Effect;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::time::Timestamp;
pub use planned::Due;
pub use rollout::{LiveRollout, RolloutChange, RolloutTransition};

/// State of a release to be stored.
#[derive(Clone, Debug)]
pub(crate) enum TargetState {
    /// Visible to clients under this version.
    Active(u64),
    Inactive,
    Planned(Plan),
}

impl TargetState {
    fn is_active(&self) -> bool {
        matches!(self, TargetState::Active(_))
    }

    fn version(&self, before: u64) -> u64 {
        match self {
            TargetState::Active(version) => *version,
            TargetState::Inactive | TargetState::Planned(_) => before,
        }
    }

    fn plan(self) -> Option<Plan> {
        match self {
            TargetState::Planned(plan) => Some(plan),
            TargetState::Active(_) | TargetState::Inactive => None,
        }
    }
}

/// A release of a rule or of a config file.
pub(crate) trait Releasable: Archived + Clone + Sized {
    /// Returns the id, which no other release of the thing ever has.
    fn id(&self) -> String;
    fn release_type(&self) -> ReleaseType;
    fn audience(&self) -> Audience<'_>;
    /// Returns the SHA-256 of its content and its audience, in hex.
    fn digest(&self) -> String;
    fn plan(&self) -> Option<&Plan>;
    /// Returns the revision of the copied rule; empty for a file.
    fn rule_revision(&self) -> &str;
    /// Returns the account of its author.
    fn author_at(&self) -> AccountAt<'_>;
    /// Returns a copy with another standing.
    fn in_state(&self, ctx: &Ctx, state: TargetState) -> Self;
    fn rollout(&self) -> Option<&StagedRollout>;
    /// Returns a copy with another state of its rollout, and the share of that state.
    fn with_rollout_state(&self, ctx: &Ctx, rollout: StagedRollout) -> Self;
    /// Returns a normal release of the same content, under another name.
    fn promoted(&self, ctx: &Ctx, name: String, version: u64) -> Self;
    fn into_entity(this: Arc<Self>) -> Entity;

    /// Returns the name of its author.
    fn author(&self) -> &str {
        self.author_at().name
    }

    /// Returns a copy with a changed rollout, if it has one.
    fn with_rollout(&self, ctx: &Ctx, change: impl FnOnce(&StagedRollout) -> StagedRollout) -> Self {
        self.rollout().map_or_else(|| self.clone(), |rollout| self.with_rollout_state(ctx, change(rollout)))
    }

    /// Returns the reference by which a requested action identifies the release.
    fn meant(&self) -> MeantRelease {
        let (id, name, version, digest) = (self.id(), self.name().to_owned(), self.version(), self.digest());
        MeantRelease { id, name, version, digest, step: 0, revision: self.rule_revision().to_owned() }
    }

    // Access to the releases of the same thing, and their changes.

    fn of(&self) -> Thing;
    /// Returns the normal release in force.
    fn in_force(&self, catalog: &Catalog) -> Option<Arc<Self>>;
    fn active_grays(&self, catalog: &Catalog) -> usize;
    fn siblings(&self, catalog: &Catalog) -> Vec<Arc<Self>>;
    /// Returns an unused release name for this version.
    fn free_name(&self, catalog: &Catalog, ctx: &Ctx, version: u64) -> String;
    /// Takes the next version of the thing, which is never used again.
    fn take_version(&self, apply: &mut Apply<'_>) -> u64;
    fn insert(self, apply: &mut Apply<'_>) -> Arc<Self>;
    fn remove(&self, apply: &mut Apply<'_>);
    /// Updates what depends on the releases that clients see, and prunes inactive ones.
    fn on_visible_change(&self, apply: &mut Apply<'_>);
    /// Prunes inactive releases.
    fn enforce_retention(&self, apply: &mut Apply<'_>);

    fn state(&self) -> ReleaseState;
    /// Returns the services that it acts on, as far as they are authorized.
    fn effects(&self, catalog: &Catalog) -> Vec<Effect>;
}

/// Implements methods of [`Releasable`] from the fields that both kinds have.
macro_rules! release_accessors {
    ($release:ident, id $draw:ident, labels $labels:ident) => {
        fn id(&self) -> String {
            self.id.to_string()
        }

        fn release_type(&self) -> ReleaseType {
            self.release_type
        }

        fn audience(&self) -> Audience<'_> {
            $release::audience(self)
        }

        fn plan(&self) -> Option<&Plan> {
            self.plan.as_ref()
        }

        fn state(&self) -> ReleaseState {
            $release::state(self)
        }

        fn author_at(&self) -> AccountAt<'_> {
            let planned = self.plan.as_ref().and_then(|plan| plan.author.as_deref());
            let author = planned.or_else(|| self.rollout.as_ref()?.author.as_deref());
            AccountAt { author, ..AccountAt::from(&self.created) }
        }

        fn in_state(&self, ctx: &Ctx, state: TargetState) -> Self {
            $release {
                active: state.is_active(),
                version: state.version(self.version),
                plan: state.plan(),
                modified: ctx.stamp(),
                ..self.clone()
            }
        }

        fn rollout(&self) -> Option<&StagedRollout> {
            self.rollout.as_deref()
        }

        fn with_rollout_state(&self, ctx: &Ctx, rollout: StagedRollout) -> Self {
            let rollout = rollout.without_spent_claims();
            let client_percent = Some(rollout.plan.share(rollout.step));
            let client_percent = if rollout.is_live() { client_percent } else { self.client_percent.clone() };
            $release { client_percent, rollout: Some(Box::new(rollout)), modified: ctx.stamp(), ..self.clone() }
        }

        fn promoted(&self, ctx: &Ctx, name: String, version: u64) -> Self {
            $release {
                id: ctx.$draw(),
                name,
                release_type: ReleaseType::Normal,
                $labels: Vec::new(),
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
            Entity::$release(this)
        }
    };
}
use release_accessors;

/// Optional parameters of an operation on a release.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReleaseParams<'a> {
    /// Name of the normal release that a gray one is promoted to.
    pub(crate) new_name: Option<&'a str>,
    /// True if the previous normal release replaces the one that is withdrawn.
    pub(crate) to_previous: bool,
    pub(crate) comment: &'a str,
    pub(crate) rollout_control: RolloutControl<'a>,
}

/// Implements the parameters of an operation from the fields that drafts of both kinds have.
macro_rules! release_params {
    ($($draft:ident: $description:ident),+) => {
        $( impl<'a> From<&'a $draft> for ReleaseParams<'a> {
            fn from(draft: &'a $draft) -> Self {
                ReleaseParams {
                    new_name: draft.new_release_name.as_deref().filter(|name| !name.is_empty()),
                    to_previous: draft.to_previous.unwrap_or_default(),
                    comment: draft.$description.as_deref().unwrap_or_default(),
                    rollout_control: draft.rollout_control(),
                }
            }
        } )+
    };
}
release_params!(ConfigReleaseDraft: release_description, RuleReleaseDraft: description);

impl Catalog {
    /// Checks the limits of planned releases, which retention does not remove.
    pub(crate) fn admits_plan<'a, R: Releasable + 'a>(
        siblings: impl Iterator<Item = &'a Arc<R>>,
        ctx: &Ctx,
        at: Option<Timestamp>,
    ) -> Result<(), Refusal> {
        let is_scheduled = |sibling: &&Arc<R>| sibling.state() == ReleaseState::Scheduled;
        let latest = Timestamp(ctx.time.0.saturating_add(limits::SCHEDULED_AHEAD_MS_MAX));
        if at.is_some_and(|at| at > latest) {
            return Err(Refusal::new(Code::InvalidParameter, "publish_at is more than a year ahead"));
        }
        if later(ctx, at).is_none() || siblings.filter(is_scheduled).count() < limits::SCHEDULED_RELEASES_MAX {
            return Ok(());
        }
        Err(too_many("releases of it that are to be published later", limits::SCHEDULED_RELEASES_MAX))
    }

    /// Returns the normal release that was in force before this one, if it is still stored.
    pub(crate) fn earlier_normal<R: Releasable>(&self, normal: &R) -> Option<Arc<R>> {
        let may_return = |release: &Arc<R>| release.state() == ReleaseState::NormalInactive;
        normal.siblings(self).into_iter().filter(may_return).max_by_key(|release| release.version())
    }

    /// Returns the name of the release of a thing that has this version now.
    pub fn release_named_by_version(&self, thing: &Thing, version: u64) -> Option<String> {
        match thing {
            Thing::File(key) => {
                let mut releases = self.configs.releases_of(key);
                releases.find(|release| release.version == version).map(|release| release.name.clone())
            }
            Thing::Rule(family, id) => {
                let mut releases = self.rules.of(*family).releases_of(id);
                releases.find(|release| release.version == version).map(|release| release.name.clone())
            }
        }
    }
}

impl Apply<'_> {
    /// Activates a new release, or plans it for later. It has the version that was taken for it, and `comment` of its
    /// author. `besides` is run after its predecessor has become inactive.
    pub(crate) fn begin_release<R: Releasable>(
        &mut self,
        release: R,
        at: Option<Timestamp>,
        comment: &str,
        besides: impl FnOnce(&mut Apply<'_>),
    ) -> Outcome {
        let from = release.in_force(self.catalog);
        let Some(at) = later(self.ctx, at) else {
            let action = published(release.release_type());
            let release = self.show(release, besides);
            self.remember(&*release, action, from.as_deref(), comment);
            return Outcome::done(R::into_entity(release));
        };
        let plan = Plan { at, failed: String::new(), approved: self.ctx.is_approved, author: self.ctx.author.clone() };
        besides(self);
        let release = release.in_state(self.ctx, TargetState::Planned(plan)).insert(self);
        self.remember(&*release, Action::Schedule, from.as_deref(), comment);
        Outcome::done(R::into_entity(release))
    }

    /// Makes a release visible; a normal one replaces its predecessor.
    fn show<R: Releasable>(&mut self, release: R, besides: impl FnOnce(&mut Apply<'_>)) -> Arc<R> {
        if release.release_type() == ReleaseType::Normal
            && let Some(before) = release.in_force(self.catalog)
        {
            before.in_state(self.ctx, TargetState::Inactive).insert(self);
        }
        besides(self);
        let release = release.insert(self);
        release.on_visible_change(self);
        release
    }

    /// Applies the transition of the table to a release.
    pub(crate) fn change_release_of<R: Releasable>(
        &mut self,
        op: ReleaseOp,
        target: Option<Arc<R>>,
        wish: ReleaseParams<'_>,
    ) -> Outcome {
        let state = target.as_ref().map_or(ReleaseState::Missing, |release| release.state());
        let entity = target.clone().map_or(Entity::None, R::into_entity);
        match (transition(op, state), target) {
            (Transition::Refuse(refusal), _) => Outcome { entity, ..refusal.into() },
            (Transition::Stay(code), _) => Outcome { entity, ..code.into() },
            (_, None) => Code::NotFoundResource.into(),
            (Transition::Activate, Some(target)) => self.activate_again(&*target, Action::Rollback, wish.comment),
            (Transition::Deactivate, Some(target)) => {
                let target =
                    target.with_rollout(self.ctx, |rollout| rollout.halted(RolloutState::Stopped, wish.comment));
                self.deactivate(&target, Action::Stop, wish.comment)
            }
            (Transition::Promote, Some(target)) => self.promote(&*target, wish),
            (Transition::Withdraw, Some(target)) => self.withdraw(&*target, wish),
            (Transition::Roll, Some(target)) => self.steer(op, &*target, wish),
            (Transition::Remove, Some(target)) => {
                let from = target.in_force(self.catalog);
                target.remove(self);
                self.remember(&*target, Action::Delete, from.as_deref(), wish.comment);
                Outcome::done(entity)
            }
        }
    }

    fn activate_again<R: Releasable>(&mut self, target: &R, action: Action, comment: &str) -> Outcome {
        let from = target.in_force(self.catalog);
        let version = target.take_version(self);
        // The approval was for the publication. After a rollback, its steps need a new one.
        let keeps_approval = action != Action::Rollback;
        let target = target.with_rollout(self.ctx, |rollout| StagedRollout {
            approved: rollout.approved && keeps_approval,
            ..rollout.at_step(rollout.step, self.ctx.time)
        });
        let release = self.show(target.in_state(self.ctx, TargetState::Active(version)), |_| ());
        self.remember(&*release, action, from.as_deref(), comment);
        Outcome::done(R::into_entity(release))
    }

    fn deactivate<R: Releasable>(&mut self, target: &R, action: Action, comment: &str) -> Outcome {
        let from = target.in_force(self.catalog);
        let release = target.in_state(self.ctx, TargetState::Inactive).insert(self);
        release.on_visible_change(self);
        self.remember(&*release, action, from.as_deref(), comment);
        Outcome::done(R::into_entity(release))
    }

    /// Promotes in one step, so that clients of the gray release see nothing else in between.
    fn promote<R: Releasable>(&mut self, gray: &R, wish: ReleaseParams<'_>) -> Outcome {
        let has_name = |name: &str| gray.siblings(self.catalog).into_iter().find(|release| release.name() == name);
        if let Some(taken) = wish.new_name.and_then(has_name) {
            let refusal = Refusal::new(Code::ExistedResource, "there is a release of this name");
            return Outcome { entity: R::into_entity(taken), ..refusal.into() };
        }
        let from = gray.in_force(self.catalog);
        let version = gray.take_version(self);
        // The cluster acts by a plan in the name of its author.
        let acting = self.ctx.in_name_of(if self.ctx.by == CLUSTER { gray.author() } else { &self.ctx.by });
        let name = wish.new_name.map_or_else(|| gray.free_name(self.catalog, &acting, version), str::to_owned);
        let normal = gray.promoted(&acting, name, version);
        gray.with_rollout(self.ctx, StagedRollout::done).in_state(self.ctx, TargetState::Inactive).insert(self);
        let normal = self.under(&acting).show(normal, |_| ());
        self.ctx.draw_after(&acting);
        self.under(&acting).remember(&*normal, Action::Promote, from.as_deref(), wish.comment);
        Outcome::done(R::into_entity(normal))
    }

    fn withdraw<R: Releasable>(&mut self, normal: &R, wish: ReleaseParams<'_>) -> Outcome {
        if !wish.to_previous {
            return self.deactivate(normal, Action::Withdraw, wish.comment);
        }
        let Some(previous) = self.catalog.earlier_normal(normal) else {
            return Refusal::new(Code::NotFoundResource, "there is no earlier normal release to go back to").into();
        };
        self.activate_again(&*previous, Action::Withdraw, wish.comment)
    }

    fn remember<R: Releasable>(&mut self, release: &R, action: Action, from: Option<&R>, comment: &str) {
        let is_planned = !matches!(action, Action::RolloutPaused | Action::RolloutResumed | Action::RolloutStopped);
        let event = Event {
            time: self.ctx.time,
            // A planned action is recorded in the name of its author.
            user: if self.ctx.by == CLUSTER && is_planned { release.author().to_owned() } else { self.ctx.by.clone() },
            action,
            release_name: release.name().to_owned(),
            version: release.version(),
            from_version: from.map_or(0, Archived::version),
            comment: comment.to_owned(),
        };
        let thing = release.of();
        self.emit_release(&thing, &event, release.rollout());
        self.catalog.history.add(thing, event, self.changes);
    }
}

/// Refuses an item that was validated against another state than the present one.
pub(crate) fn refuse_unpinned(pin: Option<&Pin>, now: &Pin, changes: &mut ChangeSet) -> Option<Outcome> {
    let pin = pin.filter(|pin| !pin.is_of(now))?;
    if pin.comes_again {
        changes.leave_out();
    }
    let refusal = Refusal::new(Code::DataConflict, "what it was judged by was changed meanwhile: try again");
    Some(Outcome { overtaken: true, ..refusal.into() })
}

/// Returns the planned time if it is in the future.
pub(crate) fn later(ctx: &Ctx, at: Option<Timestamp>) -> Option<Timestamp> {
    at.filter(|at| *at > ctx.sure())
}

fn published(release_type: ReleaseType) -> Action {
    match release_type {
        ReleaseType::Normal => Action::Publish,
        ReleaseType::Gray => Action::Gray,
    }
}

/// Returns the SHA-256 of the stored form of a value, in hex.
fn digest_of(kept: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    pack::put(kept, &mut bytes);
    hex::encode(Sha256::digest(bytes))
}

/// Appends to a name until it is unused; a caller may have taken the generated one.
fn free(mut name: String, is_free: impl Fn(&str) -> bool) -> String {
    while !is_free(&name) {
        name.push('x');
    }
    name
}
