//! Limits in the proxy beside a service: the filter of its listener, the configuration of its virtual host, and the
//! requests under way that its cluster takes.
//!
//! The filter stands in the listener without a bucket, and everything else in the virtual host: a changed limit is a
//! changed route configuration, which connections that are open obey at once.
//!
//! A changed route configuration fills every bucket again. So nothing of it follows the health of instances: a quota
//! for all of them is divided by the number of those that are registered and not isolated ([`sharers`]).

mod descriptors;

use crate::model::instance::Instance;
use crate::model::mesh::limits::{COUNTERS_MAX, LimitAnswer, LimitPlan};
use crate::proto::Any;
use crate::proto::envoy::config::cluster::v3::{CircuitBreakers, circuit_breakers};
use crate::proto::envoy::config::core::v3::{RoutingPriority, RuntimeFractionalPercent};
use crate::proto::envoy::config::route::v3::VirtualHost;
use crate::proto::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
use crate::proto::envoy::extensions::filters::network::http_connection_manager::v3::{HttpFilter, http_filter};
use crate::proto::envoy::r#type::v3::{FractionalPercent, HttpStatus, TokenBucket, fractional_percent};
use prost_types::Duration;

/// Name of the filter, in the listener and in what virtual hosts say for it.
pub(super) const LOCAL_RATE_LIMIT: &str = "envoy.filters.http.local_ratelimit";
const STAT_PREFIX: &str = "inbound";
/// Requests and connections without a limit.
const UNLIMITED: u32 = u32::MAX;

/// The filter for the listener; before the router. It limits nothing by itself.
pub(super) fn inbound_filter() -> HttpFilter {
    let message = LocalRateLimit { stat_prefix: STAT_PREFIX.to_owned(), ..Default::default() };
    HttpFilter {
        name: LOCAL_RATE_LIMIT.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(Any::pack(&message))),
        is_optional: false,
    }
}

/// Number of instances among which a quota for all of them is divided. Health does not count.
pub(super) fn sharers<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> u32 {
    let count = instances.into_iter().filter(|instance| !instance.isolate).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Has the limits of a service kept in its virtual host.
pub(super) fn apply(plan: &LimitPlan, sharers: u32, host: &mut VirtualHost) {
    if plan.limits.is_empty() {
        return;
    }
    let message = local_rate_limit(plan, sharers);
    host.typed_per_filter_config.insert(LOCAL_RATE_LIMIT.to_owned(), Any::pack(&message));
}

/// Limits of the cluster that a proxy has for the service beside it: of requests under way.
pub(super) fn circuit_breakers(plan: &LimitPlan, sharers: u32) -> CircuitBreakers {
    limited_to(plan.concurrency.iter().map(|amount| amount.share(sharers)).min())
}

/// Limits of a cluster of which no rule limits anything: clients take 1,024 by themselves. gRPC in Java before 1.70
/// reads more than 31 bits as negative, and refuses all requests.
pub(super) fn unlimited() -> CircuitBreakers {
    limited_to(Some(i32::MAX.unsigned_abs()))
}

fn limited_to(requests: Option<u32>) -> CircuitBreakers {
    let thresholds = circuit_breakers::Thresholds {
        priority: RoutingPriority::Default.into(),
        max_connections: Some(UNLIMITED),
        max_pending_requests: Some(UNLIMITED),
        max_requests: Some(requests.unwrap_or(UNLIMITED)),
        max_retries: Some(UNLIMITED),
    };
    CircuitBreakers { thresholds: vec![thresholds] }
}

fn local_rate_limit(plan: &LimitPlan, sharers: u32) -> LocalRateLimit {
    let LimitAnswer { status, headers, .. } = &plan.answer;
    let mut message = LocalRateLimit {
        stat_prefix: STAT_PREFIX.to_owned(),
        status: Some(HttpStatus { code: (*status).into() }),
        // What no limit counts takes from here; a virtual host without this bucket is refused.
        token_bucket: Some(bucket(u32::MAX, Duration { seconds: 1, nanos: 0 })),
        filter_enabled: Some(always()),
        filter_enforced: Some(always()),
        response_headers_to_add: headers
            .iter()
            .map(|(name, value)| super::probes::literal_header(name, value))
            .collect(),
        always_consume_default_token_bucket: Some(false),
        // A caller without it would take the refusal for a failure, and try again.
        rate_limited_as_resource_exhausted: true,
        max_dynamic_descriptors: Some(COUNTERS_MAX),
        ..Default::default()
    };
    for limit in &plan.limits {
        for (index, period) in limit.periods.iter().enumerate() {
            descriptors::add(&mut message, limit, index, *period, sharers);
        }
    }
    message
}

fn always() -> RuntimeFractionalPercent {
    let denominator = fractional_percent::DenominatorType::Hundred.into();
    RuntimeFractionalPercent { default_value: Some(FractionalPercent { numerator: 100, denominator }) }
}

fn bucket(tokens: u32, fill_interval: Duration) -> TokenBucket {
    TokenBucket { max_tokens: tokens, tokens_per_fill: Some(tokens), fill_interval: Some(fill_interval) }
}

#[cfg(test)]
mod tests;
