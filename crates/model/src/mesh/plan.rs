//! Routes translated from custom routing rules, independent of clients and instances.

use super::Dialect;
use super::library::Library;
use super::warning::Warning;
use crate::model::instance::Instance;
use crate::model::rule::End;
use crate::model::rule::matching::{MatchString, ValueType};
use crate::model::rule::routing::DestinationGroup;
use crate::model::rule::traffic::ServiceKey;

/// Abilities of a client that determine what it can carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Abilities {
    pub dialect: Dialect,
    /// True for a front proxy, which does not represent a caller.
    pub is_gateway: bool,
    /// True for a gateway that has named the header by which its requests name their caller.
    pub has_caller_header: bool,
    /// True if it accepts expressions of any size (`re2: large` in its metadata).
    pub takes_large_expressions: bool,
    /// True if most instances of the called service speak gRPC.
    pub is_callee_grpc: bool,
    /// Library of a client without a proxy.
    pub library: Library,
}

impl Abilities {
    /// Reports whether the client compares only one condition on the path.
    pub fn has_one_path(&self) -> bool {
        self.dialect == Dialect::Grpc && !self.library.traits().has_path_header
    }
}

/// Header with the path and query of a request, by the name in comparisons.
pub const PATH_HEADER: &str = ":path";
/// Placeholder for the header by which requests to a gateway name their caller.
pub const CALLER_HEADER: &str = ":caller";

/// Routes of the rules of one service, in order of evaluation.
#[derive(Debug, Default, PartialEq)]
pub struct RoutePlan<'a> {
    pub routes: Vec<PlannedRoute<'a>>,
    pub warnings: Vec<Warning>,
}

/// One route, all of whose conditions must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRoute<'a> {
    /// Index of the rule among those that were translated.
    pub rule: usize,
    /// Index of the sub-rule in its rule.
    pub sub_rule: usize,
    pub path: Option<TextMatch>,
    /// Conditions on headers, including further conditions on the path as `:path`, for clients that compare it.
    pub headers: Vec<PartMatch>,
    pub query: Vec<PartMatch>,
    /// Conditions on the caller, which the server evaluates.
    pub caller: Vec<CallerCondition<'a>>,
    /// Share of the requests; all of them if absent.
    pub fraction: Option<Fraction>,
    /// Groups that may receive traffic, by priority.
    pub groups: Vec<PlannedGroup<'a>>,
}

/// A condition on a header or query parameter; header names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMatch {
    pub name: String,
    pub value: TextMatch,
}

/// A condition on a text that both RE2 and string matchers can express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextMatch {
    Present,
    Exact(String),
    /// Different from the text; an absent value does not match.
    Not(String),
    /// RE2 expression for the whole text.
    Expression(String),
    /// RE2 expression that the whole text must not match; an absent value does not match.
    NotExpression(String),
    /// Range from the first number up to, but excluding, the second.
    Range(i64, i64),
}

/// A condition on the caller of a service.
#[derive(Clone, Debug, PartialEq)]
pub enum CallerCondition<'a> {
    /// Restriction of the rule to calls by this end.
    Is {
        end: End,
        /// True if an unknown caller meets the condition.
        is_met_by_unknown: bool,
    },
    /// Argument CALLER_SERVICE with a namespace as its key.
    Service {
        namespace: &'a str,
        condition: Option<&'a MatchString>,
    },
    Ip(Option<&'a MatchString>),
    Metadata {
        key: &'a str,
        condition: Option<&'a MatchString>,
    },
}

/// A fraction of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    pub numerator: u32,
    pub denominator: Denominator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denominator {
    Hundred,
    TenThousand,
    Million,
}

/// A destination group of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedGroup<'a> {
    pub group: &'a DestinationGroup,
    /// Service of the instances: that of `transfer` if traffic is forwarded.
    pub service: ServiceKey,
    /// Priority without gaps: groups of rank 0 share the traffic, the others are on standby.
    pub rank: u32,
    /// Weight among the groups of its rank.
    pub weight: u32,
    /// Labels that take a value of the request.
    pub parameters: Vec<Parameter<'a>>,
}

/// Values per sub-rule that are carried for labels which take a value of the request.
pub const PARAMETER_VALUES_MAX: usize = 64;

impl PlannedGroup<'_> {
    /// Returns a test for instances that have all labels with fixed values.
    pub fn possible(&self) -> impl Fn(&Instance) -> bool {
        let labels = self.group.labels.iter().filter(|(_, condition)| condition.value_type == ValueType::Text);
        let wanted = labels.filter(|(_, condition)| !condition.is_open());
        let wanted: Vec<_> = wanted.map(|(label, condition)| (label, condition.matcher())).collect();
        move |instance| {
            let mut wanted = wanted.iter();
            wanted.all(|(label, matcher)| instance.metadata.get(*label).is_some_and(|value| matcher.matches(value)))
        }
    }
}

/// A label of the instances that must be equal to a part of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    pub label: &'a str,
    pub part: RequestPart<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart<'a> {
    Header(&'a str),
    Query(&'a str),
    Cookie(&'a str),
    Method,
    Path,
    CallerIp,
    CallerMetadata(&'a str),
    /// Name of the calling service.
    CallerService,
}

impl RequestPart<'_> {
    /// Reports whether it is the path of a gRPC call, or a part of it.
    pub fn is_of_path(self) -> bool {
        match self {
            RequestPart::Method | RequestPart::Path => true,
            RequestPart::Header(name) => name.eq_ignore_ascii_case(PATH_HEADER),
            _ => false,
        }
    }
}
