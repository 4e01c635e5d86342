//! Identity providers: their settings, and the evaluation of claims by them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::binding::check_text;
use super::{Binding, Claims, SEPARATOR, invalid, unfit};
use crate::model::access_key::SealedSecret;
use crate::model::code::{Code, Refusal};
use crate::model::draft::{lay_over, sparse};
use crate::model::grant::Grants;
use crate::model::stamp::Stamp;
use crate::model::{host, limits, name};

/// An identity provider. Its identity is its name, together with its id: a provider that is created under the name of
/// a deleted one is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    pub id: String,
    pub name: String,
    /// Issuer as its tokens name it. It never changes, because it is a part of the identity of each person.
    pub issuer: String,
    /// Client of the console; empty if people do not sign in by it.
    pub client_id: String,
    /// Secret of the client; `None` for a public one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SealedSecret>,
    /// Public client for the command line; empty if there is none of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cli_client_id: String,
    pub scopes: Vec<String>,
    /// Claim that holds the name; empty for the first of `preferred_username`, a verified `email`, and `sub`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username_claim: String,
    /// Claim that holds the groups.
    pub groups_claim: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<Binding>,
    /// Values that claims have to have; a token without one of them is refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub required_claims: BTreeMap<String, String>,
    /// True if its tokens are accepted at the API.
    #[serde(default, skip_serializing_if = "crate::model::is_false")]
    pub bearer: bool,
    /// Audiences of tokens at the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// Seconds by which its clock may differ.
    pub leeway_s: u32,
    /// Longest session in seconds.
    pub session_s: u32,
    #[serde(default, skip_serializing_if = "crate::model::is_false")]
    pub disabled: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    pub created: Stamp,
    pub modified: Stamp,
    /// Identifier that every effective change replaces.
    pub revision: String,
}

/// Claim of the groups, if a provider names no other.
const GROUPS_CLAIM: &str = "groups";
/// Scope without which there is no ID token.
const OPENID: &str = "openid";
/// Scopes of a provider that names none.
const SCOPES: [&str; 3] = [OPENID, "profile", "email"];
const LEEWAY_S: u32 = 60;
const SESSION_S: u32 = 8 * 3600;

impl Provider {
    /// Returns a new provider with the default of each field.
    pub fn new(id: impl Into<String>, name: impl Into<String>, created: Stamp) -> Provider {
        Provider {
            id: id.into(),
            name: name.into(),
            scopes: SCOPES.map(str::to_owned).to_vec(),
            groups_claim: GROUPS_CLAIM.to_owned(),
            leeway_s: LEEWAY_S,
            session_s: SESSION_S,
            modified: created.clone(),
            created,
            ..Provider::default()
        }
    }

    /// Returns the client id for the command line: a public client, as nobody can keep a secret there. `None` if the
    /// provider has only a client with a secret.
    pub fn cli_client(&self) -> Option<&str> {
        match &*self.cli_client_id {
            "" if self.client_secret.is_none() => Some(&*self.client_id).filter(|client| !client.is_empty()),
            "" => None,
            client => Some(client),
        }
    }

    /// Reports whether people sign in by it: it is enabled, and has a client. A provider of tokens for programs needs
    /// none.
    pub fn signs_people_in(&self) -> bool {
        !self.disabled && !self.client_id.is_empty()
    }

    /// Refuses a sign-in by a provider of tokens for programs.
    pub fn check_sign_in(&self) -> Result<(), Refusal> {
        if self.client_id.is_empty() {
            let name = &self.name;
            return Err(invalid(format!("provider {name} has no client_id: people do not sign in by it")));
        }
        Ok(())
    }

    /// Returns the name of a person or program of this provider: `PROVIDER:USERNAME`.
    pub fn holder(&self, username: &str) -> String {
        format!("{}{SEPARATOR}{username}", self.name)
    }

    /// Returns the name under which the claims sign in, without the provider. Refuses a missing or blank one, one that
    /// is too long, and one with characters that nobody sees.
    pub fn username(&self, claims: &Claims) -> Result<String, Refusal> {
        let (claim, username) = self.username_of(claims)?;
        if username.trim().is_empty() {
            return Err(unfit(format!("the claim {claim}, which is the name of the user, is blank")));
        }
        if username.chars().any(|letter| letter.is_control() || is_unseen(letter)) {
            return Err(unfit(format!("the claim {claim}, which is the name of the user, holds control characters")));
        }
        let most = limits::HOLDER_BYTES_MAX - self.name.len() - SEPARATOR.len_utf8();
        if username.len() > most {
            return Err(unfit(format!("the claim {claim}, which is the name of the user, has more than {most} bytes")));
        }
        Ok(username.to_owned())
    }

    /// Returns the claim of the name, and its text.
    fn username_of<'a>(&'a self, claims: &'a Claims) -> Result<(&'a str, &'a str), Refusal> {
        // A provider that lets people write any address into their profile says so by a false one.
        let is_unverified = claims.get("email_verified").is_some() && !claims.is_true("email_verified");
        if !self.username_claim.is_empty() {
            let claim = self.username_claim.as_str();
            if claim == "email" && is_unverified {
                return Err(unfit("the claim email, which is the name of the user, is not verified"));
            }
            let missing = || unfit(format!("the token has no claim {claim}, which is the name of the user"));
            return claims.text(claim).map(|text| (claim, text)).ok_or_else(missing);
        }
        let of = |claim: &'static str| Some((claim, claims.text(claim).filter(|text| !text.trim().is_empty())?));
        of("preferred_username")
            .or_else(|| of("email").filter(|_| claims.is_true("email_verified")))
            .or_else(|| of("sub"))
            .ok_or_else(|| unfit("the token has none of preferred_username, a verified email, and sub"))
    }

    /// Returns the grants of the bindings that the claims fulfil.
    pub fn grants(&self, claims: &Claims) -> Grants {
        let held = self.bindings.iter().filter(|binding| binding.holds(claims)).map(Binding::grant);
        Grants::new(held.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>())
    }

    /// Checks that the claims are complete, and have the required values.
    pub fn check_required(&self, claims: &Claims) -> Result<(), Refusal> {
        claims.check_complete()?;
        for (claim, value) in &self.required_claims {
            let values = claims.values(claim);
            if values.is_empty() {
                return Err(unfit(format!("the token has no claim {claim}, which has to be {value:?}")));
            }
            if !values.contains(&value.as_str()) {
                return Err(unfit(format!("the claim {claim} is {}, it has to be {value:?}", values.join(", "))));
            }
        }
        Ok(())
    }

    /// Checks rules that involve several fields.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.issuer.is_empty() {
            return Err(invalid("issuer is required"));
        }
        if self.client_id.is_empty() && !self.bearer {
            return Err(invalid(NO_CLIENT));
        }
        if self.bearer && self.audiences.is_empty() {
            return Err(invalid("audiences are required with bearer: tokens for others would be taken else"));
        }
        Ok(())
    }
}

pub(super) const NO_CLIENT: &str = "client_id is required, except with bearer: nobody could sign in";

/// Reports whether a character is invisible or changes the direction of text: it would make one name look like another.
fn is_unseen(letter: char) -> bool {
    let is_mark = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    is_mark || matches!(letter, '\u{ad}' | '\u{feff}')
}

sparse! {
    /// One item of a command on providers.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ProviderDraft {
        pub name: String,
        pub issuer: Option<String>,
        pub client_id: Option<String>,
        /// Sealed secret; an empty one removes it.
        pub client_secret: Option<SealedSecret>,
        pub cli_client_id: Option<String>,
        pub scopes: Option<Vec<String>>,
        pub username_claim: Option<String>,
        pub groups_claim: Option<String>,
        pub bindings: Option<Vec<Binding>>,
        pub required_claims: Option<BTreeMap<String, String>>,
        pub bearer: Option<bool>,
        pub audiences: Option<Vec<String>>,
        pub leeway_s: Option<u32>,
        pub session_s: Option<u32>,
        pub disabled: Option<bool>,
        pub comment: Option<String>,
        pub revision: Option<String>,
    }
}

impl ProviderDraft {
    /// Overwrites `provider` with the given fields; absent ones are not changed, nor is the name.
    pub fn lay_over(&self, provider: &mut Provider) {
        lay_over!(self => provider: issuer, client_id, cli_client_id, scopes, username_claim, groups_claim, bindings,
            required_claims, bearer, audiences, leeway_s, session_s, disabled, comment);
        if let Some(secret) = &self.client_secret {
            provider.client_secret = Some(secret.clone()).filter(|secret| !secret.0.is_empty());
        }
        if provider.scopes.is_empty() {
            provider.scopes = SCOPES.map(str::to_owned).to_vec();
        }
        if provider.groups_claim.is_empty() {
            GROUPS_CLAIM.clone_into(&mut provider.groups_claim);
        }
    }
}

/// Name that no provider has: it begins the names of service tokens.
pub(super) const TOKEN: &str = "token";

/// Checks the name of a provider, which is a part of the names of its people and of addresses.
pub(super) fn check_name(field: &str, value: &str) -> Result<(), Refusal> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if value.is_empty() || value.len() > limits::PROVIDER_NAME_CHARS_MAX || !value.bytes().all(is_good) {
        let most = limits::PROVIDER_NAME_CHARS_MAX;
        return Err(invalid(format!("{field} has to be 1 to {most} lower-case letters, digits and -")));
    }
    if value == TOKEN {
        return Err(invalid(format!("{field}: names that begin with {TOKEN}{SEPARATOR} are those of service tokens")));
    }
    Ok(())
}

/// Checks an issuer: an address with https, or with http on this machine, that names one issuer and not many.
pub(super) fn check_issuer(issuer: &str) -> Result<(), Refusal> {
    name::check_length("issuer", issuer, limits::ISSUER_CHARS_MAX, Code::InvalidParameter)?;
    if issuer.contains(['{', '}']) {
        return Err(invalid("issuer has a placeholder in it: write the id of your tenant there"));
    }
    let url = Url::parse(issuer).map_err(|error| invalid(format!("issuer: {error}")))?;
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => return Err(invalid("issuer has to begin with https://: http:// is for this machine alone")),
        _ => return Err(invalid("issuer has to begin with https://")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("issuer may not hold a user or a password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("issuer may not have a query or a fragment"));
    }
    if issuer.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err(invalid("issuer may not hold blanks or control characters"));
    }
    let is_of_entra = url.host_str().is_some_and(|host| host.starts_with(ENTRA));
    let is_shared = |part: &&str| *part == COMMON || is_of_entra && SHARED_TENANTS.contains(part);
    if let Some(shared) = url.path_segments().into_iter().flatten().find(is_shared) {
        return Err(invalid(format!("issuer names no tenant: write its id in place of {shared:?}")));
    }
    url.host_str().and_then(host::fault).map_or(Ok(()), |why| Err(invalid(format!("issuer: {why}"))))
}

/// Parts of an address of Entra ID in place of a tenant: tokens name the tenant, never one of these.
const COMMON: &str = "common";
const SHARED_TENANTS: [&str; 2] = ["organizations", "consumers"];
/// Beginning of the host names of Entra ID, in all its clouds.
const ENTRA: &str = "login.microsoftonline.";

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Checks a required claim.
pub(super) fn check_required_claim(claim: &str, value: &str) -> Result<(), Refusal> {
    check_text("required_claims: a claim", claim, limits::CLAIM_NAME_CHARS_MAX)?;
    check_text("required_claims: a value", value, limits::CLAIM_PATTERN_CHARS_MAX)
}

/// Checks scopes: `openid` and others, without blanks.
pub(super) fn check_scopes(scopes: &[String]) -> Result<(), Refusal> {
    if scopes.len() > limits::SCOPES_MAX {
        return Err(invalid(format!("scopes: at most {}", limits::SCOPES_MAX)));
    }
    for scope in scopes {
        check_text("scopes: a scope", scope, limits::NAME_CHARS_MAX)?;
        if !scope.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\') {
            return Err(invalid(format!("scopes: {scope:?} is not a scope")));
        }
    }
    if !scopes.is_empty() && !scopes.iter().any(|scope| scope == OPENID) {
        return Err(invalid("scopes have to hold openid: there is no ID token without it"));
    }
    Ok(())
}
