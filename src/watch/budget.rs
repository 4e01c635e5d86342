//! Limits for waiters, their keys and their bytes, in total and per origin. An origin above its share is refused while
//! others are still admitted.

use crate::origin::{Origin, OriginQuota, Short};

/// Average keys per waiter within the limit; a single poll may have 600.
const KEYS_PER_WAITER: usize = 20;
/// Average bytes of memory per waiter within the limit.
const BYTES_PER_WAITER: usize = 3 * 1024;

/// Load of one waiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) keys: usize,
    pub(super) bytes: usize,
}

/// Refusal of a further waiter because a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HubFull {
    #[error("this node holds as many requests as it may")]
    Total,
    #[error("as much is held for {0} as one client may hold")]
    Origin(Origin),
}

pub(super) struct Budget {
    waiters: OriginQuota,
    keys: OriginQuota,
    bytes: OriginQuota,
}

impl Budget {
    pub(super) fn new(waiters_max: usize, waiters_per_origin: usize) -> Self {
        let shares =
            |each: usize| OriginQuota::new(waiters_max.saturating_mul(each), waiters_per_origin.saturating_mul(each));
        Budget { waiters: shares(1), keys: shares(KEYS_PER_WAITER), bytes: shares(BYTES_PER_WAITER) }
    }

    fn parts(&self, load: Load) -> [(&OriginQuota, usize); 3] {
        [(&self.waiters, 1), (&self.keys, load.keys), (&self.bytes, load.bytes)]
    }

    /// Reserves room for one waiter, all of it or nothing.
    pub(super) fn take(&self, origin: Origin, load: Load) -> Result<(), HubFull> {
        let parts = self.parts(load);
        for (number, (shares, amount)) in parts.iter().enumerate() {
            if let Err(short) = shares.take(origin, *amount) {
                parts[..number].iter().for_each(|(shares, amount)| shares.give_back(origin, *amount));
                return Err(match short {
                    Short::Total => HubFull::Total,
                    Short::Origin => HubFull::Origin(origin),
                });
            }
        }
        Ok(())
    }

    pub(super) fn give_back(&self, origin: Origin, load: Load) {
        for (shares, amount) in self.parts(load) {
            shares.give_back(origin, amount);
        }
    }

    pub(super) fn waiters(&self) -> usize {
        self.waiters.taken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_bytes_are_limited_as_waiters_are() {
        let budget = Budget::new(10, 2);
        let [one, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|address| Origin::of(address.into()));
        let load = |keys, bytes| Load { keys, bytes };
        let rows = [
            ("more keys than a share", load(2 * KEYS_PER_WAITER + 1, 1)),
            ("more bytes than a share", load(1, 2 * BYTES_PER_WAITER + 1)),
            ("keys without end", load(usize::MAX, usize::MAX)),
        ];
        for (title, load) in rows {
            assert_eq!(budget.take(one, load), Err(HubFull::Origin(one)), "{title}");
            assert_eq!(budget.waiters(), 0, "{title}: nothing is taken");
        }
        let big = load(2 * KEYS_PER_WAITER - 1, 2 * BYTES_PER_WAITER - 1);
        assert_eq!(budget.take(one, big), Ok(()));
        assert_eq!(budget.take(one, load(2, 1)), Err(HubFull::Origin(one)), "no key is left");
        assert_eq!(budget.take(one, load(1, 1)), Ok(()));
        assert_eq!(budget.take(one, load(0, 0)), Err(HubFull::Origin(one)), "no waiter is left");
        assert_eq!(budget.take(other, big), Ok(()), "others are served meanwhile");
        budget.give_back(one, big);
        assert_eq!(budget.take(one, load(2, 1)), Ok(()), "what was given back can be had again");
        assert_eq!(Budget::new(1, 2).take(one, load(KEYS_PER_WAITER + 1, 0)), Err(HubFull::Total));
    }
}
