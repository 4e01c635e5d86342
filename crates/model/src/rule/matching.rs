//! Conditions on a value: `MatchString` of the specification, and its evaluation.

use std::sync::atomic::AtomicUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expression::{Expression, KeptExpression};
use super::fault::Fault;
use crate::model::wire::{Words, wire_enum};

wire_enum! {
    /// Comparison of a value.
    pub enum MatchType {
        /// Equal; `*` matches everything.
        Exact = "EXACT",
        /// Expression that is found in the value; `^` and `$` anchor it.
        Regex = "REGEX",
        NotEquals = "NOT_EQUALS",
        /// One of the comma-separated values.
        In = "IN",
        /// None of the comma-separated values.
        NotIn = "NOT_IN",
        /// Whole number within `low~high`, both included.
        Range = "RANGE",
    }
}

wire_enum! {
    /// Meaning of the value of a condition.
    pub enum ValueType {
        /// Text to compare with.
        Text = "TEXT",
        /// Name for the value in the request: the condition always matches a present value, and a destination label
        /// with this name takes that value.
        Parameter = "PARAMETER",
    }
}

/// A condition on a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MatchString {
    #[serde(rename = "type")]
    pub kind: MatchType,
    pub value: String,
    #[serde(alias = "valueType")]
    pub value_type: ValueType,
}

impl MatchString {
    /// Refuses a condition that cannot be evaluated: an expression that does not compile (in linear time, so without
    /// look-around and back-references), or an invalid range.
    pub fn check(&self) -> Result<(), Fault> {
        match (self.value_type, self.kind) {
            (ValueType::Parameter, _) => Ok(()),
            (ValueType::Text, MatchType::Regex) => Expression::compile(&self.value).map(drop),
            (ValueType::Text, MatchType::Range) if range(&self.value).is_none() => {
                Err(Fault::new("value", "has to be a range low~high of whole numbers from 0 on, low not above high"))
            }
            (ValueType::Text, _) => Ok(()),
        }
    }

    /// Returns the expression, if the condition has one.
    pub fn expression(&self) -> Option<&str> {
        let is_matched = (self.value_type, self.kind) == (ValueType::Text, MatchType::Regex);
        is_matched.then_some(self.value.as_str())
    }

    /// Returns an owned form for evaluating many values. An expression larger than `bytes_left` is compiled for each
    /// value; otherwise its size is subtracted from that.
    pub fn owned_matcher(&self, bytes_left: &mut usize) -> OwnedMatcher {
        if let Some(expression) = self.expression().and_then(|expression| Expression::compile(expression).ok())
            && let Some(left) = bytes_left.checked_sub(expression.bytes())
        {
            *bytes_left = left;
            return OwnedMatcher::Found(expression.kept());
        }
        OwnedMatcher::Plain(self.clone())
    }

    /// Returns a form for evaluating many values.
    pub fn matcher(&self) -> Matcher<'_> {
        let value = self.value.as_str();
        match (self.value_type, self.kind) {
            (ValueType::Parameter, _) => Matcher::All,
            (ValueType::Text, MatchType::Exact) if value == ALL => Matcher::All,
            (ValueType::Text, MatchType::Exact) => Matcher::Equal(value),
            (ValueType::Text, MatchType::NotEquals) => Matcher::Not(value),
            (ValueType::Text, MatchType::In) => Matcher::AnyOf(value.split(',').collect()),
            (ValueType::Text, MatchType::NotIn) => Matcher::NoneOf(value.split(',').collect()),
            (ValueType::Text, MatchType::Regex) => Expression::compile(value).map_or(Matcher::Nothing, Matcher::Found),
            (ValueType::Text, MatchType::Range) => {
                range(value).map_or(Matcher::Nothing, |(low, high)| Matcher::Within(low, high))
            }
        }
    }

    pub fn matches(&self, value: &str) -> bool {
        self.matcher().matches(value)
    }

    /// Reports whether every value meets the condition, as if it were absent.
    pub fn is_open(&self) -> bool {
        self.value_type == ValueType::Text
            && self.kind == MatchType::Exact
            && (self.value.is_empty() || self.value == ALL)
    }

    /// Formats the condition for display, as `EXACT GET`.
    pub fn summary(&self) -> String {
        match self.value_type {
            ValueType::Text => format!("{} {}", self.kind.word(), self.value),
            ValueType::Parameter => format!("any value, as {}", self.value),
        }
    }
}

/// Pattern that matches every value.
pub const ALL: &str = "*";

/// A prepared condition.
#[derive(Debug)]
pub enum Matcher<'a> {
    All,
    Nothing,
    Equal(&'a str),
    Not(&'a str),
    AnyOf(Vec<&'a str>),
    NoneOf(Vec<&'a str>),
    Found(Expression),
    Within(u64, u64),
}

/// An owned prepared condition: expressions are compiled, others are unchanged.
#[derive(Debug)]
pub enum OwnedMatcher {
    Found(KeptExpression),
    Plain(MatchString),
}

impl OwnedMatcher {
    /// Evaluates the condition. `idle_bytes` is the idle working memory of all conditions with a common bound.
    pub fn matches(&self, value: &str, idle_bytes: &AtomicUsize) -> bool {
        match self {
            OwnedMatcher::Found(expression) => expression.is_found_in(value, idle_bytes),
            OwnedMatcher::Plain(condition) => condition.matches(value),
        }
    }
}

impl Matcher<'_> {
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Nothing => false,
            Matcher::Equal(wanted) => value == *wanted,
            Matcher::Not(unwanted) => value != *unwanted,
            Matcher::AnyOf(wanted) => wanted.contains(&value),
            Matcher::NoneOf(unwanted) => !unwanted.contains(&value),
            Matcher::Found(expression) => expression.is_found_in(value),
            Matcher::Within(low, high) => value.parse().is_ok_and(|number: u64| (*low..=*high).contains(&number)),
        }
    }
}

fn range(text: &str) -> Option<(u64, u64)> {
    let (low, high) = text.split_once('~')?;
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::limits;

    fn condition(kind: MatchType, value: &str) -> MatchString {
        MatchString { kind, value: value.into(), value_type: ValueType::Text }
    }

    #[test]
    fn the_six_ways_to_match() {
        use MatchType::*;
        let rows = [
            (Exact, "a", "a", true),
            (Exact, "a", "A", false),
            (Exact, "*", "anything", true),
            (Exact, "", "a", false),
            (NotEquals, "a", "b", true),
            (NotEquals, "a", "a", false),
            (In, "a,b", "b", true),
            (In, "a,b", "a,b", false),
            (In, "a, b", "b", false),
            (NotIn, "a,b", "c", true),
            (NotIn, "a,b", "a", false),
            (Regex, "^/api/v[0-9]+$", "/api/v12", true),
            (Regex, "^/api/v[0-9]+$", "/api/v12/x", false),
            (Regex, "v[0-9]", "/api/v12/x", true),
            (Regex, "(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", false),
            (Range, "1~5", "1", true),
            (Range, "1~5", "5", true),
            (Range, "1~5", "6", false),
            (Range, "1~5", "three", false),
            (Range, "1~5", "-1", false),
        ];
        for (kind, value, actual, expected) in rows {
            assert_eq!(condition(kind, value).matches(actual), expected, "{kind:?} {value} on {actual}");
        }
        let parameter = MatchString { value_type: ValueType::Parameter, ..condition(Exact, "env") };
        assert!(parameter.matches("whatever"));
    }

    #[test]
    fn what_cannot_be_judged_is_refused() {
        let long = "a".repeat(limits::REGEX_BYTES_MAX + 1);
        for expression in ["(", "(?=a)b", "(?<=a)b", r"(a)\1", "a{1000}{1000}", long.as_str()] {
            assert!(condition(MatchType::Regex, expression).check().is_err(), "{expression:.20}");
        }
        for range in ["5~1", "abc", "1~", "~1", "-5~1", "1-5", "", "1~2~3", "1~99999999999999999999"] {
            assert!(condition(MatchType::Range, range).check().is_err(), "{range}");
        }
        for (kind, value) in
            [(MatchType::Range, "1~1"), (MatchType::Regex, ".*"), (MatchType::In, ""), (MatchType::Exact, "")]
        {
            assert_eq!(condition(kind, value).check(), Ok(()), "{value}");
        }
    }
}
