//! Pauses between tries that keep failing: they double up to a limit, and end when the peer shows
//! itself.
//!
//! openraft has pauses of its own ([`openraft::network::Backoff`]), but takes them when a session asks
//! for its first request. A session that cannot even be opened comes back at once, and is opened anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::limits::{REDIAL_PAUSE_MAX, REDIAL_PAUSE_MIN};

/// The failures in a row of one kind of work for one peer; clones share them.
#[derive(Clone, Default)]
pub(super) struct SharedBackoff(Arc<AtomicU32>);

impl SharedBackoff {
    pub(super) fn note(&self, succeeded: bool) {
        match succeeded {
            true => self.0.store(0, Ordering::Relaxed),
            // Ends long before it could wrap: a failure takes a pause.
            false => drop(self.0.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Waits as long as the failures say; an arrival of the peer ends that, and begins anew.
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

/// The pauses of the links: a peer that is back is worth finding soon.
pub(super) fn pauses() -> impl Iterator<Item = Duration> + Send {
    (1..).map(pause_after)
}

fn pause_after(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        // Shifted by no more than it takes to reach the limit.
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
