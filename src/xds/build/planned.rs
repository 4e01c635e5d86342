//! Planned routes as messages.

use prost_types::Duration;

use crate::model::mesh::Dialect;
use crate::model::mesh::plan::{Denominator, Fraction, PartMatch, PlannedRoute, TextMatch};
use crate::proto::envoy::config::core::v3::RuntimeFractionalPercent;
use crate::proto::envoy::config::route::v3 as route;
use crate::proto::envoy::r#type::matcher::v3 as matcher;
use crate::proto::envoy::r#type::v3 as kinds;
use header_match::HeaderMatchSpecifier;
use route::header_matcher as header_match;
use route::query_parameter_matcher::QueryParameterMatchSpecifier;
use route::route_match::PathSpecifier;

/// Status of a request to which no instance answers.
const UNAVAILABLE: u32 = 503;
const PATH_HEADER: &str = ":path";

/// A cluster with its weight among those of a route.
pub(super) struct Weighted {
    pub(super) cluster: String,
    pub(super) weight: u32,
}

/// A route of every request to a cluster.
pub(super) fn to_cluster(cluster: String, dialect: Dialect) -> route::Route {
    let action = action_of(vec![Weighted { cluster, weight: 1 }], dialect);
    let r#match = Some(route::RouteMatch { path_specifier: Some(every_path(dialect)), ..Default::default() });
    route::Route { r#match, action: Some(route::route::Action::Route(action)), ..Default::default() }
}

/// A planned route to clusters.
pub(super) fn to_clusters(
    planned: &PlannedRoute<'_>,
    name: String,
    clusters: Vec<Weighted>,
    dialect: Dialect,
) -> route::Route {
    let action = Some(route::route::Action::Route(action_of(clusters, dialect)));
    route::Route { name, r#match: Some(match_of(planned, dialect)), action, ..Default::default() }
}

/// A planned route for which there is no instance: a request that comes here fails, with any client.
pub(super) fn to_nowhere(planned: &PlannedRoute<'_>, name: String, dialect: Dialect) -> route::Route {
    let response = route::DirectResponseAction { status: UNAVAILABLE };
    let action = Some(route::route::Action::DirectResponse(response));
    route::Route { name, r#match: Some(match_of(planned, dialect)), action, ..Default::default() }
}

fn action_of(mut clusters: Vec<Weighted>, dialect: Dialect) -> route::RouteAction {
    use route::route_action::ClusterSpecifier;
    let specifier = match clusters.len() {
        1 => ClusterSpecifier::Cluster(clusters.remove(0).cluster),
        _ => {
            let weighted = |Weighted { cluster, weight }| route::weighted_cluster::ClusterWeight {
                name: cluster,
                weight: Some(weight),
            };
            let clusters = clusters.into_iter().map(weighted).collect();
            ClusterSpecifier::WeightedClusters(route::WeightedCluster { clusters })
        }
    };
    // Proxies would end every request after 15 s.
    let timeout = (dialect == Dialect::Envoy).then(Duration::default);
    route::RouteAction { cluster_specifier: Some(specifier), timeout, ..Default::default() }
}

fn match_of(planned: &PlannedRoute<'_>, dialect: Dialect) -> route::RouteMatch {
    let mut headers: Vec<_> = planned.headers.iter().map(header_of).collect();
    let path = match &planned.path {
        None | Some(TextMatch::Present) => every_path(dialect),
        Some(TextMatch::Exact(path)) => PathSpecifier::Path(path.clone()),
        Some(TextMatch::Expression(expression)) => PathSpecifier::SafeRegex(regex(expression)),
        Some(other) => {
            headers.push(header_of(&PartMatch { name: PATH_HEADER.to_owned(), value: other.clone() }));
            every_path(dialect)
        }
    };
    route::RouteMatch {
        path_specifier: Some(path),
        headers,
        query_parameters: planned.query.iter().map(query_of).collect(),
        runtime_fraction: planned.fraction.map(fraction_of),
    }
}

fn every_path(dialect: Dialect) -> PathSpecifier {
    PathSpecifier::Prefix(if dialect == Dialect::Envoy { "/" } else { "" }.to_owned())
}

/// A matcher of a header; an absent one never matches.
pub(super) fn header_of(part: &PartMatch) -> route::HeaderMatcher {
    let specifier = match &part.value {
        TextMatch::Present => HeaderMatchSpecifier::PresentMatch(true),
        TextMatch::Range(start, end) => {
            HeaderMatchSpecifier::RangeMatch(kinds::Int64Range { start: *start, end: *end })
        }
        TextMatch::Exact(text) | TextMatch::Not(text) => HeaderMatchSpecifier::StringMatch(exact(text)),
        TextMatch::Expression(text) | TextMatch::NotExpression(text) => {
            HeaderMatchSpecifier::StringMatch(expression(text))
        }
    };
    route::HeaderMatcher {
        name: part.name.clone(),
        invert_match: matches!(part.value, TextMatch::Not(_) | TextMatch::NotExpression(_)),
        header_match_specifier: Some(specifier),
    }
}

/// A matcher of a query parameter. None of them is inverted or of numbers: those are conditions on the path.
pub(super) fn query_of(part: &PartMatch) -> route::QueryParameterMatcher {
    let specifier = match &part.value {
        TextMatch::Exact(text) => QueryParameterMatchSpecifier::StringMatch(exact(text)),
        TextMatch::Expression(text) => QueryParameterMatchSpecifier::StringMatch(expression(text)),
        TextMatch::Present | TextMatch::Not(_) | TextMatch::NotExpression(_) | TextMatch::Range(..) => {
            QueryParameterMatchSpecifier::PresentMatch(true)
        }
    };
    route::QueryParameterMatcher { name: part.name.clone(), query_parameter_match_specifier: Some(specifier) }
}

fn exact(text: &str) -> matcher::StringMatcher {
    let match_pattern = Some(matcher::string_matcher::MatchPattern::Exact(text.to_owned()));
    matcher::StringMatcher { match_pattern, ignore_case: false }
}

fn expression(text: &str) -> matcher::StringMatcher {
    let match_pattern = Some(matcher::string_matcher::MatchPattern::SafeRegex(regex(text)));
    matcher::StringMatcher { match_pattern, ignore_case: false }
}

fn regex(expression: &str) -> matcher::RegexMatcher {
    matcher::RegexMatcher { regex: expression.to_owned() }
}

fn fraction_of(fraction: Fraction) -> RuntimeFractionalPercent {
    use kinds::fractional_percent::DenominatorType;
    let denominator = match fraction.denominator {
        Denominator::Hundred => DenominatorType::Hundred,
        Denominator::TenThousand => DenominatorType::TenThousand,
        Denominator::Million => DenominatorType::Million,
    };
    let value = kinds::FractionalPercent { numerator: fraction.numerator, denominator: denominator.into() };
    RuntimeFractionalPercent { default_value: Some(value) }
}
