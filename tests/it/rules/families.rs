//! The families as data: names, full samples, words, ranges, and how each names a service.

use serde_json::{Value, json};

use super::breaker::CIRCUIT_BREAKER;
use super::edges::{self, Edge};
use super::suite::{merged, without};

pub(super) struct Family {
    pub(super) kind: &'static str,
    /// The element that carries a rule in the answers of writes.
    pub(super) element: &'static str,
    /// The value of `resource` of its releases.
    pub(super) resource: &'static str,
    /// Type in the request of a discovering client, and element of the answer.
    pub(super) discovery: (&'static str, &'static str),
    /// A rule as a client gets it.
    pub(super) in_force: fn(&Value) -> Value,
    /// Rules with every field of the specification set to a value other than its default: title and body. All are
    /// disabled, by `enable` or by `disable`.
    pub(super) samples: fn() -> Vec<(&'static str, Value)>,
    /// Minimal rules, and everything shown of them in addition to names and head.
    pub(super) bare: fn() -> Vec<(Value, Value)>,
    /// Enumerations: title of a sample, pointer into it, and the words in order of their numbers.
    pub(super) words: &'static [(&'static str, &'static str, &'static [&'static str])],
    /// Values on either side of each limit.
    pub(super) edges: fn() -> Vec<Edge>,
    /// New values for top-level fields of the first sample: field, value, how it is shown.
    pub(super) changes: fn() -> Vec<(&'static str, Value, Value)>,
    /// Every way to make a rule one for a service of a namespace.
    pub(super) ends: fn(&str, &str) -> Vec<Value>,
    /// True if a rule that names no service is for every service of its namespace.
    pub(super) nameless_is_for_all: bool,
}

pub(super) const FAMILIES: [&Family; 4] = [&FAULT_DETECT, &RATE_LIMIT, &ROUTING, &CIRCUIT_BREAKER];

pub(super) const MATCH_TYPES: &[&str] = &["EXACT", "REGEX", "NOT_EQUALS", "IN", "NOT_IN", "RANGE"];
pub(super) const VALUE_TYPES: &[&str] = &["TEXT", "PARAMETER"];
const ARGUMENT_TYPES: &[&str] =
    &["CUSTOM", "METHOD", "HEADER", "QUERY", "CALLER_IP", "PATH", "COOKIE", "CALLER_METADATA", "CALLER_SERVICE"];
/// The same words under the numbers that the Polaris family gives them in rate limits.
const LIMIT_ARGUMENT_TYPES: &[&str] =
    &["CUSTOM", "METHOD", "HEADER", "QUERY", "CALLER_SERVICE", "CALLER_IP", "CALLER_METADATA", "PATH", "COOKIE"];
const LIMIT_TYPES: &[&str] = &[
    "GLOBAL",
    "LOCAL",
    "CUSTOM",
    "METHOD",
    "HEADER",
    "QUERY",
    "CALLER_IP",
    "PATH",
    "COOKIE",
    "CALLER_METADATA",
    "CALLER_SERVICE",
];
const PROTOCOLS: &[&str] = &["UNKNOWN", "HTTP", "TCP", "UDP"];
const LEVELS: &[&str] = &["UNKNOWN", "CAMPUS", "ZONE", "REGION", "ALL"];

/// Returns a condition without defaults; its value may be any text.
pub(super) fn condition(kind: &str, value: &str) -> Value {
    json!({"type": kind, "value": value, "value_type": "PARAMETER"})
}

fn probe() -> Value {
    json!({
        "interval": 11,
        "timeout": 12,
        "port": 8080,
        "protocol": "HTTP",
        "http_config": {
            "method": "POST", "url": "/health?deep=1", "headers": [{"key": "Host", "value": "probe"}], "body": "ping",
        },
        "tcp_config": {"send": "0x01", "receive": ["0x02", "0x03"]},
        "udp_config": {"send": "0x04", "receive": ["0x05"]},
    })
}

pub(super) fn head(name: &str) -> Value {
    json!({
        "name": name,
        "namespace": "samples",
        "description": "as full as a rule can be",
        "priority": 3,
        "metadata": {"teamName": "edge", "cost_center": "7"},
    })
}

pub(super) fn of(head: Value, more: Value) -> Value {
    merged(&head, &more)
}

pub(super) const FAULT_DETECT: Family = Family {
    kind: "faultdetectors",
    element: "faultDetectRule",
    resource: "FaultDetectRules",
    discovery: ("FAULT_DETECTOR", "faultDetector"),
    in_force: |rule| {
        // The flat form counts as one more sub-rule.
        let mut flat = json!({"disable": false});
        let mut rule = rule.clone();
        for field in probe().as_object().expect("fields").keys() {
            flat[field] = rule[field].take();
            rule = without(&rule, &format!("/{field}"));
        }
        rule["rules"].as_array_mut().expect("sub-rules").push(flat);
        rule
    },
    samples: || {
        let mut sub_rule = probe();
        sub_rule["disable"] = json!(true);
        let target = json!({
            "service": "target",
            "namespace": "elsewhere",
            "method": condition("REGEX", "^GET$"),
            "api": {"protocol": "http", "method": "GET", "path": condition("IN", "/a,/b")},
        });
        let body = json!({"enable": false, "target_service": target, "service": "main", "rules": [sub_rule]});
        vec![("probe", of(of(head("probe"), body), probe()))]
    },
    bare: || {
        let sub_rule = json!({"interval": 0, "timeout": 0, "port": 0, "protocol": "UNKNOWN", "disable": false});
        vec![
            (json!({}), json!({"rules": [], "target_service": null, "service": null})),
            (json!({"rules": [{}]}), json!({"rules": [sub_rule], "target_service": null, "service": null})),
            (
                json!({"target_service": {}, "http_config": {}, "udp_config": {}}),
                json!({
                    "rules": [],
                    "service": null,
                    "target_service": null,
                    "http_config": {"method": "", "url": "", "headers": [], "body": ""},
                    "udp_config": {"send": "", "receive": []},
                }),
            ),
        ]
    },
    words: &[
        ("probe", "/protocol", PROTOCOLS),
        ("probe", "/rules/0/protocol", PROTOCOLS),
        ("probe", "/target_service/api/path/type", MATCH_TYPES),
        ("probe", "/target_service/api/path/value_type", VALUE_TYPES),
    ],
    edges: edges::fault_detect,
    changes: || {
        vec![
            ("interval", json!(21), json!(21)),
            ("protocol", json!("UDP"), json!("UDP")),
            ("target_service", json!({"service": "new"}), json!({"service": "new", "namespace": ""})),
            ("tcp_config", json!({"send": "x"}), json!({"send": "x", "receive": []})),
        ]
    },
    ends: |namespace, service| {
        vec![json!({"target_service": {"namespace": namespace, "service": service}}), json!({"service": service})]
    },
    nameless_is_for_all: false,
};

pub(super) const RATE_LIMIT: Family = Family {
    kind: "ratelimits",
    element: "rateLimit",
    resource: "RateLimitRules",
    discovery: ("RATE_LIMIT", "rateLimit"),
    in_force: Value::clone,
    samples: || {
        let trigger = json!({
            "name": "by user",
            "apis": [{"protocol": "grpc", "method": "GET", "path": condition("REGEX", "^/v1/")}],
            "resource": "CONCURRENCY",
            "arguments": [{"type": "HEADER", "key": "user", "value": condition("NOT_IN", "a,b")}],
            "amounts": [{
                "maxAmount": 100, "validDuration": "1.500s", "precision": 10, "startAmount": 5, "minAmount": 2,
            }],
            "max_queue_delay": 7,
            "concurrency_amount": {"max_amount": 9},
            "custom_response": {"code": "429", "headers": {"retryAfter": "1", "x_limit": "2"}, "body": "later"},
            "regex_combine": true,
            "failover": "FAILOVER_PASS",
            "action": "UNIRATE",
            "disable": true,
            "amount_mode": "SHARE_EQUALLY",
        });
        let body = json!({
            "disable": true,
            "type": "LOCAL",
            "rules": [trigger],
            "report": {"interval": "0.250s", "amountPercent": 40},
            "cluster": {"service": "limiter", "namespace": "system"},
            "callee": {"service": "target", "namespace": "elsewhere"},
            "service": "main",
        });
        vec![("limit", of(head("limit"), body))]
    },
    bare: || {
        let trigger = json!({
            "name": "", "apis": [], "resource": "QPS", "arguments": [], "amounts": [], "max_queue_delay": 0,
            "regex_combine": false, "failover": "FAILOVER_LOCAL", "action": "", "disable": false,
            "amount_mode": "GLOBAL_TOTAL",
        });
        let of = |rules: Value| {
            json!({
                "type": "GLOBAL", "rules": rules, "report": null, "cluster": null, "callee": null, "service": null,
            })
        };
        let inner = json!({"apis": [{}], "arguments": [{"key": "k", "value": {}}, {"key": "k"}],
            "amounts": [{"validDuration": "1s"}], "concurrency_amount": {}});
        let shown = json!({
            "apis": [{"protocol": "", "method": ""}],
            "arguments": [
                {"type": "CUSTOM", "key": "k", "value": {"type": "EXACT", "value": "", "value_type": "TEXT"}},
                {"type": "CUSTOM", "key": "k"},
            ],
            "amounts": [{"maxAmount": 0, "validDuration": "1s"}],
            "concurrency_amount": {"max_amount": 0},
        });
        vec![
            (json!({}), of(json!([]))),
            (json!({"rules": [{}]}), of(json!([trigger]))),
            (json!({"rules": [inner]}), of(json!([merged(&trigger, &shown)]))),
        ]
    },
    words: &[
        ("limit", "/type", LIMIT_TYPES),
        ("limit", "/rules/0/resource", &["QPS", "CONCURRENCY", "SYSTEM"]),
        ("limit", "/rules/0/failover", &["FAILOVER_LOCAL", "FAILOVER_PASS"]),
        ("limit", "/rules/0/amount_mode", &["GLOBAL_TOTAL", "SHARE_EQUALLY"]),
        ("limit", "/rules/0/arguments/0/type", LIMIT_ARGUMENT_TYPES),
        ("limit", "/rules/0/arguments/0/value/type", MATCH_TYPES),
        ("limit", "/rules/0/arguments/0/value/value_type", VALUE_TYPES),
        ("limit", "/rules/0/apis/0/path/type", MATCH_TYPES),
    ],
    edges: edges::rate_limit,
    changes: || {
        vec![
            ("rules", json!([]), json!([])),
            ("type", json!("GLOBAL"), json!("GLOBAL")),
            ("report", json!({"interval": 2000}), json!({"interval": "2s"})),
            ("cluster", json!({"service": "new"}), json!({"service": "new", "namespace": ""})),
        ]
    },
    ends: |namespace, service| {
        vec![json!({"callee": {"namespace": namespace, "service": service}}), json!({"service": service})]
    },
    nameless_is_for_all: true,
};

pub(super) const ROUTING: Family = Family {
    kind: "routings",
    element: "routeRule",
    resource: "RouteRules",
    discovery: ("ROUTING", "routing"),
    in_force: Value::clone,
    samples: || {
        let sub_rule = json!({
            "name": "canaries",
            "arguments": {
                "arguments": [{"type": "QUERY", "key": "user", "value": condition("NOT_EQUALS", "root")}],
                "random_percent": 37,
                "matchMode": "OR",
            },
            "destinations": [{
                "service": "target",
                "namespace": "elsewhere",
                "labels": {"build_version": condition("RANGE", "3~5"), "runsOn": condition("EXACT", "arm")},
                "priority": 4,
                "weight": 70,
                "transfer": "proxy",
                "isolate": true,
                "name": "new ones",
            }],
        });
        let custom = json!({
            "@type": "type.googleapis.com/v1.CustomRoute",
            "caller": {"service": "*", "namespace": "*"},
            "callee": {"service": "target", "namespace": "elsewhere"},
            "rules": [sub_rule],
        });
        let metadata = json!({
            "service": "target",
            "namespace": "elsewhere",
            "labels": {"build_version": "3", "runsOn": "arm"},
            "failover": {"failover_range": "OTHER_KEYS", "labels": {"build_version": "2"}},
        });
        let nearby = json!({
            "service": "*",
            "namespace": "elsewhere",
            "match_level": "CAMPUS",
            "max_match_level": "REGION",
            "strict_nearby": true,
        });
        let all = [("RulePolicy", custom), ("MetadataPolicy", metadata), ("NearbyPolicy", nearby)];
        let full = |(policy, config)| {
            (policy, of(head(policy), json!({"enable": false, "route_policy": policy, "routing_config": config})))
        };
        all.into_iter().map(full).collect()
    },
    bare: || {
        let rule = |rules: Value| json!({"route_policy": "RulePolicy", "routing_config": {"rules": rules}});
        let all = json!({"arguments": [], "random_percent": 100, "matchMode": "AND"});
        let group = json!({
            "service": "", "namespace": "", "labels": {}, "transfer": "", "isolate": false, "name": "",
        });
        let nearby = json!({
            "service": "", "namespace": "", "match_level": "UNKNOWN", "max_match_level": "UNKNOWN",
              "strict_nearby": false,
        });
        let metadata = json!({"service": "", "namespace": "", "labels": {}});
        vec![
            (json!({}), rule(json!([]))),
            (json!({"routing_config": {}}), rule(json!([]))),
            (
                json!({"routing_config": {"rules": [{"destinations": [{}]}]}}),
                rule(json!([{"name": "", "arguments": all, "destinations": [group]}])),
            ),
            (
                json!({"route_policy": "NearbyPolicy"}),
                json!({"route_policy": "NearbyPolicy", "routing_config": nearby}),
            ),
            (
                json!({"route_policy": "MetadataPolicy"}),
                json!({"route_policy": "MetadataPolicy", "routing_config": metadata}),
            ),
        ]
    },
    words: &[
        ("RulePolicy", "/routing_config/rules/0/arguments/matchMode", &["AND", "OR"]),
        ("RulePolicy", "/routing_config/rules/0/arguments/arguments/0/type", ARGUMENT_TYPES),
        ("RulePolicy", "/routing_config/rules/0/arguments/arguments/0/value/type", MATCH_TYPES),
        ("RulePolicy", "/routing_config/rules/0/destinations/0/labels/runsOn/type", MATCH_TYPES),
        ("RulePolicy", "/routing_config/rules/0/destinations/0/labels/runsOn/value_type", VALUE_TYPES),
        ("MetadataPolicy", "/routing_config/failover/failover_range", &["ALL", "OTHERS", "OTHER_KEYS"]),
        ("NearbyPolicy", "/routing_config/match_level", LEVELS),
        ("NearbyPolicy", "/routing_config/max_match_level", LEVELS),
    ],
    edges: edges::routing,
    changes: || vec![("routing_config", json!({}), json!({"rules": []}))],
    ends: |namespace, service| {
        let key = json!({"namespace": namespace, "service": service});
        vec![
            json!({"routing_config": {"caller": key}}),
            json!({"routing_config": {"callee": key}}),
            json!({"routing_config": {"rules": [{"destinations": [key]}]}}),
            json!({"route_policy": "MetadataPolicy", "routing_config": key}),
            json!({"route_policy": "NearbyPolicy", "routing_config": key}),
        ]
    },
    nameless_is_for_all: false,
};
