//! `Host` names that a loopback listener accepts, as a defence against DNS rebinding: a foreign page, loaded in a
//! browser on this machine, whose owner then changes its DNS name to 127.0.0.1.
//!
//! Such a page can request anything that needs no token, such as the configuration of clients, but only under its own
//! name. A listener that other machines reach is protected by its network and may have any name, so it checks nothing.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, Version, header};

/// Admits every name.
const ANY: &str = "*";

/// Names that one listener accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(Option<Vec<String>>);

impl Hosts {
    /// Creates the names of a listener at `bound` from those that the operator configured.
    pub fn of(bound: SocketAddr, named: impl IntoIterator<Item = String>) -> Self {
        let named: Vec<_> = named.into_iter().map(|name| plain(host_of(&name)).to_owned()).collect();
        let is_checked = bound.ip().to_canonical().is_loopback() && !named.iter().any(|name| name == ANY);
        Hosts(is_checked.then_some(named))
    }

    /// Accepts every name.
    pub fn any() -> Self {
        Hosts(None)
    }

    /// Returns the name in the request if it is not accepted. A request without a name is not from a browser.
    pub(crate) fn stranger(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let named = self.0.as_ref()?;
        let of_uri = uri.authority().map(Authority::host);
        let of_headers = headers.get_all(header::HOST).iter().map(|host| host_of(host.to_str().unwrap_or("?")));
        of_uri.into_iter().chain(of_headers).find(|host| !is_admitted(plain(host), named)).map(str::to_owned)
    }
}

/// Returns the fault in the `Host` headers of a request of HTTP/1.1, if there is one.
pub(crate) fn fault(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    if version != Version::HTTP_11 {
        return None;
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => Some("a request of HTTP/1.1 needs a Host"),
        (_, Some(_)) => Some("a request has one Host, not several"),
        (Some(host), None) => {
            let is_authority = |text: &str| text.is_empty() || text.parse::<Authority>().is_ok();
            (!host.to_str().is_ok_and(is_authority)).then_some("Host is no host with an optional port")
        }
    }
}

const LOCAL_SUFFIX: &str = ".localhost";

/// Returns the host of `HOST:PORT`; any other text is returned unchanged.
fn host_of(text: &str) -> &str {
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => text,
    };
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    if is_bare_ipv6 { text } else { host }
}

/// Normalizes a name as a resolver does.
fn plain(host: &str) -> &str {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host)
}

/// Returns true for a configured name, for an address, which DNS cannot redirect, and for a name without a dot or below
/// `localhost`, which cannot be registered.
fn is_admitted(host: &str, named: &[String]) -> bool {
    let is_of_nobody = !host.contains('.') && !host.contains('?');
    let is_local = host.len().checked_sub(LOCAL_SUFFIX.len()).and_then(|at| host.get(at..));
    let is_local = is_local.is_some_and(|end| end.eq_ignore_ascii_case(LOCAL_SUFFIX));
    host.parse::<IpAddr>().is_ok()
        || is_of_nobody
        || is_local
        || named.iter().any(|name| name.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_http_1_1_says_once_whom_it_is_for() {
        let told = |version, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().expect("a header value"));
            }
            fault(version, &headers).is_none()
        };
        for hosts in [&["a"][..], &["a:80"], &["[::1]:8890"], &["host_name"], &[""]] {
            assert!(told(Version::HTTP_11, hosts), "{hosts:?}");
        }
        for hosts in [&[][..], &["a", "b"], &["a", "a"], &["a b"], &["a/b"], &["a:b:c"]] {
            assert!(!told(Version::HTTP_11, hosts), "{hosts:?}");
            assert!(told(Version::HTTP_10, hosts) && told(Version::HTTP_2, hosts), "{hosts:?}");
        }
    }

    fn stranger(bound: &str, named: &[&str], host: Option<&str>) -> Option<String> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, host.parse().expect("a header value"));
        }
        let named = named.iter().map(|name| (*name).to_owned());
        Hosts::of(bound.parse().expect("an address"), named).stranger(&Uri::from_static("/"), &headers)
    }

    #[test]
    fn a_listener_on_this_machine_answers_to_its_names_only() {
        let named = ["config.example.com:8890", "Other.Example.com"];
        let admitted = [
            "127.0.0.1:8890",
            "localhost",
            "LOCALHOST:8890",
            "app.localhost",
            "localhost.",
            "[::1]:8890",
            "192.0.2.1",
            "n1:8890",
            "config.example.com",
            "config.example.com.:8890",
            "other.example.com",
        ];
        for bound in ["127.0.0.1:8890", "[::1]:8890", "[::ffff:127.0.0.1]:1", "127.1.2.3:1"] {
            for host in admitted {
                assert_eq!(stranger(bound, &named, Some(host)), None, "{bound} {host}");
            }
            for host in ["evil.example:8890", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example."] {
                assert!(stranger(bound, &named, Some(host)).is_some(), "{bound} {host}");
            }
            assert_eq!(stranger(bound, &[], None), None, "a probe without a name is no browser");
        }
    }

    #[test]
    fn a_listener_that_others_reach_answers_to_every_name() {
        for bound in ["0.0.0.0:8890", "192.0.2.1:8890", "[::]:8890"] {
            assert_eq!(stranger(bound, &[], Some("evil.example")), None, "{bound}");
        }
        assert_eq!(stranger("127.0.0.1:1", &["*"], Some("evil.example")), None);
    }

    #[test]
    fn the_name_in_the_request_line_counts_too() {
        let hosts = Hosts::of(SocketAddr::from(([127, 0, 0, 1], 1)), []);
        let uri = Uri::from_static("http://evil.example/livez");
        assert_eq!(hosts.stranger(&uri, &HeaderMap::new()).as_deref(), Some("evil.example"));
        assert_eq!(Hosts::any().stranger(&uri, &HeaderMap::new()), None);
    }
}
