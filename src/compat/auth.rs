//! Admission of readers: the meaning of `Authorization` on this surface.
//!
//! A token is valid or refused. Whoever brings none is judged by the access keys of the app that is
//! asked for, where it has any that are on: one of them has to have signed the request
//! ([`crate::model::signature`]), or it is refused where a key is enforced, and counted where all of them
//! only observe. An app without keys is open to all, unless readers have to prove who they are. Where they have to, the
//! certificate of their connection counts as a token in place of one; else it counts for nothing, as it may name nobody.

use std::net::IpAddr;

use axum::http::{
    HeaderMap,
    header::{self, HeaderName},
};

use super::{Surface, answer::Refusal, client_request::ClientRequest};
use crate::model::config_lookup::Released;
use crate::model::grant::ReadScope;
use crate::model::signature::{self, AppKeys, Flaw, KeyMark, Signature};
use crate::view::{ConfigSource, Proof};

const TOKEN_SCHEME: &str = "Bearer";
const TIMESTAMP: HeaderName = HeaderName::from_static("timestamp");
/// No one has it.
const NO_TOKEN: &str = "\u{fffd}";

/// Credentials that a reader sends.
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
    /// The app has no keys, and nothing was demanded.
    Freely,
    /// None of the keys that the app has signed it, and where it reads none of them demands that.
    Unsigned,
    Signed(KeyMark),
    Named {
        proof: Proof,
        address: Option<IpAddr>,
        read_scope: ReadScope,
    },
}

/// Target of a reader's request: an app, and the namespaces in which its files are looked for, the wanted one first.
pub(super) type Wanted<'a> = (&'a str, &'a [String]);

impl<S: ConfigSource> Surface<S> {
    /// Lets a reader in, or says why not. `wanted` is what it asks for, if that can be read; nobody may
    /// be judged by anything else than is then looked up.
    pub(super) fn admit(&self, ask: &ClientRequest, wanted: Option<Wanted<'_>>) -> Result<Admitted, Refusal> {
        let judged = self.judge(ask, wanted);
        let app_id = wanted.map_or("", |(app_id, _)| app_id);
        if judged.as_ref().is_err_and(Refusal::is_of_the_reader)
            && self.refused.is_due((app_id.to_owned(), ask.address))
        {
            self.source.note_refused(app_id, ask.address);
        }
        judged
    }

    fn judge(&self, ask: &ClientRequest, wanted: Option<Wanted<'_>>) -> Result<Admitted, Refusal> {
        if let Credentials::Token(token) = &ask.credentials {
            return self.admit_named(Proof::Token(token.clone()), ask.address).ok_or(Refusal::Unauthorized);
        }
        match (self.judge_unnamed(ask, wanted), &ask.certificate) {
            (Err(refusal), Some(name)) if self.settings.auth_required => {
                self.admit_named(Proof::Certificate(name.clone()), ask.address).ok_or(refusal)
            }
            (judged, _) => judged,
        }
    }

    fn admit_named(&self, proof: Proof, address: Option<IpAddr>) -> Option<Admitted> {
        let read_scope = self.source.sight_of(&proof, address)?;
        Some(Admitted::Named { proof, address, read_scope })
    }

    /// One who brings no token.
    fn judge_unnamed(&self, ask: &ClientRequest, wanted: Option<Wanted<'_>>) -> Result<Admitted, Refusal> {
        let judges = wanted.and_then(|(app_id, namespaces)| {
            Some((app_id, namespaces.first(), self.source.access_keys(app_id, None)?))
        });
        let Some((app_id, namespace, all)) = judges else { return self.admit_unjudged().map(|()| Admitted::Freely) };
        let signature = match &ask.credentials {
            Credentials::Signature { authorization, timestamp } => Signature::read(authorization, timestamp),
            Credentials::Anonymous | Credentials::Token(_) => None,
        };
        let verdict = all.judge(app_id, signature.as_ref(), ask.target(), self.source.now());
        // Who signs with a key of other namespaces has not signed for this one.
        let keys = match namespace {
            Some(namespace) => self.source.access_keys(app_id, Some(namespace)),
            None => Some(all),
        };
        let flaw = match (&keys, verdict) {
            (None, _) => return self.admit_unjudged().map(|()| verdict.map_or(Admitted::Unsigned, Admitted::Signed)),
            (Some(keys), Ok(mark)) => keys.judge_again(mark).err(),
            (Some(keys), Err(Flaw::NoSuchKey | Flaw::Unreadable)) => Some(keys.no_such_key()),
            (Some(_), Err(flaw)) => Some(flaw),
        };
        match flaw {
            Some(flaw) if keys.is_some_and(|keys| self.demands(&keys)) => return Err(Refusal::Unsigned(flaw)),
            Some(flaw) => self.observe(ask, app_id, flaw),
            None => {}
        }
        Ok(verdict.map_or(Admitted::Unsigned, Admitted::Signed))
    }

    /// Leaves the namespaces in which the reader sees the files of an app: what it does not see is not there. The wanted
    /// one was judged; those that it falls back on may have keys of their own.
    pub(super) fn keep_seen(&self, admitted: &Admitted, namespaces: &mut Vec<String>, app_id: &str) {
        match admitted {
            Admitted::Named { read_scope, .. } => namespaces.retain(|namespace| read_scope.sees(namespace, app_id)),
            Admitted::Freely => {}
            Admitted::Signed(_) | Admitted::Unsigned => {
                let mut is_wanted = true;
                namespaces.retain(|namespace| {
                    std::mem::take(&mut is_wanted) || self.admits_in(admitted, app_id, namespace).is_ok()
                });
            }
        }
    }

    /// Checks that a reader who was let in a while ago still would be: keys and tokens come and go. A request that came
    /// unsigned, or signed for no key of that moment, has to come again once a key is enforced.
    pub(super) fn admits_still(&self, admitted: &Admitted, (app_id, namespaces): Wanted<'_>) -> Result<(), Refusal> {
        if let Admitted::Named { proof, address, read_scope } = admitted {
            let is_as_it_was = self.source.sight_of(proof, *address).as_ref() == Some(read_scope);
            return if is_as_it_was { Ok(()) } else { Err(Refusal::Unauthorized) };
        }
        namespaces.iter().try_for_each(|namespace| self.admits_in(admitted, app_id, namespace))
    }

    /// Checks that a reader without a token may have the files of an app in a namespace.
    fn admits_in(&self, admitted: &Admitted, app_id: &str, namespace: &str) -> Result<(), Refusal> {
        match (self.source.access_keys(app_id, Some(namespace)), admitted) {
            (None, _) => self.admit_unjudged(),
            (Some(keys), _) if !self.demands(&keys) => Ok(()),
            (Some(keys), Admitted::Signed(mark)) => keys.judge_again(*mark).map_err(Refusal::Unsigned),
            (Some(_), _) => Err(Refusal::Unsigned(Flaw::Unsigned)),
        }
    }

    /// Refuses a file that is kept encrypted to all but the clients of the app and callers that may edit it. A token
    /// that only shows that the file is there is not enough.
    pub(super) fn admit_to_sealed(&self, admitted: &Admitted, released: &Released) -> Result<(), Refusal> {
        if let Admitted::Named { proof, address, .. } = admitted
            && !self.source.may_have_sealed(proof, *address, &released.namespace, &released.group)
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

    /// Counts and logs a request that would be refused if the keys of the app were enforced.
    fn observe(&self, ask: &ClientRequest, app_id: &str, flaw: Flaw) {
        self.metrics.access_key_would_refuse.with_label_values(&[app_id]).inc();
        if self.observed.is_due((app_id.to_owned(), ask.address)) {
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
