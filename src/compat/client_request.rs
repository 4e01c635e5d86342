//! Client request: query, client address and credentials of one request, read once.

use std::{borrow::Cow, convert::Infallible, net::IpAddr, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::{HeaderValue, Uri, header, request::Parts},
};
use url::form_urlencoded;

use super::{Surface, auth::Credentials};
use crate::address::client_address;
use crate::connections::{Parking, PeerCertificate};
use crate::model::signature::Target;
use crate::origin::Origin;
use crate::view::{ConfigSource, Reader};

pub(super) struct ClientRequest {
    /// As received, undecoded.
    pub(super) uri: Uri,
    pub(super) address: Option<IpAddr>,
    pub(super) credentials: Credentials,
    /// The name in the certificate that its connection began with.
    pub(super) certificate: Option<String>,
    pub(super) parking: Option<Parking>,
    pub(super) agent: Option<HeaderValue>,
}

impl<S: ConfigSource> FromRequestParts<Surface<S>> for ClientRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, surface: &Surface<S>) -> Result<Self, Infallible> {
        Ok(ClientRequest {
            uri: parts.uri.clone(),
            address: client_address(&parts.headers, &parts.extensions, &surface.settings.trusted_proxies),
            credentials: Credentials::of(&parts.headers),
            certificate: parts.extensions.get::<PeerCertificate>().map(|shown| shown.common_name.clone()),
            parking: parts.extensions.get().cloned(),
            agent: parts.headers.get(header::USER_AGENT).cloned(),
        })
    }
}

impl ClientRequest {
    pub(super) fn query(&self) -> Query<'_> {
        Query(self.uri.query().unwrap_or_default())
    }

    /// The program that asks, by its own word.
    pub(super) fn agent(&self) -> &str {
        self.agent.as_ref().and_then(|agent| agent.to_str().ok()).unwrap_or_default()
    }

    /// Reader that made the request, as it is remembered with what it has.
    pub(super) fn reader(&self, hold: Duration) -> Reader<'_> {
        Reader { agent: self.agent(), origin: Origin::of_any(self.address), hold }
    }

    /// Request target that the client has signed, if it has.
    pub(super) fn target(&self) -> Target<'_> {
        Target { path: self.uri.path(), query: self.query().raw() }
    }
}

/// A query string, read leniently: `+` is a blank, empty parts and unknown names mean nothing, of
/// a repeated name the first counts.
#[derive(Clone, Copy)]
pub(super) struct Query<'a>(pub(super) &'a str);

impl<'a> Query<'a> {
    pub(super) fn raw(self) -> &'a str {
        self.0
    }

    pub(super) fn get(self, name: &str) -> Option<Cow<'a, str>> {
        form_urlencoded::parse(self.0.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The value, or nothing if it is absent or empty.
    pub(super) fn filled(self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// The value as received, from clients that do not encode.
    pub(super) fn undecoded(self, name: &str) -> Option<&'a str> {
        self.0.split('&').filter_map(|part| part.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_leniently() {
        let query = Query("&ip=192.0.2.2&&label=a+b%2Bc&x&dataCenter=&label=2&releaseKey=a+b%ff&%6eame=v&[]={}");
        for (name, value) in [
            ("ip", Some("192.0.2.2")),
            ("label", Some("a b+c")),
            ("x", Some("")),
            ("dataCenter", Some("")),
            ("releaseKey", Some("a b\u{fffd}")),
            ("name", Some("v")),
            ("[]", Some("{}")),
            ("none", None),
        ] {
            assert_eq!(query.get(name).as_deref(), value, "{name}");
        }
        assert_eq!(query.filled("dataCenter"), None);
        assert_eq!(query.undecoded("releaseKey"), Some("a+b%ff"));
        assert_eq!(Query("").get(""), None);
    }
}
