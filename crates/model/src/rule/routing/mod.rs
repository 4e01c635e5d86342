//! Routing: the instances of a service to which a request is sent. Specification, "RouteRule".

mod explain;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, each, filled_keys, within_range};
use super::matching::MatchString;
use super::shape::{EndRole, Shape, drop_default, shape};
use super::traffic::{Argument, ArgumentType, ServiceKey};
use crate::model::draft::sparse;
use crate::model::wire::{Uint32, Words, wire_enum};

pub use explain::{Labels, Nearness, Route};

/// Highest priority number of destination groups; 0 is used first.
const DESTINATION_PRIORITY_MAX: u32 = 9;
const PERCENT_MAX: u32 = 100;

wire_enum! {
    /// Interpretation of `routing_config`.
    pub enum RoutePolicy {
        /// Custom route: conditions on the request, groups of destinations.
        Rule = "RulePolicy",
        /// Route by metadata.
        Metadata = "MetadataPolicy",
        /// Route to the nearest instances.
        Nearby = "NearbyPolicy",
    }
}

wire_enum! {
    /// Combination of conditions: all must hold, or one.
    pub enum TrafficMatchMode { And = "AND", Or = "OR" }
}

wire_enum! {
    /// Instances to choose from if the metadata matches none.
    pub enum FailoverRange { All = "ALL", Others = "OTHERS", OtherKeys = "OTHER_KEYS" }
}

wire_enum! {
    /// Level of proximity.
    pub enum LocationLevel { Unknown = "UNKNOWN", Campus = "CAMPUS", Zone = "ZONE", Region = "REGION", All = "ALL" }
}

shape! {
    pub struct Routing / RoutingPatch {
        written {
            #[serde(alias = "routePolicy", alias = "routing_policy")]
            route_policy: RoutePolicy,
            #[serde(alias = "routingConfig")]
            routing_config: RoutingConfig,
        }
        optional {}
    }
}

sparse! {
    /// Configuration for all three policies. The policy determines which fields are allowed: absent ones get their
    /// defaults, and those of another policy are refused.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct RoutingConfig {
        /// Name of the message in protobuf's JSON, stored as sent.
        #[serde(rename = "@type")]
        pub type_url: Option<String>,
        /// RulePolicy; deprecated, stored for older servers.
        pub caller: Option<ServiceKey>,
        /// RulePolicy; deprecated, stored for older servers.
        pub callee: Option<ServiceKey>,
        /// RulePolicy: sub-rules, the first of which matches applies.
        pub rules: Option<Vec<CustomRouteRule>>,
        /// MetadataPolicy and NearbyPolicy: called service; `*` for all.
        pub service: Option<String>,
        /// MetadataPolicy and NearbyPolicy: namespace of the called service.
        pub namespace: Option<String>,
        /// MetadataPolicy: labels that instances must have.
        pub labels: Option<BTreeMap<String, String>>,
        /// MetadataPolicy: alternative if the labels match no instance.
        pub failover: Option<MetadataFailover>,
        /// NearbyPolicy: level to start with.
        #[serde(alias = "matchLevel")]
        pub match_level: Option<LocationLevel>,
        /// NearbyPolicy: level to end with.
        #[serde(alias = "maxMatchLevel")]
        pub max_match_level: Option<LocationLevel>,
        /// NearbyPolicy: true if requests never leave the nearest level.
        #[serde(alias = "strictNearby")]
        pub strict_nearby: Option<bool>,
    }
}

/// One sub-rule of a custom route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CustomRouteRule {
    pub name: String,
    pub arguments: TrafficMatchRule,
    pub destinations: Vec<DestinationGroup>,
}

/// Traffic to which a sub-rule applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrafficMatchRule {
    pub arguments: Vec<Argument<ArgumentType>>,
    /// Percentage of the matching traffic that the sub-rule takes: 1 to 100.
    #[serde(alias = "randomPercent")]
    pub random_percent: Uint32,
    #[serde(rename = "matchMode", alias = "match_mode")]
    pub match_mode: TrafficMatchMode,
}

impl Default for TrafficMatchRule {
    fn default() -> Self {
        TrafficMatchRule {
            arguments: Vec::new(),
            random_percent: Uint32(PERCENT_MAX),
            match_mode: TrafficMatchMode::And,
        }
    }
}

/// Instances that may receive traffic. Groups of the lowest priority number share it by weight; the others wait until
/// none of those is available.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DestinationGroup {
    pub service: String,
    pub namespace: String,
    pub labels: BTreeMap<String, MatchString>,
    /// Priority from 0 to 9, 0 first; groups without one are last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Uint32>,
    /// Weight; 0 if absent while other groups have one, equal shares if none has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Uint32>,
    /// Service to which requests are forwarded.
    pub transfer: String,
    /// True if the group receives no traffic.
    pub isolate: bool,
    pub name: String,
}

/// Second choice of a route by metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MetadataFailover {
    #[serde(alias = "failoverRange")]
    pub failover_range: FailoverRange,
    pub labels: BTreeMap<String, String>,
}

impl CustomRouteRule {
    fn check(&self) -> Result<(), Fault> {
        let percent = self.arguments.random_percent.0;
        within_range("random_percent", percent, 1..=PERCENT_MAX, "1 to 100")
            .and_then(|()| each("arguments", &self.arguments.arguments, Argument::check))
            .map_err(|fault| fault.within("arguments"))?;
        each("destinations", &self.destinations, DestinationGroup::check)
    }
}

impl DestinationGroup {
    fn check(&self) -> Result<(), Fault> {
        let priority = self.priority.unwrap_or_default().0;
        within_range("priority", priority, 0..=DESTINATION_PRIORITY_MAX, "0 to 9")?;
        filled_keys("labels", self.labels.keys())?;
        let mut labels = self.labels.iter();
        labels.try_for_each(|(key, label)| label.check().map_err(|fault| fault.within(&format!("labels.{key}"))))
    }
}

impl RoutingConfig {
    /// Returns the given fields that are specific to some policies, each with those policies.
    fn given(&self) -> impl Iterator<Item = (&'static str, &'static [RoutePolicy])> {
        use RoutePolicy::{Metadata, Nearby, Rule};
        let fields: [(&str, bool, &[RoutePolicy]); 8] = [
            ("caller", self.caller.is_some(), &[Rule]),
            ("callee", self.callee.is_some(), &[Rule]),
            ("rules", self.rules.is_some(), &[Rule]),
            ("labels", self.labels.is_some(), &[Metadata]),
            ("failover", self.failover.is_some(), &[Metadata]),
            ("match_level", self.match_level.is_some(), &[Nearby]),
            ("max_match_level", self.max_match_level.is_some(), &[Nearby]),
            ("strict_nearby", self.strict_nearby.is_some(), &[Nearby]),
        ];
        fields.into_iter().filter(|(_, given, _)| *given).map(|(field, _, policies)| (field, policies))
    }

    fn check(&self) -> Result<(), Fault> {
        filled_keys("labels", self.labels.iter().flatten().map(|(key, _)| key))?;
        filled_keys("failover.labels", self.failover.iter().flat_map(|failover| failover.labels.keys()))?;
        each("rules", self.custom_rules(), CustomRouteRule::check)
    }

    fn fits(&self, policy: RoutePolicy) -> Result<(), Fault> {
        let messages: &[&str] = match policy {
            RoutePolicy::Rule => &["CustomRoute", "RuleRoutingConfig"],
            RoutePolicy::Metadata => &["MetadataRoutingConfig"],
            RoutePolicy::Nearby => &["NearbyRoutingConfig"],
        };
        if let Some(url) = self.type_url.as_deref().filter(|url| !url.is_empty())
            && !messages.iter().any(|message| url.rsplit(['.', '/']).next() == Some(message))
        {
            return Err(Fault::new("@type", format!("{url} is not read by {}", policy.word())));
        }
        match self.given().find(|(_, policies)| !policies.contains(&policy)) {
            Some((field, _)) => Err(Fault::new(field, format!("does not belong to {}", policy.word()))),
            None => Ok(()),
        }
    }

    /// Returns the sub-rules of a custom route.
    pub fn custom_rules(&self) -> &[CustomRouteRule] {
        self.rules.as_deref().unwrap_or_default()
    }
}

impl Shape for Routing {
    fn blank() -> &'static str {
        r#""route_policy": "RulePolicy", "routing_config": {"rules": [{"name": "", "destinations": []}]}"#
    }

    fn check(&self) -> Result<(), Fault> {
        self.routing_config.check().map_err(|fault| fault.within("routing_config"))
    }

    fn settle(&mut self) -> Result<(), Fault> {
        let config = &mut self.routing_config;
        config.fits(self.route_policy).map_err(|fault| fault.within("routing_config"))?;
        match self.route_policy {
            RoutePolicy::Rule => {
                config.rules.get_or_insert_default();
                (config.service, config.namespace) = (None, None);
            }
            RoutePolicy::Metadata => {
                config.service.get_or_insert_default();
                config.namespace.get_or_insert_default();
                config.labels.get_or_insert_default();
            }
            RoutePolicy::Nearby => {
                config.service.get_or_insert_default();
                config.namespace.get_or_insert_default();
                config.match_level.get_or_insert_default();
                config.max_match_level.get_or_insert_default();
                config.strict_nearby.get_or_insert_default();
            }
        }
        Ok(())
    }

    fn drop_empty(&mut self) {
        drop_default(&mut self.routing_config.caller);
        drop_default(&mut self.routing_config.callee);
    }

    fn each_end(&self, visit: &mut dyn FnMut(EndRole, &str, &str)) {
        let config = &self.routing_config;
        for (side, key) in [(EndRole::Caller, &config.caller), (EndRole::Callee, &config.callee)] {
            key.iter().for_each(|key| visit(side, &key.namespace, &key.service));
        }
        for group in config.custom_rules().iter().flat_map(|rule| &rule.destinations) {
            visit(EndRole::Destination, &group.namespace, &group.service);
            visit(EndRole::Transfer, &group.namespace, &group.transfer);
        }
        let namespace = config.namespace.as_deref().unwrap_or_default();
        config.service.iter().for_each(|service| visit(EndRole::Callee, namespace, service));
    }
}
