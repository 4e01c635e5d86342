//! Callers: users, the tokens that a login gives them, and service tokens.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
use super::grant::{Grant, Grants, Role};
use super::time::Timestamp;
use super::{limits, name};

/// Stands for the cluster itself where something says who did it.
pub const CLUSTER: &str = "cluster";

/// The administrator that a cluster is founded with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Founder {
    pub id: String,
    pub name: String,
    pub role: Role,
    /// argon2id in PHC text form.
    pub password_hash: PasswordHash,
    pub ctime: Timestamp,
}

/// Name of the administrator that a cluster is founded with.
pub const ADMIN: &str = "admin";

impl Founder {
    pub fn administrator(id: impl Into<String>, password_hash: impl Into<String>, ctime: Timestamp) -> Founder {
        let password_hash = PasswordHash(password_hash.into());
        Founder { id: id.into(), name: ADMIN.to_owned(), role: Role::Admin, password_hash, ctime }
    }
}

/// Somebody who logs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: String,
    pub name: String,
    /// argon2id in PHC text form.
    pub password_hash: PasswordHash,
    pub comment: String,
    /// Nobody gets in under this name until it is enabled again.
    pub disabled: bool,
    pub grants: Grants,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    /// Changes with every write that changes something.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
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
        }
    }
}

impl User {
    /// The role that the answer of a login names: the mightiest that the user has, wherever that is.
    pub fn role_word(&self) -> &'static str {
        self.grants.roles().min().map_or("", Role::word)
    }

    /// True for a user that can do everything, and so can undo what anybody did.
    pub fn is_administrator(&self) -> bool {
        !self.disabled && self.grants.contains(&Grant::of(Role::Admin))
    }
}

sparse! {
    /// Fields of a user that a caller gives; an absent field stays as it is. The password itself never gets here.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct UserDraft {
        pub name: String,
        pub password_hash: Option<PasswordHash>,
        pub comment: Option<String>,
        pub disabled: Option<bool>,
        pub grants: Option<Grants>,
        pub revision: Option<String>,
    }
}

impl UserDraft {
    /// Checks all that can be judged without the state.
    pub fn check(&self) -> Result<(), Refusal> {
        check_account_name(&self.name)?;
        let comment = self.comment.as_deref().unwrap_or_default();
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        self.grants.as_ref().map_or(Ok(()), Grants::check)
    }

    pub fn lay_over(&self, user: &mut User) {
        lay_over!(self => user: password_hash, comment, disabled, grants);
    }
}

/// Names of users and service tokens: `.` `_` `-` and `@` beside letters and digits, so that no name is
/// one of the cluster's own or that of a token (`token:NAME`).
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

/// A new password: 8 to 128 characters.
pub fn check_password(field: &str, password: &str) -> Result<(), Refusal> {
    let count = password.chars().count();
    if !(limits::PASSWORD_CHARS_MIN..=limits::CREDENTIAL_CHARS_MAX).contains(&count) {
        let (least, most) = (limits::PASSWORD_CHARS_MIN, limits::CREDENTIAL_CHARS_MAX);
        return Err(Refusal::new(Code::InvalidParameter, format!("{field} has to have {least} to {most} characters")));
    }
    Ok(())
}

/// A password hash, kept out of logs.
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

/// SHA-256 of a token, in hex: what is kept and replicated. The token itself is known to its
/// holder alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(pub String);

impl TokenHash {
    /// Name of a token where it is shown: the beginning of its hash, of no use to a reader.
    pub fn id(&self) -> &str {
        self.0.get(..16).unwrap_or(&self.0)
    }
}

/// A live login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub hash: TokenHash,
    pub user_id: String,
    pub ctime: Timestamp,
    pub expires: Timestamp,
    /// Address and agent of its login.
    #[serde(default, skip_serializing_if = "Whence::is_unknown")]
    pub from: Whence,
}

/// From where somebody logged in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Whence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The program, by its own word.
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
