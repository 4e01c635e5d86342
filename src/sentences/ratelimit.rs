//! Rate limits in sentences: each quota with the calls that it counts, its amounts, and the treatment of excess calls.

use super::conditions::{all_of, answer, argument, calls, calls_with, interface, joined, named, part, quoted};
use super::language::Language;
use super::story::Story;
use crate::model::rule::matching::{MatchString, MatchType, ValueType};
use crate::model::rule::rate_limit::{
    Amount, AmountMode, CustomResponse, FailoverType, LimitTrigger, LimitType, RateLimit, Resource,
};
use crate::model::rule::{Body, End, Rule};
use crate::model::wire::{Span, Words};

/// Action that refuses excess calls.
const REJECTS: &str = "REJECT";

pub(super) fn tell(story: &mut Story, rule: &Rule) {
    let Body::RateLimit(body) = &rule.body else { return };
    let language = story.language;
    if body.rules.is_empty() {
        return story.say(|| language.nothing());
    }
    let calls = calls(language, None, &rule.ends());
    story.say_each(&body.rules, |trigger| {
        let told = limit_sentence(language, trigger, body.kind, &calls);
        if trigger.disable { language.part_off(told) } else { told }
    });
    let counting = counting(language, rule, body);
    if !counting.is_empty() {
        story.say(|| counting);
    }
    story.say(|| language.limits_all());
}

fn limit_sentence(language: Language, trigger: &LimitTrigger, kind: LimitType, calls: &str) -> String {
    let calls = calls_with(language, calls.to_owned(), &all_of(language, conditions(language, trigger)));
    let amounts = amounts(language, trigger);
    if amounts.is_empty() {
        return language.limits_nothing(calls);
    }
    let amounts = joined(language, amounts, |first, second| language.and(first, second));
    let mut told = vec![language.at_most(calls, amounts)];
    if trigger.resource == Resource::System {
        told.push(language.sentence(language.of_system()));
    }
    let parts = counted_apart(language, trigger);
    told.push(match parts.is_empty() {
        true => language.counted_together(),
        false => language.counted_apart(joined(language, parts, |first, second| language.and(first, second))),
    });
    told.extend(excess(language, trigger).map(|clause| language.sentence(clause)));
    if kind == LimitType::Global {
        told.push(match trigger.amount_mode {
            AmountMode::GlobalTotal => language.counts_total(),
            AmountMode::ShareEqually => language.counts_shared(),
        });
        told.push(match trigger.failover {
            FailoverType::Local => language.alone_without_server(),
            FailoverType::Pass => language.open_without_server(),
        });
    }
    language.paragraph(told)
}

/// Describes the effect of one quota, in one line. Excess calls are refused where it does not say otherwise.
pub(super) fn effect(language: Language, kind: LimitType, trigger: &LimitTrigger) -> String {
    let amounts = joined(language, amounts(language, trigger), |first, second| language.and(first, second));
    let limit = match (kind, trigger.amount_mode) {
        (LimitType::Local, _) => language.limit_each(amounts),
        (LimitType::Global, AmountMode::ShareEqually) => language.limit_parts(amounts),
        _ => language.limit(amounts),
    };
    let parts = joined(language, counted_apart(language, trigger), |first, second| language.and(first, second));
    let limit = if parts.is_empty() { language.for_all_callers(limit) } else { language.for_each_value(limit, parts) };
    let system = (trigger.resource == Resource::System).then(|| language.of_system());
    let more = excess(language, trigger).filter(|clause| *clause != language.refused());
    language.clauses([limit].into_iter().chain(system).chain(more))
}

/// Describes what happens to excess calls, and the answer to refused ones.
fn excess(language: Language, trigger: &LimitTrigger) -> impl Iterator<Item = String> {
    let action = quoted(&trigger.action);
    let rejects = trigger.action.is_empty() || trigger.action.eq_ignore_ascii_case(REJECTS);
    let excess = match (rejects, trigger.max_queue_delay.0) {
        (true, 0) => language.refused(),
        (true, seconds) => language.queued(seconds),
        (false, 0) => language.left_to(action),
        (false, seconds) => language.left_to_queue(action, seconds),
    };
    let answer = trigger.custom_response.as_ref().map(|response| answer_of(language, response)).unwrap_or_default();
    let answer = (!answer.is_empty()).then(|| language.refused_gets(answer));
    [excess].into_iter().chain(answer)
}

/// Formats a length of time.
fn time(language: Language, span: Span) -> String {
    let text = span.to_string();
    let number = text.trim_end_matches('s');
    let number = if number.contains('.') { number.trim_end_matches('0') } else { number };
    language.seconds(number)
}

/// Describes where the quotas of the rule are counted; empty if clients choose.
fn counting(language: Language, rule: &Rule, body: &RateLimit) -> String {
    let mut told = match body.kind {
        LimitType::Global => Vec::new(),
        LimitType::Local => vec![language.counts_alone()],
        other => vec![language.counts_otherwise(other.word())],
    };
    if body.kind == LimitType::Global {
        let server = body.cluster.as_ref().and_then(|key| End::of(&key.namespace, &key.service, &rule.namespace));
        told.extend(server.map(|server| language.asks_server(named(language, &server))));
        let report = body.report.clone().unwrap_or_default();
        told.extend(
            (report.interval > Span::default()).then(|| language.reports_each(time(language, report.interval))),
        );
        told.extend(report.amount_percent.map(|percent| language.reports_at(language.percent(percent.0))));
    }
    language.paragraph(told)
}

/// Returns the conditions: one of the interfaces and all arguments.
fn conditions(language: Language, trigger: &LimitTrigger) -> Vec<String> {
    let interfaces: Vec<Vec<String>> = trigger.apis.iter().map(|api| interface(language, api)).collect();
    let is_every = interfaces.iter().any(Vec::is_empty);
    let mut conditions = match interfaces.as_slice() {
        _ if is_every => Vec::new(),
        [] => Vec::new(),
        [one] => one.clone(),
        several => {
            let list = several.iter().map(|one| all_of(language, one.clone()));
            let list = joined(language, list, |first, second| language.next_interface(first, second));
            vec![language.one_interface(list)]
        }
    };
    conditions.extend(trigger.arguments.iter().map(|one| argument(language, one)));
    conditions
}

fn amounts(language: Language, trigger: &LimitTrigger) -> Vec<String> {
    let at_a_time = trigger.concurrency_amount.as_ref().map(|amount| language.at_a_time(amount.max_amount.0));
    if trigger.resource != Resource::Concurrency {
        return trigger.amounts.iter().map(|amount| of_period(language, amount)).chain(at_a_time).collect();
    }
    let lowest = trigger.amounts.iter().map(|amount| amount.max_amount.0).min();
    at_a_time.or_else(|| lowest.map(|count| language.at_a_time(count))).into_iter().collect()
}

fn of_period(language: Language, amount: &Amount) -> String {
    let count = amount.max_amount.0;
    let told = match amount.valid_duration {
        Some(period) => language.amount(count, time(language, period)),
        None => language.amount_alone(count),
    };
    let told = amount.start_amount.iter().fold(told, |told, start| language.rising(told, start.0));
    let told = amount.min_amount.iter().fold(told, |told, end| language.falling(told, end.0));
    amount.precision.iter().fold(told, |told, precision| language.precisely(told, precision.0))
}

/// Returns the parts of a call whose values are counted separately: those with conditions that several values meet.
fn counted_apart(language: Language, trigger: &LimitTrigger) -> Vec<String> {
    if trigger.regex_combine {
        return Vec::new();
    }
    let mut paths = trigger.apis.iter().filter_map(|api| api.path.as_ref());
    let path = paths.any(|path| !path.is_open() && admits_many(Some(path))).then(|| language.part_path());
    let arguments = trigger.arguments.iter().filter(|argument| admits_many(argument.value.as_ref()));
    let mut parts: Vec<String> =
        path.into_iter().chain(arguments.map(|one| part(language, one.kind.into(), &one.key))).collect();
    let mut seen = std::collections::BTreeSet::new();
    parts.retain(|part| seen.insert(part.clone()));
    parts
}

fn admits_many(condition: Option<&MatchString>) -> bool {
    condition.is_none_or(|condition| {
        condition.is_open() || condition.kind != MatchType::Exact || condition.value_type == ValueType::Parameter
    })
}

fn answer_of(language: Language, response: &CustomResponse) -> String {
    let headers = response.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    answer(language, &response.code, headers, &response.body)
}
