//! Pending handshakes: connections that have not proved yet that they know the cluster secret, limited by
//! [`BriefPlaces`]. Origins from which members have connected before have separate places, which strangers cannot
//! occupy however many addresses they have.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::{ACQUAINTANCES_WAITING_MAX, STRANGERS_MAX, STRANGERS_PER_ADDRESS};
use crate::brief_places::{BriefPlace, BriefPlaces};
use crate::origin::Origin;

/// Maximum number of remembered origins.
const ORIGINS_MAX: usize = 64;

/// Places for pending handshakes.
pub(super) struct PendingHandshakes {
    strangers: Arc<BriefPlaces>,
    acquaintances: Arc<BriefPlaces>,
    /// Origins of members, the most recent last.
    origins: Mutex<VecDeque<Origin>>,
}

/// Place of one handshake, freed on drop.
pub(super) struct Seat {
    pending: Arc<PendingHandshakes>,
    origin: Origin,
    place: BriefPlace,
}

impl Default for PendingHandshakes {
    fn default() -> PendingHandshakes {
        PendingHandshakes {
            strangers: BriefPlaces::new(STRANGERS_MAX, STRANGERS_PER_ADDRESS),
            acquaintances: BriefPlaces::new(ACQUAINTANCES_WAITING_MAX, STRANGERS_PER_ADDRESS),
            origins: Mutex::default(),
        }
    }
}

impl PendingHandshakes {
    /// Returns a place for a connection from `origin`; another connection may lose its own.
    pub(super) fn enter(self: &Arc<Self>, origin: Origin) -> Seat {
        let is_acquaintance = self.origins.lock().contains(&origin);
        let places = if is_acquaintance { &self.acquaintances } else { &self.strangers };
        Seat { pending: self.clone(), origin, place: places.enter(origin) }
    }
}

impl Seat {
    /// Waits until the place is given to another connection.
    pub(super) async fn taken_away(&self) {
        self.place.taken_away().await;
    }

    /// Records that a member has connected from this origin.
    pub(super) fn recognise(&self) {
        let mut origins = self.pending.origins.lock();
        origins.retain(|origin| *origin != self.origin);
        if origins.len() >= ORIGINS_MAX {
            origins.pop_front();
        }
        origins.push_back(self.origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Origin {
        Origin::of([192, 0, 2, last].into())
    }

    fn gone(seats: &[Seat]) -> usize {
        seats.iter().filter(|seat| seat.place.is_taken_away()).count()
    }

    #[test]
    fn members_have_places_that_strangers_cannot_take() {
        let pending = Arc::new(PendingHandshakes::default());
        pending.enter(at(1)).recognise();
        let member = pending.enter(at(1));
        let strangers: Vec<_> = (2..=u8::MAX).map(|last| pending.enter(at(last))).collect();
        assert!(!member.place.is_taken_away());
        assert_eq!(strangers.len() - gone(&strangers), STRANGERS_MAX);
        let more: Vec<_> = (0..STRANGERS_PER_ADDRESS).map(|_| pending.enter(at(1))).collect();
        assert!(member.place.is_taken_away() && gone(&more) == 0, "among each other they have limits too");
    }
}
