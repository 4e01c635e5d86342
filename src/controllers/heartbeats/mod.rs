//! Heartbeats of instances, in the memory of the leader and never in the log. Only changes are replicated: an instance
//! became unhealthy, became healthy again, or was away for longer than it, its service or the settings allow and is
//! removed. One command has many of them.
//!
//! A node batches the heartbeats of its clients for a moment and sends them to the leader in one call; a client is
//! answered once the leader has them. The leader looks for silent instances in rounds ([`failure_detector`]), and
//! proposes many changes at once ([`debounce`]). It proposes in its own term only and never forwards: the verdict of a
//! former leader is of no use to the next one.

mod debounce;
mod failure_detector;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use self::debounce::Debounce;
use self::failure_detector::{FailureDetector, HealthState, HealthVerdict};
use super::Controller;
use crate::catalog::{Command, DeadInstance, Entity, InstanceHealth, RequestId};
use crate::model::heartbeat::BeatsAnswer;
use crate::model::instance::Instance;
use crate::model::limits::BEATS_PER_CALL_MAX;
use crate::raft::extension::ExtensionCall;
use crate::raft::node::{LEADER_PATIENCE, Node, NodeError, pause_before_retry};
use crate::raft::{CommandReply, Lead};
use crate::tasks;

/// Time for which heartbeats are batched for one call to the leader.
const GATHER: Duration = Duration::from_millis(30);
/// Time limit of one call before the leader is looked up again.
const CALL_WITHIN: Duration = Duration::from_secs(1);
/// Interval between two checks for silent instances.
const ROUND: Duration = Duration::from_millis(500);
/// Instances checked under one lock of the catalog.
const LOOK_INSTANCES: usize = 1024;
/// Maximum number of changes in one command: with ids of the usual length a megabyte, and as many as one entry can
/// write to the audit trail.
const CHANGES_PER_COMMAND: usize = debounce::FULL;

/// Heartbeats as a node knows them. It is notified of every instance that is registered or updated.
#[derive(Default)]
pub struct HeartbeatMonitor {
    detector: Mutex<FailureDetector>,
    /// Notified when an unhealthy instance has sent a heartbeat.
    back: Notify,
    gathering: Mutex<Option<Gathering>>,
}

/// Heartbeats of this node's clients for the next call to the leader.
struct Gathering {
    ids: Vec<String>,
    delivered: watch::Receiver<Option<Result<(), NodeError>>>,
}

impl HeartbeatMonitor {
    /// Records the instances that a command registered or updated.
    pub(super) fn see_written(&self, replies: &[(RequestId, CommandReply)]) {
        let outcomes = replies.iter().flat_map(|(_, reply)| &reply.outcomes);
        let mut written = outcomes.filter_map(|outcome| match &outcome.entity {
            Entity::Instance(instance) => HealthState::of(instance).map(|state| (&instance.id, state)),
            _ => None,
        });
        if let Some(first) = written.next() {
            let (mut detector, now) = (self.detector.lock(), Instant::now());
            std::iter::once(first).chain(written).for_each(|(id, state)| detector.see(id, state, now));
        }
    }

    /// Reports to the leader that instances are alive. Instances that are unknown there, or are not checked, are
    /// ignored.
    pub async fn beat(self: &Arc<Self>, node: &Node, ids: impl IntoIterator<Item = String>) -> Result<(), NodeError> {
        let mut delivered = {
            let mut gathering = self.gathering.lock();
            let gathering = gathering.get_or_insert_with(|| self.clone().gather(node.clone()));
            gathering.ids.extend(ids);
            gathering.delivered.clone()
        };
        let delivery = delivered.wait_for(Option::is_some).await;
        delivery.ok().and_then(|delivery| delivery.clone()).unwrap_or(Err(NodeError::NoLeader))
    }

    fn gather(self: Arc<Self>, node: Node) -> Gathering {
        let (sender, delivered) = watch::channel(None);
        tasks::errand(async move {
            sleep(GATHER).await;
            let gathered = self.gathering.lock().take();
            let ids = gathered.map(|gathering| gathering.ids).unwrap_or_default();
            let delivery = self.deliver(&node, &ids).await;
            let outcome = if delivery.is_ok() { "taken" } else { "no_leader" };
            node.metrics().heartbeats.with_label_values(&[outcome]).inc_by(ids.len() as u64);
            // Fails if all waiting callers have disconnected.
            let _ = sender.send(Some(delivery));
        });
        Gathering { ids: Vec::new(), delivered }
    }

    /// Repeats until a leader has all of `ids`: a heartbeat that arrives twice does no harm.
    async fn deliver(&self, node: &Node, ids: &[String]) -> Result<(), NodeError> {
        let deadline = Instant::now() + LEADER_PATIENCE;
        for part in ids.chunks(BEATS_PER_CALL_MAX) {
            while !self.try_deliver(node, part).await {
                if Instant::now() >= deadline {
                    return Err(NodeError::NoLeader);
                }
                pause_before_retry().await;
            }
        }
        Ok(())
    }

    async fn try_deliver(&self, node: &Node, ids: &[String]) -> bool {
        match node.leader_in_touch() {
            None => false,
            Some(leader) if leader == node.id() => self.take(node, ids) == BeatsAnswer::Taken,
            Some(leader) => {
                let answer = node.ask_extension(leader, ExtensionCall::Beats, ids, CALL_WITHIN).await;
                matches!(answer, Some(BeatsAnswer::Taken))
            }
        }
    }

    /// Records heartbeats on the leader. A leader whose lease has expired accepts none, as another one may be counting
    /// already; for those accepted before, any successor grants a whole window.
    pub(crate) fn take(&self, node: &Node, ids: &[String]) -> BeatsAnswer {
        let Some(lead) = node.lead() else { return BeatsAnswer::NotLeader };
        let now = Instant::now();
        let unknown: Vec<&String> = {
            let mut detector = self.detector.lock();
            detector.listen(Some(lead.term()), now);
            ids.iter().filter(|id| !detector.hear(id, now)).collect()
        };
        self.hear_unknown(node, &unknown, now);
        if self.detector.lock().rings() {
            self.back.notify_one();
        }
        BeatsAnswer::Taken
    }

    /// Records heartbeats that the detector does not know yet. The catalog is locked before the detector, as
    /// everywhere.
    fn hear_unknown(&self, node: &Node, ids: &[&String], now: Instant) {
        if ids.is_empty() {
            return;
        }
        let catalog = node.state().catalog();
        let mut detector = self.detector.lock();
        for id in ids {
            if let Some(state) = catalog.instances.get(id).and_then(|instance| HealthState::of(instance)) {
                detector.take_in(id, state);
                detector.hear(id, now);
            }
        }
    }
}

/// Controller of heartbeats on the leader.
pub(super) struct HeartbeatController {
    monitor: Arc<HeartbeatMonitor>,
    next_round: Instant,
    /// Delayed changes to unhealthy and to healthy.
    silent: Debounce,
    back: Debounce,
}

impl Controller for HeartbeatController {
    async fn act(&mut self, lead: &Lead) -> Duration {
        if Instant::now() >= self.next_round {
            self.next_round = Instant::now() + ROUND;
            self.look_round(lead).await;
        } else {
            self.bring_back(lead).await;
        }
        self.next_round.saturating_duration_since(Instant::now())
    }

    async fn woken(&mut self) {
        self.monitor.back.notified().await;
    }

    fn stand_down(&mut self) {
        self.monitor.detector.lock().listen(None, Instant::now());
    }
}

impl HeartbeatController {
    pub(super) fn new(monitor: Arc<HeartbeatMonitor>) -> Self {
        let (silent, back) = (Debounce::default(), Debounce::default());
        HeartbeatController { monitor, next_round: Instant::now(), silent, back }
    }

    async fn look_round(&mut self, lead: &Lead) {
        let now = Instant::now();
        let (wants_all, due) = {
            let mut detector = self.monitor.detector.lock();
            detector.listen(Some(lead.term()), now);
            detector.begin_round(now);
            (detector.wants_all(), detector.due(now))
        };
        if wants_all {
            self.take_all_in(lead);
        }
        let mut found = self.look_at(lead, &due, now);
        if self.silent.rises(found.silent.len(), now) {
            found.silent.clear();
        }
        if self.back.rises(found.back.len(), now) {
            found.back.clear();
        }
        found.silent.append(&mut found.back);
        propose(lead, &found.silent).await;
        remove(lead, &found.dead).await;
    }

    /// Adds all instances that were registered before this node led. The catalog is unlocked in between, because apply
    /// waits for it.
    fn take_all_in(&self, lead: &Lead) {
        let mut behind = String::new();
        loop {
            let catalog = lead.catalog();
            let mut detector = self.monitor.detector.lock();
            let mut last = None;
            for instance in catalog.instances.behind(&behind).take(LOOK_INSTANCES) {
                if let Some(state) = HealthState::of(instance) {
                    detector.take_in(&instance.id, state);
                }
                last = Some(&instance.id);
            }
            match last {
                Some(last) => behind.clone_from(last),
                None => return,
            }
        }
    }

    /// Returns the verdicts on these instances. The catalog is unlocked in between, because apply waits for it.
    fn look_at(&self, lead: &Lead, ids: &[Arc<str>], now: Instant) -> RoundFindings {
        let mut found = RoundFindings::default();
        for part in ids.chunks(LOOK_INSTANCES) {
            let catalog = lead.catalog();
            let mut detector = self.monitor.detector.lock();
            for id in part {
                let instance = catalog.instances.get(id);
                let state = instance.and_then(|instance| HealthState::of(instance));
                let ill = instance.filter(|instance| !instance.healthy);
                let dead_after = ill.and_then(|instance| catalog.removes_after(instance)).map(Duration::from_secs);
                let (Some(verdict), Some(instance)) = (detector.look(id, state, dead_after, now), instance) else {
                    continue;
                };
                match verdict {
                    HealthVerdict::Silent => found.silent.push(health_of(instance, false)),
                    HealthVerdict::Back => found.back.push(health_of(instance, true)),
                    HealthVerdict::Dead => {
                        found.dead.push(DeadInstance { id: instance.id.clone(), revision: instance.revision.clone() });
                    }
                }
            }
        }
        found
    }

    /// Proposes the instances that came back without waiting for a round. Those that come back while a command is in
    /// progress are part of the next one.
    async fn bring_back(&self, lead: &Lead) {
        let back = self.monitor.detector.lock().back();
        let found = self.look_at(lead, &back, Instant::now());
        propose(lead, &found.back).await;
    }
}

/// Findings of one round.
#[derive(Default)]
struct RoundFindings {
    silent: Vec<InstanceHealth>,
    back: Vec<InstanceHealth>,
    dead: Vec<DeadInstance>,
}

fn health_of(instance: &Instance, healthy: bool) -> InstanceHealth {
    InstanceHealth { id: instance.id.clone(), healthy, revision: instance.revision.clone() }
}

/// Proposes findings in this term: in another one they are not appended, even if this node leads it. Failed ones are
/// found again.
async fn propose(lead: &Lead, changes: &[InstanceHealth]) {
    for part in changes.chunks(CHANGES_PER_COMMAND) {
        if lead.propose("changes of health", Command::InstanceHealth(part.to_vec())).await.is_err() {
            return;
        }
        log_changes(lead.node(), part);
    }
}

/// Proposes the removal of instances that were away for too long.
async fn remove(lead: &Lead, dead: &[DeadInstance]) {
    for part in dead.chunks(CHANGES_PER_COMMAND) {
        if lead.propose("the removal of dead instances", Command::RemoveDeadInstances(part.to_vec())).await.is_err() {
            return;
        }
        tracing::info!(instances = part.len(), "instances without a heartbeat for too long were removed");
        lead.node().metrics().health_changes.with_label_values(&["removed"]).inc_by(part.len() as u64);
    }
}

fn log_changes(node: &Node, changes: &[InstanceHealth]) {
    let healthy = changes.iter().filter(|change| change.healthy).count();
    let unhealthy = changes.len() - healthy;
    tracing::info!(healthy, unhealthy, "instances changed their health");
    let count = |to: &str, number: usize| node.metrics().health_changes.with_label_values(&[to]).inc_by(number as u64);
    count("healthy", healthy);
    count("unhealthy", unhealthy);
}
