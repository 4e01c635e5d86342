//! Pauses between repeated failing attempts: they double up to a limit, and end when the peer connects.
//!
//! openraft has its own pauses ([`openraft::network::Backoff`]), but applies them only when a session reads its first
//! request. A session that cannot even be opened is retried at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::limits::{REDIAL_PAUSE_MAX, REDIAL_PAUSE_MIN};

/// Consecutive failures of one kind of work for one peer; clones share them.
#[derive(Clone, Default)]
pub(super) struct SharedBackoff(Arc<AtomicU32>);

impl SharedBackoff {
    pub(super) fn note(&self, succeeded: bool) {
        match succeeded {
            true => self.0.store(0, Ordering::Relaxed),
            // Cannot overflow in practice: each failure costs a pause.
            false => drop(self.0.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Waits for the pause after the failures so far; an arrival of the peer ends it and resets the count.
    pub(super) async fn wait(&self, arrivals: &mut watch::Receiver<u64>) {
        let pause = pause_after(self.0.load(Ordering::Relaxed));
        if pause.is_zero() {
            return;
        }
        tokio::select! {
            () = sleep(pause) => {}
            Ok(()) = arrivals.changed() => self.note(true),
        }
    }
}

/// Returns the endless sequence of pauses, for openraft. They are short, so that a peer that returns is found soon.
pub(super) fn pauses() -> impl Iterator<Item = Duration> + Send {
    (1..).map(pause_after)
}

fn pause_after(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        // The shift is limited to what reaches the maximum.
        some => (REDIAL_PAUSE_MIN * (1 << (some - 1).min(10))).min(REDIAL_PAUSE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let first: Vec<_> = pauses().take(7).map(|pause| pause.as_millis()).collect();
        assert_eq!(first, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!((pause_after(0), pause_after(u32::MAX)), (Duration::ZERO, REDIAL_PAUSE_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_waited_for_and_an_arrival_is_not() {
        let (backoff, arrival) = (SharedBackoff::default(), watch::Sender::new(0));
        let mut arrivals = arrival.subscribe();
        let waited = async |arrivals: &mut watch::Receiver<u64>| {
            let before = Instant::now();
            backoff.wait(arrivals).await;
            before.elapsed().as_millis()
        };
        assert_eq!(waited(&mut arrivals).await, 0);
        (0..20).for_each(|_| backoff.note(false));
        assert_eq!(waited(&mut arrivals).await, 1000);
        arrival.send_replace(1);
        assert_eq!(waited(&mut arrivals).await, 0, "the peer has shown itself");
        backoff.note(false);
        assert_eq!(waited(&mut arrivals).await, 50, "counted from that moment");
        backoff.note(true);
        assert_eq!(waited(&mut arrivals).await, 0);
        backoff.note(false);
        drop(arrival);
        assert_eq!(waited(&mut arrivals).await, 50, "nobody will tell any more");
    }
}
