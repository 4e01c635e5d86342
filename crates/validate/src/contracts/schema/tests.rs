use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

fn faults(schema: &Value, value: &Value) -> Vec<(String, String)> {
    let schema = Schema::compile(schema).expect("a schema");
    let fuel = Fuel::start(limits::CONTRACT_TIME, 0);
    let faults = schema.judge(value, false, &fuel);
    assert!(!fuel.is_out());
    faults.into_iter().map(|fault| (fault.path, fault.message)).collect()
}

fn refused(schema: &Value) -> String {
    Schema::compile(schema).err().unwrap_or_else(|| panic!("taken: {schema}"))
}

#[test]
fn faults_have_their_places() {
    let schema = json!({
        "type": "object",
        "required": ["timeout"],
        "properties": {
            "timeout": { "type": "integer", "maximum": 60 },
            "hosts": { "type": "array", "items": { "type": "string", "pattern": "^[a-z.]+$" }, "uniqueItems": true },
        },
        "additionalProperties": false,
    });
    assert_eq!(faults(&schema, &json!({ "timeout": 5, "hosts": ["a.b", "c"] })), []);
    let found = faults(&schema, &json!({ "timeout": 70, "hosts": ["a", "B"], "x": 1 }));
    let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/timeout", "/hosts/1", ""], "{found:?}");
    assert!(found[0].1.contains("70 is greater than the maximum of 60"), "{found:?}");
    assert!(faults(&schema, &json!({}))[0].1.contains("\"timeout\" is a required property"));
    assert_eq!(faults(&json!({ "const": null }), &json!(null)), []);
    assert_eq!(faults(&json!({ "type": "integer" }), &json!(1.0)), []);
    assert_eq!(faults(&json!(false), &json!(1)).len(), 1);
}

#[test]
fn secrets_are_not_told() {
    let schema = Schema::compile(&json!({ "properties": { "a": { "maximum": 1 } } })).expect("a schema");
    let fuel = Fuel::start(limits::CONTRACT_TIME, 0);
    let faults = schema.judge(&json!({ "a": 4711 }), true, &fuel);
    assert!(!faults[0].message.contains("4711"), "{}", faults[0].message);
}

#[test]
fn references_stay_within_the_schema() {
    let parts = json!({ "b c": { "$anchor": "x" } });
    let of = |reference: &str| json!({ "properties": { "a": { "$ref": reference } }, "$defs": parts });
    for reference in ["#", "#/$defs/b%20c", "#x"] {
        assert!(Schema::compile(&of(reference)).is_ok(), "{reference}");
    }
    for reference in ["other.json", "https://example.org/s#/a", "/etc/passwd", "file:///etc/passwd", "urn:x"] {
        let why = refused(&of(reference));
        assert!(why.starts_with("schema: /properties/a/$ref: ") && why.contains("outside"), "{why}");
    }
    for (schema, why) in [
        (of("#/none"), "/properties/a/$ref"),
        (of("#none"), "anchor"),
        (json!({ "items": { "$id": "x" } }), "/items/$id"),
        (json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), "2020-12"),
        (json!({ "type": "strange" }), "/type"),
        (json!({ "properties": { "a": { "pattern": "(" } } }), "/properties/a/pattern"),
        (json!({ "pattern": "(?=a)" }), "/pattern"),
        (json!({ "pattern": "(a{1000}){1000}" }), "/pattern"),
        (json!(7), "schema: /"),
    ] {
        let told = refused(&schema);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn schemas_that_go_round_or_branch_at_one_value_are_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$ref": "#/$defs/a", "$defs": {
            "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "$ref": "#/$defs/a" },
        } }),
        json!({ "$dynamicAnchor": "n", "anyOf": [{ "$dynamicRef": "#n" }] }),
        json!({ "items": { "$ref": "#/$defs/a" }, "$defs": { "a": { "if": { "$ref": "#/$defs/a" } } } }),
    ] {
        assert!(refused(&schema).contains("back to itself"), "{schema}");
    }
    let mut parts = serde_json::Map::new();
    for level in 0..20 {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        parts.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
    }
    parts.insert("d20".into(), json!({}));
    assert!(refused(&json!({ "$ref": "#/$defs/d0", "$defs": parts })).contains("more than 1000 parts"));
    let mut deep = json!({});
    for _ in 0..70 {
        deep = json!({ "items": deep });
    }
    assert!(refused(&deep).contains("nested"));
}

/// The faults of all branches of `anyOf` are held until none of them matches.
#[test]
fn faults_that_are_kept_are_counted() {
    let branches: Vec<_> = (0..200).map(|number| json!({ "const": number })).collect();
    let schema = Schema::compile(&json!({ "anyOf": [{ "items": { "anyOf": branches } }] })).expect("a schema");
    let fuel = Fuel::start(Duration::from_secs(60), 0);
    schema.judge(&json!(vec!["x"; 2000]), false, &fuel);
    assert!(fuel.is_out(), "it ends by its faults, not by its time");
}

/// The work doubles with each level of the value.
#[test]
fn work_without_end_comes_to_its_end() {
    let again = json!({ "$ref": "#" });
    let hostile = [
        json!({ "items": { "allOf": [again, { "not": { "not": again } }] }, "maxItems": 1 }),
        json!({ "anyOf": [{ "items": again, "minItems": 2 }, { "items": again, "minItems": 3 }, { "items": again }] }),
        json!({ "oneOf": [{ "items": again }, { "items": again, "maxItems": 0 }, { "items": again }] }),
        json!({ "unevaluatedItems": false, "allOf": [
            { "items": again }, { "items": again, "unevaluatedItems": again },
        ] }),
    ];
    let mut value = json!([]);
    for _ in 0..60 {
        value = json!([value]);
    }
    for schema in hostile {
        let compiled = Schema::compile(&schema).expect("it is a schema");
        let (fuel, begun) = (Fuel::start(Duration::from_millis(20), 0), Instant::now());
        compiled.judge(&value, false, &fuel);
        assert!(begun.elapsed() < Duration::from_secs(60), "{schema}: {:?}", begun.elapsed());
    }
}
