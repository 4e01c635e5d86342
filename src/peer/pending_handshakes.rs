//! Pending handshakes: connections that have not proved yet that they know the cluster secret. Their number is
//! bounded; one more pushes another one out.
//!
//! A handshake takes a few round trips, so a place is needed for milliseconds by whoever means it. Whoever
//! says nothing is sent away as soon as its place is wanted, the oldest of the origin that has most of them
//! first: silence does not keep others out. Origins from which a member has come before have places of
//! their own, which strangers cannot take however many addresses they have.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::limits::{ACQUAINTANCES_WAITING_MAX, STRANGERS_MAX, STRANGERS_PER_ADDRESS};
use crate::origin::Origin;

/// Origins that are remembered.
const ORIGINS_MAX: usize = 64;

/// All places.
#[derive(Default)]
pub(super) struct PendingHandshakes(Mutex<Handshakes>);

#[derive(Default)]
struct Handshakes {
    next: u64,
    /// The oldest first.
    seated: Vec<Seated>,
    /// Origins that members came from, the latest last.
    origins: Vec<Origin>,
}

struct Seated {
    number: u64,
    origin: Origin,
    is_acquaintance: bool,
    leave: CancellationToken,
}

/// A place, free again when this is dropped.
pub(super) struct Seat {
    pending: Arc<PendingHandshakes>,
    number: u64,
    origin: Origin,
    leave: CancellationToken,
}

impl PendingHandshakes {
    /// A place for a connection from `origin`; somebody else may have to leave.
    pub(super) fn enter(self: &Arc<Self>, origin: Origin) -> Seat {
        let (mut waiting, leave) = (self.0.lock(), CancellationToken::new());
        let is_acquaintance = waiting.origins.contains(&origin);
        waiting.make_room(origin, is_acquaintance);
        let number = waiting.next;
        waiting.next += 1;
        waiting.seated.push(Seated { number, origin, is_acquaintance, leave: leave.clone() });
        drop(waiting);
        Seat { pending: self.clone(), number, origin, leave }
    }
}

impl Handshakes {
    fn make_room(&mut self, origin: Origin, is_acquaintance: bool) {
        let mut by_origin = BTreeMap::<Origin, usize>::new();
        for seated in self.seated.iter().filter(|seated| seated.is_acquaintance == is_acquaintance) {
            *by_origin.entry(seated.origin).or_default() += 1;
        }
        let places = if is_acquaintance { ACQUAINTANCES_WAITING_MAX } else { STRANGERS_MAX };
        if by_origin.get(&origin).is_some_and(|count| *count >= STRANGERS_PER_ADDRESS) {
            self.send_away(origin, is_acquaintance);
        } else if by_origin.values().sum::<usize>() >= places
            && let Some((greediest, _)) = by_origin.iter().max_by_key(|(_, count)| **count)
        {
            self.send_away(*greediest, is_acquaintance);
        }
    }

    fn send_away(&mut self, origin: Origin, is_acquaintance: bool) {
        let is_meant = |seated: &Seated| seated.origin == origin && seated.is_acquaintance == is_acquaintance;
        if let Some(oldest) = self.seated.iter().position(is_meant) {
            self.seated.remove(oldest).leave.cancel();
        }
    }
}

impl Seat {
    /// Returns when the place is given to somebody else.
    pub(super) async fn taken_away(&self) {
        self.leave.cancelled().await;
    }

    /// A member has come from here: its origin is no stranger's from now on.
    pub(super) fn recognise(&self) {
        let mut waiting = self.pending.0.lock();
        waiting.origins.retain(|origin| *origin != self.origin);
        if waiting.origins.len() >= ORIGINS_MAX {
            waiting.origins.remove(0);
        }
        waiting.origins.push(self.origin);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.pending.0.lock().seated.retain(|seated| seated.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Origin {
        Origin::of([192, 0, 2, last].into())
    }

    fn gone(seats: &[Seat]) -> Vec<usize> {
        seats.iter().enumerate().filter(|(_, seat)| seat.leave.is_cancelled()).map(|(number, _)| number).collect()
    }

    #[test]
    fn the_oldest_of_the_same_origin_leaves_first() {
        let pending = Arc::new(PendingHandshakes::default());
        let other = pending.enter(at(1));
        let seats: Vec<_> = (0..STRANGERS_PER_ADDRESS + 2).map(|_| pending.enter(at(2))).collect();
        assert_eq!(gone(&seats), [0, 1]);
        assert!(!other.leave.is_cancelled());
        drop((seats, other));
        assert!(pending.0.lock().seated.is_empty());
    }

    #[test]
    fn the_greediest_makes_room_for_those_who_have_less() {
        let pending = Arc::new(PendingHandshakes::default());
        let greedy: Vec<_> = (0..STRANGERS_PER_ADDRESS).map(|_| pending.enter(at(1))).collect();
        let others: Vec<_> = (2..).map(|last| pending.enter(at(last))).take(STRANGERS_MAX).collect();
        assert_eq!((gone(&greedy).len(), gone(&others).len()), (STRANGERS_PER_ADDRESS - 1, 1));
    }

    #[test]
    fn members_have_places_that_strangers_cannot_take() {
        let pending = Arc::new(PendingHandshakes::default());
        pending.enter(at(1)).recognise();
        let member = pending.enter(at(1));
        let strangers: Vec<_> = (2..=u8::MAX).map(|last| pending.enter(at(last))).collect();
        assert!(!member.leave.is_cancelled());
        assert_eq!(strangers.len() - gone(&strangers).len(), STRANGERS_MAX);
        let more: Vec<_> = (0..STRANGERS_PER_ADDRESS).map(|_| pending.enter(at(1))).collect();
        assert!(member.leave.is_cancelled() && gone(&more).is_empty(), "among each other they have limits too");
    }
}
