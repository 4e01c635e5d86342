//! Outlier detection of a cluster.

use prost_types::Duration;

use crate::model::mesh::Dialect;
use crate::model::mesh::breakers::{Detection, ErrorRate};
use crate::proto::envoy::config::cluster::v3::OutlierDetection;

/// Percentage of detected instances that are ejected.
const ALWAYS: u32 = 100;
/// Largest threshold for gRPC, which ejects only above it.
const GRPC_PERCENT_MAX: u32 = 99;
/// Upper bound in seconds of the interval between checks, where no error rate defines it. The interval is a tenth of
/// the ejection time.
const INTERVAL_MAX_S: u32 = 10;

/// Returns the message for clients of a dialect, or `None` if they support no part of it. Other detectors are disabled.
pub(super) fn detection(wanted: &Detection, dialect: Dialect) -> Option<OutlierDetection> {
    let consecutive = wanted.consecutive_errors.filter(|_| dialect == Dialect::Envoy);
    if consecutive.is_none() && wanted.error_rate.is_none() {
        return None;
    }
    let interval = match &wanted.error_rate {
        Some(rate) => rate.interval_s,
        None => (wanted.sleep_s / INTERVAL_MAX_S).clamp(1, INTERVAL_MAX_S),
    };
    let message = OutlierDetection {
        consecutive_5xx: consecutive,
        interval: seconds(interval),
        base_ejection_time: seconds(wanted.sleep_s),
        // Otherwise the time would increase with each ejection of an instance.
        max_ejection_time: seconds(wanted.sleep_s),
        max_ejection_percent: wanted.max_ejection_percent,
        enforcing_consecutive_5xx: Some(if consecutive.is_some() { ALWAYS } else { 0 }),
        enforcing_success_rate: Some(0),
        enforcing_consecutive_gateway_failure: Some(0),
        enforcing_failure_percentage: Some(0),
        // Otherwise the next successful probe would end the ejection, although an instance may pass probes and fail
        // calls.
        successful_active_health_check_uneject_host: Some(false),
        ..Default::default()
    };
    Some(match &wanted.error_rate {
        Some(rate) => with_rate(message, rate, dialect),
        None => message,
    })
}

fn with_rate(message: OutlierDetection, rate: &ErrorRate, dialect: Dialect) -> OutlierDetection {
    let threshold = match dialect {
        Dialect::Envoy => rate.percent,
        Dialect::Grpc => rate.percent.saturating_sub(1).min(GRPC_PERCENT_MAX),
    };
    OutlierDetection {
        failure_percentage_threshold: Some(threshold),
        enforcing_failure_percentage: Some(ALWAYS),
        failure_percentage_minimum_hosts: Some(1),
        failure_percentage_request_volume: Some(rate.minimum_requests),
        ..message
    }
}

fn seconds(seconds: u32) -> Option<Duration> {
    Some(Duration { seconds: seconds.into(), nanos: 0 })
}

#[cfg(test)]
mod tests;
