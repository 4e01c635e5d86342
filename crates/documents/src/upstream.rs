//! Rules in the shape of older Polaris servers and their tools, converted to the shape of the specification before they
//! are parsed. Parsed unchanged, they would lose their meaning: a route without its sources is for all traffic, and a
//! limit without its amounts limits nothing.
//!
//! | input | becomes |
//! |---|---|
//! | `sources` of a sub-rule of a route | one sub-rule per source, in order: the first that matches applies |
//! | a source's service, unless it is `*` | the argument `CALLER_SERVICE`: key its namespace, value its name |
//! | `sources` and `destinations` of a route without `rules` | its only sub-rule |
//! | the fields of a sub-rule on a limit without `rules` | its only sub-rule |
//! | `method` of such a limit, a match string | `path` of its only entry in `apis` |

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use thuban_model::rule::Family;

type JsonObject = Map<String, Value>;

/// Conversion of the rules of one family.
struct Fold {
    family: Family,
    /// Reports whether the text may need conversion. Reads the members that decide and skips all others, which spares
    /// most rules in the specification's shape a second full parse.
    is_suspect: fn(&str) -> bool,
    /// Converts a rule; returns whether it was changed.
    fold: fn(&mut JsonObject) -> bool,
}

/// Conversions by family; families without a row have the same shape everywhere.
const FOLDS: [Fold; 2] = [
    Fold { family: Family::Routing, is_suspect: is_route_suspect, fold: fold_route },
    Fold { family: Family::RateLimit, is_suspect: is_limit_suspect, fold: fold_limit },
];

/// Fields of a sub-rule of a limit, by the names that older tools write.
const OF_LIMIT: [&str; 14] = [
    "resource",
    "arguments",
    "amounts",
    "max_queue_delay",
    "maxQueueDelay",
    "concurrency_amount",
    "concurrencyAmount",
    "custom_response",
    "customResponse",
    "regex_combine",
    "regexCombine",
    "failover",
    "action",
    "amountMode",
];
const METHOD: &str = "method";

/// Returns the rule in the shape of the specification; `None` if it has that shape already.
pub fn folded(family: Family, text: &str) -> Option<String> {
    let row = FOLDS.iter().find(|row| row.family == family).filter(|row| (row.is_suspect)(text))?;
    let Ok(Value::Object(mut rule)) = serde_json::from_str(text) else { return None };
    (row.fold)(&mut rule).then(|| Value::Object(rule).to_string())
}

/// Members by which a limit needs conversion.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LimitHead {
    rules: Option<Vec<IgnoredAny>>,
}

/// Members by which a route needs conversion.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RouteHead {
    #[serde(alias = "routingConfig")]
    routing_config: Option<RouteConfigHead>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RouteConfigHead {
    rules: Option<Vec<SubRuleHead>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SubRuleHead {
    #[serde(deserialize_with = "is_there")]
    sources: bool,
}

/// Reads a member of any type, `null` included, as its presence.
fn is_there<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(reader).map(|_| true)
}

fn is_limit_suspect(text: &str) -> bool {
    serde_json::from_str::<LimitHead>(text).is_ok_and(|head| head.rules.is_none_or(|rules| rules.is_empty()))
}

/// Parts of the wrong type are left to the parser of rules, which names them.
fn is_route_suspect(text: &str) -> bool {
    let Ok(RouteHead { routing_config: Some(config) }) = serde_json::from_str(text) else { return false };
    config.rules.is_none_or(|rules| rules.is_empty() || rules.iter().any(|rule| rule.sources))
}

fn fold_route(rule: &mut JsonObject) -> bool {
    let name = rule.get("name").cloned().unwrap_or_default();
    let config = ["routing_config", "routingConfig"].into_iter().find(|key| rule.contains_key(*key));
    let Some(Value::Object(config)) = config.and_then(|key| rule.get_mut(key)) else { return false };
    let mut is_changed = false;
    if is_empty(config.get("rules")) && (config.contains_key("sources") || config.contains_key("destinations")) {
        let mut only = JsonObject::from_iter([("name".to_owned(), name)]);
        only.extend(["sources", "destinations"].into_iter().filter_map(|key| config.remove_entry(key)));
        config.insert("rules".to_owned(), json!([only]));
        is_changed = true;
    }
    let Some(Value::Array(rules)) = config.get_mut("rules") else { return is_changed };
    let parted: Vec<_> = std::mem::take(rules).into_iter().map(|rule| parted(rule, &mut is_changed)).collect();
    *rules = parted.into_iter().flatten().collect();
    is_changed
}

/// Splits a sub-rule into one per source. One that has both `sources` and `arguments` is left unchanged.
fn parted(rule: Value, is_changed: &mut bool) -> Vec<Value> {
    let Value::Object(mut rule) = rule else { return vec![rule] };
    if rule.contains_key("arguments") || !matches!(rule.get("sources"), Some(Value::Array(_) | Value::Null)) {
        return vec![Value::Object(rule)];
    }
    *is_changed = true;
    let sources = match rule.remove("sources") {
        Some(Value::Array(sources)) if !sources.is_empty() => sources,
        _ => return vec![Value::Object(rule)],
    };
    let with = |source: Value| {
        let mut rule = rule.clone();
        rule.insert("arguments".to_owned(), json!({ "arguments": conditions(source) }));
        Value::Object(rule)
    };
    sources.into_iter().map(with).collect()
}

/// Returns the conditions of a source: its caller, then its arguments.
fn conditions(source: Value) -> Value {
    let Value::Object(mut source) = source else { return json!([source]) };
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    let (service, namespace) = (text(source.remove("service")), text(source.remove("namespace")));
    let arguments = source.remove("arguments").filter(|arguments| !arguments.is_null()).unwrap_or(json!([]));
    let Value::Array(mut arguments) = arguments else { return arguments };
    if !["", "*"].contains(&service.as_str()) {
        let caller = json!({ "type": "EXACT", "value": service });
        arguments.insert(0, json!({ "type": "CALLER_SERVICE", "key": namespace, "value": caller }));
    }
    Value::Array(arguments)
}

fn fold_limit(rule: &mut JsonObject) -> bool {
    let is_flat = OF_LIMIT.iter().chain([&METHOD]).any(|key| rule.contains_key(*key));
    if !is_flat || !is_empty(rule.get("rules")) {
        return false;
    }
    let mut only = JsonObject::from_iter([("name".to_owned(), rule.get("name").cloned().unwrap_or_default())]);
    only.extend(OF_LIMIT.into_iter().filter_map(|key| rule.remove_entry(key)));
    if let Some(method) = rule.remove(METHOD).filter(|method| !method.is_null()) {
        only.insert("apis".to_owned(), json!([{ "path": method }]));
    }
    rule.insert("rules".to_owned(), json!([only]));
    true
}

fn is_empty(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.is_null() || value.as_array().is_some_and(Vec::is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(family: Family, written: Value, expected: Option<Value>) {
        let folded = folded(family, &written.to_string());
        assert_eq!(folded.map(|text| serde_json::from_str::<Value>(&text).expect("JSON")), expected, "{written}");
    }

    #[test]
    fn sources_become_what_a_sub_rule_is_for() {
        let header = json!({"type": "HEADER", "key": "x", "value": {"type": "EXACT", "value": "1"}});
        let caller = json!({"type": "CALLER_SERVICE", "key": "n", "value": {"type": "EXACT", "value": "web"}});
        let groups = json!([{"service": "pay", "namespace": "n"}]);
        let sources =
            json!([{"service": "web", "namespace": "n", "arguments": [header]}, {"service": "*", "namespace": "*"}]);
        let rules = json!([
            {"name": "one", "destinations": groups, "arguments": {"arguments": [caller, header]}},
            {"name": "one", "destinations": groups, "arguments": {"arguments": []}},
        ]);
        let nested = json!({"rules": [{"name": "one", "sources": sources, "destinations": groups}]});
        let route = |config: Value| json!({"name": "one", "routing_config": config});
        check(Family::Routing, route(nested), Some(route(json!({"rules": rules}))));
        let flat = json!({"@type": "x", "sources": sources, "destinations": groups});
        check(Family::Routing, route(flat), Some(route(json!({"@type": "x", "rules": rules}))));
        let own = json!({"rules": [{"name": "one", "arguments": {"arguments": []}, "destinations": groups}]});
        check(Family::Routing, route(own), None);
        let both = json!({"rules": [{"arguments": {}, "sources": sources, "destinations": groups}]});
        check(Family::Routing, route(both), None);
    }

    #[test]
    fn a_flat_limit_becomes_one_of_one_sub_rule() {
        let amounts = json!([{"maxAmount": 5, "validDuration": "1s"}]);
        let path = json!({"type": "EXACT", "value": "/pay"});
        let flat = json!({"name": "r", "service": "s", "type": "LOCAL", "resource": "QPS", "method": path,
                          "amounts": amounts, "action": "REJECT", "disable": false, "rules": []});
        let only =
            json!({"name": "r", "resource": "QPS", "amounts": amounts, "action": "REJECT", "apis": [{"path": path}]});
        let nested = json!({"name": "r", "service": "s", "type": "LOCAL", "disable": false, "rules": [only]});
        check(Family::RateLimit, flat.clone(), Some(nested.clone()));
        for none in ["[ ]", "null", " null"] {
            let text = flat.to_string().replace("\"rules\":[]", &format!("\"rules\": {none}"));
            let folded = folded(Family::RateLimit, &text).and_then(|text| serde_json::from_str::<Value>(&text).ok());
            assert_eq!(folded.as_ref(), Some(&nested), "{text}");
        }
        check(Family::RateLimit, nested, None);
        check(Family::RateLimit, json!({"name": "r", "description": "of an update"}), None);
    }

    /// The member `rules` decides, not a text that is equal to its name.
    #[test]
    fn a_rule_may_be_called_like_a_member() {
        let amounts = json!([{"maxAmount": 5, "validDuration": "1s"}]);
        for name in ["rules", "sources", "null", "[]"] {
            let flat = json!({"name": name, "service": "rules", "amounts": amounts});
            let only = json!({"name": name, "amounts": amounts});
            check(Family::RateLimit, flat, Some(json!({"name": name, "service": "rules", "rules": [only.clone()]})));
            check(Family::RateLimit, json!({"name": name, "rules": [only]}), None);
            let groups = json!([{"service": "rules", "labels": {"rules": {"value": "sources"}}}]);
            let only = json!({"name": name, "destinations": groups});
            let route = |config: Value| json!({"name": name, "routing_config": config});
            check(
                Family::Routing,
                route(json!({"destinations": groups})),
                Some(route(json!({"rules": [only.clone()]}))),
            );
            check(Family::Routing, route(json!({"rules": [only]})), None);
        }
    }
}
