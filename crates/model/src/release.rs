//! Releases: common parts of those of rules and of config files.
//!
//! A release is an immutable copy of a published object. One table defines the operations on it, the same for every
//! kind of object:
//!
//! | operation | missing | normal active | normal inactive | gray active | gray inactive | scheduled | failed |
//! |---|---|---|---|---|---|---|---|
//! | rollback | 400202 | 200002 | activate | 400000 | 400000 | 400000 | 400000 |
//! | stopbeta | 400202 | 400000 | 400000 | deactivate | 200002 | 400000 | 400000 |
//! | promote | 400202 | 400000 | 400000 | promote | 400000 | 400000 | 400000 |
//! | withdraw | 400202 | withdraw | 200002 | 400000 | 400000 | 400000 | 400000 |
//! | rollout, signal | 400202 | 400000 | 400000 | see [`rollout`](super::rollout) | 400000 | 400000 | 400000 |
//! | delete | 200000 | 400000 | remove | 400000 | remove | remove | remove |
//!
//! | publish | no gray active | gray active |
//! |---|---|---|
//! | normal | activate | 409000 |
//! | gray, with labels or a share | activate | activate |
//! | gray, with neither | 400904 | 400904 |
//!
//! Activating a normal release deactivates the previous one; several gray releases with different names may be active
//! at the same time. Every activation takes a new version: the highest one ever given plus 1, in one count over normal
//! and gray releases. An object has at most [`limits::ACTIVE_GRAYS_MAX`](super::limits::ACTIVE_GRAYS_MAX) active gray
//! releases; one more is refused with 507002.
//!
//! Promote converts a gray release, in one step, into a normal one of the same content with a name of its own, so that
//! its clients never fall back. Withdraw leaves clients with nothing, or with the normal release that was in force
//! before. A scheduled release is a copy of the object at the time of the request. It takes a new version when it is
//! published; if it is refused then, it has failed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::code::{Code, Refusal};
use super::is_false;
use super::sso::SsoAuthor;
use super::time::Timestamp;
use super::wire::wire_enum;

wire_enum! {
    /// Type of a release: for all clients, or for selected ones.
    pub enum ReleaseType {
        Normal = "normal",
        Gray = "gray",
    }
}

impl ReleaseType {
    /// Parses a type; an absent one means normal.
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

/// Schedule of a release whose publication is pending or failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Time at which the release is published.
    pub at: Timestamp,
    /// Reason why the publication failed; empty while it is scheduled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failed: String,
    /// True if it was approved as the policies required when it was planned, or planned in an emergency.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub approved: bool,
    /// Claims of an author of an identity provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Arc<SsoAuthor>>,
}

impl Plan {
    pub fn state(&self) -> ReleaseState {
        if self.failed.is_empty() { ReleaseState::Scheduled } else { ReleaseState::Failed }
    }
}

/// Time in a request: RFC 3339, or `YYYY-MM-DD HH:MM:SS` in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenTime(pub Timestamp);

/// Serialized in log entries as a number of milliseconds.
impl Serialize for GivenTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GivenTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = GivenTime;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time as 2026-11-20T08:30:35Z or 2026-11-20 08:30:35 (UTC)")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<GivenTime, E> {
                let time = Timestamp::parse(text).map(GivenTime);
                time.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_u64<E: de::Error>(self, ms: u64) -> Result<GivenTime, E> {
                Ok(GivenTime(Timestamp(ms)))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for GivenTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["2026-11-20T08:30:35Z", "2026-11-20 08:30:35"] })
    }
}

wire_enum! {
    /// Change of a release in its history.
    pub enum Action {
        Publish = "publish",
        Gray = "gray",
        Promote = "promote",
        Rollback = "rollback",
        Stop = "stop",
        Withdraw = "withdraw",
        Schedule = "schedule",
        Failed = "failed",
        Delete = "delete",
        /// The share of a gray release grew.
        RolloutStep = "rollout_step",
        RolloutPaused = "rollout_paused",
        RolloutResumed = "rollout_resumed",
        /// The rollout was stopped, and its clients fell back.
        RolloutStopped = "rollout_stopped",
    }
}

/// One row of the history of a rule or of a config file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub time: Timestamp,
    pub user: String,
    pub action: Action,
    pub release_name: String,
    /// Version of the release after the change.
    pub version: u64,
    /// Version in force for all clients before the change; 0 for none.
    pub from_version: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// Operation on an existing release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseOp {
    Rollback,
    StopGray,
    Delete,
    Promote,
    Withdraw,
    /// Pauses, resumes, advances or stops a rollout.
    Rollout,
    /// Reports a signal to a rollout.
    Signal,
}

impl ReleaseOp {
    /// Returns its name in the hashed rows of the audit trail, which is fixed within a level (`catalog::tests::words`).
    pub fn word(self) -> &'static str {
        match self {
            ReleaseOp::Rollback => "rollback",
            ReleaseOp::StopGray => "stopbeta",
            ReleaseOp::Delete => "delete_release",
            ReleaseOp::Promote => "promote",
            ReleaseOp::Withdraw => "withdraw",
            ReleaseOp::Rollout => "rollout",
            ReleaseOp::Signal => "signal",
        }
    }

    /// Reports whether the operation may let the state grow. A rollout may promote, but the same operation stops it.
    pub fn adds(self) -> bool {
        self == ReleaseOp::Promote
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    Missing,
    NormalActive,
    NormalInactive,
    GrayActive,
    GrayInactive,
    /// Waits for its time of publication.
    Scheduled,
    /// Was not published when its time had come.
    Failed,
}

impl ReleaseState {
    pub fn of(release_type: ReleaseType, active: bool, plan: Option<&Plan>) -> Self {
        if let Some(plan) = plan {
            return plan.state();
        }
        match (release_type, active) {
            (ReleaseType::Normal, true) => ReleaseState::NormalActive,
            (ReleaseType::Normal, false) => ReleaseState::NormalInactive,
            (ReleaseType::Gray, true) => ReleaseState::GrayActive,
            (ReleaseType::Gray, false) => ReleaseState::GrayInactive,
        }
    }

    /// Reports whether clients see the release, or will see it without a further operation.
    pub fn is_in_force_or_planned(self) -> bool {
        matches!(self, ReleaseState::NormalActive | ReleaseState::GrayActive | ReleaseState::Scheduled)
    }
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    Activate,
    Deactivate,
    Remove,
    /// Makes a normal release of it.
    Promote,
    /// Leaves clients with no release, or with the previous one.
    Withdraw,
    /// Continues, pauses or ends its rollout.
    Roll,
    /// Nothing to do; the operation succeeds.
    Stay(Code),
    Refuse(Refusal),
}

/// Returns the outcome of an operation, by the table at the top of this file.
pub fn transition(op: ReleaseOp, state: ReleaseState) -> Transition {
    use ReleaseOp::{Delete, Promote, Rollback, Rollout, Signal, StopGray, Withdraw};
    use ReleaseState::{Failed, GrayActive, GrayInactive, Missing, NormalActive, NormalInactive, Scheduled};
    let bad = |why: &str| Transition::Refuse(Refusal::new(Code::BadRequest, why));
    match (op, state) {
        (Delete, Missing) => Transition::Stay(Code::ExecuteSuccess),
        (_, Missing) => Transition::Refuse(Refusal::new(Code::NotFoundResource, "no such release")),
        (Delete, NormalInactive | GrayInactive | Scheduled | Failed) => Transition::Remove,
        (_, Scheduled) => bad("it is to be published later, and can only be deleted until then"),
        (_, Failed) => bad("it was never published: publish anew, or delete it"),
        (Rollback, NormalInactive) => Transition::Activate,
        (Rollback, NormalActive) => Transition::Stay(Code::NoNeedUpdate),
        (Rollback, GrayActive | GrayInactive) => bad("a gray release cannot be rolled back to"),
        (StopGray, GrayActive) => Transition::Deactivate,
        (StopGray, GrayInactive) => Transition::Stay(Code::NoNeedUpdate),
        (StopGray, NormalActive | NormalInactive) => bad("not a gray release"),
        (Promote, GrayActive) => Transition::Promote,
        (Promote, GrayInactive) => bad("the gray release is not active, publish it anew"),
        (Promote, NormalActive | NormalInactive) => bad("not a gray release"),
        (Rollout | Signal, GrayActive) => Transition::Roll,
        (Rollout | Signal, GrayInactive) => bad("its rollout has ended"),
        (Rollout | Signal, NormalActive | NormalInactive) => bad("not a gray release"),
        (Withdraw, NormalActive) => Transition::Withdraw,
        (Withdraw, NormalInactive) => Transition::Stay(Code::NoNeedUpdate),
        (Withdraw, GrayActive | GrayInactive) => bad("a gray release is not withdrawn, stop it"),
        (Delete, NormalActive) => bad("an active release cannot be deleted, publish, roll back or withdraw first"),
        (Delete, GrayActive) => bad("an active release cannot be deleted, stop it first"),
    }
}

/// Checks a publication by the table at the top of this file. The refusal of a scheduled release is stored and hashed,
/// so its wording is fixed within a level (`catalog::tests::words`).
pub fn publishable(release_type: ReleaseType, is_for_everybody: bool, is_gray_active: bool) -> Result<(), Refusal> {
    match release_type {
        ReleaseType::Normal if is_gray_active => {
            let why = "a gray release is active: promote it, or stop it, before publishing for all";
            Err(Refusal::new(Code::DataConflict, why))
        }
        ReleaseType::Gray if is_for_everybody => {
            Err(Refusal::new(Code::InvalidMatchRule, "a gray release needs a client label or client_percent"))
        }
        ReleaseType::Normal | ReleaseType::Gray => Ok(()),
    }
}

/// Versions for which an act on a release was checked before it was proposed. If one of them has changed at apply, the
/// act is not performed, and is checked again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pin {
    /// Revision of the published rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Version of the promoted release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Version of the normal release in force; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_force: Option<u64>,
    /// True if the proposer retries.
    #[serde(skip_serializing_if = "is_false")]
    pub comes_again: bool,
}

impl Pin {
    pub fn is_of(&self, now: &Pin) -> bool {
        (self.revision.is_none() || self.revision == now.revision)
            && (self.version.is_none() || self.version == now.version)
            && (self.in_force.is_none() || self.in_force == now.in_force)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_text_and_kept_as_a_number() {
        let read = |json: &str| serde_json::from_str::<GivenTime>(json);
        let time = read("\"2026-11-20T09:30:35+01:00\"").expect("RFC 3339");
        assert_eq!(time, read("\"2026-11-20 08:30:35\"").expect("as answers have it"));
        assert_eq!(read(&serde_json::to_string(&time).expect("JSON")).expect("as kept"), time);
        assert!(read("\"tomorrow\"").expect_err("no time").to_string().contains("2026-11-20T08:30:35Z"));
    }
}
