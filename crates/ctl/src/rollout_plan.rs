//! Options of a publish that begins a rollout: its steps and guards.

use clap::Args;
use serde_json::Value;
use thuban_model::rollout::typed::{self, Steps};
use thuban_model::rollout::{Guard, RolloutPlan};

/// Steps and guards of a gray release.
#[derive(Args)]
pub(super) struct PlanArgs {
    /// Steps of a gray release: shares, each with the time that it holds: 5%:10m,25%:30m,100%; the last one is 100%
    #[arg(long, value_name = "STEPS", value_parser = typed::read_steps, conflicts_with = "percent")]
    plan: Option<Steps>,
    /// Guard that stops the rollout; may be repeated: refused=1 (% of its clients that could not apply it), health=10
    /// (percentage points more unhealthy instances), signal (`thuban rollout signal`), prometheus=QUERY>VALUE or
    /// QUERY<VALUE
    #[arg(long, value_name = "GUARD", value_parser = typed::read_guard, requires = "plan")]
    guard: Vec<Guard>,
    /// Use no guards [default: refused=1 and health=10, which pass while there is nothing to measure]
    #[arg(long, requires = "plan", conflicts_with = "guard")]
    no_guards: bool,
}

impl PlanArgs {
    /// Returns the plan for a publish, if the options have one.
    pub(super) fn plan(&self, by: &str) -> Option<Value> {
        let Steps(steps) = self.plan.clone()?;
        let guards = match self.guard.is_empty() && !self.no_guards {
            true => Guard::defaults(),
            false => self.guard.clone(),
        };
        let plan = RolloutPlan { by: by.to_owned(), steps, guards };
        serde_json::to_value(plan).ok()
    }
}
