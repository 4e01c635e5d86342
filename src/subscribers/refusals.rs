//! Queue of refused releases for webhooks. A client's refusal of one version is queued once, as far as this node
//! remembers. Refusals of the same version that arrive before delivery are merged into the first one, which counts
//! them.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

use crate::catalog::client_refusals::ClientRefusal;

/// Maximum number of releases in the queue. Further ones are not delivered; queries for the clients of a release still
/// return them.
const WAITING_MAX: usize = 100;
/// Maximum number of refusals remembered to suppress duplicates.
const REMEMBERED_MAX: usize = 8192;

/// Refusals that await delivery.
#[derive(Default)]
pub struct Refusals {
    hashing: RandomState,
    queue: Mutex<RefusalQueue>,
}

#[derive(Default)]
struct RefusalQueue {
    waiting: VecDeque<ClientRefusal>, // bound: refusals
    known: HashSet<u64>,              // bound: refusals
    /// The hashes in `known`, the oldest first.
    order: VecDeque<u64>, // bound: refusals
}

impl Refusals {
    /// Queues the refusal of a release. `client` identifies the client.
    pub fn note(&self, client: [&str; 3], refusal: ClientRefusal) {
        let mark = self.hashing.hash_one((client, &refusal.thing, refusal.version));
        let mut queue = self.queue.lock();
        let has_room = queue.waiting.len() < WAITING_MAX;
        let place = queue.waiting.iter().position(|known| is_of_one(known, &refusal));
        if (place.is_none() && !has_room) || !queue.known.insert(mark) {
            return;
        }
        queue.order.push_back(mark);
        if queue.order.len() > REMEMBERED_MAX
            && let Some(oldest) = queue.order.pop_front()
        {
            queue.known.remove(&oldest);
        }
        match place.and_then(|at| queue.waiting.get_mut(at)) {
            Some(known) => known.others += 1 + refusal.others,
            None => queue.waiting.push_back(refusal),
        }
    }

    /// Removes and returns the oldest refusals, at most this many.
    pub fn hand_over(&self, most: usize) -> Vec<ClientRefusal> {
        let waiting = &mut self.queue.lock().waiting;
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
    }

    /// Puts undelivered refusals back at the front of the queue.
    pub fn take_back(&self, refusals: Vec<ClientRefusal>) {
        let waiting = &mut self.queue.lock().waiting;
        for mut refusal in refusals.into_iter().rev() {
            if let Some(at) = waiting.iter().position(|newer| is_of_one(newer, &refusal)) {
                refusal.others += waiting.remove(at).map_or(0, |newer| 1 + newer.others);
            }
            waiting.push_front(refusal);
        }
    }
}

/// Reports whether both refer to the same version of a release.
fn is_of_one(one: &ClientRefusal, other: &ClientRefusal) -> bool {
    one.version == other.version && one.thing == other.thing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::history::Thing;
    use crate::model::config_file::ConfigKey;

    fn refusal(version: u64) -> ClientRefusal {
        let thing = Thing::File(ConfigKey::new("n", "g", "f"));
        ClientRefusal { thing, version, address: "a".into(), agent: "p".into(), message: "no".into(), others: 0 }
    }

    #[test]
    fn a_refusal_of_a_version_is_told_once_for_each_client() {
        let refusals = Refusals::default();
        for client in ["1", "2", "1"] {
            refusals.note([client, "", ""], refusal(1));
        }
        refusals.note(["1", "", ""], refusal(2));
        let numbers = |told: &[ClientRefusal]| told.iter().map(|one| (one.version, one.others)).collect::<Vec<_>>();
        let told = refusals.hand_over(1);
        assert_eq!(numbers(&told), [(1, 1)]);
        refusals.note(["3", "", ""], refusal(1));
        refusals.take_back(told);
        assert_eq!(numbers(&refusals.hand_over(9)), [(1, 2), (2, 0)]);
        assert!(refusals.hand_over(9).is_empty());
        refusals.note(["3", "", ""], refusal(1));
        assert!(refusals.hand_over(9).is_empty(), "it was told");
    }

    #[test]
    fn a_fleet_that_refuses_one_release_is_one_event() {
        let refusals = Refusals::default();
        for client in 0..5000 {
            refusals.note([&client.to_string(), "", ""], refusal(1));
        }
        let told = refusals.hand_over(usize::MAX);
        assert_eq!((told.len(), told[0].others), (1, 4999));
    }

    #[test]
    fn a_flood_is_bounded() {
        let refusals = Refusals::default();
        for version in 0..20_000 {
            refusals.note(["1", "", ""], refusal(version));
            if version % 500 == 0 {
                refusals.hand_over(400);
            }
        }
        assert!(refusals.hand_over(usize::MAX).len() <= WAITING_MAX);
        let queue = refusals.queue.lock();
        assert!(queue.order.len() <= REMEMBERED_MAX);
        assert_eq!(queue.order.len(), queue.known.len());
    }
}
