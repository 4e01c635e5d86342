//! How many connections there may be: in all, and from one address (of IPv6: from one /64).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::metrics::Metrics;
use crate::origin::Origin;

/// The places of all listeners of a node.
pub struct Places {
    total: usize,
    per_address: usize,
    taken: Mutex<Taken>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_origin: HashMap<Origin, usize>,
}

/// Why a connection is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    #[error("all {0} places for connections are taken")]
    Total(usize),
    #[error("{0} has {1} connections, as many as one address may have")]
    Address(Origin, usize),
}

/// One connection; its place is free again when this is dropped.
pub struct Place {
    places: Arc<Places>,
    listener: &'static str,
    origin: Origin,
}

impl Places {
    pub fn new(total: usize, per_address: usize, metrics: Arc<Metrics>) -> Arc<Places> {
        Arc::new(Places { total, per_address, taken: Mutex::default(), metrics })
    }

    /// A place on `listener` for a connection from `origin`.
    pub fn take(self: &Arc<Self>, listener: &'static str, origin: Origin) -> Result<Place, Full> {
        let full = {
            let mut taken = self.taken.lock();
            let of_origin = taken.by_origin.get(&origin).copied().unwrap_or_default();
            if taken.all >= self.total {
                Full::Total(self.total)
            } else if of_origin >= self.per_address {
                Full::Address(origin, of_origin)
            } else {
                taken.all += 1;
                taken.by_origin.insert(origin, of_origin + 1);
                self.metrics.connections.with_label_values(&[listener]).inc();
                return Ok(Place { places: self.clone(), listener, origin });
            }
        };
        self.count_refusal(listener, if matches!(full, Full::Total(_)) { "total" } else { "address" });
        Err(full)
    }

    pub(super) fn count_refusal(&self, listener: &str, reason: &str) {
        self.metrics.connections_refused.with_label_values(&[listener, reason]).inc();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        // What counts nothing is removed, or every address that ever came would stay.
        match taken.by_origin.get_mut(&self.origin) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.by_origin.remove(&self.origin)),
        }
        drop(taken);
        self.places.metrics.connections.with_label_values(&[self.listener]).dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_in_all_and_by_address_over_both_listeners() {
        let metrics = Arc::new(Metrics::new().expect("a consistent table"));
        let places = Places::new(4, 2, metrics.clone());
        let [a, mapped, b, c] = ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "2001:db8::1"]
            .map(|text| Origin::of(text.parse().expect("an address")));
        let first = places.take("api", a).expect("free");
        let _second = places.take("compat", mapped).expect("free");
        assert_eq!(places.take("api", a).err(), Some(Full::Address(a, 2)), "both listeners and forms count");
        let _others = [places.take("api", b), places.take("api", c)].map(|place| place.expect("free"));
        assert_eq!(places.take("compat", c).err(), Some(Full::Total(4)));
        let refused = |reason| metrics.connections_refused.with_label_values(&["api", reason]).get();
        assert_eq!((refused("address"), refused("total")), (1, 0));
        assert_eq!(metrics.connections.with_label_values(&["api"]).get(), 3);
        drop(first);
        assert_eq!(metrics.connections.with_label_values(&["api"]).get(), 2);
        let again = places.take("api", a).expect("a place has become free");
        drop(again);
        assert_eq!(places.taken.lock().by_origin.len(), 3, "who is gone is forgotten");
    }
}
