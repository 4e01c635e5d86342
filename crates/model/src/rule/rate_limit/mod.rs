//! Rate limits: quotas of a service for classes of traffic. Specification, "RateLimit".

mod explain;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, each, filled_keys, within_range};
use super::matching::ALL;
use super::shape::{EndRole, Shape, drop_default, shape};
use super::traffic::{Api, Argument, LimitArgumentType, ServiceKey};
use crate::model::wire::{Span, Uint32, span_or_ms, wire_enum};

pub use explain::{Counted, Quota};

const AMOUNT_PERIOD_MIN: Span = Span::of_seconds(1);
const PERCENT_MAX: u32 = 100;

wire_enum! {
    /// Place at which a quota is counted. The specification also lists argument types here; they are accepted, stored
    /// and written unchanged.
    pub enum LimitType {
        Global = "GLOBAL",
        Local = "LOCAL",
        Custom = "CUSTOM",
        Method = "METHOD",
        Header = "HEADER",
        Query = "QUERY",
        CallerIp = "CALLER_IP",
        Path = "PATH",
        Cookie = "COOKIE",
        CallerMetadata = "CALLER_METADATA",
        CallerService = "CALLER_SERVICE",
    }
}

wire_enum! {
    /// Limited quantity.
    pub enum Resource { Qps = "QPS", Concurrency = "CONCURRENCY", System = "SYSTEM" }
}

wire_enum! {
    /// Behavior of a client that cannot reach the limit server.
    pub enum FailoverType { Local = "FAILOVER_LOCAL", Pass = "FAILOVER_PASS" }
}

wire_enum! {
    /// Scope of the amount: for all instances together, or divided among them.
    pub enum AmountMode { GlobalTotal = "GLOBAL_TOTAL", ShareEqually = "SHARE_EQUALLY" }
}

shape! {
    /// Quotas of a service. Without `callee` and `service` they apply to every service of the namespace.
    pub struct RateLimit / RateLimitPatch {
        written {
            #[serde(rename = "type")]
            kind: LimitType,
            rules: Vec<LimitTrigger>,
        }
        optional {
            report: Report,
            cluster: ServiceKey,
            callee: ServiceKey,
            service: String,
        }
    }
}

/// Time of a client's usage reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Report {
    /// Fixed period; also accepted as a number of milliseconds.
    #[serde(deserialize_with = "span_or_ms")]
    pub interval: Span,
    /// Percentage of the quota whose use is reported immediately: 1 to 100.
    #[serde(rename = "amountPercent", alias = "amount_percent", skip_serializing_if = "Option::is_none")]
    pub amount_percent: Option<Uint32>,
}

/// One quota, and the traffic that it counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LimitTrigger {
    pub name: String,
    /// Interfaces, any of which must match; all if empty.
    pub apis: Vec<Api>,
    pub resource: Resource,
    /// Conditions, all of which must match.
    pub arguments: Vec<Argument<LimitArgumentType>>,
    pub amounts: Vec<Amount>,
    /// Longest time in seconds for which a request may be queued.
    #[serde(alias = "maxQueueDelay")]
    pub max_queue_delay: Uint32,
    #[serde(alias = "concurrencyAmount", skip_serializing_if = "Option::is_none")]
    pub concurrency_amount: Option<ConcurrencyAmount>,
    #[serde(alias = "customResponse", skip_serializing_if = "Option::is_none")]
    pub custom_response: Option<CustomResponse>,
    /// True if all calls that match a pattern share a counter.
    #[serde(alias = "regexCombine")]
    pub regex_combine: bool,
    pub failover: FailoverType,
    /// Name, together with `resource`, of the limiting plug-in.
    pub action: String,
    pub disable: bool,
    #[serde(alias = "amountMode")]
    pub amount_mode: AmountMode,
}

/// Quota of one period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Amount {
    /// Quota of the period.
    #[serde(rename = "maxAmount", alias = "max_amount")]
    pub max_amount: Uint32,
    /// Length of the period, at least one second. Required unless the resource is CONCURRENCY.
    #[serde(rename = "validDuration", alias = "valid_duration", skip_serializing_if = "Option::is_none")]
    pub valid_duration: Option<Span>,
    /// Precision of the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Uint32>,
    /// Initial quota while ramping up.
    #[serde(rename = "startAmount", alias = "start_amount", skip_serializing_if = "Option::is_none")]
    pub start_amount: Option<Uint32>,
    /// Lowest quota while reducing.
    #[serde(rename = "minAmount", alias = "min_amount", skip_serializing_if = "Option::is_none")]
    pub min_amount: Option<Uint32>,
}

/// Highest number of concurrent requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConcurrencyAmount {
    #[serde(alias = "maxAmount")]
    pub max_amount: Uint32,
}

/// Answer to refused requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CustomResponse {
    pub code: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl LimitTrigger {
    fn check(&self) -> Result<(), Fault> {
        each("apis", &self.apis, Api::check)?;
        each("arguments", &self.arguments, Argument::check)?;
        let headers = self.custom_response.iter().flat_map(|response| response.headers.keys());
        filled_keys("custom_response.headers", headers)?;
        // Concurrency is not counted per period.
        let needs_period = self.resource != Resource::Concurrency;
        each("amounts", &self.amounts, |amount| match amount.valid_duration {
            Some(period) if period < AMOUNT_PERIOD_MIN => Err(Fault::new("validDuration", "has to be at least 1s")),
            None if needs_period => Err(Fault::new("validDuration", "is required, and has to be at least 1s")),
            _ => Ok(()),
        })
    }
}

impl Shape for RateLimit {
    fn blank() -> &'static str {
        r#""service": "", "rules": [{"resource": "QPS", "amounts": [{"maxAmount": 100, "validDuration": "1s"}]}]"#
    }

    fn check(&self) -> Result<(), Fault> {
        if let Some(percent) = self.report.as_ref().and_then(|report| report.amount_percent) {
            within_range("report.amountPercent", percent.0, 1..=PERCENT_MAX, "above 0 and at most 100")?;
        }
        each("rules", &self.rules, LimitTrigger::check)
    }

    fn drop_empty(&mut self) {
        drop_default(&mut self.report);
        drop_default(&mut self.cluster);
        drop_default(&mut self.callee);
    }

    fn each_end(&self, visit: &mut dyn FnMut(EndRole, &str, &str)) {
        let callee = self.callee.iter().map(|callee| (callee.namespace.as_str(), callee.service.as_str()));
        let own = self.service.iter().map(|service| ("", service.as_str()));
        let mut named = callee.chain(own).filter(|(_, service)| !service.is_empty()).peekable();
        if named.peek().is_none() {
            visit(EndRole::Callee, "", ALL);
        }
        named.for_each(|(namespace, service)| visit(EndRole::Callee, namespace, service));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::code::Refusal;

    /// Resource, amount, and the resulting refusal.
    #[test]
    fn an_amount_is_one_of_a_period() {
        let rows = [
            ("QPS", json!({"maxAmount": 5, "validDuration": "1s"}), ""),
            (
                "QPS",
                json!({"maxAmount": 5}),
                "rules[0].amounts[0].validDuration is required, and has to be at least 1s",
            ),
            (
                "SYSTEM",
                json!({"maxAmount": 5}),
                "rules[0].amounts[0].validDuration is required, and has to be at least 1s",
            ),
            ("QPS", json!({"validDuration": "0.5s"}), "rules[0].amounts[0].validDuration has to be at least 1s"),
            ("CONCURRENCY", json!({"maxAmount": 5}), ""),
            ("CONCURRENCY", json!({"validDuration": "0s"}), "rules[0].amounts[0].validDuration has to be at least 1s"),
        ];
        for (resource, amount, expected) in rows {
            let rule = json!({"rules": [{"resource": resource, "amounts": [amount]}]});
            let limit: RateLimit = serde_json::from_value(rule.clone()).expect("a limit");
            let told = limit.check().map_err(|fault| Refusal::from(fault).detail).err().unwrap_or_default();
            assert_eq!(told, expected, "{rule}");
        }
    }
}
