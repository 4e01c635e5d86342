//! Governance rules: common parts of all families, and the table of families.
//!
//! A rule is a head that all rules have, and a body of its family. All operations on rules (checks, storage, lists,
//! releases, the view of clients, routes, commands, console pages, explanations) are written once, over [`Family`],
//! [`Body`] and the traits [`Shape`] and [`Explained`]. A new family is a folder with its `Shape` in `mod.rs` and its
//! `Explained` in `explain.rs`, and a row in the table [`families`](Family).

pub mod circuit_breaker;
mod draft;
pub mod effect;
pub mod expression;
pub mod fault;
pub mod fault_detect;
pub mod matchers;
pub mod matching;
pub mod rate_limit;
pub mod release;
pub mod routing;
mod shape;
pub mod traffic;

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer, Serialize};

use super::explain::{Applied, Explained, Taken};
use super::stamp::Stamp;
use super::time::Timestamp;
use super::wire::wire_enum;
use circuit_breaker::{Breaker, CircuitBreaker, CircuitBreakerPatch};
use fault_detect::{FaultDetect, FaultDetectPatch, FaultDetectSubRule};
use rate_limit::{Quota, RateLimit, RateLimitPatch};
use routing::{Labels, Nearness, Route, Routing, RoutingPatch};

pub use draft::{RuleDraft, RuleHead};
pub use effect::Effect;
pub use shape::{End, EndRole, Shape};

wire_enum! {
    /// Type of the rule of a release; the types without a family here are only recognized by name.
    pub enum RuleType {
        RouteRules, RateLimitRules, CircuitBreakerRules, FaultDetectRules, LaneRules, LosslessRules, TrafficMirrorRules,
        TrafficSecurityRules, TrafficMockRules,
    }
}

/// Operation on the types of body and patch of a family, run by [`Family::with_types`].
pub trait WithTypes {
    type Output;

    fn run<B: JsonSchema, P: JsonSchema>() -> Self::Output;
}

/// Declares the families in the order of their display. The number of a family is its position in stored data, and
/// never changes.
macro_rules! families {
    ($(
        $(#[$meta:meta])*
        $family:ident = $number:literal {
            patch: $patch:ident,
            title: $title:literal, title_in_chinese: $chinese:literal,
            kind: $kind:literal, word: $word:literal, short_word: $short_word:literal,
            element: $element:literal, resource: $resource:ident,
            discovery: $discovery:literal, discovery_number: $discovery_number:literal, discovered: $discovered:literal,
            effects: { $( $effect:ident($shown:ty), )+ }
        }
    )+) => {
        /// A family of rules.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Family { $( $(#[$meta])* $family = $number, )+ }

        impl Family {
            /// All families in order of their numbers.
            pub const ALL: &'static [Family] = &{
                let mut all = Family::LISTED;
                $( all[Family::$family as usize] = Family::$family; )+
                all
            };

            /// All families in the order of their display.
            pub const LISTED: [Family; [ $( $number, )+ ].len()] = [ $( Family::$family, )+ ];

            /// Returns the name for display.
            pub const fn title(self) -> &'static str {
                match self { $( Family::$family => $title, )+ }
            }

            /// Returns the name for display in Chinese.
            pub const fn title_in_chinese(self) -> &'static str {
                match self { $( Family::$family => $chinese, )+ }
            }

            /// Returns the segment in paths.
            pub const fn kind(self) -> &'static str {
                match self { $( Family::$family => $kind, )+ }
            }

            /// Returns the API path for listing, creating and changing its rules.
            pub const fn path(self) -> &'static str {
                match self { $( Family::$family => concat!("/naming/v1/", $kind), )+ }
            }

            /// Returns the name of its kind in policies, events, metrics, explanations, the audit trail and commands.
            pub const fn word(self) -> &'static str {
                match self { $( Family::$family => $word, )+ }
            }

            /// Returns the short name of its kind.
            pub const fn short_word(self) -> &'static str {
                match self { $( Family::$family => $short_word, )+ }
            }

            /// Returns the element with a rule in the answers of writes.
            pub const fn element(self) -> &'static str {
                match self { $( Family::$family => $element, )+ }
            }

            pub const fn resource(self) -> RuleType {
                match self { $( Family::$family => RuleType::$resource, )+ }
            }

            /// Returns the discovery request for its rules, by name and by number, and the element of the answer.
            pub const fn discovery(self) -> (&'static str, u64, &'static str) {
                match self { $( Family::$family => ($discovery, $discovery_number, $discovered), )+ }
            }

            /// Runs an operation that depends on the types of the family.
            pub fn with_types<W: WithTypes>(self) -> W::Output {
                match self { $( Family::$family => W::run::<$family, $patch>(), )+ }
            }

            /// Returns the default body.
            pub fn body(self) -> Body {
                match self { $( Family::$family => Body::$family($family::default()), )+ }
            }

            /// Returns an empty patch.
            pub fn patch(self) -> BodyPatch {
                match self { $( Family::$family => BodyPatch::$family($patch::default()), )+ }
            }

            /// Returns the initial body of a new rule in an editor, as members of a JSON object.
            pub fn blank(self) -> &'static str {
                match self { $( Family::$family => $family::blank(), )+ }
            }

            /// Returns a sentence about a request to which these sub-rules of the family apply.
            pub(super) fn summary(self, applies: &[Applied<'_>], taken: &Taken) -> String {
                match self { $( Family::$family => $family::summary(applies, taken), )+ }
            }
        }

        /// Effect of a sub-rule that applies.
        #[derive(Debug, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum SubRuleEffect<'a> { $( $( $effect($shown), )+ )+ }

        /// Part of a rule that is specific to its family.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Body { $( $family($family), )+ }

        /// Fields of a body, serialized without the name of the family.
        #[derive(Serialize)]
        #[serde(untagged)]
        pub enum Fields<'a> { $( $family(&'a $family), )+ }

        impl Body {
            pub fn family(&self) -> Family {
                match self { $( Body::$family(_) => Family::$family, )+ }
            }

            pub fn fields(&self) -> Fields<'_> {
                match self { $( Body::$family(body) => Fields::$family(body), )+ }
            }

            /// Returns the optional fields that are absent.
            pub fn unset(&self) -> Vec<&'static str> {
                match self { $( Body::$family(body) => body.unset(), )+ }
            }

            pub(super) fn shape(&self) -> &dyn Shape {
                match self { $( Body::$family(body) => body, )+ }
            }

            fn shape_mut(&mut self) -> &mut dyn Shape {
                match self { $( Body::$family(body) => body, )+ }
            }
        }

        /// Fields of a body in a request; an absent one is not changed.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum BodyPatch { $( $family($patch), )+ }

        impl BodyPatch {
            pub fn family(&self) -> Family {
                match self { $( BodyPatch::$family(_) => Family::$family, )+ }
            }

            /// Overwrites `body` with the given fields; does nothing for a patch of another family.
            fn lay_over(&self, body: &mut Body) {
                match (self, body) {
                    $( (BodyPatch::$family(patch), Body::$family(body)) => patch.lay_over(body), )+
                    _ => {}
                }
            }
        }

        /// Reads the fields of the family.
        impl<'de> DeserializeSeed<'de> for Family {
            type Value = BodyPatch;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<BodyPatch, D::Error> {
                match self { $( Family::$family => $patch::deserialize(deserializer).map(BodyPatch::$family), )+ }
            }
        }
    };
}

families! {
    Routing = 2 {
        patch: RoutingPatch,
        title: "Routing", title_in_chinese: "路由",
        kind: "routings", word: "routing", short_word: "rt",
        element: "routeRule", resource: RouteRules,
        discovery: "ROUTING", discovery_number: 3, discovered: "routing",
        effects: { Route(Route<'a>), Metadata(Labels<'a>), Nearby(Nearness), }
    }
    RateLimit = 1 {
        patch: RateLimitPatch,
        title: "Rate limits", title_in_chinese: "限流",
        kind: "ratelimits", word: "ratelimit", short_word: "rl",
        element: "rateLimit", resource: RateLimitRules,
        discovery: "RATE_LIMIT", discovery_number: 4, discovered: "rateLimit",
        effects: { Quota(Box<Quota<'a>>), }
    }
    FaultDetect = 0 {
        patch: FaultDetectPatch,
        title: "Fault detection", title_in_chinese: "故障检测",
        kind: "faultdetectors", word: "faultdetector", short_word: "fd",
        element: "faultDetectRule", resource: FaultDetectRules,
        discovery: "FAULT_DETECTOR", discovery_number: 13, discovered: "faultDetector",
        effects: { Probe(Box<FaultDetectSubRule>), }
    }
    CircuitBreaker = 3 {
        patch: CircuitBreakerPatch,
        title: "Circuit breakers", title_in_chinese: "熔断",
        kind: "circuitbreakers", word: "circuitbreaker", short_word: "cb",
        element: "circuitBreaker", resource: CircuitBreakerRules,
        discovery: "CIRCUIT_BREAKER", discovery_number: 5, discovered: "circuitBreaker",
        effects: { Breaker(Breaker<'a>), }
    }
}

/// A governance rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    pub id: String,
    /// Name, unique in its family and namespace.
    pub name: String,
    pub namespace: String,
    pub enable: bool,
    pub description: String,
    /// Priority; 0 is the highest.
    pub priority: u32,
    pub metadata: BTreeMap<String, String>,
    pub body: Body,
    pub created: Stamp,
    pub modified: Stamp,
    /// Last time at which it was enabled, if ever.
    pub enabled_at: Option<Timestamp>,
    pub revision: String,
    /// Number of versions given to its releases: the next release gets the following one.
    pub versions: u64,
    /// Highest version of a release that retention removed; 0 if none was removed.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub removed_through: u64,
}

impl Rule {
    pub fn family(&self) -> Family {
        self.body.family()
    }

    /// Returns the rule in the form for clients.
    pub fn as_clients_see(&self) -> Cow<'_, Rule> {
        match self.body.shape().as_clients_see() {
            Some(body) => Cow::Owned(Rule { body, ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// Returns the services on either side of the calls that the rule concerns.
    pub fn ends(&self) -> Vec<End> {
        let mut ends = Vec::new();
        self.each_end(&mut |namespace, service| {
            ends.push(End { namespace: namespace.to_owned(), service: service.to_owned() });
        });
        ends.sort();
        ends.dedup();
        ends
    }

    /// Returns the ends on whose calls the rule may act; for custom routes with a callee these exclude the callers.
    pub fn called_ends(&self) -> Vec<End> {
        let mut all = self.ends();
        if !matches!(&self.body, Body::Routing(body) if body.route_policy == routing::RoutePolicy::Rule) {
            return all;
        }
        let (mut called, mut has_callee) = (Vec::new(), false);
        self.each_role(&mut |role, namespace, service| {
            has_callee |= role == EndRole::Callee;
            if matches!(role, EndRole::Callee | EndRole::Destination) {
                called.push(End { namespace: namespace.to_owned(), service: service.to_owned() });
            }
        });
        if has_callee {
            all.retain(|end| called.contains(end));
        }
        all
    }

    /// Reports whether the name of a service that the rule concerns satisfies `is_wanted`.
    pub fn is_about(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut found = false;
        self.each_service(&mut |service| found |= is_wanted(service));
        found
    }

    /// Visits the name of each service that the rule concerns; names may repeat.
    pub fn each_service(&self, visit: &mut dyn FnMut(&str)) {
        self.each_end(&mut |_, service| visit(service));
    }

    /// Visits each service that the rule names, with its role; an absent namespace is that of the rule.
    pub fn each_role(&self, visit: &mut dyn FnMut(EndRole, &str, &str)) {
        self.body.shape().each_end(&mut |role, namespace, service| {
            if !service.is_empty() {
                visit(role, if namespace.is_empty() { &self.namespace } else { namespace }, service);
            }
        });
    }

    /// Visits the ends by which clients request the rule.
    fn each_end(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.each_role(&mut |role, namespace, service| {
            if role.is_asked_for() {
                visit(namespace, service);
            }
        });
    }
}
