//! Rate limits: which quotas count the request, and by which key.

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{ApiFinding, Finding, objection};
use super::sketch::{Sketch, named};
use super::{Effect, Part, Share, Verdict, refusal};
use crate::model::rule::Rule;
use crate::model::rule::matching::{MatchString, MatchType, ValueType};
use crate::model::rule::rate_limit::{
    Amount, AmountMode, ConcurrencyAmount, FailoverType, LimitTrigger, LimitType, RateLimit, Resource,
};
use crate::model::rule::routing::TrafficMatchMode;
use crate::model::rule::traffic::ArgumentType;
use crate::model::wire::Uint32;

/// What is counted, up to which amounts, and what happens beyond.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quota<'a> {
    #[serde(rename = "type")]
    pub kind: LimitType,
    pub resource: Resource,
    pub amounts: &'a [Amount],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_amount: Option<&'a ConcurrencyAmount>,
    pub amount_mode: AmountMode,
    pub action: &'a str,
    pub max_queue_delay: Uint32,
    pub failover: FailoverType,
    pub regex_combine: bool,
    /// Requests that are equal in all of these share a counter.
    pub counter: Vec<Counted<'a>>,
}

/// A part of the key of a counter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Counted<'a> {
    #[serde(rename = "type")]
    pub kind: ArgumentType,
    pub key: &'a str,
    /// The request's own value; the condition's where all that it lets through are counted together.
    pub value: &'a str,
    pub combined: bool,
}

pub(super) fn parts<'a>(rule: &'a Rule, body: &'a RateLimit, sketch: &'a Sketch) -> Vec<Part<'a>> {
    let triggers = body.rules.iter().enumerate();
    triggers.map(|(index, trigger)| part(rule.enable, index, trigger, body.kind, sketch)).collect()
}

fn part<'a>(
    rule_is_on: bool,
    index: usize,
    trigger: &'a LimitTrigger,
    kind: LimitType,
    sketch: &'a Sketch,
) -> Part<'a> {
    let apis: Vec<ApiFinding> = trigger.apis.iter().map(|api| ApiFinding::of(api, sketch)).collect();
    let arguments: Vec<Finding> = trigger.arguments.iter().map(|argument| Finding::of(argument, sketch)).collect();
    let is_other = !apis.is_empty() && !apis.iter().any(|api| api.matched);
    let objection = match is_other {
        true => Some("the request is for none of the interfaces".into()),
        false => objection(TrafficMatchMode::And, &arguments),
    };
    let has_amount = !trigger.amounts.is_empty() || trigger.concurrency_amount.is_some();
    let verdict = Verdict::of(rule_is_on && !trigger.disable, objection.is_none(), has_amount);
    let counter = counter(trigger, &apis, &arguments, sketch);
    let info = refusal(verdict, objection).unwrap_or_else(|| shown(verdict, &counter));
    let quota = Quota {
        kind,
        resource: trigger.resource,
        amounts: &trigger.amounts,
        concurrency_amount: trigger.concurrency_amount.as_ref(),
        amount_mode: trigger.amount_mode,
        action: &trigger.action,
        max_queue_delay: trigger.max_queue_delay,
        failover: trigger.failover,
        regex_combine: trigger.regex_combine,
        counter,
    };
    let share = if verdict == Verdict::Applies { Share::ALL } else { Share::NONE };
    Part { index, name: &trigger.name, verdict, share, info, apis, arguments, effect: Effect::Quota(Box::new(quota)) }
}

/// The path of the interface that the request is for, and every condition. What lets one value
/// through tells no two requests apart.
fn counter<'a>(
    trigger: &'a LimitTrigger,
    apis: &[ApiFinding<'a>],
    arguments: &[Finding<'a>],
    sketch: &'a Sketch,
) -> Vec<Counted<'a>> {
    let api = apis.iter().find(|finding| finding.matched).and_then(|finding| finding.api.path.as_ref());
    let path =
        api.filter(|path| !path.is_open()).map(|path| (ArgumentType::Path, "", sketch.path.as_deref(), Some(path)));
    let conditions = arguments.iter().map(|finding| (finding.kind, finding.key, finding.value, finding.condition));
    let admitting_many = path.into_iter().chain(conditions).filter(|(_, _, _, condition)| admits_many(*condition));
    let counted = admitting_many.filter_map(|(kind, key, value, condition)| {
        let pattern = condition.map_or("", |condition| condition.value.as_str());
        let value = if trigger.regex_combine { Some(pattern) } else { value };
        value.map(|value| Counted { kind, key, value, combined: trigger.regex_combine })
    });
    counted.collect()
}

fn admits_many(condition: Option<&MatchString>) -> bool {
    condition.is_none_or(|condition| {
        condition.is_open() || condition.kind != MatchType::Exact || condition.value_type == ValueType::Parameter
    })
}

fn shown(verdict: Verdict, counter: &[Counted<'_>]) -> String {
    if verdict == Verdict::Empty {
        return "matches, but has no amount to count against".into();
    }
    let own: Vec<String> =
        counter.iter().filter(|part| !part.combined).map(|part| named(part.kind, part.key)).collect();
    match own.is_empty() {
        true => "counts the request together with all others that match".into(),
        false => format!("counts the request apart for each {}", own.join(" and ")),
    }
}

pub(super) fn summary(count: usize) -> String {
    match count {
        0 => "no quota counts the request".into(),
        1 => "one quota counts the request".into(),
        _ => format!("{count} quotas count the request; which of them refuses first depends on what is used already"),
    }
}
