//! Health checks of the instances of a cluster by proxies.

use prost_types::Duration;

use crate::model::mesh::probes::{Check, HttpCheck, Probe, ProbePlan};
use crate::proto::envoy::config::cluster::v3::Cluster;
use crate::proto::envoy::config::core::v3 as core;
use crate::proto::envoy::config::core::v3::health_check::{HealthChecker, HttpHealthCheck, Payload, TcpHealthCheck};
use crate::proto::envoy::config::endpoint::v3::endpoint::HealthCheckConfig;
use crate::proto::envoy::r#type::v3::{CodecClientType, Int64Range};

/// Number of consecutive failed probes after which an instance is unhealthy.
const UNHEALTHY_AFTER: u32 = 3;
const HEALTHY_AFTER: u32 = 1;
/// Range of successful statuses; the end is exclusive.
const GOOD: Int64Range = Int64Range { start: 200, end: 400 };

/// Adds health checks to a cluster. `host` is the host name of probes if the rule names none.
pub(super) fn apply(plan: &ProbePlan, host: &str, is_http2: bool, cluster: &mut Cluster) {
    cluster.health_checks = plan.probe.iter().map(|probe| health_check(probe, host, is_http2)).collect();
    // Otherwise a removed instance remains until a probe of it fails.
    cluster.ignore_health_on_host_removal = true;
}

/// Returns the port to probe on an endpoint, or `None` for the endpoint's own port.
pub(super) fn endpoint_config(plan: &ProbePlan) -> Option<HealthCheckConfig> {
    let port = plan.probe.as_ref()?.port?;
    Some(HealthCheckConfig { port_value: port.into() })
}

fn health_check(probe: &Probe, host: &str, is_http2: bool) -> core::HealthCheck {
    let health_checker = match &probe.check {
        Check::Http(check) => HealthChecker::HttpHealthCheck(http(check, host, is_http2)),
        Check::Tcp { send, receive } => HealthChecker::TcpHealthCheck(TcpHealthCheck {
            send: payload(send),
            receive: receive.iter().filter_map(|text| payload(text)).collect(),
        }),
    };
    let interval = seconds(probe.interval_s);
    core::HealthCheck {
        timeout: seconds(probe.timeout_s),
        interval,
        // By default a cluster without traffic is probed once a minute, so an initial failure would last that long.
        no_traffic_interval: interval,
        unhealthy_threshold: Some(UNHEALTHY_AFTER),
        healthy_threshold: Some(HEALTHY_AFTER),
        health_checker: Some(health_checker),
    }
}

fn http(check: &HttpCheck, host: &str, is_http2: bool) -> HttpHealthCheck {
    let method = core::RequestMethod::from_str_name(&check.method).unwrap_or(core::RequestMethod::Get);
    let codec = if is_http2 { CodecClientType::Http2 } else { CodecClientType::Http1 };
    HttpHealthCheck {
        host: check.host.clone().unwrap_or_else(|| host.to_owned()),
        path: check.path.clone(),
        send: payload(&check.body),
        request_headers_to_add: check.headers.iter().map(|(name, value)| literal_header(name, value)).collect(),
        expected_statuses: vec![GOOD],
        codec_client_type: codec.into(),
        method: method.into(),
    }
}

/// Returns a header that replaces one of the same name. Percent signs are doubled, because they start a command in
/// proxies.
pub(super) fn literal_header(name: &str, value: &str) -> core::HeaderValueOption {
    core::HeaderValueOption {
        header: Some(core::HeaderValue { key: name.to_owned(), value: value.replace('%', "%%") }),
        append_action: core::header_value_option::HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
    }
}

/// Returns a payload in hexadecimal digits, or `None` if it is empty.
fn payload(text: &str) -> Option<Payload> {
    let digits = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    (!text.is_empty()).then_some(Payload { payload: Some(core::health_check::payload::Payload::Text(digits)) })
}

fn seconds(seconds: u32) -> Option<Duration> {
    Some(Duration { seconds: seconds.into(), nanos: 0 })
}

#[cfg(test)]
mod tests;
