//! The console's own address, to which providers send browsers back.

use std::net::IpAddr;

use axum::http::header::HOST;
use axum::http::uri::Authority;
use url::Url;

use super::Console;
use super::session::Arrival;
use crate::address::peer_is_trusted;
use crate::model::code::{Code, Refusal};

/// Header with the host name that a proxy was reached by.
pub(super) const FORWARDED_HOST: &str = "x-forwarded-host";

/// Returns the console's own origin: that of `--public-url`, else the one that the browser asked. An asked name has to
/// be of this machine or of a member, because codes of sign-ins are sent to it.
pub(super) fn own_origin(console: &Console, arrival: Arrival<'_>) -> Result<String, Refusal> {
    if let Some(url) = &console.settings.public_url {
        return Ok(origin_of(url));
    }
    let text = |name: &str| arrival.headers.get(name).and_then(|value| value.to_str().ok());
    let is_behind_proxy = peer_is_trusted(arrival.extensions, &console.settings.trusted_proxies);
    let asked = text(FORWARDED_HOST).filter(|_| is_behind_proxy).or_else(|| text(HOST.as_str())).unwrap_or_default();
    let scheme = if arrival.is_secure(console) { "https" } else { "http" };
    let members = console.node().member().api_addresses();
    asked_origin(scheme, asked, &members).ok_or_else(|| {
        let why = format!(
            "no provider may send a browser to {asked:?}: that is neither this machine nor a member's \
             --advertise-api; start the nodes with --public-url"
        );
        Refusal::new(Code::InvalidParameter, why)
    })
}

/// Returns the address that a provider sends a browser back to.
pub(super) fn redirect_uri(origin: &str, provider: &str) -> String {
    format!("{origin}/ui/sso/{provider}/callback")
}

fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns the origin of an asked host, if it is of this machine or the address of a member.
fn asked_origin(scheme: &str, asked: &str, members: &[String]) -> Option<String> {
    let authority: Authority = asked.parse().ok().filter(|_| !asked.contains('@'))?;
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_local = bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    let of_member = |member: &String| {
        let address = member.split_once("://").map_or(member.as_str(), |(_, address)| address);
        address.eq_ignore_ascii_case(asked)
    };
    let is_known = is_local || members.iter().any(of_member);
    is_known.then(|| format!("{scheme}://{}", asked.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_sent_to_this_machine_and_members_only() {
        let members = ["node-1:8090".to_owned(), "https://node-2:8090".to_owned(), "10.0.0.3:8090".to_owned()];
        let of = |asked: &str| asked_origin("https", asked, &members);
        for known in [
            "127.0.0.1:8090",
            "127.0.0.1",
            "localhost:1",
            "[::1]:8090",
            "[::ffff:127.0.0.1]:1",
            "node-1:8090",
            "node-2:8090",
            "10.0.0.3:8090",
        ] {
            assert_eq!(of(known), Some(format!("https://{known}")), "{known}");
        }
        assert_eq!(of("Node-1:8090").as_deref(), Some("https://node-1:8090"));
        for other in [
            "",
            "evil.example",
            "evil.example:8090",
            "node-1",
            "node-1:8091",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "evil.example/127.0.0.1",
            "localhost.evil.example",
            "10.0.0.3",
            "a b",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn the_public_address_is_an_origin() {
        let of = |text: &str| origin_of(&Url::parse(text).expect("an address"));
        assert_eq!(of("https://Console.example.com"), "https://console.example.com");
        assert_eq!(of("https://console.example.com:443/"), "https://console.example.com");
        assert_eq!(of("http://127.0.0.1:8090"), "http://127.0.0.1:8090");
        let redirect = redirect_uri(&of("https://c.example"), "company");
        assert_eq!(redirect, "https://c.example/ui/sso/company/callback");
    }
}
