//! Addresses to which the node may send requests with URLs from users: the node must not give access to addresses that
//! it can reach and its callers cannot.
//!
//! An IPv6 address counts as public only if it is a global unicast one that embeds no other address; an IPv4-mapped
//! address is treated as IPv4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Class of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Address on the internet.
    Public,
    /// Address of this machine or of the networks around it: loopback, private and shared (RFC 1918, RFC 6598, unique
    /// local), link-local.
    Private,
    /// Address that is never contacted: metadata services of clouds, unspecified and multicast addresses, reserved and
    /// documentation ranges, and tunnels for IPv4.
    Forbidden,
}

/// Addresses of the metadata services of clouds, which give a machine its credentials.
const METADATA: [IpAddr; 8] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    // AWS: containers, and pods of Kubernetes.
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    // Tencent Cloud.
    IpAddr::V4(Ipv4Addr::new(169, 254, 0, 23)),
    // Alibaba Cloud, in the shared range.
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    // Azure, in a public range.
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    // AWS by IPv6: machines, and pods of Kubernetes.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
];

impl Reach {
    pub fn of(address: IpAddr) -> Reach {
        let address = address.to_canonical();
        if METADATA.contains(&address) {
            return Reach::Forbidden;
        }
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// Reports whether requests may be sent to addresses of this class.
    pub fn is_allowed(self, allows_private: bool) -> bool {
        match self {
            Reach::Public => true,
            Reach::Private => allows_private,
            Reach::Forbidden => false,
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Reach {
    let [one, two, three, _] = address.octets();
    match (one, two, three) {
        (10 | 127, ..) | (100, 64..=127, _) | (169, 254, _) | (172, 16..=31, _) | (192, 168, _) => Reach::Private,
        // This network; protocol assignments, documentation, 6to4 relays; benchmarks; multicast, reserved, broadcast.
        (0, ..)
        | (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18 | 19, _)
        | (198, 51, 100)
        | (203, 0, 113)
        | (224.., ..) => Reach::Forbidden,
        _ => Reach::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Reach {
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Private,
        // Unique local and link-local.
        [0xfc00..=0xfdff, ..] | [0xfe80..=0xfebf, ..] => Reach::Private,
        // Protocol assignments including Teredo, documentation, 6to4.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Forbidden,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Forbidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        use Reach::{Forbidden, Private, Public};
        let rows = [
            (Public, "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.0.1.1 223.255.255.255"),
            (Public, "2606:4700::1111 2a00::1 2001:4860:4860::8888 ::ffff:8.8.8.8"),
            (
                Private,
                "127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 169.254.0.1",
            ),
            (Private, "::1 fc00::1 fdff::1 fe80::1 febf::1 ::ffff:127.0.0.1 ::ffff:10.1.2.3 ::ffff:100.64.0.1"),
            (Forbidden, "0.0.0.0 0.1.2.3 169.254.169.254 169.254.170.2 100.100.100.200 fd00:ec2::254 255.255.255.255"),
            (Forbidden, "169.254.170.23 169.254.0.23 168.63.129.16 ::ffff:168.63.129.16 fd00:ec2::23"),
            (Public, "168.63.129.15 168.63.129.17"),
            (
                Forbidden,
                "192.0.0.8 192.0.2.1 192.88.99.1 198.18.0.1 198.19.1.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1",
            ),
            (
                Forbidden,
                ":: ::ffff:169.254.169.254 ::ffff:0.0.0.0 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1::",
            ),
            (Forbidden, "2001::1 2001:db8::1 3fff::1 fec0::1 ff02::1 100::1 4000::1 5f00::1"),
        ];
        for (reach, addresses) in rows {
            for address in addresses.split(' ') {
                assert_eq!(Reach::of(address.parse().expect(address)), reach, "{address}");
            }
        }
    }

    #[test]
    fn what_is_private_is_allowed_on_demand_and_what_is_forbidden_never() {
        let allowed = |reach: Reach| [false, true].map(|allows_private| reach.is_allowed(allows_private));
        assert_eq!(allowed(Reach::Public), [true, true]);
        assert_eq!(allowed(Reach::Private), [false, true]);
        assert_eq!(allowed(Reach::Forbidden), [false, false]);
    }
}
