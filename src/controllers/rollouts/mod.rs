//! Rollouts by steps: the leader measures the guards of those that live, and proposes what is due.
//!
//! A guard that is broken stops its rollout; one that cannot be measured holds it, and pauses it after
//! [`MISSED_MAX`] looks in a row. A step is taken once its hold is over and every guard was measured in the same look.
//! Nothing is kept here but the looks that missed: a leader that comes begins with the next look.

mod guards;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::Controller;
use crate::catalog::Command;
use crate::catalog::history::Thing;
use crate::catalog::releases::{LiveRollout, RolloutChange, RolloutMove};
use crate::format::level::Level;
use crate::model::code::Refusal;
use crate::model::limits;
use crate::model::rollout::RolloutState;
use crate::outbound::prometheus::Prometheus;
use crate::raft::node::Node;
use crate::raft::{Lead, NotCommitted};
use guards::Measured;

/// Between two looks while there is nothing to measure, and so how late a step may be.
const ROUND: Duration = Duration::from_millis(500);
/// Between two looks at guards.
const ROUND_OF_GUARDS: Duration = Duration::from_secs(1);
/// Between the end of a look and the next one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Looks in a row at which a guard could not be measured, before the rollout pauses.
const MISSED_MAX: u32 = 3;
/// Rollouts that are measured at the same time.
const MEASURED_AT_ONCE: usize = 16;

/// Judge of last steps by contracts: the reason to refuse one; `Err` where it could not be judged.
pub type LastStepJudge = Arc<dyn Fn(LiveRollout) -> BoxFuture<'static, Result<Option<String>, Refusal>> + Send + Sync>;

/// Controller of rollouts.
pub struct Rollouts {
    prometheus: Option<Prometheus>,
    judge: LastStepJudge,
    missed: BTreeMap<(Thing, String), u32>,
}

impl Rollouts {
    pub fn new(prometheus: Option<Prometheus>, judge: LastStepJudge) -> Rollouts {
        Rollouts { prometheus, judge, missed: BTreeMap::new() }
    }

    /// Change that is due, by what was measured.
    fn due(&mut self, lead: &Lead, live: &LiveRollout, measured: Measured) -> Option<RolloutChange> {
        let key = (live.thing.clone(), live.release_name.clone());
        let missing = match measured {
            Measured::Broken(value) => return Some(RolloutChange::Stop(value)),
            Measured::Missing(why) => why,
            Measured::Kept => {
                self.missed.remove(&key);
                let is_over = live.rollout.next_at().is_some_and(|at| at <= lead.node().now());
                return match live.rollout.state {
                    RolloutState::Paused if live.rollout.waits => Some(RolloutChange::GoOn),
                    _ => is_over.then_some(RolloutChange::Advance),
                };
            }
        };
        let missed = self.missed.entry(key).or_default();
        *missed = missed.saturating_add(1);
        let is_to_pause = *missed >= MISSED_MAX && live.rollout.state == RolloutState::Running;
        is_to_pause.then_some(RolloutChange::Wait(missing))
    }
}

impl Controller for Rollouts {
    async fn act(&mut self, lead: &Lead) -> Duration {
        let all = lead.catalog().live_rollouts();
        self.missed
            .retain(|(thing, name), _| all.iter().any(|live| live.thing == *thing && live.release_name == *name));
        if all.is_empty() || lead.node().state().level() < Level::APPROVAL {
            return ROUND;
        }
        let (prometheus, began) = (&self.prometheus, Instant::now());
        let measured: Vec<(LiveRollout, Measured)> = stream::iter(all)
            .map(|live| async move {
                let measured = guards::measure(lead.node(), prometheus.as_ref(), &live).await;
                (live, measured)
            })
            .buffered(MEASURED_AT_ONCE)
            .collect()
            .await;
        let has_guards = measured.iter().any(|(live, _)| !live.rollout.plan.guards.is_empty());
        let mut moves = Vec::new();
        for (live, measured) in measured {
            if let Some(mut change) = self.due(lead, &live, measured) {
                if change == RolloutChange::Advance && live.rollout.is_next_last() {
                    match (self.judge)(live.clone()).await {
                        Ok(None) => {}
                        Ok(Some(why)) => change = RolloutChange::Pause(why),
                        // Not this time: the next look asks again.
                        Err(refusal) => {
                            let (release_name, why) = (&live.release_name, refusal.info());
                            tracing::warn!(release_name, why, "contracts cannot judge the last step of a rollout");
                            continue;
                        }
                    }
                }
                let LiveRollout { thing, release_name, rollout, .. } = live;
                moves.push(RolloutMove { thing, release_name, step: rollout.step, change });
            }
        }
        for moves in moves.chunks(limits::BATCH_ITEMS_MAX) {
            match lead.propose("steps of rollouts", Command::Rollouts(moves.to_vec())).await {
                Ok(()) => moves.iter().for_each(|moved| tell(lead.node(), moved)),
                // Found again at the next look.
                Err(NotCommitted::Refused(_) | NotCommitted::Failed) => {}
            }
        }
        // One that is slow to measure is measured as often.
        let pause = if has_guards { ROUND_OF_GUARDS.saturating_sub(began.elapsed()) } else { ROUND };
        pause.max(PAUSE_MIN)
    }

    fn stand_down(&mut self) {
        self.missed.clear();
    }
}

/// Tells the log and the metrics of a change that was proposed.
fn tell(node: &Node, moved: &RolloutMove) {
    let RolloutMove { thing, release_name, step, change } = moved;
    let thing = match thing {
        Thing::File(key) => format!("configfile {}/{}/{}", key.namespace, key.group, key.file),
        Thing::Rule(family, id) => format!("{} {id}", family.word()),
    };
    match change {
        RolloutChange::Advance => tracing::info!(thing, release_name, step, "a step of a rollout is over"),
        RolloutChange::GoOn => tracing::info!(thing, release_name, step, "a rollout goes on"),
        RolloutChange::Wait(why) | RolloutChange::Pause(why) => {
            tracing::warn!(thing, release_name, step, why, "a rollout pauses");
        }
        RolloutChange::Stop(why) => {
            let guard = why.split(':').next().unwrap_or_default();
            node.metrics().rollouts_stopped.with_label_values(&[guard]).inc();
            tracing::warn!(thing, release_name, step, why, "a guard stops a rollout");
        }
    }
}
