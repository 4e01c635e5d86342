//! Explanation of circuit breakers: which of them watch the request, and on which level.
//!
//! | question | answer |
//! |---|---|
//! | several that match | the first of each level watches the request, with each of its matching block configs |
//! | caller | `*` or nothing for any |
//! | API | compared on the level METHOD only |
//! | the old `method` | compared with the path, or without one with the method |
//! | without a level | ignored by clients |

use schemars::JsonSchema;
use serde::Serialize;

use super::{Block, BreakLevel, CircuitBreaker, ErrorCondition, FallbackConfig, RecoverCondition, TriggerCondition};
use crate::model::explain::{
    ApiFinding, Applied, Explained, Finding, Part, Share, Sketch, Taken, Verdict, is_met, objection, refusal,
};
use crate::model::rule::matching::MatchString;
use crate::model::rule::routing::TrafficMatchMode;
use crate::model::rule::traffic::{ArgumentType, ServiceKey};
use crate::model::rule::{End, Rule, SubRuleEffect};
use crate::model::wire::{Uint32, Words};

/// Counted errors, their threshold, and the effect of exceeding it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Breaker<'a> {
    pub level: BreakLevel,
    pub error_conditions: &'a [ErrorCondition],
    pub trigger_conditions: &'a [TriggerCondition],
    pub max_ejection_percent: Uint32,
    pub recover_condition: RecoverCondition,
    pub fallback_config: &'a FallbackConfig,
}

impl Explained for CircuitBreaker {
    /// Excludes the caller, which is an end of the rule too.
    fn is_about(&self, rule: &Rule, sketch: &Sketch) -> bool {
        let callee = &self.rule_matcher.destination;
        sketch.calls_any(End::of(&callee.namespace, &callee.service, &rule.namespace))
    }

    /// Evaluates the blocks of a rule. Only the first matching rule of a level applies.
    fn parts<'a>(&'a self, rule: &'a Rule, sketch: &'a Sketch, taken: &mut Taken) -> Vec<Part<'a>> {
        let level = self.level.word();
        let is_taken = taken.left(level).is_none();
        let blocks = self.blocks().into_iter().enumerate();
        let parts: Vec<Part> = blocks.map(|(index, block)| part(rule, index, self, block, is_taken, sketch)).collect();
        if parts.iter().any(|part| part.verdict > Verdict::NotMatched) {
            taken.take(level, Share::ALL);
        }
        parts
    }

    fn summary(applies: &[Applied<'_>], _: &Taken) -> String {
        match applies.len() {
            0 => "no circuit breaker watches the request".into(),
            1 => "one circuit breaker watches the request".into(),
            count => format!("{count} circuit breakers watch the request, each for itself"),
        }
    }
}

fn part<'a>(
    rule: &'a Rule,
    index: usize,
    body: &'a CircuitBreaker,
    block: Block<'a>,
    is_taken: bool,
    sketch: &'a Sketch,
) -> Part<'a> {
    let mut arguments = vec![caller(&body.rule_matcher.source, &rule.namespace, sketch)];
    let mut apis = Vec::new();
    if body.level == BreakLevel::Method {
        apis.extend(block.api.map(|api| ApiFinding::of(api, sketch)));
        arguments.extend(block.method.map(|method| interface(method, sketch)));
    }
    let objection = match (body.level, apis.iter().all(|api| api.matched)) {
        (BreakLevel::Unknown, _) => Some("says on no level what to cut off, so clients pass it over".into()),
        (_, false) => Some("the request is for another interface".into()),
        (_, true) => objection(TrafficMatchMode::And, &arguments),
    };
    let verdict = match Verdict::of(rule.enable, objection.is_none(), !block.trigger_conditions.is_empty()) {
        Verdict::Applies | Verdict::Empty if is_taken => Verdict::Shadowed,
        verdict => verdict,
    };
    let level = body.level.word();
    let info = refusal(verdict, objection).unwrap_or_else(|| match verdict {
        Verdict::Empty => "matches, but has no trigger condition that could open it".into(),
        Verdict::Shadowed => format!("matches, but a rule before it watches the level {level}"),
        _ => summary(body.level, &block),
    });
    let effect = SubRuleEffect::Breaker(Breaker {
        level: body.level,
        error_conditions: block.error_conditions,
        trigger_conditions: block.trigger_conditions,
        max_ejection_percent: body.max_ejection_percent,
        recover_condition: body.recover_condition.clone(),
        fallback_config: &body.fallback_config,
    });
    let share = if verdict == Verdict::Applies { Share::ALL } else { Share::NONE };
    Part { index, name: block.name, verdict, share, info, apis, arguments, effect }
}

/// Returns the finding on the caller.
fn caller<'a>(source: &'a ServiceKey, namespace_of_rule: &str, sketch: &'a Sketch) -> Finding<'a> {
    let value = sketch.caller_service.as_deref();
    let end = End::of(&source.namespace, &source.service, namespace_of_rule);
    let matched = end.as_ref().is_none_or(|end| sketch.is_from(end));
    let info = match (&end, value) {
        (None, _) => "calls of every service are watched".into(),
        (Some(end), None) if matched => format!("calls of {end:?} are watched"),
        (Some(end), None) => format!("calls of {end:?} are watched, and the request has no caller"),
        (Some(end), Some(caller)) => {
            let verdict = if matched { "is one of" } else { "is none of" };
            format!("caller is {caller}: {verdict} {end:?}")
        }
    };
    Finding { kind: ArgumentType::CallerService, key: &source.namespace, condition: None, value, matched, info }
}

/// Returns the finding on the interface of an older rule.
fn interface<'a>(method: &'a MatchString, sketch: &'a Sketch) -> Finding<'a> {
    let value = sketch.path.as_deref().or(sketch.method.as_deref());
    let matched = is_met(Some(method), value);
    let verdict = if matched { "meets" } else { "does not meet" };
    let info = match value {
        Some(value) => format!("the interface is {value}: {verdict} {}", method.summary()),
        None => format!("the request is for no interface: {verdict} {}", method.summary()),
    };
    Finding { kind: ArgumentType::Method, key: "", condition: Some(method), value, matched, info }
}

fn summary(level: BreakLevel, block: &Block<'_>) -> String {
    let cut_off = match level {
        BreakLevel::Unknown => "nothing",
        BreakLevel::Service => "the service",
        BreakLevel::Method => "the interface",
        BreakLevel::Group => "the group of instances",
        BreakLevel::Instance => "the instance",
    };
    let errors = match block.error_conditions.len() {
        0 => "what clients themselves take for one".to_owned(),
        1 => "what meets its error condition".to_owned(),
        count => format!("what meets one of its {count} error conditions"),
    };
    format!("counts the errors of the request, and cuts {cut_off} off after too many; an error is {errors}")
}
