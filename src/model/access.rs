//! Users and the tokens that a login issues.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// Who may call. One role exists today: the administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: String,
    pub name: String,
    pub role: Role,
    /// argon2id in PHC text form.
    pub password_hash: PasswordHash,
    pub ctime: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Admin,
}

impl Role {
    pub fn word(self) -> &'static str {
        match self {
            Role::Admin => "admin",
        }
    }
}

/// A password hash, kept out of logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(pub String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// SHA-256 of a token, in hex: what is kept and replicated. The token itself is known to its
/// holder alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(pub String);

/// A live login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub hash: TokenHash,
    pub user_id: String,
    pub ctime: Timestamp,
    pub expires: Timestamp,
}
