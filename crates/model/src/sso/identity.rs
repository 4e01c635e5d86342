//! People and programs that a provider identifies, and what their sessions and requests keep of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Claims, SEPARATOR, invalid, provider};
use crate::model::code::Refusal;
use crate::model::limits;
use crate::model::time::Timestamp;

/// Identity of a person or program: the issuer, and the name under which the issuer knows it for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IdentityKey {
    pub issuer: String,
    pub sub: String,
}

impl IdentityKey {
    /// Returns the id of the person, by which approvals, own requests and tokens are counted. It is the same for every
    /// token of this issuer and `sub`, and has the form of the ids of local users.
    pub fn person(&self) -> String {
        let digest = Sha256::new().chain_update(&self.issuer).chain_update([0]).chain_update(&self.sub).finalize();
        hex::encode(&digest[..16])
    }
}

/// Checks a `sub`: 1 to 255 bytes, without control characters.
pub fn check_sub(sub: &str) -> Result<(), Refusal> {
    if sub.trim().is_empty() || sub.len() > limits::SUB_BYTES_MAX || sub.chars().any(char::is_control) {
        let most = limits::SUB_BYTES_MAX;
        return Err(invalid(format!("sub has to be a text of 1 to {most} bytes without control characters")));
    }
    Ok(())
}

/// A person that has signed in interactively, and owns the names under which it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsoIdentity {
    pub key: IdentityKey,
    /// Id of the provider.
    pub provider: String,
    /// Name at the last sign-in, without the provider.
    pub username: String,
    /// Names at earlier sign-ins, which stay those of this person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
    pub created: Timestamp,
    /// Time of the last sign-in.
    pub last_seen: Timestamp,
}

impl SsoIdentity {
    /// Returns the id of the person, see [`IdentityKey::person`].
    pub fn person(&self) -> String {
        self.key.person()
    }

    /// Returns all names that it owns.
    pub fn usernames(&self) -> impl Iterator<Item = &str> {
        [&self.username].into_iter().chain(&self.earlier).map(String::as_str)
    }
}

/// A person or program with its claims at the time of an act, as its requests, approvals and schedules keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsoAuthor {
    /// Id of the provider.
    pub provider: String,
    pub key: IdentityKey,
    pub claims: Claims,
}

/// Sign-in of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsoLogin {
    /// Id of the provider.
    pub provider: String,
    pub key: IdentityKey,
    /// Session at the provider, which back-channel logouts name; empty if it named none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sid: String,
    pub username: String,
    pub claims: Claims,
}

/// A bearer token that a node has verified: signature, issuer, audience and times.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bearer {
    /// Id of the provider.
    pub provider: String,
    pub issuer: String,
    pub sub: String,
    pub username: String,
    /// All claims of the token.
    pub claims: Claims,
    /// End of the token, with the leeway of its provider.
    pub expires: Timestamp,
    /// Name of the token in the audit trail: the beginning of its hash, in hex.
    pub id: String,
}

impl SsoLogin {
    /// Returns the bytes of its claims.
    pub fn bytes(&self) -> usize {
        self.claims.as_text().len()
    }

    pub fn author(&self) -> SsoAuthor {
        let SsoLogin { provider, key, claims, .. } = self.clone();
        SsoAuthor { provider, key, claims }
    }
}

impl Bearer {
    pub fn author(&self) -> SsoAuthor {
        SsoAuthor { provider: self.provider.clone(), key: self.key(), claims: self.claims.clone() }
    }

    pub fn key(&self) -> IdentityKey {
        IdentityKey { issuer: self.issuer.clone(), sub: self.sub.clone() }
    }
}

/// Person of a provider to whom an administrator grants rights by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsoUser {
    /// Id of the provider.
    pub provider: String,
    pub key: IdentityKey,
}

/// A person that was deleted, and the service tokens that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreedIdentity {
    pub identity: SsoIdentity,
    /// Name of the person, with the provider.
    pub name: String,
    /// Names of its service tokens.
    pub tokens: Vec<String>,
    /// True if these were ended with it.
    pub ended: bool,
}

/// An identity in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IdentityRequest {
    /// Name of the provider.
    pub provider: String,
    pub sub: String,
}

impl IdentityRequest {
    pub fn check(&self) -> Result<(), Refusal> {
        provider::check_name("provider", &self.provider)?;
        check_sub(&self.sub)
    }

    /// Returns the name of the account with the rights that are granted by hand: `PROVIDER:SUB`. No local user has such
    /// a name.
    pub fn account(&self) -> String {
        format!("{}{SEPARATOR}{}", self.provider, self.sub)
    }
}
