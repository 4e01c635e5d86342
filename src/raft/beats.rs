//! Heartbeats of instances: kept in the memory of the leader, never in the log. What is replicated is
//! only who became unhealthy, or healthy again, or stayed away for so long that the settings have it
//! removed, many in one command.
//!
//! A node gathers the heartbeats of its clients for a moment and sends them to the leader in one call;
//! a client is answered when the leader has them. The leader finds out in rounds who has fallen silent
//! ([`keeper`]). It proposes in its own term only and is never forwarded: a verdict of a leader that
//! was overtaken is worth nothing to the next one.

mod keeper;

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use self::keeper::Keeper;
use super::leading::{self, Carried};
use super::node::{LEADER_PATIENCE, Node, NodeError, pause_before_retry};
use super::peer::{BEATS_PER_CALL_MAX, BeatsAnswer};
use crate::catalog::{Command, DeadInstance, Entity, InstanceHealth, Outcome};

/// How long heartbeats are gathered for one call to the leader.
const GATHER: Duration = Duration::from_millis(30);
/// How long one call may take before the leader is looked up again.
const CALL_WITHIN: Duration = Duration::from_secs(1);
/// Between two looks at who has fallen silent.
const ROUND: Duration = Duration::from_millis(500);
/// Instances looked at under one lock of the catalog.
const LOOK_INSTANCES: usize = 1024;
/// Changes of health in one command.
const CHANGES_PER_COMMAND: usize = 1000;
/// How long a command may take before its changes are left to the next round.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

/// What a node knows of heartbeats.
#[derive(Default)]
pub(super) struct Beats {
    keeper: Mutex<Keeper>,
    /// Rings when an unhealthy instance has beaten.
    back: Notify,
    gathering: Mutex<Option<Gathering>>,
}

/// Heartbeats of this node's clients that go to the leader together.
struct Gathering {
    ids: Vec<String>,
    delivered: watch::Receiver<Option<Result<(), NodeError>>>,
}

impl Beats {
    /// Takes note of the instances that a command registered or updated.
    pub(super) fn see_written<'a>(&self, outcomes: impl IntoIterator<Item = &'a Outcome>) {
        for outcome in outcomes {
            if let Entity::Instance(instance) = &outcome.entity
                && instance.heartbeat_ttl.is_some()
            {
                self.keeper.lock().see(&instance.id, Instant::now());
            }
        }
    }
}

impl Node {
    /// Tells the leader that instances are alive. An instance that is not known there, or is not
    /// checked, is passed over.
    pub async fn beat(&self, ids: impl IntoIterator<Item = String>) -> Result<(), NodeError> {
        let mut delivered = {
            let mut gathering = self.state().beats.gathering.lock();
            let gathering = gathering.get_or_insert_with(|| gather(self.clone()));
            gathering.ids.extend(ids);
            gathering.delivered.clone()
        };
        let delivery = delivered.wait_for(Option::is_some).await;
        delivery.ok().and_then(|delivery| delivery.clone()).unwrap_or(Err(NodeError::NoLeader))
    }
}

fn gather(node: Node) -> Gathering {
    let (sender, delivered) = watch::channel(None);
    tokio::spawn(async move {
        sleep(GATHER).await;
        let gathered = node.state().beats.gathering.lock().take();
        let ids = gathered.map(|gathering| gathering.ids).unwrap_or_default();
        let delivery = deliver(&node, &ids).await;
        let outcome = if delivery.is_ok() { "taken" } else { "no_leader" };
        node.metrics().heartbeats.with_label_values(&[outcome]).inc_by(ids.len() as u64);
        // Fails when all who waited have hung up.
        let _ = sender.send(Some(delivery));
    });
    Gathering { ids: Vec::new(), delivered }
}

/// Repeats until a leader has all of `ids`: hearing a heartbeat twice does no harm.
async fn deliver(node: &Node, ids: &[String]) -> Result<(), NodeError> {
    let deadline = Instant::now() + LEADER_PATIENCE;
    for part in ids.chunks(BEATS_PER_CALL_MAX) {
        while !try_deliver(node, part).await {
            if Instant::now() >= deadline {
                return Err(NodeError::NoLeader);
            }
            pause_before_retry().await;
        }
    }
    Ok(())
}

async fn try_deliver(node: &Node, ids: &[String]) -> bool {
    match node.leader_in_touch() {
        None => false,
        Some(leader) if leader == node.id() => take(node, ids) == BeatsAnswer::Taken,
        Some(leader) => {
            matches!(node.inner().peers.beats(leader, ids, CALL_WITHIN).await, Ok(BeatsAnswer::Taken))
        }
    }
}

/// The leader's part: remembers who is alive. A leader whose lease has run out takes nothing, as another
/// one may be counting already: what it took before that, any successor grants a whole window after.
pub(super) fn take(node: &Node, ids: &[String]) -> BeatsAnswer {
    let Some(term) = node.leading_term() else { return BeatsAnswer::NotLeader };
    let (now, beats) = (Instant::now(), &node.state().beats);
    let catalog = node.state().catalog();
    let mut keeper = beats.keeper.lock();
    keeper.listen(Some(term), now);
    for id in ids {
        if let Some(instance) = catalog.instances.get(id)
            && instance.heartbeat_ttl.is_some()
        {
            keeper.hear(id, instance.healthy, now);
        }
    }
    if keeper.has_back() {
        beats.back.notify_one();
    }
    BeatsAnswer::Taken
}

/// What the leader does about heartbeats; on other nodes it waits to become that.
pub(super) async fn watch_over(node: Node) {
    let mut rounds = interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = rounds.tick() => look_round(&node).await,
            () = node.state().beats.back.notified() => bring_back(&node).await,
        }
    }
}

async fn look_round(node: &Node) {
    if node.leads_unsurely() {
        // No verdict now, and nothing is forgotten: the next round finds either another leader, or that
        // this one was cut off for so long that everyone gets a whole window.
        return;
    }
    let (term, now) = (node.leading_term(), Instant::now());
    {
        let mut keeper = node.state().beats.keeper.lock();
        keeper.listen(term, now);
        keeper.begin_round(now);
    }
    if let Some(term) = term {
        let found = judge_all(node, now);
        propose(node, term, &found.changes).await;
        remove(node, term, &found.dead).await;
    }
}

/// What is found in one round.
#[derive(Default)]
struct Findings {
    changes: Vec<InstanceHealth>,
    dead: Vec<DeadInstance>,
}

/// The verdicts of one round. The catalog is left in between, as apply waits for it.
fn judge_all(node: &Node, now: Instant) -> Findings {
    let (mut found, mut checked, mut ill, mut behind) = (Findings::default(), 0, 0, String::new());
    loop {
        let catalog = node.state().catalog();
        let dead_after = Some(catalog.settings.dead_instances_removed_after_s).filter(|after| *after > 0);
        let mut keeper = node.state().beats.keeper.lock();
        let mut last = None;
        for instance in catalog.instances.behind(&behind).take(LOOK_INSTANCES) {
            last = Some(instance.id.clone());
            let Some(ttl) = instance.heartbeat_ttl else { continue };
            checked += 1;
            if let Some(healthy) = keeper.verdict(&instance.id, ttl, instance.healthy, now) {
                found.changes.push(InstanceHealth { id: instance.id.clone(), healthy });
            }
            if instance.healthy {
                keeper.see_well(&instance.id);
            } else if let Some(after) = dead_after {
                ill += 1;
                if keeper.is_dead(&instance.id, Duration::from_secs(after), now) {
                    found.dead.push(DeadInstance { id: instance.id.clone(), revision: instance.revision.clone() });
                }
            }
        }
        match last {
            Some(last) => behind = last,
            None => {
                let is_checked = |id: &str| catalog.instances.get(id).is_some_and(|one| one.heartbeat_ttl.is_some());
                keeper.forget_gone(checked, is_checked);
                keeper.forget_ill(ill, is_checked);
                return found;
            }
        }
    }
}

/// Those who came back do not wait for a round; who comes while a command is under way goes with the
/// next one.
async fn bring_back(node: &Node) {
    let back = node.state().beats.keeper.lock().take_back();
    let changes: Vec<_> = back.into_iter().map(|id| InstanceHealth { id, healthy: true }).collect();
    if let Some(term) = node.leading_term() {
        propose(node, term, &changes).await;
    }
}

/// Proposes what was found in `term`: by the leader of another one it is not appended, though that may be
/// this node again. What fails is found again.
async fn propose(node: &Node, term: u64, changes: &[InstanceHealth]) {
    for part in changes.chunks(CHANGES_PER_COMMAND) {
        let command = leading::propose_in_term(node, term, Command::InstanceHealth(part.to_vec()));
        match timeout(COMMIT_WITHIN, command).await {
            Ok(Carried::Done { .. }) => tell(node, part),
            Ok(Carried::NotLeader) => return,
            // For want of room: that is said elsewhere, and this would be said again and again.
            Ok(Carried::Refused(refusal)) => return tracing::debug!(?refusal, "changes of health are not taken"),
            Ok(other) => return tracing::warn!(?other, "changes of health could not be proposed"),
            Err(_) => return tracing::warn!("changes of health were not committed within {COMMIT_WITHIN:?}"),
        }
    }
}

/// Proposes to remove the instances that stayed away for too long, in the term in which that was found.
async fn remove(node: &Node, term: u64, dead: &[DeadInstance]) {
    for part in dead.chunks(CHANGES_PER_COMMAND) {
        let command = leading::propose_in_term(node, term, Command::RemoveDeadInstances(part.to_vec()));
        match timeout(COMMIT_WITHIN, command).await {
            Ok(Carried::Done { .. }) => {
                tracing::info!(instances = part.len(), "instances without a heartbeat for too long were removed");
                node.metrics().health_changes.with_label_values(&["removed"]).inc_by(part.len() as u64);
            }
            Ok(Carried::NotLeader) => return,
            Ok(other) => return tracing::warn!(?other, "dead instances could not be removed"),
            Err(_) => return tracing::warn!("dead instances were not removed within {COMMIT_WITHIN:?}"),
        }
    }
}

fn tell(node: &Node, changes: &[InstanceHealth]) {
    let healthy = changes.iter().filter(|change| change.healthy).count();
    let unhealthy = changes.len() - healthy;
    tracing::info!(healthy, unhealthy, "instances changed their health");
    let count = |to: &str, number: usize| node.metrics().health_changes.with_label_values(&[to]).inc_by(number as u64);
    count("healthy", healthy);
    count("unhealthy", unhealthy);
}
