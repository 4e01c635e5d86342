//! Origins, the unit of limits per client, and quotas: limits in total and per origin.
//!
//! The origin of an authenticated client is the user of its token, or the app whose access key signed the request, at
//! any address: a fleet that shares one address is not one client. Without either, and until then, the origin is an
//! IPv4 address or the /64 of an IPv6 address, because the holder of one address of a /64 has all of them.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Origin of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(Unit);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Unit {
    Address(IpAddr),
    /// User, as the hash of its name.
    User(u64),
    /// App of config clients, as the hash of its id.
    App(u64),
}

/// Hasher for names, seeded at random so that collisions cannot be chosen.
static NAMES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Origin {
    /// Origin shared by all clients whose address is not known.
    pub const UNKNOWN: Origin = Origin(Unit::Address(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));

    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin(Unit::Address(address.into())),
            // Loopback is a single address without a /64.
            IpAddr::V6(address) if address.is_loopback() => Origin(Unit::Address(address.into())),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Origin(Unit::Address(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()))
            }
        }
    }

    pub fn of_any(address: Option<IpAddr>) -> Self {
        address.map_or(Origin::UNKNOWN, Origin::of)
    }

    /// Returns the origin of the user or service token with this name.
    pub fn of_user(name: &str) -> Self {
        Origin(Unit::User(NAMES.hash_one(name)))
    }

    /// Returns the origin of the app whose key signed.
    pub fn of_app(app_id: &str) -> Self {
        Origin(Unit::App(NAMES.hash_one(app_id)))
    }

    /// Reports whether the client is authenticated.
    fn is_proved(self) -> bool {
        matches!(self.0, Unit::User(_) | Unit::App(_))
    }
}

/// Sender of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// Address of the client, if known.
    pub address: Option<IpAddr>,
    /// True if the connection comes from this machine and no proxy names another client.
    pub is_local: bool,
}

/// Unit of the limits on failed logins. All loopback addresses are one unit; a loopback address that a proxy reports is
/// another unit than a local sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guesser {
    pub origin: Origin,
    pub is_local: bool,
}

impl Sender {
    pub fn guesser(self) -> Guesser {
        let address = match self.address {
            Some(address) if address.to_canonical().is_loopback() => Some(Ipv4Addr::LOCALHOST.into()),
            address => address,
        };
        Guesser { origin: Origin::of_any(address), is_local: self.is_local }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unit::Address(IpAddr::V6(address)) if !address.is_loopback() => write!(f, "{address}/64"),
            Unit::Address(address) => address.fmt(f),
            Unit::User(_) => f.write_str("the user of this token"),
            Unit::App(_) => f.write_str("the app of this signature"),
        }
    }
}

/// Limit for all clients together, and for each origin.
pub struct OriginQuota {
    total: usize,
    per_origin: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_origin: HashMap<Origin, usize>,
}

impl Taken {
    /// Subtracts an amount; an origin without a remainder is removed, so that the map does not grow with every address
    /// seen.
    fn take_off(&mut self, origin: Origin, amount: usize) {
        match self.by_origin.get_mut(&origin) {
            Some(of_origin) if *of_origin > amount => *of_origin -= amount,
            _ => drop(self.by_origin.remove(&origin)),
        }
    }
}

/// Limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    Total,
    Origin,
}

impl OriginQuota {
    pub fn new(total: usize, per_origin: usize) -> Self {
        OriginQuota { total, per_origin, taken: Mutex::default() }
    }

    /// Takes an amount for a client, all of it or nothing.
    pub fn take(&self, origin: Origin, amount: usize) -> Result<(), Short> {
        let mut taken = self.taken.lock();
        let of_origin = taken.by_origin.get(&origin).copied().unwrap_or_default().saturating_add(amount);
        let all = taken.all.saturating_add(amount);
        if of_origin > self.limit_of(origin) {
            return Err(Short::Origin);
        }
        if all > self.total {
            return Err(Short::Total);
        }
        taken.all = all;
        if of_origin > 0 {
            taken.by_origin.insert(origin, of_origin);
        }
        Ok(())
    }

    /// Returns the limit of one origin. A user or an app may have half of the total, because a token or key often
    /// serves a fleet.
    fn limit_of(&self, origin: Origin) -> usize {
        if origin.is_proved() { self.per_origin.max(self.total / 2) } else { self.per_origin }
    }

    /// Transfers an amount from one origin to another, all of it or nothing.
    pub fn pass(&self, from: Origin, to: Origin, amount: usize) -> Result<(), Short> {
        if from == to {
            return Ok(());
        }
        let mut taken = self.taken.lock();
        let of_other = taken.by_origin.get(&to).copied().unwrap_or_default().saturating_add(amount);
        if of_other > self.limit_of(to) {
            return Err(Short::Origin);
        }
        taken.by_origin.insert(to, of_other);
        taken.take_off(from, amount);
        Ok(())
    }

    /// Takes an amount for a client, even beyond the limit.
    pub fn charge(&self, origin: Origin, amount: usize) {
        let mut taken = self.taken.lock();
        taken.all = taken.all.saturating_add(amount);
        let of_origin = taken.by_origin.entry(origin).or_default();
        *of_origin = of_origin.saturating_add(amount);
    }

    /// Gives back an amount taken for a client.
    pub fn give_back(&self, origin: Origin, amount: usize) {
        let mut taken = self.taken.lock();
        taken.all -= amount;
        taken.take_off(origin, amount);
    }

    /// Returns the amount taken by all clients.
    pub fn taken(&self) -> usize {
        self.taken.lock().all
    }

    pub fn per_origin(&self) -> usize {
        self.per_origin
    }

    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the amount taken by one client.
    #[cfg(test)]
    pub fn taken_by(&self, origin: Origin) -> usize {
        self.taken.lock().by_origin.get(&origin).copied().unwrap_or_default()
    }

    /// Returns the number of clients with an amount.
    #[cfg(test)]
    pub fn origins(&self) -> usize {
        self.taken.lock().by_origin.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_room_to_others_and_all_share_the_total() {
        let shares = OriginQuota::new(10, 4);
        let [a, b, c] = [1, 2, 3].map(|last| Origin::of([192, 0, 2, last].into()));
        assert_eq!(shares.take(a, 5), Err(Short::Origin));
        assert_eq!((shares.take(a, 4), shares.take(a, 0), shares.take(a, 1)), (Ok(()), Ok(()), Err(Short::Origin)));
        assert_eq!((shares.take(b, 4), shares.take(c, 3), shares.take(c, 2)), (Ok(()), Err(Short::Total), Ok(())));
        assert_eq!(shares.take(b, usize::MAX), Err(Short::Origin));
        shares.give_back(a, 1);
        assert_eq!(shares.take(c, 1), Ok(()), "what was given back can be had again");
        for (origin, amount) in [(a, 3), (b, 4), (c, 3)] {
            shares.give_back(origin, amount);
        }
        assert_eq!((shares.taken(), shares.origins()), (0, 0), "who is gone is forgotten");
    }

    /// One user at one address and at many counts as one client.
    #[test]
    fn a_user_and_an_app_are_one_client_each_and_have_half_of_all() {
        let shares = OriginQuota::new(10, 2);
        let [address, other] = [1, 2].map(|last| Origin::of([192, 0, 2, last].into()));
        let (fleet, stranger) = (Origin::of_user("fleet"), Origin::of_app("fleet"));
        assert_ne!(fleet, stranger);
        for _ in 0..5 {
            shares.take(address, 1).expect("free");
            shares.pass(address, fleet, 1).expect("half of all");
        }
        shares.take(address, 2).expect("the address has its own");
        assert_eq!(shares.pass(address, Origin::of_user("fleet"), 1), Err(Short::Origin));
        assert_eq!(shares.pass(address, stranger, 2), Ok(()));
        assert_eq!((shares.taken(), shares.origins()), (7, 2));
        assert_eq!(shares.pass(stranger, stranger, 2), Ok(()));
        assert_eq!((shares.take(other, 2), shares.take(address, 2)), (Ok(()), Err(Short::Total)));
        for (origin, amount) in [(fleet, 5), (stranger, 2), (other, 2)] {
            shares.give_back(origin, amount);
        }
        assert_eq!((shares.taken(), shares.origins()), (0, 0));
    }

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
    }

    #[test]
    fn all_of_loopback_guesses_as_one() {
        let guesser =
            |text: &str, is_local| Sender { address: Some(text.parse().expect("an address")), is_local }.guesser();
        for (is_local, address) in [false, true].into_iter().flat_map(|local| [(local, "127.0.0.9"), (local, "::1")]) {
            assert_eq!(guesser(address, is_local), guesser("127.0.0.1", is_local), "{address}");
        }
        assert_ne!(guesser("127.0.0.1", true), guesser("127.0.0.1", false), "a proxy's word is not the socket's");
        assert_ne!(guesser("192.0.2.1", false), guesser("192.0.2.2", false));
    }
}
