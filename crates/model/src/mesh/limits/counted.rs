//! Parts of a request whose values have separate counters, as in the explanation of a limit.

use super::not_carried;
use crate::model::mesh::plan::Abilities;
use crate::model::mesh::warning::Warning;
use crate::model::rule::matching::{MatchString, MatchType, ValueType};
use crate::model::rule::rate_limit::LimitTrigger;
use crate::model::rule::traffic::ArgumentType;

/// A part of a request with a counter per value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Name in lower case.
    Header(String),
    Query(String),
    /// Path without the query.
    Path,
}

const METHOD_HEADER: &str = ":method";

/// Returns the parts with separate counters of a limit; those of caller addresses follow from their conditions.
pub(super) fn of(trigger: &LimitTrigger, place: &str, to: Abilities) -> Result<Vec<Counted>, Warning> {
    if trigger.regex_combine {
        return Ok(Vec::new());
    }
    let mut counted = Vec::new();
    for argument in trigger.arguments.iter().filter(|argument| admits_many(argument.value.as_ref())) {
        match argument.kind.into() {
            ArgumentType::Header => counted.push(Counted::Header(argument.key.to_ascii_lowercase())),
            ArgumentType::Query => counted.push(Counted::Query(argument.key.clone())),
            ArgumentType::Path => counted.push(Counted::Path),
            ArgumentType::Method => counted.push(of_method(argument.value.as_ref(), to)),
            ArgumentType::Cookie => {
                return Err(not_carried(place, &format!("a counter for each value of cookie {}", argument.key)));
            }
            ArgumentType::CallerIp
            | ArgumentType::Custom
            | ArgumentType::CallerMetadata
            | ArgumentType::CallerService => {}
        }
    }
    counted.sort();
    counted.dedup();
    Ok(counted)
}

/// Returns the part for a method; that of a gRPC call is the end of the path.
fn of_method(condition: Option<&MatchString>, to: Abilities) -> Counted {
    let is_open = condition.is_none_or(MatchString::is_open);
    if is_open || !to.is_callee_grpc { Counted::Header(METHOD_HEADER.into()) } else { Counted::Path }
}

/// Reports whether several values meet the condition.
pub(super) fn admits_many(condition: Option<&MatchString>) -> bool {
    condition.is_none_or(|condition| {
        condition.is_open() || condition.kind != MatchType::Exact || condition.value_type == ValueType::Parameter
    })
}
