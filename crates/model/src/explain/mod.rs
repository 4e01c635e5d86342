//! Explanation of the rules that apply to a request, with the result of every condition.
//!
//! [`explain`] is a pure function of rules and the sketch of a request. Where the specification leaves a case open, it
//! decides like clients of the Polaris family, and where those differ (whether `*` matches an absent value), like the
//! stricter of them. Decisions of one family are described at its [`Explained`]; common ones are:
//!
//! | question | answer |
//! |---|---|
//! | order of rules | priority, 0 first; then by id: as clients get them |
//! | order of sub-rules | that of their list |
//! | disabled | evaluated and shown, but never applies |
//! | value absent in the request | meets no condition, not even `*`, NOT_EQUALS or NOT_IN |
//! | condition without value, or with an empty one for EXACT | any value that is present |
//! | CALLER_SERVICE | key is the namespace, `*` or nothing for any; the service is compared |
//! | METHOD of a service whose instances speak gRPC | an HTTP verb: POST matches; otherwise the end of the path |
//! | no conditions | all requests |
//! | `random_percent` | share of the requests left by earlier sub-rules; the rest continues to the next one |
//! | API | protocol ignores case; `*` or nothing for all; an absent path matches only `*` |
//! | gray releases that the client does not see | listed separately, with the evaluation of their audience only |

mod finding;
mod grays;
mod groups;
mod share;
mod sketch;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::diff::{self, Changed};
use super::mesh::carried::CarriedOutBy;
use super::release::ReleaseType;
use super::rule::release::RuleRelease;
use super::rule::routing::RoutePolicy;
use super::rule::{Family, Rule, SubRuleEffect};

pub use finding::{ApiFinding, Finding};
pub(super) use finding::{is_met, objection};
pub use grays::{Gray, GrayState, LabelFinding, Rollout, ShareFinding};
pub(super) use groups::groups;
pub use groups::{Group, GroupState, Label};
pub use groups::{Weights, is_parameter, rank};
pub use share::Share;
pub use sketch::Sketch;
pub(super) use sketch::named;

/// Explanation of the rules of one family.
pub trait Explained {
    /// Reports whether a rule with this body concerns calls of the called service.
    fn is_about(&self, rule: &Rule, sketch: &Sketch) -> bool {
        sketch.calls_any(rule.ends())
    }

    /// Evaluates the sub-rules of a rule with this body in order. Requests that they take are not available to later
    /// rules.
    fn parts<'a>(&'a self, rule: &'a Rule, sketch: &'a Sketch, taken: &mut Taken) -> Vec<Part<'a>>;

    /// Returns the policy of a routing rule.
    fn route_policy(&self) -> Option<RoutePolicy> {
        None
    }

    /// Returns a sentence about a request to which these sub-rules apply.
    fn summary(applies: &[Applied<'_>], taken: &Taken) -> String
    where
        Self: Sized;
}

/// A rule that may apply, as saved or as released.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub rule: Arc<Rule>,
    pub release: Option<ReleaseBrief>,
}

/// Release that contains a rule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReleaseBrief {
    pub id: String,
    pub release_name: String,
    pub release_type: ReleaseType,
    pub version: u64,
}

impl ReleaseBrief {
    fn of(release: &RuleRelease) -> Self {
        ReleaseBrief {
            id: release.id.clone(),
            release_name: release.name.clone(),
            release_type: release.release_type,
            version: release.version,
        }
    }
}

impl Candidate {
    pub fn saved(rule: Arc<Rule>) -> Self {
        Candidate { rule, release: None }
    }

    pub fn released(release: &RuleRelease) -> Self {
        Candidate { rule: release.rule.clone(), release: Some(ReleaseBrief::of(release)) }
    }
}

/// Result of a rule or sub-rule, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Disabled,
    NotMatched,
    /// Matches, but has no effect to apply.
    Empty,
    /// Matches, but earlier ones have taken all requests.
    Shadowed,
    Applies,
}

impl Verdict {
    pub(super) fn of(is_on: bool, matched: bool, has_effect: bool) -> Self {
        match (is_on, matched, has_effect) {
            (false, _, _) => Verdict::Disabled,
            (true, false, _) => Verdict::NotMatched,
            (true, true, false) => Verdict::Empty,
            (true, true, true) => Verdict::Applies,
        }
    }
}

/// Rules that affect a request, with the reasons.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explanation<'a> {
    pub kind: &'static str,
    /// Called service, by its own name if the sketch named an alias.
    pub service: &'a str,
    pub namespace: &'a str,
    /// True if saved rules were evaluated instead of released ones.
    pub draft: bool,
    pub info: String,
    /// Sentences on what happens to the request: one for each sub-rule that applies, or one with the reasons why none
    /// does.
    pub effect: Vec<String>,
    /// Warnings that do not depend on rules, each as `W1: …`: instances that xDS clients do not reach, a domain that
    /// belongs to another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Sub-rules that apply, in order.
    pub applies: Vec<Applied<'a>>,
    /// Rules of the service, in order.
    pub candidates: Vec<Judged<'a>>,
    /// Active gray releases of rules of the service, even if the client does not see them; empty with `draft`.
    pub grays: Vec<Gray<'a>>,
    /// Differences in `applies` if the saved rules are evaluated, by JSON Pointer; present with `diff`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Changed>>,
}

impl<'a> Explanation<'a> {
    /// Adds the gray releases for clients of the service.
    pub fn with_grays(self, sketch: &'a Sketch, rollouts: &'a [Rollout]) -> Self {
        Explanation { grays: grays::judge(sketch, rollouts), ..self }
    }

    /// Adds the differences from the explanation `other`.
    pub fn beside(self, other: &Explanation<'_>) -> Self {
        let applies = |explanation: &Explanation<'_>| serde_json::to_value(&explanation.applies).unwrap_or_default();
        let changes = Some(diff::of_values(&applies(&self), &applies(other)));
        Explanation { changes, ..self }
    }
}

/// Reference to a sub-rule that applies.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Applied<'a> {
    pub rule_id: &'a str,
    pub rule_name: &'a str,
    pub index: usize,
    pub name: &'a str,
    pub share: Share,
}

/// A rule with its result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Judged<'a> {
    pub rule_id: &'a str,
    pub rule_name: &'a str,
    pub namespace: &'a str,
    pub priority: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_policy: Option<RoutePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<&'a ReleaseBrief>,
    /// Highest result among its sub-rules.
    pub verdict: Verdict,
    pub info: String,
    pub rules: Vec<Part<'a>>,
    /// Kinds of xDS clients that carry the rule out.
    pub carried_out_by: CarriedOutBy,
    /// The same in one line, with the reasons: `Envoy sidecar yes; gRPC no (W16: …)`.
    pub enforced_by: String,
    #[serde(skip)]
    pub rule: &'a Rule,
}

/// A sub-rule with its result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Part<'a> {
    /// Position in the rule, from 0.
    pub index: usize,
    pub name: &'a str,
    pub verdict: Verdict,
    /// Share of the requests like this one to which it applies.
    pub share: Share,
    pub info: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apis: Vec<ApiFinding<'a>>,
    pub arguments: Vec<Finding<'a>>,
    #[serde(flatten)]
    pub effect: SubRuleEffect<'a>,
}

/// Shares of the requests that earlier rules have taken, by the name of what exists once per request: a routing policy,
/// a level of circuit breakers.
#[derive(Debug, Default)]
pub struct Taken(BTreeMap<&'static str, Share>);

impl Taken {
    /// Returns the share that later rules may still take.
    pub(super) fn left(&self, word: &'static str) -> Share {
        self.0.get(word).copied().unwrap_or(Share::ALL)
    }

    /// Takes `wanted` of the rest, and returns the resulting share of all requests.
    pub(super) fn take(&mut self, word: &'static str, wanted: Share) -> Share {
        let left = self.left(word);
        let share = wanted.within(left);
        self.0.insert(word, left.without(share));
        share
    }
}

/// Evaluates `candidates`, all of one family, on the request. Rules that do not concern the called service are omitted.
pub fn explain<'a>(family: Family, sketch: &'a Sketch, candidates: &'a [Candidate]) -> Explanation<'a> {
    let mut ordered: Vec<&Candidate> = candidates.iter().collect();
    ordered.sort_by_key(|candidate| (candidate.rule.priority, &candidate.rule.id));
    let mut taken = Taken::default();
    let candidates: Vec<Judged> =
        ordered.into_iter().filter_map(|candidate| judge(candidate, sketch, &mut taken)).collect();
    let applies: Vec<Applied> = candidates.iter().flat_map(applied).collect();
    let info = family.summary(&applies, &taken);
    Explanation {
        kind: family.word(),
        service: &sketch.service,
        namespace: &sketch.namespace,
        draft: sketch.draft,
        info,
        effect: Vec::new(),
        warnings: Vec::new(),
        applies,
        candidates,
        grays: Vec::new(),
        changes: None,
    }
}

/// Evaluates a rule; `None` if it does not concern the called service.
fn judge<'a>(candidate: &'a Candidate, sketch: &'a Sketch, taken: &mut Taken) -> Option<Judged<'a>> {
    let rule = &*candidate.rule;
    if !is_about(rule, sketch) {
        return None;
    }
    let body = rule.body.shape();
    let rules = body.parts(rule, sketch, taken);
    let furthest = rules.iter().max_by_key(|part| (part.verdict, Reverse(part.index)));
    let (verdict, info) = match furthest {
        Some(part) => (part.verdict, format!("sub-rule {}: {}", part.index + 1, part.info)),
        None => (Verdict::of(rule.enable, true, false), "has no sub-rules".into()),
    };
    Some(Judged {
        rule_id: &rule.id,
        rule_name: &rule.name,
        namespace: &rule.namespace,
        priority: rule.priority,
        route_policy: body.route_policy(),
        release: candidate.release.as_ref(),
        verdict,
        info,
        rules,
        carried_out_by: CarriedOutBy::of(rule),
        enforced_by: String::new(),
        rule,
    })
}

/// Reports whether a rule concerns calls of the called service.
fn is_about(rule: &Rule, sketch: &Sketch) -> bool {
    rule.body.shape().is_about(rule, sketch)
}

fn applied<'a>(judged: &Judged<'a>) -> Vec<Applied<'a>> {
    let (rule_id, rule_name) = (judged.rule_id, judged.rule_name);
    let applying = judged.rules.iter().filter(|part| part.verdict == Verdict::Applies);
    applying.map(|part| Applied { rule_id, rule_name, index: part.index, name: part.name, share: part.share }).collect()
}

/// Returns the reason why a sub-rule is disabled or does not match, for any family; `None` for other results.
/// `objection` is the reason of a mismatch.
pub(super) fn refusal(verdict: Verdict, objection: Option<String>) -> Option<String> {
    match verdict {
        Verdict::Disabled => Some("switched off".into()),
        Verdict::NotMatched => Some(objection.unwrap_or_default()),
        Verdict::Empty | Verdict::Shadowed | Verdict::Applies => None,
    }
}
