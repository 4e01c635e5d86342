//! Rollouts: the share of a gray release grows by the steps of a plan, and guards stop it.
//!
//! A share only grows, so no client alternates between releases; the last step promotes. Each step lasts for the
//! planned time from its beginning. A paused rollout keeps its share, and its step starts anew when it resumes; a
//! stopped one returns its clients to the normal release.

mod guard;
pub mod typed;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audience::{Audience, ClientPercent};
use super::code::{Code, Refusal};
use super::release::{ReleaseOp, ReleaseType};
use super::sso::SsoAuthor;
use super::time::Timestamp;
use super::wire::{Uint32, Uint64, wire_enum};
use super::{limits, name};

pub use guard::{Guard, Threshold};

/// A share of the clients, and its duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolloutStep {
    /// Percentage from 1 to 100.
    pub percent: Uint32,
    /// Duration in seconds, at most 2592000 (30 days), 0 for none. Required except for the last step, where it has no
    /// effect.
    #[serde(alias = "holdS", skip_serializing_if = "Option::is_none")]
    pub hold_s: Option<Uint64>,
}

/// Plan by which a gray release reaches all clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolloutPlan {
    /// Label that identifies a client: `CLIENT_IP`, or another key. A client without it gets the release with the last
    /// step.
    pub by: String,
    /// 1 to 20 steps with growing shares; the last one has 100 and promotes.
    pub steps: Vec<RolloutStep>,
    /// List of at most 10 guards; `[]` for none. If absent, `refused` with 1 and `health` with 10, marked `default`.
    #[serde(default = "Guard::defaults")]
    pub guards: Vec<Guard>,
}

impl RolloutPlan {
    pub fn check(&self) -> Result<(), Refusal> {
        if self.steps.is_empty() || self.steps.len() > limits::ROLLOUT_STEPS_MAX {
            return Err(invalid(format!("plan.steps: 1 to {} of them", limits::ROLLOUT_STEPS_MAX)));
        }
        let percents = || self.steps.iter().map(|step| step.percent.0);
        if percents().zip(percents().skip(1)).any(|(one, next)| next <= one) || percents().next() == Some(0) {
            return Err(invalid("plan.steps: percent has to grow from step to step, from 1 on".to_owned()));
        }
        if percents().next_back() != Some(100) {
            return Err(invalid("plan.steps: the percent of the last step has to be 100".to_owned()));
        }
        let holding = &self.steps[..self.steps.len() - 1];
        if let Some(at) = holding.iter().position(|step| step.hold_s.is_none()) {
            return Err(invalid(format!("plan.steps[{at}].hold_s is required but for the last step; 0 for none")));
        }
        let mut holds = self.steps.iter().filter_map(|step| step.hold_s);
        if holds.any(|hold_s| hold_s.0 > limits::ROLLOUT_HOLD_S_MAX) {
            return Err(invalid(format!("plan.steps: hold_s has to be at most {}", limits::ROLLOUT_HOLD_S_MAX)));
        }
        if self.guards.len() > limits::ROLLOUT_GUARDS_MAX {
            return Err(invalid(format!("plan.guards: at most {}", limits::ROLLOUT_GUARDS_MAX)));
        }
        self.guards.iter().try_for_each(Guard::check)?;
        let share = self.share(1);
        Audience { labels: &[], percent: Some(&share) }.check()
    }

    /// Returns the share of clients of a step, counted from 1.
    pub fn share(&self, step: u32) -> ClientPercent {
        let index = (step as usize).saturating_sub(1);
        let percent = self.steps.get(index).map_or(Uint32(100), |step| step.percent);
        ClientPercent { by: self.by.clone(), percent }
    }

    /// Returns the duration of a step, counted from 1, in milliseconds.
    pub fn hold_ms(&self, step: u32) -> u64 {
        let index = (step as usize).saturating_sub(1);
        self.steps.get(index).and_then(|step| step.hold_s).map_or(0, |hold_s| hold_s.0.saturating_mul(1000))
    }

    fn last_step(&self) -> u32 {
        self.steps.len() as u32
    }
}

wire_enum! {
    /// State of a rollout.
    pub enum RolloutState {
        Running = "running",
        Paused = "paused",
        /// All clients have the release.
        Done = "done",
        /// Stopped; its clients fell back to the normal release.
        Stopped = "stopped",
    }
}

wire_enum! {
    /// Operation on a rollout.
    pub enum RolloutAction {
        Pause = "pause",
        /// Starts the current step anew.
        Resume = "resume",
        /// Takes the next step now.
        Advance = "advance",
        Stop = "stop",
    }
}

/// State of the rollout of a gray release, stored with the release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedRollout {
    pub plan: RolloutPlan,
    /// Current step, counted from 1.
    pub step: u32,
    /// Beginning of the current step.
    pub since: Timestamp,
    pub state: RolloutState,
    /// Reason of a pause or a stop.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// True if it is paused for lack of a measurement, and resumes by itself once there is one.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub waits: bool,
    /// True if the publication was approved with all its steps, as the policies required then.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub approved: bool,
    /// Claims of an author of an identity provider, while the rollout has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Arc<SsoAuthor>>,
}

impl StagedRollout {
    pub fn begin(plan: RolloutPlan, now: Timestamp, approved: bool) -> StagedRollout {
        StagedRollout { plan, step: 1, since: now, approved, ..StagedRollout::default() }
    }

    /// Returns the same rollout, without the claims of its author if it has ended.
    pub fn without_spent_claims(self) -> StagedRollout {
        let author = self.author.clone().filter(|_| self.is_live());
        StagedRollout { author, ..self }
    }

    /// Reports whether the rollout has not ended.
    pub fn is_live(&self) -> bool {
        matches!(self.state, RolloutState::Running | RolloutState::Paused)
    }

    /// Reports whether the next step promotes.
    pub fn is_next_last(&self) -> bool {
        self.step.saturating_add(1) >= self.plan.last_step()
    }

    /// Returns the time of the next step while the rollout is running.
    pub fn next_at(&self) -> Option<Timestamp> {
        let at = self.since.0.saturating_add(self.plan.hold_ms(self.step));
        (self.state == RolloutState::Running).then_some(Timestamp(at))
    }

    /// Returns the percentage of the clients that it covers.
    pub fn percent(&self) -> u32 {
        match self.state {
            RolloutState::Done => 100,
            RolloutState::Stopped => 0,
            RolloutState::Running | RolloutState::Paused => self.plan.share(self.step).percent.0,
        }
    }

    /// Returns the rollout, running from now at this step.
    #[must_use]
    pub fn at_step(&self, step: u32, now: Timestamp) -> StagedRollout {
        let (state, reason) = (RolloutState::Running, String::new());
        StagedRollout { step, since: now, state, reason, waits: false, ..self.clone() }
    }

    /// Returns the rollout after its promotion.
    #[must_use]
    pub fn done(&self) -> StagedRollout {
        let (state, reason) = (RolloutState::Done, String::new());
        StagedRollout { step: self.plan.last_step(), state, reason, waits: false, ..self.clone() }
    }

    #[must_use]
    pub fn halted(&self, state: RolloutState, reason: &str) -> StagedRollout {
        StagedRollout { state, reason: reason.to_owned(), waits: false, ..self.clone() }
    }
}

/// Rollout fields of a draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutControl<'a> {
    /// Plan of a gray publication.
    pub plan: Option<&'a RolloutPlan>,
    pub action: Option<RolloutAction>,
    /// Result of a signal.
    pub ok: Option<bool>,
    pub reason: &'a str,
    pub comment: &'a str,
}

impl RolloutControl<'_> {
    /// Checks the fields for a publication; `percent` is the share given in addition.
    pub fn check_publish(self, release_type: ReleaseType, percent: Option<&ClientPercent>) -> Result<(), Refusal> {
        let Some(plan) = self.plan else { return Ok(()) };
        if release_type != ReleaseType::Gray {
            return Err(invalid("plan: only a gray release is rolled out by steps".to_owned()));
        }
        if percent.is_some() {
            return Err(invalid("client_percent: the plan has the share".to_owned()));
        }
        plan.check()
    }

    /// Refuses an operation that lacks a required field.
    pub fn check(self, op: ReleaseOp) -> Result<(), Refusal> {
        let code = Code::InvalidParameter;
        name::check_length("reason", self.reason, limits::COMMENT_CHARS_MAX, code)?;
        name::check_length("comment", self.comment, limits::COMMENT_CHARS_MAX, code)?;
        match op {
            ReleaseOp::Rollout if self.action.is_none() => {
                Err(invalid("action is required: pause, resume, advance or stop".to_owned()))
            }
            ReleaseOp::Signal if self.ok.is_none() => Err(invalid("ok is required: true or false".to_owned())),
            _ => Ok(()),
        }
    }
}

/// Implements [`RolloutControl`] and the initial share for a draft, from the fields of the same names.
macro_rules! rollout_control_fields {
    ($draft:ty: $description:ident) => {
        impl $draft {
            /// Returns the rollout fields. For an action or a signal, the description replaces an absent reason or
            /// comment.
            pub fn rollout_control(&self) -> $crate::rollout::RolloutControl<'_> {
                let described = self.action.is_some() || self.ok.is_some();
                let description = self.$description.as_deref().filter(|_| described).unwrap_or_default();
                $crate::rollout::RolloutControl {
                    plan: self.plan.as_ref(),
                    action: self.action,
                    ok: self.ok,
                    reason: self.reason.as_deref().filter(|text| !text.is_empty()).unwrap_or(description),
                    comment: self.comment.as_deref().filter(|text| !text.is_empty()).unwrap_or(description),
                }
            }

            /// Returns the initial share of the clients.
            pub fn share(&self) -> Option<ClientPercent> {
                self.plan.as_ref().map(|plan| plan.share(1)).or_else(|| self.client_percent.clone())
            }

            pub fn is_for_everybody(&self) -> bool {
                self.plan.is_none() && self.audience().is_everybody()
            }
        }
    };
}

pub(crate) use rollout_control_fields;

/// Reports whether an operation gives a gray release to all clients.
pub fn gives_to_all(op: ReleaseOp, action: Option<RolloutAction>, rollout: Option<&StagedRollout>) -> bool {
    match op {
        ReleaseOp::Promote => true,
        ReleaseOp::Rollout => {
            action == Some(RolloutAction::Advance) && rollout.is_some_and(StagedRollout::is_next_last)
        }
        _ => false,
    }
}

fn invalid(why: String) -> Refusal {
    Refusal::new(Code::InvalidParameter, why)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::format::pack;

    fn plan(json: Value) -> Result<RolloutPlan, String> {
        let plan: RolloutPlan = serde_json::from_value(json).map_err(|error| error.to_string())?;
        plan.check().map_err(|refusal| refusal.detail)?;
        Ok(plan)
    }

    #[test]
    fn plans_that_do_not_grow_to_all_are_refused() {
        let of = |steps: Value| plan(json!({ "by": "CLIENT_IP", "steps": steps }));
        assert!(of(json!([{"percent": 5, "hold_s": 600}, {"percent": "25", "holdS": 0}, {"percent": 100}])).is_ok());
        assert!(of(json!([{"percent": 100}])).is_ok());
        let rows = [
            (json!([]), "1 to 20"),
            (json!([{"percent": 0}, {"percent": 100}]), "grow"),
            (json!([{"percent": 5}, {"percent": 5}, {"percent": 100}]), "grow"),
            (json!([{"percent": 5}, {"percent": 101}]), "the last step"),
            (json!([{"percent": 5}, {"percent": 100}]), "steps[0].hold_s is required"),
            (json!([{"percent": 5, "hold": 9}, {"percent": 100, "hold_s": 9}]), "steps[0].hold_s is required"),
            (json!([{"percent": 5, "hold_s": 9}, {"percent": 9}, {"percent": 100}]), "steps[1].hold_s is required"),
            (json!([{"percent": 5}, {"percent": 99}]), "the last step"),
            (json!([{"percent": 5, "hold_s": 2_592_001}, {"percent": 100}]), "2592000"),
            (json!((1..=21).map(|n| json!({"percent": n})).collect::<Vec<_>>()), "1 to 20"),
        ];
        for (steps, why) in rows {
            let refusal = of(steps.clone()).expect_err("refused");
            assert!(refusal.contains(why), "{steps}: {refusal}");
        }
        let nobody = plan(json!({ "steps": [{"percent": 100}] })).expect_err("by whom");
        assert!(nobody.contains("by is required"), "{nobody}");
    }

    #[test]
    fn guards_are_read_and_kept_as_they_are_given() {
        let of = |guard: Value| plan(json!({ "by": "zone", "steps": [{"percent": 100}], "guards": [guard] }));
        let rows = [
            json!({"kind": "refused", "max_percent": 0.5}),
            json!({"kind": "health", "max_worse_percent": 10.0}),
            json!({"kind": "refused", "max_percent": 1.0, "default": true}),
            json!({"kind": "signal"}),
            json!({"kind": "prometheus", "query": "up", "above": -1.0}),
        ];
        for guard in rows {
            let read = of(guard.clone()).expect("a guard");
            assert_eq!(serde_json::to_value(&read.guards[0]).expect("JSON"), guard);
            assert_eq!(pack::from_bytes::<RolloutPlan>(&pack::to_bytes(&read)).expect("as kept"), read);
        }
        let camel = of(json!({"kind": "health", "maxWorsePercent": 3})).expect("a guard");
        assert_eq!(camel.guards, of(json!({"kind": "health", "max_worse_percent": 3})).expect("a guard").guards);
        let rows = [
            (json!({"kind": "latency"}), "unknown variant"),
            (json!({"kind": "refused"}), "max_percent"),
            (json!({"kind": "refused", "max_percent": 101}), "0 to 100"),
            (json!({"kind": "prometheus", "query": "up"}), "either above or below"),
            (json!({"kind": "prometheus", "query": " ", "above": 1}), "query is required"),
            (json!({"kind": "prometheus", "query": "up", "above": 1, "below": 0}), "either above or below"),
            (json!({"kind": "health", "max_percent": 1}), "max_percent does not belong to a guard of the kind health"),
            (json!({"kind": "signal", "default": true}), "default does not belong to a guard of the kind signal"),
        ];
        for (guard, why) in rows {
            let refusal = of(guard.clone()).expect_err("refused");
            assert!(refusal.contains(why), "{guard}: {refusal}");
        }
    }

    #[test]
    fn a_plan_without_guards_gets_the_default_ones() {
        let steps = json!([{"percent": 100}]);
        let without = plan(json!({ "by": "zone", "steps": steps })).expect("a plan");
        let expected = json!([
            {"kind": "refused", "max_percent": 1.0, "default": true},
            {"kind": "health", "max_worse_percent": 10.0, "default": true},
        ]);
        assert_eq!(json!(without.guards), expected);
        assert_eq!(pack::from_bytes::<RolloutPlan>(&pack::to_bytes(&without)).expect("as kept"), without);
        let none = plan(json!({ "by": "zone", "steps": steps, "guards": [] })).expect("a plan");
        assert_eq!(none.guards, []);
        assert_eq!(pack::from_bytes::<RolloutPlan>(&pack::to_bytes(&none)).expect("as kept"), none);
    }

    #[test]
    fn the_last_but_one_step_leads_to_all() {
        let steps = json!([{"percent": 5, "hold_s": 60}, {"percent": 50, "hold_s": 30}, {"percent": 100}]);
        let plan = plan(json!({ "by": "CLIENT_IP", "steps": steps })).expect("a plan");
        let first = StagedRollout::begin(plan, Timestamp(1000), false);
        assert_eq!((first.percent(), first.next_at(), first.is_next_last()), (5, Some(Timestamp(61_000)), false));
        let second = first.at_step(2, Timestamp(70_000));
        assert_eq!((second.percent(), second.next_at(), second.is_next_last()), (50, Some(Timestamp(100_000)), true));
        let paused = second.halted(RolloutState::Paused, "why");
        assert_eq!((paused.percent(), paused.next_at(), paused.is_live()), (50, None, true));
        let done = paused.done();
        assert_eq!((done.step, done.percent(), done.is_live(), done.reason.as_str()), (3, 100, false, ""));
        assert_eq!(second.halted(RolloutState::Stopped, "why").percent(), 0);
    }
}
