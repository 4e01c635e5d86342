//! Circuit breakers in sentences: what counts as an error, the threshold, the ejected part, and the recovery.

use super::conditions::{all_of, answer, calls, calls_with, condition, interface, joined};
use super::language::Language;
use super::story::Story;
use crate::model::rule::circuit_breaker::{
    Block, BreakLevel, CircuitBreaker, ErrorCondition, ErrorInput, FallbackConfig, RecoverCondition, TriggerCondition,
    TriggerType,
};
use crate::model::rule::matching::{MatchType, ValueType};
use crate::model::rule::{Body, End, Rule};
use crate::model::wire::Words;

pub(super) fn tell(story: &mut Story, rule: &Rule) {
    let Body::CircuitBreaker(body) = &rule.body else { return };
    let language = story.language;
    let (source, destination) = (&body.rule_matcher.source, &body.rule_matcher.destination);
    let Some(callee) = End::of(&destination.namespace, &destination.service, &rule.namespace) else {
        return story.say(|| language.for_nothing());
    };
    if body.level == BreakLevel::Unknown {
        return story.say(|| language.sentence(language.no_level()));
    }
    let caller = End::of(&source.namespace, &source.service, &rule.namespace);
    let calls = calls(language, caller.as_ref(), &[callee]);
    let blocks = body.blocks();
    story.say_each(&blocks, |block| breaker_sentence(language, block, body.level, &calls));
    if blocks.len() > 1 {
        story.say(|| language.each_block());
    }
    if blocks.iter().any(|block| !block.trigger_conditions.is_empty()) {
        for clause in cut_off(language, body) {
            story.say(|| language.sentence(clause));
        }
    }
    story.say(|| language.watches_alone(rule.priority));
}

/// Describes the effect of one block of a breaker, in one line.
pub(super) fn effect(language: Language, body: &CircuitBreaker, block: &Block<'_>) -> String {
    let error = error(language, block);
    let opens = opens(language, block, body.level);
    if block.trigger_conditions.is_empty() {
        return language.clauses([opens, error]);
    }
    language.clauses([opens].into_iter().chain(cut_off(language, body)).chain([error]))
}

/// Describes the recovery, and the answers until then.
fn cut_off(language: Language, body: &CircuitBreaker) -> Vec<String> {
    let mut clauses = vec![recovery(language, &body.recover_condition)];
    if matches!(body.level, BreakLevel::Group | BreakLevel::Instance) {
        clauses.push(match body.max_ejection_percent.0 {
            0 => language.ejects_by_default(),
            percent => language.ejects(language.percent(percent)),
        });
    }
    if body.fault_detect_config.enable {
        clauses.push(language.probes_too());
    }
    if body.fallback_config.enable {
        clauses.push(fallback(language, &body.fallback_config));
    }
    clauses
}

fn breaker_sentence(language: Language, block: &Block<'_>, level: BreakLevel, calls: &str) -> String {
    let calls = calls_with(language, calls.to_owned(), &all_of(language, of_interface(language, block, level)));
    let errors = language.of_calls(calls, error(language, block));
    language.beside(language.stop(errors), language.sentence(opens(language, block, level)))
}

/// Describes what counts as an error.
fn error(language: Language, block: &Block<'_>) -> String {
    let errors = block.error_conditions.iter().map(|error| of_error(language, error));
    let errors = joined(language, errors, |first, second| language.either(first, second));
    if errors.is_empty() { language.error_by_default() } else { language.error_is(errors) }
}

/// Describes the triggers, and the part that is cut off then.
fn opens(language: Language, block: &Block<'_>, level: BreakLevel) -> String {
    if block.trigger_conditions.is_empty() {
        return language.never_opens();
    }
    let triggers = block.trigger_conditions.iter().map(|trigger| of_trigger(language, trigger));
    let triggers = joined(language, triggers, |first, second| language.either(first, second));
    match level {
        BreakLevel::Unknown => language.no_level(),
        BreakLevel::Service => language.opens_service(triggers),
        BreakLevel::Method => language.opens_interface(triggers),
        BreakLevel::Group => language.opens_group(triggers),
        BreakLevel::Instance => language.opens_instance(triggers),
    }
}

/// Describes the interface, for the level METHOD only.
fn of_interface(language: Language, block: &Block<'_>, level: BreakLevel) -> Vec<String> {
    if level != BreakLevel::Method {
        return Vec::new();
    }
    let mut conditions = block.api.map(|api| interface(language, api)).unwrap_or_default();
    let method = block.method.filter(|method| !method.is_open());
    conditions.extend(method.map(|method| condition(language, &language.part_interface(), Some(method))));
    conditions
}

/// Describes an error condition; an EXACT delay is the lower bound of the delays that count.
fn of_error(language: Language, error: &ErrorCondition) -> String {
    let asked = &error.condition;
    let is_bound = asked.kind == MatchType::Exact && asked.value_type == ValueType::Text;
    match error.input_type {
        ErrorInput::Unknown => language.unknown_error(),
        ErrorInput::RetCode => condition(language, &language.part_code(), Some(asked)),
        ErrorInput::Delay => match asked.value.parse::<u32>() {
            Ok(ms) if is_bound => language.slower(ms),
            _ => condition(language, &language.part_delay(), Some(asked)),
        },
    }
}

fn of_trigger(language: Language, trigger: &TriggerCondition) -> String {
    let (percent, calls) = (language.percent(trigger.error_percent.0), trigger.minimum_request.0.max(1));
    match (trigger.trigger_type, trigger.error_count.0, trigger.error_percent.0, trigger.interval.0) {
        (TriggerType::Unknown, ..) => language.unknown_trigger(),
        (TriggerType::ConsecutiveError, 0, ..) | (TriggerType::ErrorRate, _, 0, _) => {
            language.no_number(trigger.trigger_type.word())
        }
        (TriggerType::ConsecutiveError, count, ..) => language.in_a_row(count),
        (TriggerType::ErrorRate, _, _, 0) => language.rate_by_default(percent, calls),
        (TriggerType::ErrorRate, _, _, seconds) => language.rate(percent, calls, seconds),
    }
}

fn recovery(language: Language, recover: &RecoverCondition) -> String {
    let time = match recover.sleep_window.0 {
        0 => language.sleep_by_default(),
        seconds => language.seconds(seconds),
    };
    match recover.consecutive_success.0 {
        0 => language.recovers(time),
        successes => language.recovers_by(time, successes),
    }
}

fn fallback(language: Language, config: &FallbackConfig) -> String {
    let response = config.response.clone().unwrap_or_default();
    let code = if response.code.0 == 0 { String::new() } else { response.code.0.to_string() };
    let headers = response.headers.iter().map(|header| (header.key.as_str(), header.value.as_str()));
    let answer = answer(language, &code, headers, &response.body);
    if answer.is_empty() { language.refused_by_default() } else { language.refused_gets(answer) }
}
