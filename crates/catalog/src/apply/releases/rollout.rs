//! Rollouts by steps: callers control them, the leader advances them, and apply authorizes each step as if it were
//! requested at that moment.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Releasable, ReleaseParams};
use crate::catalog::Catalog;
use crate::catalog::change::Outcome;
use crate::catalog::ctx::Apply;
use crate::catalog::history::Thing;
use crate::model::code::{Code, Refusal};
use crate::model::policy::Gate;
use crate::model::release::{Action, ReleaseOp};
use crate::model::rollout::{Guard, RolloutAction, RolloutPlan, RolloutState, StagedRollout};

/// Change of a rollout that the leader found due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutTransition {
    pub thing: Thing,
    pub release_name: String,
    /// Id of the release that the leader found under that name; a change for another release is ignored.
    pub release_id: String,
    /// Revision of the copied rule, which no other rule has; empty for a file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule_revision: String,
    pub version: u64,
    /// Step at which the leader found it; a change for another step is ignored.
    pub step: u32,
    pub change: RolloutChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolloutChange {
    /// The hold of the step is over.
    Advance,
    /// The hold is over, and default guards had nothing to measure: their names and reasons.
    AdvanceUnmeasured(String),
    /// A guard cannot be measured, for this reason.
    Wait(String),
    /// The guard can be measured again.
    GoOn,
    /// A guard is broken, with the measured value.
    Stop(String),
    /// The next step is refused, for this reason.
    Pause(String),
}

/// A rollout with steps left.
#[derive(Clone, Debug)]
pub struct LiveRollout {
    pub thing: Thing,
    pub release_name: String,
    pub release_id: String,
    pub rule_revision: String,
    pub version: u64,
    pub rollout: StagedRollout,
}

impl LiveRollout {
    fn of<R: Releasable>(release: &R) -> Option<LiveRollout> {
        let rollout = release.rollout()?.clone();
        let (thing, release_name, release_id) = (release.of(), release.name().to_owned(), release.id());
        let (rule_revision, version) = (release.rule_revision().to_owned(), release.version());
        Some(LiveRollout { thing, release_name, release_id, rule_revision, version, rollout })
    }
}

impl LiveRollout {
    /// Returns the transition for a change of the rollout as found.
    pub fn moved(self, change: RolloutChange) -> RolloutTransition {
        let LiveRollout { thing, release_name, release_id, rule_revision, version, rollout } = self;
        RolloutTransition { thing, release_name, release_id, rule_revision, version, step: rollout.step, change }
    }
}

impl Catalog {
    /// Returns the rollouts with steps left, files first.
    pub fn live_rollouts(&self) -> Vec<LiveRollout> {
        let files = self.configs.rolling().filter_map(|release| LiveRollout::of(&**release));
        let rules = self.rules.rolling().filter_map(|release| LiveRollout::of(&**release));
        files.chain(rules).collect()
    }

    /// Returns the gate of an action that advances a rollout; its last step is a promotion.
    pub(crate) fn gate_of_next_step<R: Releasable>(release: &R) -> Gate {
        let promotes = release.rollout().is_some_and(StagedRollout::is_next_last);
        if promotes { Gate::Promote } else { Gate::Gray }
    }
}

impl Apply<'_> {
    /// Applies a caller's operation to the rollout of an active gray release.
    pub(super) fn steer<R: Releasable>(&mut self, op: ReleaseOp, release: &R, wish: ReleaseParams<'_>) -> Outcome {
        let Some(rollout) = release.rollout() else {
            return Refusal::new(Code::BadRequest, "it was published without a plan").into();
        };
        let unchanged = || Outcome { entity: R::into_entity(Arc::new(release.clone())), ..Code::NoNeedUpdate.into() };
        let rollout_control = wish.rollout_control;
        let because = |text: &str, default: &str| match text {
            "" => default.to_owned(),
            text => text.to_owned(),
        };
        if op == ReleaseOp::Signal {
            if !rollout.plan.guards.contains(&Guard::Signal {}) {
                return Refusal::new(Code::BadRequest, "its plan has no guard of the kind signal").into();
            }
            if rollout_control.ok != Some(false) {
                return Outcome::done(R::into_entity(Arc::new(release.clone())));
            }
            let reason = format!("signal: {}", because(rollout_control.reason, "not ok"));
            return self.stop_rollout(release, rollout, &reason);
        }
        match rollout_control.action {
            None => Refusal::new(Code::InvalidParameter, "action is required").into(),
            Some(RolloutAction::Pause) if rollout.state == RolloutState::Paused && !rollout.waits => unchanged(),
            Some(RolloutAction::Pause) => {
                let reason = because(rollout_control.comment, "paused");
                self.halt(release, rollout.halted(RolloutState::Paused, &reason))
            }
            Some(RolloutAction::Resume) if rollout.state == RolloutState::Running => unchanged(),
            Some(RolloutAction::Resume) => {
                let resumed = rollout.at_step(rollout.step, self.ctx.time);
                self.roll(release, resumed, (Action::RolloutResumed, rollout_control.comment))
            }
            Some(RolloutAction::Advance) => self.take_next_step(release, rollout, rollout_control.comment),
            Some(RolloutAction::Stop) => {
                let reason = because(rollout_control.comment, "stopped");
                self.stop_rollout(release, rollout, &reason)
            }
        }
    }

    /// Applies a change that the leader found due. Ignored if the name now belongs to another release.
    pub(crate) fn move_rollout(&mut self, found: &RolloutTransition) -> Outcome {
        match &found.thing {
            Thing::File(key) => {
                let release = self.catalog.configs.release(key, &found.release_name).cloned();
                self.move_rollout_of(release, found)
            }
            Thing::Rule(family, id) => {
                let release = self.catalog.rules.of(*family).release(id, &found.release_name).cloned();
                self.move_rollout_of(release, found)
            }
        }
    }

    fn move_rollout_of<R: Releasable>(&mut self, release: Option<Arc<R>>, found: &RolloutTransition) -> Outcome {
        let is_found = |release: &Arc<R>| {
            release.is_rolling()
                && release.version() == found.version
                && release.id() == found.release_id
                && release.rule_revision() == found.rule_revision
        };
        let Some(release) = release.filter(is_found) else { return Code::NoNeedUpdate.into() };
        let Some(rollout) = release.rollout().filter(|rollout| rollout.step == found.step) else {
            return Code::NoNeedUpdate.into();
        };
        let is_running = rollout.state == RolloutState::Running;
        match &found.change {
            RolloutChange::Stop(reason) => self.stop_rollout(&*release, rollout, reason),
            RolloutChange::Pause(reason) if is_running => {
                self.halt(&*release, rollout.halted(RolloutState::Paused, reason))
            }
            RolloutChange::Wait(reason) if is_running => {
                let waiting = StagedRollout { waits: true, ..rollout.halted(RolloutState::Paused, reason) };
                self.halt(&*release, waiting)
            }
            RolloutChange::GoOn if rollout.waits => {
                let resumed = rollout.at_step(rollout.step, self.ctx.time);
                self.roll(&*release, resumed, (Action::RolloutResumed, ""))
            }
            RolloutChange::Advance | RolloutChange::AdvanceUnmeasured(_)
                if rollout.next_at().is_some_and(|at| at <= self.ctx.sure()) =>
            {
                let gate = Catalog::gate_of_next_step(&*release);
                let verdict = self
                    .catalog
                    .check_author(self.ctx, &*release)
                    .and_then(|()| self.catalog.check_planned(self.ctx, (&release.of(), gate), rollout.approved));
                match verdict {
                    Ok(()) => {
                        let comment = match &found.change {
                            RolloutChange::AdvanceUnmeasured(unmeasured) => unmeasured,
                            _ => "",
                        };
                        self.take_next_step(&*release, rollout, comment)
                    }
                    Err(refusal) => self.halt(&*release, rollout.halted(RolloutState::Paused, &refusal.detail)),
                }
            }
            _ => Code::NoNeedUpdate.into(),
        }
    }

    fn take_next_step<R: Releasable>(&mut self, release: &R, rollout: &StagedRollout, comment: &str) -> Outcome {
        if rollout.is_next_last() {
            return self.promote(release, ReleaseParams { comment, ..ReleaseParams::default() });
        }
        let next = rollout.at_step(rollout.step + 1, self.ctx.time);
        let told = match comment {
            "" => format!("step {}: {} %", next.step, next.percent()),
            comment => format!("step {}: {} %: {comment}", next.step, next.percent()),
        };
        self.roll(release, next, (Action::RolloutStep, &told))
    }

    /// Stops a rollout; its clients fall back to the release in force.
    fn stop_rollout<R: Releasable>(&mut self, release: &R, rollout: &StagedRollout, reason: &str) -> Outcome {
        let stopped = release.with_rollout_state(self.ctx, rollout.halted(RolloutState::Stopped, reason));
        self.deactivate(&stopped, Action::RolloutStopped, reason)
    }

    fn halt<R: Releasable>(&mut self, release: &R, rollout: StagedRollout) -> Outcome {
        let reason = rollout.reason.clone();
        self.roll(release, rollout, (Action::RolloutPaused, &reason))
    }

    /// Returns the rollout of a new release of this entry's author.
    pub(crate) fn begin_rollout(&self, plan: RolloutPlan) -> StagedRollout {
        let author = self.ctx.author.clone();
        StagedRollout { author, ..StagedRollout::begin(plan, self.ctx.time, self.ctx.is_approved) }
    }

    /// Changes the dates of live rollouts for which `moved` returns a new state.
    pub(crate) fn redate_rollouts(&mut self, moved: impl Fn(&StagedRollout) -> Option<StagedRollout>) {
        for live in self.catalog.live_rollouts() {
            let Some(rollout) = moved(&live.rollout) else { continue };
            match &live.thing {
                Thing::File(key) => {
                    let release = self.catalog.configs.release(key, &live.release_name).cloned();
                    release.map(|release| release.with_rollout_state(self.ctx, rollout).insert(self));
                }
                Thing::Rule(family, id) => {
                    let release = self.catalog.rules.of(*family).release(id, &live.release_name).cloned();
                    release.map(|release| release.with_rollout_state(self.ctx, rollout).insert(self));
                }
            }
        }
    }

    /// Stores a release with another state of its rollout, under the same version, so clients that have it keep it.
    fn roll<R: Releasable>(
        &mut self,
        release: &R,
        rollout: StagedRollout,
        (action, comment): (Action, &str),
    ) -> Outcome {
        let from = release.in_force(self.catalog);
        let grows = action == Action::RolloutStep;
        let release = release.with_rollout_state(self.ctx, rollout).insert(self);
        if grows {
            release.on_visible_change(self);
        }
        self.remember(&*release, action, from.as_deref(), comment);
        Outcome::done(R::into_entity(release))
    }
}
