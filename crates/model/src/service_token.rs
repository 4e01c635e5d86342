//! Tokens of programs: with their own grants, an expiry, and the networks from which they may be used.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{TokenHash, check_account_name};
use super::code::{Code, Refusal};
use super::draft::{lay_over, replace, sparse};
use super::grant::{GivenGrant, Grants};
use super::stamp::Stamp;
use super::time::Timestamp;
use super::{limits, name};

/// Prefix of the name of a service token as a holder.
pub const TOKEN_HOLDER: &str = "token:";

/// A token with grants of its own, for a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceToken {
    pub name: String,
    pub hash: TokenHash,
    pub grants: Grants,
    /// Networks from which it may be used; empty for all.
    pub networks: Vec<IpNet>,
    pub ctime: Timestamp,
    /// Creator of the token.
    pub by: String,
    /// Id of the user who received the secret: its creator or last rotator, or the person who owns the token that was
    /// used. Empty if there was none, and for tokens from before persons were recorded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub person: String,
    pub expires: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// True if the token is not accepted.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub disabled: bool,
    /// Secret before a rotation, while both are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousToken>,
    /// Last change, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Stamp>,
    /// Identifier that every effective change replaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

/// A secret that was replaced by a rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousToken {
    pub hash: TokenHash,
    pub until: Timestamp,
    /// Id of the user who received it, see [`ServiceToken::person`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub person: String,
}

impl ServiceToken {
    /// Returns the holder's name for grants and the audit trail.
    pub fn holder(&self) -> String {
        format!("{TOKEN_HOLDER}{}", self.name)
    }

    /// Reports whether the token was created or changed at this time or later.
    pub fn is_changed_since(&self, time: Timestamp) -> bool {
        self.modified.as_ref().is_some_and(|modified| modified.time >= time) || self.ctime >= time
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Reports whether the token admits a caller with this hash.
    pub fn lets_in(&self, hash: &TokenHash, now: Timestamp) -> bool {
        let is_previous = |previous: &PreviousToken| previous.hash == *hash && now < previous.until;
        let is_it = self.hash == *hash || self.previous.as_ref().is_some_and(is_previous);
        is_it && self.is_in_use(now)
    }

    /// Reports whether the token is enabled and has not expired.
    pub fn is_in_use(&self, now: Timestamp) -> bool {
        !self.disabled && !self.is_over(now)
    }

    /// Returns the id of the user who received the secret of this hash.
    pub fn person_of(&self, hash: &TokenHash) -> &str {
        let previous = self.previous.as_ref().filter(|previous| previous.hash == *hash);
        previous.map_or(&self.person, |previous| &previous.person)
    }

    /// Returns the hashes of its current and previous secret.
    pub fn hashes(&self) -> impl Iterator<Item = &TokenHash> {
        [&self.hash].into_iter().chain(self.previous.as_ref().map(|previous| &previous.hash))
    }

    /// Reports whether it may be used from an address. An unknown address is in no network.
    pub fn is_for(&self, address: Option<IpAddr>) -> bool {
        is_within(&self.networks, address)
    }
}

/// Reports whether an address is in one of these networks; an empty list contains every address.
pub fn is_within(networks: &[IpNet], address: Option<IpAddr>) -> bool {
    let address = address.map(|address| address.to_canonical());
    networks.is_empty() || address.is_some_and(|address| networks.iter().any(|network| network.contains(&address)))
}

/// A service token to create, or, by its name, to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTokenDraft {
    pub name: String,
    pub hash: TokenHash,
    pub grants: Grants,
    pub networks: Vec<IpNet>,
    /// Seconds from its creation; 0 for never.
    pub expires_in_s: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub disabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl ServiceTokenDraft {}

sparse! {
    /// Change of a service token; absent fields are not changed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ServiceTokenChange {
        pub name: String,
        pub grants: Option<Grants>,
        pub networks: Option<Vec<IpNet>>,
        /// Seconds from the change; 0 for never.
        pub expires_in_s: Option<u64>,
        pub comment: Option<String>,
        pub disabled: Option<bool>,
        pub rotation: Option<Rotation>,
        pub revision: Option<String>,
    }
}

/// A new secret for a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    pub hash: TokenHash,
    /// Seconds for which the previous secret is still accepted.
    pub overlap_s: u64,
}

impl ServiceTokenChange {
    /// Applies the change to the token at this time; `person` receives a new secret.
    pub fn lay_over(&self, token: &mut ServiceToken, now: Timestamp, person: &str) {
        lay_over!(self => token: grants, networks, comment, disabled);
        replace(&mut token.expires, &self.expires_in_s.map(|after_s| ends(now, after_s)));
        if let Some(Rotation { hash, overlap_s }) = &self.rotation {
            let hash = std::mem::replace(&mut token.hash, hash.clone());
            let person = std::mem::replace(&mut token.person, person.to_owned());
            token.previous = ends(now, *overlap_s).map(|until| PreviousToken { hash, until, person });
        }
    }
}

/// Returns the time after `after_s` seconds; `None` for 0, which means no end.
pub fn ends(now: Timestamp, after_s: u64) -> Option<Timestamp> {
    (after_s > 0).then(|| now.plus_ms(after_s * 1000))
}

/// Request for a service token; an absent field is not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "ServiceTokenDraft")]
pub struct ServiceTokenRequest {
    /// Letters, digits and `- . _ @`, at most 128 characters.
    pub name: String,
    /// List of at most 100 grants. A token without grants has no rights.
    #[serde(deserialize_with = "GivenGrant::read_all")]
    #[schemars(with = "Option<Vec<GivenGrant>>")]
    pub grants: Option<Grants>,
    /// Seconds of validity from now on; 0 for no expiry. At most ten years.
    pub expires_in_s: Option<u64>,
    /// Networks (`10.0.0.0/8`) or addresses from which it may be used; `[]` for all. At most 64.
    pub networks: Option<Vec<String>>,
    /// Text of at most 1024 characters.
    pub comment: Option<String>,
    /// True if the token is not accepted.
    pub disabled: Option<bool>,
    /// Expected revision; an update or delete with any other than the current one is refused with 409000.
    pub revision: Option<String>,
}

impl ServiceTokenRequest {
    /// Checks a token to create, without the stored state, and converts it; the caller generates the secret.
    pub fn read(&self, hash: TokenHash) -> Result<ServiceTokenDraft, Refusal> {
        let ServiceTokenChange { name, grants, networks, expires_in_s, comment, disabled, .. } = self.change()?;
        Ok(ServiceTokenDraft {
            name,
            hash,
            grants: grants.unwrap_or_default(),
            networks: networks.unwrap_or_default(),
            expires_in_s: expires_in_s.unwrap_or_default(),
            comment: comment.unwrap_or_default(),
            disabled: disabled.unwrap_or_default(),
            revision: None,
        })
    }

    /// Checks a change of a token, and converts it.
    pub fn change(&self) -> Result<ServiceTokenChange, Refusal> {
        let refuse = |why: String| Err(Refusal::new(Code::InvalidParameter, why));
        check_account_name(&self.name)?;
        self.grants.as_ref().map_or(Ok(()), Grants::check)?;
        let comment = self.comment.as_deref().unwrap_or_default();
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        if self.expires_in_s.is_some_and(|expires_in_s| expires_in_s > limits::SERVICE_TOKEN_SECONDS_MAX) {
            return refuse(format!("expires_in_s is at most {}", limits::SERVICE_TOKEN_SECONDS_MAX));
        }
        let texts = self.networks.as_deref().unwrap_or_default();
        if texts.len() > limits::TOKEN_NETWORKS_MAX {
            return refuse(format!("networks: at most {}", limits::TOKEN_NETWORKS_MAX));
        }
        let mut networks = Vec::with_capacity(texts.len());
        for text in texts {
            match text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)) {
                Ok(network) => networks.push(network.trunc()),
                Err(_) => return refuse(format!("networks: {text:?} is neither a network nor an address")),
            }
        }
        Ok(ServiceTokenChange {
            name: self.name.clone(),
            grants: self.grants.clone(),
            networks: self.networks.is_some().then_some(networks),
            expires_in_s: self.expires_in_s,
            comment: self.comment.clone(),
            disabled: self.disabled,
            rotation: None,
            revision: self.revision.clone(),
        })
    }

    /// Checks the name of a token to delete.
    pub fn named(self) -> Result<ServiceTokenDraft, Refusal> {
        check_account_name(&self.name)?;
        Ok(ServiceTokenDraft { name: self.name, revision: self.revision, ..ServiceTokenDraft::default() })
    }
}

/// Request for a new secret of a service token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RotationRequest {
    pub name: String,
    /// Seconds for which the previous secret is still accepted; 0, or absent, ends it at once. At most 30 days.
    pub overlap_s: u64,
    /// Expected revision; any other than the current one is refused with 409000.
    pub revision: Option<String>,
}

impl RotationRequest {
    /// Checks a rotation, and converts it; the caller generates the secret.
    pub fn read(self, hash: TokenHash) -> Result<ServiceTokenChange, Refusal> {
        check_account_name(&self.name)?;
        if self.overlap_s > limits::TOKEN_OVERLAP_SECONDS_MAX {
            let why = format!("overlap_s is at most {}", limits::TOKEN_OVERLAP_SECONDS_MAX);
            return Err(Refusal::new(Code::InvalidParameter, why));
        }
        let RotationRequest { name, overlap_s, revision } = self;
        let rotation = Some(Rotation { hash, overlap_s });
        Ok(ServiceTokenChange { name, rotation, revision, ..ServiceTokenChange::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_token_is_read_and_bound_to_its_networks() {
        let request = |networks: &[&str]| ServiceTokenRequest {
            name: "ci".into(),
            networks: Some(networks.iter().map(|text| (*text).to_owned()).collect()),
            ..Default::default()
        };
        let hash = || TokenHash("h".into());
        let networks = request(&["10.1.2.3/8", "::1"]).read(hash()).expect("networks").networks;
        let within = |text: &str| is_within(&networks, text.parse().ok());
        assert!(within("10.9.9.9") && within("::ffff:10.1.1.1") && within("::1"));
        assert!(!within("11.0.0.1") && !within("nowhere") && is_within(&[], None));
        assert!(request(&["10.0.0.0/33"]).read(hash()).is_err());
        assert!(request(&["10.0.0.1"; 65]).read(hash()).is_err());
        let forever = ServiceTokenRequest { expires_in_s: Some(limits::SERVICE_TOKEN_SECONDS_MAX + 1), ..request(&[]) };
        assert!(forever.read(hash()).is_err());
    }
}
