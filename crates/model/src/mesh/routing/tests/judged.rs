//! Plans of random rules evaluated as a client would, compared with the explanation of the same requests.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::model::explain::{Candidate, GroupState, Sketch, explain};
use crate::model::mesh::caller::CallerFacts;
use crate::model::mesh::plan::{PartMatch, TextMatch};
use crate::model::rule::SubRuleEffect;
use crate::model::rule::matchers::Matchers;

/// Percentages by rule, sub-rule and group.
type Shares = BTreeMap<(usize, usize, String), f64>;

impl CallerFacts for (Option<ServiceKey>, &Sketch) {
    fn service(&self) -> Option<&ServiceKey> {
        self.0.as_ref()
    }

    fn address(&self) -> Option<IpAddr> {
        self.1.caller_ip.as_deref().and_then(|address| address.parse().ok())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.1.caller_metadata.get(key).map(String::as_str)
    }
}

/// A request on the wire.
struct Request {
    path: String,
    headers: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
}

impl Request {
    fn of(sketch: &Sketch) -> Self {
        let pairs = |map: &BTreeMap<String, String>, between: &str| {
            map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(between)
        };
        let path = sketch.path.clone().unwrap_or_default();
        let mut headers: BTreeMap<String, String> =
            sketch.headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        headers.insert(":method".into(), sketch.method.clone().unwrap_or_default());
        let behind = if sketch.query.is_empty() { String::new() } else { format!("?{}", pairs(&sketch.query, "&")) };
        headers.insert(":path".into(), format!("{path}{behind}"));
        if !sketch.cookies.is_empty() {
            headers.insert("cookie".into(), pairs(&sketch.cookies, "; "));
        }
        Request { path, headers, query: sketch.query.clone() }
    }

    fn meets(&self, route: &PlannedRoute<'_>) -> bool {
        let part = |parts: &BTreeMap<String, String>, wanted: &PartMatch| {
            is_met(&wanted.value, parts.get(&wanted.name).map(String::as_str))
        };
        route.path.as_ref().is_none_or(|path| is_met(path, Some(&self.path)))
            && route.headers.iter().all(|wanted| part(&self.headers, wanted))
            && route.query.iter().all(|wanted| part(&self.query, wanted))
    }
}

fn is_met(wanted: &TextMatch, value: Option<&str>) -> bool {
    let Some(value) = value else { return false };
    let is_whole = |expression: &str| {
        let anchored = format!(r"\A(?:{expression})\z");
        regex::Regex::new(&anchored).expect("an expression that compiles").is_match(value)
    };
    match wanted {
        TextMatch::Present => true,
        TextMatch::Exact(text) => value == text,
        TextMatch::Not(text) => value != text,
        TextMatch::Expression(expression) => is_whole(expression),
        TextMatch::NotExpression(expression) => !is_whole(expression),
        TextMatch::Range(low, end) => value.parse().is_ok_and(|number: i64| (*low..*end).contains(&number)),
    }
}

/// Returns the shares of a request in Envoy. Fractions look at the three pairs of digits of one random number, which is
/// enumerated by intervals in which no fraction changes.
fn shares_in_envoy(routes: &[PlannedRoute<'_>], request: &Request) -> Shares {
    let met: Vec<_> = routes.iter().filter(|route| request.meets(route)).collect();
    let marks = [0.0, 1.0, 30.0, 50.0, 100.0];
    let intervals: Vec<(f64, f64)> = marks.windows(2).map(|pair| (pair[0], (pair[1] - pair[0]) / 100.0)).collect();
    let mut shares = Shares::new();
    for (hundred, a) in &intervals {
        for (ten_thousand, b) in &intervals {
            for (million, c) in &intervals {
                let is_drawn = |route: &&&PlannedRoute<'_>| {
                    route.fraction.is_none_or(|fraction| {
                        let digits = match fraction.denominator {
                            Denominator::Hundred => hundred,
                            Denominator::TenThousand => ten_thousand,
                            Denominator::Million => million,
                        };
                        let threshold = f64::from(fraction.numerator) * 100.0 / f64::from(fraction.denominator.count());
                        *digits < threshold
                    })
                };
                met.iter().find(is_drawn).inspect(|route| add_groups(&mut shares, route, a * b * c * 100.0));
            }
        }
    }
    shares
}

/// Returns the shares of a request in a gRPC client, which draws a number per route.
fn shares_in_grpc(routes: &[PlannedRoute<'_>], request: &Request) -> Shares {
    let mut shares = Shares::new();
    let mut left = 100.0;
    for route in routes.iter().filter(|route| request.meets(route)) {
        let taken = route.fraction.map_or(1.0, |fraction| f64::from(fraction.numerator) / 100.0) * left;
        add_groups(&mut shares, route, taken);
        left -= taken;
    }
    shares.retain(|_, share| *share > 0.0);
    shares
}

fn add_groups(shares: &mut Shares, route: &PlannedRoute<'_>, share: f64) {
    let in_use = || route.groups.iter().filter(|group| group.rank == 0);
    let sum: f64 = in_use().map(|group| f64::from(group.weight)).sum();
    for group in in_use() {
        let key = (route.rule, route.sub_rule, group.group.name.clone());
        *shares.entry(key).or_default() += share * f64::from(group.weight) / sum;
    }
}

fn explained(candidates: &[Candidate], sketch: &Sketch) -> Shares {
    let explanation = explain(Family::Routing, sketch, candidates);
    let mut shares = Shares::new();
    for judged in &explanation.candidates {
        let rule = candidates.iter().position(|candidate| candidate.rule.id == judged.rule_id).expect("a rule");
        for part in &judged.rules {
            let SubRuleEffect::Route(route) = &part.effect else { panic!("a custom route") };
            let in_use = route.destinations.iter().filter(|group| group.state == GroupState::InUse);
            for group in in_use.filter(|group| !group.share.is_none()) {
                shares.insert((rule, part.index, group.name.to_owned()), group.share.percent());
            }
        }
    }
    shares
}

fn conditions() -> impl Strategy<Value = Value> {
    let words = select(vec!["1", "2", "x", "ax", "", "*"]);
    let value = prop_oneof![
        4 => words.clone().prop_map(|word| json!({ "type": "EXACT", "value": word })),
        2 => words.clone().prop_map(|word| json!({ "type": "NOT_EQUALS", "value": word })),
        2 => (words.clone(), words.clone()).prop_map(|(a, b)| json!({ "type": "IN", "value": format!("{a},{b}") })),
        2 => (words.clone(), words).prop_map(|(a, b)| json!({ "type": "NOT_IN", "value": format!("{a},{b}") })),
        2 => select(vec!["^x$", "x", "^1|2$", "^a.$", "[^x]", "."]).prop_map(|e| json!({ "type": "REGEX",
            "value": e })),
        2 => select(vec!["1~1", "2~40"]).prop_map(|range| json!({ "type": "RANGE", "value": range })),
        1 => Just(json!({ "value": "lane", "value_type": "PARAMETER" })),
    ];
    let path = prop_oneof![
        select(vec!["/a", "/a/b"]).prop_map(|path| json!({ "type": "EXACT", "value": path })),
        select(vec!["/a", "/a/b"]).prop_map(|path| json!({ "type": "NOT_EQUALS", "value": path })),
        Just(json!({ "type": "IN", "value": "/a,/p.S/Pay" })),
        Just(json!({ "type": "NOT_IN", "value": "/a,/p.S/Pay" })),
        select(vec!["^/a", "b$", "/", "[^b]$"]).prop_map(|path| json!({ "type": "REGEX", "value": path })),
    ];
    let method = prop_oneof![
        select(vec!["GET", "POST"]).prop_map(|verb| json!({ "type": "EXACT", "value": verb })),
        select(vec!["GET", "POST"]).prop_map(|verb| json!({ "type": "NOT_EQUALS", "value": verb })),
        select(vec!["Pay", "a", "post"]).prop_map(|name| json!({ "type": "EXACT", "value": name })),
        select(vec!["Pay", "a", "post"]).prop_map(|name| json!({ "type": "NOT_EQUALS", "value": name })),
        select(vec!["GET,PUT", "GET,Pay", "POST,a"]).prop_map(|list| json!({ "type": "IN", "value": list })),
        select(vec!["GET,PUT", "GET,Pay", "POST,a"]).prop_map(|list| json!({ "type": "NOT_IN", "value": list })),
        select(vec!["^P", "a", "^GET$"]).prop_map(|text| json!({ "type": "REGEX", "value": text })),
    ];
    let kinds = select(vec![
        ("HEADER", "A"),
        ("HEADER", "b"),
        ("HEADER", "a"),
        ("QUERY", "v"),
        ("QUERY", "w"),
        ("COOKIE", "u"),
        ("COOKIE", "c"),
        ("CALLER_METADATA", "env"),
        ("CALLER_SERVICE", ""),
        ("CALLER_SERVICE", "shop"),
        ("CUSTOM", "l"),
    ]);
    let address = select(vec!["10.0.0.1", "10.0.0.2"]);
    prop_oneof![
        6 => (kinds, proptest::option::weighted(0.9, value)).prop_map(|((kind, key), value)| match value {
            Some(value) => json!({ "type": kind, "key": key, "value": value }),
            None => json!({ "type": kind, "key": key }),
        }),
        2 => path.prop_map(|value| json!({ "type": "PATH", "value": value })),
        1 => method.prop_map(|value| json!({ "type": "METHOD", "value": value })),
        1 => address.prop_map(|address| json!({ "type": "CALLER_IP", "value": { "value": address } })),
    ]
}

fn destinations() -> impl Strategy<Value = Value> {
    let group = (
        select(vec!["order", "order", "order", "*", "pay"]),
        proptest::option::of(0_u32..4),
        proptest::option::of(select(vec![0_u32, 3])),
        proptest::bool::weighted(0.1),
        proptest::option::weighted(0.2, select(vec!["lane", "$header.a", "v", "none"])),
    );
    prop::collection::vec(group, 1..4).prop_map(|groups| {
        let groups = groups.into_iter().enumerate().map(|(index, (service, weight, priority, isolate, lane))| {
            let mut group = json!({ "name": format!("g{index}"), "service": service, "isolate": isolate });
            let mut put = |key: &str, value: Option<u32>| value.map(|value| group[key] = json!(value));
            put("weight", weight);
            put("priority", priority);
            if let Some(name) = lane {
                group["labels"] = json!({ "lane": { "value": name, "value_type": "PARAMETER" } });
            }
            group
        });
        groups.collect()
    })
}

fn configs() -> impl Strategy<Value = Value> {
    let ends = select(vec![
        json!({}),
        json!({ "callee": { "namespace": "shop", "service": "order" } }),
        json!({ "callee": { "namespace": "shop", "service": "pay" } }),
        json!({ "caller": { "namespace": "shop", "service": "web" } }),
        json!({ "caller": { "namespace": "shop", "service": "*" } }),
        json!({ "caller": { "namespace": "*", "service": "*" }, "callee": { "namespace": "*", "service": "*" } }),
    ]);
    let percent = select(vec![100_u32, 100, 50, 30, 1]);
    let mode = select(vec!["AND", "AND", "OR"]);
    let sub_rule = (prop::collection::vec(conditions(), 0..4), mode, percent, destinations());
    (ends, prop::collection::vec(sub_rule, 1..4)).prop_map(|(mut config, sub_rules)| {
        let sub_rules = sub_rules.into_iter().map(|(conditions, mode, percent, destinations)| {
            let arguments = json!({ "arguments": conditions, "matchMode": mode, "random_percent": percent });
            json!({ "arguments": arguments, "destinations": destinations })
        });
        config["rules"] = sub_rules.collect();
        config
    })
}

fn sketches() -> impl Strategy<Value = Value> {
    let value = || select(vec!["1", "2", "x", "ax", "", "30", "b"]);
    let map = |keys: Vec<&'static str>| prop::collection::btree_map(select(keys), value(), 0..3);
    (
        (map(vec!["a", "B"]), map(vec!["v", "w"]), map(vec!["u", "c"]), map(vec!["env"])),
        select(vec!["/a", "/a/b", "/p.S/Pay"]),
        select(vec!["GET", "POST"]),
        proptest::option::of(select(vec!["web", "1", "x"])),
        proptest::option::of(select(vec!["10.0.0.1", "10.0.0.3"])),
    )
        .prop_map(|((headers, query, cookies, caller), path, method, service, address)| {
            json!({
                "service": "order", "namespace": "shop", "headers": headers, "query": query, "cookies": cookies,
                "caller_metadata": caller, "path": path, "method": method, "caller_service": service,
                "caller_ip": address,
            })
        })
}

fn rules_of(configs: &[Value]) -> Vec<Rule> {
    let rule = |(index, config): (usize, &Value)| {
        let head =
            json!({ "name": format!("r{index}"), "namespace": "shop", "enable": true, "routing_config": config });
        testing::rule(Family::Routing, &head)
    };
    configs.iter().enumerate().map(rule).collect()
}

/// Returns the routes for the caller of the sketch; `None` if a part of the rules is omitted or drawn differently.
fn settled<'a>(rules: &'a [Rule], sketch: &Sketch, to: Abilities) -> Option<Vec<PlannedRoute<'a>>> {
    let rules: Vec<&Rule> = rules.iter().collect();
    let mut plan = plan(&rules, &called(), to);
    let service = sketch.caller_service.clone().map(|service| ServiceKey { service, namespace: "shop".into() });
    let facts = (service, sketch);
    let matchers = Matchers::default();
    plan.routes.retain(|route| route.caller.iter().all(|condition| condition.holds(&facts, &matchers)));
    plan.warnings.extend(settle_shares(&mut plan.routes, to.dialect));
    // A condition that never holds is omitted without a loss.
    let has_loss = |warning: &Warning| (warning.is_left_out && warning.number != 4) || warning.number == 10;
    (!plan.warnings.iter().any(has_loss)).then_some(plan.routes)
}

proptest! {
    #![proptest_config(crate::test_seed::cases(1_500))]

    #[test]
    fn envoy_does_as_the_explanation_says(
        configs in prop::collection::vec(configs(), 1..3),
        sketches in prop::collection::vec(sketches(), 6),
        is_callee_grpc in any::<bool>(),
    ) {
        let to = Abilities { is_callee_grpc, ..ENVOY_CLIENT };
        let rules = rules_of(&configs);
        let candidates: Vec<Candidate> = rules.iter().map(|rule| Candidate::saved(Arc::new(rule.clone()))).collect();
        for mut sketch in sketches {
            if is_callee_grpc {
                sketch["method"] = json!("POST");
            }
            let sketch: Sketch = serde_json::from_value(sketch).expect("a sketch");
            let sketch = Sketch { is_grpc_called: is_callee_grpc, ..sketch };
            let Some(routes) = settled(&rules, &sketch, to) else { continue };
            let is_cumulative = |route: &PlannedRoute<'_>| route.fraction.is_some_and(|fraction| {
                !(fraction.numerator * 100).is_multiple_of(fraction.denominator.count())
                    || ![1, 30, 50].contains(&(fraction.numerator * 100 / fraction.denominator.count()))
            });
            if routes.iter().any(is_cumulative) {
                continue;
            }
            let found = shares_in_envoy(&routes, &Request::of(&sketch));
            let expected = explained(&candidates, &sketch);
            let keys = |shares: &Shares| shares.keys().cloned().collect::<Vec<_>>();
            prop_assert_eq!(keys(&found), keys(&expected), "{:?} {:?}", sketch, routes);
            for (key, share) in &expected {
                prop_assert!((found[key] - share).abs() < 0.03, "{key:?}: {} of {share}, {routes:?}", found[key]);
            }
        }
    }

    #[test]
    fn grpc_does_as_the_explanation_says(
        configs in prop::collection::vec(configs(), 1..3),
        sketches in prop::collection::vec(sketches(), 6),
    ) {
        let rules = rules_of(&configs);
        let candidates: Vec<Candidate> = rules.iter().map(|rule| Candidate::saved(Arc::new(rule.clone()))).collect();
        for mut sketch in sketches {
            for absent in ["query", "cookies"] {
                sketch[absent] = json!({});
            }
            sketch["method"] = json!("POST");
            let sketch: Sketch = serde_json::from_value(sketch).expect("a sketch");
            let sketch = Sketch { is_grpc_called: true, ..sketch };
            for library in Library::ALL {
                let to = Abilities { library, ..GRPC_CLIENT };
                let Some(routes) = settled(&rules, &sketch, to) else { continue };
                let mut request = Request::of(&sketch);
                // Headers that do not exist for its comparisons.
                request.headers.remove(":method");
                if to.has_one_path() {
                    request.headers.remove(":path");
                }
                let found = shares_in_grpc(&routes, &request);
                let expected = explained(&candidates, &sketch);
                let keys = |shares: &Shares| shares.keys().cloned().collect::<Vec<_>>();
                prop_assert_eq!(keys(&found), keys(&expected), "{:?} {:?} {:?}", library, sketch, routes);
            }
        }
    }
}

/// The request meets both conditions: the label takes the value of the first one, so that group g1 receives the whole
/// share, and g0, on standby, receives nothing.
#[test]
fn a_share_of_or_never_goes_to_groups_of_another_condition() {
    let conditions = json!([
        { "type": "HEADER", "key": "a", "value": { "value": "lane", "value_type": "PARAMETER" } },
        { "type": "CALLER_METADATA", "key": "env", "value": { "type": "EXACT", "value": "1" } },
    ]);
    let lane = json!({ "lane": { "value": "lane", "value_type": "PARAMETER" } });
    let config = |percent: u32| {
        json!({
            "caller": { "namespace": "*", "service": "*" }, "callee": { "namespace": "*", "service": "*" },
            "rules": [{
                "arguments": { "arguments": conditions, "matchMode": "OR", "random_percent": percent },
                "destinations": [{ "name": "g0", "service": "order" },
                    { "name": "g1", "service": "order", "priority": 0, "labels": lane }],
            }],
        })
    };
    let sketch = json!({ "service": "order", "namespace": "shop", "headers": { "a": "1" }, "path": "/a",
        "method": "POST", "caller_metadata": { "env": "1" } });
    let sketch: Sketch = serde_json::from_value(sketch).expect("a sketch");
    for (percent, grpc) in [(50, None), (100, Some(100.0))] {
        let rules = rules_of(&[config(percent)]);
        let candidates = [Candidate::saved(Arc::new(rules[0].clone()))];
        let expected = explained(&candidates, &sketch);
        assert_eq!(expected, Shares::from([((0, 0, "g1".into()), 100.0 * f64::from(percent) / 100.0)]));
        let request = Request::of(&sketch);
        let envoy = settled(&rules, &sketch, ENVOY_CLIENT).expect("Envoy draws once");
        let found = shares_in_envoy(&envoy, &request).into_iter().map(|(key, share)| (key, share.round()));
        assert_eq!(found.collect::<Shares>(), expected);
        let found = settled(&rules, &sketch, GRPC_CLIENT).map(|routes| shares_in_grpc(&routes, &request));
        let wanted = grpc.map(|share| Shares::from([((0, 0, "g1".into()), share)]));
        assert_eq!(found, wanted, "left out where a client draws twice");
    }
}
