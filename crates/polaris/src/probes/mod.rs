//! Fault detection: a rule for each probe that is enabled, with the timeout in milliseconds.

use crate::AskedService;
use crate::breakers::header;
use crate::conditions::{api, condition, condition_or_any};
use crate::loss::Loss;
use crate::model::rule::fault_detect::{
    DetectProtocol, FaultDetect, FaultDetectSubRule, HttpProtocolConfig, SocketProtocolConfig,
};
use crate::model::rule::{Body, Rule};
use crate::revision;
use crate::v1;
use crate::v1::fault_detect_rule::{Protocol, TargetService};

const MS_PER_SECOND: u32 = 1000;

/// Returns the fault detection rules among the rules, for one service.
pub(crate) fn rules(rules: &[&Rule], asked: AskedService<'_>) -> Vec<v1::FaultDetectRule> {
    let enabled = rules.iter().filter(|rule| rule.enable);
    enabled.filter_map(|rule| Some(of_rule(rule, detection(rule)?, asked))).flatten().collect()
}

fn detection(rule: &Rule) -> Option<&FaultDetect> {
    if let Body::FaultDetect(body) = &rule.body { Some(body) } else { None }
}

/// Returns the losses of a fault detection rule, and whether any part of it is carried; `None` for other families.
pub(crate) fn losses(rule: &Rule) -> Option<(Vec<Loss>, bool)> {
    let probes: Vec<_> = detection(rule)?.probes().into_iter().filter(|(_, probe)| !probe.disable).collect();
    let mut losses = Vec::new();
    for (place, probe) in &probes {
        if protocol(probe) == Protocol::Unknown {
            losses.push(Loss::left_out(23, format!("{place}: SDKs probe by HTTP, TCP or UDP")));
        } else if probes.iter().filter(|(_, other)| other.protocol == probe.protocol).count() > 1 {
            losses.push(Loss::approximate(22, format!("{place}: SDKs take one probe of a protocol")));
        }
    }
    let carries_any = probes.iter().any(|(_, probe)| protocol(probe) != Protocol::Unknown);
    if carries_any {
        let why = "SDKs probe only where a circuit breaker of the service has fault_detect_config enabled";
        losses.push(Loss::approximate(21, why));
        let why = "Go up to 1.7.0 probes nothing, Java 2.1 every 30 s whatever the interval";
        losses.push(Loss::approximate(24, why));
    }
    Some((losses, carries_any))
}

fn of_rule(rule: &Rule, body: &FaultDetect, asked: AskedService<'_>) -> Vec<v1::FaultDetectRule> {
    let probes = body.probes().into_iter().map(|(_, probe)| probe).enumerate();
    let able: Vec<_> = probes.filter(|(_, probe)| !probe.disable && protocol(probe) != Protocol::Unknown).collect();
    let is_alone = able.len() == 1;
    let suffix = |index: usize| if is_alone { String::new() } else { format!("#{index}") };
    able.iter().map(|(index, probe)| of_probe(rule, body, probe, &suffix(*index), asked)).collect()
}

fn of_probe(
    rule: &Rule,
    body: &FaultDetect,
    probe: &FaultDetectSubRule,
    suffix: &str,
    asked: AskedService<'_>,
) -> v1::FaultDetectRule {
    let protocol = protocol(probe);
    let mapped = v1::FaultDetectRule {
        id: format!("{}{suffix}", rule.id),
        name: format!("{}{suffix}", rule.name),
        namespace: rule.namespace.clone(),
        revision: String::new(),
        description: rule.description.clone(),
        target_service: Some(target(body, asked)),
        interval: probe.interval.0,
        timeout: probe.timeout.0.saturating_mul(MS_PER_SECOND),
        port: probe.port.0,
        protocol: protocol.into(),
        http_config: probe.http_config.as_ref().filter(|_| protocol == Protocol::Http).map(http),
        tcp_config: probe.tcp_config.as_ref().filter(|_| protocol == Protocol::Tcp).map(socket),
        udp_config: probe.udp_config.as_ref().filter(|_| protocol == Protocol::Udp).map(socket),
        priority: rule.priority,
    };
    v1::FaultDetectRule { revision: revision::of_message(&mapped), ..mapped }
}

/// Returns the target in the older and the newer form: Java 2.1 compares `api`, others `method`.
fn target(body: &FaultDetect, asked: AskedService<'_>) -> TargetService {
    let given = body.target_service.as_ref();
    let method = given.and_then(|target| target.method.as_ref());
    let own = given.and_then(|target| target.api.as_ref());
    let mut interface = api(own);
    if let Some(method) = method.filter(|_| own.is_none()) {
        interface.path = Some(condition(method));
    }
    let method = condition_or_any(method.or(own.and_then(|api| api.path.as_ref())));
    TargetService {
        service: asked.service.to_owned(),
        namespace: asked.namespace.to_owned(),
        method: Some(method),
        api: Some(interface),
    }
}

fn protocol(probe: &FaultDetectSubRule) -> Protocol {
    match probe.protocol {
        DetectProtocol::Unknown => Protocol::Unknown,
        DetectProtocol::Http => Protocol::Http,
        DetectProtocol::Tcp => Protocol::Tcp,
        DetectProtocol::Udp => Protocol::Udp,
    }
}

fn http(config: &HttpProtocolConfig) -> v1::HttpProtocolConfig {
    v1::HttpProtocolConfig {
        method: config.method.clone(),
        url: config.url.clone(),
        headers: config.headers.iter().map(header).collect(),
        body: config.body.clone(),
    }
}

fn socket(config: &SocketProtocolConfig) -> v1::SocketProtocolConfig {
    v1::SocketProtocolConfig { send: config.send.clone(), receive: config.receive.clone() }
}

#[cfg(test)]
mod tests;
