//! Routing rules of the policy for near instances.

use prost::{Message, Name};

use crate::AskedService;
use crate::loss::Loss;
use crate::model::rule::routing::{LocationLevel, RoutePolicy, RoutingConfig};
use crate::model::rule::{Body, Rule};
use crate::revision;
use crate::v1;
use crate::v1::nearby_routing_config::LocationLevel as Level;
use crate::v1::route_rule::RoutingPolicy;

/// Returns the rules of the policy, for one service.
pub(crate) fn rules(rules: &[&Rule], asked: AskedService<'_>) -> Vec<v1::RouteRule> {
    let enabled = rules.iter().filter(|rule| rule.enable);
    enabled.filter_map(|rule| near(rule).map(|config| route_rule(rule, config, asked))).collect()
}

fn near(rule: &Rule) -> Option<&RoutingConfig> {
    match &rule.body {
        Body::Routing(routing) if routing.route_policy == RoutePolicy::Nearby => Some(&routing.routing_config),
        _ => None,
    }
}

/// Returns the losses of a rule by its policy; `None` for custom routes and other families.
pub(crate) fn losses(rule: &Rule) -> Option<(Vec<Loss>, bool)> {
    let Body::Routing(routing) = &rule.body else { return None };
    match routing.route_policy {
        RoutePolicy::Rule => None,
        RoutePolicy::Metadata => {
            let why = "SDKs route by the metadata that a request names, not by a rule of MetadataPolicy";
            Some((vec![Loss::left_out(9, why)], false))
        }
        RoutePolicy::Nearby => {
            let why =
                "Go switches to near instances, with the levels of its own file; Java 1.15 does not read the rule";
            Some((vec![Loss::approximate(10, why)], true))
        }
    }
}

fn route_rule(rule: &Rule, config: &RoutingConfig, asked: AskedService<'_>) -> v1::RouteRule {
    let near = v1::NearbyRoutingConfig {
        service: asked.service.to_owned(),
        namespace: asked.namespace.to_owned(),
        match_level: level(config.match_level).into(),
        max_match_level: level(config.max_match_level).into(),
        strict_nearby: config.strict_nearby.unwrap_or_default(),
    };
    let routing_config = prost_types::Any {
        type_url: format!("type.googleapis.com/{}", v1::NearbyRoutingConfig::full_name()),
        value: near.encode_to_vec(),
    };
    let mapped = v1::RouteRule {
        id: rule.id.clone(),
        name: rule.name.clone(),
        namespace: rule.namespace.clone(),
        enable: true,
        routing_policy: RoutingPolicy::NearbyPolicy.into(),
        routing_config: Some(routing_config),
        priority: rule.priority,
        description: rule.description.clone(),
        revision: String::new(),
    };
    v1::RouteRule { revision: revision::of_message(&mapped), ..mapped }
}

fn level(level: Option<LocationLevel>) -> Level {
    match level.unwrap_or_default() {
        LocationLevel::Unknown => Level::Unknown,
        LocationLevel::Campus => Level::Campus,
        LocationLevel::Zone => Level::Zone,
        LocationLevel::Region => Level::Region,
        LocationLevel::All => Level::All,
    }
}

#[cfg(test)]
mod tests;
