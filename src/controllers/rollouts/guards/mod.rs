//! Measurement of guards: clients' reports on a release, the health of their hosts, and results of Prometheus.
//!
//! Clients are counted over all members, each once. A guard that cannot be measured is missing, and never passes: when
//! a member does not answer or counts only a part, when a member has not known its clients for long enough, when
//! Prometheus has no sample, and when no client has the release yet. The default guards of a plan pass in the last
//! case, and report it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};

use crate::catalog::releases::LiveRollout;
use crate::controllers::subscribers::{self, ClusterHolders};
use crate::model::rollout::Guard;
use crate::outbound::prometheus::Prometheus;
use crate::raft::node::Node;
use crate::subscribers::holders::{HostState, host_mark};
use crate::subscribers::{GRACE, Subscribers};
use crate::tasks;

/// Time limit for another node's answer about its clients.
const ASK_WITHIN: Duration = Duration::from_secs(1);
/// Time limit of the whole measurement.
const LOOK_WITHIN: Duration = Duration::from_millis(1500);

/// Result of measuring the guards of one rollout.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Measured {
    Kept,
    /// Default guards that no client was measured for, with the reason.
    Unmeasured(String),
    /// Reason why a guard could not be measured.
    Missing {
        why: String,
        /// True if the cause may be temporary, so that a single measurement means little.
        is_fault: bool,
    },
    /// Measured value of the guard that is broken.
    Broken(String),
}

impl Measured {
    fn fault(why: String) -> Measured {
        Measured::Missing { why, is_fault: true }
    }

    /// Combines two results: a broken guard takes precedence over a missing one.
    fn and(self, other: Measured) -> Measured {
        use Measured::{Broken, Kept, Missing, Unmeasured};
        match (self, other) {
            (Broken(value), _) | (_, Broken(value)) => Broken(value),
            (Missing { why, is_fault }, Missing { is_fault: other, .. }) => {
                Missing { why, is_fault: is_fault && other }
            }
            (missing @ Missing { .. }, _) | (_, missing @ Missing { .. }) => missing,
            (Unmeasured(one), Unmeasured(other)) => Unmeasured(format!("{one}; {other}")),
            (unmeasured @ Unmeasured(_), _) | (_, unmeasured @ Unmeasured(_)) => unmeasured,
            (Kept, Kept) => Kept,
        }
    }
}

/// Measures all guards of a rollout in parallel.
pub(super) async fn measure(
    node: &Node,
    subscribers: &Arc<Subscribers>,
    prometheus: Option<&Prometheus>,
    live: &LiveRollout,
) -> Measured {
    let all = async {
        let (of_clients, of_queries) =
            join(measure_clients(node, subscribers, live), measure_queries(prometheus, live)).await;
        of_clients.and(of_queries)
    };
    let looked = tokio::time::timeout(LOOK_WITHIN, all).await;
    looked.unwrap_or_else(|_| {
        Measured::fault(format!("the guards could not be measured within {} ms", LOOK_WITHIN.as_millis()))
    })
}

async fn measure_queries(prometheus: Option<&Prometheus>, live: &LiveRollout) -> Measured {
    let queries = live.rollout.plan.guards.iter().filter_map(|guard| match guard {
        Guard::Prometheus { query, above, below } => {
            Some((query, (above.map(|limit| limit.0), below.map(|limit| limit.0))))
        }
        _ => None,
    });
    let asked = queries.map(|(query, limits)| async move {
        match prometheus {
            None => Measured::fault("prometheus: no --prometheus-url on this node".to_owned()),
            Some(prometheus) => of_samples(prometheus.query(query).await, limits),
        }
    });
    join_all(asked).await.into_iter().fold(Measured::Kept, Measured::and)
}

/// Measures the guards on clients. Those of other kinds only wait for members that do not answer.
async fn measure_clients(node: &Node, own: &Arc<Subscribers>, live: &LiveRollout) -> Measured {
    let guards = live.rollout.plan.guards.clone();
    if guards.is_empty() {
        return Measured::Kept;
    }
    let clients = subscribers::gather_holders(node, own, &live.thing, live.version, ASK_WITHIN).await;
    let unsure = clients.unsure(node.now().0, live);
    let catalog = node.state().view();
    let judge = move || {
        let instances = || catalog.instances.behind("").filter(|instance| !instance.isolate);
        let hosts = || instances().map(|instance| (host_mark(&instance.host), instance.healthy));
        let measured = guards.iter().map(|guard| match guard {
            Guard::Refused { max_percent, default } => {
                let count = PartOfAll { part: clients.holders.refused(), all: clients.holders.amount() };
                of_refusals(count, max_percent.0, *default, unsure.as_deref())
            }
            Guard::Health { max_worse_percent, default } => {
                of_health(&clients.holders.hosts(), hosts(), max_worse_percent.0, *default, unsure.as_deref())
            }
            Guard::Signal {} | Guard::Prometheus { .. } => clients.all_answered(),
        });
        measured.fold(Measured::Kept, Measured::and)
    };
    let judged = tasks::blocking_errand(judge).await;
    judged.unwrap_or_else(|_| Measured::fault("the clients could not be counted".to_owned()))
}

impl ClusterHolders {
    /// Returns the result of a guard that needs no clients.
    fn all_answered(&self) -> Measured {
        match self.silent.first() {
            Some(node) => Measured::fault(format!("node {node} does not answer")),
            None => Measured::Kept,
        }
    }

    /// Returns the reason why these may not be all clients that have the release.
    fn unsure(&self, now_ms: u64, live: &LiveRollout) -> Option<String> {
        if let Some(node) = self.silent.first() {
            return Some(format!("node {node} does not answer"));
        }
        if let Some(node) = self.cut.first() {
            return Some(format!("node {node} has more clients than it can tell"));
        }
        // Clients of a node that started during this step come back within a poll's time.
        let settled_ms = live.rollout.plan.hold_ms(live.rollout.step).min(GRACE.as_millis() as u64);
        let began_in_step = |up_ms: u64| now_ms.saturating_sub(up_ms) > live.rollout.since.0;
        let young = self.up_ms.iter().find(|(_, up_ms)| *up_ms < settled_ms && began_in_step(*up_ms));
        young.map(|(node, up_ms)| format!("node {node} has been up for {} s, its clients come back", up_ms / 1000))
    }
}

/// Part of a whole.
#[derive(Clone, Copy, Default)]
struct PartOfAll {
    part: usize,
    all: usize,
}

impl PartOfAll {
    /// Returns the percentage with at most two decimals; 0 if the whole is 0.
    fn percent(self) -> f64 {
        let PartOfAll { part, all } = self;
        if all == 0 { 0.0 } else { (part as f64 * 10_000.0 / all as f64).round() / 100.0 }
    }
}

/// Returns the result of a guard on clients that is not broken by the known ones.
fn unbroken(guard: &str, is_measured: bool, nobody: &str, is_default: bool, unsure: Option<&str>) -> Measured {
    match unsure {
        Some(why) => Measured::fault(format!("{guard}: {why}")),
        None if is_measured => Measured::Kept,
        None if is_default => Measured::Unmeasured(format!("{guard}: {nobody}, the default guard passes")),
        None => Measured::Missing { why: format!("{guard}: {nobody}"), is_fault: false },
    }
}

/// Measures the share of the clients with this version of the release that report that they could not apply it. The
/// known clients can break the guard, even if more may have the release.
fn of_refusals(count: PartOfAll, max: f64, is_default: bool, unsure: Option<&str>) -> Measured {
    let (share, PartOfAll { part, all }) = (count.percent(), count);
    if share > max {
        return Measured::Broken(format!("refused: {share} % ({part} of {all} clients), at most {max} %"));
    }
    unbroken("refused", all > 0, "no client has the release", is_default, unsure)
}

/// Measures the unhealthy share of the instances on hosts with the release against that on hosts with another one.
/// Instances come with the mark of their host.
fn of_health(
    hosts: &HashMap<u64, HostState>,
    instances: impl Iterator<Item = (u64, bool)>,
    max: f64,
    is_default: bool,
    unsure: Option<&str>,
) -> Measured {
    let (mut having, mut before) = (PartOfAll::default(), PartOfAll::default());
    for (host, healthy) in instances {
        let HostState { has, has_other } = hosts.get(&host).copied().unwrap_or_default();
        for count in [has.then_some(&mut having), has_other.then_some(&mut before)].into_iter().flatten() {
            count.all += 1;
            count.part += usize::from(!healthy);
        }
    }
    let (share, usual) = (having.percent(), before.percent());
    let worse = ((share - usual) * 100.0).round() / 100.0;
    if worse > max {
        let PartOfAll { part, all } = having;
        return Measured::Broken(format!(
            "health: {share} % unhealthy ({part} of {all} instances) against {usual} %, at most {max} % worse"
        ));
    }
    unbroken("health", having.all > 0, "no instance is on a host with the release", is_default, unsure)
}

/// Evaluates the samples of a result; a single one beyond the limit breaks the guard.
fn of_samples(answer: Result<Vec<f64>, String>, (above, below): (Option<f64>, Option<f64>)) -> Measured {
    let samples = match answer {
        Err(why) => return Measured::fault(format!("prometheus: {why}")),
        Ok(samples) => samples,
    };
    if samples.is_empty() {
        return Measured::fault("prometheus: the query has no sample".to_owned());
    }
    let is_over = |sample: &&f64| above.is_some_and(|limit| **sample > limit);
    let is_under = |sample: &&f64| below.is_some_and(|limit| **sample < limit);
    if let (Some(sample), Some(limit)) = (samples.iter().find(is_over), above) {
        return Measured::Broken(format!("prometheus: {sample}, at most {limit}"));
    }
    if let (Some(sample), Some(limit)) = (samples.iter().find(is_under), below) {
        return Measured::Broken(format!("prometheus: {sample}, at least {limit}"));
    }
    Measured::Kept
}

#[cfg(test)]
mod tests;
