//! Governance rules: what all families have in common, and the table of families.
//!
//! A rule is a head that all rules have and a body of its family. Everything that is done with
//! rules (checks, storage, lists, releases, the view of clients, the routes) is written once, over
//! [`Family`], [`Body`] and the trait [`Shape`]; a further family is a type with its `Shape` and a
//! row in the table at [`families`](Family).

pub mod circuit_breaker;
pub mod effect;
pub mod expression;
pub mod fault;
pub mod fault_detect;
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

use super::code::{Code, Refusal};
use super::config_file::Stamp;
use super::time::Timestamp;
use super::wire::{Uint32, wire_enum};
use super::{limits, name};
use crate::format::level::Level;
use circuit_breaker::{CircuitBreaker, CircuitBreakerPatch};
use fault::Fault;
use fault_detect::{FaultDetect, FaultDetectPatch};
use rate_limit::{RateLimit, RateLimitPatch};
use routing::{Routing, RoutingPatch};

pub use effect::Effect;
pub use shape::{End, Shape, Side};

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

macro_rules! families {
    ($( $(#[$meta:meta])* $family:ident: $patch:ident, $title:literal, $kind:literal, $element:literal, $resource:ident, $discover:literal $number:literal $found:literal, since $since:ident; )+) => {
        /// A family of rules.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Family { $( $(#[$meta])* $family, )+ }

        impl Family {
            pub const ALL: &'static [Family] = &[ $( Family::$family, )+ ];

            /// Its name for people.
            pub const fn title(self) -> &'static str {
                match self { $( Family::$family => $title, )+ }
            }

            /// Its segment in paths.
            pub const fn kind(self) -> &'static str {
                match self { $( Family::$family => $kind, )+ }
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
                match self { $( Family::$family => ($discover, $number, $found), )+ }
            }

            /// The level that a cluster has to have reached to keep its rules.
            pub const fn since(self) -> Level {
                match self { $( Family::$family => Level::$since, )+ }
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
        }

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

            fn shape(&self) -> &dyn Shape {
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
            fn lay_over(&self, body: &mut Body, level: Level) {
                match (self, body) {
                    $( (BodyPatch::$family(patch), Body::$family(body)) => patch.lay_over(body, level), )+
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
    // family: patch, title, path segment, element in write answers, resource of its releases, discovery, level;
    FaultDetect: FaultDetectPatch, "Fault detection", "faultdetectors", "faultDetectRule", FaultDetectRules, "FAULT_DETECTOR" 13 "faultDetector", since FIRST;
    RateLimit: RateLimitPatch, "Rate limits", "ratelimits", "rateLimit", RateLimitRules, "RATE_LIMIT" 4 "rateLimit", since FIRST;
    Routing: RoutingPatch, "Routing", "routings", "routeRule", RouteRules, "ROUTING" 3 "routing", since FIRST;
    CircuitBreaker: CircuitBreakerPatch, "Circuit breakers", "circuitbreakers", "circuitBreaker", CircuitBreakerRules, "CIRCUIT_BREAKER" 5 "circuitBreaker", since ROLLOUT;
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
        self.each_end(&mut |namespace, service| ends.extend(End::of(namespace, service, &self.namespace)));
        ends.sort();
        ends.dedup();
        ends
    }

    /// True if one of the services that the rule is about is called so.
    pub fn is_about(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut found = false;
        self.each_service(&mut |service| found |= is_wanted(service));
        found
    }

    /// Shows the name of each service that the rule is about, once or more often.
    pub fn each_service(&self, visit: &mut dyn FnMut(&str)) {
        self.each_end(&mut |_, service| {
            if !service.is_empty() {
                visit(service);
            }
        });
    }

    /// The ends by which clients ask for it.
    fn each_end(&self, visit: &mut dyn FnMut(&str, &str)) {
        self.body.shape().each_end(&mut |side, namespace, service| {
            if side.is_asked_for() {
                visit(namespace, service);
            }
        });
    }
}

/// Fields of a rule that a caller gives; an absent field stays as it is. The draft names the rule by id, without
/// one by namespace and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleDraft {
    pub head: RuleHead,
    pub body: BodyPatch,
}

/// The fields that rules of all families have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RuleHead {
    /// Printable ASCII of at most 128 characters; drawn where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// 1 to 128 characters, none of them a control character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Letters, digits and `- . / : _`, at most 64 characters.
    #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// On, if neither this nor `disable` says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// The opposite of `enable`. An update may change one of the two and send the other as it was read, if it sends
    /// the `revision` that it was read with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,
    /// At most 1024 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// 0 is the highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Uint32>,
    /// At most 64 entries; keys of at most 128, values of at most 4096 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// On update: only if this is the current one, else 409000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl RuleHead {
    /// The id, where the caller gave one; an empty one counts as none.
    pub fn given_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// The switch, by either of its names. Where they contradict each other one of them is what is kept: the other
    /// is what the caller has changed.
    fn switch(&self, kept: bool) -> bool {
        match (self.enable, self.disable) {
            _ if self.is_contradictory() => !kept,
            (Some(enable), _) => enable,
            (None, Some(disable)) => !disable,
            (None, None) => kept,
        }
    }

    /// On both sides of the switch at once.
    fn is_contradictory(&self) -> bool {
        self.enable.is_some() && self.enable == self.disable
    }

    /// Without the revision that it changes, a contradiction would turn the switch each time it is sent.
    fn check_switch(&self, is_update: bool) -> Result<(), Refusal> {
        let names_revision = self.revision.as_deref().is_some_and(|revision| !revision.is_empty());
        if !self.is_contradictory() || (is_update && names_revision) {
            return Ok(());
        }
        let advice = if is_update { ": send one of them, or the revision that they were read with" } else { "" };
        let why = format!("enable and disable contradict each other{advice}");
        Err(Refusal::new(Code::InvalidParameter, why))
    }

    fn check_values(&self) -> Result<(), Refusal> {
        self.given_id().map_or(Ok(()), name::check_id)?;
        self.name.as_deref().map_or(Ok(()), |name| name::check_title("name", name))?;
        self.namespace.as_deref().map_or(Ok(()), name::check_namespace)?;
        let description = self.description.as_deref().unwrap_or("");
        name::check_length("description", description, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        self.metadata.as_ref().map_or(Ok(()), name::check_metadata)
    }

    fn check_name(&self) -> Result<(), Refusal> {
        name::check_title("name", self.name.as_deref().unwrap_or(""))?;
        name::check_namespace(self.namespace.as_deref().unwrap_or(""))
    }
}

impl RuleDraft {
    /// A new rule has name and namespace.
    pub fn check_new(&self) -> Result<(), Refusal> {
        self.head.check_name()?;
        self.head.check_switch(false)?;
        self.head.check_values()?;
        let mut body = self.body.family().body();
        self.body.lay_over(&mut body, Level::NEWEST);
        body.shape().check()?;
        Ok(body.shape_mut().settle()?)
    }

    pub fn check_update(&self) -> Result<(), Refusal> {
        self.check_named()?;
        self.head.check_switch(true)?;
        self.head.check_values()?;
        let mut given = self.body.family().body();
        self.body.lay_over(&mut given, Level::NEWEST);
        Ok(given.shape().check()?)
    }

    /// By id, or by name and namespace.
    pub fn check_named(&self) -> Result<(), Refusal> {
        self.head.given_id().map_or_else(|| self.head.check_name(), name::check_id)
    }

    /// The level that a cluster has to have reached to take it as it is meant.
    pub fn level(&self) -> Level {
        let of_switch = if self.head.is_contradictory() { Level::ROLLOUT } else { Level::FIRST };
        of_switch.max(self.body.family().since())
    }

    /// A new rule of what is said here, as a cluster of this level makes it.
    pub fn rule(&self, id: String, revision: String, stamp: Stamp, level: Level) -> Result<Rule, Fault> {
        let mut rule = Rule {
            id,
            name: String::new(),
            namespace: String::new(),
            enable: true,
            description: String::new(),
            priority: 0,
            metadata: BTreeMap::new(),
            body: self.body.family().body(),
            created: stamp.clone(),
            modified: stamp,
            enabled_at: None,
            revision,
            versions: 0,
            removed_through: 0,
        };
        self.lay_over(&mut rule, level)?;
        Ok(rule)
    }

    /// Lays the given fields over `rule`, as a cluster of this level does it; absent ones stay.
    pub fn lay_over(&self, rule: &mut Rule, level: Level) -> Result<(), Fault> {
        super::replace(&mut rule.name, &self.head.name);
        super::replace(&mut rule.namespace, &self.head.namespace);
        rule.enable = self.head.switch(rule.enable);
        super::replace(&mut rule.description, &self.head.description);
        super::replace(&mut rule.priority, &self.head.priority.map(|priority| priority.0));
        super::replace(&mut rule.metadata, &self.head.metadata);
        self.body.lay_over(&mut rule.body, level);
        let shape = rule.body.shape_mut();
        if level >= Level::RIGHTS {
            shape.drop_empty();
        }
        shape.settle()
    }
}
