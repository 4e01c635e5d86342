//! Who may call: users, the tokens that a login gives them, and service tokens.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
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
        }
    }
}

impl User {
    /// What was kept of a user before there were grants.
    pub fn as_founder(&self) -> Founder {
        Founder {
            id: self.id.clone(),
            name: self.name.clone(),
            role: Role::Admin,
            password_hash: self.password_hash.clone(),
            ctime: self.ctime,
        }
    }

    /// The role that the answer of a login names: the mightiest that the user has, wherever that is.
    pub fn role_word(&self) -> &'static str {
        self.grants.roles().min().map_or("", Role::word)
    }

    /// Who can do everything, and so can undo what anybody did.
    pub fn is_administrator(&self) -> bool {
        !self.disabled && self.grants.contains(&Grant::of(Role::Admin))
    }
}

/// What a caller says of a user; an absent field stays as it is. The password itself never gets here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserDraft {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<PasswordHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Grants>,
}

impl UserDraft {
    /// What can be judged without the state.
    pub fn check(&self) -> Result<(), Refusal> {
        check_account_name(&self.name)?;
        let comment = self.comment.as_deref().unwrap_or_default();
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        self.grants.as_ref().map_or(Ok(()), Grants::check)
    }

    pub fn lay_over(&self, user: &mut User) {
        super::replace(&mut user.password_hash, &self.password_hash);
        super::replace(&mut user.comment, &self.comment);
        super::replace(&mut user.disabled, &self.disabled);
        super::replace(&mut user.grants, &self.grants);
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(pub String);

impl TokenHash {
    /// What a token is called where it is shown: the beginning of its hash, of no use to who reads it.
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
}

/// A token with grants of its own, for a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceToken {
    pub name: String,
    pub hash: TokenHash,
    pub grants: Grants,
    /// Addresses from which it may be used; none given is any.
    pub networks: Vec<IpNet>,
    pub ctime: Timestamp,
    /// Who made it.
    pub by: String,
    pub expires: Option<Timestamp>,
}

impl ServiceToken {
    /// Whom it stands for.
    pub fn holder(&self) -> String {
        format!("token:{}", self.name)
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether it may be used from an address. One that cannot be told is none of its networks.
    pub fn is_for(&self, address: Option<IpAddr>) -> bool {
        is_within(&self.networks, address)
    }
}

/// Whether an address lies in one of these networks; no network is any.
pub fn is_within(networks: &[IpNet], address: Option<IpAddr>) -> bool {
    let address = address.map(|address| address.to_canonical());
    networks.is_empty() || address.is_some_and(|address| networks.iter().any(|network| network.contains(&address)))
}

/// A service token to be made, or, by its name, to be retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTokenDraft {
    pub name: String,
    pub hash: TokenHash,
    pub grants: Grants,
    pub networks: Vec<IpNet>,
    /// From when it is made; 0 is never.
    pub expires_in_s: u64,
}

/// What a caller says of a service token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceTokenRequest {
    /// Letters, digits and `- . _ @`, at most 128 characters.
    pub name: String,
    pub grants: Grants,
    /// Seconds that it is valid; 0 is for ever. At most ten years.
    pub expires_in_s: u64,
    /// Networks (`10.0.0.0/8`) or addresses from which it may be used; none given is any. At most 64.
    pub networks: Vec<String>,
}

impl ServiceTokenRequest {
    /// What can be judged without the state; the token itself is drawn by whoever asks.
    pub fn read(&self, hash: TokenHash) -> Result<ServiceTokenDraft, Refusal> {
        let refuse = |why: String| Err(Refusal::new(Code::InvalidParameter, why));
        check_account_name(&self.name)?;
        self.grants.check()?;
        if self.expires_in_s > limits::SERVICE_TOKEN_SECONDS_MAX {
            return refuse(format!("expires_in_s is at most {}", limits::SERVICE_TOKEN_SECONDS_MAX));
        }
        if self.networks.len() > limits::TOKEN_NETWORKS_MAX {
            return refuse(format!("networks: at most {}", limits::TOKEN_NETWORKS_MAX));
        }
        let mut networks = Vec::with_capacity(self.networks.len());
        for text in &self.networks {
            match text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)) {
                Ok(network) => networks.push(network.trunc()),
                Err(_) => return refuse(format!("networks: {text:?} is neither a network nor an address")),
            }
        }
        let (name, grants, expires_in_s) = (self.name.clone(), self.grants.clone(), self.expires_in_s);
        Ok(ServiceTokenDraft { name, hash, grants, networks, expires_in_s })
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
    fn a_service_token_is_read_and_bound_to_its_networks() {
        let request = |networks: &[&str]| ServiceTokenRequest {
            name: "ci".into(),
            networks: networks.iter().map(|text| (*text).to_owned()).collect(),
            ..Default::default()
        };
        let hash = || TokenHash("h".into());
        let networks = request(&["10.1.2.3/8", "::1"]).read(hash()).expect("networks").networks;
        let within = |text: &str| is_within(&networks, text.parse().ok());
        assert!(within("10.9.9.9") && within("::ffff:10.1.1.1") && within("::1"));
        assert!(!within("11.0.0.1") && !within("nowhere") && is_within(&[], None));
        assert!(request(&["10.0.0.0/33"]).read(hash()).is_err());
        assert!(request(&["10.0.0.1"; 65]).read(hash()).is_err());
        let forever = ServiceTokenRequest { expires_in_s: limits::SERVICE_TOKEN_SECONDS_MAX + 1, ..request(&[]) };
        assert!(forever.read(hash()).is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(format!("{:?}", PasswordHash("secret".into())), "PasswordHash(…)");
        assert_eq!(TokenHash("0123456789abcdef0123".into()).id(), "0123456789abcdef");
    }
}
