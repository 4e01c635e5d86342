//! Circuit breakers: the blocks, and the older fields made from them for SDKs that read these alone.
//!
//! | in a rule | in an answer |
//! |---|---|
//! | older fields alone | a block made from them |
//! | several blocks on the level METHOD | a rule for each block |
//! | several blocks on another level | one rule; the older fields are those of the first block |
//! | no caller, or no callee | `*` |
//! | no method | EXACT `*`: Go fails without one |

use crate::AskedService;
use crate::conditions::{api, condition, condition_or_any, or_all};
use crate::loss::Loss;
use crate::model::rule::circuit_breaker::{
    Block, BreakLevel, CircuitBreaker, ErrorCondition, ErrorInput, FallbackConfig, TriggerCondition, TriggerType,
};
use crate::model::rule::fault_detect::MessageHeader;
use crate::model::rule::matching::ALL;
use crate::model::rule::{Body, End, Rule};
use crate::model::wire::Words;
use crate::revision;
use crate::v1;
use crate::v1::circuit_breaker_rule::Level;
use crate::v1::error_condition::InputType;
use crate::v1::rule_matcher::{DestinationService, SourceService};
use crate::v1::trigger_condition::TriggerType as Trigger;

/// Returns the circuit breakers among the rules whose callee is the service.
pub(crate) fn rules(rules: &[&Rule], asked: AskedService<'_>) -> Vec<v1::CircuitBreakerRule> {
    let enabled = rules.iter().filter(|rule| rule.enable);
    enabled.filter_map(|rule| Some(of_rule(rule, breaker(rule)?, asked))).flatten().collect()
}

fn breaker(rule: &Rule) -> Option<&CircuitBreaker> {
    if let Body::CircuitBreaker(body) = &rule.body { Some(body) } else { None }
}

/// Returns the losses of a circuit breaker, and whether any part of it is carried; `None` for other families.
pub(crate) fn losses(rule: &Rule) -> Option<(Vec<Loss>, bool)> {
    let body = breaker(rule)?;
    let blocks = body.blocks();
    let losses = match body.level {
        BreakLevel::Unknown | BreakLevel::Group => {
            vec![Loss::left_out(20, format!("SDKs break on no level {}", body.level.word()))]
        }
        BreakLevel::Method => {
            let is_open = |block: &Block<'_>| match (block.method, block.api) {
                (Some(method), _) => method.is_open(),
                (None, api) => api.and_then(|api| api.path.as_ref()).is_none_or(|path| path.is_open()),
            };
            let at = blocks.iter().position(is_open);
            let why = |at| format!("block_configs[{at}]: Java 2.1 has one breaker for all methods without a path");
            at.map(|at| Loss::approximate(19, why(at))).into_iter().collect()
        }
        BreakLevel::Service | BreakLevel::Instance if blocks.len() > 1 => {
            let why = "SDKs before Go 1.7.1 and Java 2.0 take the first of block_configs alone";
            vec![Loss::approximate(18, why)]
        }
        BreakLevel::Service | BreakLevel::Instance => Vec::new(),
    };
    let carries_any = losses.iter().all(|loss| !loss.is_left_out);
    Some((losses, carries_any))
}

fn of_rule(rule: &Rule, body: &CircuitBreaker, asked: AskedService<'_>) -> Vec<v1::CircuitBreakerRule> {
    let destination = &body.rule_matcher.destination;
    let callee = End::of(&destination.namespace, &destination.service, &rule.namespace);
    let level = match body.level {
        BreakLevel::Service => Level::Service,
        BreakLevel::Method => Level::Method,
        BreakLevel::Instance => Level::Instance,
        BreakLevel::Unknown | BreakLevel::Group => return Vec::new(),
    };
    if callee.is_some() && !asked.is_covered_by(callee.as_ref()) {
        return Vec::new();
    }
    let blocks = body.blocks();
    let whole = Mapped { rule, body, level, callee, asked };
    if level == Level::Method && blocks.len() > 1 {
        let numbered = blocks.iter().enumerate();
        return numbered.map(|(index, block)| whole.of_blocks(&[*block], &format!("#{index}"))).collect();
    }
    vec![whole.of_blocks(&blocks, "")]
}

/// A breaker to be mapped.
struct Mapped<'a> {
    rule: &'a Rule,
    body: &'a CircuitBreaker,
    level: Level,
    callee: Option<End>,
    asked: AskedService<'a>,
}

impl Mapped<'_> {
    fn of_blocks(&self, blocks: &[Block<'_>], suffix: &str) -> v1::CircuitBreakerRule {
        let Mapped { rule, body, level, .. } = self;
        let first = blocks.first();
        let mapped = v1::CircuitBreakerRule {
            id: format!("{}{suffix}", rule.id),
            name: format!("{}{suffix}", rule.name),
            namespace: rule.namespace.clone(),
            enable: true,
            revision: String::new(),
            description: rule.description.clone(),
            level: (*level).into(),
            rule_matcher: Some(self.matcher(first)),
            error_conditions: first.map(|block| errors(block.error_conditions)).unwrap_or_default(),
            trigger_condition: first.map(|block| triggers(block.trigger_conditions)).unwrap_or_default(),
            max_ejection_percent: body.max_ejection_percent.0,
            recover_condition: Some(v1::RecoverCondition {
                sleep_window: body.recover_condition.sleep_window.0,
                consecutive_success: body.recover_condition.consecutive_success.0,
            }),
            fault_detect_config: Some(v1::FaultDetectConfig { enable: body.fault_detect_config.enable }),
            fallback_config: Some(fallback(&body.fallback_config)),
            block_configs: blocks.iter().map(block_config).collect(),
            priority: rule.priority,
        };
        v1::CircuitBreakerRule { revision: revision::of_message(&mapped), ..mapped }
    }

    fn matcher(&self, first: Option<&Block<'_>>) -> v1::RuleMatcher {
        let Mapped { rule, body, level, callee, asked } = self;
        let source = &body.rule_matcher.source;
        let source = End::of(&source.namespace, &source.service, &rule.namespace).unwrap_or_else(End::every);
        let callee = callee.clone().unwrap_or_else(End::every);
        // A callee that is named gets the name in the question, by which SDKs compare.
        let named = |own: &str, asked: &str| if own == ALL { ALL.to_owned() } else { asked.to_owned() };
        let path = first.filter(|_| *level == Level::Method);
        let path = path.and_then(|block| block.method.or(block.api.and_then(|api| api.path.as_ref())));
        v1::RuleMatcher {
            source: Some(SourceService {
                service: or_all(&source.service).to_owned(),
                namespace: or_all(&source.namespace).to_owned(),
            }),
            destination: Some(DestinationService {
                service: named(&callee.service, asked.service),
                namespace: named(&callee.namespace, asked.namespace),
                method: Some(condition_or_any(path)),
            }),
        }
    }
}

fn block_config(block: &Block<'_>) -> v1::BlockConfig {
    let mut interface = api(block.api);
    if let Some(method) = block.method {
        interface.path = Some(condition(method));
    }
    v1::BlockConfig {
        name: block.name.to_owned(),
        api: Some(interface),
        error_conditions: errors(block.error_conditions),
        trigger_conditions: triggers(block.trigger_conditions),
    }
}

fn errors(conditions: &[ErrorCondition]) -> Vec<v1::ErrorCondition> {
    let mapped = conditions.iter().map(|one| v1::ErrorCondition {
        input_type: match one.input_type {
            ErrorInput::Unknown => InputType::Unknown,
            ErrorInput::RetCode => InputType::RetCode,
            ErrorInput::Delay => InputType::Delay,
        }
        .into(),
        condition: Some(condition(&one.condition)),
    });
    mapped.collect()
}

fn triggers(conditions: &[TriggerCondition]) -> Vec<v1::TriggerCondition> {
    let mapped = conditions.iter().map(|one| v1::TriggerCondition {
        trigger_type: match one.trigger_type {
            TriggerType::Unknown => Trigger::Unknown,
            TriggerType::ErrorRate => Trigger::ErrorRate,
            TriggerType::ConsecutiveError => Trigger::ConsecutiveError,
        }
        .into(),
        error_count: one.error_count.0,
        error_percent: one.error_percent.0,
        interval: one.interval.0,
        minimum_request: one.minimum_request.0,
    });
    mapped.collect()
}

fn fallback(config: &FallbackConfig) -> v1::FallbackConfig {
    let response = config.response.as_ref().map(|response| v1::FallbackResponse {
        code: i32::try_from(response.code.0).unwrap_or(i32::MAX),
        headers: response.headers.iter().map(header).collect(),
        body: response.body.clone(),
    });
    v1::FallbackConfig { enable: config.enable, response }
}

pub(crate) fn header(header: &MessageHeader) -> v1::MessageHeader {
    v1::MessageHeader { key: header.key.clone(), value: header.value.clone() }
}

#[cfg(test)]
mod tests;
