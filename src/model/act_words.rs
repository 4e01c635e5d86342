//! Words of acts: which fields of a draft say something of which act. Drafts of one type are for several acts, and a
//! field that says nothing of the one that is asked for is refused. Passed over, it would let its writer believe that
//! the act was narrowed, put off or held back by it.

use super::code::{Code, Refusal};
use super::config_file::{ConfigFileDraft, ConfigReleaseDraft};
use super::release::{ReleaseOp, ReleaseType};
use super::rule::RuleHead;
use super::rule::release::RuleReleaseDraft;

/// Purpose that a draft is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentFor {
    /// A draft of a rule or of a config file is kept.
    Save,
    /// A rule or a config file goes, with its releases.
    Deletion,
    /// A release is made,
    Publication,
    /// or something becomes of one.
    Change(ReleaseOp),
}

impl SentFor {
    /// Word of refusals.
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

    /// True if a field of this name says something of it. Those that name the thing are not asked for.
    pub fn takes(self, field: &str) -> bool {
        use ReleaseOp::{Promote, Rollout, Signal, Withdraw};
        use SentFor::{Change, Deletion, Publication, Save};
        match field {
            "betaLabels" | "client_labels" | "client_percent" | "plan" | "publish_at" | "md5" => self == Publication,
            "release_type" => matches!(self, Publication | Change(_)),
            "release_description" => matches!(self, Publication | Change(_)),
            // A rule may be deleted by sending it as it was read.
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
            // What a file is like.
            _ => self == Save,
        }
    }

    /// Refuses a draft with a field that says nothing of this.
    pub fn check(self, draft: &impl SaysOfActs) -> Result<(), Refusal> {
        match draft.said().into_iter().find(|field| !self.takes(field)) {
            Some(field) => {
                Err(Refusal::new(Code::InvalidParameter, format!("{field} says nothing of {}", self.word())))
            }
            None => Ok(()),
        }
    }
}

/// Refuses a word for the type of a release that an operation is not about.
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

/// Refuses a publication for all clients that says for which of them it is.
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

/// A draft with fields that are of some acts alone.
pub trait SaysOfActs {
    /// Those that are given, by the names of the specification. An empty text and an empty list are none.
    fn said(&self) -> Vec<&'static str>;
}

fn given<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| field).collect()
}

fn is_text(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

fn is_list<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

/// Fields that drafts of releases of both kinds have.
macro_rules! said_of_releases {
    ($draft:expr, $labels:literal: $of_labels:ident, $description:literal: $of_description:ident, $($more:expr),+) => {
        given([
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

impl SaysOfActs for ConfigReleaseDraft {
    fn said(&self) -> Vec<&'static str> {
        said_of_releases!(self, "betaLabels": beta_labels, "release_description": release_description,
            ("md5", is_text(&self.md5)),
            ("id", self.id.is_some_and(|id| id > 0)))
    }
}

impl SaysOfActs for RuleReleaseDraft {
    fn said(&self) -> Vec<&'static str> {
        said_of_releases!(self, "client_labels": client_labels, "description": description,
            ("revision", is_text(&self.revision)))
    }
}

impl SaysOfActs for ConfigFileDraft {
    fn said(&self) -> Vec<&'static str> {
        given([
            ("content", is_text(&self.content)),
            ("encrypted", self.encrypted.is_some()),
            ("encryptAlgo", is_text(&self.encrypt_algo)),
            ("template", is_text(&self.template)),
            ("format", is_text(&self.format)),
            ("comment", is_text(&self.comment)),
            ("tags", is_list(&self.tags)),
            ("revision", is_text(&self.revision)),
            ("request", is_text(&self.request)),
            ("request_set", is_text(&self.request_set)),
            ("hold", self.hold.is_some()),
            ("emergency", is_text(&self.emergency)),
        ])
    }
}

impl SaysOfActs for RuleHead {
    fn said(&self) -> Vec<&'static str> {
        given([
            ("enable", self.enable.is_some()),
            ("disable", self.disable.is_some()),
            ("description", is_text(&self.description)),
            ("priority", self.priority.is_some()),
            ("metadata", self.metadata.as_ref().is_some_and(|metadata| !metadata.is_empty())),
            ("revision", is_text(&self.revision)),
            ("request", is_text(&self.request)),
            ("request_set", is_text(&self.request_set)),
            ("hold", self.hold.is_some()),
            ("emergency", is_text(&self.emergency)),
        ])
    }
}
