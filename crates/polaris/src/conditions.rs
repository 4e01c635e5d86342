//! Conditions on values, and the names of the parts of a request as SDKs know them.

use crate::model::rule::matching::{ALL, MatchString, MatchType, ValueType};
use crate::model::rule::traffic::{Api, ArgumentType};
use crate::v1;
use crate::v1::match_string::MatchStringType;

/// Returns the condition that every present value meets.
pub(crate) fn any() -> v1::MatchString {
    exact(ALL)
}

pub(crate) fn exact(value: &str) -> v1::MatchString {
    v1::MatchString { r#type: MatchStringType::Exact.into(), value: Some(value.to_owned()), value_type: 0 }
}

/// Maps a condition. An open one, and one that takes over the value, are met by every value.
pub(crate) fn condition(given: &MatchString) -> v1::MatchString {
    if given.is_open() || given.value_type == ValueType::Parameter {
        return any();
    }
    v1::MatchString { r#type: kind(given.kind).into(), value: Some(given.value.clone()), value_type: 0 }
}

/// Maps an optional condition; an absent one is met by every value.
pub(crate) fn condition_or_any(given: Option<&MatchString>) -> v1::MatchString {
    given.map_or_else(any, condition)
}

fn kind(kind: MatchType) -> MatchStringType {
    match kind {
        MatchType::Exact => MatchStringType::Exact,
        MatchType::Regex => MatchStringType::Regex,
        MatchType::NotEquals => MatchStringType::NotEquals,
        MatchType::In => MatchStringType::In,
        MatchType::NotIn => MatchStringType::NotIn,
        MatchType::Range => MatchStringType::Range,
    }
}

/// Returns the key under which SDKs keep the value of a part of the request; `None` for the caller, which is no label.
pub(crate) fn label_key(kind: ArgumentType, key: &str) -> Option<String> {
    Some(match kind {
        ArgumentType::Custom => key.to_owned(),
        ArgumentType::Method => "$method".to_owned(),
        ArgumentType::Path => "$path".to_owned(),
        ArgumentType::CallerIp => "$caller_ip".to_owned(),
        ArgumentType::Header => format!("$header.{key}"),
        ArgumentType::Query => format!("$query.{key}"),
        ArgumentType::Cookie => format!("$cookie.{key}"),
        ArgumentType::CallerMetadata => format!("$caller_metadata.{key}"),
        ArgumentType::CallerService => return None,
    })
}

/// Returns a name, or `*` for an empty one.
pub(crate) fn or_all(name: &str) -> &str {
    if name.is_empty() { ALL } else { name }
}

/// Maps an interface; absent parts are `*`.
pub(crate) fn api(given: Option<&Api>) -> v1::Api {
    let empty = Api::default();
    let given = given.unwrap_or(&empty);
    v1::Api {
        protocol: or_all(&given.protocol).to_owned(),
        method: or_all(&given.method).to_owned(),
        path: Some(condition_or_any(given.path.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(kind: MatchType, value: &str, value_type: ValueType) -> MatchString {
        MatchString { kind, value: value.to_owned(), value_type }
    }

    #[test]
    fn conditions_have_polaris_numbers() {
        let text = |kind, value| condition(&given(kind, value, ValueType::Text));
        let table = [
            (MatchType::Exact, 0),
            (MatchType::Regex, 1),
            (MatchType::NotEquals, 2),
            (MatchType::In, 3),
            (MatchType::NotIn, 4),
            (MatchType::Range, 5),
        ];
        for (kind, number) in table {
            let mapped = text(kind, "1~2");
            assert_eq!((mapped.r#type, mapped.value.as_deref(), mapped.value_type), (number, Some("1~2"), 0));
        }
        assert_eq!(text(MatchType::Exact, ""), any());
        assert_eq!(text(MatchType::Exact, "*"), any());
        assert_eq!(condition(&given(MatchType::Regex, "p", ValueType::Parameter)), any());
        assert_eq!(condition_or_any(None), any());
    }

    #[test]
    fn parts_of_a_request_have_the_keys_of_sdks() {
        let table = [
            (ArgumentType::Custom, Some("k")),
            (ArgumentType::Method, Some("$method")),
            (ArgumentType::Header, Some("$header.k")),
            (ArgumentType::Query, Some("$query.k")),
            (ArgumentType::CallerIp, Some("$caller_ip")),
            (ArgumentType::Path, Some("$path")),
            (ArgumentType::Cookie, Some("$cookie.k")),
            (ArgumentType::CallerMetadata, Some("$caller_metadata.k")),
            (ArgumentType::CallerService, None),
        ];
        for (kind, key) in table {
            assert_eq!(label_key(kind, "k").as_deref(), key);
        }
    }
}
