//! Phrases common to all families: values, conditions, interfaces, services, answers.

use super::language::Language;
use crate::model::rule::End;
use crate::model::rule::matching::{ALL, MatchString, MatchType, Matcher, ValueType};
use crate::model::rule::traffic::{Api, Argument, ArgumentType};

/// Maximum characters of a displayed value.
const VALUE_CHARS_MAX: usize = 80;
/// Maximum displayed items of a list.
pub(super) const ITEMS_MAX: usize = 6;

/// Returns the first `chars_max` characters of a text, with a mark if it is longer.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().nth(chars_max).is_none() {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

/// Formats a value that a user entered; in quotes if it is empty or begins or ends with blanks.
pub(super) fn quoted(value: &str) -> String {
    let text: String = cut(value, VALUE_CHARS_MAX).chars().map(visible).collect();
    let is_plain = !text.is_empty() && text.trim() == text;
    if is_plain { text } else { format!("“{text}”") }
}

/// Replaces characters that are invisible or change the text direction.
fn visible(letter: char) -> char {
    let is_unseen = letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    if is_unseen { char::REPLACEMENT_CHARACTER } else { letter }
}

/// Joins the first items and the number of the rest pairwise with `joint`.
pub(super) fn joined(
    language: Language,
    items: impl IntoIterator<Item = String>,
    joint: impl Fn(String, String) -> String,
) -> String {
    bounded(items, |more| language.more_items(more)).into_iter().reduce(joint).unwrap_or_default()
}

/// Returns the first items; `more` formats the number of the rest.
pub(super) fn bounded(items: impl IntoIterator<Item = String>, more: impl FnOnce(usize) -> String) -> Vec<String> {
    let mut items = items.into_iter();
    let mut first: Vec<String> = items.by_ref().take(ITEMS_MAX).collect();
    let rest = items.count();
    first.extend((rest > 0).then(|| more(rest)));
    first
}

/// Joins conditions that all have to hold.
pub(super) fn all_of(language: Language, conditions: impl IntoIterator<Item = String>) -> String {
    joined(language, conditions, |first, second| language.both(first, second))
}

/// Formats a condition on a part of a call.
pub(super) fn condition(language: Language, part: &str, asked: Option<&MatchString>) -> String {
    let Some(asked) = asked.filter(|asked| !asked.is_open()) else { return language.any_value(part) };
    let value = quoted(&asked.value);
    match (asked.value_type, asked.kind) {
        (ValueType::Parameter, _) if asked.value.is_empty() => language.any_value(part),
        (ValueType::Parameter, _) => language.parameter(part, value),
        (ValueType::Text, MatchType::Exact) => language.is(part, value),
        (ValueType::Text, MatchType::NotEquals) => language.any_but(part, value),
        (ValueType::Text, MatchType::In) => language.one_of(part, values(language, &asked.value)),
        (ValueType::Text, MatchType::NotIn) => language.none_of(part, values(language, &asked.value)),
        (ValueType::Text, MatchType::Regex) => language.found(part, value),
        (ValueType::Text, MatchType::Range) => match asked.matcher() {
            Matcher::Within(low, high) => language.within(part, low, high),
            _ => language.never(part, value),
        },
    }
}

/// Formats the comma-separated values of a list.
fn values(language: Language, list: &str) -> String {
    listed(language, list.split(','))
}

pub(super) fn listed<'a>(language: Language, values: impl IntoIterator<Item = &'a str>) -> String {
    joined(language, values.into_iter().map(quoted), |first, second| language.comma(first, second))
}

/// Formats the part of a call that a condition is about.
pub(super) fn part(language: Language, kind: ArgumentType, key: &str) -> String {
    let name = quoted(key);
    match kind {
        ArgumentType::Custom => language.part_custom(name),
        ArgumentType::Method => language.part_method(),
        ArgumentType::Header => language.part_header(name),
        ArgumentType::Query => language.part_query(name),
        ArgumentType::CallerIp => language.part_address(),
        ArgumentType::Path => language.part_path(),
        ArgumentType::Cookie => language.part_cookie(name),
        ArgumentType::CallerMetadata => language.part_metadata(name),
        ArgumentType::CallerService if key.is_empty() || key == ALL => language.part_service(),
        ArgumentType::CallerService => language.part_service_of(name),
    }
}

/// Formats a required label; for a value that it takes over from a call, the name of that value.
pub(super) fn label(language: Language, key: &str, wanted: &MatchString) -> String {
    let (key, value) = (quoted(key), quoted(&wanted.value));
    match (wanted.value_type, wanted.kind) {
        (ValueType::Parameter, _) => language.takes_over(key, value),
        (ValueType::Text, MatchType::Exact) => language.label(key, value),
        (ValueType::Text, _) => condition(language, &key, Some(wanted)),
    }
}

/// Formats the condition of an argument.
pub(super) fn argument<T>(language: Language, argument: &Argument<T>) -> String
where
    T: Default + Copy + Into<ArgumentType>,
{
    condition(language, &part(language, argument.kind.into(), &argument.key), argument.value.as_ref())
}

/// Returns the conditions of an interface; none for any interface.
pub(super) fn interface(language: Language, api: &Api) -> Vec<String> {
    let named = |part: String, name: &str| (!name.is_empty() && name != ALL).then(|| language.is(part, quoted(name)));
    let path = api.path.as_ref().filter(|path| !path.is_open());
    let path = path.map(|path| condition(language, &language.part_path(), Some(path)));
    let names = [named(language.part_protocol(), &api.protocol), named(language.part_method(), &api.method)];
    names.into_iter().chain([path]).flatten().collect()
}

pub(super) fn named(language: Language, end: &End) -> String {
    match (end.namespace.as_str(), end.service.as_str()) {
        (ALL, ALL) => language.every_service(),
        (namespace, ALL) => language.every_service_of(quoted(namespace)),
        (ALL, service) => language.of_every_namespace(quoted(service)),
        (namespace, service) => format!("{}/{}", quoted(namespace), quoted(service)),
    }
}

/// Formats calls to services, from a caller if it is restricted.
pub(super) fn calls(language: Language, caller: Option<&End>, callees: &[End]) -> String {
    let callees = joined(language, callees.iter().map(|callee| named(language, callee)), |first, second| {
        language.and(first, second)
    });
    match caller.filter(|caller| **caller != End::every()) {
        Some(caller) => language.calls_from_to(named(language, caller), callees),
        None => language.calls_to(callees),
    }
}

/// Restricts calls to those that meet the conditions, if there are any.
pub(super) fn calls_with(language: Language, calls: String, conditions: &str) -> String {
    if conditions.is_empty() { calls } else { language.calls_with(calls, conditions) }
}

/// Formats a custom answer; empty if there is none.
pub(super) fn answer<'a>(
    language: Language,
    code: &str,
    headers: impl Iterator<Item = (&'a str, &'a str)>,
    body: &str,
) -> String {
    let code = (!code.is_empty()).then(|| language.code(quoted(code)));
    let body = (!body.is_empty()).then(|| language.body(quoted(body)));
    let headers = headers.map(|(name, value)| language.header(quoted(name), quoted(value)));
    let parts = code.into_iter().chain(body).chain(headers);
    joined(language, parts, |first, second| language.and(first, second))
}

/// Formats a percentage.
pub(super) fn percent(language: Language, percent: f64) -> String {
    if percent > 0.0 { language.percent(percent) } else { language.percent("< 0.01") }
}
