//! Admission of readers of config files.
//!
//! A token is either valid or refused. A reader without one is checked against the enabled access keys of the requested
//! app, if there are any: the request must be signed with one of them ([`crate::model::signature`]). An unsigned
//! request is refused if a key is enforced, and only counted if all keys are in observe mode. An app without keys is
//! open, unless the node requires authentication. In that case the certificate of the connection counts as a token;
//! otherwise it is ignored, as it may name no user.

use std::net::IpAddr;

use super::config::{ConfigReads, ReadRefusal};
use super::config_source::{ConfigSource, Reader, Sight};
use crate::catalog::Credential;
use crate::model::code::Refusal;
use crate::model::config_lookup::Released;
use crate::model::signature::{AppKeys, Flaw, KeyMark, Signature, Target};
use crate::operations::token_hash;
use crate::origin::Origin;

/// Credentials that a reader sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReaderCredentials {
    Anonymous,
    /// Signature and time of a signed request, not parsed yet. Clients that can sign always do, with an empty secret if
    /// they have none, so it counts only if the app has a key.
    Signature {
        authorization: String,
        timestamp: String,
    },
    /// A control-plane token, valid or not.
    Token(String),
    /// A bearer token of a provider, which was verified.
    Bearer(Box<Credential>),
    /// A bearer token that was refused.
    Refused(Refusal),
}

/// A reader as described by its connection and request.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    pub credentials: &'a ReaderCredentials,
    /// Name in the client certificate of the connection.
    pub certificate: Option<&'a str>,
    pub address: Option<IpAddr>,
    /// Target of the request, which a signature covers.
    pub target: Target<'a>,
}

/// Proof by which a reader was admitted; stored while its poll is held.
#[derive(Debug)]
pub enum Admitted {
    /// The app has no keys, and none are required.
    Freely,
    /// No key of the app signed the request, and none of the namespaces read enforces one.
    Unsigned,
    /// A key signed the request; limits count it for the app.
    Signed(KeyMark, Origin),
    Named {
        credential: Credential,
        address: Option<IpAddr>,
        sight: Sight,
    },
}

impl Admitted {
    /// Sets the origin by which limits count what is held and stored for the reader: the user of its token, the app
    /// whose key signed, else its address.
    pub(super) fn counted<'a>(&self, reader: Reader<'a>) -> Reader<'a> {
        let origin = match self {
            Admitted::Named { sight, .. } => sight.origin,
            Admitted::Signed(_, app) => *app,
            Admitted::Freely | Admitted::Unsigned => reader.origin,
        };
        Reader { origin, ..reader }
    }
}

/// Target of a request: an app, and the namespaces in which its files are looked up, the requested one first.
pub type AskedFiles<'a> = (&'a str, &'a [String]);

impl<S: ConfigSource> ConfigReads<S> {
    /// Admits a reader or returns the refusal. `wanted` is the target of the request, if it could be parsed; the caller
    /// must look up exactly that target.
    pub fn admit(&self, asker: Asker<'_>, wanted: Option<AskedFiles<'_>>) -> Result<Admitted, ReadRefusal> {
        let judged = self.judge(asker, wanted);
        let app_id = wanted.map_or("", |(app_id, _)| app_id);
        if judged.as_ref().is_err_and(ReadRefusal::is_of_the_reader)
            && self.0.refused.is_due((app_id.to_owned(), asker.address))
        {
            self.0.source.note_refused(app_id, asker.address);
        }
        judged
    }

    /// Admits a reader that was identified by the door that it came through.
    pub fn admit_identified(&self, credential: &Credential, address: Option<IpAddr>) -> Result<Admitted, ReadRefusal> {
        self.admit_named(credential.clone(), address).ok_or(ReadRefusal::Unauthorized)
    }

    fn judge(&self, asker: Asker<'_>, wanted: Option<AskedFiles<'_>>) -> Result<Admitted, ReadRefusal> {
        let named = |credential| self.admit_named(credential, asker.address).ok_or(ReadRefusal::Unauthorized);
        match asker.credentials {
            ReaderCredentials::Token(token) => return named(Credential::Token(token_hash(token))),
            ReaderCredentials::Bearer(credential) => return named(Credential::clone(credential)),
            ReaderCredentials::Refused(refusal) => return Err(ReadRefusal::of_bearer(refusal)),
            ReaderCredentials::Anonymous | ReaderCredentials::Signature { .. } => {}
        }
        match (self.judge_unnamed(asker, wanted), asker.certificate) {
            (Err(refusal), Some(name)) if self.0.auth_required => {
                self.admit_named(Credential::Certificate(name.to_owned()), asker.address).ok_or(refusal)
            }
            (judged, _) => judged,
        }
    }

    fn admit_named(&self, credential: Credential, address: Option<IpAddr>) -> Option<Admitted> {
        let sight = self.0.source.sight_of(&credential, address)?;
        Some(Admitted::Named { credential, address, sight })
    }

    /// Checks a reader without a token.
    fn judge_unnamed(&self, asker: Asker<'_>, wanted: Option<AskedFiles<'_>>) -> Result<Admitted, ReadRefusal> {
        let judges = wanted.and_then(|(app_id, namespaces)| {
            Some((app_id, namespaces.first(), self.0.source.access_keys(app_id, None)?))
        });
        let Some((app_id, namespace, all)) = judges else { return self.admit_unjudged().map(|()| Admitted::Freely) };
        let signature = match asker.credentials {
            ReaderCredentials::Signature { authorization, timestamp } => Signature::read(authorization, timestamp),
            _ => None,
        };
        let signed = |mark| Admitted::Signed(mark, Origin::of_app(app_id));
        let verdict = all.judge(app_id, signature.as_ref(), asker.target, self.0.source.now());
        // A key of other namespaces is no valid signature for this one.
        let keys = match namespace {
            Some(namespace) => self.0.source.access_keys(app_id, Some(namespace)),
            None => Some(all),
        };
        let flaw = match (&keys, verdict) {
            (None, _) => return self.admit_unjudged().map(|()| verdict.map_or(Admitted::Unsigned, signed)),
            (Some(keys), Ok(mark)) => keys.judge_again(mark).err(),
            (Some(keys), Err(Flaw::NoSuchKey | Flaw::Unreadable)) => Some(keys.no_such_key()),
            (Some(_), Err(flaw)) => Some(flaw),
        };
        match flaw {
            Some(flaw) if keys.is_some_and(|keys| self.demands(&keys)) => return Err(ReadRefusal::Unsigned(flaw)),
            Some(flaw) => self.observe(asker, app_id, flaw),
            None => {}
        }
        Ok(verdict.map_or(Admitted::Unsigned, signed))
    }

    /// Removes the namespaces in which the reader may not see the files of the app. The requested one has been checked;
    /// the namespaces of the fallback may have keys of their own.
    pub(super) fn keep_seen(&self, admitted: &Admitted, namespaces: &mut Vec<String>, app_id: &str) {
        match admitted {
            Admitted::Named { sight, .. } => namespaces.retain(|namespace| sight.read_scope.sees(namespace, app_id)),
            Admitted::Freely => {}
            Admitted::Signed(..) | Admitted::Unsigned => {
                let mut is_wanted = true;
                namespaces.retain(|namespace| {
                    std::mem::take(&mut is_wanted) || self.admits_in(admitted, app_id, namespace).is_ok()
                });
            }
        }
    }

    /// Checks that a reader admitted earlier would be admitted now: keys and tokens may have changed. A request that
    /// was unsigned, or signed with a key that did not count, is refused once a key is enforced.
    pub(super) fn admits_still(
        &self,
        admitted: &Admitted,
        (app_id, namespaces): AskedFiles<'_>,
    ) -> Result<(), ReadRefusal> {
        if let Admitted::Named { credential, address, sight } = admitted {
            let is_as_it_was = self.0.source.sight_of(credential, *address).as_ref() == Some(sight);
            return if is_as_it_was { Ok(()) } else { Err(ReadRefusal::Unauthorized) };
        }
        namespaces.iter().try_for_each(|namespace| self.admits_in(admitted, app_id, namespace))
    }

    /// Checks that a reader without a token may read the files of an app in a namespace.
    fn admits_in(&self, admitted: &Admitted, app_id: &str, namespace: &str) -> Result<(), ReadRefusal> {
        match (self.0.source.access_keys(app_id, Some(namespace)), admitted) {
            (None, _) => self.admit_unjudged(),
            (Some(keys), _) if !self.demands(&keys) => Ok(()),
            (Some(keys), Admitted::Signed(mark, _)) => keys.judge_again(*mark).map_err(ReadRefusal::Unsigned),
            (Some(_), _) => Err(ReadRefusal::Unsigned(Flaw::Unsigned)),
        }
    }

    /// Refuses an encrypted file to all but clients of the app and callers that may edit it. A token with which the
    /// file is merely visible is not enough.
    pub(super) fn admit_to_sealed(&self, admitted: &Admitted, released: &Released) -> Result<(), ReadRefusal> {
        if let Admitted::Named { credential, address, .. } = admitted
            && !self.0.source.may_have_sealed(credential, *address, &released.namespace, &released.group)
        {
            return Err(ReadRefusal::Withheld);
        }
        Ok(())
    }

    /// Admits a reader without a token to an app without keys, unless authentication is required.
    fn admit_unjudged(&self) -> Result<(), ReadRefusal> {
        if self.0.auth_required { Err(ReadRefusal::Unauthorized) } else { Ok(()) }
    }

    fn demands(&self, keys: &AppKeys) -> bool {
        keys.is_enforced || self.0.auth_required
    }

    /// Counts and logs a request that would be refused if the keys of the app were enforced.
    fn observe(&self, asker: Asker<'_>, app_id: &str, flaw: Flaw) {
        self.0.metrics.access_key_would_refuse.with_label_values(&[app_id]).inc();
        if self.0.observed.is_due((app_id.to_owned(), asker.address)) {
            let address = asker.address.map(tracing::field::display);
            tracing::warn!(app = app_id, address, why = %flaw, "request admitted that an enforced key would refuse");
        }
    }
}
