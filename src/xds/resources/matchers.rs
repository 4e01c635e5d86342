//! Matchers of headers and query parameters.

use crate::model::mesh::Dialect;
use crate::model::mesh::library::Traits;
use crate::model::mesh::plan::{Abilities, PartMatch, TextMatch};
use crate::proto::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use crate::proto::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use crate::proto::envoy::config::route::v3::{HeaderMatcher, QueryParameterMatcher};
use crate::proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use crate::proto::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use crate::proto::envoy::r#type::v3::Int64Range;

/// Returns the matchers of headers. An inverted matcher is accompanied by one that requires the header, because some
/// clients accept a request without the header.
pub(super) fn headers(parts: &[PartMatch], to: Abilities) -> Vec<HeaderMatcher> {
    let traits = (to.dialect == Dialect::Grpc).then_some(to.library.traits());
    let mut matchers: Vec<HeaderMatcher> = Vec::with_capacity(parts.len());
    for part in parts {
        let matcher = header(part, traits);
        if matcher.invert_match {
            let present = header(&PartMatch { name: part.name.clone(), value: TextMatch::Present }, traits);
            if !matchers.contains(&present) {
                matchers.push(present);
            }
        }
        matchers.push(matcher);
    }
    matchers
}

/// Returns the matcher of a header, adapted to a gRPC library; `library` is `None` for Envoy.
pub(super) fn header(part: &PartMatch, library: Option<&Traits>) -> HeaderMatcher {
    let has = |of: fn(&Traits) -> bool| library.is_some_and(of);
    let specifier = match &part.value {
        TextMatch::Present if has(|one| one.needs_presence_as_expression) => {
            HeaderMatchSpecifier::StringMatch(regex(".*"))
        }
        TextMatch::Present => HeaderMatchSpecifier::PresentMatch(true),
        TextMatch::Exact(text) | TextMatch::Not(text) => HeaderMatchSpecifier::StringMatch(exact(text)),
        TextMatch::Expression(expression) | TextMatch::NotExpression(expression) => {
            HeaderMatchSpecifier::StringMatch(regex(expression))
        }
        TextMatch::Range(start, end) => {
            let end = *end - i64::from(has(|one| one.includes_range_end));
            HeaderMatchSpecifier::RangeMatch(Int64Range { start: *start, end })
        }
    };
    let invert_match = matches!(part.value, TextMatch::Not(_) | TextMatch::NotExpression(_));
    HeaderMatcher { name: part.name.clone(), header_match_specifier: Some(specifier), invert_match }
}

/// Returns the matcher of a query parameter, or `None` if proxies do not support the comparison.
pub(super) fn query(part: &PartMatch) -> Option<QueryParameterMatcher> {
    let specifier = match &part.value {
        TextMatch::Present => QueryParameterMatchSpecifier::PresentMatch(true),
        TextMatch::Exact(text) => QueryParameterMatchSpecifier::StringMatch(exact(text)),
        TextMatch::Expression(expression) => QueryParameterMatchSpecifier::StringMatch(regex(expression)),
        TextMatch::Not(_) | TextMatch::NotExpression(_) | TextMatch::Range(..) => return None,
    };
    Some(QueryParameterMatcher { name: part.name.clone(), query_parameter_match_specifier: Some(specifier) })
}

fn exact(text: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::Exact(text.to_owned())), ignore_case: false }
}

fn regex(expression: &str) -> StringMatcher {
    let regex = RegexMatcher { regex: expression.to_owned() };
    StringMatcher { match_pattern: Some(MatchPattern::SafeRegex(regex)), ignore_case: false }
}
