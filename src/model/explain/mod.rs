//! "Which rule would apply to this request?": the answer, with the verdict of every condition.
//!
//! [`explain`] is a pure function of rules and the sketch of a request. Where the specification leaves
//! it open, it decides as clients of the Polaris family do, and where those differ among themselves
//! (whether `*` is met by nothing), as the stricter of them:
//!
//! | question | answer |
//! |---|---|
//! | order of rules | priority, 0 first; then by id: as clients get them |
//! | order of sub-rules | that of their list |
//! | several that match | routing: the first takes the request. Rate limits: each counts it. Fault detection: each probes. Circuit breakers: the first of each level watches it |
//! | switched off | judged and shown, but never applies |
//! | value not carried | meets no condition, not `*`, NOT_EQUALS or NOT_IN either |
//! | condition without value, or with an empty one for EXACT | any value that is there |
//! | CALLER_SERVICE | key is the namespace, `*` or nothing for any; the service is compared |
//! | no conditions | all requests |
//! | `random_percent` | of what earlier sub-rules have left; the rest goes on to the next |
//! | route without a group that takes traffic | passed over, the search goes on |
//! | policies of routing | each decides on its own; clients narrow the instances by one after another |
//! | destination of another service | takes traffic only if the rule's `callee` is the service that is called |
//! | destination priority | the lowest number that takes traffic is used; none comes last; the others stand by |
//! | destination weight | unset is 0 beside set ones of the same priority, equal where none is set; 0 takes nothing |
//! | destination label PARAMETER | takes the value of the PARAMETER condition that it names: by that one's value, its key, or as `$header.key`; a group for a value that is not carried finds no instance |
//! | API of a quota | protocol without regard to case; `*` or nothing for all; a path that is not carried meets `*` alone |
//! | key of a counter | a value of its own for each value that a condition lets through, unless `regex_combine` |
//! | caller of a circuit breaker | `*` or nothing for every one |
//! | API of a circuit breaker | asked for on the level METHOD alone, as that of a quota; the old `method` is compared with the path, without one with the method |
//! | several circuit breakers of a level | the first that matches watches the request, with each of its block configs that match |
//! | circuit breaker without a level | for nothing; clients pass it over |
//! | API of a fault detection | not asked for a request without method and path: that is about the service as a whole |
//! | gray releases that the client does not see | told beside the rest, and judged for whom they are alone |

mod circuit_breaker;
mod fault_detect;
mod finding;
mod grays;
mod groups;
mod rate_limit;
mod routing;
mod share;
mod sketch;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::diff::{self, Changed};
use super::release::ReleaseType;
use super::rule::fault_detect::FaultDetectSubRule;
use super::rule::release::RuleRelease;
use super::rule::routing::RoutePolicy;
use super::rule::{Body, Family, Rule};

pub use circuit_breaker::Breaker;
pub use finding::{ApiFinding, Finding};
pub use grays::{Gray, GrayState, LabelFinding, Rollout, ShareFinding};
pub use groups::{Group, GroupState, Label};
pub use rate_limit::Quota;
pub use routing::{Labels, Nearness, Route};
pub use share::Share;
pub use sketch::Sketch;

/// A rule that may apply, as it is saved or as it is released.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub rule: Arc<Rule>,
    pub release: Option<ReleaseBrief>,
}

/// Which release a rule was taken from.
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

/// What becomes of a rule or sub-rule, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Disabled,
    NotMatched,
    /// It matches, but holds nothing that could apply.
    Empty,
    /// It matches, but those before it have taken all requests.
    Shadowed,
    Applies,
}

impl Verdict {
    fn of(is_on: bool, matched: bool, has_effect: bool) -> Self {
        match (is_on, matched, has_effect) {
            (false, _, _) => Verdict::Disabled,
            (true, false, _) => Verdict::NotMatched,
            (true, true, false) => Verdict::Empty,
            (true, true, true) => Verdict::Applies,
        }
    }
}

/// What happens to a request, and why.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Explanation<'a> {
    pub kind: &'static str,
    /// The service that is called, by its own name if the sketch had an alias.
    pub service: &'a str,
    pub namespace: &'a str,
    /// Saved rules were judged, not released ones.
    pub draft: bool,
    pub info: String,
    /// The sub-rules that apply, in order.
    pub applies: Vec<Applied<'a>>,
    /// The rules of the service, in order.
    pub candidates: Vec<Judged<'a>>,
    /// The active gray releases of rules of the service, those that the client does not see too; none with `draft`.
    pub grays: Vec<Gray<'a>>,
    /// With `diff`: how `applies` differs where the rules are judged as they are saved, by JSON Pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Changed>>,
}

impl<'a> Explanation<'a> {
    /// The same, with the gray releases that there are for clients of the service.
    pub fn with_grays(self, sketch: &'a Sketch, rollouts: &'a [Rollout]) -> Self {
        Explanation { grays: grays::judge(sketch, rollouts), ..self }
    }

    /// The same, with what would be different if it were as in `other`.
    pub fn beside(self, other: &Explanation<'_>) -> Self {
        let applies = |explanation: &Explanation<'_>| serde_json::to_value(&explanation.applies).unwrap_or_default();
        let changes = Some(diff::of_values(&applies(&self), &applies(other)));
        Explanation { changes, ..self }
    }
}

/// Points at a sub-rule that applies.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Applied<'a> {
    pub rule_id: &'a str,
    pub rule_name: &'a str,
    pub index: usize,
    pub name: &'a str,
    pub share: Share,
}

/// A rule with what became of it.
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
    /// That of the sub-rule that comes furthest.
    pub verdict: Verdict,
    pub info: String,
    pub rules: Vec<Part<'a>>,
}

/// A sub-rule with what became of it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Part<'a> {
    /// Its place in the rule, from 0.
    pub index: usize,
    pub name: &'a str,
    pub verdict: Verdict,
    /// How many of the requests like this one it applies to.
    pub share: Share,
    pub info: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apis: Vec<ApiFinding<'a>>,
    pub arguments: Vec<Finding<'a>>,
    #[serde(flatten)]
    pub effect: Effect<'a>,
}

/// What a sub-rule does where it applies.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect<'a> {
    Route(Route<'a>),
    Metadata(Labels<'a>),
    Nearby(Nearness),
    Quota(Box<Quota<'a>>),
    Probe(Box<FaultDetectSubRule>),
    Breaker(Breaker<'a>),
}

/// Traffic and levels that the rules before one have taken already.
#[derive(Debug, Default)]
struct Taken {
    traffic: routing::Traffic,
    levels: circuit_breaker::Levels,
}

/// Judges `candidates`, all of one family, on the request. One that is for another service is left
/// out.
pub fn explain<'a>(family: Family, sketch: &'a Sketch, candidates: &'a [Candidate]) -> Explanation<'a> {
    let mut ordered: Vec<&Candidate> = candidates.iter().collect();
    ordered.sort_by_key(|candidate| (candidate.rule.priority, &candidate.rule.id));
    let mut taken = Taken::default();
    let candidates: Vec<Judged> =
        ordered.into_iter().filter_map(|candidate| judge(candidate, sketch, &mut taken)).collect();
    let applies: Vec<Applied> = candidates.iter().flat_map(applied).collect();
    let info = match family {
        Family::FaultDetect => fault_detect::summary(applies.len()),
        Family::RateLimit => rate_limit::summary(applies.len()),
        Family::Routing => routing::summary(&candidates, &taken.traffic),
        Family::CircuitBreaker => circuit_breaker::summary(applies.len()),
    };
    Explanation {
        kind: family.kind(),
        service: &sketch.service,
        namespace: &sketch.namespace,
        draft: sketch.draft,
        info,
        applies,
        candidates,
        grays: Vec::new(),
        changes: None,
    }
}

/// None for a rule that is not about the service that is called.
fn judge<'a>(candidate: &'a Candidate, sketch: &'a Sketch, taken: &mut Taken) -> Option<Judged<'a>> {
    let rule = &*candidate.rule;
    if !is_about(rule, sketch) {
        return None;
    }
    let (route_policy, rules) = match &rule.body {
        Body::FaultDetect(body) => (None, fault_detect::parts(rule, body, sketch)),
        Body::RateLimit(body) => (None, rate_limit::parts(rule, body, sketch)),
        Body::Routing(body) => (Some(body.route_policy), routing::parts(rule, body, sketch, &mut taken.traffic)),
        Body::CircuitBreaker(body) => (None, circuit_breaker::parts(rule, body, sketch, &mut taken.levels)),
    };
    let furthest = rules.iter().max_by_key(|part| (part.verdict, Reverse(part.index)));
    let (verdict, info) = match furthest {
        Some(part) => (part.verdict, format!("sub-rule {}: {}", part.index, part.info)),
        None => (Verdict::of(rule.enable, true, false), "has no sub-rules".into()),
    };
    Some(Judged {
        rule_id: &rule.id,
        rule_name: &rule.name,
        namespace: &rule.namespace,
        priority: rule.priority,
        route_policy,
        release: candidate.release.as_ref(),
        verdict,
        info,
        rules,
    })
}

/// True if a rule is about calls of the service that is called.
fn is_about(rule: &Rule, sketch: &Sketch) -> bool {
    match &rule.body {
        Body::FaultDetect(_) | Body::RateLimit(_) => sketch.calls_any(rule.ends()),
        Body::Routing(body) => routing::is_about(rule, body, sketch),
        Body::CircuitBreaker(body) => circuit_breaker::is_about(rule, body, sketch),
    }
}

fn applied<'a>(judged: &Judged<'a>) -> Vec<Applied<'a>> {
    let (rule_id, rule_name) = (judged.rule_id, judged.rule_name);
    let applying = judged.rules.iter().filter(|part| part.verdict == Verdict::Applies);
    applying.map(|part| Applied { rule_id, rule_name, index: part.index, name: part.name, share: part.share }).collect()
}

/// Reason why a sub-rule is switched off or does not match, whatever its family; `None` for other verdicts.
/// `objection` is the reason why it does not match.
fn refusal(verdict: Verdict, objection: Option<String>) -> Option<String> {
    match verdict {
        Verdict::Disabled => Some("switched off".into()),
        Verdict::NotMatched => Some(objection.unwrap_or_default()),
        Verdict::Empty | Verdict::Shadowed | Verdict::Applies => None,
    }
}
