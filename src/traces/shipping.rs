//! Delivery of ended spans to the collector: in batches, one at a time, each attempted a few times and then dropped.
//!
//! An outage of the collector is logged once, and so is its end; if it flaps, at most every [`LOG_PAUSE`]. The results
//! for all spans are counted.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::collector::{Collector, Failure};
use crate::log_once::LogOnce;
use crate::metrics::Metrics;

/// Maximum number of spans in a batch.
pub(super) const BATCH_SPANS_MAX: usize = 512;
/// Time for which the first span of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// Maximum number of attempts per batch.
const TRIES_MAX: u32 = 3;
/// Pause before the second attempt; doubled before the next one.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Minimum time between two log lines about an outage.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// Counter of results for spans; active once the node has its metrics.
#[derive(Clone, Default)]
pub(super) struct Counts(Arc<OnceLock<Arc<Metrics>>>);

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("metrics")
    }
}

impl Counts {
    pub(super) fn begin(&self, metrics: Arc<Metrics>) {
        // The node of this process sets it once.
        let _ = self.0.set(metrics);
    }

    pub(super) fn add(&self, outcome: &str, spans: u64) {
        if let Some(metrics) = self.0.get() {
            metrics.otlp_spans.with_label_values(&[outcome]).inc_by(spans);
        }
    }
}

pub(super) struct Shipping {
    pub(super) spans: mpsc::Receiver<SpanData>,
    pub(super) collector: Collector,
    pub(super) counts: Counts,
    pub(super) closing: CancellationToken,
}

impl Shipping {
    /// Runs until the pipeline closes and everything that waits was attempted once more.
    pub(super) async fn run(mut self) {
        let mut outage = Outage::new();
        loop {
            let batch = self.gather().await;
            if batch.is_empty() {
                return;
            }
            let count = u64::try_from(batch.len()).unwrap_or_default();
            match self.deliver(batch).await {
                Ok(rejected) => {
                    let rejected = rejected.min(count);
                    self.counts.add("exported", count - rejected);
                    self.counts.add("rejected", rejected);
                    if let Some(spans) = outage.taken() {
                        tracing::info!(spans, "collector accepts traces again; these spans were lost");
                    }
                }
                Err(why) => {
                    self.counts.add("failed", count);
                    if outage.failed(count) {
                        tracing::warn!(why, "collector accepts no traces; spans are lost until it does");
                    }
                }
            }
        }
    }

    /// Returns the next batch; empty if there is none and the pipeline closes.
    async fn gather(&mut self) -> Vec<SpanData> {
        let mut batch = Vec::with_capacity(BATCH_SPANS_MAX);
        let closing = self.closing.clone();
        let gathered = async {
            self.spans.recv_many(&mut batch, BATCH_SPANS_MAX).await;
            let until = Instant::now() + GATHER;
            while batch.len() < BATCH_SPANS_MAX {
                let room = BATCH_SPANS_MAX - batch.len();
                match timeout_at(until, self.spans.recv_many(&mut batch, room)).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        // Cancellation loses nothing: received spans are in the batch.
        if closing.run_until_cancelled(gathered).await.is_none() {
            while batch.len() < BATCH_SPANS_MAX
                && let Ok(span) = self.spans.try_recv()
            {
                batch.push(span);
            }
        }
        batch
    }

    /// Sends a batch until it is accepted or dropped. It is dropped at once if no further attempt would help. Returns
    /// the number of rejected spans.
    async fn deliver(&mut self, batch: Vec<SpanData>) -> Result<u64, String> {
        let body = self.collector.encode(batch);
        let (mut tries, mut pause) = (1, PAUSE_MIN);
        loop {
            let failure = match self.collector.post(body.clone()).await {
                Ok(rejected) => return Ok(rejected),
                Err(failure) => failure,
            };
            let Failure { why, is_passing, pause: asked } = failure;
            let is_last = tries == TRIES_MAX || !is_passing || self.closing.is_cancelled();
            if is_last {
                return Err(why);
            }
            // Ends early if the pipeline closes, and one last attempt follows.
            let _ = timeout(asked.unwrap_or(pause), self.closing.cancelled()).await;
            (tries, pause) = (tries + 1, pause * 2);
        }
    }
}

/// State of an outage, for the log.
struct Outage {
    /// Number of spans lost since it began.
    lost: u64,
    is_logged: bool,
    log: LogOnce,
}

impl Outage {
    fn new() -> Outage {
        Outage { lost: 0, is_logged: false, log: LogOnce::every(LOG_PAUSE) }
    }

    /// Records lost spans. Returns true if the outage is to be logged.
    fn failed(&mut self, spans: u64) -> bool {
        self.lost += spans;
        let is_due = !self.is_logged && self.log.is_due(());
        self.is_logged |= is_due;
        is_due
    }

    /// Records a success. Returns the number of lost spans if the end of the outage is to be logged.
    fn taken(&mut self) -> Option<u64> {
        let lost = std::mem::take(&mut self.lost);
        std::mem::take(&mut self.is_logged).then_some(lost)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_is_said_once_that_a_collector_is_away_and_once_that_it_is_back() {
        let mut outage = Outage::new();
        assert_eq!(outage.taken(), None, "it was never away");
        assert!(outage.failed(3));
        for second in 1..1000 {
            advance(SECOND).await;
            assert!(!outage.failed(1), "after {second} s");
        }
        assert_eq!((outage.taken(), outage.taken()), (Some(1002), None));
    }

    #[tokio::test(start_paused = true)]
    async fn of_one_that_comes_and_goes_little_is_said() {
        let (mut outage, mut lines) = (Outage::new(), 0);
        for _ in 0..600 {
            lines += u32::from(outage.failed(1));
            lines += u32::from(outage.taken().is_some());
            advance(SECOND).await;
        }
        assert_eq!(lines, 20, "two a minute");
    }
}
