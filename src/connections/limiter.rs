//! Connection limits: in total, and per address (per /64 for IPv6).

use std::sync::Arc;

use crate::brief_places::{BriefPlace, CheckPlaces};
use crate::metrics::Metrics;
use crate::model::limits;
use crate::origin::{Origin, OriginQuota, Sender, Short};

/// Limits of the connections of all listeners of a node.
pub struct ConnectionLimiter {
    shares: OriginQuota,
    /// Budget of the bytes of incomplete request heads.
    heads: Arc<OriginQuota>,
    /// Additional places for connections that find no other and check health or read metrics.
    checks: CheckPlaces,
    metrics: Arc<Metrics>,
}

/// Reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    #[error("all {0} places for connections are taken")]
    Total(usize),
    #[error("{0} has {1} connections, as many as one address may have")]
    Address(Origin, usize),
}

/// Place of one connection, freed on drop.
pub struct Permit {
    places: Arc<ConnectionLimiter>,
    listener: &'static str,
    origin: Origin,
    /// False for a connection that has a place for checks.
    is_counted: bool,
}

impl ConnectionLimiter {
    pub fn new(total: usize, per_address: usize, metrics: Arc<Metrics>) -> Arc<ConnectionLimiter> {
        let heads = Arc::new(OriginQuota::new(limits::HEAD_BYTES_PENDING_MAX, limits::HEAD_BYTES_PENDING_PER_ADDRESS));
        Arc::new(ConnectionLimiter {
            shares: OriginQuota::new(total, per_address),
            heads,
            checks: CheckPlaces::default(),
            metrics,
        })
    }

    /// Returns a place on `listener` for a connection from `origin`.
    pub fn take(self: &Arc<Self>, listener: &'static str, origin: Origin) -> Result<Permit, Full> {
        let (full, reason) = match self.shares.take(origin, 1) {
            Ok(()) => {
                self.metrics.connections.with_label_values(&[listener]).inc();
                return Ok(Permit { places: self.clone(), listener, origin, is_counted: true });
            }
            Err(Short::Total) => (Full::Total(self.shares.total()), "total"),
            Err(Short::Origin) => (Full::Address(origin, self.shares.per_origin()), "address"),
        };
        self.count_refusal(listener, reason);
        Err(full)
    }

    /// Returns a place for a connection that found no other one and may check health and read metrics.
    pub(super) fn take_for_check(self: &Arc<Self>, listener: &'static str, sender: Sender) -> (Permit, BriefPlace) {
        let origin = Origin::of_any(sender.address);
        (Permit { places: self.clone(), listener, origin, is_counted: false }, self.checks.enter(sender))
    }

    pub(super) fn count_refusal(&self, listener: &str, reason: &str) {
        self.metrics.connections_refused.with_label_values(&[listener, reason]).inc();
    }
}

impl Permit {
    /// Transfers the place to the client named by a proxy. Fails with the reason for metrics if the client may have no
    /// more.
    pub(super) fn pass_to(&mut self, client: Origin) -> Result<(), &'static str> {
        if self.is_counted {
            self.places.shares.pass(self.origin, client, 1).map_err(|_| "address")?;
        }
        self.origin = client;
        Ok(())
    }

    pub(super) fn heads(&self) -> Arc<OriginQuota> {
        self.places.heads.clone()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        self.places.shares.give_back(self.origin, 1);
        self.places.metrics.connections.with_label_values(&[self.listener]).dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_in_all_and_by_address_over_both_listeners() {
        let metrics = Arc::new(Metrics::new().expect("a consistent table"));
        let places = ConnectionLimiter::new(4, 2, metrics.clone());
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
        assert_eq!(places.shares.origins(), 3, "who is gone is forgotten");
    }
}
