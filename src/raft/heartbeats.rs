//! Heartbeats of instances: kept in the memory of the leader, never in the log. Replicated are changes alone: an instance
//! became unhealthy, became healthy again, or stayed away for longer than it, its service or the settings allow and is
//! removed. One command carries many of them.
//!
//! A node gathers the heartbeats of its clients for a moment and sends them to the leader in one call;
//! a client is answered when the leader has them. The leader finds out in rounds who has fallen silent
//! ([`failure_detector`]), and tells of many at once ([`debounce`]). It proposes in its own term only and is never forwarded:
//! a verdict of a leader that was overtaken is worth nothing to the next one.

mod debounce;
mod failure_detector;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use self::debounce::Debounce;
use self::failure_detector::{FailureDetector, Seen, Verdict};
use super::leading::{self, ProposeOutcome};
use super::node::{LEADER_PATIENCE, Node, NodeError, pause_before_retry};
use crate::catalog::{Catalog, Command, DeadInstance, Entity, InstanceHealth, Outcome};
use crate::format::level::Level;
use crate::model::instance::Instance;
use crate::peer::{BEATS_PER_CALL_MAX, BeatsAnswer};

/// Time for which heartbeats are gathered for one call to the leader.
const GATHER: Duration = Duration::from_millis(30);
/// Time limit of one call before the leader is looked up again.
const CALL_WITHIN: Duration = Duration::from_secs(1);
/// Between two looks at who has fallen silent.
const ROUND: Duration = Duration::from_millis(500);
/// Instances looked at under one lock of the catalog.
const LOOK_INSTANCES: usize = 1024;
/// Changes in one command: with ids of the usual length a megabyte. As many of them as can be written into
/// the audit trail by one entry.
const CHANGES_PER_COMMAND: usize = debounce::FULL;
/// Time limit of a command before its changes are left to the next round.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);

/// Heartbeats as a node knows them.
#[derive(Default)]
pub(super) struct HeartbeatMonitor {
    keeper: Mutex<FailureDetector>,
    /// Rings when an unhealthy instance has beaten.
    back: Notify,
    gathering: Mutex<Option<Gathering>>,
}

/// Heartbeats of this node's clients that go to the leader together.
struct Gathering {
    ids: Vec<String>,
    delivered: watch::Receiver<Option<Result<(), NodeError>>>,
}

impl HeartbeatMonitor {
    /// Takes note of the instances that a command registered or updated.
    pub(super) fn see_written<'a>(&self, outcomes: impl IntoIterator<Item = &'a Outcome>) {
        let mut written = outcomes.into_iter().filter_map(|outcome| match &outcome.entity {
            Entity::Instance(instance) => Seen::of(instance).map(|seen| (&instance.id, seen)),
            _ => None,
        });
        if let Some(first) = written.next() {
            let (mut keeper, now) = (self.keeper.lock(), Instant::now());
            std::iter::once(first).chain(written).for_each(|(id, seen)| keeper.see(id, seen, now));
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
    let unknown: Vec<&String> = {
        let mut keeper = beats.keeper.lock();
        keeper.listen(Some(term), now);
        ids.iter().filter(|id| !keeper.hear(id, now)).collect()
    };
    hear_unknown(node, &unknown, now);
    if beats.keeper.lock().rings() {
        beats.back.notify_one();
    }
    BeatsAnswer::Taken
}

/// Those that the keeper does not know yet: the catalog is locked before it, as everywhere.
fn hear_unknown(node: &Node, ids: &[&String], now: Instant) {
    if ids.is_empty() {
        return;
    }
    let catalog = node.state().catalog();
    let mut keeper = node.state().beats.keeper.lock();
    for id in ids {
        if let Some(seen) = catalog.instances.get(id).and_then(|instance| Seen::of(instance)) {
            keeper.take_in(id, seen);
            keeper.hear(id, now);
        }
    }
}

/// Runs the leader's work on heartbeats; on other nodes it waits until they lead.
pub(super) async fn watch_over(node: Node) {
    let mut rounds = interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut floods = Floods::default();
    loop {
        tokio::select! {
            _ = rounds.tick() => look_round(&node, &mut floods).await,
            () = node.state().beats.back.notified() => bring_back(&node).await,
        }
    }
}

/// Changes of each direction that are held back.
#[derive(Default)]
struct Floods {
    silent: Debounce,
    back: Debounce,
}

async fn look_round(node: &Node, floods: &mut Floods) {
    if node.leads_unsurely() {
        // No verdict now, and nothing is forgotten: the next round finds either another leader, or that
        // this one was cut off for so long that everyone gets a whole window.
        return;
    }
    let (term, now) = (node.leading_term(), Instant::now());
    let (wants_all, due) = {
        let mut keeper = node.state().beats.keeper.lock();
        keeper.listen(term, now);
        keeper.begin_round(now);
        (keeper.wants_all(), keeper.due(now))
    };
    if wants_all {
        take_all_in(node);
    }
    if let Some(term) = term {
        let mut found = look_at(node, &due, now);
        if floods.silent.rises(found.silent.len(), now) {
            found.silent.clear();
        }
        if floods.back.rises(found.back.len(), now) {
            found.back.clear();
        }
        found.silent.append(&mut found.back);
        propose(node, term, &found.silent).await;
        remove(node, term, &found.dead).await;
    }
}

/// Takes in all instances that were registered before this node led. The catalog is unlocked in between, as apply waits
/// for it.
fn take_all_in(node: &Node) {
    let mut behind = String::new();
    loop {
        let catalog = node.state().catalog();
        let mut keeper = node.state().beats.keeper.lock();
        let mut last = None;
        for instance in catalog.instances.behind(&behind).take(LOOK_INSTANCES) {
            if let Some(seen) = Seen::of(instance) {
                keeper.take_in(&instance.id, seen);
            }
            last = Some(&instance.id);
        }
        match last {
            Some(last) => behind.clone_from(last),
            None => return,
        }
    }
}

/// Findings of one round.
#[derive(Default)]
struct Findings {
    silent: Vec<InstanceHealth>,
    back: Vec<InstanceHealth>,
    dead: Vec<DeadInstance>,
}

/// The verdicts on these instances. The catalog is left in between, as apply waits for it.
fn look_at(node: &Node, ids: &[Arc<str>], now: Instant) -> Findings {
    let mut found = Findings::default();
    for part in ids.chunks(LOOK_INSTANCES) {
        let catalog = node.state().catalog();
        let mut keeper = node.state().beats.keeper.lock();
        for id in part {
            let instance = catalog.instances.get(id);
            let seen = instance.and_then(|instance| Seen::of(instance));
            let ill = instance.filter(|instance| !instance.healthy);
            let dead_after = ill.and_then(|instance| catalog.removes_after(instance)).map(Duration::from_secs);
            let (Some(verdict), Some(instance)) = (keeper.look(id, seen, dead_after, now), instance) else { continue };
            match verdict {
                Verdict::Silent => found.silent.push(health_of(&catalog, instance, false)),
                Verdict::Back => found.back.push(health_of(&catalog, instance, true)),
                Verdict::Dead => {
                    found.dead.push(DeadInstance { id: instance.id.clone(), revision: instance.revision.clone() });
                }
            }
        }
    }
    found
}

fn health_of(catalog: &Catalog, instance: &Instance, healthy: bool) -> InstanceHealth {
    let is_told = catalog.level() >= Level::EDGES;
    let revision = if is_told { instance.revision.clone() } else { String::new() };
    InstanceHealth { id: instance.id.clone(), healthy, revision }
}

/// A few who came back do not wait for a round; who comes while a command is under way goes with the
/// next one.
async fn bring_back(node: &Node) {
    let back = node.state().beats.keeper.lock().back();
    if let Some(term) = node.leading_term() {
        let found = look_at(node, &back, Instant::now());
        propose(node, term, &found.back).await;
    }
}

/// Proposes what was found in `term`: by the leader of another one it is not appended, though that may be
/// this node again. What fails is found again.
async fn propose(node: &Node, term: u64, changes: &[InstanceHealth]) {
    for part in changes.chunks(CHANGES_PER_COMMAND) {
        let command = leading::propose_in_term(node, term, Command::InstanceHealth(part.to_vec()));
        match timeout(COMMIT_WITHIN, command).await {
            Ok(ProposeOutcome::Done { .. }) => tell(node, part),
            Ok(ProposeOutcome::NotLeader) => return,
            // For want of room: that is said elsewhere, and this would be said again and again.
            Ok(ProposeOutcome::Refused(refusal)) => {
                return tracing::debug!(?refusal, "changes of health are not taken");
            }
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
            Ok(ProposeOutcome::Done { .. }) => {
                tracing::info!(instances = part.len(), "instances without a heartbeat for too long were removed");
                node.metrics().health_changes.with_label_values(&["removed"]).inc_by(part.len() as u64);
            }
            Ok(ProposeOutcome::NotLeader) => return,
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
