//! How much may wait: waiters, keys and bytes, in all and of one origin. Whoever takes more than a share
//! is refused while others still get in.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::origin::Origin;

/// Keys a waiter that the limit on waiters allows for on average; a poll may bring 600.
const KEYS_PER_WAITER: usize = 20;
/// Bytes a waiter likewise: what its request holds in memory while it waits.
const BYTES_PER_WAITER: usize = 3 * 1024;

/// What one or many waiters take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) waiters: usize,
    pub(super) keys: usize,
    pub(super) bytes: usize,
}

impl Load {
    /// As much as so many waiters may take.
    fn of_waiters(waiters: usize) -> Load {
        let times = |each: usize| waiters.saturating_mul(each);
        Load { waiters, keys: times(KEYS_PER_WAITER), bytes: times(BYTES_PER_WAITER) }
    }

    fn plus(self, other: Load) -> Load {
        Load {
            waiters: self.waiters.saturating_add(other.waiters),
            keys: self.keys.saturating_add(other.keys),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Load) -> Load {
        Load { waiters: self.waiters - other.waiters, keys: self.keys - other.keys, bytes: self.bytes - other.bytes }
    }

    fn fits(self, limit: Load) -> bool {
        self.waiters <= limit.waiters && self.keys <= limit.keys && self.bytes <= limit.bytes
    }
}

/// A limit was reached: one more cannot be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HubFull {
    #[error("this node holds as many requests as it may")]
    Total,
    #[error("as much is held for {0} as one address may hold")]
    Origin(Origin),
}

pub(super) struct Budget {
    total: Load,
    of_origin: Load,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: Load,
    by_origin: HashMap<Origin, Load>,
}

impl Budget {
    pub(super) fn new(waiters_max: usize, waiters_per_origin: usize) -> Self {
        let (total, of_origin) = (Load::of_waiters(waiters_max), Load::of_waiters(waiters_per_origin));
        Budget { total, of_origin, taken: Mutex::default() }
    }

    pub(super) fn take(&self, origin: Origin, load: Load) -> Result<(), HubFull> {
        let mut taken = self.taken.lock();
        let all = taken.all.plus(load);
        let of_origin = taken.by_origin.get(&origin).copied().unwrap_or_default().plus(load);
        if !of_origin.fits(self.of_origin) {
            return Err(HubFull::Origin(origin));
        }
        if !all.fits(self.total) {
            return Err(HubFull::Total);
        }
        taken.all = all;
        taken.by_origin.insert(origin, of_origin);
        Ok(())
    }

    pub(super) fn give_back(&self, origin: Origin, load: Load) {
        let mut taken = self.taken.lock();
        taken.all = taken.all.minus(load);
        let left = taken.by_origin.get(&origin).copied().unwrap_or_default().minus(load);
        // What holds nothing is removed, or every address that ever came would stay.
        if left == Load::default() {
            taken.by_origin.remove(&origin);
        } else {
            taken.by_origin.insert(origin, left);
        }
    }

    pub(super) fn waiters(&self) -> usize {
        self.taken.lock().all.waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(keys: usize, bytes: usize) -> Load {
        Load { waiters: 1, keys, bytes }
    }

    #[test]
    fn one_origin_leaves_room_to_others() {
        let budget = Budget::new(10, 2);
        let [one, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|address| Origin::of(address.into()));
        let rows = [
            ("more keys than a share", load(2 * KEYS_PER_WAITER + 1, 1)),
            ("more bytes than a share", load(1, 2 * BYTES_PER_WAITER + 1)),
            ("keys without end", load(usize::MAX, usize::MAX)),
        ];
        for (title, load) in rows {
            assert_eq!(budget.take(one, load), Err(HubFull::Origin(one)), "{title}");
        }
        let big = load(2 * KEYS_PER_WAITER - 1, 2 * BYTES_PER_WAITER - 1);
        assert_eq!(budget.take(one, big), Ok(()));
        assert_eq!(budget.take(one, load(2, 1)), Err(HubFull::Origin(one)), "no key is left");
        assert_eq!(budget.take(one, load(1, 1)), Ok(()));
        assert_eq!(budget.take(one, load(0, 0)), Err(HubFull::Origin(one)), "no waiter is left");
        assert_eq!(budget.take(other, big), Ok(()), "others are served meanwhile");
        budget.give_back(one, big);
        assert_eq!(budget.take(one, load(2, 1)), Ok(()), "what was given back can be had again");
    }

    #[test]
    fn all_origins_share_the_total() {
        let budget = Budget::new(4, 2);
        let origins: Vec<Origin> = (1..=5).map(|last| Origin::of([192, 0, 2, last].into())).collect();
        for origin in &origins[..4] {
            assert_eq!(budget.take(*origin, load(1, 1)), Ok(()));
        }
        assert_eq!(budget.take(origins[4], load(1, 1)), Err(HubFull::Total));
        for origin in &origins[..4] {
            budget.give_back(*origin, load(1, 1));
        }
        let taken = budget.taken.lock();
        assert_eq!((taken.all, taken.by_origin.len()), (Load::default(), 0), "who is gone is forgotten");
    }
}
