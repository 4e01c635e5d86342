//! Requests for providers, whose secret is in clear.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::binding::check_text;
use super::provider::{NO_CLIENT, check_issuer, check_name, check_required_claim, check_scopes};
use super::{Binding, ProviderDraft, invalid};
use crate::model::access_key::{ClearSecret, SealedSecret};
use crate::model::code::{Code, Refusal};
use crate::model::{limits, name};

/// Request for a provider; an absent field is not changed. It cannot be serialized: its secret is sealed before it
/// becomes part of a command.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "ProviderDraft")]
pub struct ProviderRequest {
    /// 1 to 32 lower-case letters, digits and `-`.
    #[schemars(regex(pattern = "^[a-z0-9-]{1,32}$"))]
    pub name: String,
    /// Issuer exactly as the provider names it, with `https://`; `http://` for an address of this machine only.
    /// Required in a create request, and never changed: a person is known by issuer and `sub`.
    pub issuer: Option<String>,
    /// Client id of the console. Required in a create request, except with `bearer`: without it nobody signs in by the
    /// provider, and programs need none.
    pub client_id: Option<String>,
    /// Client secret, at most 1024 characters of printable ASCII; absent for a public client, empty to remove it.
    #[schemars(with = "Option<String>")]
    pub client_secret: Option<ClearSecret>,
    /// Id of a public client for the command line; that of the console if absent, unless it has a secret.
    pub cli_client_id: Option<String>,
    /// Scopes to ask for, as a list or as one text with blanks; `openid profile email` if absent.
    #[serde(deserialize_with = "read_scopes")]
    #[schemars(with = "Option<Vec<String>>")]
    pub scopes: Option<Vec<String>>,
    /// Claim that holds the name; empty for the first of `preferred_username`, `email` if `email_verified`, and `sub`.
    pub username_claim: Option<String>,
    /// Claim that holds the groups; `groups` if absent.
    pub groups_claim: Option<String>,
    /// Roles by claims, at most 100.
    pub bindings: Option<Vec<Binding>>,
    /// Values that claims have to have, such as `tid` or `hd`; who lacks one is refused. At most 16.
    pub required_claims: Option<BTreeMap<String, String>>,
    /// True if JWTs of the issuer are taken at the API.
    pub bearer: Option<bool>,
    /// Audiences of these JWTs, at most 16; required with `bearer`.
    pub audiences: Option<Vec<String>>,
    /// Seconds, 0 to 300, by which its clock may differ from ours; 60 if absent.
    pub leeway_s: Option<u32>,
    /// Seconds, 300 to 2592000, after which a session ends; 28800 if absent.
    pub session_s: Option<u32>,
    /// True if nobody signs in by it, and none of its sessions and tokens is accepted.
    pub disabled: Option<bool>,
    /// Text of at most 1024 characters.
    pub comment: Option<String>,
    /// Expected revision; an update or delete with any other than the current one is refused with 409000.
    pub revision: Option<String>,
}

/// A list of scopes, or one text with blanks.
#[derive(Deserialize)]
#[serde(untagged)]
enum GivenScopes {
    List(Vec<String>),
    Text(String),
}

fn read_scopes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    Ok(Option::<GivenScopes>::deserialize(deserializer)?.map(|given| match given {
        GivenScopes::List(scopes) => scopes,
        GivenScopes::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
    }))
}

impl ProviderRequest {
    pub fn check_new(&self) -> Result<(), Refusal> {
        let is_missing = |given: &Option<String>| given.as_deref().unwrap_or_default().is_empty();
        if is_missing(&self.issuer) {
            return Err(invalid("issuer is required"));
        }
        if is_missing(&self.client_id) && self.bearer != Some(true) {
            return Err(invalid(NO_CLIENT));
        }
        if self.bearer == Some(true) && self.audiences.as_ref().is_none_or(Vec::is_empty) {
            return Err(invalid("audiences are required with bearer: tokens for others would be taken else"));
        }
        self.check()
    }

    /// Checks everything that does not depend on the stored state, for create and update.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_named()?;
        self.issuer.as_deref().map_or(Ok(()), check_issuer)?;
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(client_id) = given(&self.client_id) {
            check_text("client_id", &client_id, limits::CLIENT_ID_CHARS_MAX)?;
        }
        if let Some(client_id) = given(&self.cli_client_id) {
            check_text("cli_client_id", &client_id, limits::CLIENT_ID_CHARS_MAX)?;
        }
        if let Some(claim) = given(&self.username_claim) {
            check_text("username_claim", &claim, limits::CLAIM_NAME_CHARS_MAX)?;
        }
        if let Some(claim) = given(&self.groups_claim) {
            check_text("groups_claim", &claim, limits::CLAIM_NAME_CHARS_MAX)?;
        }
        self.client_secret.as_ref().map_or(Ok(()), check_secret)?;
        check_scopes(self.scopes.as_deref().unwrap_or_default())?;
        self.check_rights()?;
        check_range("leeway_s", self.leeway_s, 0, limits::LEEWAY_SECONDS_MAX)?;
        check_range("session_s", self.session_s, limits::SSO_SESSION_SECONDS_MIN, limits::SSO_SESSION_SECONDS_MAX)?;
        let comment = self.comment.as_deref().unwrap_or_default();
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)
    }

    /// Checks who gets in, and with which rights.
    fn check_rights(&self) -> Result<(), Refusal> {
        let bindings = self.bindings.as_deref().unwrap_or_default();
        if bindings.len() > limits::BINDINGS_MAX {
            return Err(invalid(format!("bindings: {} of them, at most {}", bindings.len(), limits::BINDINGS_MAX)));
        }
        bindings.iter().try_for_each(Binding::check)?;
        if let Some(required) = &self.required_claims {
            if required.len() > limits::REQUIRED_CLAIMS_MAX {
                return Err(invalid(format!("required_claims: at most {}", limits::REQUIRED_CLAIMS_MAX)));
            }
            required.iter().try_for_each(|(claim, value)| check_required_claim(claim, value))?;
        }
        let audiences = self.audiences.as_deref().unwrap_or_default();
        if audiences.len() > limits::AUDIENCES_MAX {
            return Err(invalid(format!("audiences: at most {}", limits::AUDIENCES_MAX)));
        }
        audiences.iter().try_for_each(|audience| check_text("audiences: a text", audience, limits::CLIENT_ID_CHARS_MAX))
    }

    pub fn check_named(&self) -> Result<(), Refusal> {
        check_name("name", &self.name)
    }

    /// Returns the draft to propose, with the sealed secret; an empty one removes the secret.
    pub fn into_draft(self, client_secret: Option<SealedSecret>) -> ProviderDraft {
        let ProviderRequest {
            name,
            issuer,
            client_id,
            client_secret: _,
            cli_client_id,
            scopes,
            username_claim,
            groups_claim,
            bindings,
            required_claims,
            bearer,
            audiences,
            leeway_s,
            session_s,
            disabled,
            comment,
            revision,
        } = self;
        ProviderDraft {
            name,
            issuer,
            client_id,
            client_secret,
            cli_client_id,
            scopes,
            username_claim,
            groups_claim,
            bindings,
            required_claims,
            bearer,
            audiences,
            leeway_s,
            session_s,
            disabled,
            comment,
            revision,
        }
    }
}

/// Checks a client secret, which the provider made: only its length, and that it fits into a header.
fn check_secret(secret: &ClearSecret) -> Result<(), Refusal> {
    let text = secret.expose();
    if text.len() > limits::CLIENT_SECRET_BYTES_MAX || !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        let most = limits::CLIENT_SECRET_BYTES_MAX;
        return Err(invalid(format!("client_secret has to be at most {most} characters of printable ASCII")));
    }
    Ok(())
}

fn check_range(field: &str, value: Option<u32>, least: u32, most: u32) -> Result<(), Refusal> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(invalid(format!("{field} is {value}, it is a number from {least} to {most}")))
        }
        _ => Ok(()),
    }
}
