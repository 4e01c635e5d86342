//! Values that a form of a rule begins with, and those that follow from a choice.

use serde_json::{Map, Value, json};

use crate::model::rule::Family;

/// Optional objects whose fields a form offers before they exist.
const OFFERED: [&str; 2] = ["http_config", "concurrency_amount"];

/// Removes values that the form offers and that were left empty: comparisons of conditions for mere presence, and
/// [`OFFERED`] objects.
pub(super) fn cleaned(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_condition = fields.contains_key("type") && fields.contains_key("key");
            let is_absent = |name: &str, value: &Value| {
                is_condition && name == "value" && value.as_object().is_some_and(|value| !value.contains_key("type"))
            };
            let is_unused = |name: &str, value: &Value| OFFERED.contains(&name) && is_empty(value);
            let given = fields.into_iter().filter(|(name, value)| !is_absent(name, value) && !is_unused(name, value));
            given.map(|(name, value)| (name, cleaned(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(cleaned).collect(),
        value => value,
    }
}

/// Reports whether a value has no text and no number.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        value => value.is_null(),
    }
}

/// Completes a form after a button changed it: a new item gets values, and fields of another policy are dropped.
pub(super) fn settled(mut value: Value, asked: &str) -> Value {
    if let Some(list) = asked.strip_prefix("add:")
        && let Some(item) = value.pointer_mut(list).and_then(Value::as_array_mut).and_then(|items| items.last_mut())
        && let Some(fields) = item.as_object_mut()
    {
        begin(list, fields);
    }
    keep_policy(&mut value);
    value
}

/// Completes the value of a new rule, which is not yet in the form's representation.
pub(super) fn begun(family: Family, mut value: Value) -> Value {
    match family {
        Family::Routing => {
            let send = json!({ "labels": { "": compared() }, "weight": 100 });
            value["routing_config"] = json!({ "callee": { "namespace": "", "service": "" },
                "rules": [{ "name": "", "arguments": { "random_percent": 100 }, "destinations": [send] }] });
        }
        Family::CircuitBreaker => {
            value["level"] = "INSTANCE".into();
            value["block_configs"] = json!([block()]);
            value["recover_condition"] = json!({ "sleep_window": 30, "consecutive_success": 3 });
            value["max_ejection_percent"] = 50.into();
        }
        Family::FaultDetect => {
            if let Some(fields) = value.as_object_mut() {
                fields.retain(|field, _| !matches!(field.as_str(), "interval" | "timeout" | "protocol"));
            }
            value["rules"] = json!([probe()]);
        }
        _ => {}
    }
    value
}

fn begin(list: &str, item: &mut Map<String, Value>) {
    let whole = match (list, list.rsplit('/').next().unwrap_or_default()) {
        (_, "arguments") => json!({ "value": compared() }),
        ("/rules", _) if item.contains_key("amounts") => json!({ "amounts": [amount()] }),
        (_, "amounts") => amount(),
        ("/rules", _) => probe(),
        ("/routing_config/rules", _) => json!({ "destinations": [destination()] }),
        (_, "destinations") => destination(),
        (_, "block_configs") => block(),
        (_, "error_conditions") => error(),
        (_, "trigger_conditions" | "trigger_condition") => threshold(),
        _ => return,
    };
    if let Value::Object(fields) = whole {
        item.extend(fields);
    }
}

fn compared() -> Value {
    json!({ "type": "EXACT", "value": "", "value_type": "TEXT" })
}

fn amount() -> Value {
    json!({ "maxAmount": 100, "validDuration": "1s" })
}

fn probe() -> Value {
    let request = json!({ "method": "GET", "url": "/", "headers": [], "body": "" });
    json!({ "interval": 30, "timeout": 1, "port": 0, "protocol": "HTTP", "http_config": request })
}

fn destination() -> Value {
    json!({ "labels": [{ "key": "", "value": compared() }], "weight": 100 })
}

fn error() -> Value {
    json!({ "input_type": "RET_CODE", "condition": { "type": "RANGE", "value": "500~599", "value_type": "TEXT" } })
}

fn threshold() -> Value {
    json!({ "trigger_type": "CONSECUTIVE_ERROR", "error_count": 10, "error_percent": 50, "interval": 10,
        "minimum_request": 10 })
}

fn block() -> Value {
    json!({ "name": "", "error_conditions": [error()], "trigger_conditions": [threshold()] })
}

/// Drops the fields of a route that its policy does not have; the service stays.
fn keep_policy(value: &mut Value) {
    let policy = value["route_policy"].as_str().unwrap_or_default().to_owned();
    let Some(config) = value.get_mut("routing_config").and_then(Value::as_object_mut) else { return };
    let foreign: &[&str] = match policy.as_str() {
        "NearbyPolicy" => &["caller", "callee", "rules", "labels", "failover"],
        "MetadataPolicy" => &["caller", "callee", "rules", "match_level", "max_match_level", "strict_nearby"],
        "RulePolicy" => {
            &["service", "namespace", "labels", "failover", "match_level", "max_match_level", "strict_nearby"]
        }
        _ => return,
    };
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(Value::from);
    let named = ["service", "namespace"].map(|name| {
        let callee = config.get("callee").and_then(|callee| text(&callee[name]));
        callee.or_else(|| config.get(name).and_then(text)).unwrap_or_else(|| "".into())
    });
    let was_custom = config.contains_key("callee") || config.contains_key("rules");
    config.retain(|name, _| !foreign.contains(&name.as_str()));
    let [service, namespace] = named;
    match policy.as_str() {
        "RulePolicy" if !was_custom => {
            config.insert("callee".to_owned(), json!({ "service": service, "namespace": namespace }));
            config.insert("rules".to_owned(), json!([]));
        }
        "RulePolicy" => {}
        _ => {
            config.entry("service").or_insert(service);
            config.entry("namespace").or_insert(namespace);
            if policy == "NearbyPolicy" {
                config.entry("match_level").or_insert_with(|| "ZONE".into());
                config.entry("max_match_level").or_insert_with(|| "ALL".into());
            } else {
                config.entry("labels").or_insert_with(|| json!([{ "key": "", "value": "" }]));
            }
        }
    }
}
