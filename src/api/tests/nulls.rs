//! A null member counts as absent, at every depth, on every route with a body.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::fuzzing::Desk;

/// Returns bodies by the letter of their route: those that fill the catalog, and for each of the four families one with
/// every field of a rule.
fn bodies() -> Vec<(String, Value)> {
    let head =
        json!({"name": "new", "namespace": "n", "priority": 3, "description": "d", "metadata": {"a": "b", "c": "d"}});
    let matching = json!({"type": "REGEX", "value": "a.*", "value_type": "TEXT"});
    let api = json!({"protocol": "http", "method": "GET", "path": matching});
    let argument = json!({"type": "HEADER", "key": "k", "value": matching});
    let families = [
        json!({"target_service": {"namespace": "n", "service": "s", "api": api}, "rules": [
            {"interval": 5, "timeout": 2, "port": 80, "protocol": "HTTP", "http_config": {
                "method": "GET", "url": "/", "headers": [{"key": "k", "value": "v"}], "body": "b"}, "disable": false},
            {"protocol": "TCP", "tcp_config": {"send": "0x11", "receive": ["0x12"]}}]}),
        json!({"type": "GLOBAL", "service": "s", "report": {"interval": "1s", "amountPercent": 5},
            "cluster": {"service": "c", "namespace": "n"}, "callee": {"service": "s", "namespace": "n"}, "rules": [
            {"name": "one", "apis": [api], "resource": "QPS", "arguments": [argument], "amounts": [
                {"maxAmount": 9, "validDuration": "2s", "precision": 1, "startAmount": 2, "minAmount": 1}],
             "max_queue_delay": 1, "concurrency_amount": {"max_amount": 4}, "regex_combine": true, "action": "REJECT",
             "custom_response": {"code": "429", "headers": {"a": "b"}, "body": "no"},
               "amount_mode": "SHARE_EQUALLY"}]}),
        json!({"enable": true, "route_policy": "RulePolicy", "routing_config": {
            "caller": {"service": "t", "namespace": "n"}, "callee": {"service": "s", "namespace": "n"}, "rules": [
            {"name": "one", "arguments": {"arguments": [argument], "random_percent": 50, "matchMode": "OR"},
             "destinations": [{"service": "s", "namespace": "n", "labels": {"l": matching}, "priority": 1, "weight": 7,
                               "transfer": "", "isolate": false, "name": "x"}]}]}}),
        json!({"level": "METHOD", "ruleMatcher": {"source": {"service": "*", "namespace": "*"},
            "destination": {"service": "s", "namespace": "n"}}, "block_configs": [{"name": "b", "api": api,
            "error_conditions": [{"input_type": "RET_CODE", "condition": matching}], "trigger_conditions": [
            {"trigger_type": "CONSECUTIVE_ERROR", "error_count": 5, "error_percent": 50, "interval": 60,
              "minimum_request": 9}]}],
            "recoverCondition": {"sleep_window": 60, "consecutiveSuccess": 3}, "faultDetectConfig": {"enable": true},
            "fallbackConfig": {"enable": true, "response": {"code": 503, "headers": [{"key": "k", "value": "v"}],
              "body": "b"}}}),
    ];
    let mut bodies: Vec<_> = Desk::preparation()
        .iter()
        .map(|request| {
            let body = request.find(['[', '{']).expect("a body");
            (request[..body].to_owned(), serde_json::from_str(&request[body..]).expect("JSON"))
        })
        .collect();
    for (number, family) in families.into_iter().enumerate() {
        let mut rule = head.clone();
        rule.as_object_mut().expect("an object").extend(family.as_object().expect("an object").clone());
        bodies.push((format!("{number}c"), json!([rule])));
        rule["name"] = json!("r");
        bodies.push((format!("{number}u"), json!([rule])));
        let sketch =
            json!({"namespace": "n", "service": "s", "method": "GET", "path": "/", "client_labels": {"zone": "a"}});
        bodies.push((format!("{number}e"), sketch));
    }
    bodies.push(("g".into(), json!({"releases_kept": 5, "audit_kept_days": 3})));
    let caller = json!({"labels": {"zone": "a"}, "namespace": "n", "service": "t"});
    let question = json!({"type": "RATE_LIMIT", "service": {"namespace": "n", "name": "s", "revision": "x"},
        "timeout_ms": 0, "filter": {"caller": caller, "only_healthy_instance": true}});
    bodies.push(("n".into(), question));
    bodies
}

/// Collects the JSON pointers of all objects in a value.
fn objects(value: &Value, at: &mut Vec<String>, found: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            found.push(at.concat());
            members.iter().map(|(key, member)| (format!("/{key}"), member)).collect()
        }
        Value::Array(elements) => {
            elements.iter().enumerate().map(|(number, element)| (format!("/{number}"), element)).collect()
        }
        _ => Vec::new(),
    };
    for (step, member) in members {
        at.push(step);
        objects(member, at, found);
        at.pop();
    }
}

/// Returns the body twice: with these members null, and without them.
fn nulled(
    body: &Value,
    names: &[String],
    choices: &[(prop::sample::Index, prop::sample::Index, bool)],
) -> (Value, Value) {
    let (mut with_nulls, mut without) = (body.clone(), body.clone());
    for (which_object, which_member, is_own) in choices {
        let mut found = Vec::new();
        objects(&without, &mut Vec::new(), &mut found);
        let path = which_object.get(&found);
        let own: Vec<String> =
            without.pointer(path).and_then(Value::as_object).expect("an object").keys().cloned().collect();
        // One of the members of this object, or one that it does not have.
        let name = if *is_own && !own.is_empty() { which_member.get(&own) } else { which_member.get(names) };
        let members = |value: &mut Value, work: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            work(value.pointer_mut(path).and_then(Value::as_object_mut).expect("an object"));
        };
        members(&mut without, &|members| drop(members.remove(name)));
        members(&mut with_nulls, &|members| drop(members.insert(name.clone(), Value::Null)));
    }
    (with_nulls, without)
}

/// Removes positions in the text, which differ in a text with nulls, and generated secrets.
fn placeless(answer: Value) -> Value {
    match answer {
        Value::String(text) => text.split(" at line ").next().unwrap_or_default().into(),
        Value::Array(elements) => elements.into_iter().map(placeless).collect(),
        Value::Object(members) => {
            // The id of a token is derived from its secret.
            let is_drawn = members.contains_key("secret");
            let members = members.into_iter().filter(|(key, _)| !is_drawn || !["secret", "id"].contains(&key.as_str()));
            members.map(|(key, member)| (key, placeless(member))).collect()
        }
        other => other,
    }
}

#[test]
fn the_bodies_are_accepted_as_they_are() {
    for (route, body) in bodies().into_iter().skip(Desk::preparation().len()) {
        let answer = Desk::prepared().answer(format!("{route}{body}").as_bytes());
        assert_eq!(answer["code"], 200_000, "{route} {body}: {answer}");
    }
}

proptest! {
    #![proptest_config(crate::test_seed::cases(400))]

    #[test]
    fn null_is_absent_wherever_it_stands(
        which in any::<prop::sample::Index>(),
        choices in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index, bool)>(), 1..6),
    ) {
        let bodies = bodies();
        let mut names: Vec<String> = vec!["nobody reads this".into()];
        for (_, body) in &bodies {
            let mut found = Vec::new();
            objects(body, &mut Vec::new(), &mut found);
            let objects = found.iter().filter_map(|path| body.pointer(path)?.as_object());
            let keys = objects.flat_map(|members| members.keys());
            names.extend(keys.cloned());
        }
        names.sort();
        names.dedup();
        let (route, body) = which.get(&bodies);
        let (with_nulls, without) = nulled(body, &names, &choices);
        let desk = Desk::prepared();
        let answer = |body: &Value| desk.answer(format!("{route}{body}").as_bytes());
        prop_assert_eq!(placeless(answer(&with_nulls)), placeless(answer(&without)), "{} {}", route, with_nulls);
    }
}

/// `{}` unsets an optional object, `null` leaves it unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_object_unsets_and_null_does_not() {
    let bench = super::Bench::start().await;
    let token = bench.log_in().await;
    let service = json!({ "namespace": "n", "service": "s" });
    let rows = [
        ("ratelimits", "report", json!({ "interval": "3s", "amountPercent": 5 }), ""),
        ("ratelimits", "cluster", service.clone(), ""),
        ("ratelimits", "callee", service.clone(), ""),
        ("faultdetectors", "target_service", service.clone(), ""),
        ("routings", "caller", service.clone(), "routing_config"),
        ("routings", "callee", service.clone(), "routing_config"),
    ];
    for (number, (kind, field, value, within)) in rows.into_iter().enumerate() {
        let path = format!("/naming/v1/{kind}");
        let name = format!("r{number}");
        let rule = |value: &Value| {
            let member = json!({ field: value });
            let mut rule = if within.is_empty() { member } else { json!({ within: member }) };
            rule["name"] = json!(name);
            rule["namespace"] = json!("n");
            json!([rule])
        };
        let member = |rule: &Value| if within.is_empty() { rule[field].clone() } else { rule[within][field].clone() };
        let in_answer = |answer: &Value| {
            let item = answer["responses"][0].as_object().expect("an item");
            member(item.values().find(|member| member.is_object()).unwrap_or_else(|| panic!("{answer}")))
        };
        let (_, made) = bench.send("POST", &path, Some(&token), rule(&value)).await;
        assert_eq!(in_answer(&made), value, "{made}");
        // The configuration of a route is replaced as a whole.
        if within.is_empty() {
            let (_, kept) = bench.send("PUT", &path, Some(&token), rule(&Value::Null)).await;
            assert_eq!((&kept["code"], in_answer(&kept)), (&json!(200_002), value.clone()), "{kept}");
        }
        let (_, unset) = bench.send("PUT", &path, Some(&token), rule(&json!({}))).await;
        assert_eq!((&unset["code"], in_answer(&unset)), (&json!(200_000), Value::Null), "{unset}");
        let (_, again) = bench.send("PUT", &path, Some(&token), rule(&json!({}))).await;
        assert_eq!(again["code"], 200_002, "{again}");
        let query = format!("{path}/detail?name={name}&namespace=n");
        let (_, listed) = bench.send("GET", &query, Some(&token), Value::Null).await;
        assert_eq!(member(&listed["data"][0]), Value::Null, "{listed}");
        assert!(!listed.to_string().contains("\"0s\""), "{listed}");
    }
    // An argument with an empty value differs from an argument without a value.
    for given in [None, Some(json!({})), Some(json!({ "type": "IN", "value": "a", "value_type": "TEXT" }))] {
        let mut argument = json!({ "type": "HEADER", "key": "k" });
        if let Some(given) = &given {
            argument["value"] = given.clone();
        }
        let rule = json!([{ "name": "arguments", "namespace": "n", "rules": [{ "arguments": [argument] }] }]);
        bench.send("POST", "/naming/v1/ratelimits", Some(&token), rule.clone()).await;
        bench.send("PUT", "/naming/v1/ratelimits", Some(&token), rule).await;
        let query = "/naming/v1/ratelimits/detail?name=arguments&namespace=n";
        let (_, listed) = bench.send("GET", query, Some(&token), Value::Null).await;
        let written = listed["data"][0]["rules"][0]["arguments"][0].get("value");
        let expected = given.map(|given| match given.as_object().is_some_and(serde_json::Map::is_empty) {
            true => json!({ "type": "EXACT", "value": "", "value_type": "TEXT" }),
            false => given,
        });
        assert_eq!(written, expected.as_ref(), "{listed}");
    }
    bench.stop().await;
}
