//! Debounce: floods of health changes are proposed together.
//!
//! The instances of a failing zone fall silent over one heartbeat interval, and come back over one. Proposed as they
//! are found, they would be an entry of the log every round, and as many answers to every watcher of their services. So
//! after a round with very many changes the next round is awaited, as long as very many more are found; a few changes
//! are proposed at once.

use std::time::Duration;

use tokio::time::Instant;

/// Changes that make a round a flood, and new changes by which a later round continues it.
pub(super) const FLOOD: usize = 100;
/// Changes from which on no further ones are awaited.
pub(super) const FULL: usize = 10_000;
/// Maximum delay of the first change of a flood: the default heartbeat interval, and two rounds.
const HELD_MAX: Duration = Duration::from_secs(6);

/// Delayed changes of one kind.
#[derive(Default)]
pub(super) struct Debounce {
    since: Option<Instant>,
    seen: usize,
}

impl Debounce {
    /// Reports whether to wait for more changes than the `found` ones, which include those that wait already.
    pub(super) fn rises(&mut self, found: usize, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let grown = found.saturating_sub(self.seen);
        let rises = grown >= FLOOD && found < FULL && now - since < HELD_MAX;
        *self = if rises { Debounce { since: Some(since), seen: found } } else { Debounce::default() };
        rises
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rounds in which changes are proposed, given the findings of each half second.
    fn reported_rounds(found: &[usize]) -> Vec<usize> {
        let (start, mut flood, mut held) = (Instant::now(), Debounce::default(), 0);
        let mut told = Vec::new();
        for (round, more) in (0_u32..).zip(found) {
            held += more;
            if !flood.rises(held, start + round * Duration::from_millis(500)) {
                told.push(held);
                held = 0;
            }
        }
        told
    }

    #[test]
    fn a_flood_is_told_once_and_a_few_at_once() {
        assert_eq!(reported_rounds(&[1, 0, 99, 5]), [1, 0, 99, 5], "a few");
        assert_eq!(reported_rounds(&[500, 400, 300, 20, 7]), [1220, 7], "a zone that falls silent");
        assert_eq!(reported_rounds(&[100, 0, 100, 0]), [100, 100]);
        assert_eq!(reported_rounds(&[6000, 3999, 1, 0]), [10_000, 0], "one command is full");
        assert_eq!(reported_rounds(&[200; 26]), [200 * 13, 200 * 13], "nobody waits for longer than six seconds");
    }
}
