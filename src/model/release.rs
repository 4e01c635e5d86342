//! Releases: what is common to those of rules and of config files.
//!
//! A release is an immutable copy of what it releases, as that stood when it was published. What may
//! become of it is one table, the same for everything that is released:
//!
//! | operation | missing | normal active | normal inactive | gray active | gray inactive |
//! |---|---|---|---|---|---|
//! | rollback | 400202 | 200002 | activate | 400000 | 400000 |
//! | stopbeta | 400202 | 400000 | 400000 | deactivate | 200002 |
//! | delete | 200000 | 400000 | remove | 400000 | remove |
//!
//! | publish | no gray active | gray active |
//! |---|---|---|
//! | normal | activate | 409000 |
//! | gray, with labels | activate | activate |
//! | gray, without labels | 400904 | 400904 |
//!
//! Activating a normal release makes the one active before it inactive; several grays with different
//! names may be active beside it. Every activation takes a new version: the highest one ever given
//! plus 1, one count over normal and gray.

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::code::{Code, Refusal};
use super::rule::matching::{MatchString, OwnedMatcher};
use super::wire::wire_enum;
use super::{limits, name};

wire_enum! {
    /// Whether a release is for all clients or for those with the right labels.
    pub enum ReleaseType {
        Normal = "normal",
        Gray = "gray",
    }
}

impl ReleaseType {
    /// The type of a word of the field; none stands for normal.
    pub fn read(word: Option<&str>) -> Result<ReleaseType, Refusal> {
        match word.unwrap_or_default() {
            "" | "normal" | "full" | "ReleaseTypeNormal" => Ok(ReleaseType::Normal),
            "gray" | "beta" | "ReleaseTypeGray" => Ok(ReleaseType::Gray),
            other => {
                let why = format!("release_type {other:?} is neither normal nor gray");
                Err(Refusal::new(Code::InvalidParameter, why))
            }
        }
    }
}

/// A condition on a label of a client. A client without the label does not meet it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClientLabel {
    pub key: String,
    pub value: MatchString,
}

/// Refuses labels that no client could have, and conditions that cannot be judged: 400904.
pub fn check_labels(labels: &[ClientLabel]) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::new(Code::InvalidMatchRule, why));
    if labels.len() > limits::CLIENT_LABELS_MAX {
        return refuse(format!("more than {} client labels", limits::CLIENT_LABELS_MAX));
    }
    for (index, label) in labels.iter().enumerate() {
        if label.key.is_empty() {
            return refuse(format!("client_labels[{index}] has no key"));
        }
        let code = Code::InvalidMatchRule;
        name::check_length("the key of a client label", &label.key, limits::METADATA_KEY_CHARS_MAX, code)?;
        name::check_length("the value of a client label", &label.value.value, limits::METADATA_VALUE_CHARS_MAX, code)?;
        if let Err(fault) = label.value.check() {
            let refusal: Refusal = fault.within(&format!("client_labels[{index}]")).into();
            return refuse(refusal.detail);
        }
    }
    Ok(())
}

/// Whom an active gray release is for: its conditions, made ready by the first client that is judged and
/// kept for all that follow. An expression takes up to a thousand times longer to compile than to match,
/// and anybody may ask.
///
/// Kept beside the active release, not in it: what is active no more keeps nothing. An expression takes
/// [`limits::REGEX_COMPILED_BYTES_MAX`] at most.
#[derive(Clone, Debug, Default)]
pub struct Audience(OnceLock<Arc<[OwnedMatcher]>>);

impl Audience {
    /// True if a client meets all conditions; `label` looks up what the client has. To be asked with the
    /// labels of one release only.
    pub fn has<'a>(&self, labels: &[ClientLabel], label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let ready = self.0.get_or_init(|| labels.iter().map(|wanted| wanted.value.owned_matcher()).collect());
        let meets = |(wanted, ready): (&ClientLabel, &OwnedMatcher)| {
            label(&wanted.key).is_some_and(|value| ready.matches(value))
        };
        labels.iter().zip(ready.iter()).all(meets)
    }
}

/// It follows from the release.
impl PartialEq for Audience {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What is done to a release that is there, or believed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseOp {
    Rollback,
    StopGray,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    Missing,
    NormalActive,
    NormalInactive,
    GrayActive,
    GrayInactive,
}

impl ReleaseState {
    pub fn of(release_type: ReleaseType, active: bool) -> Self {
        match (release_type, active) {
            (ReleaseType::Normal, true) => ReleaseState::NormalActive,
            (ReleaseType::Normal, false) => ReleaseState::NormalInactive,
            (ReleaseType::Gray, true) => ReleaseState::GrayActive,
            (ReleaseType::Gray, false) => ReleaseState::GrayInactive,
        }
    }
}

/// What an operation comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    Activate,
    Deactivate,
    Remove,
    /// Nothing is to be done, and that is fine.
    Stay(Code),
    Refuse(Refusal),
}

/// The table of operations on a release, see the top of this file.
pub fn transition(op: ReleaseOp, state: ReleaseState) -> Transition {
    use ReleaseOp::{Delete, Rollback, StopGray};
    use ReleaseState::{GrayActive, GrayInactive, Missing, NormalActive, NormalInactive};
    let refuse = |code: Code, why: &str| Transition::Refuse(Refusal::new(code, why));
    match (op, state) {
        (Rollback, NormalInactive) => Transition::Activate,
        (Rollback, NormalActive) => Transition::Stay(Code::NoNeedUpdate),
        (Rollback, GrayActive | GrayInactive) => refuse(Code::BadRequest, "a gray release cannot be rolled back to"),
        (StopGray, GrayActive) => Transition::Deactivate,
        (StopGray, GrayInactive) => Transition::Stay(Code::NoNeedUpdate),
        (StopGray, NormalActive | NormalInactive) => refuse(Code::BadRequest, "not a gray release"),
        (Rollback | StopGray, Missing) => refuse(Code::NotFoundResource, "no such release"),
        (Delete, NormalInactive | GrayInactive) => Transition::Remove,
        (Delete, Missing) => Transition::Stay(Code::ExecuteSuccess),
        (Delete, NormalActive) => {
            refuse(Code::BadRequest, "an active release cannot be deleted, publish or roll back first")
        }
        (Delete, GrayActive) => refuse(Code::BadRequest, "an active release cannot be deleted, stop it first"),
    }
}

/// The table of publishing, see the top of this file.
pub fn publishable(release_type: ReleaseType, labels: &[ClientLabel], is_gray_active: bool) -> Result<(), Refusal> {
    match release_type {
        ReleaseType::Normal if is_gray_active => {
            Err(Refusal::new(Code::DataConflict, "a gray release is active, stop it before publishing for all"))
        }
        ReleaseType::Gray if labels.is_empty() => {
            Err(Refusal::new(Code::InvalidMatchRule, "a gray release needs at least one client label"))
        }
        ReleaseType::Normal | ReleaseType::Gray => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rule::matching::{MatchType, ValueType};

    #[test]
    fn an_audience_is_made_ready_once_and_judges_as_its_conditions_do() {
        let label = |key: &str, kind: MatchType, value: &str| ClientLabel {
            key: key.into(),
            value: MatchString { kind, value: value.into(), value_type: ValueType::Text },
        };
        let labels = [label("zone", MatchType::Regex, "^eu-[0-9]+$"), label("os", MatchType::In, "linux,mac")];
        let audience = Audience::default();
        let rows = [
            (&[("zone", "eu-1"), ("os", "mac")][..], true),
            (&[("zone", "us-1"), ("os", "mac")], false),
            (&[("zone", "eu-1"), ("os", "other")], false),
            (&[("zone", "eu-1")], false),
            (&[], false),
        ];
        for (client, expected) in rows {
            let has = |key: &str| client.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
            assert_eq!(audience.has(&labels, has), expected, "{client:?}");
        }
        let ready = |audience: &Audience| audience.0.get().map(Arc::as_ptr);
        assert!(ready(&audience).is_some());
        assert_eq!(ready(&audience), ready(&audience.clone()), "a view of the catalog shares what is ready");
    }
}
