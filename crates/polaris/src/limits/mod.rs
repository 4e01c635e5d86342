//! Rate limits: a rule for each interface of each quota.
//!
//! One rule that an SDK refuses makes all rules of the service invalid for Go, so a quota that one could refuse is left
//! out.

use std::collections::BTreeMap;

use crate::AskedService;
use crate::conditions::{any, condition_or_any, exact, label_key};
use crate::loss::Loss;
use crate::model::rule::matching::{MatchString, MatchType, ValueType};
use crate::model::rule::rate_limit::{
    Amount, AmountMode, FailoverType, LimitTrigger, LimitType, RateLimit, Report, Resource,
};
use crate::model::rule::traffic::{Api, Argument, ArgumentType, LimitArgumentType};
use crate::model::rule::{Body, Rule};
use crate::model::wire::{Span, Words};
use crate::revision;
use crate::v1;
use crate::v1::match_argument::Type as ArgumentNumber;

const REJECT: &str = "reject";
const PACE: &str = "unirate";
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Key of the caller, before its namespace.
const CALLER_SERVICE: &str = "$caller_service.";

/// Returns the rate limits among the rules, for one service.
pub(crate) fn rules(rules: &[&Rule], asked: AskedService<'_>) -> Vec<v1::Rule> {
    let enabled = rules.iter().filter(|rule| rule.enable);
    let limits = enabled.filter_map(|rule| limits(rule).map(|body| RuleLimits { rule, body }));
    limits.flat_map(|limits| limits.map(asked, &mut Vec::new())).collect()
}

fn limits(rule: &Rule) -> Option<&RateLimit> {
    if let Body::RateLimit(body) = &rule.body { Some(body) } else { None }
}

/// Returns the losses of a rate limit, and whether any part of it is carried; `None` for other families.
pub(crate) fn losses(rule: &Rule) -> Option<(Vec<Loss>, bool)> {
    let body = limits(rule)?;
    let mut losses = Vec::new();
    let target = Default::default();
    let mapped =
        RuleLimits { rule, body }.map(AskedService { namespace: "", service: "", target: &target }, &mut losses);
    Some((losses, !mapped.is_empty()))
}

struct RuleLimits<'a> {
    rule: &'a Rule,
    body: &'a RateLimit,
}

impl RuleLimits<'_> {
    fn map(&self, asked: AskedService<'_>, losses: &mut Vec<Loss>) -> Vec<v1::Rule> {
        let mut flat = Vec::new();
        let enabled = self.body.rules.iter().enumerate().filter(|(_, trigger)| !trigger.disable);
        for (index, trigger) in enabled {
            let whole = [Api::default()];
            let apis = if trigger.apis.is_empty() { &whole[..] } else { &trigger.apis };
            let mapped: Option<Vec<v1::Rule>> =
                apis.iter().map(|api| self.limit(index, trigger, api, asked, losses)).collect();
            let several = apis.len() > 1;
            for (position, limit) in mapped.into_iter().flatten().enumerate() {
                flat.push((if several { format!("#{index}.{position}") } else { format!("#{index}") }, limit));
            }
        }
        let is_alone = flat.len() == 1;
        let named = flat.into_iter().map(|(suffix, limit)| {
            let id = if is_alone { self.rule.id.clone() } else { format!("{}{suffix}", self.rule.id) };
            let limit = v1::Rule { id: Some(id), ..limit };
            v1::Rule { revision: Some(revision::of_message(&limit)), ..limit }
        });
        named.collect()
    }

    /// Maps a quota for one interface; `None` if SDKs cannot carry it out, or it limits nothing.
    fn limit(
        &self,
        index: usize,
        trigger: &LimitTrigger,
        api: &Api,
        asked: AskedService<'_>,
        losses: &mut Vec<Loss>,
    ) -> Option<v1::Rule> {
        let place = format!("rules[{index}]");
        let action = action(&place, trigger, losses)?;
        let conditions = Conditions::of(&place, trigger, api, losses)?;
        let is_of_calls = trigger.resource == Resource::Concurrency;
        let resource = match trigger.resource {
            Resource::Qps => v1::rule::Resource::Qps,
            Resource::Concurrency => {
                let why = format!("{place}: Go up to 1.7.0 and Java 1.15 do not limit calls at once");
                losses.push(Loss::approximate(15, why));
                v1::rule::Resource::Concurrency
            }
            Resource::System => {
                losses.push(Loss::left_out(12, format!("{place}: SDKs do not limit by the load of the system")));
                return None;
            }
        };
        let most = trigger.concurrency_amount.as_ref().map(|amount| amount.max_amount.0);
        let amounts: Vec<v1::Amount> = match is_of_calls {
            true => Vec::new(),
            false => trigger.amounts.iter().filter_map(amount).collect(),
        };
        if (is_of_calls && most.is_none()) || (!is_of_calls && amounts.is_empty()) {
            return None;
        }
        let kind = if self.body.kind == LimitType::Global { v1::rule::Type::Global } else { v1::rule::Type::Local };
        if kind == v1::rule::Type::Global {
            let why = format!("{place}: without a limit server each client counts its share by itself");
            losses.push(Loss::approximate(14, why));
        }
        let response = trigger.custom_response.as_ref();
        if response.is_some_and(|response| !response.code.is_empty() || !response.headers.is_empty()) {
            losses.push(Loss::approximate(16, format!("{place}: SDKs answer with a body, without code and headers")));
        }
        let names = [self.rule.name.as_str(), trigger.name.as_str()];
        let name: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let cluster = self.body.cluster.as_ref().filter(|cluster| !cluster.service.is_empty());
        Some(v1::Rule {
            id: None,
            service: Some(asked.service.to_owned()),
            namespace: Some(asked.namespace.to_owned()),
            priority: Some(self.rule.priority),
            resource: resource.into(),
            r#type: kind.into(),
            labels: conditions.labels,
            amounts,
            action: Some(action.to_owned()),
            disable: Some(false),
            report: self.body.report.as_ref().map(report),
            revision: None,
            regex_combine: Some(trigger.regex_combine),
            amount_mode: match trigger.amount_mode {
                AmountMode::GlobalTotal => v1::rule::AmountMode::GlobalTotal,
                AmountMode::ShareEqually => v1::rule::AmountMode::ShareEqually,
            }
            .into(),
            failover: match trigger.failover {
                FailoverType::Local => v1::rule::FailoverType::FailoverLocal,
                FailoverType::Pass => v1::rule::FailoverType::FailoverPass,
            }
            .into(),
            cluster: cluster.map(|cluster| v1::RateLimitCluster {
                service: Some(cluster.service.clone()),
                namespace: Some(cluster.namespace.clone()),
            }),
            method: Some(conditions.method),
            arguments: conditions.arguments,
            name: Some(name.join(".")),
            max_queue_delay: (action == PACE).then_some(trigger.max_queue_delay.0),
            concurrency_amount: most.filter(|_| is_of_calls).map(|max_amount| v1::ConcurrencyAmount { max_amount }),
            custom_response: response.map(|response| v1::CustomResponse { body: response.body.clone() }),
        })
    }
}

/// Returns the action by the name that SDKs have for it.
fn action(place: &str, trigger: &LimitTrigger, losses: &mut Vec<Loss>) -> Option<&'static str> {
    let given = trigger.action.trim();
    if given.is_empty() || given.eq_ignore_ascii_case(REJECT) {
        return Some(REJECT);
    }
    if given.eq_ignore_ascii_case(PACE) {
        return Some(PACE);
    }
    losses.push(Loss::left_out(13, format!("{place}: no SDK has the action {given}, reject and unirate are known")));
    None
}

/// Conditions of a limit.
struct Conditions {
    method: v1::MatchString,
    arguments: Vec<v1::MatchArgument>,
    /// The same conditions in the older form, which C++ reads.
    labels: BTreeMap<String, v1::MatchString>,
}

impl Conditions {
    fn of(place: &str, trigger: &LimitTrigger, api: &Api, losses: &mut Vec<Loss>) -> Option<Conditions> {
        let mut conditions = Conditions { method: any(), arguments: Vec::new(), labels: BTreeMap::new() };
        if let Some(path) = &api.path {
            conditions.method = comparable(place, path, losses)?;
        }
        if !["", "*"].contains(&api.method.as_str()) {
            let why = format!("{place}: METHOD is what the framework of a client says, which may be no HTTP verb");
            losses.push(Loss::approximate(17, why));
            conditions.add(ArgumentType::Method, "", exact(&api.method));
        }
        for argument in &trigger.arguments {
            conditions.argument(place, argument, losses)?;
        }
        Some(conditions)
    }

    fn argument(&mut self, place: &str, argument: &Argument<LimitArgumentType>, losses: &mut Vec<Loss>) -> Option<()> {
        let kind: ArgumentType = argument.kind.into();
        let value = match &argument.value {
            Some(value) => comparable(place, value, losses)?,
            None => any(),
        };
        match kind {
            ArgumentType::Path if self.method == any() => self.method = value,
            ArgumentType::Path | ArgumentType::Cookie => {
                let why = format!("{place}: SDKs have no further condition on {} in limits", kind.word());
                losses.push(Loss::left_out(11, why));
                return None;
            }
            _ => self.add(kind, &argument.key, value),
        }
        Some(())
    }

    fn add(&mut self, kind: ArgumentType, key: &str, value: v1::MatchString) {
        let label = label_key(kind, key).unwrap_or_else(|| format!("{CALLER_SERVICE}{key}"));
        self.labels.insert(label, value.clone());
        let number = argument_number(kind);
        self.arguments.push(v1::MatchArgument { r#type: number.into(), key: key.to_owned(), value: Some(value) });
    }
}

fn argument_number(kind: ArgumentType) -> ArgumentNumber {
    match kind {
        ArgumentType::Custom | ArgumentType::Path | ArgumentType::Cookie => ArgumentNumber::Custom,
        ArgumentType::Method => ArgumentNumber::Method,
        ArgumentType::Header => ArgumentNumber::Header,
        ArgumentType::Query => ArgumentNumber::Query,
        ArgumentType::CallerService => ArgumentNumber::CallerService,
        ArgumentType::CallerIp => ArgumentNumber::CallerIp,
        ArgumentType::CallerMetadata => ArgumentNumber::CallerMetadata,
    }
}

/// Maps a condition that Go accepts in a limit.
fn comparable(place: &str, value: &MatchString, losses: &mut Vec<Loss>) -> Option<v1::MatchString> {
    if value.kind == MatchType::Range && value.value_type == ValueType::Text {
        losses.push(Loss::left_out(11, format!("{place}: SDKs have no RANGE in limits")));
        return None;
    }
    Some(condition_or_any(Some(value)))
}

fn amount(amount: &Amount) -> Option<v1::Amount> {
    let number = |given: Option<crate::model::wire::Uint32>| given.map(|given| given.0);
    Some(v1::Amount {
        max_amount: Some(amount.max_amount.0),
        valid_duration: Some(duration(amount.valid_duration?)),
        precision: number(amount.precision),
        start_amount: number(amount.start_amount),
        min_amount: number(amount.min_amount),
    })
}

fn duration(span: Span) -> prost_types::Duration {
    let (seconds, nanos) = (span.as_nanos() / NANOS_PER_SECOND, span.as_nanos() % NANOS_PER_SECOND);
    prost_types::Duration {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos).unwrap_or_default(),
    }
}

fn report(report: &Report) -> v1::Report {
    let interval = (report.interval > Span::default()).then(|| duration(report.interval));
    v1::Report { interval, amount_percent: report.amount_percent.map(|percent| percent.0) }
}

#[cfg(test)]
mod tests;
