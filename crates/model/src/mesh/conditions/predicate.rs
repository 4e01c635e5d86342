//! Conditions on a text in a parsed form.

use crate::model::mesh::re2::{self, Pattern};
use crate::model::rule::matching::{MatchString, MatchType, Matcher, ValueType};

/// Condition on a text that is present.
#[derive(Debug)]
pub(super) enum TextPredicate<'a> {
    Always,
    Never,
    AnyOf(Vec<&'a str>),
    NoneOf(Vec<&'a str>),
    Found(Pattern),
    /// A whole number, both bounds included.
    Within(u64, u64),
}

impl<'a> TextPredicate<'a> {
    pub(super) fn of(condition: Option<&'a MatchString>) -> Result<Self, re2::Unfit> {
        let Some(condition) = condition.filter(|condition| !condition.is_open()) else {
            return Ok(TextPredicate::Always);
        };
        let value = condition.value.as_str();
        Ok(match (condition.value_type, condition.kind) {
            (ValueType::Parameter, _) => TextPredicate::Always,
            (ValueType::Text, MatchType::Exact) => TextPredicate::AnyOf(vec![value]),
            (ValueType::Text, MatchType::NotEquals) => TextPredicate::NoneOf(vec![value]),
            (ValueType::Text, MatchType::In) => TextPredicate::AnyOf(words(value)),
            (ValueType::Text, MatchType::NotIn) => TextPredicate::NoneOf(words(value)),
            (ValueType::Text, MatchType::Range) => match condition.matcher() {
                Matcher::Within(low, high) => TextPredicate::Within(low, high),
                _ => TextPredicate::Never,
            },
            (ValueType::Text, MatchType::Regex) => {
                let pattern = Pattern::parse(value)?;
                if pattern.is_always_found() { TextPredicate::Always } else { TextPredicate::Found(pattern) }
            }
        })
    }
}

/// Returns the distinct words in order.
fn words(list: &str) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    list.split(',').filter(|word| seen.insert(*word)).collect()
}

/// Returns an expression for the whole numbers from `low` to `high`, without leading zeros.
pub(super) fn digits(low: u64, high: u64) -> String {
    let lengths = low.to_string().len()..=high.to_string().len();
    let of_length = |length: usize| {
        let smallest = if length == 1 { 0 } else { 10_u64.pow(u32::try_from(length - 1).unwrap_or_default()) };
        let largest = smallest.saturating_mul(10).saturating_sub(1).max(9);
        let largest = if smallest == 10_000_000_000_000_000_000 { u64::MAX } else { largest };
        same_length(low.max(smallest).to_string().as_bytes(), high.min(largest).to_string().as_bytes())
    };
    lengths.map(of_length).collect::<Vec<_>>().join("|")
}

fn same_length(low: &[u8], high: &[u8]) -> String {
    let (Some((first, low_rest)), Some((last, high_rest))) = (low.split_first(), high.split_first()) else {
        return String::new();
    };
    let is_all = |text: &[u8], digit: u8| text.iter().all(|byte| *byte == digit);
    if first == last {
        return format!("{}{}", char::from(*first), grouped(same_length(low_rest, high_rest)));
    }
    let rest = low_rest.len();
    let mut alternatives = Vec::new();
    let (mut from, mut to) = (*first, *last);
    if !is_all(low_rest, b'0') {
        alternatives.push(format!("{}{}", char::from(from), grouped(same_length(low_rest, &vec![b'9'; rest]))));
        from += 1;
    }
    let upper = (!is_all(high_rest, b'9')).then(|| {
        let shown = char::from(to);
        to -= 1;
        format!("{shown}{}", grouped(same_length(&vec![b'0'; rest], high_rest)))
    });
    if from <= to {
        alternatives.push(format!("[{}-{}]{}", char::from(from), char::from(to), any_digits(rest)));
    }
    alternatives.extend(upper);
    alternatives.join("|")
}

fn any_digits(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "[0-9]".into(),
        _ => format!("[0-9]{{{count}}}"),
    }
}

fn grouped(expression: String) -> String {
    if expression.contains('|') { format!("(?:{expression})") } else { expression }
}
