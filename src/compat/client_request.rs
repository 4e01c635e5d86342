//! Query, client address and credentials of one request.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request};
use axum::http::header::{self, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri};
use url::form_urlencoded;

use super::Surface;
use crate::address::client_address;
use crate::compression::Accepted;
use crate::connections::{Parking, PeerCertificate};
use crate::model::signature::{self, Target};
use crate::model::spelling::is_same_name;
use crate::origin::Origin;
use crate::reads::{Asker, ConfigSource, Reader, ReaderCredentials};

/// Values that clients send for an absent value.
pub(super) const NO_VALUE: [&str; 3] = ["", "-1", "undefined"];
const TOKEN_SCHEME: &str = "Bearer";
const TIMESTAMP: HeaderName = HeaderName::from_static("timestamp");
/// Token that is never issued.
const NO_TOKEN: &str = "\u{fffd}";

pub(super) struct ClientRequest {
    /// Target of the request, undecoded, with one slash at the beginning of the path and none at its end.
    pub(super) uri: Uri,
    /// Target as received, if it has more slashes: a signature covers the received target.
    pub(super) received: Option<Uri>,
    pub(super) address: Option<IpAddr>,
    pub(super) credentials: ReaderCredentials,
    /// Name in the client certificate of the connection.
    pub(super) certificate: Option<String>,
    pub(super) parking: Option<Parking>,
    pub(super) agent: Option<HeaderValue>,
    /// Codings of the answer that the client accepts.
    pub(super) accepted: Accepted,
}

impl<S: ConfigSource> FromRequestParts<Surface<S>> for ClientRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, surface: &Surface<S>) -> Result<Self, Infallible> {
        Ok(ClientRequest {
            uri: parts.uri.clone(),
            received: parts.extensions.get::<Received>().map(|Received(uri)| uri.clone()),
            address: client_address(&parts.headers, &parts.extensions, &surface.settings.trusted_proxies),
            credentials: verified(surface, credentials_of(&parts.headers)).await,
            certificate: parts.extensions.get::<PeerCertificate>().map(|shown| shown.common_name.clone()),
            parking: parts.extensions.get().cloned(),
            agent: parts.headers.get(header::USER_AGENT).cloned(),
            accepted: Accepted::of(&parts.headers),
        })
    }
}

impl ClientRequest {
    pub(super) fn query(&self) -> Query<'_> {
        Query(self.uri.query().unwrap_or_default())
    }

    /// Returns the address that the client reports.
    pub(super) fn named_address(&self) -> Option<Cow<'_, str>> {
        self.query().get("ip").filter(|ip| !NO_VALUE.contains(&&**ip))
    }

    /// Returns the user agent of the client.
    pub(super) fn agent(&self) -> &str {
        self.agent.as_ref().and_then(|agent| agent.to_str().ok()).unwrap_or_default()
    }

    /// Returns the client in the form in which the register of clients stores it.
    pub(super) fn reader(&self, hold: Duration) -> Reader<'_> {
        let (agent, origin, connection) = (self.agent(), Origin::of_any(self.address), self.address);
        Reader { agent, origin, hold, connection, is_named: self.named_address().is_some(), is_polaris: false }
    }

    /// Returns the client in the form that authentication uses.
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker {
            credentials: &self.credentials,
            certificate: self.certificate.as_deref(),
            address: self.address,
            target: Target { path: self.received.as_ref().unwrap_or(&self.uri).path(), query: self.query().raw() },
        }
    }
}

/// Target of a request as received.
#[derive(Clone)]
struct Received(Uri);

/// Returns the request with one slash at the beginning of its path and none at its end: clients append the path to an
/// address that ends with a slash, and Apollo's server ignores a trailing slash.
pub(super) fn with_one_slash(mut request: Request) -> Request {
    let path = request.uri().path();
    if !path.starts_with("//") && !path.ends_with('/') {
        return request;
    }
    let rest = path.trim_matches('/');
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    if let Ok(target) = format!("/{rest}{query}").parse() {
        let received = std::mem::replace(request.uri_mut(), target);
        request.extensions_mut().insert(Received(received));
    }
    request
}

/// Returns the credentials of a request; unreadable or repeated headers become a token that is never issued.
pub(super) fn credentials_of(headers: &HeaderMap) -> ReaderCredentials {
    let value = match only(headers, &header::AUTHORIZATION) {
        None => return ReaderCredentials::Anonymous,
        Some(value) => value.unwrap_or(NO_TOKEN).trim(),
    };
    match value.split_once(' ') {
        _ if value.is_empty() => ReaderCredentials::Anonymous,
        Some((scheme, _)) if scheme.eq_ignore_ascii_case(signature::SCHEME) => ReaderCredentials::Signature {
            authorization: value.to_owned(),
            timestamp: only(headers, &TIMESTAMP).flatten().unwrap_or_default().to_owned(),
        },
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(TOKEN_SCHEME) => {
            ReaderCredentials::Token(token.trim().to_owned())
        }
        _ => ReaderCredentials::Token(value.to_owned()),
    }
}

/// Verifies a token in the form of those of identity providers. Tokens of the cluster hold no dot.
async fn verified<S: ConfigSource>(surface: &Surface<S>, credentials: ReaderCredentials) -> ReaderCredentials {
    match credentials {
        ReaderCredentials::Token(token) if token.contains('.') => match surface.reads.source().bearer(&token).await {
            Ok(credential) => ReaderCredentials::Bearer(Box::new(credential)),
            Err(refusal) => ReaderCredentials::Refused(refusal),
        },
        credentials => credentials,
    }
}

/// Returns the text of a header that is present once; `Some(None)` if it is unreadable, or repeated and therefore
/// ambiguous.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    Some(first.to_str().ok().filter(|_| values.next().is_none()))
}

/// A query string, parsed leniently: `+` is a blank, empty parts and unknown names are ignored, and the first value of
/// a repeated name counts.
#[derive(Clone, Copy)]
pub(super) struct Query<'a>(pub(super) &'a str);

impl<'a> Query<'a> {
    pub(super) fn raw(self) -> &'a str {
        self.0
    }

    pub(super) fn get(self, name: &str) -> Option<Cow<'a, str>> {
        form_urlencoded::parse(self.0.as_bytes()).find(|(key, _)| is_same_name(key, name)).map(|(_, value)| value)
    }

    /// Returns the value, or `None` if it is absent or empty.
    pub(super) fn filled(self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the value without decoding, for clients that do not encode it.
    pub(super) fn undecoded(self, name: &str) -> Option<&'a str> {
        self.0.split('&').filter_map(|part| part.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(authorization: &[&[u8]], timestamp: &[&str]) -> ReaderCredentials {
        let mut headers = HeaderMap::new();
        for value in authorization {
            headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value).expect("a header value"));
        }
        for value in timestamp {
            headers.append(TIMESTAMP, value.parse().expect("a header value"));
        }
        credentials_of(&headers)
    }

    #[test]
    fn the_header_is_nothing_a_signature_or_a_token() {
        let token = |text: &str| ReaderCredentials::Token(text.to_owned());
        let signature =
            |text: &str| ReaderCredentials::Signature { authorization: text.to_owned(), timestamp: "7".into() };
        let table: &[(&[u8], ReaderCredentials)] = &[
            (b"", ReaderCredentials::Anonymous),
            (b"   ", ReaderCredentials::Anonymous),
            (b"Apollo app1:EoKyziXvKqzHgwx+ijDJwgVTDgE=", signature("Apollo app1:EoKyziXvKqzHgwx+ijDJwgVTDgE=")),
            (b"apollo app1:", signature("apollo app1:")),
            (b"ApolloToken", token("ApolloToken")),
            (b"Bearer abc", token("abc")),
            (b"bearer  abc ", token("abc")),
            (b"abc", token("abc")),
            (b"Basic YTpi", token("Basic YTpi")),
            (b"\xff\xfe", token(NO_TOKEN)),
        ];
        assert_eq!(of(&[], &["7"]), ReaderCredentials::Anonymous);
        for (value, expected) in table {
            assert_eq!(of(&[value], &["7"]), *expected, "{value:?}");
        }
    }

    #[test]
    fn slashes_around_a_path_are_one_and_the_target_is_kept() {
        for (sent, path, query) in [
            ("//configs/app/default/a?ip=1", "/configs/app/default/a", Some("ip=1")),
            ("///services/config", "/services/config", None),
            ("//", "/", None),
            ("/services/config/", "/services/config", None),
            ("//configs/app/default/a.b//?ip=1", "/configs/app/default/a.b", Some("ip=1")),
            ("/configs/app/default/a%2F", "/configs/app/default/a%2F", None),
            ("/configs//app", "/configs//app", None),
        ] {
            let request = Request::builder().uri(sent).body(axum::body::Body::empty()).expect("a request");
            let request = with_one_slash(request);
            assert_eq!((request.uri().path(), request.uri().query()), (path, query), "{sent}");
            let received = request.extensions().get::<Received>().map(|Received(uri)| uri.to_string());
            let is_changed = sent.starts_with("//") || sent.split('?').next().is_some_and(|path| path.ends_with('/'));
            assert_eq!(received, is_changed.then(|| sent.to_owned()));
        }
    }

    #[test]
    fn of_two_headers_none_counts() {
        let signed: &[u8] = b"Apollo app1:EoKyziXvKqzHgwx+ijDJwgVTDgE=";
        assert_eq!(of(&[signed, signed], &["7"]), ReaderCredentials::Token(NO_TOKEN.to_owned()));
        assert_eq!(of(&[b"", b"abc"], &[]), ReaderCredentials::Token(NO_TOKEN.to_owned()));
        let unreadable = |timestamps: &[&str]| match of(&[signed], timestamps) {
            ReaderCredentials::Signature { timestamp, .. } => timestamp.is_empty(),
            other => panic!("{other:?}"),
        };
        assert!(unreadable(&["7", "7"]) && unreadable(&[]) && !unreadable(&["7"]));
    }

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
            ("release_key", Some("a b\u{fffd}")),
            ("none", None),
        ] {
            assert_eq!(query.get(name).as_deref(), value, "{name}");
        }
        assert_eq!(query.filled("dataCenter"), None);
        assert_eq!(query.undecoded("releaseKey"), Some("a+b%ff"));
        assert_eq!(Query("").get(""), None);
    }
}
