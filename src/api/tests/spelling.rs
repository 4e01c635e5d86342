//! Every described field of every body, in both spellings, and unknown fields.

use std::collections::BTreeSet;

use super::*;
use crate::openapi::Document;

/// Name of a field that no body has.
const STRANGE: &str = "zz_strange";

fn snake(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| text + &word[..1].to_ascii_uppercase() + &word[1..])
}

/// Generates valid values from the schemas of a document.
struct Sampler<'a> {
    document: &'a Value,
    spell: fn(&str) -> String,
    /// Generated fields, by their declared names.
    written: BTreeSet<String>,
    /// Objects with declared fields, each of which gets a field that it does not have.
    levels: usize,
}

impl Sampler<'_> {
    fn resolve<'b>(&'b self, schema: &'b Value) -> &'b Value {
        match schema["$ref"].as_str() {
            Some(path) => self.resolve(self.document.pointer(&path[1..]).expect("a schema of the document")),
            None => schema,
        }
    }

    /// Returns a value; `None` without a schema, or deep inside of a recursive one.
    fn sample(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let schema = self.resolve(schema).clone();
        if let Some(parts) = schema["allOf"].as_array() {
            let parts = parts.iter().filter_map(|part| self.sample(part, depth));
            return Some(parts.fold(json!({}), |whole, part| upstream::with(&whole, &part)));
        }
        if let Some(variants) = ["anyOf", "oneOf"].iter().find_map(|key| schema[*key].as_array()) {
            return variants.iter().find(|variant| variant["type"] != "null").and_then(|one| self.sample(one, depth));
        }
        let default = schema.get("default").filter(|value| !value.is_object() && !value.is_array());
        if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)).or(default) {
            return Some(value.clone());
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null")?.as_str()?.to_owned(),
            kind => kind.as_str()?.to_owned(),
        };
        Some(match kind.as_str() {
            "object" => self.object(&schema, depth.checked_sub(1)?),
            "array" => Value::from(Vec::from_iter(self.sample(&schema["items"], depth.checked_sub(1)?))),
            "string" if schema["pattern"].is_string() => json!("1s"),
            "string" => json!("x"),
            "boolean" => json!(true),
            _ => schema.get("minimum").cloned().unwrap_or(json!(1)),
        })
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut object = serde_json::Map::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let value = match snake(name).as_str() {
                "publish_at" => Some(json!("2026-11-20T08:30:35Z")),
                _ => self.sample(field, depth),
            };
            if let Some(value) = value {
                self.written.insert(name.clone());
                object.insert((self.spell)(name), value);
            }
        }
        if schema["properties"].is_object() {
            self.levels += 1;
            object.insert(STRANGE.to_owned(), json!(1));
        }
        object.into()
    }
}

/// No request succeeds: each object of each body has an unknown field, and only these fields are reported.
#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_every_body_is_read_in_both_spellings_and_no_other_one() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let address: SocketAddr = ([127, 0, 0, 1], 1).into();
    let mut document = Document::new("http", address, address);
    describe(&mut document);
    let document: Value = serde_json::from_slice(&document.into_bytes()).expect("JSON");
    let (mut written, mut levels) = (BTreeSet::new(), 0);
    let mut missed = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let Some(schema) = schema["anyOf"].get(1).or(Some(schema)).filter(|schema| schema.is_object()) else {
                continue;
            };
            for spell in [snake, camel] {
                let mut sampler = Sampler { document: &document, spell, written: BTreeSet::new(), levels: 0 };
                let Some(mut body) = sampler.sample(schema, 12).filter(Value::is_object) else {
                    missed.push(format!("{method} {path}: no sample of {schema}"));
                    continue;
                };
                // A body without fields, too.
                body[STRANGE] = json!(1);
                written.append(&mut sampler.written);
                levels += sampler.levels;
                let query = format!("{path}?unknown=refuse");
                let (_, answer) = bench.send(&method.to_ascii_uppercase(), &query, Some(&token), body.clone()).await;
                let text = answer.to_string();
                let told = text.matches(" is not known").count() + text.matches(" is not a setting").count();
                let strange = body.to_string().matches(STRANGE).count();
                if strange == 0 || told != strange || text.matches(STRANGE).count() != strange {
                    missed.push(format!("{method} {path} {body}\n    {text}"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    assert!(levels > 400, "{levels} objects");
    for name in ["expires_in_s", "overlap_s", "allow_private", "new_password", "to_namespace", "releases_kept"] {
        assert!(written.contains(name), "{name} is not among {written:?}");
    }
    bench.stop().await;
}

/// A body with one object is processed, with a warning in the answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_strange_field_of_an_object_is_a_warning_of_its_answer() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let warning = json!(["zz_strange is not known"]);
    for (path, body) in [
        ("/admin/v1/cluster/snapshot", json!({})),
        ("/v1/Discover", json!({"type": "SERVICES", "service": {"namespace": "default"}})),
        ("/auth/v1/user/login", json!({"name": "admin", "password": PASSWORD})),
        ("/naming/v1/services", json!({"namespace": "default", "name": "s"})),
        ("/v1/RegisterInstance", json!({"namespace": "default", "service": "s", "host": "10.0.0.1", "port": 1})),
        ("/config/v1/configfiles", json!({"namespace": "default", "group": "g", "name": "a.txt", "content": "1"})),
    ] {
        let mut body = body;
        body[STRANGE] = json!(1);
        let (status, answer) = bench.send("POST", path, Some(&token), body).await;
        let seen = answer["responses"].get(0).unwrap_or(&answer);
        assert_eq!((status, &seen["warnings"]), (StatusCode::OK, &warning), "{path} {answer}");
    }
    bench.stop().await;
}

/// An edited answer includes fields that only answers have.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_can_be_sent_back() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let rows = [
        ("/naming/v1/namespaces", json!({"name": "n"}), "/naming/v1/namespaces?name=n", "/namespaces/0"),
        ("/naming/v1/services", json!({"namespace": "n", "name": "s"}), "/naming/v1/services?name=s", "/services/0"),
        (
            "/naming/v1/instances",
            json!({"namespace": "n", "service": "s", "host": "10.0.0.1", "port": 80}),
            "/naming/v1/instances?namespace=n&service=s",
            "/instances/0",
        ),
        (
            "/naming/v1/service/alias",
            json!({"namespace": "n", "service": "s", "alias": "a", "alias_namespace": "n"}),
            "/naming/v1/service/aliases",
            "/aliases/0",
        ),
        (
            "/config/v1/configfilegroups",
            json!({"namespace": "n", "name": "g"}),
            "/config/v1/configfilegroups?namespace=n",
            "/configFileGroups/0",
        ),
        (
            "/config/v1/configfiles",
            json!({"namespace": "n", "group": "g", "name": "a.txt", "content": "1"}),
            "/config/v1/configfiles?namespace=n&group=g&name=a.txt",
            "/configFile",
        ),
        (
            "/config/v1/configfiletemplates",
            json!({"name": "t", "content": "1", "format": "text"}),
            "/config/v1/configfiletemplates",
            "/configFileTemplates/0",
        ),
    ];
    for (path, body, list, pointer) in rows {
        let (_, made) = bench.send("POST", path, Some(&token), json!([body])).await;
        assert_eq!(made["code"], 200_000, "{path} {made}");
        let (_, read) = bench.send("GET", list, Some(&token), Value::Null).await;
        let row = read.pointer(pointer).unwrap_or_else(|| panic!("{pointer} of {read}"));
        let (status, answer) = bench.send("PUT", &format!("{path}?unknown=refuse"), Some(&token), json!([row])).await;
        assert_eq!(status, StatusCode::OK, "{row}: {answer}");
    }
    bench.stop().await;
}
