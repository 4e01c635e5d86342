//! Rollouts by steps: the leader measures the guards of the live ones, and proposes what is due.
//!
//! Each rollout is measured by its own task, so that none waits for the guards of another one, and changes are proposed
//! as the measurements end. A broken guard stops its rollout. One that cannot be measured holds the step, and pauses
//! the rollout once the step is due: at once if no client has the release, after [`FAULTS_MAX`] consecutive
//! measurements if something does not answer. The rollout resumes by itself, with a new hold, once all guards are
//! measured again. A step is made once its hold is over and every guard was measured in the same measurement.
//!
//! Only the measurements are stored here: a new leader starts with the next one.

mod guards;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::Controller;
use crate::catalog::Command;
use crate::catalog::history::Thing;
use crate::catalog::releases::{LiveRollout, RolloutChange, RolloutTransition};
use crate::model::code::Refusal;
use crate::model::limits;
use crate::model::rollout::{Guard, RolloutState};
use crate::outbound::prometheus::Prometheus;
use crate::raft::node::Node;
use crate::raft::{Lead, NotCommitted};
use crate::subscribers::Subscribers;
use crate::tasks;
use guards::Measured;

/// Maximum time between two checks of what is due, and so the maximum delay of a step.
const ROUND: Duration = Duration::from_millis(500);
/// Interval between the starts of two measurements of one rollout.
const ROUND_OF_GUARDS: Duration = Duration::from_secs(1);
/// The same interval while an operator has paused it: its clients have the release, so a broken guard still stops it.
const ROUND_WHILE_PAUSED: Duration = Duration::from_secs(15);
/// Minimum pause between two rounds.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Consecutive faulty measurements after which a rollout whose step is due pauses.
const FAULTS_MAX: u32 = 3;
/// Maximum number of parallel measurements; others wait.
const LOOKS_AT_ONCE: usize = 128;
/// Time for which a positive result of contracts is reused.
const VERDICT_HOLDS: Duration = Duration::from_secs(2);

/// Result of checking contracts: the reason to refuse a step, if any; `Err` if they could not be checked.
type StepVerdict = Result<Option<String>, Refusal>;
/// Check of last steps by contracts.
pub type LastStepJudge = Arc<dyn Fn(LiveRollout) -> BoxFuture<'static, StepVerdict> + Send + Sync>;

type RolloutKey = (Thing, String);

/// Controller of rollouts.
pub struct Rollouts {
    subscribers: Arc<Subscribers>,
    prometheus: Option<Arc<Prometheus>>,
    judge: LastStepJudge,
    watched: HashMap<RolloutKey, Watched>, // bound: state
    tasks: JoinSet<(LiveRollout, Look)>,   // bound: state
    turns: Arc<Semaphore>,
    seen: Vec<(LiveRollout, Look)>,
}

/// Measurements of one rollout.
#[derive(Default)]
struct Watched {
    looked: Option<Instant>,
    look: Option<AbortHandle>,
    judging: Option<AbortHandle>,
    /// Time at which contracts accepted the last step.
    passed: Option<Instant>,
    faults: u32,
}

/// Result of a task.
enum Look {
    Guards(Measured),
    /// Result of contracts on the last step.
    Contracts(StepVerdict),
}

impl Rollouts {
    pub fn new(subscribers: Arc<Subscribers>, prometheus: Option<Prometheus>, judge: LastStepJudge) -> Rollouts {
        Rollouts {
            subscribers,
            prometheus: prometheus.map(Arc::new),
            judge,
            watched: HashMap::new(),
            tasks: JoinSet::new(),
            turns: Arc::new(Semaphore::new(LOOKS_AT_ONCE)),
            seen: Vec::new(),
        }
    }

    /// Starts to measure the guards of a rollout if it is time; returns the time until the next measurement.
    fn look(&mut self, node: &Node, live: &LiveRollout) -> Duration {
        let is_held_by_hand = live.rollout.state == RolloutState::Paused && !live.rollout.waits;
        let round = if is_held_by_hand { ROUND_WHILE_PAUSED } else { ROUND_OF_GUARDS };
        let watched = self.watched.entry(key_of(live)).or_default();
        if watched.look.as_ref().is_some_and(|look| !look.is_finished()) {
            return round;
        }
        let left = watched.looked.map_or(Duration::ZERO, |looked| round.saturating_sub(looked.elapsed()));
        if !left.is_zero() {
            return left;
        }
        let (node, prometheus, live) = (node.clone(), self.prometheus.clone(), live.clone());
        let (turns, subscribers) = (self.turns.clone(), self.subscribers.clone());
        watched.looked = Some(Instant::now());
        watched.look = Some(tasks::errand_of(&mut self.tasks, async move {
            let _turn = turns.acquire_owned().await;
            let measured = guards::measure(&node, &subscribers, prometheus.as_deref(), &live).await;
            (live, Look::Guards(measured))
        }));
        round
    }

    /// Returns the change that is due by the measurement.
    fn due(&mut self, node: &Node, live: &LiveRollout, measured: Measured) -> Option<RolloutChange> {
        let watched = self.watched.entry(key_of(live)).or_default();
        let is_due = is_due(node, live);
        let is_waiting = live.rollout.state == RolloutState::Paused && live.rollout.waits;
        match measured {
            Measured::Broken(value) => Some(RolloutChange::Stop(value)),
            Measured::Missing { why, is_fault } => {
                watched.faults = watched.faults.saturating_add(1);
                let is_to_pause = is_due && (!is_fault || watched.faults >= FAULTS_MAX);
                is_to_pause.then_some(RolloutChange::Wait(why))
            }
            Measured::Kept | Measured::Unmeasured(_) if is_waiting => {
                watched.faults = 0;
                Some(RolloutChange::GoOn)
            }
            Measured::Kept => {
                watched.faults = 0;
                is_due.then_some(RolloutChange::Advance)
            }
            Measured::Unmeasured(what) => {
                watched.faults = 0;
                is_due.then_some(RolloutChange::AdvanceUnmeasured(what))
            }
        }
    }

    /// Returns the change, if contracts accept it; starts to check them first if it is the last step.
    fn judged(&mut self, live: &LiveRollout, change: RolloutChange) -> Option<RolloutChange> {
        let is_step = matches!(change, RolloutChange::Advance | RolloutChange::AdvanceUnmeasured(_));
        if !is_step || !live.rollout.is_next_last() {
            return Some(change);
        }
        let watched = self.watched.entry(key_of(live)).or_default();
        if watched.passed.is_some_and(|passed| passed.elapsed() < VERDICT_HOLDS) {
            return Some(change);
        }
        if watched.judging.as_ref().is_none_or(AbortHandle::is_finished) {
            let (judge, live) = ((self.judge)(live.clone()), live.clone());
            watched.judging =
                Some(tasks::errand_of(&mut self.tasks, async move { (live, Look::Contracts(judge.await)) }));
        }
        None
    }

    /// Returns the change that is due by the result of a task on a rollout in its current state.
    fn change_by(&mut self, node: &Node, live: &LiveRollout, seen: Look) -> Option<RolloutChange> {
        match seen {
            Look::Guards(measured) => self.due(node, live, measured).and_then(|change| self.judged(live, change)),
            Look::Contracts(Ok(Some(why))) => Some(RolloutChange::Pause(why)),
            // Not this time: contracts are checked again after the next measurement.
            Look::Contracts(Err(refusal)) => {
                let (release_name, why) = (&live.release_name, refusal.info());
                tracing::warn!(release_name, why, "contracts cannot judge the last step of a rollout");
                None
            }
            Look::Contracts(Ok(None)) => {
                let watched = self.watched.entry(key_of(live)).or_default();
                // Measured again at once, because the check may have taken long.
                (watched.passed, watched.looked) = (Some(Instant::now()), None);
                None
            }
        }
    }

    async fn propose(&mut self, lead: &Lead, moves: Vec<RolloutTransition>) {
        for moves in moves.chunks(limits::BATCH_ITEMS_MAX) {
            match lead.propose("steps of rollouts", Command::Rollouts(moves.to_vec())).await {
                Ok(()) => moves.iter().for_each(|moved| tell(lead.node(), moved)),
                // Found again by the next measurement.
                Err(NotCommitted::Refused(_) | NotCommitted::Failed) => {}
            }
        }
    }
}

fn key_of(live: &LiveRollout) -> RolloutKey {
    (live.thing.clone(), live.release_name.clone())
}

fn is_due(node: &Node, live: &LiveRollout) -> bool {
    live.rollout.next_at().is_some_and(|at| at <= node.sure_now())
}

fn is_measured(live: &LiveRollout) -> bool {
    live.rollout.plan.guards.iter().any(Guard::is_measured)
}

/// Reports whether a measurement of a rollout belongs to its current step.
fn is_same(seen: &LiveRollout, now: &LiveRollout) -> bool {
    key_of(seen) == key_of(now) && seen.version == now.version && seen.rollout == now.rollout
}

impl Controller for Rollouts {
    async fn act(&mut self, lead: &Lead) -> Duration {
        let all = lead.catalog().live_rollouts();
        let keys: std::collections::HashSet<RolloutKey> = all.iter().map(key_of).collect();
        self.watched.retain(|key, _| keys.contains(key));
        while let Some(ended) = self.tasks.try_join_next() {
            self.seen.extend(ended.ok());
        }
        if all.is_empty() {
            self.seen.clear();
            return ROUND;
        }
        let seen = std::mem::take(&mut self.seen);
        let by_key: HashMap<RolloutKey, &LiveRollout> = all.iter().map(|live| (key_of(live), live)).collect();
        let mut moves = Vec::new();
        for (looked, seen) in seen {
            if let Some(live) = by_key.get(&key_of(&looked)).filter(|live| is_same(&looked, live))
                && let Some(change) = self.change_by(lead.node(), live, seen)
            {
                moves.push(moved(live, change));
            }
        }
        let mut pause = ROUND;
        for live in &all {
            if is_measured(live) {
                pause = pause.min(self.look(lead.node(), live));
            } else if let Some(change) = self.due(lead.node(), live, Measured::Kept)
                && let Some(change) = self.judged(live, change)
            {
                moves.push(moved(live, change));
            }
        }
        self.propose(lead, moves).await;
        pause.max(PAUSE_MIN)
    }

    async fn woken(&mut self) {
        match self.tasks.join_next().await {
            Some(ended) => self.seen.extend(ended.ok()),
            None => std::future::pending().await,
        }
    }

    fn stand_down(&mut self) {
        self.tasks.abort_all();
        self.watched.clear();
        self.seen.clear();
    }
}

fn moved(live: &LiveRollout, change: RolloutChange) -> RolloutTransition {
    live.clone().moved(change)
}

/// Logs and counts a change that was proposed.
fn tell(node: &Node, moved: &RolloutTransition) {
    let RolloutTransition { thing, release_name, step, change, .. } = moved;
    let thing = match thing {
        Thing::File(key) => format!("configfile {}/{}/{}", key.namespace, key.group, key.file),
        Thing::Rule(family, id) => format!("{} {id}", family.word()),
    };
    match change {
        RolloutChange::Advance => tracing::info!(thing, release_name, step, "a rollout finished a step"),
        RolloutChange::AdvanceUnmeasured(what) => {
            tracing::info!(thing, release_name, step, what, "a rollout finished a step");
        }
        RolloutChange::GoOn => tracing::info!(thing, release_name, step, "a rollout resumed"),
        RolloutChange::Wait(why) | RolloutChange::Pause(why) => {
            tracing::warn!(thing, release_name, step, why, "a rollout paused");
        }
        RolloutChange::Stop(why) => {
            let guard = why.split(':').next().unwrap_or_default();
            node.metrics().rollouts_stopped.with_label_values(&[guard]).inc();
            tracing::warn!(thing, release_name, step, why, "a guard stopped a rollout");
        }
    }
}
