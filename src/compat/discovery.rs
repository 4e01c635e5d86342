//! `/services/config`: addresses of the nodes that serve config clients.

use axum::extract::State;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Request, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::doc::{self, Doc};
use super::{Surface, answer};
use crate::address::peer_is_trusted;
use crate::openapi::{Security, schema_of};
use crate::reads::{ConfigSource, LiveMember};

/// Application name that clients and their scripts expect.
const APP_NAME: &str = "APOLLO-CONFIGSERVICE";
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// A node that serves config clients.
#[derive(Debug, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct ConfigService {
    app_name: &'static str,
    instance_id: String,
    homepage_url: String,
}

pub(super) const CONFIG_SERVICES: Doc = Doc {
    summary: "The nodes that serve config clients now.",
    path: &[],
    query: doc::UNREAD,
    body: None,
    security: Security::Open,
    replies: |schemas| vec![doc::success("At least one.", schema_of::<Vec<ConfigService>>()(schemas))],
};

/// Lists the nodes. Open to everyone, with or without a token: a client without an address has no configuration at all.
pub(super) async fn config_services<S: ConfigSource>(
    State(surface): State<Surface<S>>,
    request: Request<axum::body::Body>,
) -> Response {
    let believes_proxy = peer_is_trusted(request.extensions(), &surface.settings.trusted_proxies);
    let scheme = surface.settings.scheme;
    let asked_at = asked_at(request.headers(), believes_proxy, scheme)
        .unwrap_or_else(|| format!("{scheme}://{}/", surface.settings.bound));
    answer(&services(surface.reads.source().live_members(), &asked_at))
}

pub(super) const META_SERVICES: Doc = Doc {
    summary: "Nothing: clients find their nodes under `/services/config`.",
    replies: |schemas| vec![doc::success("An empty list.", schema_of::<[(); 0]>()(schemas))],
    ..CONFIG_SERVICES
};

/// Returns an empty list, like Apollo's servers.
pub(super) async fn meta_services() -> Response {
    answer::<[(); 0]>(&[])
}

fn answer<T: Serialize + ?Sized>(list: &T) -> Response {
    let body = serde_json::to_vec(list).expect("a list of strings is JSON");
    ([(header::CONTENT_TYPE, answer::JSON)], body).into_response()
}

/// Returns one row per address: members that announce none share the address of the request.
fn services(mut members: Vec<LiveMember>, asked_at: &str) -> Vec<ConfigService> {
    members.sort_by_key(|member| member.node_id);
    let mut services: Vec<ConfigService> = Vec::new();
    for member in members {
        let homepage_url = url_of(&member.compat).unwrap_or_else(|| asked_at.to_owned());
        if services.iter().all(|known| known.homepage_url != homepage_url) {
            let instance_id = format!("node-{}", member.node_id);
            services.push(ConfigService { app_name: APP_NAME, instance_id, homepage_url });
        }
    }
    if services.is_empty() {
        let (instance_id, homepage_url) = ("node".to_owned(), asked_at.to_owned());
        services.push(ConfigService { app_name: APP_NAME, instance_id, homepage_url });
    }
    services
}

/// Returns the URL of an announced address; `None` for an unreachable one, such as `0.0.0.0:8890`.
fn url_of(announced: &str) -> Option<String> {
    let url = if announced.contains("://") { announced.to_owned() } else { format!("http://{announced}") };
    let parsed = url::Url::parse(&url).ok()?;
    let is_unspecified = match parsed.host()? {
        url::Host::Ipv4(address) => address.is_unspecified(),
        url::Host::Ipv6(address) => address.is_unspecified(),
        url::Host::Domain(_) => false,
    };
    (!is_unspecified && parsed.port() != Some(0)).then(|| format!("{}/", url.trim_end_matches('/')))
}

/// Returns the address under which the client, or a proxy, reached this node, with `scheme` if no proxy names one.
fn asked_at(headers: &HeaderMap, believes_proxy: bool, scheme: &str) -> Option<String> {
    let host: Authority = headers.get(header::HOST)?.to_str().ok()?.parse().ok()?;
    let proto = headers.get(FORWARDED_PROTO).and_then(|value| value.to_str().ok());
    let told = ["http", "https"].into_iter().find(|known| proto.is_some_and(|proto| proto.eq_ignore_ascii_case(known)));
    let scheme = told.filter(|_| believes_proxy).unwrap_or(scheme);
    (!host.as_str().contains('@')).then(|| format!("{scheme}://{host}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Members = &'static [(u64, &'static str)];

    #[test]
    fn members_are_shown_by_their_announced_address() {
        let table: &[(Members, &[&str])] = &[
            (&[(2, "b:8890"), (1, "a:8890")], &["http://a:8890/", "http://b:8890/"]),
            (&[(1, "0.0.0.0:8890")], &["http://asked:80/"]),
            (&[(1, "[::]:8890"), (2, "0.0.0.0:1"), (3, "c:8890")], &["http://asked:80/", "http://c:8890/"]),
            (&[(1, "https://cfg.example.com")], &["https://cfg.example.com/"]),
            (&[(1, "https://cfg.example.com/base/")], &["https://cfg.example.com/base/"]),
            (
                &[(1, "[2001:db8::1]:8890"), (2, "192.0.2.1:80")],
                &["http://[2001:db8::1]:8890/", "http://192.0.2.1:80/"],
            ),
            (&[(1, "host:0")], &["http://asked:80/"]),
            (&[(1, "")], &["http://asked:80/"]),
            (&[], &["http://asked:80/"]),
        ];
        for (members, expected) in table {
            let live =
                members.iter().map(|&(node_id, compat)| LiveMember { node_id, compat: compat.to_owned() }).collect();
            let urls: Vec<_> =
                services(live, "http://asked:80/").into_iter().map(|service| service.homepage_url).collect();
            assert_eq!(urls, *expected, "{members:?}");
        }
    }

    #[test]
    fn the_host_header_says_where_a_client_reached_us() {
        let table = [
            (Some("cfg:8890"), None, true, "http", Some("http://cfg:8890/")),
            (Some("cfg:8890"), None, true, "https", Some("https://cfg:8890/")),
            (Some("cfg"), Some("https"), true, "http", Some("https://cfg/")),
            (Some("cfg"), Some("HTTP"), true, "https", Some("http://cfg/")),
            (Some("cfg"), Some("https"), false, "http", Some("http://cfg/")),
            (Some("[::1]:8890"), Some("ftp"), true, "http", Some("http://[::1]:8890/")),
            (Some("user@cfg"), None, true, "http", None),
            (Some("a b"), None, true, "http", None),
            (None, Some("https"), true, "http", None),
        ];
        for (host, proto, believes_proxy, scheme, expected) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST.as_str(), host), (FORWARDED_PROTO, proto)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().expect("a header value"));
                }
            }
            assert_eq!(asked_at(&headers, believes_proxy, scheme).as_deref(), expected, "{host:?} {proto:?}");
        }
    }
}
