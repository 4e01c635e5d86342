//! Elections: the silence after which a leader counts as failed, and the election that follows.
//!
//! openraft has one election timeout for all distances, fixed at start. Here it follows the round trip to the peers as
//! measured by pings, so that a cluster on one site has a new leader in less than a second and one across continents
//! does not lose its leader to the distance. openraft's own timer is off and its lease is so long that it never decides
//! (`start::config`). This task sends the leader's heartbeats, ends the lease of a silent leader, and starts elections.
//!
//! Any byte of an append counts as a sign of life: over a slow link an entry takes longer than any timeout.

mod on_node;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) use self::on_node::hold;

/// Minimum election timeout.
const TIMEOUT_MIN: Duration = Duration::from_millis(400);
/// Maximum election timeout, whatever the round trip.
const TIMEOUT_MAX: Duration = Duration::from_secs(8);
/// Round trips in an election timeout, in addition to a pause between heartbeats: the last acknowledged heartbeat is
/// one round trip old when the acknowledgement arrives, the next one arrives a round trip later, and a vote takes
/// another.
const ROUND_TRIPS: u32 = 4;

const BEAT_PAUSE_MAX: Duration = Duration::from_millis(100);

/// The current election timeout.
pub(super) struct Elections {
    /// Timeout set by the operator, instead of a measured one.
    fixed: Option<Duration>,
    now_us: AtomicU64,
    /// Decisive round trip, see [`decisive`].
    round_trip_us: AtomicU64,
}

impl Elections {
    pub(super) fn new(fixed: Option<Duration>) -> Self {
        let elections = Elections { fixed, now_us: AtomicU64::default(), round_trip_us: AtomicU64::default() };
        elections.measure(Duration::ZERO);
        elections
    }

    /// Returns the time for which a leader may be silent, and for which a majority may acknowledge nothing.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_micros(self.now_us.load(Ordering::Relaxed))
    }

    /// Returns the round trip within which a majority has answered, as measured by the last pings.
    pub(super) fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip_us.load(Ordering::Relaxed))
    }

    fn measure(&self, round_trip: Duration) {
        let timeout =
            self.fixed.unwrap_or_else(|| (round_trip * ROUND_TRIPS + BEAT_PAUSE_MAX).clamp(TIMEOUT_MIN, TIMEOUT_MAX));
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.now_us.store(micros(timeout), Ordering::Relaxed);
        self.round_trip_us.store(micros(round_trip), Ordering::Relaxed);
    }
}

/// Returns the round trip within which a majority of the voters and the leader answer this node, given its round trips
/// to the other voters and to the leader. Unknown ones are `None`.
fn decisive(others: &mut [Option<Duration>], leader: Option<Duration>) -> Duration {
    others.sort_by_key(|round_trip| round_trip.unwrap_or(Duration::MAX));
    // Number of other voters that form a majority together with this one.
    let needed = others.len().div_ceil(2);
    let majority = needed.checked_sub(1).and_then(|last| others[last]);
    majority.unwrap_or_default().max(leader.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_decides_which_round_trip_counts() {
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        // Round trips to the other voters and to the leader, and the decisive one.
        type Row<'a> = (&'a [Option<Duration>], Option<Duration>, u64);
        let rows: &[Row<'_>] = &[
            (&[], None, 0),
            (&[ms(1)], None, 1),
            (&[ms(300), ms(2)], None, 2),
            (&[ms(300), ms(2)], ms(300), 300),
            (&[ms(300), None], None, 300),
            (&[None, None], None, 0),
            (&[ms(9), ms(1), ms(5), ms(70)], None, 5),
            (&[ms(9), ms(1), ms(5)], None, 5),
        ];
        for (others, leader, expected) in rows {
            let decided = decisive(&mut others.to_vec(), *leader);
            assert_eq!(decided, Duration::from_millis(*expected), "{others:?}, {leader:?}");
        }
    }

    #[test]
    fn the_timeout_follows_the_round_trip_within_its_limits() {
        let after = |fixed: Option<u64>, round_trip_ms| {
            let elections = Elections::new(fixed.map(Duration::from_millis));
            elections.measure(Duration::from_millis(round_trip_ms));
            elections.timeout().as_millis()
        };
        let rows = [(None, 0, 400), (None, 75, 400), (None, 150, 700), (None, 300, 1300), (None, 60_000, 8000)];
        for (fixed, round_trip, expected) in rows {
            assert_eq!(after(fixed, round_trip), expected, "{round_trip} ms");
        }
        assert_eq!(after(Some(1500), 3000), 1500, "the operator knows better");
    }
}
