//! Address and program of a client, for both listeners. Gray releases, repeated polls and the limits of failed logins
//! use the address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::{
    extract::ConnectInfo,
    http::{Extensions, HeaderMap, header::USER_AGENT},
};
use ipnet::IpNet;

use crate::model::limits;
use crate::origin::Sender;

/// Marks a connection whose peer address was given by a proxy; an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedByProxy;

const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PROTO: &str = "x-forwarded-proto";
/// Header in which a browser states the relation between the page's site and the target; other programs do not send it.
pub(crate) const SITE: &str = "sec-fetch-site";

/// Returns the peer of the connection, or the client that trusted proxies name.
///
/// Each proxy appends the address of its client, so the header is read from the right as long as the entries are
/// trusted proxies. Entries further left were written by the client itself and may have any content.
pub(crate) fn client_address(headers: &HeaderMap, extensions: &Extensions, trusted: &[IpNet]) -> Option<IpAddr> {
    let peer = peer(extensions)?;
    let mut client = peer;
    let mut hops = hops(headers);
    while is_trusted(client, trusted) {
        match hops.next() {
            Some(Some(address)) => client = address,
            // There is no further entry, or it is unreadable.
            Some(None) | None => break,
        }
    }
    Some(client)
}

/// Returns the client, and whether its own connection comes from this machine.
pub(crate) fn sender(headers: &HeaderMap, extensions: &Extensions, trusted: &[IpNet]) -> Sender {
    let is_own_word = headers.get(FORWARDED_FOR).is_none() && extensions.get::<NamedByProxy>().is_none();
    let is_local = is_own_word && peer(extensions).is_some_and(|peer| peer.is_loopback());
    Sender { address: client_address(headers, extensions, trusted), is_local }
}

/// Returns the program of the client: the beginning of its `User-Agent`.
pub(crate) fn agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    agent.chars().take(limits::AGENT_BYTES_MAX).collect()
}

/// Reports whether the peer of the connection is a trusted proxy, whose headers about the original request count.
pub(crate) fn peer_is_trusted(extensions: &Extensions, trusted: &[IpNet]) -> bool {
    peer(extensions).is_some_and(|peer| is_trusted(peer, trusted))
}

/// Reports whether a trusted proxy received the request over TLS. The first of several entries is the client's.
pub(crate) fn came_by_tls(headers: &HeaderMap, extensions: &Extensions, trusted: &[IpNet]) -> bool {
    let said = headers.get(FORWARDED_PROTO).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = said.split(',').next().unwrap_or_default().trim();
    first.eq_ignore_ascii_case("https") && peer_is_trusted(extensions, trusted)
}

fn peer(extensions: &Extensions) -> Option<IpAddr> {
    // A dual-stack listener reports IPv4 peers as mapped IPv6 addresses.
    extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_canonical())
}

fn is_trusted(peer: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|net| net.contains(&peer))
}

/// Reports whether an address, in any form, belongs to one of the networks.
pub(crate) fn is_within(address: IpAddr, networks: &[IpNet]) -> bool {
    is_trusted(address.to_canonical(), networks)
}

/// Returns the entries of the header, the last one first. Several headers form one list.
fn hops(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lists = headers.get_all(FORWARDED_FOR).into_iter().rev();
    lists.flat_map(|list| list.to_str().unwrap_or("?").rsplit(',').map(read_hop))
}

fn read_hop(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let parsed = match bare {
        Some(address) => address.parse::<Ipv6Addr>().map(IpAddr::V6),
        None => entry.parse::<IpAddr>().or_else(|_| entry.parse::<SocketAddr>().map(|address| address.ip())),
    };
    match parsed.ok()?.to_canonical() {
        // Only the proxy's machine can distinguish loopback addresses, so all of them count as one.
        IpAddr::V4(address) if address.is_loopback() => Some(Ipv4Addr::LOCALHOST.into()),
        address => Some(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trusted_proxy_says_how_its_client_came() {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().expect("a net")];
        let came = |peer: &str, proto: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(ConnectInfo(peer.parse::<SocketAddr>().expect("an address")));
            let headers =
                HeaderMap::from_iter([(FORWARDED_PROTO.parse().expect("a name"), proto.parse().expect("text"))]);
            came_by_tls(&headers, &extensions, &trusted)
        };
        assert!(came("10.0.0.1:1", "https") && came("10.0.0.1:1", "HTTPS, http"));
        assert!(!came("10.0.0.1:1", "http") && !came("10.0.0.1:1", "http, https") && !came("10.0.0.1:1", ""));
        assert!(!came("192.0.2.1:1", "https"), "the word of a client");
    }

    #[test]
    fn only_trusted_peers_may_name_the_client() {
        let trusted: Vec<IpNet> =
            ["127.0.0.0/8", "10.0.0.0/8", "::1/128"].map(|net| net.parse().expect("a net")).into();
        let table: &[(&str, &[&str], &str)] = &[
            ("192.0.2.9:1", &[], "192.0.2.9"),
            ("192.0.2.9:1", &["198.51.100.1"], "192.0.2.9"),
            ("127.0.0.1:1", &["198.51.100.1"], "198.51.100.1"),
            ("10.1.2.3:1", &[" 198.51.100.1 , 10.9.9.9"], "198.51.100.1"),
            ("10.1.2.3:1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("10.1.2.3:1", &["[2001:db8::1]:4711, 10.9.9.9"], "2001:db8::1"),
            ("10.1.2.3:1", &["[2001:db8::1]"], "2001:db8::1"),
            ("10.1.2.3:1", &["198.51.100.1, [::ffff:198.51.100.2] "], "198.51.100.2"),
            ("10.1.2.3:1", &["[198.51.100.1]"], "10.1.2.3"),
            ("10.1.2.3:1", &["[2001:db8::1"], "10.1.2.3"),
            ("10.1.2.3:1", &["unknown"], "10.1.2.3"),
            ("10.1.2.3:1", &[""], "10.1.2.3"),
            ("[::ffff:10.1.2.3]:1", &["198.51.100.1"], "198.51.100.1"),
            ("[::ffff:192.0.2.9]:1", &["198.51.100.1"], "192.0.2.9"),
            ("[::1]:1", &["2001:db8::1"], "2001:db8::1"),
            // Entries written by the client are left of the one from its proxy.
            ("10.1.2.3:1", &["203.0.113.7, 198.51.100.1"], "198.51.100.1"),
            ("10.1.2.3:1", &["127.0.0.1, 10.0.0.1, 198.51.100.1, 10.9.9.9"], "198.51.100.1"),
            ("10.1.2.3:1", &["203.0.113.7", "198.51.100.1"], "198.51.100.1"),
            ("10.1.2.3:1", &["203.0.113.7, garbage, 10.9.9.9"], "10.9.9.9"),
            ("10.1.2.3:1", &["10.0.0.1, 10.9.9.9"], "10.0.0.1"),
            // All loopback addresses named by a proxy count as one client.
            ("127.0.0.1:1", &["127.0.0.7"], "127.0.0.1"),
            ("127.0.0.9:1", &[], "127.0.0.9"),
        ];
        for (peer, forwarded, expected) in table {
            let mut extensions = Extensions::new();
            extensions.insert(ConnectInfo(peer.parse::<SocketAddr>().expect("an address")));
            let mut headers = HeaderMap::new();
            for list in *forwarded {
                headers.append(FORWARDED_FOR, list.parse().expect("a header value"));
            }
            let address = client_address(&headers, &extensions, &trusted);
            assert_eq!(address, Some(expected.parse().expect("an address")), "{peer} {forwarded:?}");
            let is_local = (peer.starts_with("127.") || peer.starts_with("[::1]")) && forwarded.is_empty();
            assert_eq!(sender(&headers, &extensions, &trusted).is_local, is_local, "{peer} {forwarded:?}");
        }
    }
}
