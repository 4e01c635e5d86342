//! Course of a rollout, as answers show it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::rollout::{Guard, RolloutState, RolloutStep, StagedRollout};
use crate::model::time::Timestamp;

/// Rollout of a gray release by the steps of its plan.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rollout")]
pub(crate) struct RolloutView<'a> {
    /// Counts from 1.
    step: u32,
    /// Of the clients that it reaches: 0 once it is stopped, 100 once it is done.
    percent: u32,
    /// Time of the next step, `YYYY-MM-DD HH:MM:SS` in UTC; absent unless it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
    state: RolloutState,
    /// Of a pause or a stop, with the value that a guard measured.
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    /// Label that identifies a client.
    by: &'a str,
    steps: &'a [RolloutStep],
    guards: &'a [Guard],
}

impl<'a> RolloutView<'a> {
    pub(crate) fn new(rollout: &'a StagedRollout) -> Self {
        RolloutView {
            step: rollout.step,
            percent: rollout.percent(),
            next_at: rollout.next_at().map(Timestamp::text),
            state: rollout.state,
            reason: &rollout.reason,
            by: &rollout.plan.by,
            steps: &rollout.plan.steps,
            guards: &rollout.plan.guards,
        }
    }
}
