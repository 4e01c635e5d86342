//! Circuit breakers as clients carry them out: by leaving out single instances.
//!
//! | asked for | carried as |
//! |---|---|
//! | level INSTANCE | outlier detection of the service's clusters |
//! | level GROUP | the same, of clusters of label sets alone: each instance is left out for itself |
//! | levels SERVICE, METHOD, none | nothing |
//! | CONSECUTIVE_ERROR | errors in a row, by proxies alone; the lowest number of a rule |
//! | ERROR_RATE | failure percentage; the first of a rule |
//! | `sleep_window` | time for which an instance is left out, each time the same |
//! | error conditions | all of 5xx, or nothing; for gRPC every status but OK |
//!
//! As in [`crate::model::explain`], the first rule of a level that is for a caller is the only one of that level.

use super::Dialect;
use super::plan::CallerCondition;
use super::warning::{ENVOY, EVERY_CLIENT, GRPC, Warning};
use crate::model::rule::circuit_breaker::{
    Block, BreakLevel, CircuitBreaker, ErrorCondition, ErrorInput, TriggerCondition, TriggerType,
};
use crate::model::rule::matching::{ALL, MatchString, Matcher};
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, End, Rule};
use crate::model::wire::Words;

/// Time for which an instance is left out if a rule does not say it: what proxies do by themselves.
const SLEEP_DEFAULT_S: u32 = 30;
/// Time over which errors are counted if a rule does not say it: the same.
const INTERVAL_DEFAULT_S: u32 = 10;

/// Instances that a breaker is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Instance,
    /// Instances of a set of labels.
    Group,
}

/// The breaker of one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Breaker {
    /// Condition on the caller; none for every one.
    pub caller: Option<CallerCondition<'static>>,
    pub scope: Scope,
    /// None if nothing of it is carried: it still keeps later rules of its level from watching.
    pub detection: Option<Detection>,
}

/// Errors that are too many, and what happens to the instance that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    pub consecutive_errors: Option<u32>,
    pub error_rate: Option<ErrorRate>,
    /// Seconds for which an instance is left out.
    pub sleep_s: u32,
    /// Percentage of the instances that may be left out; none if it is not said.
    pub max_ejection_percent: Option<u32>,
}

/// Share of the requests that is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRate {
    /// From it on, of a hundred.
    pub percent: u32,
    /// Seconds over which requests are counted.
    pub interval_s: u32,
    /// Requests below which nothing is said.
    pub minimum_requests: u32,
}

/// Breakers of the rules for calls of a service that are switched on, in their order.
pub fn plan(rules: &[&Rule], called: &ServiceKey, dialect: Dialect) -> Vec<Breaker> {
    let on = rules.iter().filter(|rule| rule.enable);
    on.filter_map(|rule| match &rule.body {
        // A rule is found by its callers too.
        Body::CircuitBreaker(body) if is_about(rule, body, called) => planned(rule, body, called, dialect),
        _ => None,
    })
    .collect()
}

/// The detection of a cluster, for a caller that meets what `is_met` says. Of each kind of trigger the first is taken;
/// of a cluster of a set of labels the breakers of groups count too.
pub fn detection(
    breakers: &[Breaker],
    is_label_set: bool,
    mut is_met: impl FnMut(&CallerCondition<'_>) -> bool,
) -> Option<Detection> {
    let mut seen = Vec::new();
    let mut merged: Option<Detection> = None;
    for breaker in breakers {
        let is_meant = breaker.scope == Scope::Instance || is_label_set;
        if !is_meant || seen.contains(&breaker.scope) || !breaker.caller.as_ref().is_none_or(&mut is_met) {
            continue;
        }
        seen.push(breaker.scope);
        merged = match (merged, breaker.detection.clone()) {
            (Some(first), Some(second)) => Some(first.or(second)),
            (first, second) => first.or(second),
        };
    }
    merged
}

impl Detection {
    /// Takes what this one lacks from a later one.
    fn or(self, later: Detection) -> Detection {
        Detection {
            consecutive_errors: self.consecutive_errors.or(later.consecutive_errors),
            error_rate: self.error_rate.or(later.error_rate),
            ..self
        }
    }
}

/// False for a rule that names the service as the caller alone.
fn is_about(rule: &Rule, body: &CircuitBreaker, called: &ServiceKey) -> bool {
    let callee = &body.rule_matcher.destination;
    let end = End::of(&callee.namespace, &callee.service, &rule.namespace);
    end.is_some_and(|end| end.covers(&called.namespace, &called.service))
}

/// None for a rule of a level that is not carried.
fn planned(rule: &Rule, body: &CircuitBreaker, called: &ServiceKey, dialect: Dialect) -> Option<Breaker> {
    let scope = scope_of(body.level)?;
    let source = &body.rule_matcher.source;
    let end = End::of(&source.namespace, &source.service, &rule.namespace);
    let caller = end
        .filter(|end| end.service != ALL || end.namespace != ALL)
        .map(|end| CallerCondition::Is { is_met_by_unknown: end.covers(&called.namespace, ""), end });
    Some(Breaker { caller, scope, detection: detected(body, dialect) })
}

fn scope_of(level: BreakLevel) -> Option<Scope> {
    match level {
        BreakLevel::Instance => Some(Scope::Instance),
        BreakLevel::Group => Some(Scope::Group),
        BreakLevel::Unknown | BreakLevel::Service | BreakLevel::Method => None,
    }
}

fn detected(body: &CircuitBreaker, dialect: Dialect) -> Option<Detection> {
    let blocks = body.blocks();
    let carried = blocks.iter().filter(|block| reading(block, dialect) != Reading::Nothing);
    let triggers: Vec<&TriggerCondition> = carried.flat_map(|block| block.trigger_conditions).collect();
    let consecutive_errors = match dialect {
        Dialect::Envoy => triggers.iter().filter_map(|trigger| consecutive_errors(trigger)).min(),
        Dialect::Grpc => None,
    };
    let error_rate = triggers.iter().find_map(|trigger| error_rate(trigger));
    let sleep_s = or_default(body.recover_condition.sleep_window.0, SLEEP_DEFAULT_S);
    let max_ejection_percent = Some(body.max_ejection_percent.0).filter(|percent| *percent > 0);
    let is_carried = consecutive_errors.is_some() || error_rate.is_some();
    is_carried.then_some(Detection { consecutive_errors, error_rate, sleep_s, max_ejection_percent })
}

fn consecutive_errors(trigger: &TriggerCondition) -> Option<u32> {
    let is_meant = trigger.trigger_type == TriggerType::ConsecutiveError;
    Some(trigger.error_count.0).filter(|count| is_meant && *count > 0)
}

fn error_rate(trigger: &TriggerCondition) -> Option<ErrorRate> {
    let is_meant = trigger.trigger_type == TriggerType::ErrorRate && trigger.error_percent.0 > 0;
    is_meant.then(|| ErrorRate {
        percent: trigger.error_percent.0.min(100),
        interval_s: or_default(trigger.interval.0, INTERVAL_DEFAULT_S),
        minimum_requests: trigger.minimum_request.0.max(1),
    })
}

fn or_default(given: u32, default: u32) -> u32 {
    if given == 0 { default } else { given }
}

/// Errors that a client counts, compared with those that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// None that is asked for.
    Nothing,
    /// Others as well, or fewer.
    Roughly,
    Exactly,
}

fn reading(block: &Block<'_>, dialect: Dialect) -> Reading {
    let readings: Vec<Reading> = block.error_conditions.iter().map(|error| reading_of(error, dialect)).collect();
    if readings.iter().all(|reading| *reading == Reading::Exactly) {
        return Reading::Exactly;
    }
    if readings.iter().all(|reading| *reading == Reading::Nothing) { Reading::Nothing } else { Reading::Roughly }
}

fn reading_of(error: &ErrorCondition, dialect: Dialect) -> Reading {
    if error.input_type != ErrorInput::RetCode {
        return Reading::Nothing;
    }
    match dialect {
        Dialect::Envoy => reading_of_codes(&error.condition),
        // Codes are those of HTTP mostly, and no status of gRPC.
        Dialect::Grpc if ["0", "OK"].iter().all(|fine| is_anything_but(&error.condition, fine)) => Reading::Exactly,
        Dialect::Grpc => Reading::Roughly,
    }
}

fn reading_of_codes(condition: &MatchString) -> Reading {
    let matcher = condition.matcher();
    let is_met = |code: u32| condition.is_open() || matcher.matches(&code.to_string());
    if !(500..600).any(is_met) {
        return Reading::Nothing;
    }
    if (500..600).all(is_met) && !(100..500).any(is_met) { Reading::Exactly } else { Reading::Roughly }
}

/// True if the condition leaves out this status of gRPC, and takes all others.
fn is_anything_but(condition: &MatchString, status: &str) -> bool {
    match condition.matcher() {
        Matcher::Not(unwanted) => ["0", "OK"].contains(&unwanted),
        Matcher::NoneOf(unwanted) => unwanted.iter().all(|unwanted| ["0", "OK"].contains(unwanted)),
        Matcher::Within(low, high) => status != "0" || (low == 1 && high >= 16),
        _ => false,
    }
}

/// Warnings of a rule, switched on or not.
pub fn warnings(body: &CircuitBreaker) -> Vec<Warning> {
    let Some(scope) = scope_of(body.level) else {
        let text = format!("level: level {} is not carried by xDS", body.level.word());
        return vec![Warning::left_out(20, EVERY_CLIENT, text)];
    };
    let mut found = Vec::new();
    if scope == Scope::Group {
        found.push(Warning::approximate(19, EVERY_CLIENT, "level: of a group each instance is left out for itself"));
    }
    let mut is_first_rate = true;
    for (index, block) in body.blocks().iter().enumerate() {
        let place = BlockPlace { is_old: body.block_configs.is_empty(), index };
        of_errors(block, place, &mut found);
        of_triggers(block, place, &mut is_first_rate, &mut found);
    }
    of_recovery(body, &mut found);
    found
}

/// Place of a block in its rule.
#[derive(Clone, Copy)]
struct BlockPlace {
    is_old: bool,
    index: usize,
}

impl BlockPlace {
    fn of(self, old: &str, new: &str, index: usize) -> String {
        if self.is_old { format!("{old}[{index}]") } else { format!("block_configs[{}].{new}[{index}]", self.index) }
    }
}

fn of_errors(block: &Block<'_>, place: BlockPlace, found: &mut Vec<Warning>) {
    let is_left_out = |dialect| reading(block, dialect) == Reading::Nothing;
    for (index, error) in block.error_conditions.iter().enumerate() {
        let place = place.of("error_conditions", "error_conditions", index);
        let shown = format!("{} {}", error.input_type.word(), error.condition.summary());
        let text = format!("{place}: xDS knows errors as a whole: condition {shown} is not carried");
        for (dialect, dialects) in [(Dialect::Envoy, ENVOY), (Dialect::Grpc, GRPC)] {
            if reading_of(error, dialect) != Reading::Exactly {
                let text = text.clone();
                let is_left_out = is_left_out(dialect);
                found.push(Warning { is_left_out, ..Warning::left_out(18, dialects, text) });
            }
        }
    }
}

fn of_triggers(block: &Block<'_>, place: BlockPlace, is_first_rate: &mut bool, found: &mut Vec<Warning>) {
    for (index, trigger) in block.trigger_conditions.iter().enumerate() {
        let place = place.of("trigger_condition", "trigger_conditions", index);
        let not_carried = |what: &str| Warning::left_out(15, EVERY_CLIENT, format!("{place}: {what}"));
        match trigger.trigger_type {
            TriggerType::Unknown => found.push(not_carried("trigger_type UNKNOWN is not carried by xDS")),
            TriggerType::ConsecutiveError if trigger.error_count.0 == 0 => {
                found.push(not_carried("error_count 0 is not carried by xDS"));
            }
            TriggerType::ConsecutiveError => {
                let text = format!("{place}: gRPC counts no consecutive errors: carried to Envoy only");
                found.push(Warning::left_out(17, GRPC, text));
            }
            TriggerType::ErrorRate if trigger.error_percent.0 == 0 => {
                found.push(not_carried("error_percent 0 is not carried by xDS"));
            }
            TriggerType::ErrorRate if std::mem::take(is_first_rate) => {}
            TriggerType::ErrorRate => {
                found.push(not_carried("a second trigger_type ERROR_RATE is not carried by xDS"));
            }
        }
    }
}

fn of_recovery(body: &CircuitBreaker, found: &mut Vec<Warning>) {
    if body.recover_condition.consecutive_success.0 > 0 {
        let text = "recover_condition: consecutive_success is not carried by xDS: an instance comes back whole";
        found.push(Warning::approximate(15, EVERY_CLIENT, text));
    }
    if body.max_ejection_percent.0 == 0 {
        let text = "max_ejection_percent is not set: clients of xDS leave out a tenth of the instances at most";
        found.push(Warning::approximate(15, EVERY_CLIENT, text));
    }
    if body.fallback_config.enable {
        found.push(Warning::approximate(20, EVERY_CLIENT, "fallback_config: fallback is not carried by xDS"));
    }
}

#[cfg(test)]
mod tests;
