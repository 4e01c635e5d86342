//! Identity providers and their people as the management surface shows them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::access::Sso;
use crate::model::sso::{Binding, FreedIdentity, Provider, SEPARATOR, SsoIdentity};

/// An identity provider; its secret is never shown.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Provider")]
pub(crate) struct ProviderView<'a> {
    name: &'a str,
    issuer: &'a str,
    client_id: &'a str,
    /// True if a client secret is stored.
    has_client_secret: bool,
    /// Public client for the command line; empty if there is none of its own.
    cli_client_id: &'a str,
    scopes: &'a [String],
    /// Claim that holds the name; empty for the first of `preferred_username`, a verified `email`, and `sub`.
    username_claim: &'a str,
    groups_claim: &'a str,
    /// Roles by claims.
    bindings: &'a [Binding],
    /// Values that claims have to have.
    required_claims: &'a BTreeMap<String, String>, // bound: request
    /// True if its tokens are accepted at the API.
    bearer: bool,
    audiences: &'a [String],
    /// Seconds by which its clock may differ.
    leeway_s: u32,
    /// Longest session in seconds.
    session_s: u32,
    disabled: bool,
    comment: &'a str,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// Revision, new after every change.
    revision: &'a str,
}

impl<'a> ProviderView<'a> {
    pub(crate) fn new(provider: &'a Provider) -> Self {
        ProviderView {
            name: &provider.name,
            issuer: &provider.issuer,
            client_id: &provider.client_id,
            has_client_secret: provider.client_secret.is_some(),
            cli_client_id: &provider.cli_client_id,
            scopes: &provider.scopes,
            username_claim: &provider.username_claim,
            groups_claim: &provider.groups_claim,
            bindings: &provider.bindings,
            required_claims: &provider.required_claims,
            bearer: provider.bearer,
            audiences: &provider.audiences,
            leeway_s: provider.leeway_s,
            session_s: provider.session_s,
            disabled: provider.disabled,
            comment: &provider.comment,
            ctime: provider.created.time.text(),
            create_by: &provider.created.by,
            mtime: provider.modified.time.text(),
            modify_by: &provider.modified.by,
            revision: &provider.revision,
        }
    }
}

/// A person that has signed in by a provider.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Identity")]
pub(crate) struct IdentityView<'a> {
    /// Name of the provider.
    provider: &'a str,
    issuer: &'a str,
    sub: &'a str,
    /// Name in audit trail and lists: `PROVIDER:USERNAME`.
    name: String,
    /// Names at earlier sign-ins, which belong to the person until its identity is deleted.
    earlier_names: Vec<String>,
    /// Id by which approvals and tokens count the person.
    person: String,
    /// Time of the first sign-in, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    /// Time of the last sign-in.
    last_seen: String,
}

impl<'a> IdentityView<'a> {
    pub(crate) fn new(identity: &'a SsoIdentity, sso: &'a Sso) -> Self {
        let name = |username: &str| sso.name_of(&identity.provider, username);
        IdentityView {
            provider: sso.provider_by_id(&identity.provider).map_or("", |provider| &provider.name),
            issuer: &identity.key.issuer,
            sub: &identity.key.sub,
            name: name(&identity.username),
            earlier_names: identity.earlier.iter().map(|earlier| name(earlier)).collect(),
            person: identity.person(),
            ctime: identity.created.text(),
            last_seen: identity.last_seen.text(),
        }
    }
}

/// A person whose identity was deleted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FreedIdentity")]
pub(crate) struct FreedIdentityView<'a> {
    /// Name of the provider.
    provider: &'a str,
    sub: &'a str,
    /// Name that is free now: `PROVIDER:USERNAME`.
    name: &'a str,
    /// Names of the service tokens that belong to the person.
    tokens: &'a [String],
    /// True if these tokens were ended.
    tokens_ended: bool,
}

impl<'a> FreedIdentityView<'a> {
    pub(crate) fn new(freed: &'a FreedIdentity) -> Self {
        FreedIdentityView {
            provider: freed.name.split(SEPARATOR).next().unwrap_or_default(),
            sub: &freed.identity.key.sub,
            name: &freed.name,
            tokens: &freed.tokens,
            tokens_ended: freed.ended,
        }
    }
}
