//! Instances that are alive: each beats steadily, through another node when one does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use super::{Api, eventually};

/// Limit of one call before the instance turns to the next node: a node that hangs must not make
/// a living instance silent.
const CALL_LIMIT: Duration = Duration::from_millis(1500);

/// Beating until this is dropped.
pub(crate) struct Beaters {
    _tasks: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    taken: AtomicUsize,
    missed: AtomicUsize,
}

impl Beaters {
    /// Sets every instance of `ids` beating each `pace`, spread over `nodes`.
    pub(crate) fn start(nodes: &[Api], ids: &[String], pace: Duration) -> Beaters {
        let (mut tasks, counts) = (JoinSet::new(), Arc::new(Counts::default()));
        for (number, id) in ids.iter().cloned().enumerate() {
            let (mut nodes, counts) = (nodes.to_vec(), counts.clone());
            let turn = number % nodes.len();
            nodes.rotate_left(turn);
            // Spread over the pace too, as a fleet is.
            let begin = pace * u32::try_from(number).expect("a small number") / u32::try_from(ids.len()).expect("few");
            tasks.spawn(async move {
                let mut beats = interval_at(Instant::now() + begin, pace);
                beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    beats.tick().await;
                    beat(&mut nodes, &id, &counts).await;
                }
            });
        }
        Beaters { _tasks: tasks, counts }
    }

    /// Waits until `count` more heartbeats are taken.
    pub(crate) async fn flow(&self, limit: Duration, count: usize) {
        more(&self.counts.taken, limit, "heartbeats are taken", count).await;
    }

    /// Waits until `count` more calls found no success.
    pub(crate) async fn miss(&self, limit: Duration, count: usize) {
        more(&self.counts.missed, limit, "heartbeats find nobody", count).await;
    }
}

async fn more(counter: &AtomicUsize, limit: Duration, what: &str, count: usize) {
    let wanted = counter.load(Ordering::Relaxed) + count;
    eventually(limit, what, || async {
        let seen = counter.load(Ordering::Relaxed);
        if seen >= wanted { Ok(()) } else { Err(format!("{seen} of {wanted}")) }
    })
    .await;
}

/// Tries the nodes in turn until one accepts the heartbeat, and stays with it.
async fn beat(nodes: &mut [Api], id: &str, counts: &Counts) {
    let mut pauses = interval(Duration::from_millis(20));
    loop {
        pauses.tick().await;
        let body = json!({ "id": id });
        let call = nodes[0].try_send(Method::POST, "/v1/Heartbeat", Some(&body));
        if let Ok(Ok(answer)) = tokio::time::timeout(CALL_LIMIT, call).await
            && answer.code() == 200_000
        {
            counts.taken.fetch_add(1, Ordering::Relaxed);
            return;
        }
        counts.missed.fetch_add(1, Ordering::Relaxed);
        nodes.rotate_left(1);
    }
}
