//! Callers: users, the tokens that a login gives them, and service tokens.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
use super::grant::{Grant, Grants, Role};
use super::sso::{IdentityRequest, SsoLogin, SsoUser};
use super::time::Timestamp;
use super::{limits, name};

/// Author of acts that the cluster performs by itself.
pub const CLUSTER: &str = "cluster";

/// Administrator that a new cluster is created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Founder {
    pub id: String,
    pub name: String,
    pub role: Role,
    /// argon2id in PHC text form.
    pub password_hash: PasswordHash,
    pub ctime: Timestamp,
}

/// Name of the administrator of a new cluster.
pub const ADMIN: &str = "admin";

impl Founder {
    pub fn administrator(id: impl Into<String>, password_hash: impl Into<String>, ctime: Timestamp) -> Founder {
        let password_hash = PasswordHash(password_hash.into());
        Founder { id: id.into(), name: ADMIN.to_owned(), role: Role::Admin, password_hash, ctime }
    }
}

/// Person who logs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: String,
    pub name: String,
    /// argon2id in PHC text form.
    pub password_hash: PasswordHash,
    pub comment: String,
    /// True if the user may not log in, and its tokens are not accepted.
    pub disabled: bool,
    pub grants: Grants,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    /// Identifier that every effective change replaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Person of an identity provider, which has no password here; `None` for a local user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sso: Option<SsoUser>,
}

impl From<Founder> for User {
    fn from(founder: Founder) -> Self {
        let Founder { id, name, role, password_hash, ctime } = founder;
        User {
            id,
            name,
            password_hash,
            comment: String::new(),
            disabled: false,
            grants: Grants::all(role),
            ctime,
            mtime: ctime,
            revision: String::new(),
            sso: None,
        }
    }
}

impl User {
    /// Returns the role that the answer of a login names: the most powerful one that the user has anywhere.
    pub fn role_word(&self) -> &'static str {
        self.grants.roles().min().map_or("", Role::word)
    }

    /// Reports whether the user is enabled, has every right everywhere, and may log in while every identity provider is
    /// out of reach.
    pub fn is_administrator(&self) -> bool {
        !self.disabled && self.sso.is_none() && self.grants.contains(&Grant::of(Role::Admin))
    }
}

sparse! {
    /// Fields of a user in a request; an absent field is not changed. It holds the hash of the password, never the
    /// password.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct UserDraft {
        pub name: String,
        pub password_hash: Option<PasswordHash>,
        pub comment: Option<String>,
        pub disabled: Option<bool>,
        pub grants: Option<Grants>,
        pub revision: Option<String>,
        /// Person of an identity provider, in place of the name of a local user.
        pub identity: Option<IdentityRequest>,
    }
}

impl UserDraft {
    /// Checks everything that does not depend on the stored state.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_named()?;
        let comment = self.comment.as_deref().unwrap_or_default();
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        self.grants.as_ref().map_or(Ok(()), Grants::check)
    }

    /// Checks the name of a local user, or the identity of a person.
    pub fn check_named(&self) -> Result<(), Refusal> {
        self.identity.as_ref().map_or_else(|| check_account_name(&self.name), IdentityRequest::check)
    }

    pub fn lay_over(&self, user: &mut User) {
        lay_over!(self => user: password_hash, comment, disabled, grants);
    }
}

/// Checks the name of a user or service token: letters, digits and `.` `_` `-` `@`. The names of the cluster itself and
/// of token holders (`token:NAME`) are therefore never valid.
pub fn check_account_name(value: &str) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::new(Code::InvalidParameter, why));
    if value.is_empty() {
        return refuse("name is required".to_owned());
    }
    name::check_length("name", value, limits::CREDENTIAL_CHARS_MAX, Code::InvalidParameter)?;
    if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._@".contains(&byte)) {
        return refuse("name may hold letters, digits and - . _ @ only".to_owned());
    }
    if value.eq_ignore_ascii_case(CLUSTER) {
        return refuse(format!("the name {CLUSTER:?} is the cluster's own"));
    }
    Ok(())
}

/// Checks a new password: 8 to 128 characters.
pub fn check_password(field: &str, password: &str) -> Result<(), Refusal> {
    let count = password.chars().count();
    if !(limits::PASSWORD_CHARS_MIN..=limits::CREDENTIAL_CHARS_MAX).contains(&count) {
        let (least, most) = (limits::PASSWORD_CHARS_MIN, limits::CREDENTIAL_CHARS_MAX);
        return Err(Refusal::new(Code::InvalidParameter, format!("{field} has to have {least} to {most} characters")));
    }
    Ok(())
}

/// A password hash, hidden in logs.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(pub String);

impl PasswordHash {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// SHA-256 of a token, in hex. Only the hash is stored and replicated; only the holder knows the token.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(pub String);

impl TokenHash {
    /// Returns the displayed name of a token: the beginning of its hash, which cannot be used to log in.
    pub fn id(&self) -> &str {
        self.0.get(..16).unwrap_or(&self.0)
    }
}

/// Token of a login. Its user is a local one, or a person of an identity provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub hash: TokenHash,
    pub user_id: String,
    pub ctime: Timestamp,
    pub expires: Timestamp,
    /// Address and user agent of the login.
    #[serde(default, skip_serializing_if = "Whence::is_unknown")]
    pub from: Whence,
    /// Sign-in at an identity provider; `None` for a login with a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sso: Option<Box<SsoLogin>>,
}

/// Origin of a login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Whence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// User agent that the client sent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
}

impl Whence {
    pub fn is_unknown(&self) -> bool {
        *self == Whence::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_have_are_refused() {
        for good in ["admin", "a.b-c_d@example.org", "X", &"n".repeat(128)] {
            assert_eq!(check_account_name(good), Ok(()), "{good}");
        }
        for bad in ["", "cluster", "Cluster", "token:ci", "a b", "a/b", "ä", "a\n", &"n".repeat(129)] {
            assert!(check_account_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn passwords_have_8_to_128_characters() {
        for (length, is_good) in [(0, false), (7, false), (8, true), (128, true), (129, false)] {
            assert_eq!(check_password("password", &"ä".repeat(length)).is_ok(), is_good, "{length}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(format!("{:?}", PasswordHash("secret".into())), "PasswordHash(…)");
        assert_eq!(TokenHash("0123456789abcdef0123".into()).id(), "0123456789abcdef");
    }
}
