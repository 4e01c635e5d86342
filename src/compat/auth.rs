//! Who may read: the meaning of `Authorization` on this surface.

use axum::http::{HeaderMap, header};

use super::{ConfigSource, Surface, answer::Refusal};

/// Clients that can sign do so always, with an empty secret if they have none.
const SIGNATURE_SCHEME: &str = "Apollo";
const TOKEN_SCHEME: &str = "Bearer";

/// What a reader brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    Anonymous,
    /// A request signed with an app's access key; no app has one, so it proves nothing.
    Signature,
    /// A control-plane token; unreadable header bytes are a token that no one has.
    Token(String),
}

impl Credentials {
    pub(super) fn of(headers: &HeaderMap) -> Credentials {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Credentials::Anonymous };
        if values.next().is_some() {
            // A proxy in between may have judged the other one.
            return Credentials::Token("\u{fffd}".to_owned());
        }
        let value = value.to_str().unwrap_or("\u{fffd}").trim();
        match value.split_once(' ') {
            _ if value.is_empty() => Credentials::Anonymous,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case(SIGNATURE_SCHEME) => Credentials::Signature,
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(TOKEN_SCHEME) => {
                Credentials::Token(token.trim().to_owned())
            }
            _ => Credentials::Token(value.to_owned()),
        }
    }
}

impl<S: ConfigSource> Surface<S> {
    /// Lets a reader in, or says why not.
    pub(super) fn admit(&self, credentials: &Credentials) -> Result<(), Refusal> {
        let admitted = match credentials {
            Credentials::Anonymous | Credentials::Signature => !self.settings.auth_required,
            Credentials::Token(token) => self.source.token_is_valid(token),
        };
        if admitted { Ok(()) } else { Err(Refusal::Unauthorized) }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_header_is_nothing_a_signature_or_a_token() {
        let token = |text: &str| Credentials::Token(text.to_owned());
        let table: &[(&[u8], Credentials)] = &[
            (b"", Credentials::Anonymous),
            (b"   ", Credentials::Anonymous),
            (b"Apollo app1:EoKyziXvKqzHgwx+ijDJwgVTDgE=", Credentials::Signature),
            (b"apollo app1:", Credentials::Signature),
            (b"ApolloToken", token("ApolloToken")),
            (b"Bearer abc", token("abc")),
            (b"bearer  abc ", token("abc")),
            (b"abc", token("abc")),
            (b"Basic YTpi", token("Basic YTpi")),
            (b"\xff\xfe", token("\u{fffd}")),
        ];
        assert_eq!(Credentials::of(&HeaderMap::new()), Credentials::Anonymous);
        for (value, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_bytes(value).expect("a header value"));
            assert_eq!(Credentials::of(&headers), *expected, "{value:?}");
            headers.append(header::AUTHORIZATION, HeaderValue::from_static("Apollo app1:"));
            assert_eq!(Credentials::of(&headers), token("\u{fffd}"), "two are one too many");
        }
    }
}
