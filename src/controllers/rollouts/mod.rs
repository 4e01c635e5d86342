//! Rollouts by steps: the leader measures the guards of those that live, and proposes what is due.
//!
//! Each rollout is looked at by a task of its own, so that none waits for the guards of another one, and what is due is
//! proposed as the looks end. A guard that is broken stops its rollout. One that cannot be measured holds the step, and
//! pauses the rollout once the step is due: at once where nobody has the release, after [`FAULTS_MAX`] looks in a row
//! where something does not answer. It goes on by itself, with a new hold, once all guards are measured again. A step
//! is taken once its hold is over and every guard was measured in the same look.
//!
//! Nothing is kept here but the looks: a leader that comes begins with the next one.

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
use crate::tasks;
use guards::Measured;

/// Longest time between two looks at what is due, and so how late a step may be.
const ROUND: Duration = Duration::from_millis(500);
/// Between the begin of two looks at the guards of one rollout.
const ROUND_OF_GUARDS: Duration = Duration::from_secs(1);
/// The same while somebody has paused it: its clients keep the release, so a broken guard still stops it.
const ROUND_WHILE_PAUSED: Duration = Duration::from_secs(15);
/// Between two rounds.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Looks in a row at which something did not answer, before a rollout whose step is due pauses.
const FAULTS_MAX: u32 = 3;
/// Looks at the same time; others wait for their turn.
const LOOKS_AT_ONCE: usize = 128;
/// Time for which contracts that were kept are believed.
const VERDICT_HOLDS: Duration = Duration::from_secs(2);

/// Result of a judgement by contracts: the reason to refuse a step; `Err` where it could not be judged.
type StepVerdict = Result<Option<String>, Refusal>;
/// Judge of last steps by contracts.
pub type LastStepJudge = Arc<dyn Fn(LiveRollout) -> BoxFuture<'static, StepVerdict> + Send + Sync>;

type RolloutKey = (Thing, String);

/// Controller of rollouts.
pub struct Rollouts {
    prometheus: Option<Arc<Prometheus>>,
    judge: LastStepJudge,
    watched: HashMap<RolloutKey, Watched>, // bound: state
    tasks: JoinSet<(LiveRollout, Look)>,   // bound: state
    turns: Arc<Semaphore>,
    seen: Vec<(LiveRollout, Look)>,
}

/// Course of the looks at one rollout.
#[derive(Default)]
struct Watched {
    looked: Option<Instant>,
    look: Option<AbortHandle>,
    judging: Option<AbortHandle>,
    /// Time at which contracts let the last step pass.
    passed: Option<Instant>,
    faults: u32,
}

/// Result of a task.
enum Look {
    Guards(Measured),
    /// Judgement of contracts on the last step.
    Contracts(StepVerdict),
}

impl Rollouts {
    pub fn new(prometheus: Option<Prometheus>, judge: LastStepJudge) -> Rollouts {
        Rollouts {
            prometheus: prometheus.map(Arc::new),
            judge,
            watched: HashMap::new(),
            tasks: JoinSet::new(),
            turns: Arc::new(Semaphore::new(LOOKS_AT_ONCE)),
            seen: Vec::new(),
        }
    }

    /// Begins a look at the guards of a rollout if it is time; returns when the next one is.
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
        let turns = self.turns.clone();
        watched.looked = Some(Instant::now());
        watched.look = Some(tasks::errand_of(&mut self.tasks, async move {
            let _turn = turns.acquire_owned().await;
            let measured = guards::measure(&node, prometheus.as_deref(), &live).await;
            (live, Look::Guards(measured))
        }));
        round
    }

    /// Change that is due by what was measured.
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

    /// The same step if contracts let it pass; asks them first where it is the last one.
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

    /// Change that is due by the result of a task on a rollout as it is now.
    fn change_by(&mut self, node: &Node, live: &LiveRollout, seen: Look) -> Option<RolloutChange> {
        match seen {
            Look::Guards(measured) => self.due(node, live, measured).and_then(|change| self.judged(live, change)),
            Look::Contracts(Ok(Some(why))) => Some(RolloutChange::Pause(why)),
            // Not this time: the next look asks again.
            Look::Contracts(Err(refusal)) => {
                let (release_name, why) = (&live.release_name, refusal.info());
                tracing::warn!(release_name, why, "contracts cannot judge the last step of a rollout");
                None
            }
            Look::Contracts(Ok(None)) => {
                let watched = self.watched.entry(key_of(live)).or_default();
                // Measured again at once: the judgement may have taken its time.
                (watched.passed, watched.looked) = (Some(Instant::now()), None);
                None
            }
        }
    }

    async fn propose(&mut self, lead: &Lead, moves: Vec<RolloutTransition>) {
        for moves in moves.chunks(limits::BATCH_ITEMS_MAX) {
            match lead.propose("steps of rollouts", Command::Rollouts(moves.to_vec())).await {
                Ok(()) => moves.iter().for_each(|moved| tell(lead.node(), moved)),
                // Found again at the next look.
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

/// True if what was seen of a rollout is of its present step.
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

/// Tells the log and the metrics of a change that was proposed.
fn tell(node: &Node, moved: &RolloutTransition) {
    let RolloutTransition { thing, release_name, step, change, .. } = moved;
    let thing = match thing {
        Thing::File(key) => format!("configfile {}/{}/{}", key.namespace, key.group, key.file),
        Thing::Rule(family, id) => format!("{} {id}", family.word()),
    };
    match change {
        RolloutChange::Advance => tracing::info!(thing, release_name, step, "a step of a rollout is over"),
        RolloutChange::AdvanceUnmeasured(what) => {
            tracing::info!(thing, release_name, step, what, "a step of a rollout is over");
        }
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
