//! Commands of people of identity providers: sign-in and back-channel logout.

use serde::{Deserialize, Serialize};

use crate::model::access::{TokenHash, Whence};
use crate::model::sso::Claims;
use crate::model::time::Timestamp;

/// A sign-in by an ID token that a node has verified: signature, issuer, audience, times and nonce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsoSignIn {
    /// Hash of the new session's token.
    pub hash: TokenHash,
    /// Id of the provider.
    pub provider: String,
    /// Claims of the ID token, which claims of userinfo may complete. Issuer, `sub`, `sid` and name are read from them.
    pub claims: Claims,
    /// SHA-256 of the ID token, in hex; each is taken once.
    pub digest: String,
    #[serde(default, skip_serializing_if = "Whence::is_unknown")]
    pub from: Whence,
}

/// A back-channel logout by a logout token that a node has verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsoLogout {
    /// Id of the provider.
    pub provider: String,
    /// Session at the provider; without it all sessions of the person end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    /// Name of the token; each is taken once.
    pub jti: String,
    /// Time from which the token would be refused because of its age.
    pub expires: Timestamp,
}
