//! Planned routes as messages.

use prost_types::Duration;

use super::matchers;
use crate::model::mesh::Dialect;
use crate::model::mesh::plan::{Denominator, Fraction, PartMatch, PlannedRoute, TextMatch};
use crate::proto::envoy::config::core::v3::RuntimeFractionalPercent;
use crate::proto::envoy::config::route::v3 as route;
use crate::proto::envoy::r#type::matcher::v3::RegexMatcher;
use crate::proto::envoy::r#type::v3 as kinds;
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
    let mut headers: Vec<_> = planned.headers.iter().map(matchers::header).collect();
    let path = match &planned.path {
        None | Some(TextMatch::Present) => every_path(dialect),
        Some(TextMatch::Exact(path)) => PathSpecifier::Path(path.clone()),
        Some(TextMatch::Expression(expression)) => PathSpecifier::SafeRegex(regex(expression)),
        Some(other) => {
            headers.push(matchers::header(&PartMatch { name: PATH_HEADER.to_owned(), value: other.clone() }));
            every_path(dialect)
        }
    };
    route::RouteMatch {
        path_specifier: Some(path),
        headers,
        query_parameters: planned.query.iter().filter_map(matchers::query).collect(),
        runtime_fraction: planned.fraction.map(fraction_of),
    }
}

fn every_path(dialect: Dialect) -> PathSpecifier {
    PathSpecifier::Prefix(if dialect == Dialect::Envoy { "/" } else { "" }.to_owned())
}

fn regex(expression: &str) -> RegexMatcher {
    RegexMatcher { regex: expression.to_owned() }
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
