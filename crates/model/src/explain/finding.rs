//! Evaluation of single conditions on a sketch, each with its reason.

use schemars::JsonSchema;
use serde::Serialize;

use super::sketch::{Sketch, named};
use crate::model::rule::matching::{ALL, MatchString, MatchType, ValueType};
use crate::model::rule::routing::TrafficMatchMode;
use crate::model::rule::traffic::{Api, Argument, ArgumentType, GRPC_VERB, HTTP_VERBS};

/// Result of one condition.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Finding<'a> {
    #[serde(rename = "type")]
    pub kind: ArgumentType,
    pub key: &'a str,
    pub condition: Option<&'a MatchString>,
    /// Value in the request.
    pub value: Option<&'a str>,
    pub matched: bool,
    pub info: String,
}

impl<'a> Finding<'a> {
    pub(crate) fn of<T>(argument: &'a Argument<T>, sketch: &'a Sketch) -> Self
    where
        T: Default + Copy + Into<ArgumentType>,
    {
        let (kind, key, condition) = (argument.kind.into(), argument.key.as_str(), argument.value.as_ref());
        let value = sketch.value(kind, key);
        let holds = |condition: &MatchString, value: &str| match kind {
            ArgumentType::Method if sketch.is_grpc_called => is_met_by_call(condition, sketch.grpc_method()),
            _ => holds(condition, value),
        };
        let matched = value.is_some_and(|value| condition.is_none_or(|condition| holds(condition, value)));
        let part = named(kind, key);
        let info = match (value, condition) {
            (None, _) => format!("the request has no {part}"),
            (Some(value), None) => format!("{part} is {value}, and it is enough that it is there"),
            (Some(value), Some(condition)) => {
                let verdict = if matched { "meets" } else { "does not meet" };
                format!("{part} is {value}: {verdict} {}", condition.summary())
            }
        };
        Finding { kind, key, condition, value, matched, info }
    }
}

/// Evaluates a condition; clients treat an empty value as `*`.
fn holds(condition: &MatchString, value: &str) -> bool {
    condition.is_open() || condition.matches(value)
}

/// Evaluates a condition on the method of a gRPC call: HTTP verbs among its words are compared with POST, the verb of
/// every call, and all other words with the name of the method.
fn is_met_by_call(condition: &MatchString, name: Option<&str>) -> bool {
    let name = name.unwrap_or_default();
    let value = condition.value.as_str();
    if condition.is_open() || condition.value_type == ValueType::Parameter {
        return true;
    }
    let is_word = |word: &str| if HTTP_VERBS.contains(&word) { word == GRPC_VERB } else { word == name };
    match condition.kind {
        MatchType::Exact => is_word(value),
        MatchType::NotEquals => !is_word(value),
        MatchType::In => value.split(',').any(is_word),
        MatchType::NotIn => !value.split(',').any(is_word),
        MatchType::Regex | MatchType::Range => condition.matches(name),
    }
}

/// Returns the reason why a list of conditions does not match; `None` if it does.
pub(crate) fn objection(mode: TrafficMatchMode, findings: &[Finding<'_>]) -> Option<String> {
    let mut failed = findings.iter().filter(|finding| !finding.matched);
    match mode {
        TrafficMatchMode::And => failed.next().map(|finding| finding.info.clone()),
        TrafficMatchMode::Or if !findings.is_empty() && failed.count() == findings.len() => {
            Some("none of the conditions holds".into())
        }
        TrafficMatchMode::Or => None,
    }
}

/// An interface of a service, and whether the request matches it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiFinding<'a> {
    #[serde(flatten)]
    pub api: &'a Api,
    pub matched: bool,
}

impl<'a> ApiFinding<'a> {
    pub(crate) fn of(api: &'a Api, sketch: &Sketch) -> Self {
        let protocol = sketch.protocol.as_deref().unwrap_or_default();
        let matched = (is_all(&api.protocol) || api.protocol.eq_ignore_ascii_case(protocol))
            && (is_all(&api.method) || is_method(&api.method, sketch))
            && is_met(api.path.as_ref(), sketch.path.as_deref());
        ApiFinding { api, matched }
    }
}

fn is_method(name: &str, sketch: &Sketch) -> bool {
    match sketch.is_grpc_called {
        true if HTTP_VERBS.contains(&name) => name == GRPC_VERB,
        true => sketch.grpc_method() == Some(name),
        false => sketch.method.as_deref() == Some(name),
    }
}

fn is_all(name: &str) -> bool {
    name.is_empty() || name == ALL
}

/// Evaluates a condition that also matches an absent value if it is open.
pub(crate) fn is_met(condition: Option<&MatchString>, value: Option<&str>) -> bool {
    condition.is_none_or(|condition| condition.is_open() || value.is_some_and(|value| condition.matches(value)))
}
