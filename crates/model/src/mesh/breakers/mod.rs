//! Circuit breakers as xDS clients carry them out: by ejecting single instances.
//!
//! | rule | carried as |
//! |---|---|
//! | level INSTANCE | outlier detection of the service's clusters |
//! | level GROUP | the same, only for clusters of label sets: each instance is ejected separately |
//! | levels SERVICE, METHOD, none | nothing |
//! | CONSECUTIVE_ERROR | consecutive errors, proxies only; the lowest number of a rule |
//! | ERROR_RATE | failure percentage; the first of a rule |
//! | `sleep_window` | constant ejection time of an instance |
//! | error conditions | all of 5xx, or nothing; for gRPC every status except OK |
//!
//! As in [`crate::model::explain`], only the first rule of a level that concerns a caller applies.

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

/// Ejection time in seconds if a rule gives none: the default of proxies.
const SLEEP_DEFAULT_S: u32 = 30;
/// Seconds over which errors are counted if a rule gives none: the default of proxies.
const INTERVAL_DEFAULT_S: u32 = 10;

/// Instances that a breaker watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Instance,
    /// Instances with a set of labels.
    Group,
}

/// The breaker of one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Breaker {
    /// Condition on the caller; `None` for every caller.
    pub caller: Option<CallerCondition<'static>>,
    pub scope: Scope,
    /// `None` if nothing of the rule is carried; it still hides later rules of its level.
    pub detection: Option<Detection>,
}

/// Threshold of errors, and the ejection of the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    pub consecutive_errors: Option<u32>,
    pub error_rate: Option<ErrorRate>,
    /// Ejection time of an instance in seconds.
    pub sleep_s: u32,
    /// Percentage of the instances that may be ejected; `None` if not given.
    pub max_ejection_percent: Option<u32>,
}

/// Threshold for the share of failed requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRate {
    /// Percentage from which the share is too high.
    pub percent: u32,
    /// Seconds over which requests are counted.
    pub interval_s: u32,
    /// Number of requests below which the share is not evaluated.
    pub minimum_requests: u32,
}

/// Returns the breakers of the enabled rules for calls of a service, in order.
pub fn plan(rules: &[&Rule], called: &ServiceKey, dialect: Dialect) -> Vec<Breaker> {
    let on = rules.iter().filter(|rule| rule.enable);
    on.filter_map(|rule| match &rule.body {
        // Rules are also indexed by their callers.
        Body::CircuitBreaker(body) if is_about(rule, body, called) => planned(rule, body, called, dialect),
        _ => None,
    })
    .collect()
}

/// Returns the detection of a cluster, for a caller that satisfies `is_met`. The first trigger of each type applies; in
/// a cluster of a label set the breakers of groups apply too.
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
    /// Adds the triggers that are missing here from a later detection.
    fn or(self, later: Detection) -> Detection {
        Detection {
            consecutive_errors: self.consecutive_errors.or(later.consecutive_errors),
            error_rate: self.error_rate.or(later.error_rate),
            ..self
        }
    }
}

/// Reports whether the rule concerns calls to the service, not only calls by it.
fn is_about(rule: &Rule, body: &CircuitBreaker, called: &ServiceKey) -> bool {
    let callee = &body.rule_matcher.destination;
    let end = End::of(&callee.namespace, &callee.service, &rule.namespace);
    end.is_some_and(|end| end.covers(&called.namespace, &called.service))
}

/// Returns the breaker of a rule; `None` if its level is not carried.
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

/// Relation between the errors that a client counts and those of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// None of them are counted.
    Nothing,
    /// Other errors are counted too, or some are not.
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
        // The codes are mostly those of HTTP, and not gRPC statuses.
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

/// Reports whether the condition excludes only this gRPC status.
fn is_anything_but(condition: &MatchString, status: &str) -> bool {
    match condition.matcher() {
        Matcher::Not(unwanted) => ["0", "OK"].contains(&unwanted),
        Matcher::NoneOf(unwanted) => unwanted.iter().all(|unwanted| ["0", "OK"].contains(unwanted)),
        Matcher::Within(low, high) => status != "0" || (low == 1 && high >= 16),
        _ => false,
    }
}

/// Returns the warnings of a rule, as if it were enabled.
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

/// Position of a block in its rule.
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
