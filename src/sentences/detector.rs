//! Fault detection in sentences: each probe, its interval, and its failure.

use super::conditions::{all_of, condition, interface, joined, listed, named, quoted};
use super::language::Language;
use super::story::Story;
use crate::model::rule::fault_detect::{
    DestinationService, DetectProtocol, FaultDetectSubRule, HttpProtocolConfig, SocketProtocolConfig,
};
use crate::model::rule::{Body, Rule};

pub(super) fn tell(story: &mut Story, rule: &Rule) {
    let language = story.language;
    let seen = rule.as_clients_see();
    let Body::FaultDetect(body) = &seen.body else { return };
    let ends = rule.ends();
    if ends.is_empty() {
        return story.say(|| language.for_nothing());
    }
    if body.rules.is_empty() {
        return story.say(|| language.nothing());
    }
    let services =
        joined(language, ends.iter().map(|end| named(language, end)), |first, second| language.and(first, second));
    story.say_each(&body.rules, |probe| {
        let told = probe_sentence(language, probe, &services);
        if probe.disable { language.part_off(told) } else { told }
    });
    let conditions = body.target_service.as_ref().map(|target| of_interface(language, target)).unwrap_or_default();
    if !conditions.is_empty() {
        story.say(|| language.probe_interface(all_of(language, conditions)));
    }
    if body.rules.len() > 1 {
        story.say(|| language.several_probes());
    }
}

fn of_interface(language: Language, target: &DestinationService) -> Vec<String> {
    let mut conditions = target.api.as_ref().map(|api| interface(language, api)).unwrap_or_default();
    let method = target.method.as_ref().filter(|method| !method.is_open());
    conditions.extend(method.map(|method| condition(language, &language.part_method(), Some(method))));
    conditions
}

fn probe_sentence(language: Language, probe: &FaultDetectSubRule, services: &str) -> String {
    let [probed, more @ ..] = clauses(language, probe);
    let more = more.into_iter().filter(|clause| !clause.is_empty()).map(|clause| language.sentence(clause));
    language.paragraph([language.sentence(language.instances(services, probed))].into_iter().chain(more))
}

/// Describes the effect of one probe, in one line.
pub(super) fn effect(language: Language, probe: &FaultDetectSubRule) -> String {
    language.clauses(clauses(language, probe))
}

/// Describes a probe, its failure, and its good answers; what needs no words is empty.
fn clauses(language: Language, probe: &FaultDetectSubRule) -> [String; 3] {
    let (way, good) = match probe.protocol {
        DetectProtocol::Unknown => return [language.unprobed(), String::new(), String::new()],
        DetectProtocol::Http => {
            let way = language.by_http(request(language, &probe.http_config.clone().unwrap_or_default()));
            (way, language.good_status())
        }
        DetectProtocol::Tcp => socket(language, language.by_tcp(), probe.tcp_config.as_ref()),
        DetectProtocol::Udp => socket(language, language.by_udp(), probe.udp_config.as_ref()),
    };
    let port = match probe.port.0 {
        0 => language.own_port(),
        port => language.port(port),
    };
    let every = match probe.interval.0 {
        0 => language.every_default(),
        seconds => language.every(seconds),
    };
    let fails = match probe.timeout.0 {
        0 => language.fails_by_default(),
        seconds => language.fails_after(seconds),
    };
    [language.probed(way, port, every), fails, good]
}

/// Formats the request of a probe, by default `GET /`.
fn request(language: Language, config: &HttpProtocolConfig) -> String {
    let or = |given: &str, default: &str| quoted(if given.is_empty() { default } else { given });
    let line = format!("{} {}", or(&config.method, "GET"), or(&config.url, "/"));
    let body = (!config.body.is_empty()).then(|| language.body(quoted(&config.body)));
    let headers = config.headers.iter().map(|header| language.sent_header(quoted(&header.key), quoted(&header.value)));
    let parts = joined(language, body.into_iter().chain(headers), |first, second| language.and(first, second));
    if parts.is_empty() { line } else { language.with_headers(line, parts) }
}

/// Formats the bytes to send and the accepted answers; empty if any answer is accepted.
fn socket(language: Language, way: String, config: Option<&SocketProtocolConfig>) -> (String, String) {
    let Some(config) = config else { return (way, String::new()) };
    let way = if config.send.is_empty() { way } else { language.sending(way, quoted(&config.send)) };
    let answers: Vec<&str> = config.receive.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let good = if answers.is_empty() { String::new() } else { language.good_answers(listed(language, answers)) };
    (way, good)
}
