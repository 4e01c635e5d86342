//! View of a rollout.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::rollout::{Guard, RolloutState, RolloutStep, StagedRollout};
use crate::model::time::Timestamp;

/// Stepwise rollout of a gray release.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rollout")]
pub(crate) struct RolloutView<'a> {
    /// Number of the step, from 1.
    step: u32,
    /// Percentage of the clients that have the release: 0 once it is stopped, 100 once it is done.
    percent: u32,
    /// Time of the next step, `YYYY-MM-DD HH:MM:SS` in UTC; present only while the rollout runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
    state: RolloutState,
    /// Reason of a pause or a stop, with the value that a guard measured.
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
