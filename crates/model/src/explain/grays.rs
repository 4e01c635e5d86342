//! Gray releases in an explanation: the audience of each, and whether the client of the sketch belongs to it.
//!
//! They are listed even if the client does not see them, so that a caller who gives no labels learns that other clients
//! see another release.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::sketch::Sketch;
use super::{ReleaseBrief, is_about};
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::config_lookup::CLIENT_ADDRESS_LABEL;
use crate::model::rule::matching::MatchString;
use crate::model::rule::release::RuleRelease;
use crate::model::wire::Uint32;

/// Releases of a rule that clients see, if not all clients see the same one.
#[derive(Clone, Debug)]
pub struct Rollout {
    /// Gray releases, newest first.
    pub grays: Vec<Arc<RuleRelease>>,
    pub normal: Option<Arc<RuleRelease>>,
}

/// State of an active gray release for the client of the sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrayState {
    /// The client belongs to the audience, and sees the release.
    InForce,
    /// The client belongs to the audience, and sees a newer gray release of the rule.
    Shadowed,
    NotMatched,
}

/// An active gray release with its audience.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "GrayRelease")]
pub struct Gray<'a> {
    pub rule_id: &'a str,
    pub rule_name: &'a str,
    pub namespace: &'a str,
    pub release: ReleaseBrief,
    pub state: GrayState,
    pub info: String,
    /// Conditions on client labels, all of which must match.
    pub client_labels: Vec<LabelFinding<'a>>,
    /// Share of the clients; all of them if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_percent: Option<ShareFinding<'a>>,
}

/// Result of a condition on a client label.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LabelFinding<'a> {
    pub key: &'a str,
    pub condition: &'a MatchString,
    /// The client's value of the label.
    pub value: Option<&'a str>,
    pub matched: bool,
    pub info: String,
}

/// A share of the clients, and whether this client is in it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShareFinding<'a> {
    pub by: &'a str,
    pub percent: Uint32,
    /// The client's value of the label.
    pub value: Option<&'a str>,
    /// Number of this value, from 0 to 99; the client is in the share if it is below `percent`.
    pub number: Option<u64>,
    pub matched: bool,
    pub info: String,
}

impl Gray<'_> {
    /// Returns all conditions of the audience, with their results and reasons.
    pub fn findings(&self) -> impl Iterator<Item = (bool, &str)> {
        let labels = self.client_labels.iter().map(|finding| (finding.matched, finding.info.as_str()));
        labels.chain(self.client_percent.iter().map(|finding| (finding.matched, finding.info.as_str())))
    }
}

/// Returns the gray releases of rules that concern the called service in any release.
pub(super) fn judge<'a>(sketch: &'a Sketch, rollouts: &'a [Rollout]) -> Vec<Gray<'a>> {
    rollouts.iter().flat_map(|rollout| of_rule(sketch, rollout)).collect()
}

fn of_rule<'a>(sketch: &'a Sketch, rollout: &'a Rollout) -> Vec<Gray<'a>> {
    let mut releases = rollout.grays.iter().chain(&rollout.normal);
    if !releases.any(|release| is_about(&release.rule, sketch)) {
        return Vec::new();
    }
    let mut seen: Option<&RuleRelease> = None;
    let grays = rollout.grays.iter().map(|release| {
        let gray = judged(sketch, release, seen);
        if gray.state == GrayState::InForce {
            seen = Some(release);
        }
        gray
    });
    grays.collect()
}

/// Evaluates one gray release; `seen` is the newer one that the client sees.
fn judged<'a>(sketch: &'a Sketch, release: &'a RuleRelease, seen: Option<&RuleRelease>) -> Gray<'a> {
    let client_labels: Vec<_> = release.client_labels.iter().map(|label| of_label(label, sketch)).collect();
    let client_percent = release.client_percent.as_ref().map(|share| of_share(share, sketch));
    let mut gray = Gray {
        rule_id: &release.rule.id,
        rule_name: &release.rule.name,
        namespace: &release.rule.namespace,
        release: ReleaseBrief::of(release),
        state: GrayState::NotMatched,
        info: String::new(),
        client_labels,
        client_percent,
    };
    let objection = gray.findings().find(|(matched, _)| !matched).map(|(_, info)| info.to_owned());
    (gray.state, gray.info) = match (objection, seen) {
        (Some(objection), _) => (GrayState::NotMatched, objection),
        (None, Some(newer)) => {
            (GrayState::Shadowed, format!("the client sees {} v{}, which is newer", newer.name, newer.version))
        }
        (None, None) if is_about(&release.rule, sketch) => (GrayState::InForce, "the client sees it".to_owned()),
        (None, None) => (GrayState::InForce, "the client sees it, and it is about other services".to_owned()),
    };
    gray
}

fn of_label<'a>(label: &'a ClientLabel, sketch: &'a Sketch) -> LabelFinding<'a> {
    let key = label.key.as_str();
    let condition = &label.value;
    let value = sketch.client_label(&label.key);
    let matched = value.is_some_and(|value| condition.matches(value));
    let info = match value {
        None => lacking(key),
        Some(value) => {
            let verdict = if matched { "meets" } else { "does not meet" };
            format!("client label {key} is {value}: {verdict} {}", condition.summary())
        }
    };
    LabelFinding { key, condition, value, matched, info }
}

fn of_share<'a>(share: &'a ClientPercent, sketch: &'a Sketch) -> ShareFinding<'a> {
    let by = share.by.as_str();
    let percent = share.percent;
    let value = sketch.client_label(&share.by);
    let number = value.map(ClientPercent::number);
    let matched = value.is_some_and(|value| share.has(value));
    let info = match (value, number) {
        (Some(value), Some(number)) => {
            let verdict = if matched { "is in" } else { "is not in" };
            format!("client label {by} is {value}, number {number} of 100: {verdict} the first {}", percent.0)
        }
        _ => lacking(by),
    };
    ShareFinding { by, percent, value, number, matched, info }
}

/// Returns the reason for a missing label. Clients have the label of their address without sending it, but a sketch
/// does not.
fn lacking(key: &str) -> String {
    match key {
        CLIENT_ADDRESS_LABEL => format!("the address of the client is not given, as client label {key}"),
        _ => format!("the client has no label {key}"),
    }
}
