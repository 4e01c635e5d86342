//! Circuit breakers: when a client stops calling a failing service, and when it tries again. The fields are those of
//! `CircuitBreakerRule` of the Polaris family, in snake_case; the names of its protobuf are accepted as well.

mod explain;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, each, filled_keys, within_range};
use super::fault_detect::MessageHeader;
use super::matching::{ALL, MatchString, MatchType, ValueType};
use super::shape::{EndRole, Shape, shape};
use super::traffic::{Api, ServiceKey};
use crate::model::wire::{Uint32, wire_enum};

pub use explain::Breaker;

const PERCENT_MAX: u32 = 100;
/// Highest code of a fallback, which clients read as a signed 32-bit number.
const CODE_MAX: u32 = i32::MAX.unsigned_abs();

wire_enum! {
    /// Scope that is cut off when the breaker opens.
    pub enum BreakLevel {
        /// Nothing: clients ignore such a rule.
        Unknown = "UNKNOWN",
        /// The whole service: its calls are refused.
        Service = "SERVICE",
        /// One interface of the service: its calls are refused.
        Method = "METHOD",
        /// A group of its instances, which is ejected.
        Group = "GROUP",
        /// A single instance, which is ejected.
        Instance = "INSTANCE",
    }
}

wire_enum! {
    /// Property of a call that determines whether it failed.
    pub enum ErrorInput { Unknown = "UNKNOWN", RetCode = "RET_CODE", Delay = "DELAY" }
}

wire_enum! {
    /// Quantity that is compared with a threshold.
    pub enum TriggerType { Unknown = "UNKNOWN", ErrorRate = "ERROR_RATE", ConsecutiveError = "CONSECUTIVE_ERROR" }
}

shape! {
    /// Watched calls, the definition of an error, and the effect of too many.
    pub struct CircuitBreaker / CircuitBreakerPatch {
        written {
            level: BreakLevel,
            #[serde(alias = "ruleMatcher")]
            rule_matcher: RuleMatcher,
            /// Definition of an error; superseded by `block_configs`, and read if those are empty.
            #[serde(alias = "errorConditions")]
            error_conditions: Vec<ErrorCondition>,
            /// Thresholds, any of which opens the breaker; superseded by `block_configs`, and read if those are empty.
            #[serde(alias = "triggerCondition")]
            trigger_condition: Vec<TriggerCondition>,
            #[serde(alias = "blockConfigs")]
            block_configs: Vec<BlockConfig>,
            /// Percentage of the instances that may be ejected at a time: 0 to 100.
            #[serde(alias = "maxEjectionPercent")]
            max_ejection_percent: Uint32,
            #[serde(alias = "recoverCondition")]
            recover_condition: RecoverCondition,
            #[serde(alias = "faultDetectConfig")]
            fault_detect_config: FaultDetectConfig,
            #[serde(alias = "fallbackConfig")]
            fallback_config: FallbackConfig,
        }
        optional {}
    }
}

/// Caller and callee of the watched calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RuleMatcher {
    /// Caller; `*` or nothing for any.
    pub source: ServiceKey,
    pub destination: BreakerDestination,
}

/// Called service; `*` for any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BreakerDestination {
    pub service: String,
    pub namespace: String,
    /// Superseded by `api` of a block config, and read if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MatchString>,
}

/// Interfaces that are watched together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BlockConfig {
    pub name: String,
    /// Interface, for the level METHOD; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// Definitions of an error, any of which suffices.
    #[serde(alias = "errorConditions")]
    pub error_conditions: Vec<ErrorCondition>,
    /// Thresholds, any of which opens the breaker.
    #[serde(alias = "triggerConditions")]
    pub trigger_conditions: Vec<TriggerCondition>,
}

/// Definition of a failed call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ErrorCondition {
    #[serde(alias = "inputType")]
    pub input_type: ErrorInput,
    /// RET_CODE: condition on the code. DELAY: with EXACT, the milliseconds from which a call is too slow.
    pub condition: MatchString,
}

/// Threshold of errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TriggerCondition {
    #[serde(alias = "triggerType")]
    pub trigger_type: TriggerType,
    /// CONSECUTIVE_ERROR: number of consecutive errors.
    #[serde(alias = "errorCount")]
    pub error_count: Uint32,
    /// ERROR_RATE: percentage of errors, 0 to 100.
    #[serde(alias = "errorPercent")]
    pub error_percent: Uint32,
    /// ERROR_RATE: seconds over which calls are counted.
    pub interval: Uint32,
    /// ERROR_RATE: number of calls below which the rate is not evaluated.
    #[serde(alias = "minimumRequest")]
    pub minimum_request: Uint32,
}

/// Conditions for closing the breaker again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RecoverCondition {
    /// Seconds after which a few trial calls are permitted.
    #[serde(alias = "sleepWindow")]
    pub sleep_window: Uint32,
    /// Number of consecutive trial calls that must succeed.
    #[serde(alias = "consecutiveSuccess")]
    pub consecutive_success: Uint32,
}

/// Switch for the fault detection rules of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FaultDetectConfig {
    pub enable: bool,
}

/// Answer to refused calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FallbackConfig {
    pub enable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<FallbackResponse>,
}

/// Answer instead of that of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FallbackResponse {
    /// Code in the answer, at most 2147483647.
    pub code: Uint32,
    pub headers: Vec<MessageHeader>,
    pub body: String,
}

impl ErrorCondition {
    fn check(&self) -> Result<(), Fault> {
        let MatchString { kind, value, value_type } = &self.condition;
        let is_bound = (self.input_type, *kind, *value_type) == (ErrorInput::Delay, MatchType::Exact, ValueType::Text);
        if is_bound && value.parse::<u32>().is_err() {
            return Err(Fault::new("condition.value", "has to be a whole number of milliseconds"));
        }
        self.condition.check().map_err(|fault| fault.within("condition"))
    }
}

impl TriggerCondition {
    fn check(&self) -> Result<(), Fault> {
        within_range("error_percent", self.error_percent.0, 0..=PERCENT_MAX, "0 to 100")
    }
}

impl BlockConfig {
    fn check(&self) -> Result<(), Fault> {
        self.api.iter().try_for_each(|api| api.check().map_err(|fault| fault.within("api")))?;
        each("error_conditions", &self.error_conditions, ErrorCondition::check)?;
        each("trigger_conditions", &self.trigger_conditions, TriggerCondition::check)
    }
}

impl RuleMatcher {
    fn check(&self) -> Result<(), Fault> {
        let mut method = self.destination.method.iter();
        method.try_for_each(MatchString::check).map_err(|fault| fault.within("destination.method"))
    }
}

impl CircuitBreaker {
    /// Returns the blocks that clients read: the block configs, or the older fields that they supersede.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        if self.block_configs.is_empty() {
            let method = self.rule_matcher.destination.method.as_ref();
            let (error_conditions, trigger_conditions) = (&self.error_conditions[..], &self.trigger_condition[..]);
            return vec![Block { name: "", api: None, method, error_conditions, trigger_conditions }];
        }
        let blocks = self.block_configs.iter().map(|block| Block {
            name: &block.name,
            api: block.api.as_ref(),
            method: None,
            error_conditions: &block.error_conditions,
            trigger_conditions: &block.trigger_conditions,
        });
        blocks.collect()
    }
}

/// Interfaces that are watched together, in the older or the newer form.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    pub name: &'a str,
    pub api: Option<&'a Api>,
    /// Condition on the interface in the older form.
    pub method: Option<&'a MatchString>,
    pub error_conditions: &'a [ErrorCondition],
    pub trigger_conditions: &'a [TriggerCondition],
}

impl Shape for CircuitBreaker {
    fn blank() -> &'static str {
        r#""level": "SERVICE", "rule_matcher": {"destination": {"namespace": "", "service": ""}}"#
    }

    fn check(&self) -> Result<(), Fault> {
        self.rule_matcher.check().map_err(|fault| fault.within("rule_matcher"))?;
        each("error_conditions", &self.error_conditions, ErrorCondition::check)?;
        each("trigger_condition", &self.trigger_condition, TriggerCondition::check)?;
        each("block_configs", &self.block_configs, BlockConfig::check)?;
        within_range("max_ejection_percent", self.max_ejection_percent.0, 0..=PERCENT_MAX, "0 to 100")?;
        let Some(response) = &self.fallback_config.response else { return Ok(()) };
        within_range("fallback_config.response.code", response.code.0, 0..=CODE_MAX, "at most 2147483647")?;
        filled_keys("fallback_config.response.headers", response.headers.iter().map(|header| &header.key))
    }

    /// Visits the services. A rule that names its callee does not concern the callers if they are arbitrary.
    fn each_end(&self, visit: &mut dyn FnMut(EndRole, &str, &str)) {
        let RuleMatcher { source, destination } = &self.rule_matcher;
        visit(EndRole::Callee, &destination.namespace, &destination.service);
        let is_open = source.service == ALL && !destination.service.is_empty();
        let side = if is_open { EndRole::AnyCaller } else { EndRole::Caller };
        visit(side, &source.namespace, &source.service);
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed;
    use serde_json::{Value, json};

    use super::super::{BodyPatch, Family};
    use super::*;
    use crate::model::code::Refusal;

    fn read(body: &Value) -> Result<CircuitBreaker, serde_json::Error> {
        let BodyPatch::CircuitBreaker(patch) = Family::CircuitBreaker.deserialize(body.clone())? else {
            panic!("the patch of another family");
        };
        let mut breaker = CircuitBreaker::default();
        patch.lay_over(&mut breaker);
        Ok(breaker)
    }

    /// Returns the text of the refusal; empty if the rule is accepted.
    fn verdict(body: &Value) -> String {
        match read(body).map(|breaker| breaker.check().map_err(Refusal::from)) {
            Ok(Ok(())) => String::new(),
            Ok(Err(refusal)) => refusal.detail,
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn values_out_of_range_are_refused_by_their_place() {
        let error = |kind: &str, way: &str, value: &str| {
            let condition = json!({"type": way, "value": value});
            json!({"error_conditions": [{"input_type": kind, "condition": condition}]})
        };
        let trigger =
            |field: &str, value: Value| json!({"block_configs": [{}, {"trigger_conditions": [{field: value}]}]});
        let code = |code: Value| json!({"fallback_config": {"response": {"code": code}}});
        let rows = [
            (json!({}), ""),
            (json!({"level": "INSTANCE"}), ""),
            (json!({"level": 4}), ""),
            (json!({"level": "SUBSET"}), "expected one of UNKNOWN, SERVICE, METHOD, GROUP, INSTANCE"),
            (json!({"level": 5}), "expected one of"),
            (json!({"max_ejection_percent": 100}), ""),
            (json!({"maxEjectionPercent": 101}), "max_ejection_percent has to be 0 to 100"),
            (trigger("error_percent", json!(100)), ""),
            (
                trigger("errorPercent", json!(101)),
                "block_configs[1].trigger_conditions[0].error_percent has to be 0 to 100",
            ),
            (trigger("triggerType", json!("SLOW")), "expected one of UNKNOWN, ERROR_RATE, CONSECUTIVE_ERROR"),
            (trigger("interval", json!(-1)), "expected a whole number"),
            (json!({"triggerCondition": [{"error_percent": 200}]}), "trigger_condition[0].error_percent has to be"),
            (error("RET_CODE", "RANGE", "500~599"), ""),
            (error("RET_CODE", "RANGE", "500-599"), "error_conditions[0].condition.value has to be a range low~high"),
            (error("RET_CODE", "EXACT", "deadline exceeded"), ""),
            (error("DELAY", "EXACT", "300"), ""),
            (error("DELAY", "EXACT", "300ms"), "error_conditions[0].condition.value has to be a whole number of"),
            (error("DELAY", "RANGE", "300~900"), ""),
            (error("FUNC", "EXACT", ""), "expected one of UNKNOWN, RET_CODE, DELAY"),
            (
                json!({"rule_matcher": {"destination": {"method": {"type": "REGEX", "value": "("}}}}),
                "rule_matcher.destination.method.value is no expression",
            ),
            (
                json!({"block_configs": [{"api": {"path": {"type": "REGEX", "value": "("}}}]}),
                "block_configs[0].api.path.value is no expression",
            ),
            (code(json!(2_147_483_647)), ""),
            (code(json!(2_147_483_648_u32)), "fallback_config.response.code has to be at most 2147483647"),
        ];
        for (body, expected) in rows {
            let told = verdict(&body);
            assert!(told.is_empty() == expected.is_empty() && told.contains(expected), "{body}: {told}");
        }
    }

    /// A rule in protobuf's JSON, and in the form written here.
    #[test]
    fn a_rule_of_another_server_loses_nothing() {
        let theirs = json!({
            "level": 2,
            "ruleMatcher": {"source": {"service": "*", "namespace": "*"}, "destination": {
                "service": "pay", "namespace": "shop", "method": {"type": 0, "value": "/pay", "valueType": "TEXT"}}},
            "errorConditions": [{"inputType": "RET_CODE", "condition": {"type": "IN", "value": "500,503"}}],
            "triggerCondition": [{"triggerType": 2, "errorCount": "5"}],
            "blockConfigs": [{"name": "slow", "api": {"protocol": "*", "method": "GET", "path": {"value": "/pay"}},
                "errorConditions": [{"inputType": "DELAY", "condition": {"value": "300"}}],
                "triggerConditions": [{"triggerType": "ERROR_RATE", "errorPercent": 50, "interval": 60,
                    "minimumRequest": 10}]}],
            "maxEjectionPercent": 30,
            "recoverCondition": {"sleepWindow": 20, "consecutiveSuccess": 3},
            "faultDetectConfig": {"enable": true},
            "fallbackConfig": {"enable": true, "response": {"code": 503, "body": "later",
                "headers": [{"key": "Retry-After", "value": "20"}]}},
        });
        let text = |kind: &str, value: &str| json!({"type": kind, "value": value, "value_type": "TEXT"});
        let ours = json!({
            "level": "METHOD",
            "rule_matcher": {"source": {"service": "*", "namespace": "*"}, "destination": {
                "service": "pay", "namespace": "shop", "method": text("EXACT", "/pay")}},
            "error_conditions": [{"input_type": "RET_CODE", "condition": text("IN", "500,503")}],
            "trigger_condition": [{"trigger_type": "CONSECUTIVE_ERROR", "error_count": 5, "error_percent": 0,
                "interval": 0, "minimum_request": 0}],
            "block_configs": [{"name": "slow",
                "api": {"protocol": "*", "method": "GET", "path": text("EXACT", "/pay")},
                "error_conditions": [{"input_type": "DELAY", "condition": text("EXACT", "300")}],
                "trigger_conditions": [{"trigger_type": "ERROR_RATE", "error_count": 0, "error_percent": 50,
                    "interval": 60, "minimum_request": 10}]}],
            "max_ejection_percent": 30,
            "recover_condition": {"sleep_window": 20, "consecutive_success": 3},
            "fault_detect_config": {"enable": true},
            "fallback_config": {"enable": true, "response": {"code": 503,
                "headers": [{"key": "Retry-After", "value": "20"}], "body": "later"}},
        });
        let breaker = read(&theirs).expect("what other servers write");
        assert_eq!(breaker.check(), Ok(()));
        assert_eq!(serde_json::to_value(&breaker).expect("JSON"), ours);
        assert_eq!(read(&ours).expect("what is written here"), breaker);
    }

    #[test]
    fn a_rule_is_about_whom_it_names() {
        let rows = [
            (json!({}), &[][..]),
            (json!({"destination": {"service": "pay"}}), &["/pay"][..]),
            (json!({"destination": {"service": "pay", "namespace": "n"}, "source": {"service": "*"}}), &["n/pay"]),
            (
                json!({"destination": {"service": "pay"}, "source": {"service": "web", "namespace": "n"}}),
                &["/pay", "n/web"],
            ),
            (json!({"destination": {"service": "*", "namespace": "*"}, "source": {"service": "*"}}), &["*/*"]),
            (json!({"source": {"service": "*"}}), &["/*"]),
        ];
        for (matcher, expected) in rows {
            let breaker = read(&json!({ "rule_matcher": matcher })).expect("a body");
            let mut ends = Vec::new();
            breaker.each_end(&mut |side, namespace, service| {
                if side.is_asked_for() && !service.is_empty() {
                    ends.push(format!("{namespace}/{service}"));
                }
            });
            assert_eq!(ends, expected, "{matcher}");
        }
    }
}
