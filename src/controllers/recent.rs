//! Samples of this node's metrics over the last 15 minutes, for the overview: in memory, below 1 KiB per series.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use tokio::time::{MissedTickBehavior, interval};

use super::Controllers;
use crate::metrics::Metrics;
use crate::raft::node::Node;

/// Time between two samples.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(5);
/// Number of samples in 15 minutes.
pub const SAMPLES_MAX: usize = 180;
/// First HTTP status of an error.
const REFUSED_FROM: &str = "400";
/// Name of the clients' listener in metrics.
const CLIENTS: &str = "compat";

/// Measure that is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// Results of writes.
    Writes,
    /// Pulls of config clients.
    Pulls,
    /// Long polls that are held at the moment.
    Held,
    /// Requests answered with an error.
    Refusals,
    /// Changes of the leader.
    LeaderChanges,
}

impl Sampled {
    pub const ALL: [Sampled; 5] =
        [Sampled::Writes, Sampled::Pulls, Sampled::Held, Sampled::Refusals, Sampled::LeaderChanges];

    /// Reports whether the measure is displayed as a rate per second.
    pub fn is_rate(self) -> bool {
        matches!(self, Sampled::Writes | Sampled::Pulls | Sampled::Refusals)
    }

    fn is_count(self) -> bool {
        self != Sampled::Held
    }
}

/// Samples of each measure, the most recent last.
#[derive(Default)]
pub struct Recent(Mutex<Samples>);

#[derive(Default)]
struct Samples {
    /// Total counts at the last sample.
    before: Option<[u64; Sampled::ALL.len()]>,
    series: [VecDeque<u32>; Sampled::ALL.len()], // bound: fixed
}

impl Recent {
    pub fn of(&self, measure: Sampled) -> Vec<u32> {
        self.0.lock().series[measure as usize].iter().copied().collect()
    }

    /// Records a sample from total counts: their difference since the last one.
    fn take(&self, counts: [u64; Sampled::ALL.len()]) {
        let mut samples = self.0.lock();
        let before = samples.before.replace(counts);
        for (at, measure) in Sampled::ALL.into_iter().enumerate() {
            let sample = match before {
                _ if !measure.is_count() => counts[at],
                Some(before) => counts[at].saturating_sub(before[at]),
                None => continue,
            };
            let series = &mut samples.series[at];
            if series.len() == SAMPLES_MAX {
                series.pop_front();
            }
            series.push_back(u32::try_from(sample).unwrap_or(u32::MAX));
        }
    }
}

/// Records a sample every few seconds. Does not end by itself.
pub(super) async fn sample(node: Node, controllers: Arc<Controllers>) {
    let mut ticks = interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        controllers.recent.take(counts(node.metrics()));
    }
}

fn counts(metrics: &Metrics) -> [u64; Sampled::ALL.len()] {
    let requests = metrics.request_duration.collect();
    Sampled::ALL.map(|measure| match measure {
        Sampled::Writes => sum(&metrics.outcomes.collect(), |_| true),
        Sampled::Pulls => sum(&requests, |label| label("surface") == CLIENTS && label("method") == "GET"),
        Sampled::Held => u64::try_from(metrics.polls_held.get()).unwrap_or_default(),
        Sampled::Refusals => sum(&requests, |label| label("code").as_str() >= REFUSED_FROM),
        Sampled::LeaderChanges => metrics.leader_changes.get(),
    })
}

/// Returns the sum of the series whose labels are wanted.
fn sum(families: &[MetricFamily], is_wanted: impl Fn(&dyn Fn(&str) -> String) -> bool) -> u64 {
    let series = families.iter().flat_map(MetricFamily::get_metric);
    let wanted = series.filter(|one| {
        let label = |name: &str| {
            let found = one.get_label().iter().find(|label| label.name() == name);
            found.map(|label| label.value().to_owned()).unwrap_or_default()
        };
        is_wanted(&label)
    });
    let count = wanted.map(|one| one.get_counter().get_value() as u64 + one.get_histogram().get_sample_count());
    count.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_differences_and_the_oldest_go() {
        let recent = Recent::default();
        recent.take([5, 0, 3, 0, 1]);
        assert_eq!((recent.of(Sampled::Writes), recent.of(Sampled::Held)), (vec![], vec![3]));
        recent.take([9, 0, 2, 0, 1]);
        assert_eq!((recent.of(Sampled::Writes), recent.of(Sampled::Held)), (vec![4], vec![3, 2]));
        for number in 0..400 {
            recent.take([9 + number, 0, 0, 0, 1]);
        }
        assert_eq!(recent.of(Sampled::Writes).len(), SAMPLES_MAX);
        assert_eq!(recent.of(Sampled::LeaderChanges), vec![0; SAMPLES_MAX]);
        assert!(SAMPLES_MAX * size_of::<u32>() < 1024, "a series takes less than 1 KiB");
    }

    #[test]
    fn requests_are_counted_by_their_labels() {
        let metrics = Metrics::new().expect("metrics");
        let observe = |labels: [&str; 4]| metrics.request_duration.with_label_values(&labels).observe(0.1);
        observe([CLIENTS, "/configs", "GET", "200"]);
        observe([CLIENTS, "/configs", "GET", "404"]);
        observe(["api", "/naming/v1/services", "POST", "400"]);
        metrics.outcomes.with_label_values(&["200000"]).inc_by(4);
        metrics.polls_held.set(7);
        assert_eq!(counts(&metrics), [4, 2, 7, 2, 0]);
    }
}
