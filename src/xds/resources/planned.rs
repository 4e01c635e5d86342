//! Conversion of planned routes to messages.

use prost_types::Duration;

use super::matchers;
use crate::model::mesh::Dialect;
use crate::model::mesh::plan::{Abilities, Denominator, Fraction, PATH_HEADER, PartMatch, PlannedRoute, TextMatch};
use crate::proto::envoy::config::core::v3::RuntimeFractionalPercent;
use crate::proto::envoy::config::route::v3 as route;
use crate::proto::envoy::r#type::matcher::v3::RegexMatcher;
use crate::proto::envoy::r#type::v3 as kinds;
use route::route_match::PathSpecifier;

/// A cluster with its weight in a route.
pub(super) struct Weighted {
    pub(super) cluster: String,
    pub(super) weight: u32,
}

/// Returns a route of all requests to a cluster.
pub(super) fn to_cluster(cluster: String, dialect: Dialect) -> route::Route {
    let action = action_of(vec![Weighted { cluster, weight: 1 }], dialect);
    let r#match = Some(route::RouteMatch { path_specifier: Some(every_path(dialect)), ..Default::default() });
    route::Route { r#match, action: Some(route::route::Action::Route(action)), ..Default::default() }
}

/// Returns a planned route to clusters.
pub(super) fn to_clusters(
    planned: &PlannedRoute<'_>,
    name: String,
    clusters: Vec<Weighted>,
    to: Abilities,
) -> route::Route {
    let action = Some(route::route::Action::Route(action_of(clusters, to.dialect)));
    route::Route { name, r#match: Some(match_of(planned, to)), action, ..Default::default() }
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
    // Without it, proxies end every request after 15 s.
    let timeout = (dialect == Dialect::Envoy).then(Duration::default);
    route::RouteAction { cluster_specifier: Some(specifier), timeout, ..Default::default() }
}

fn match_of(planned: &PlannedRoute<'_>, to: Abilities) -> route::RouteMatch {
    let mut headers = matchers::headers(&planned.headers, to);
    let path = match &planned.path {
        None | Some(TextMatch::Present) => every_path(to.dialect),
        Some(TextMatch::Exact(path)) => PathSpecifier::Path(path.clone()),
        Some(TextMatch::Expression(expression)) => PathSpecifier::SafeRegex(regex(expression)),
        Some(other) => {
            let part = PartMatch { name: PATH_HEADER.to_owned(), value: other.clone() };
            headers.extend(matchers::headers(&[part], to));
            every_path(to.dialect)
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
