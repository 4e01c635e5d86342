//! Whom a limit counts as one client: an IPv4 address, or the /64 of an IPv6 address, as whoever has one
//! address of a /64 has all of them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Where a client comes from, as limits see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(IpAddr);

impl Origin {
    /// All clients whose address is not known.
    pub const UNKNOWN: Origin = Origin(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin(address.into()),
            // A single one, and not one of many.
            IpAddr::V6(address) if address.is_loopback() => Origin(address.into()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Origin(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
        }
    }

    pub fn of_any(address: Option<IpAddr>) -> Self {
        address.map_or(Origin::UNKNOWN, Origin::of)
    }

    /// On this very machine.
    pub fn is_loopback(self) -> bool {
        self.0.is_loopback()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V6(address) if !address.is_loopback() => write!(f, "{address}/64"),
            address => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_counts_as_one() {
        let rows = [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:db8:1:2::", "2001:db8:1:2::/64"),
            ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
            ("::1", "::1"),
        ];
        for (address, shown) in rows {
            assert_eq!(Origin::of(address.parse().expect("an address")).to_string(), shown, "{address}");
        }
        assert!(Origin::of([127, 0, 0, 9].into()).is_loopback());
        assert!(!Origin::UNKNOWN.is_loopback());
    }
}
