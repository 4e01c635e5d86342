//! Explanation of rate limits: which quotas count the request, and by which key.
//!
//! Each matching quota counts the request, with a separate counter per value of its conditions unless `regex_combine`
//! is set.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Amount, AmountMode, ConcurrencyAmount, FailoverType, LimitTrigger, LimitType, RateLimit, Resource};
use crate::model::explain::{
    ApiFinding, Applied, Explained, Finding, Part, Share, Sketch, Taken, Verdict, named, objection, refusal,
};
use crate::model::rule::matching::{MatchString, MatchType, ValueType};
use crate::model::rule::routing::TrafficMatchMode;
use crate::model::rule::traffic::ArgumentType;
use crate::model::rule::{Rule, SubRuleEffect};
use crate::model::wire::Uint32;

/// Counted requests, their limits, and the treatment of the excess.
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
    /// Key of the counter: requests with equal values in all parts share one.
    pub counter: Vec<Counted<'a>>,
}

/// A part of the key of a counter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Counted<'a> {
    #[serde(rename = "type")]
    pub kind: ArgumentType,
    pub key: &'a str,
    /// Value of the request, or that of the condition if all matching values are counted together.
    pub value: &'a str,
    pub combined: bool,
}

impl Explained for RateLimit {
    fn parts<'a>(&'a self, rule: &'a Rule, sketch: &'a Sketch, _: &mut Taken) -> Vec<Part<'a>> {
        let triggers = self.rules.iter().enumerate();
        triggers.map(|(index, trigger)| part(rule.enable, index, trigger, self.kind, sketch)).collect()
    }

    fn summary(applies: &[Applied<'_>], _: &Taken) -> String {
        match applies.len() {
            0 => "no quota counts the request".into(),
            1 => "one quota counts the request".into(),
            count => {
                format!("{count} quotas count the request; which of them refuses first depends on what is used already")
            }
        }
    }
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
    let objection = if is_other {
        Some("the request is for none of the interfaces".into())
    } else {
        objection(TrafficMatchMode::And, &arguments)
    };
    let has_amount = !trigger.amounts.is_empty() || trigger.concurrency_amount.is_some();
    let verdict = Verdict::of(rule_is_on && !trigger.disable, objection.is_none(), has_amount);
    let counter = counter(trigger, &apis, &arguments, sketch);
    let info = refusal(verdict, objection).unwrap_or_else(|| summary(verdict, &counter));
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
    let effect = SubRuleEffect::Quota(Box::new(quota));
    let share = if verdict == Verdict::Applies { Share::ALL } else { Share::NONE };
    Part { index, name: &trigger.name, verdict, share, info, apis, arguments, effect }
}

/// Returns the path of the requested interface, and every condition except those that only one value meets, which
/// cannot distinguish requests.
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

fn summary(verdict: Verdict, counter: &[Counted<'_>]) -> String {
    if verdict == Verdict::Empty {
        return "matches, but has no amount to count against".into();
    }
    let own: Vec<String> =
        counter.iter().filter(|part| !part.combined).map(|part| named(part.kind, part.key)).collect();
    if own.is_empty() {
        return "counts the request together with all others that match".into();
    }
    format!("counts the request apart for each {}", own.join(" and "))
}
