//! Refusals of clients on their way to webhooks: that of one client of one version of a release once, as far as this
//! node remembers.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

use crate::catalog::client_refusals::ClientRefusal;

/// Refusals that wait; what comes beyond is not told, and stands in who-has-what all the same.
const WAITING_MAX: usize = 1000;
/// Refusals that are remembered, so that none is told twice.
const REMEMBERED_MAX: usize = 8192;

/// Refusals that wait to be told.
#[derive(Default)]
pub struct Refusals {
    hashing: RandomState,
    queue: Mutex<RefusalQueue>,
}

#[derive(Default)]
struct RefusalQueue {
    waiting: VecDeque<ClientRefusal>,
    known: HashSet<u64>,
    /// The same, from the oldest on.
    order: VecDeque<u64>,
}

impl Refusals {
    /// A client refused a release; `client` tells it apart from others.
    pub fn note(&self, client: [&str; 3], refusal: ClientRefusal) {
        let mark = self.hashing.hash_one((client, &refusal.thing, refusal.version));
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= WAITING_MAX || !queue.known.insert(mark) {
            return;
        }
        queue.order.push_back(mark);
        if queue.order.len() > REMEMBERED_MAX
            && let Some(oldest) = queue.order.pop_front()
        {
            queue.known.remove(&oldest);
        }
        queue.waiting.push_back(refusal);
    }

    /// Hands over the oldest that wait, so many at most.
    pub fn hand_over(&self, most: usize) -> Vec<ClientRefusal> {
        let waiting = &mut self.queue.lock().waiting;
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
    }

    /// Takes back those that could not be told yet.
    pub fn take_back(&self, refusals: Vec<ClientRefusal>) {
        let waiting = &mut self.queue.lock().waiting;
        refusals.into_iter().rev().for_each(|refusal| waiting.push_front(refusal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::history::Thing;
    use crate::model::config_file::ConfigKey;

    fn refusal(version: u64) -> ClientRefusal {
        let thing = Thing::File(ConfigKey::new("n", "g", "f"));
        ClientRefusal { thing, version, address: "a".into(), agent: "p".into(), message: "no".into() }
    }

    #[test]
    fn a_refusal_of_a_version_is_told_once_for_each_client() {
        let refusals = Refusals::default();
        for client in ["1", "2", "1"] {
            refusals.note([client, "", ""], refusal(1));
        }
        refusals.note(["1", "", ""], refusal(2));
        let told = refusals.hand_over(2);
        assert_eq!(told.iter().map(|one| one.version).collect::<Vec<_>>(), [1, 1]);
        refusals.take_back(told);
        let told = refusals.hand_over(9);
        assert_eq!(told.iter().map(|one| one.version).collect::<Vec<_>>(), [1, 1, 2]);
        assert!(refusals.hand_over(9).is_empty());
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
