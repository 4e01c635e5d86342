//! Rate limits as the proxy of a service's instance carries them out.
//!
//! | rule | carried as |
//! |---|---|
//! | QPS, an amount of a period | a bucket of that size, refilled in that time |
//! | several amounts | a bucket each: the strictest refuses |
//! | interfaces, HEADER, METHOD, PATH, QUERY, COOKIE | conditions, as in [`super::conditions`] |
//! | protocol of an interface | `http`: all; `grpc`: by `content-type`; others: never matches |
//! | CALLER_IP, open or EXACT or IN | the address that the proxy sees; other comparisons are omitted |
//! | CALLER_SERVICE, CALLER_METADATA | omitted: a proxy at the callee does not know the caller |
//! | a counter per value | buckets that are created as values occur |
//! | GLOBAL | each proxy has a share: see [`share`] |
//! | CONCURRENCY without conditions | concurrent requests to the service |
//! | SYSTEM | nothing |
//!
//! As in [`crate::model::explain`], every matching limit counts a request. The order of rules matters only for the
//! answer: a proxy has one for all limits of a service, the first that is defined.

mod answer;
mod counted;
mod ways;

use super::plan::{Abilities, PartMatch};
use super::warning::{ENVOY, GRPC, Warning};
use crate::model::rule::rate_limit::{LimitTrigger, LimitType, RateLimit, Resource};
use crate::model::rule::{Body, Rule};
use crate::model::wire::Span;

pub use answer::LimitAnswer;
pub use counted::Counted;
pub use ways::{Addresses, Way};

/// Counters that a proxy maintains per limit.
pub const COUNTERS_MAX: u32 = 10_000;
/// Action that refuses excess requests, which is the default.
const REFUSING: &str = "REJECT";

/// Limits of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitPlan {
    pub limits: Vec<Limit>,
    /// Limits of concurrent requests.
    pub concurrency: Vec<Amount>,
    pub answer: LimitAnswer,
}

/// A class of requests, and the limits of their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Unique key: the id of the rule, and the position of the sub-rule.
    pub key: String,
    /// Alternatives; a request counts by the first that matches.
    pub ways: Vec<Way>,
    /// Alternatives of conditions on query parameters, all of which must hold.
    pub queries: Vec<Vec<PartMatch>>,
    pub addresses: Addresses,
    /// Parts of the request with a counter per value.
    pub counted: Vec<Counted>,
    pub periods: Vec<Period>,
}

/// Quota of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub amount: Amount,
    pub length: Span,
}

/// Quota of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    pub total: u32,
    /// True if it applies to all instances together.
    pub is_shared: bool,
}

impl Amount {
    /// Returns the quota of one of several instances; at least 1, so that no instance refuses everything because there
    /// are many.
    pub fn share(self, instances: u32) -> u32 {
        if self.is_shared && self.total > 0 { (self.total / instances.max(1)).max(1) } else { self.total }
    }
}

/// Returns the limits of the enabled rules in order.
pub fn plan(rules: &[&Rule], to: Abilities) -> LimitPlan {
    let mut planner = LimitPlanner::new(to);
    rules.iter().filter(|rule| rule.enable).for_each(|rule| planner.add(rule));
    planner.plan
}

/// Returns the warnings of a rule for proxies with these abilities, as if it were enabled.
pub fn warnings(rule: &Rule, to: Abilities) -> Vec<Warning> {
    let mut planner = LimitPlanner::new(to);
    planner.add(rule);
    planner.warnings.push(Warning::left_out(16, GRPC, "rate limits do not reach gRPC clients without a proxy"));
    // If instances have proxies nothing is lost, so the extent for Envoy is not reduced.
    planner.warnings.push(Warning::approximate(16, &[], "a gateway counts no limits: proxies beside the instances do"));
    planner.warnings
}

struct LimitPlanner {
    to: Abilities,
    plan: LimitPlan,
    warnings: Vec<Warning>,
}

impl LimitPlanner {
    fn new(to: Abilities) -> Self {
        LimitPlanner { to, plan: LimitPlan::default(), warnings: Vec::new() }
    }

    fn add(&mut self, rule: &Rule) {
        let Body::RateLimit(body) = &rule.body else { return };
        for (field, is_given) in [("report", body.report.is_some()), ("cluster", body.cluster.is_some())] {
            if is_given {
                self.warnings.push(Warning::approximate(15, ENVOY, format!("{field} is not carried by xDS")));
            }
        }
        for (index, trigger) in body.rules.iter().enumerate().filter(|(_, trigger)| !trigger.disable) {
            let place = format!("rules[{index}]");
            let added = match trigger.resource {
                Resource::Qps => self.add_limit(&rule.id, index, body, trigger, &place),
                Resource::Concurrency => self.add_concurrency(body, trigger, &place),
                Resource::System => Err(not_carried(&place, "resource SYSTEM")),
            };
            match added {
                Ok(()) => self.warn_of_fields(body, trigger, &place),
                Err(warning) => self.warnings.push(warning),
            }
        }
    }

    fn add_limit(
        &mut self,
        rule_id: &str,
        index: usize,
        body: &RateLimit,
        trigger: &LimitTrigger,
        place: &str,
    ) -> Result<(), Warning> {
        let is_shared = body.kind == LimitType::Global;
        let periods: Vec<Period> = trigger
            .amounts
            .iter()
            .filter_map(|amount| {
                let total = amount.max_amount.0;
                amount.valid_duration.map(|length| Period { amount: Amount { total, is_shared }, length })
            })
            .collect();
        if periods.is_empty() {
            return Ok(());
        }
        let Some(asked) = ways::of(trigger, place, self.to, &mut self.warnings)? else { return Ok(()) };
        let counted = counted::of(trigger, place, self.to)?;
        let has_counters = !counted.is_empty()
            || asked.addresses == Addresses::EachApart
            || asked.ways.iter().any(|way| way.is_path_counted);
        if has_counters {
            let text = format!("{place}: a counter for each value: an Envoy keeps the {COUNTERS_MAX} used last");
            self.warnings.push(Warning::approximate(11, ENVOY, text));
        }
        self.plan.answer.take(trigger, place, &mut self.warnings);
        let ways::AskedWays { ways, queries, addresses } = asked;
        let key = format!("{rule_id}/{index}");
        self.plan.limits.push(Limit { key, ways, queries, addresses, counted, periods });
        Ok(())
    }

    fn add_concurrency(&mut self, body: &RateLimit, trigger: &LimitTrigger, place: &str) -> Result<(), Warning> {
        let of_amounts = || trigger.amounts.iter().map(|amount| amount.max_amount.0).min();
        let Some(total) = trigger.concurrency_amount.as_ref().map(|amount| amount.max_amount.0).or_else(of_amounts)
        else {
            return Ok(());
        };
        let text = format!("{place}: concurrency is limited for the service as a whole, roughly, in Envoy");
        if !trigger.arguments.is_empty() || !trigger.apis.iter().all(ways::is_every) {
            return Err(Warning::left_out(13, ENVOY, format!("{text}: not carried with conditions")));
        }
        self.warnings.push(Warning::approximate(13, ENVOY, text));
        if trigger.custom_response.is_some() {
            let text = format!("{place}: custom_response is not carried for CONCURRENCY: the code is 503");
            self.warnings.push(Warning::approximate(14, ENVOY, text));
        }
        self.plan.concurrency.push(Amount { total, is_shared: body.kind == LimitType::Global });
        Ok(())
    }

    fn warn_of_fields(&mut self, body: &RateLimit, trigger: &LimitTrigger, place: &str) {
        if body.kind == LimitType::Global {
            let text = format!(
                "{place}: a global amount is shared out among the instances that are registered and not isolated, \
                 healthy or not; each has 1 at least"
            );
            self.warnings.push(Warning::approximate(12, ENVOY, text));
        }
        let of_qps = trigger.resource == Resource::Qps;
        let fields = [
            ("max_queue_delay", trigger.max_queue_delay.0 > 0),
            ("action", !trigger.action.is_empty() && !trigger.action.eq_ignore_ascii_case(REFUSING)),
            ("start_amount", trigger.amounts.iter().any(|amount| amount.start_amount.is_some())),
            ("min_amount", trigger.amounts.iter().any(|amount| amount.min_amount.is_some())),
            ("concurrency_amount", of_qps && trigger.concurrency_amount.is_some()),
        ];
        for (field, _) in fields.into_iter().filter(|(_, is_given)| *is_given) {
            let text = format!("{place}: {field} is not carried by xDS");
            self.warnings.push(Warning::approximate(15, ENVOY, text));
        }
    }
}

fn not_carried(place: &str, what: &str) -> Warning {
    Warning::left_out(15, ENVOY, format!("{place}: {what} is not carried by xDS"))
}

#[cfg(test)]
mod tests;
