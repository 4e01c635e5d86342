//! A value is unchanged after a round trip through a form.

use askama::Template;
use serde_json::{Value, json};
use thuban_documents::{read_rule, written};

use super::edit::edited;
use super::read::Sent;
use super::show::FormRenderer;
use super::*;
use crate::console::drafting::{blank, kind_of};
use crate::console::fields::Fields;
use crate::console::texts::Language;
use crate::model::rule::Family;
use crate::model::stamp::Stamp;

/// Returns the form data that a browser sends: the values of the controls, in order.
pub(in crate::console) fn sent(page: &str) -> Fields {
    let unescaped = |text: &str| {
        let named = [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")];
        named.into_iter().fold(text.to_owned(), |text, (name, sign)| text.replace(name, sign))
    };
    let attribute = |tag: &str, name: &str| {
        let rest = tag.split_once(&format!(" {name}=\""))?.1;
        rest.split_once('"').map(|(value, _)| unescaped(value))
    };
    let mut pairs = url::form_urlencoded::Serializer::new(String::new());
    for part in page.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        let name = attribute(tag, "name").unwrap_or_default();
        if tag.starts_with("input ") && (!tag.contains("checkbox") || tag.contains(" checked")) {
            pairs.append_pair(&name, &attribute(tag, "value").unwrap_or_default());
        } else if tag.starts_with("textarea ") {
            pairs.append_pair(&name, &unescaped(text.strip_prefix('\n').unwrap_or(text)).replace('\n', "\r\n"));
        } else if tag.starts_with("select ") {
            let options = page.split_once(part).expect("it is of the page").1.split("</select>").next();
            let chosen = options.into_iter().flat_map(|options| options.split("<option").skip(1));
            let chosen = chosen
                .clone()
                .find(|option| option.starts_with(" ") && option.contains(" selected"))
                .or(page.split_once(part).and_then(|(_, rest)| rest.split("<option").nth(1)));
            let chosen = chosen.unwrap_or_default();
            let text = chosen.split_once('>').map_or("", |(_, text)| text.split('<').next().unwrap_or_default());
            pairs.append_pair(&name, &attribute(chosen, "value").unwrap_or_else(|| unescaped(text)));
        }
    }
    Fields::parse(pairs.finish().as_bytes())
}

fn drawn(kind: &FieldKind, value: &Value, fault: Option<&str>) -> String {
    let controls = FormRenderer::plain(Language::English.texts(), fault).controls(kind, value);
    controls.iter().map(|control| control.render().expect("it can be made")).collect()
}

/// Removes nulls and empty values, which are equivalent to absent ones.
pub(in crate::console) fn without_null(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().filter(|(_, one)| !one.is_null()).map(|(key, one)| (key, without_null(one))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_null).collect(),
        value => value,
    }
}

pub(in crate::console) fn rules() -> Vec<(Family, Value)> {
    let condition = json!({ "type": "REGEX", "value": "^<a>&\"b\"$", "value_type": "TEXT" });
    let limit = json!({
        "namespace": "shop", "name": "pay-limit", "enable": false, "priority": 3, "description": "one\ntwo",
        "type": "GLOBAL", "metadata": { "a/b": "1", "c~d": "", "": "x" }, "service": "pay",
        "callee": { "namespace": "shop", "service": "pay" },
        "report": { "interval": "1s", "amountPercent": 40 },
        "rules": [
            { "name": "charge", "apis": [{ "protocol": "", "method": "POST", "path": condition }], "resource": "QPS",
              "arguments": [{ "type": "HEADER", "key": "x", "value": condition }, { "type": "QUERY", "key": "y" }],
              "amounts": [{ "maxAmount": 100, "validDuration": "1s" },
                { "maxAmount": 1, "validDuration": "60s", "precision": 3 }],
              "max_queue_delay": 2, "regex_combine": true, "failover": "FAILOVER_PASS", "action": "REJECT",
              "disable": true, "amount_mode": "SHARE_EQUALLY",
              "custom_response": { "code": "429", "headers": { "retry-after": "1" }, "body": "" } },
            { "name": "", "apis": [], "resource": "CONCURRENCY", "arguments": [], "amounts": [], "max_queue_delay": 0,
              "regex_combine": false, "failover": "FAILOVER_LOCAL", "action": "", "disable": false,
              "amount_mode": "GLOBAL_TOTAL", "concurrency_amount": { "maxAmount": 5 } },
        ],
    });
    let route = json!({
        "namespace": "shop", "name": "r", "enable": true, "priority": 0, "route_policy": "RulePolicy",
        "routing_config": { "rules": [{ "name": "one",
            "arguments": { "arguments": [], "random_percent": 30, "matchMode": "OR" },
            "destinations": [{ "service": "pay", "namespace": "shop", "labels": { "version": condition }, "priority": 0,
                               "weight": 90, "transfer": "", "isolate": false, "name": "main" }] }] },
    });
    let nearby = json!({
        "namespace": "shop", "name": "n", "route_policy": "NearbyPolicy",
        "routing_config": { "service": "*", "namespace": "*", "match_level": "ZONE", "strict_nearby": false },
    });
    vec![(Family::RateLimit, limit), (Family::Routing, route), (Family::Routing, nearby)]
}

#[test]
fn a_rule_comes_out_of_its_form_as_it_went_in() {
    let blanks = Family::ALL.iter().map(|family| {
        let mut blank = blank(*family);
        // An empty optional field is equivalent to an absent one.
        blank.as_object_mut().expect("an object").retain(|_, value| *value != "");
        (*family, blank)
    });
    for (family, given) in rules().into_iter().chain(blanks) {
        let kind = kind_of(family);
        let told = |value: Value| {
            let draft = read_rule(family, &without_null(value).to_string()).expect("a rule");
            draft.rule("id".into(), "revision".into(), Stamp::default()).expect("its fields agree")
        };
        let rule = told(given);
        let page = drawn(kind, &kind.opened(written(Some(&rule))), None);
        let back = kind.closed(Sent::of(&sent(&page)).value(kind)).expect("a value");
        assert_eq!(told(back), rule, "{}", family.kind());
    }
}

#[test]
fn buttons_change_what_is_in_the_form() {
    let kind = kind_of(Family::RateLimit);
    let mut value = kind.opened(blank(Family::RateLimit));
    for asked in [
        "add:/rules",
        "add:/rules/1/arguments",
        "add:/rules/1/arguments/0/value",
        "add:/report",
        "add:/metadata",
        "add:/metadata",
    ] {
        value = edited(kind, value, asked);
    }
    assert_eq!(value["rules"][1]["arguments"][0]["value"]["type"], "EXACT");
    assert!(value["report"].is_object());
    assert!(kind.closed(value.clone()).is_err(), "two entries without a name");
    value["rules"][1]["name"] = "second".into();
    for asked in ["remove:/metadata/1", "up:/rules/1", "remove:/rules/0/arguments/0/value", "remove:/report"] {
        value = edited(kind, value, asked);
    }
    assert_eq!(value["rules"][0]["name"], "second");
    assert!(value["rules"][0]["arguments"][0].get("value").is_none() && value.get("report").is_none());
    assert_eq!(kind.closed(value.clone()).expect("a value")["metadata"], json!({ "": "" }));
    for nothing in [
        "",
        "add",
        "add:",
        "add:/none",
        "add:/rules/9/apis",
        "remove:/rules/9",
        "up:/rules/0",
        "up:/rules/x",
        "x:/rules",
    ] {
        assert_eq!(edited(kind, value.clone(), nothing), value, "{nothing}");
    }
}

#[test]
fn a_fault_stands_beside_its_field_and_nowhere_else() {
    let kind = kind_of(Family::RateLimit);
    let value = kind.opened(rules().remove(0).1);
    let of = |fault: &str| {
        let page = drawn(kind, &value, Some(fault));
        assert_eq!(page.matches("class=\"fault\"").count(), 1, "{fault}");
        let before = page.split("class=\"fault\" id=\"").nth(1).expect("it is there");
        before.split("-fault\"").next().expect("a place").to_owned()
    };
    assert_eq!(of("rules[0].arguments[1].key has to be there (400001)"), "/rules/0/arguments/1/key");
    assert_eq!(of("rules[1].unknown: no such field"), "/rules/1");
    assert_eq!(of("report.interval has to be longer"), "/report/interval");
    assert_eq!(drawn(kind, &value, Some("the revision is another")).matches("class=\"fault\"").count(), 0);
}
