//! The effect of rules on one request: a line for each sub-rule that applies, or one with the reasons why none does.

use super::conditions::{all_of, bounded, condition, interface, joined, label, named, part as part_of_call, quoted};
use super::language::Language;
use super::story::Story;
use super::{breaker, detector, ratelimit, routing};
use crate::model::explain::{ApiFinding, Explanation, Finding, Gray, GrayState, Judged, Part, Share, Verdict};
use crate::model::release::ReleaseType;
use crate::model::rule::circuit_breaker::BreakLevel;
use crate::model::rule::matching::MatchString;
use crate::model::rule::routing::{RoutePolicy, TrafficMatchMode};
use crate::model::rule::traffic::{ArgumentType, ServiceKey};
use crate::model::rule::{Body, End, SubRuleEffect};

/// Describes what happens to the request of an explanation.
pub(crate) fn effect(language: Language, explanation: &Explanation<'_>) -> Vec<String> {
    let mut story = Story::new(language);
    let mut left = Share::ALL;
    for judged in &explanation.candidates {
        for part in judged.rules.iter().filter(|part| part.verdict == Verdict::Applies) {
            story.say(|| applying(language, explanation, judged, part));
            if judged.route_policy == Some(RoutePolicy::Rule) {
                left = left.without(part.share);
            }
        }
    }
    if story.len() == 0 {
        return vec![language.none_applies(reasons(language, explanation))];
    }
    if left != Share::ALL && left.percent() > 0.0 {
        story.say(|| language.leads_to(language.others(language.percent(left.percent())), language.left_to_none()));
    }
    story.end()
}

/// Describes the effect of a sub-rule that applies.
fn applying(language: Language, explanation: &Explanation<'_>, judged: &Judged<'_>, part: &Part<'_>) -> String {
    let called = End { namespace: explanation.namespace.to_owned(), service: explanation.service.to_owned() };
    let rule = judged.rule;
    let what = match (&rule.body, &part.effect) {
        (Body::RateLimit(body), _) => {
            body.rules.get(part.index).map(|trigger| ratelimit::effect(language, body.kind, trigger))
        }
        (Body::Routing(body), SubRuleEffect::Route(route)) => {
            let config = &body.routing_config;
            let configured = config.custom_rules().get(part.index);
            configured.map(|configured| {
                routing::destinations(language, rule, (config, configured), &called, &route.destinations)
            })
        }
        (Body::Routing(body), _) => Some(routing::preferred(language, body)),
        (Body::FaultDetect(_), SubRuleEffect::Probe(probe)) => Some(detector::effect(language, probe)),
        (Body::CircuitBreaker(body), _) => {
            body.blocks().get(part.index).map(|block| breaker::effect(language, body, block))
        }
        _ => None,
    };
    let calls = affected(language, explanation, judged, part);
    let calls = match (calls.is_empty(), &rule.body) {
        (false, _) => calls,
        (true, Body::FaultDetect(_)) => language.every_instance_of(named(language, &called)),
        (true, _) => language.every_call(),
    };
    language.effect(calls, what.unwrap_or_else(|| part.info.clone()), source(language, judged, part))
}

/// Describes the clients and the calls that the sub-rule affects; empty for all of them.
fn affected(language: Language, explanation: &Explanation<'_>, judged: &Judged<'_>, part: &Part<'_>) -> String {
    let gray = gray_of(explanation, judged);
    let caller = caller_of(judged).map(|caller| language.from(named(language, &caller)));
    let interface = part.apis.iter().find(|api| api.matched).map(|api| all_of(language, interface(language, api.api)));
    let arguments = part.arguments.iter().filter(|finding| finding.matched && !is_open_part(judged, finding));
    let arguments = arguments.map(|finding| condition_of(language, judged, finding));
    let parts = gray.map(|gray| audience(language, gray)).into_iter().chain(caller).chain(interface).chain(arguments);
    let parts = parts.filter(|text| !text.is_empty());
    joined(language, parts, |first, second| language.comma(first, second))
}

/// Returns the gray release whose rule the client sees.
fn gray_of<'a, 'e>(explanation: &'a Explanation<'e>, judged: &Judged<'_>) -> Option<&'a Gray<'e>> {
    let release = judged.release?;
    explanation.grays.iter().find(|gray| gray.release.id == release.id)
}

/// Describes the clients of a gray release.
fn audience(language: Language, gray: &Gray<'_>) -> String {
    let labels = gray.client_labels.iter().map(|finding| label(language, finding.key, finding.condition));
    let share = gray
        .client_percent
        .iter()
        .map(|share| language.share_of_clients(language.percent(share.percent.0), quoted(share.by)));
    joined(language, labels.chain(share), |first, second| language.comma(first, second))
}

/// Returns the calling service to which the rule is restricted.
fn caller_of(judged: &Judged<'_>) -> Option<End> {
    let end = |key: &ServiceKey| End::of(&key.namespace, &key.service, &judged.rule.namespace);
    let caller = match &judged.rule.body {
        Body::Routing(body) if body.route_policy == RoutePolicy::Rule => {
            body.routing_config.caller.as_ref().and_then(end)
        }
        Body::CircuitBreaker(body) => end(&body.rule_matcher.source),
        _ => None,
    };
    caller.filter(|caller| *caller != End::every())
}

/// Reports whether a finding of a breaker is that on its caller, or on an interface that may be any.
fn is_open_part(judged: &Judged<'_>, finding: &Finding<'_>) -> bool {
    matches!(judged.rule.body, Body::CircuitBreaker(_)) && finding.condition.is_none_or(MatchString::is_open)
}

fn condition_of(language: Language, judged: &Judged<'_>, finding: &Finding<'_>) -> String {
    let part = match (&judged.rule.body, finding.kind) {
        (Body::CircuitBreaker(_), ArgumentType::Method) => language.part_interface(),
        (_, kind) => part_of_call(language, kind, finding.key),
    };
    condition(language, &part, finding.condition)
}

/// Names the rule, its release, and the sub-rule if there are several.
fn source(language: Language, judged: &Judged<'_>, part: &Part<'_>) -> String {
    let number = (judged.rules.len() > 1).then(|| language.sub_rule(part.index + 1));
    let kind = match judged.release.map(|release| release.release_type) {
        Some(ReleaseType::Gray) => language.canary(),
        Some(ReleaseType::Normal) => language.live(),
        None => language.draft(),
    };
    let parts = [titled(language, judged)].into_iter().chain(number).chain([kind]);
    joined(language, parts, |first, second| language.comma(first, second))
}

/// Formats the name of a rule, with the version of its release.
fn titled(language: Language, judged: &Judged<'_>) -> String {
    let name = quoted(judged.rule_name);
    judged.release.map_or_else(|| name.clone(), |release| language.of_release(&name, release.version))
}

/// Describes why no rule applies: the reason of each rule of the service, and canaries that the client does not see.
fn reasons(language: Language, explanation: &Explanation<'_>) -> String {
    let of_rules = explanation.candidates.iter().map(|judged| reason(language, judged));
    let unseen = explanation.grays.iter().filter(|gray| gray.state == GrayState::NotMatched).map(|gray| {
        let name = language.of_release(quoted(gray.rule_name), gray.release.version);
        language.is_canary_for(name, audience(language, gray))
    });
    let reasons = bounded(of_rules.chain(unseen), |more| language.more_items(more));
    if reasons.is_empty() {
        let called = End { namespace: explanation.namespace.to_owned(), service: explanation.service.to_owned() };
        return language.names_none(named(language, &called));
    }
    language.clauses(reasons)
}

/// Describes why a rule does not apply, by its sub-rule that came closest.
fn reason(language: Language, judged: &Judged<'_>) -> String {
    let name = titled(language, judged);
    let closest = judged.rules.iter().rev().max_by_key(|part| part.verdict);
    let Some(part) = closest else { return language.has_no_parts(name) };
    match part.verdict {
        Verdict::Disabled => language.is_off(name),
        Verdict::Empty | Verdict::Applies => language.is_empty(name),
        Verdict::Shadowed => language.is_behind(name),
        Verdict::NotMatched => mismatch(language, name, judged, part),
    }
}

/// Describes the calls for which a sub-rule is that does not match.
fn mismatch(language: Language, name: String, judged: &Judged<'_>, part: &Part<'_>) -> String {
    let failed = |finding: &&Finding<'_>| !finding.matched && !is_open_part(judged, finding);
    let conditions = part.arguments.iter().filter(failed).map(|finding| condition_of(language, judged, finding));
    let conditions = match &part.effect {
        SubRuleEffect::Route(route) if route.match_mode == TrafficMatchMode::Or => {
            joined(language, conditions, |first, second| language.either(first, second))
        }
        _ => all_of(language, conditions),
    };
    let is_other = !part.apis.is_empty() && !part.apis.iter().any(|api| api.matched);
    match &judged.rule.body {
        Body::CircuitBreaker(body) if body.level == BreakLevel::Unknown => language.is_on_no_level(name),
        _ if is_other => language.is_for(name, interfaces(language, &part.apis)),
        _ if !conditions.is_empty() => language.is_for(name, conditions),
        Body::FaultDetect(body) => match body.target_service.as_ref().and_then(|target| target.method.as_ref()) {
            Some(method) => language.is_for(name, of_method(language, method)),
            None => language.is_for_others(name),
        },
        _ => match caller_of(judged) {
            Some(caller) => language.is_for_caller(name, named(language, &caller)),
            None => language.is_for_others(name),
        },
    }
}

fn of_method(language: Language, method: &MatchString) -> String {
    condition(language, &language.part_method(), Some(method))
}

fn interfaces(language: Language, apis: &[ApiFinding<'_>]) -> String {
    let each = apis.iter().map(|api| all_of(language, interface(language, api.api)));
    joined(language, each, |first, second| language.either(first, second))
}
