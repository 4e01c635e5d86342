//! Rate limits in the proxy next to a service: the filter of its listener, the configuration of its virtual host, and
//! the limit of concurrent requests in its cluster.
//!
//! The listener's filter has no bucket; the whole configuration is in the virtual host. A changed limit is thus a
//! changed route configuration, which applies to open connections at once.
//!
//! A changed route configuration refills every bucket, so it must not depend on the health of instances. A quota for
//! all instances is divided by the number of registered instances that are not isolated ([`sharers`]).

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

/// Name of the filter, in the listener and in the configuration of virtual hosts.
pub(super) const LOCAL_RATE_LIMIT: &str = "envoy.filters.http.local_ratelimit";
const STAT_PREFIX: &str = "inbound";
/// Value for unlimited requests and connections.
const UNLIMITED: u32 = u32::MAX;

/// Returns the filter for the listener, which precedes the router and limits nothing itself.
pub(super) fn inbound_filter() -> HttpFilter {
    let message = LocalRateLimit { stat_prefix: STAT_PREFIX.to_owned(), ..Default::default() };
    HttpFilter {
        name: LOCAL_RATE_LIMIT.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(Any::pack(&message))),
        is_optional: false,
    }
}

/// Returns the number of instances that share a quota, regardless of their health.
pub(super) fn sharers<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> u32 {
    let count = instances.into_iter().filter(|instance| !instance.isolate).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Adds the limits of a service to its virtual host.
pub(super) fn apply(plan: &LimitPlan, sharers: u32, host: &mut VirtualHost) {
    if plan.limits.is_empty() {
        return;
    }
    let message = local_rate_limit(plan, sharers);
    host.typed_per_filter_config.insert(LOCAL_RATE_LIMIT.to_owned(), Any::pack(&message));
}

/// Returns the limit of concurrent requests for the cluster of the service next to a proxy.
pub(super) fn circuit_breakers(plan: &LimitPlan, sharers: u32) -> CircuitBreakers {
    limited_to(plan.concurrency.iter().map(|amount| amount.share(sharers)).min())
}

/// Returns the limits of a cluster without rules; clients would otherwise apply 1,024. gRPC in Java before 1.70 reads
/// more than 31 bits as negative and refuses all requests.
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
        // Requests without a matching limit use this bucket. A virtual host without it is refused.
        token_bucket: Some(bucket(u32::MAX, Duration { seconds: 1, nanos: 0 })),
        filter_enabled: Some(always()),
        filter_enforced: Some(always()),
        response_headers_to_add: headers
            .iter()
            .map(|(name, value)| super::probes::literal_header(name, value))
            .collect(),
        always_consume_default_token_bucket: Some(false),
        // Without this status a caller would treat the refusal as a failure and retry.
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
