//! Measurement of guards: what clients say of a release, the health of their hosts, and answers of Prometheus.

use std::collections::HashSet;
use std::time::Duration;

use crate::catalog::releases::LiveRollout;
use crate::controllers::subscribers::{self, ClusterSubscribers};
use crate::model::rollout::Guard;
use crate::outbound::prometheus::Prometheus;
use crate::raft::node::Node;
use crate::subscribers::Applied;

/// Time limit for another node to tell of its clients.
const ASK_WITHIN: Duration = Duration::from_secs(1);

/// Result of a look at the guards of one rollout.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Measured {
    Kept,
    /// The measured value of the guard that is broken.
    Broken(String),
    /// The reason why one could not be measured.
    Missing(String),
}

/// Measures all guards of a rollout; one that is broken counts before one that is missing.
pub(super) async fn measure(node: &Node, prometheus: Option<&Prometheus>, live: &LiveRollout) -> Measured {
    let guards = &live.rollout.plan.guards;
    let asks_clients = guards.iter().any(|guard| matches!(guard, Guard::Refused { .. } | Guard::Health { .. }));
    let clients = match asks_clients {
        true => subscribers::gather_within(node, &live.thing, ASK_WITHIN).await,
        false => ClusterSubscribers::default(),
    };
    let mut all = Measured::Kept;
    for guard in guards {
        let measured = match guard {
            Guard::Refused { max_percent } => of_refusals(&clients, live.version, max_percent.0),
            Guard::Health { max_worse_percent } => {
                of_health(&hosts(&clients, live.version), &health_of_instances(node).await, max_worse_percent.0)
            }
            // Whoever sends one stops the rollout at once.
            Guard::Signal {} => Measured::Kept,
            Guard::Prometheus { query, above, below } => match prometheus {
                None => Measured::Missing("prometheus: no --prometheus-url on this node".to_owned()),
                Some(prometheus) => {
                    let limits = (above.map(|limit| limit.0), below.map(|limit| limit.0));
                    of_samples(prometheus.query(query).await, limits)
                }
            },
        };
        match measured {
            Measured::Kept => {}
            Measured::Broken(_) => return measured,
            Measured::Missing(_) => all = measured,
        }
    }
    all
}

/// With at most two decimals.
fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 * 10_000.0 / whole as f64).round() / 100.0 }
}

/// Share of the clients with this version of the release that say that they could not apply it.
fn of_refusals(clients: &ClusterSubscribers, version: u64, max: f64) -> Measured {
    let having = || clients.clients.iter().filter(|(_, client)| client.version == version);
    let refused = having().filter(|(_, client)| client.applied == Some(Applied::Refused));
    let (refused, having) = (refused.count(), having().count());
    let share = percent(refused, having);
    match share > max {
        true => Measured::Broken(format!("refused: {share} % ({refused} of {having} clients), at most {max} %")),
        false => Measured::Kept,
    }
}

/// Hosts with the release, and those with another one of the same thing.
fn hosts(clients: &ClusterSubscribers, version: u64) -> [HashSet<String>; 2] {
    let of = |has: bool| {
        let clients = clients.clients.iter().filter(|(_, client)| (client.version == version) == has);
        clients.map(|(_, client)| client.address.clone()).collect()
    };
    [of(true), of(false)]
}

/// Host and health of every instance.
async fn health_of_instances(node: &Node) -> Vec<(String, bool)> {
    let view = node.state().view();
    let read = move || {
        let instances = view.instances.behind("").filter(|instance| !instance.isolate);
        instances.map(|instance| (instance.host.clone(), instance.healthy)).collect()
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// Unhealthy share of the instances on hosts with the release, against that on hosts with another one.
fn of_health([having, before]: &[HashSet<String>; 2], instances: &[(String, bool)], max: f64) -> Measured {
    let on = |hosts: &HashSet<String>| {
        let found = || instances.iter().filter(|(host, _)| hosts.contains(host));
        let (unhealthy, all) = (found().filter(|(_, healthy)| !healthy).count(), found().count());
        (percent(unhealthy, all), unhealthy, all)
    };
    let ((share, unhealthy, all), (usual, ..)) = (on(having), on(before));
    let worse = ((share - usual) * 100.0).round() / 100.0;
    match worse > max {
        true => Measured::Broken(format!(
            "health: {share} % unhealthy ({unhealthy} of {all} instances) against {usual} %, at most {max} % worse"
        )),
        false => Measured::Kept,
    }
}

/// The samples of an answer; one beyond the limit is enough.
fn of_samples(answer: Result<Vec<f64>, String>, (above, below): (Option<f64>, Option<f64>)) -> Measured {
    let samples = match answer {
        Err(why) => return Measured::Missing(format!("prometheus: {why}")),
        Ok(samples) => samples,
    };
    if samples.is_empty() {
        return Measured::Missing("prometheus: the query has no sample".to_owned());
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
mod tests {
    use super::*;
    use crate::model::time::Timestamp;
    use crate::subscribers::Subscription;

    fn client(address: &str, version: u64, applied: Option<Applied>) -> (u64, Subscription) {
        let subscription = Subscription {
            address: address.to_owned(),
            agent: String::new(),
            labels: Vec::new(),
            version,
            since: Timestamp(1),
            heard_ms_ago: 0,
            is_current: true,
            is_xds: false,
            node_id: String::new(),
            applied,
            message: String::new(),
            applied_at: None,
        };
        (1, subscription)
    }

    fn broken(text: &str) -> Measured {
        Measured::Broken(text.to_owned())
    }

    #[test]
    fn only_who_has_the_release_is_asked_whether_it_could_be_applied() {
        let clients = vec![
            client("a", 2, Some(Applied::Refused)),
            client("b", 2, Some(Applied::Yes)),
            client("c", 2, None),
            client("d", 1, Some(Applied::Refused)),
        ];
        let all = ClusterSubscribers { clients, ..ClusterSubscribers::default() };
        assert_eq!(of_refusals(&all, 2, 33.33), Measured::Kept, "as many as there may be");
        let text = "refused: 33.33 % (1 of 3 clients), at most 33 %";
        assert_eq!(of_refusals(&all, 2, 33.0), broken(text));
        assert_eq!(of_refusals(&all, 3, 0.0), Measured::Kept, "nobody has it");
    }

    #[test]
    fn health_is_compared_with_that_of_the_release_before() {
        let clients = vec![client("a", 2, None), client("b", 2, None), client("c", 1, None), client("d", 1, None)];
        let all = ClusterSubscribers { clients, ..ClusterSubscribers::default() };
        let hosts = hosts(&all, 2);
        let health = |rows: &[(&str, bool)]| {
            rows.iter().map(|(host, healthy)| ((*host).to_owned(), *healthy)).collect::<Vec<_>>()
        };
        let same = health(&[("a", true), ("b", false), ("c", true), ("d", false), ("x", false)]);
        assert_eq!(of_health(&hosts, &same, 0.0), Measured::Kept);
        let worse = health(&[("a", false), ("b", false), ("c", true), ("d", false)]);
        assert_eq!(of_health(&hosts, &worse, 50.0), Measured::Kept);
        let text = "health: 100 % unhealthy (2 of 2 instances) against 50 %, at most 10 % worse";
        assert_eq!(of_health(&hosts, &worse, 10.0), broken(text));
        assert_eq!(of_health(&hosts, &[], 0.0), Measured::Kept, "no instance is on their hosts");
    }

    #[test]
    fn one_sample_beyond_the_limit_is_enough() {
        let judge = |samples: &[f64], above, below| of_samples(Ok(samples.to_vec()), (above, below));
        assert_eq!(judge(&[0.1, 0.2], Some(0.2), None), Measured::Kept);
        assert_eq!(judge(&[0.1, 0.3], Some(0.2), None), broken("prometheus: 0.3, at most 0.2"));
        assert_eq!(judge(&[5.0, 3.0], None, Some(4.0)), broken("prometheus: 3, at least 4"));
        assert!(matches!(judge(&[], Some(1.0), None), Measured::Missing(_)));
        assert!(matches!(of_samples(Err("no".to_owned()), (None, None)), Measured::Missing(_)));
    }
}
