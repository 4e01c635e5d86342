//! Places for short operations. Their number is limited, and a new operation displaces an older one.
//!
//! A handshake takes a few round trips and a health check one, so a legitimate client is done within milliseconds. A
//! silent client is displaced as soon as another one needs its place, beginning with the oldest of the origin with the
//! most places. Silent clients therefore cannot lock out others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::origin::{Origin, Sender};

/// Places for health checks from the node's own machine.
const LOCAL_CHECKS_MAX: usize = 8;
/// Places for health checks from elsewhere, in total and per origin.
const CHECKS_MAX: usize = 16;
const CHECKS_PER_ORIGIN: usize = 8;
/// Time limit of a check including its response.
const CHECK_WITHIN: Duration = Duration::from_secs(10);

/// Limited number of places, in total and per origin.
pub struct BriefPlaces {
    total: usize,
    per_origin: usize,
    // bound: brief-places
    seated: Mutex<Vec<Seated>>,
}

struct Seated {
    origin: Origin,
    leave: CancellationToken,
}

/// Place of one operation, released on drop.
pub struct BriefPlace {
    places: Arc<BriefPlaces>,
    leave: CancellationToken,
}

impl BriefPlaces {
    pub fn new(total: usize, per_origin: usize) -> Arc<BriefPlaces> {
        Arc::new(BriefPlaces { total, per_origin, seated: Mutex::default() })
    }

    /// Takes a place for a client of `origin`; another client may lose its own.
    pub fn enter(self: &Arc<Self>, origin: Origin) -> BriefPlace {
        let leave = CancellationToken::new();
        let mut seated = self.seated.lock();
        if let Some(leaves) = self.who_leaves(&seated, origin) {
            seated.remove(leaves).leave.cancel();
        }
        // The first element is the oldest.
        seated.push(Seated { origin, leave: leave.clone() });
        drop(seated);
        BriefPlace { places: self.clone(), leave }
    }

    /// Returns the index of the client that makes room for one of `origin`, if that is necessary.
    fn who_leaves(&self, seated: &[Seated], origin: Origin) -> Option<usize> {
        let mut by_origin = BTreeMap::<Origin, usize>::new();
        seated.iter().for_each(|one| *by_origin.entry(one.origin).or_default() += 1);
        let leaves = if by_origin.get(&origin).is_some_and(|count| *count >= self.per_origin) {
            origin
        } else if seated.len() >= self.total {
            *by_origin.iter().max_by_key(|(_, count)| **count)?.0
        } else {
            return None;
        };
        seated.iter().position(|one| one.origin == leaves)
    }
}

impl BriefPlace {
    /// Waits until the place is given to another client.
    pub async fn taken_away(&self) {
        self.leave.cancelled().await;
    }

    /// Reports whether the place was given to another client.
    pub fn is_taken_away(&self) -> bool {
        self.leave.is_cancelled()
    }
}

impl Drop for BriefPlace {
    fn drop(&mut self) {
        // Tokens cannot be compared, so the entry in the list is recognized by its cancelled token.
        self.leave.cancel();
        self.places.seated.lock().retain(|one| !one.leave.is_cancelled());
    }
}

/// Places for health checks and metrics when all regular connections are in use. Checks from the node's own machine
/// have separate places, because a supervisor there kills a node that does not answer.
pub struct CheckPlaces {
    local: Arc<BriefPlaces>,
    others: Arc<BriefPlaces>,
}

impl Default for CheckPlaces {
    fn default() -> CheckPlaces {
        CheckPlaces {
            local: BriefPlaces::new(LOCAL_CHECKS_MAX, LOCAL_CHECKS_MAX),
            others: BriefPlaces::new(CHECKS_MAX, CHECKS_PER_ORIGIN),
        }
    }
}

impl CheckPlaces {
    /// Takes a place for a check by this sender; another check may lose its own.
    pub fn enter(&self, sender: Sender) -> BriefPlace {
        let places = if sender.is_local { &self.local } else { &self.others };
        places.enter(Origin::of_any(sender.address))
    }
}

/// Runs a check while it has its place, for at most ten seconds. Returns `None` if it did not finish.
pub async fn check<T>(place: &BriefPlace, check: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = timeout(CHECK_WITHIN, check) => done.ok(),
        () = place.taken_away() => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Origin {
        Origin::of([192, 0, 2, last].into())
    }

    fn gone(seats: &[BriefPlace]) -> Vec<usize> {
        seats.iter().enumerate().filter(|(_, seat)| seat.is_taken_away()).map(|(number, _)| number).collect()
    }

    #[test]
    fn the_oldest_of_the_same_origin_leaves_first() {
        let places = BriefPlaces::new(64, 16);
        let other = places.enter(at(1));
        let seats: Vec<_> = (0..18).map(|_| places.enter(at(2))).collect();
        assert_eq!(gone(&seats), [0, 1]);
        assert!(!other.is_taken_away());
        drop((seats, other));
        assert!(places.seated.lock().is_empty());
    }

    #[test]
    fn the_greediest_makes_room_for_those_who_have_less() {
        let places = BriefPlaces::new(64, 16);
        let greedy: Vec<_> = (0..16).map(|_| places.enter(at(1))).collect();
        let others: Vec<_> = (2..).map(|last| places.enter(at(last))).take(64).collect();
        assert_eq!((gone(&greedy).len(), gone(&others).len()), (15, 1));
        assert_eq!(places.seated.lock().len(), 64);
    }

    #[tokio::test(start_paused = true)]
    async fn checks_of_the_machine_have_places_of_their_own_and_end() {
        let checks = CheckPlaces::default();
        let sender = |address: [u8; 4], is_local| Sender { address: Some(address.into()), is_local };
        let local = checks.enter(sender([127, 0, 0, 1], true));
        let others: Vec<_> = (0..=u8::MAX).map(|last| checks.enter(sender([192, 0, 2, last], false))).collect();
        assert!(!local.is_taken_away());
        assert_eq!(others.len() - gone(&others).len(), CHECKS_MAX);
        let began = tokio::time::Instant::now();
        assert_eq!(check(&local, std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed(), CHECK_WITHIN);
        assert_eq!(check(&others[0], std::future::pending::<()>()).await, None, "it was pushed out");
        assert_eq!(check(&others[255], async { 1 }).await, Some(1));
    }
}
