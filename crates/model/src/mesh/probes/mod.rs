//! Fault detection as proxies carry it out: probes of the instances of a service.
//!
//! | rule | carried as |
//! |---|---|
//! | interval 0, timeout 0 | 5 s, 1 s |
//! | HTTP | a request with that method; a status from 200 to 399 is a success |
//! | a URL with a host | its host and path; `https` is omitted |
//! | body | for the methods with a body: POST, PUT, PATCH, OPTIONS |
//! | TCP | bytes to send, and one answer; omitted with several answers |
//! | UDP | nothing |
//! | several probes of a service | the first one that is carried: proxies refuse a cluster with more |
//! | interface | nothing: the instances are probed as a whole |
//!
//! gRPC clients send no probes. The registered health applies in addition to probes: an instance is used if both are
//! good.

use std::borrow::Cow;

use super::warning::{ENVOY, GRPC, Warning};
use crate::model::rule::fault_detect::{
    DetectProtocol, FaultDetect, FaultDetectSubRule, HttpProtocolConfig, SocketProtocolConfig,
};
use crate::model::rule::{Body, Rule};
use crate::model::wire::Words;

const INTERVAL_DEFAULT_S: u32 = 5;
const TIMEOUT_DEFAULT_S: u32 = 1;
/// Probes of one instance per second, by all proxies, from which on there is a warning.
pub const LOAD_TOLD_FROM: u64 = 1_000;
/// Number of proxies that is assumed if it is unknown: as many as one node is designed for.
pub const PROXIES_ASSUMED: u64 = 1_000;
/// Highest number of headers that a proxy adds to a probe.
const HEADERS_MAX: usize = 1_000;
const HEADER_BYTES_MAX: usize = 16_384;
const HTTP_METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];
const METHODS_WITH_BODY: [&str; 4] = ["POST", "PUT", "PATCH", "OPTIONS"];

/// Probe of the instances of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbePlan {
    pub probe: Option<Probe>,
}

/// A single probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Port to probe; `None` for that of each instance.
    pub port: Option<u16>,
    pub interval_s: u32,
    pub timeout_s: u32,
    pub check: Check,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Http(HttpCheck),
    Tcp {
        /// Bytes to send; empty to only connect.
        send: String,
        /// Expected answer; `None` for any.
        receive: Option<String>,
    },
}

/// A request to which an instance must respond successfully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    pub method: String,
    /// Host header; `None` for the service's own name.
    pub host: Option<String>,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Returns the first probe of the enabled rules that can be carried.
pub fn plan(rules: &[&Rule]) -> ProbePlan {
    let mut planner = ProbePlanner::default();
    for rule in rules.iter().filter(|rule| rule.enable) {
        planner.add(rule);
    }
    planner.plan
}

/// Returns the warnings of a rule, as if it were enabled.
pub fn warnings(rule: &Rule) -> Vec<Warning> {
    let mut planner = ProbePlanner::default();
    planner.add(rule);
    planner.warnings.push(Warning::left_out(21, GRPC, "gRPC clients send no probes: they see health as registered"));
    planner.warnings
}

/// Returns the warning on a high load by probes, if there is one.
pub fn load(place: &str, interval_s: u32, proxies: u64, instances: u64) -> Option<Warning> {
    let rate = proxies.saturating_mul(instances) / u64::from(interval_s.max(1));
    let text = format!("{place}: {proxies} proxies probe {instances} instances each {interval_s} s: {rate} a second");
    (rate >= LOAD_TOLD_FROM).then(|| Warning::approximate(24, ENVOY, text))
}

#[derive(Default)]
struct ProbePlanner {
    plan: ProbePlan,
    warnings: Vec<Warning>,
}

impl ProbePlanner {
    fn add(&mut self, rule: &Rule) {
        let seen = match rule.as_clients_see() {
            Cow::Borrowed(rule) => Cow::Borrowed(&rule.body),
            Cow::Owned(rule) => Cow::Owned(rule.body),
        };
        let Body::FaultDetect(body) = &*seen else { return };
        self.warn_of_interface(body);
        for (index, probe) in body.rules.iter().enumerate().filter(|(_, probe)| !probe.disable) {
            let place = format!("rules[{index}]");
            match self.planned(probe, &place) {
                Ok(_) if self.plan.probe.is_some() => {
                    let text = format!("{place}: a second probe is not carried by xDS: Envoy takes one a service");
                    self.warnings.push(Warning::left_out(15, ENVOY, text));
                }
                Ok(planned) => {
                    self.warnings.extend(load(&place, planned.interval_s, PROXIES_ASSUMED, 1));
                    self.plan.probe = Some(planned);
                }
                Err(warning) => self.warnings.push(warning),
            }
        }
    }

    fn warn_of_interface(&mut self, body: &FaultDetect) {
        let Some(target) = &body.target_service else { return };
        for (field, is_given) in [("api", target.api.is_some()), ("method", target.method.is_some())] {
            if is_given {
                let text =
                    format!("target_service.{field} is not carried by xDS: probes are of the service as a whole");
                self.warnings.push(Warning::approximate(15, ENVOY, text));
            }
        }
    }

    fn planned(&mut self, probe: &FaultDetectSubRule, place: &str) -> Result<Probe, Warning> {
        let check = match probe.protocol {
            DetectProtocol::Http => Check::Http(self.http(probe.http_config.as_ref(), place)?),
            DetectProtocol::Tcp => tcp(probe.tcp_config.as_ref(), place)?,
            DetectProtocol::Udp => {
                return Err(Warning::left_out(23, ENVOY, format!("{place}: UDP probes are not carried")));
            }
            DetectProtocol::Unknown => return Err(not_carried(place, "protocol", probe.protocol.word())),
        };
        let or_default = |given: u32, default| if given == 0 { default } else { given };
        Ok(Probe {
            port: u16::try_from(probe.port.0).ok().filter(|port| *port > 0),
            interval_s: or_default(probe.interval.0, INTERVAL_DEFAULT_S),
            timeout_s: or_default(probe.timeout.0, TIMEOUT_DEFAULT_S),
            check,
        })
    }

    fn http(&mut self, config: Option<&HttpProtocolConfig>, place: &str) -> Result<HttpCheck, Warning> {
        let blank = HttpProtocolConfig::default();
        let config = config.unwrap_or(&blank);
        let method = if config.method.is_empty() { "GET".to_owned() } else { config.method.to_ascii_uppercase() };
        if !HTTP_METHODS.contains(&&*method) {
            return Err(not_carried(place, "http_config.method", &config.method));
        }
        let (mut host, path) = target(&config.url).ok_or_else(|| not_carried(place, "http_config.url", &config.url))?;
        let mut headers = Vec::new();
        for header in &config.headers {
            let is_fit = is_header_name(&header.key) && is_header_value(&header.value);
            if !is_fit || headers.len() == HEADERS_MAX {
                return Err(not_carried(place, "http_config.headers", &header.key));
            }
            if header.key.eq_ignore_ascii_case("host") {
                host = Some(header.value.clone()).filter(|host| !host.is_empty());
            } else {
                headers.push((header.key.clone(), header.value.clone()));
            }
        }
        let has_body = METHODS_WITH_BODY.contains(&&*method);
        if !config.body.is_empty() && !has_body {
            let text = format!("{place}: http_config.body with {method} is not carried by xDS");
            self.warnings.push(Warning::approximate(15, ENVOY, text));
        }
        let body = if has_body { config.body.clone() } else { String::new() };
        Ok(HttpCheck { method, host, path, headers, body })
    }
}

fn tcp(config: Option<&SocketProtocolConfig>, place: &str) -> Result<Check, Warning> {
    let blank = SocketProtocolConfig::default();
    let config = config.unwrap_or(&blank);
    let mut answers: Vec<&String> = config.receive.iter().filter(|text| !text.is_empty()).collect();
    answers.dedup();
    // Envoy would require all answers, so an instance that sends one of them would never be healthy.
    if answers.len() > 1 {
        let text = format!("{place}: Envoy wants all of the texts received: not carried");
        return Err(Warning::left_out(22, ENVOY, text));
    }
    Ok(Check::Tcp { send: config.send.clone(), receive: answers.first().map(|text| (*text).clone()) })
}

fn not_carried(place: &str, field: &str, value: &str) -> Warning {
    Warning::left_out(15, ENVOY, format!("{place}: {field} {value} is not carried by xDS"))
}

/// Returns host and path of a URL; without a scheme the whole text is the path.
fn target(url: &str) -> Option<(Option<String>, String)> {
    if !is_header_value(url) {
        return None;
    }
    let has_scheme = |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if has_scheme("https://") {
        return None;
    }
    if !has_scheme("http://") {
        let slash = if url.starts_with('/') { "" } else { "/" };
        return Some((None, format!("{slash}{url}")));
    }
    let rest = url.get("http://".len()..)?;
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let slash = if path.starts_with('/') { "" } else { "/" };
    Some((Some(host.to_owned()).filter(|host| !host.is_empty()), format!("{slash}{path}")))
}

/// Reports whether a proxy can add or compare a header of this name; pseudo headers are excluded.
pub fn is_header_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= HEADER_BYTES_MAX && name.bytes().all(is_token)
}

/// Reports whether a proxy accepts this header value.
pub(super) fn is_header_value(value: &str) -> bool {
    let is_fit = |character: char| character == '\t' || !character.is_control();
    value.len() <= HEADER_BYTES_MAX && value.chars().all(is_fit)
}

#[cfg(test)]
mod tests;
