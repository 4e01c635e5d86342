//! Governance rules: what all families have in common, and the table of families.
//!
//! A rule is a head that all rules have and a body of its family. Everything that is done with rules (checks, storage,
//! lists, releases, the view of clients, routes, commands, pages of the console, the explanation of a request) is
//! written once, over [`Family`], [`Body`] and the traits [`Shape`] and [`Explained`]. A further family is a folder,
//! with its `Shape` in `mod.rs` and its `Explained` in `explain.rs`, and a row in the table at [`families`](Family).

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

use super::config_file::Stamp;
use super::explain::{Applied, Explained, Taken};
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
    /// Type of the rule of a release; the families that are not here are known by name only.
    pub enum RuleType {
        RouteRules, RateLimitRules, CircuitBreakerRules, FaultDetectRules, LaneRules, LosslessRules, TrafficMirrorRules,
        TrafficSecurityRules, TrafficMockRules,
    }
}

/// Operation that [`Family::with_types`] runs, for a body and the patch of one.
pub trait WithTypes {
    type Output;

    fn run<B: JsonSchema, P: JsonSchema>() -> Self::Output;
}

/// Declares the families, in the order in which people list them. The number of a family is its place in the order of
/// what is stored, and for good.
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
            /// By their numbers.
            pub const ALL: &'static [Family] = &{
                let mut all = Family::LISTED;
                $( all[Family::$family as usize] = Family::$family; )+
                all
            };

            /// In the order in which people list them.
            pub const LISTED: [Family; [ $( $number, )+ ].len()] = [ $( Family::$family, )+ ];

            /// Its name for people.
            pub const fn title(self) -> &'static str {
                match self { $( Family::$family => $title, )+ }
            }

            /// Its name on pages in Chinese.
            pub const fn title_in_chinese(self) -> &'static str {
                match self { $( Family::$family => $chinese, )+ }
            }

            /// Its segment in paths.
            pub const fn kind(self) -> &'static str {
                match self { $( Family::$family => $kind, )+ }
            }

            /// Path at which the API lists, creates and changes its rules.
            pub const fn path(self) -> &'static str {
                match self { $( Family::$family => concat!("/naming/v1/", $kind), )+ }
            }

            /// The one word for its kind: of policies, events, metrics, explanations, the audit trail, commands.
            pub const fn word(self) -> &'static str {
                match self { $( Family::$family => $word, )+ }
            }

            /// The same in short.
            pub const fn short_word(self) -> &'static str {
                match self { $( Family::$family => $short_word, )+ }
            }

            /// The element that carries one of its rules in the answers of writes.
            pub const fn element(self) -> &'static str {
                match self { $( Family::$family => $element, )+ }
            }

            pub const fn resource(self) -> RuleType {
                match self { $( Family::$family => RuleType::$resource, )+ }
            }

            /// Request of a client that discovers its rules, by word and by number, and the element that answers.
            pub const fn discovery(self) -> (&'static str, u64, &'static str) {
                match self { $( Family::$family => ($discovery, $discovery_number, $discovered), )+ }
            }

            /// Does something that depends on the types of the family, not on a rule of it.
            pub fn with_types<W: WithTypes>(self) -> W::Output {
                match self { $( Family::$family => W::run::<$family, $patch>(), )+ }
            }

            /// The body of a rule of which nothing is said.
            pub fn body(self) -> Body {
                match self { $( Family::$family => Body::$family($family::default()), )+ }
            }

            /// The patch that says nothing.
            pub fn patch(self) -> BodyPatch {
                match self { $( Family::$family => BodyPatch::$family($patch::default()), )+ }
            }

            /// Members of a JSON object: the body that a person who writes a new rule begins with.
            pub fn blank(self) -> &'static str {
                match self { $( Family::$family => $family::blank(), )+ }
            }

            /// One sentence on a request to which these sub-rules of the family apply.
            pub(super) fn summary(self, applies: &[Applied<'_>], taken: &Taken) -> String {
                match self { $( Family::$family => $family::summary(applies, taken), )+ }
            }
        }

        /// Effect of a sub-rule where it applies.
        #[derive(Debug, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum SubRuleEffect<'a> { $( $( $effect($shown), )+ )+ }

        /// Part of a rule that only its family has.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Body { $( $family($family), )+ }

        /// The fields of a body without the name of the family around them.
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

            /// The fields that are there if they say something, and do not.
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

        /// The fields of a body that a caller gives; an absent one stays as it is.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum BodyPatch { $( $family($patch), )+ }

        impl BodyPatch {
            pub fn family(&self) -> Family {
                match self { $( BodyPatch::$family(_) => Family::$family, )+ }
            }

            /// A patch of another family changes nothing.
            fn lay_over(&self, body: &mut Body) {
                match (self, body) {
                    $( (BodyPatch::$family(patch), Body::$family(body)) => patch.lay_over(body), )+
                    _ => {}
                }
            }
        }

        /// Reads the fields that are the family's.
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

/// A rule as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    pub id: String,
    /// Unique in its family and namespace.
    pub name: String,
    pub namespace: String,
    pub enable: bool,
    pub description: String,
    /// 0 is the highest.
    pub priority: u32,
    pub metadata: BTreeMap<String, String>,
    pub body: Body,
    pub created: Stamp,
    pub modified: Stamp,
    /// The last switch-on, if it was ever on.
    pub enabled_at: Option<Timestamp>,
    pub revision: String,
    /// Versions that its releases were given: the next release takes the number after it.
    pub versions: u64,
    /// The highest version of a release that retention removed; 0 if it removed none.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub removed_through: u64,
}

impl Rule {
    pub fn family(&self) -> Family {
        self.body.family()
    }

    /// The rule in the form in which clients get it.
    pub fn as_clients_see(&self) -> Cow<'_, Rule> {
        match self.body.shape().as_clients_see() {
            Some(body) => Cow::Owned(Rule { body, ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// The services on either end of the calls that the rule is about.
    pub fn ends(&self) -> Vec<End> {
        let mut ends = Vec::new();
        self.each_end(&mut |namespace, service| {
            ends.push(End { namespace: namespace.to_owned(), service: service.to_owned() });
        });
        ends.sort();
        ends.dedup();
        ends
    }

    /// The ends on whose calls the rule may act: of custom routes with a callee not those that call it.
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

    /// True if one of the services that the rule is about is called so.
    pub fn is_about(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut found = false;
        self.each_service(&mut |service| found |= is_wanted(service));
        found
    }

    /// Shows the name of each service that the rule is about, once or more often.
    pub fn each_service(&self, visit: &mut dyn FnMut(&str)) {
        self.each_end(&mut |_, service| visit(service));
    }

    /// Shows each service that the rule names, and its role; a namespace that is not named is the rule's.
    pub fn each_role(&self, visit: &mut dyn FnMut(EndRole, &str, &str)) {
        self.body.shape().each_end(&mut |role, namespace, service| {
            if !service.is_empty() {
                visit(role, if namespace.is_empty() { &self.namespace } else { namespace }, service);
            }
        });
    }

    /// The ends by which clients ask for it.
    fn each_end(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.each_role(&mut |role, namespace, service| {
            if role.is_asked_for() {
                visit(namespace, service);
            }
        });
    }
}
