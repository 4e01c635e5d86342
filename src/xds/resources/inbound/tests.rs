use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use serde::de::DeserializeSeed;
use serde_json::{Value, json};

use super::*;
use crate::model::mesh::library::Library;
use crate::model::mesh::plan::Abilities;
use crate::model::mesh::{Dialect, limits};
use crate::model::rule::{Family, Rule, RuleDraft};
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;
use crate::proto::envoy::config::route::v3 as route;
use crate::proto::envoy::config::route::v3::rate_limit::action::ActionSpecifier;
use crate::proto::envoy::config::route::v3::rate_limit::{Action, HitsAddend};
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use crate::proto::envoy::extensions::rate_limit_descriptors::expr::v3::{Descriptor, descriptor};
use crate::proto::envoy::r#type::matcher::v3::StringMatcher;
use crate::proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

fn rule(kind: &str, triggers: &Value) -> Rule {
    let json =
        json!({ "name": "r", "namespace": "shop", "enable": true, "service": "pay", "type": kind, "rules": triggers });
    let head = serde_json::from_value(json.clone()).expect("the head of a rule");
    let body = Family::RateLimit.deserialize(json).expect("the body of a rule");
    let draft = RuleDraft { head, body };
    draft.check_new().expect("a rule that would be accepted");
    let created = Stamp { time: Timestamp(0), by: "admin".into() };
    draft.rule("r".into(), String::new(), created).expect("a rule")
}

fn planned(kind: &str, triggers: &Value) -> LimitPlan {
    let sidecar = Abilities {
        dialect: Dialect::Envoy,
        is_gateway: false,
        has_caller_header: false,
        takes_large_expressions: false,
        is_callee_grpc: false,
        library: Library::Core,
    };
    limits::plan(&[&rule(kind, triggers)], sidecar)
}

/// Returns the encoded and decoded configuration of a virtual host.
fn sent(plan: &LimitPlan, sharers: u32) -> LocalRateLimit {
    let mut host = VirtualHost::default();
    apply(plan, sharers, &mut host);
    let decoded = VirtualHost::decode(host.encode_to_vec().as_slice()).expect("a virtual host");
    let config = &decoded.typed_per_filter_config[LOCAL_RATE_LIMIT];
    let name = "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit";
    assert_eq!(config.type_url, name);
    LocalRateLimit::decode(config.value.clone()).expect("a configuration of the filter")
}

fn local(triggers: &Value) -> LocalRateLimit {
    sent(&planned("LOCAL", triggers), 1)
}

fn limit(fields: Value) -> Value {
    let mut trigger = json!({ "amounts": [{ "maxAmount": 5, "validDuration": "1s" }] });
    trigger.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    trigger
}

fn path(how: &str, value: &str) -> Value {
    json!({ "path": { "type": how, "value": value } })
}

fn argument(kind: &str, key: &str, how: &str, value: &str) -> Value {
    json!({ "type": kind, "key": key, "value": { "type": how, "value": value } })
}

/// A request as seen by a proxy.
struct Request {
    headers: BTreeMap<String, String>,
    address: &'static str,
}

impl Request {
    fn new(path: &str, headers: &[(&str, &str)]) -> Request {
        let given = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let own = [(":path".to_owned(), path.to_owned()), (":method".to_owned(), "GET".to_owned())];
        Request { headers: own.into_iter().chain(given).collect(), address: "10.0.0.1" }
    }

    fn path(&self) -> (&str, &str) {
        let path = self.headers[":path"].as_str();
        path.split_once('?').unwrap_or((path, ""))
    }

    fn query(&self, name: &str) -> Option<&str> {
        self.path()
            .1
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|pair| pair.1)
    }

    fn header_holds(&self, matcher: &route::HeaderMatcher) -> bool {
        use route::header_matcher::HeaderMatchSpecifier;
        let Some(value) = self.headers.get(&matcher.name) else { return false };
        let holds = match matcher.header_match_specifier.as_ref().expect("a comparison") {
            HeaderMatchSpecifier::PresentMatch(is_present) => *is_present,
            HeaderMatchSpecifier::StringMatch(text) => text_holds(text, value),
            HeaderMatchSpecifier::RangeMatch(range) => {
                value.parse().is_ok_and(|number: i64| (range.start..range.end).contains(&number))
            }
        };
        holds != matcher.invert_match
    }

    fn query_holds(&self, matcher: &route::QueryParameterMatcher) -> bool {
        use route::query_parameter_matcher::QueryParameterMatchSpecifier;
        let Some(value) = self.query(&matcher.name) else { return false };
        match matcher.query_parameter_match_specifier.as_ref().expect("a comparison") {
            QueryParameterMatchSpecifier::PresentMatch(is_present) => *is_present,
            QueryParameterMatchSpecifier::StringMatch(text) => text_holds(text, value),
        }
    }

    /// Returns the key and value that an action produces, if it produces any.
    fn said(&self, action: &Action) -> Option<(String, String)> {
        let pair = |key: &str, value: &str| Some((key.to_owned(), value.to_owned()));
        match action.action_specifier.as_ref().expect("an action") {
            ActionSpecifier::GenericKey(generic) => pair(&generic.descriptor_key, &generic.descriptor_value),
            ActionSpecifier::RemoteAddress(_) => pair("remote_address", self.address),
            ActionSpecifier::RequestHeaders(header) => {
                pair(&header.descriptor_key, self.headers.get(&header.header_name)?)
            }
            ActionSpecifier::QueryParameters(query) => {
                pair(&query.descriptor_key, self.query(&query.query_parameter_name)?)
            }
            ActionSpecifier::HeaderValueMatch(wanted) => {
                let holds = wanted.headers.iter().all(|header| self.header_holds(header));
                let is_wanted = wanted.expect_match == Some(holds) && !wanted.headers.is_empty();
                pair(&wanted.descriptor_key, &wanted.descriptor_value).filter(|_| is_wanted)
            }
            ActionSpecifier::QueryParameterValueMatch(wanted) => {
                let holds = wanted.query_parameters.iter().all(|query| self.query_holds(query));
                let is_wanted = wanted.expect_match == Some(holds) && !wanted.query_parameters.is_empty();
                pair(&wanted.descriptor_key, &wanted.descriptor_value).filter(|_| is_wanted)
            }
            ActionSpecifier::Extension(extension) => {
                let config = extension.typed_config.as_ref().expect("a configuration");
                let descriptor = Descriptor::decode(config.value.clone()).expect("an expression");
                let text = descriptor::ExprSpecifier::Text("request.url_path".into());
                assert_eq!(descriptor.expr_specifier, Some(text));
                pair(&descriptor.descriptor_key, self.path().0)
            }
        }
    }
}

fn text_holds(matcher: &StringMatcher, value: &str) -> bool {
    match matcher.match_pattern.as_ref().expect("a pattern") {
        MatchPattern::Exact(text) => text == value,
        MatchPattern::SafeRegex(expression) => {
            let whole = regex::Regex::new(&format!("^(?:{})$", expression.regex)).expect("an expression");
            whole.is_match(value)
        }
        other => panic!("{other:?} is not sent"),
    }
}

/// Returns the buckets that a request takes tokens from: their keys, and the values that select them.
fn taken(message: &LocalRateLimit, request: &Request) -> Vec<String> {
    let mut found = Vec::new();
    for limit in &message.rate_limits {
        let said: Option<Vec<_>> = limit.actions.iter().map(|action| request.said(action)).collect();
        let said = said.unwrap_or_default();
        let buckets = message.descriptors.iter().filter(|descriptor| is_found(&descriptor.entries, &said));
        for _ in buckets {
            let values = said[1..].iter().filter(|(key, _)| !["way", "query"].contains(&key.as_str()));
            let values: String = values.map(|(key, value)| format!(" {key}={value}")).collect();
            found.push(format!("{}{values}", said[0].0));
        }
    }
    found
}

/// Reports whether the entries of a bucket match. An entry without a value matches all values.
fn is_found(entries: &[Entry], said: &[(String, String)]) -> bool {
    let is_equal =
        |entry: &Entry, key: &str, value: &str| entry.key == key && (entry.value.is_empty() || entry.value == value);
    entries.len() == said.len() && entries.iter().zip(said).all(|(entry, (key, value))| is_equal(entry, key, value))
}

/// Limits, a request, and the buckets that it takes tokens from.
#[test]
fn a_request_is_counted_once_by_each_limit_that_matches() {
    let a_or_b = limit(json!({ "apis": [path("EXACT", "/a"), path("REGEX", "^/[ab]"), path("EXACT", "/c")] }));
    let of_user = limit(json!({ "arguments": [argument("HEADER", "User", "EXACT", "*")] }));
    let combined = limit(json!({ "apis": [path("REGEX", "^/[ab]")], "regex_combine": true,
        "arguments": [argument("HEADER", "User", "NOT_EQUALS", "root")] }));
    let of_query =
        limit(json!({ "arguments": [argument("QUERY", "q", "IN", "1,2"), argument("METHOD", "", "EXACT", "GET")] }));
    let of_address = limit(json!({ "arguments": [argument("CALLER_IP", "", "IN", "10.0.0.1,10.0.0.9")] }));
    let each_address = limit(json!({ "arguments": [{ "type": "CALLER_IP" }] }));
    let two =
        json!({ "amounts": [{ "maxAmount": 5, "validDuration": "1s" }, { "maxAmount": 9, "validDuration": "60s" }] });
    let user: &[(&str, &str)] = &[("user", "u")];
    let root: &[(&str, &str)] = &[("user", "root")];
    type Row<'a> = (&'a Value, &'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let rows: [Row<'_>; 19] = [
        (&a_or_b, "/a", &[], &["r/0/0"]),
        (&a_or_b, "/a?x=1", &[], &["r/0/0"]),
        (&a_or_b, "/c", &[], &["r/0/0"]),
        (&a_or_b, "/b", &[], &["r/0/0 path=/b"]),
        (&a_or_b, "/b?x=1", &[], &["r/0/0 path=/b"]),
        (&a_or_b, "/a/d", &[], &["r/0/0 path=/a/d"]),
        (&a_or_b, "/d", &[], &[]),
        (&of_user, "/", user, &["r/0/0 header user=u"]),
        (&of_user, "/", &[], &[]),
        (&combined, "/a", user, &["r/0/0"]),
        (&combined, "/b/x", user, &["r/0/0"]),
        (&combined, "/b", root, &[]),
        (&combined, "/c", user, &[]),
        (&of_query, "/?q=2", &[], &["r/0/0 query q=2"]),
        (&of_query, "/?q=3", &[], &[]),
        (&of_query, "/?q=2", &[(":method", "PUT")], &[]),
        (&of_address, "/", &[], &["r/0/0 remote_address=10.0.0.1"]),
        (&each_address, "/", &[], &["r/0/0 remote_address=10.0.0.1"]),
        (&two, "/", &[], &["r/0/0", "r/0/1"]),
    ];
    for (trigger, path, headers, expected) in rows {
        let message = local(&json!([trigger]));
        assert_eq!(taken(&message, &Request::new(path, headers)), expected, "{trigger} {path} {headers:?}");
    }
    let all = local(&json!([of_user, of_address, two]));
    let found = taken(&all, &Request::new("/", user));
    assert_eq!(found, ["r/0/0 header user=u", "r/1/0 remote_address=10.0.0.1", "r/2/0", "r/2/1"]);
}

/// Envoy would refuse the whole configuration because of one invalid value.
#[test]
fn nothing_is_sent_that_is_refused() {
    let many: Vec<Value> = (0..32).map(|number| path("EXACT", &format!("/{number}"))).collect();
    let triggers = json!([
        limit(json!({ "apis": many })),
        limit(json!({ "arguments": [argument("QUERY", "q", "NOT_IN", "1,2"), argument("COOKIE", "c", "EXACT", "a")] })),
        { "amounts": [{ "maxAmount": 0, "validDuration": "1s" }, { "maxAmount": 0, "validDuration": "1s" }] },
        { "amounts": [{ "maxAmount": 4_294_967_295_u32, "validDuration": "9223372035s" }],
            "custom_response": { "code": "599" } },
        limit(json!({ "custom_response": { "code": "418" } })),
        // One API counts each path separately, and one argument does so for all paths.
        limit(json!({ "apis": [path("EXACT", "/orders"), path("REGEX", "^/users/.*")], "regex_combine": false,
            "arguments": [argument("PATH", "", "REGEX", "^/.*s")] })),
    ]);
    for (kind, sharers) in [("LOCAL", 0), ("GLOBAL", 0), ("GLOBAL", 1_000_000)] {
        let message = sent(&planned(kind, &triggers), sharers);
        assert!(!message.stat_prefix.is_empty());
        assert_eq!(message.status.map(|status| status.code), Some(429));
        let buckets = message.descriptors.iter().filter_map(|descriptor| descriptor.token_bucket.as_ref());
        for bucket in buckets.chain(&message.token_bucket) {
            assert!(bucket.max_tokens > 0 && bucket.tokens_per_fill.is_some_and(|tokens| tokens > 0));
            let interval = bucket.fill_interval.expect("an interval");
            assert!(interval.seconds > 0 && (0..1_000_000_000).contains(&interval.nanos));
        }
        assert!(message.descriptors.iter().all(|descriptor| descriptor.token_bucket.is_some()));
        let distinct: BTreeSet<Vec<(&str, &str)>> = message
            .descriptors
            .iter()
            .map(|descriptor| {
                descriptor.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect()
            })
            .collect();
        assert_eq!(distinct.len(), message.descriptors.len());
        assert!(message.rate_limits.iter().all(|limit| !limit.actions.is_empty() && actions_are_whole(limit)));
    }
}

fn actions_are_whole(limit: &route::RateLimit) -> bool {
    limit.actions.iter().all(|action| match action.action_specifier.as_ref().expect("an action") {
        ActionSpecifier::GenericKey(generic) => !generic.descriptor_value.is_empty(),
        ActionSpecifier::HeaderValueMatch(wanted) => !wanted.headers.is_empty() && !wanted.descriptor_value.is_empty(),
        ActionSpecifier::QueryParameterValueMatch(wanted) => {
            !wanted.query_parameters.is_empty() && !wanted.descriptor_value.is_empty()
        }
        _ => true,
    })
}

#[test]
fn buckets_have_amount_and_period() {
    let triggers = json!([{ "amounts": [{ "maxAmount": 10, "validDuration": "1.5s" },
        { "maxAmount": 0, "validDuration": "2s" }] }]);
    let shown = |kind: &str, sharers: u32| -> Vec<(u32, i64, i32, Option<HitsAddend>)> {
        let message = sent(&planned(kind, &triggers), sharers);
        let both = message.descriptors.iter().zip(&message.rate_limits);
        both.map(|(descriptor, limit)| {
            let bucket = descriptor.token_bucket.as_ref().expect("a bucket");
            assert_eq!(bucket.tokens_per_fill, Some(bucket.max_tokens));
            let interval = bucket.fill_interval.expect("an interval");
            (bucket.max_tokens, interval.seconds, interval.nanos, limit.hits_addend)
        })
        .collect()
    };
    let nothing = (1, 2, 0, Some(HitsAddend { number: Some(2) }));
    assert_eq!(shown("LOCAL", 4), [(10, 1, 500_000_000, None), nothing]);
    assert_eq!(shown("GLOBAL", 4), [(2, 1, 500_000_000, None), nothing]);
    assert_eq!(shown("GLOBAL", 40), [(1, 1, 500_000_000, None), nothing]);
}

#[test]
fn the_answer_is_that_of_the_rule() {
    let response = json!({ "code": "503", "headers": { "retry-after": "5", "x-share": "100%" } });
    let message = local(&json!([limit(json!({ "custom_response": response }))]));
    assert_eq!(message.status, Some(HttpStatus { code: 503 }));
    assert!(message.rate_limited_as_resource_exhausted);
    assert_eq!(message.always_consume_default_token_bucket, Some(false));
    assert_eq!(message.max_dynamic_descriptors, Some(10_000));
    assert_eq!((message.filter_enabled, message.filter_enforced), (Some(always()), Some(always())));
    let headers = message.response_headers_to_add.iter().filter_map(|option| option.header.as_ref());
    let headers: Vec<(&str, &str)> = headers.map(|header| (header.key.as_str(), header.value.as_str())).collect();
    assert_eq!(headers, [("retry-after", "5"), ("x-share", "100%%")]);
}

#[test]
fn a_listener_has_the_filter_without_a_limit() {
    let filter = inbound_filter();
    assert_eq!((filter.name.as_str(), filter.is_optional), (LOCAL_RATE_LIMIT, false));
    let Some(http_filter::ConfigType::TypedConfig(config)) = filter.config_type else { panic!("a configuration") };
    let message = LocalRateLimit::decode(config.value).expect("a configuration of the filter");
    assert_eq!(message, LocalRateLimit { stat_prefix: "inbound".into(), ..Default::default() });
    let mut host = VirtualHost::default();
    apply(&LimitPlan::default(), 1, &mut host);
    assert_eq!(host, VirtualHost::default());
}

#[test]
fn requests_under_way_are_limited_by_the_lowest_amount() {
    let running = |amount: u32| json!({ "resource": "CONCURRENCY", "concurrency_amount": { "max_amount": amount } });
    let of = |kind: &str, triggers: &Value, sharers: u32| {
        let breakers = circuit_breakers(&planned(kind, triggers), sharers);
        let [thresholds] = breakers.thresholds.as_slice() else { panic!("thresholds of one priority") };
        assert_eq!(thresholds.max_connections, Some(u32::MAX));
        thresholds.max_requests
    };
    assert_eq!(of("LOCAL", &json!([]), 1), Some(u32::MAX));
    assert_eq!(of("LOCAL", &json!([running(9), running(7)]), 2), Some(7));
    assert_eq!(of("LOCAL", &json!([running(0)]), 2), Some(0));
    assert_eq!(of("GLOBAL", &json!([running(9)]), 2), Some(4));
}
