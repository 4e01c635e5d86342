//! Protocols of the instances of a called service.

use super::plan::PATH_HEADER;
use crate::model::instance::Instance;
use crate::model::rule::matching::{MatchString, MatchType, ValueType};
use crate::model::rule::routing::Routing;
use crate::model::rule::traffic::ArgumentType;
use crate::model::rule::{Body, Rule};

const GRPC: &str = "grpc";
const HTTP2: &str = "http2";

/// Reports whether most of the instances speak gRPC.
pub fn speaks_grpc<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> bool {
    let (mut all, mut speaking) = (0_usize, 0_usize);
    for instance in instances {
        all += 1;
        speaking += usize::from(instance.protocol.eq_ignore_ascii_case(GRPC));
    }
    2 * speaking > all
}

/// Reports whether a protocol runs over HTTP/2.
pub fn is_http2(protocol: &str) -> bool {
    is_grpc(protocol) || protocol.eq_ignore_ascii_case(HTTP2)
}

/// Reports whether a protocol is gRPC.
pub fn is_grpc(protocol: &str) -> bool {
    protocol.eq_ignore_ascii_case(GRPC)
}

/// Reports whether routes of the rule depend on the protocol of the called service.
pub fn routes_by_method(rule: &Rule) -> bool {
    let has_method = |body: &Routing| {
        let routes = body.routing_config.custom_rules().iter();
        routes.flat_map(|route| &route.arguments.arguments).any(|argument| argument.kind == ArgumentType::Method)
    };
    matches!(&rule.body, Body::Routing(body) if has_method(body))
}

/// Reports whether routes of the rule depend on the gRPC library of a client: on its comparison of the path and of
/// headers.
pub fn differs_by_library(rule: &Rule) -> bool {
    let Body::Routing(body) = &rule.body else { return false };
    body.routing_config.custom_rules().iter().any(|route| {
        let (mut on_path, mut on_header) = (0_usize, 0_usize);
        for argument in &route.arguments.arguments {
            match argument.kind {
                ArgumentType::Path | ArgumentType::Method => on_path += 1,
                ArgumentType::Header if argument.key.eq_ignore_ascii_case(PATH_HEADER) => on_path += 1,
                ArgumentType::Header => on_header += usize::from(argument.value.as_ref().is_none_or(differs_on_header)),
                _ => {}
            }
        }
        on_path > 1 || on_header > 0
    })
}

/// Reports whether libraries evaluate a comparison of a header differently.
fn differs_on_header(value: &MatchString) -> bool {
    let is_alike = matches!(value.kind, MatchType::Exact | MatchType::In);
    !is_alike || value.is_open() || value.value_type == ValueType::Parameter
}
