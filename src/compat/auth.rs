//! Who may read: the meaning of `Authorization` on this surface.
//!
//! A token is valid or refused. Whoever brings none is judged by the access keys of the app that is
//! asked for, where it has any that are on: one of them has to have signed the request
//! ([`crate::model::signature`]), or it is refused where a key is enforced, and counted where all of them
//! only observe. An app without keys is open to all, unless readers have to prove who they are.

use std::net::IpAddr;

use axum::http::{
    HeaderMap,
    header::{self, HeaderName},
};

use super::{ConfigSource, Surface, answer::Refusal, ask::Ask};
use crate::model::config_lookup::Released;
use crate::model::grant::Sight;
use crate::model::signature::{self, AppKeys, Flaw, KeyMark, Signature};

const TOKEN_SCHEME: &str = "Bearer";
const TIMESTAMP: HeaderName = HeaderName::from_static("timestamp");
/// No one has it.
const NO_TOKEN: &str = "\u{fffd}";

/// What a reader brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    Anonymous,
    /// The two headers of a signed request, not read yet. Clients that can sign do so always, with an
    /// empty secret if they have none: it counts where the app has a key.
    Signature {
        authorization: String,
        timestamp: String,
    },
    /// A control-plane token; unreadable header bytes, or two headers, are a token that no one has.
    Token(String),
}

impl Credentials {
    pub(super) fn of(headers: &HeaderMap) -> Credentials {
        let value = match only(headers, &header::AUTHORIZATION) {
            None => return Credentials::Anonymous,
            Some(value) => value.unwrap_or(NO_TOKEN).trim(),
        };
        match value.split_once(' ') {
            _ if value.is_empty() => Credentials::Anonymous,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case(signature::SCHEME) => Credentials::Signature {
                authorization: value.to_owned(),
                timestamp: only(headers, &TIMESTAMP).flatten().unwrap_or_default().to_owned(),
            },
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(TOKEN_SCHEME) => {
                Credentials::Token(token.trim().to_owned())
            }
            _ => Credentials::Token(value.to_owned()),
        }
    }
}

/// The text of a header that is there once; `Some(None)` for one that is there but cannot be read, or
/// is there more than once: which one is meant cannot be said.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    Some(first.to_str().ok().filter(|_| values.next().is_none()))
}

/// By what a reader was let in: so much is kept of it while it is held.
#[derive(Debug)]
pub(super) enum Admitted {
    /// Nothing was demanded.
    Freely,
    Signed(KeyMark),
    Token {
        token: String,
        address: Option<IpAddr>,
        sight: Sight,
    },
}

impl Admitted {
    /// Leaves the namespaces in which the reader sees the files of an app: what it does not see is not there.
    pub(super) fn keep_seen(&self, namespaces: &mut Vec<String>, app_id: &str) {
        if let Admitted::Token { sight, .. } = self {
            namespaces.retain(|namespace| sight.sees(namespace, app_id));
        }
    }
}

impl<S: ConfigSource> Surface<S> {
    /// Lets a reader in, or says why not. `app_id` is what it asks for, if that can be read; nobody may
    /// be judged by another one than is then looked up.
    pub(super) fn admit(&self, ask: &Ask, app_id: Option<&str>) -> Result<Admitted, Refusal> {
        let judged = self.judge(ask, app_id);
        let app_id = app_id.unwrap_or_default();
        if judged.as_ref().is_err_and(Refusal::is_of_the_reader) && self.refused.is_news(app_id, ask.address) {
            self.source.note_refused(app_id, ask.address);
        }
        judged
    }

    fn judge(&self, ask: &Ask, app_id: Option<&str>) -> Result<Admitted, Refusal> {
        if let Credentials::Token(token) = &ask.credentials {
            let (token, address) = (token.clone(), ask.address);
            let sight = self.source.sight_of(&token, address).ok_or(Refusal::Unauthorized)?;
            return Ok(Admitted::Token { token, address, sight });
        }
        let judges = app_id.and_then(|app_id| Some((app_id, self.source.access_keys(app_id)?)));
        let Some((app_id, keys)) = judges else { return self.admit_unjudged().map(|()| Admitted::Freely) };
        let signature = match &ask.credentials {
            Credentials::Signature { authorization, timestamp } => Signature::read(authorization, timestamp),
            Credentials::Anonymous | Credentials::Token(_) => None,
        };
        match keys.judge(app_id, signature.as_ref(), ask.target(), self.source.now()) {
            Ok(mark) => Ok(Admitted::Signed(mark)),
            Err(flaw) if self.demands(&keys) => Err(Refusal::Unsigned(flaw)),
            Err(flaw) => {
                self.observe(ask, app_id, flaw);
                Ok(Admitted::Freely)
            }
        }
    }

    /// Whether a reader who was let in a while ago still would be: keys and tokens come and go. What came
    /// unsigned, or signed for no key of that moment, has to come again once a key is enforced.
    pub(super) fn admits_still(&self, admitted: &Admitted, app_id: &str) -> Result<(), Refusal> {
        if let Admitted::Token { token, address, sight } = admitted {
            let is_as_it_was = self.source.sight_of(token, *address).as_ref() == Some(sight);
            return if is_as_it_was { Ok(()) } else { Err(Refusal::Unauthorized) };
        }
        match (self.source.access_keys(app_id), admitted) {
            (None, _) => self.admit_unjudged(),
            (Some(keys), _) if !self.demands(&keys) => Ok(()),
            (Some(keys), Admitted::Signed(mark)) => keys.judge_again(*mark).map_err(Refusal::Unsigned),
            (Some(_), _) => Err(Refusal::Unsigned(Flaw::Unsigned)),
        }
    }

    /// What is kept encrypted is for the clients of the app and for who may edit it. A token that lets see that it is
    /// there is not enough.
    pub(super) fn admit_to_sealed(&self, admitted: &Admitted, released: &Released) -> Result<(), Refusal> {
        if let Admitted::Token { token, address, .. } = admitted
            && !self.source.may_have_sealed(token, *address, &released.namespace, &released.group)
        {
            return Err(Refusal::Withheld);
        }
        Ok(())
    }

    /// A reader without a token, of an app without keys.
    fn admit_unjudged(&self) -> Result<(), Refusal> {
        if self.settings.auth_required { Err(Refusal::Unauthorized) } else { Ok(()) }
    }

    fn demands(&self, keys: &AppKeys) -> bool {
        keys.is_enforced || self.settings.auth_required
    }

    /// What would be refused if the keys of the app were enforced.
    fn observe(&self, ask: &Ask, app_id: &str, flaw: Flaw) {
        self.metrics.access_key_would_refuse.with_label_values(&[app_id]).inc();
        if self.observed.is_news(app_id, ask.address) {
            let address = ask.address.map(tracing::field::display);
            tracing::warn!(app = app_id, address, why = %flaw, "let in, but would be refused if a key were enforced");
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(authorization: &[&[u8]], timestamp: &[&str]) -> Credentials {
        let mut headers = HeaderMap::new();
        for value in authorization {
            headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value).expect("a header value"));
        }
        for value in timestamp {
            headers.append(TIMESTAMP, value.parse().expect("a header value"));
        }
        Credentials::of(&headers)
    }

    #[test]
    fn the_header_is_nothing_a_signature_or_a_token() {
        let token = |text: &str| Credentials::Token(text.to_owned());
        let signature = |text: &str| Credentials::Signature { authorization: text.to_owned(), timestamp: "7".into() };
        let table: &[(&[u8], Credentials)] = &[
            (b"", Credentials::Anonymous),
            (b"   ", Credentials::Anonymous),
            (b"Apollo app1:EoKyziXvKqzHgwx+ijDJwgVTDgE=", signature("Apollo app1:EoKyziXvKqzHgwx+ijDJwgVTDgE=")),
            (b"apollo app1:", signature("apollo app1:")),
            (b"ApolloToken", token("ApolloToken")),
            (b"Bearer abc", token("abc")),
            (b"bearer  abc ", token("abc")),
            (b"abc", token("abc")),
            (b"Basic YTpi", token("Basic YTpi")),
            (b"\xff\xfe", token(NO_TOKEN)),
        ];
        assert_eq!(of(&[], &["7"]), Credentials::Anonymous);
        for (value, expected) in table {
            assert_eq!(of(&[value], &["7"]), *expected, "{value:?}");
        }
    }

    #[test]
    fn of_two_headers_none_counts() {
        let signed: &[u8] = b"Apollo app1:EoKyziXvKqzHgwx+ijDJwgVTDgE=";
        assert_eq!(of(&[signed, signed], &["7"]), Credentials::Token(NO_TOKEN.to_owned()));
        assert_eq!(of(&[b"", b"abc"], &[]), Credentials::Token(NO_TOKEN.to_owned()));
        let unreadable = |timestamps: &[&str]| match of(&[signed], timestamps) {
            Credentials::Signature { timestamp, .. } => timestamp.is_empty(),
            other => panic!("{other:?}"),
        };
        assert!(unreadable(&["7", "7"]) && unreadable(&[]) && !unreadable(&["7"]));
    }
}
