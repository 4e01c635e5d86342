//! Fields that apply to an act. Drafts of one type serve several acts, and a field that does not apply to the requested
//! act is refused: if it were ignored, its sender would believe that it narrows, delays or holds the act.

use super::code::{Code, Refusal};
use super::release::{ReleaseOp, ReleaseType};

/// Act for which a draft is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentFor {
    /// Saving the draft of a rule or of a config file.
    Save,
    /// Deletion of a rule or of a config file with its releases.
    Deletion,
    /// Publication of a release.
    Publication,
    /// Operation on an existing release.
    Change(ReleaseOp),
}

impl SentFor {
    /// Returns the name of the act in refusals.
    fn word(self) -> &'static str {
        match self {
            SentFor::Save => "a draft that is saved",
            SentFor::Deletion => "a deletion",
            SentFor::Publication => "a publication",
            SentFor::Change(ReleaseOp::Rollback) => "a rollback",
            SentFor::Change(ReleaseOp::StopGray) => "the stop of a gray release",
            SentFor::Change(ReleaseOp::Delete) => "the deletion of a release",
            SentFor::Change(ReleaseOp::Promote) => "a promotion",
            SentFor::Change(ReleaseOp::Withdraw) => "a withdrawal",
            SentFor::Change(ReleaseOp::Rollout) => "a step of a rollout",
            SentFor::Change(ReleaseOp::Signal) => "a signal",
        }
    }

    /// Reports whether a field applies to the act. Fields that identify the object are not checked.
    pub fn takes(self, field: &str) -> bool {
        use ReleaseOp::{Promote, Rollout, Signal, Withdraw};
        use SentFor::{Change, Deletion, Publication, Save};
        match field {
            "betaLabels" | "client_labels" | "client_percent" | "plan" | "publish_at" | "md5" => self == Publication,
            "release_type" => matches!(self, Publication | Change(_)),
            "release_description" => matches!(self, Publication | Change(_)),
            // The whole rule may be sent back to delete it.
            "description" => true,
            "enable" | "disable" | "priority" | "metadata" => matches!(self, Save | Deletion),
            "new_release_name" => self == Change(Promote),
            "to_previous" => self == Change(Withdraw),
            "action" => self == Change(Rollout),
            "ok" | "reason" => self == Change(Signal),
            "comment" => matches!(self, Save | Change(Rollout)),
            "revision" => matches!(self, Save | Deletion | Publication),
            "id" => matches!(self, Change(_)),
            "request" | "request_set" | "hold" | "emergency" => self != Save,
            // Properties of a file.
            _ => self == Save,
        }
    }

    /// Refuses a draft with a field that does not apply to the act.
    pub fn check(self, draft: &impl SaysOfActs) -> Result<(), Refusal> {
        match draft.said().into_iter().find(|field| !self.takes(field)) {
            Some(field) => {
                Err(Refusal::new(Code::InvalidParameter, format!("{field} says nothing of {}", self.word())))
            }
            None => Ok(()),
        }
    }
}

/// Refuses a `release_type` that contradicts the operation.
pub fn check_type(op: ReleaseOp, word: Option<&str>) -> Result<(), Refusal> {
    let Some(word) = word.filter(|word| !word.is_empty()) else { return Ok(()) };
    let given = ReleaseType::read(Some(word))?;
    let (expected, what) = match op {
        ReleaseOp::Delete => return Ok(()),
        ReleaseOp::Promote => (ReleaseType::Normal, "what it makes is normal"),
        ReleaseOp::Rollback | ReleaseOp::Withdraw => (ReleaseType::Normal, "it is about normal ones"),
        ReleaseOp::StopGray | ReleaseOp::Rollout | ReleaseOp::Signal => (ReleaseType::Gray, "it is about gray ones"),
    };
    if given == expected {
        return Ok(());
    }
    let why = format!("release_type {word:?} says nothing of {}: {what}", SentFor::Change(op).word());
    Err(Refusal::new(Code::InvalidParameter, why))
}

/// Refuses a publication for all clients with fields that select clients.
pub fn check_narrowed(release_type: ReleaseType, draft: &impl SaysOfActs) -> Result<(), Refusal> {
    const NARROWS: [&str; 4] = ["betaLabels", "client_labels", "client_percent", "plan"];
    let narrows = draft.said().into_iter().find(|field| NARROWS.contains(field));
    match narrows.filter(|_| release_type == ReleaseType::Normal) {
        Some(field) => {
            let why = format!("{field}: only a gray release is for some of the clients, give release_type gray");
            Err(Refusal::new(Code::InvalidParameter, why))
        }
        None => Ok(()),
    }
}

/// A draft whose fields apply to some acts only.
pub trait SaysOfActs {
    /// Returns the fields that are given, by their names in the specification. Empty texts and lists count as absent.
    fn said(&self) -> Vec<&'static str>;
}

/// Returns the names of the fields that are given.
pub(crate) fn given_fields<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| field).collect()
}

/// Reports whether a text is given and not empty.
pub(crate) fn is_text(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

/// Reports whether a list is given and not empty.
pub(crate) fn is_list<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// Lists the fields that drafts of rule and file releases share.
macro_rules! said_of_releases {
    ($draft:expr, $labels:literal: $of_labels:ident, $description:literal: $of_description:ident, $($more:expr),+) => {
        given_fields([
            ("release_type", is_text(&$draft.release_type)),
            ($labels, is_list(&$draft.$of_labels)),
            ("client_percent", $draft.client_percent.is_some()),
            ("plan", $draft.plan.is_some()),
            ("publish_at", $draft.publish_at.is_some()),
            ($description, is_text(&$draft.$of_description)),
            ("new_release_name", is_text(&$draft.new_release_name)),
            ("to_previous", $draft.to_previous.is_some()),
            ("action", $draft.action.is_some()),
            ("ok", $draft.ok.is_some()),
            ("reason", is_text(&$draft.reason)),
            ("comment", is_text(&$draft.comment)),
            ("request", is_text(&$draft.request)),
            ("request_set", is_text(&$draft.request_set)),
            ("hold", $draft.hold.is_some()),
            ("emergency", is_text(&$draft.emergency)),
            $($more),+
        ])
    };
}

pub(crate) use said_of_releases;
