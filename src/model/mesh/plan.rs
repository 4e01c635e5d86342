//! Routes that custom routing rules become, before a client is looked at and before instances are.

use super::Dialect;
use super::library::Library;
use super::warning::Warning;
use crate::model::instance::Instance;
use crate::model::rule::End;
use crate::model::rule::matching::{MatchString, ValueType};
use crate::model::rule::routing::DestinationGroup;
use crate::model::rule::traffic::ServiceKey;

/// Abilities of a client that decide what it can carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Abilities {
    pub dialect: Dialect,
    /// A front proxy: it has no caller of its own.
    pub is_gateway: bool,
    /// A gateway that named the header in which its requests name their caller.
    pub has_caller_header: bool,
    /// It takes expressions of any size (`re2: large` in its metadata).
    pub takes_large_expressions: bool,
    /// The service that is called speaks gRPC, by most of its instances.
    pub is_callee_grpc: bool,
    /// Library of a client without a proxy.
    pub library: Library,
}

impl Abilities {
    /// True of a client that compares one condition on the path at most.
    pub fn has_one_path(&self) -> bool {
        self.dialect == Dialect::Grpc && !self.library.traits().has_path_header
    }
}

/// Header with the path of a request and its query, as clients that compare it call it.
pub const PATH_HEADER: &str = ":path";
/// Stands for the header in which requests to a gateway name their caller, until its name is put in.
pub const CALLER_HEADER: &str = ":caller";

/// Routes of the rules of one service, in the order in which they are tried.
#[derive(Debug, Default, PartialEq)]
pub struct RoutePlan<'a> {
    pub routes: Vec<PlannedRoute<'a>>,
    pub warnings: Vec<Warning>,
}

/// One route: all conditions have to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRoute<'a> {
    /// Position of the rule among those that were planned.
    pub rule: usize,
    /// Position of the sub-rule in its rule.
    pub sub_rule: usize,
    pub path: Option<TextMatch>,
    /// Further conditions on the path are conditions on the header `:path`, for clients that compare it.
    pub headers: Vec<PartMatch>,
    pub query: Vec<PartMatch>,
    /// Conditions on the caller, which the server decides.
    pub caller: Vec<CallerCondition<'a>>,
    /// Share of the requests that it takes; all without it.
    pub fraction: Option<Fraction>,
    /// Groups that may take traffic, by priority.
    pub groups: Vec<PlannedGroup<'a>>,
}

/// A condition on a header or query parameter; names of headers are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMatch {
    pub name: String,
    pub value: TextMatch,
}

/// A condition on a text, in what both RE2 and string matchers express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextMatch {
    Present,
    Exact(String),
    /// An absent value does not match.
    Not(String),
    /// RE2, matched against the whole text.
    Expression(String),
    /// RE2 that the whole text must not meet; an absent value does not match.
    NotExpression(String),
    /// From the first number on, up to the second, which is not included.
    Range(i64, i64),
}

/// A condition on the caller of a service.
#[derive(Clone, Debug, PartialEq)]
pub enum CallerCondition<'a> {
    /// The rule is for calls of this end only.
    Is {
        end: End,
        /// A caller of which nothing is known is one of them.
        is_met_by_unknown: bool,
    },
    /// Argument CALLER_SERVICE; the key is a namespace.
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

/// A share of the requests.
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
    /// The service whose instances it means: that of `transfer` where traffic is forwarded.
    pub service: ServiceKey,
    /// Priority without gaps: groups of 0 share the traffic, the others stand by.
    pub rank: u32,
    /// Weight among the groups of its rank.
    pub weight: u32,
    /// Labels that take over a value of the request.
    pub parameters: Vec<Parameter<'a>>,
}

/// Values of one sub-rule that labels take over and that are carried.
pub const PARAMETER_VALUES_MAX: usize = 64;

impl PlannedGroup<'_> {
    /// True of an instance that has all labels that are wanted whatever the request is.
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

/// A label of the instances that has to be equal to a part of the request.
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
    /// True for the path and its parts, of a call of gRPC.
    pub fn is_of_path(self) -> bool {
        match self {
            RequestPart::Method | RequestPart::Path => true,
            RequestPart::Header(name) => name.eq_ignore_ascii_case(PATH_HEADER),
            _ => false,
        }
    }
}
