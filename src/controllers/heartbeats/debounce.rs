//! Debounce: changes of health that come in floods are proposed together.
//!
//! The instances of a zone that dies fall silent over one pace of their heartbeats, and come back over one. Told
//! as they are found, that would be an entry of the log every round, and as many answers to everybody who
//! watches their services. So where very many are found in one round the next one is waited for, as long as
//! very many more come; a few wait for nothing.

use std::time::Duration;

use tokio::time::Instant;

/// Changes of one round that are a flood, and of a later one, that it still rises.
pub(super) const FLOOD: usize = 100;
/// Changes that wait for no more of them.
pub(super) const FULL: usize = 10_000;
/// Longest wait of the first of a flood: a pace of heartbeats where none is given, and two rounds.
const HELD_MAX: Duration = Duration::from_secs(6);

/// The changes of one kind that are held back.
#[derive(Default)]
pub(super) struct Debounce {
    since: Option<Instant>,
    seen: usize,
}

impl Debounce {
    /// True if more than the `found` changes are to be waited for, among which are those that wait already.
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

    /// Findings of each half second, and the rounds in which they are told.
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
