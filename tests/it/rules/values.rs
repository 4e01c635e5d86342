//! Values of a field: its limits from both sides, and every field of a sample with a wrong type.

use serde_json::{Map, Value, json};

use super::edges::{Verdict, whole_numbers};
use super::fields::{as_returned, sample};
use super::suite::{BAD_METADATA, BAD_NAMESPACE, Bad, Good, INVALID, Suite, WRONG_TYPE, merged, place, with, without};

pub(super) async fn run(suite: &Suite) {
    limits_hold_from_both_sides(suite).await;
    wrong_types_are_named(suite).await;
    heads_are_judged(suite).await;
}

/// On create and on update alike; a refused update leaves the rule as it was.
async fn limits_hold_from_both_sides(suite: &Suite) {
    let mut edges = (suite.family.edges)();
    edges.extend(whole_numbers((suite.family.samples)().remove(0).0, "/priority"));
    let (mut goods, mut bads) = (Vec::new(), Vec::new());
    for edge in edges {
        let sample = sample(suite.family, edge.sample);
        let title = format!("{}, {} = {:.60}", edge.sample, edge.at, edge.value.to_string());
        let item = with(&sample, edge.at, edge.value);
        match edge.verdict {
            Verdict::Shown(value) => goods.push(Good::new(title, item, with(&as_returned(&sample), edge.at, value))),
            Verdict::Refused(code, inner) => {
                bads.push(Bad::new(title, item, code, place(&format!("{}{inner}", edge.at))));
            }
        }
    }
    suite.expect_taken(goods).await;
    let target = suite.rule("limits", json!({})).await;
    suite.expect_refused_on_update(&target, &bads).await;
    suite.expect_refused(bads).await;
}

/// Returns values that no field of the same type accepts, despite the leniency with numbers and words.
fn wrong(value: &Value) -> &'static [fn() -> Value] {
    match value {
        Value::Bool(_) => &[|| json!("true"), || json!(1), || json!({})],
        Value::Number(_) | Value::String(_) => &[|| json!(true), || json!({}), || json!([])],
        Value::Array(_) => &[|| json!("x"), || json!({}), || json!(0)],
        Value::Object(_) => &[|| json!("x"), || json!([]), || json!(true)],
        Value::Null => &[],
    }
}

/// Pointers to everything inside of a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, inner)| (format!("{at}/{key}"), inner)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, inner)| (format!("{at}/{n}"), inner)).collect(),
        _ => Vec::new(),
    };
    for (pointer, value) in inner {
        all.push(pointer.clone());
        pointers(value, &pointer, all);
    }
}

async fn wrong_types_are_named(suite: &Suite) {
    let mut bads = Vec::new();
    for (title, sample) in (suite.family.samples)() {
        let mut all = Vec::new();
        pointers(&sample, "", &mut all);
        for at in all {
            let value = sample.pointer(&at).expect("the pointer is into the sample");
            for wrong in wrong(value) {
                let wrong = wrong();
                let title = format!("{title}, {at} = {wrong}");
                bads.push(Bad::new(title, with(&sample, &at, wrong), WRONG_TYPE, place(&at)));
            }
        }
    }
    suite.expect_refused(bads).await;
}

fn entries(count: usize) -> Map<String, Value> {
    (0..count).map(|n| (format!("k{n}"), json!("v"))).collect()
}

/// The fields that rules of all families have.
async fn heads_are_judged(suite: &Suite) {
    let (_, sample) = (suite.family.samples)().remove(0);
    let at = |field: &str, value: &Value| with(&sample, &format!("/{field}"), value.clone());
    let taken = [
        ("description", json!("é".repeat(1024))),
        ("description", json!("<script>\u{2028}\r\n\u{1b}[31m")),
        ("metadata", json!(entries(64))),
        ("metadata", json!({"k".repeat(128): "v".repeat(4096)})),
        ("metadata", json!({"k": ""})),
    ];
    let goods = taken.map(|(field, value)| {
        let item = at(field, &value);
        Good::new(format!("{field} at its limit"), item.clone(), as_returned(&item))
    });
    suite.expect_taken(goods.into()).await;
    for name in ["名 with blanks, \"quotes\" & <b>".to_owned(), "n".to_owned(), "é".repeat(128)] {
        let rule = suite.create(&merged(&sample, &json!({"name": name, "namespace": suite.fresh("titles")}))).await;
        assert_eq!(suite.detail(&rule["id"]).await["name"], name);
        suite.count(1);
    }
    let refused = [
        ("name", json!("n".repeat(129)), INVALID),
        ("name", json!(""), INVALID),
        ("name", json!("two\nlines"), INVALID),
        ("name", json!("nul\u{0}"), INVALID),
        ("name", json!("\u{1b}[31mred"), INVALID),
        ("namespace", json!(""), BAD_NAMESPACE),
        ("namespace", json!("n".repeat(65)), BAD_NAMESPACE),
        ("namespace", json!("two words"), BAD_NAMESPACE),
        ("namespace", json!(" samples"), BAD_NAMESPACE),
        ("namespace", json!("ｓａｍｐｌｅｓ"), BAD_NAMESPACE),
        ("description", json!("é".repeat(1025)), INVALID),
        ("metadata", json!(entries(65)), BAD_METADATA),
        ("metadata", json!({"k".repeat(129): "v"}), BAD_METADATA),
        ("metadata", json!({"k": "v".repeat(4097)}), BAD_METADATA),
        ("metadata", json!({"": "v"}), BAD_METADATA),
        ("id", json!("i".repeat(1000)), INVALID),
        ("id", json!("two words"), INVALID),
        ("id", json!("é"), INVALID),
        ("id", json!(5), WRONG_TYPE),
    ];
    let mut bads: Vec<Bad> = Vec::new();
    for (field, value, code) in refused {
        bads.push(Bad::new(format!("{field} = {:.40}", value.to_string()), at(field, &value), code, field));
    }
    for (field, code) in [("name", INVALID), ("namespace", BAD_NAMESPACE)] {
        bads.push(Bad::new(format!("no {field}"), without(&sample, &format!("/{field}")), code, field));
    }
    suite.expect_refused(bads).await;
}
