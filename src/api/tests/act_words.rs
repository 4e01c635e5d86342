//! Fields without meaning for an act: each is refused by name, in both spellings, on every route of an act.

use std::collections::BTreeMap;

use schemars::{SchemaGenerator, generate::SchemaSettings};

use super::*;
use crate::model::act_words::SentFor;
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;

/// Fields that name an object or a release, and fields that only answers have.
const NAMES: [&str; 10] =
    ["namespace", "group", "file_name", "name", "release_name", "rule_id", "rule_name", "resource", "version", "id"];

/// Returns the purpose of the drafts of a route; `None` for a route that is no act.
fn sent_for(method: &str, path: &str) -> Option<SentFor> {
    let of_rules = |rest: &str| Family::ALL.iter().any(|family| path == format!("/naming/v1/{}{rest}", family.kind()));
    let is_of_files = path.starts_with("/config/v1/configfiles");
    let ops = [
        ("/releases/rollback", ReleaseOp::Rollback),
        ("/releases/stopbeta", ReleaseOp::StopGray),
        ("/releases/promote", ReleaseOp::Promote),
        ("/releases/withdraw", ReleaseOp::Withdraw),
        ("/releases/rollout", ReleaseOp::Rollout),
        ("/releases/signal", ReleaseOp::Signal),
        ("/releases/delete", ReleaseOp::Delete),
    ];
    if method == "GET" || method == "DELETE" {
        return None;
    }
    if let Some((_, op)) = ops.into_iter().find(|(rest, _)| path.ends_with(rest)) {
        return Some(SentFor::Change(op));
    }
    match path {
        "/config/v1/configfiles/release" => Some(SentFor::Publication),
        "/config/v1/configfiles" => Some(SentFor::Save),
        "/config/v1/configfiles/delete" | "/config/v1/configfiles/batchdelete" => Some(SentFor::Deletion),
        _ if is_of_files => None,
        _ if of_rules("/releases") => Some(SentFor::Publication),
        _ if of_rules("/delete") => Some(SentFor::Deletion),
        _ if of_rules("") => Some(SentFor::Save),
        _ => None,
    }
}

/// Returns the described fields of an item; for a rule those that all families have.
fn described(route: &super::super::routes::Route) -> Vec<String> {
    let mut schemas: SchemaGenerator = SchemaSettings::draft2020_12().into_generator();
    let operation = route.doc.operation(&route.method, &route.path, route.terms, route.inputs, &mut schemas);
    let body = operation.body.expect("an act has a body");
    let item = &body["anyOf"][1];
    let item = if item["allOf"].is_array() { &item["allOf"][0] } else { item };
    let name = item["$ref"].as_str().and_then(|path| path.rsplit('/').next()).expect("a reference");
    let properties = schemas.definitions()[name]["properties"].as_object().expect("fields");
    properties.keys().cloned().collect()
}

/// Returns a field in both spellings.
fn spellings(field: &str) -> Vec<String> {
    let mut snake = String::new();
    let mut camel = String::new();
    for char in field.chars() {
        if char.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
        if camel.ends_with('_') {
            camel.pop();
            camel.push(char.to_ascii_uppercase());
        } else {
            camel.push(char);
        }
    }
    let mut all = vec![field.to_owned(), snake, camel];
    all.dedup();
    all
}

fn sample(field: &str) -> Value {
    match field {
        "betaLabels" | "client_labels" => json!([{ "key": "zone", "value": { "type": "EXACT", "value": "a" } }]),
        "client_percent" => json!({ "by": "CLIENT_IP", "percent": 5 }),
        "plan" => json!({ "by": "CLIENT_IP", "steps": [{ "percent": 5, "hold_s": 60 }, { "percent": 100 }] }),
        "publish_at" => json!("2099-01-01T00:00:00Z"),
        "to_previous" | "ok" | "hold" | "encrypted" | "enable" | "disable" => json!(true),
        "action" => json!("pause"),
        "priority" => json!(3),
        "metadata" => json!({ "k": "v" }),
        "tags" => json!([{ "key": "k", "value": "v" }]),
        "release_type" => json!("gray"),
        "encryptAlgo" => json!("XChaCha20-Poly1305"),
        "format" => json!("text"),
        _ => json!("a word of nothing"),
    }
}

#[tokio::test]
async fn each_field_of_an_act_says_something_of_it_or_is_refused() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for route in routes() {
        let Some(sent_for) = sent_for(route.method.as_str(), &route.path) else { continue };
        let named = match route.path.starts_with("/config") {
            true => json!({ "namespace": "n", "group": "g", "name": "f", "file_name": "f" }),
            false => json!({ "namespace": "n", "name": "r", "rule_name": "r", "release_name": "one" }),
        };
        for field in described(&route).iter().filter(|field| !NAMES.contains(&field.as_str())) {
            for spelling in spellings(field) {
                let mut item = named.clone();
                let is_file = route.path.ends_with("delete") && !route.path.contains("/releases");
                if route.path.ends_with("configfiles") || is_file {
                    item.as_object_mut().expect("an object").remove("file_name");
                }
                item[&spelling] = sample(field);
                let path = format!("{}?unknown=refuse", route.path);
                let (_, answer) = bench.send(route.method.as_str(), &path, Some(&token), json!([item])).await;
                let answered = &answer["responses"][0];
                let info = answered["info"].as_str().unwrap_or_default();
                let told = format!("{} {} {spelling}: {answer}", route.method, route.path);
                let says_nothing = info.contains("says nothing of");
                if sent_for.takes(field) {
                    assert!(!says_nothing || field == "release_type", "{told}");
                    continue;
                }
                // In a spelling that the parser does not know it is an unknown field.
                let is_unread = answered["code"] == 400001 && info.contains("is not known");
                let is_refused = answered["code"] == 400103 && says_nothing && info.contains(field.as_str());
                assert!(is_refused || is_unread, "{told}");
                *refused.entry(field.clone()).or_default() += 1;
            }
        }
    }
    for field in ["publish_at", "betaLabels", "client_percent", "plan", "new_release_name", "emergency", "md5"] {
        assert!(refused.contains_key(field), "{field}: {refused:?}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn what_is_narrowed_is_not_published_for_all() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let send = async |method: &str, path: &str, body: Value| {
        bench.send(method, path, Some(&token), json!([body])).await.1["responses"][0].clone()
    };
    let file = json!({ "namespace": "n", "group": "g", "file_name": "f", "content": "v" });
    assert_eq!(send("POST", "/config/v1/configfiles/createandpub", file.clone()).await["code"], 200000);
    let limit = json!({ "name": "r", "namespace": "n", "service": "s" });
    assert_eq!(send("POST", "/naming/v1/ratelimits", limit).await["code"], 200000);
    let rule = json!({ "rule_name": "r", "namespace": "n" });
    let acts = [
        ("/config/v1/configfiles/createandpub", &file),
        ("/config/v1/configfiles/release", &file),
        ("/naming/v1/ratelimits/releases", &rule),
    ];
    for (path, named) in acts {
        let labels = if path.starts_with("/config") { "betaLabels" } else { "client_labels" };
        for field in [labels, "client_percent", "plan"] {
            for given in [None, Some("normal"), Some("")] {
                for spelling in spellings(field) {
                    let mut body = named.clone();
                    body.as_object_mut().expect("an object").remove("content");
                    body[&spelling] = sample(field);
                    if let Some(given) = given {
                        body["release_type"] = json!(given);
                    }
                    let answer = send("POST", path, body).await;
                    let info = answer["info"].as_str().unwrap_or_default();
                    assert!(answer["code"] == 400103 && info.contains(field), "{path} {spelling} {given:?}: {answer}");
                }
            }
        }
    }
    // The act does not change the type of the release.
    for (op, word) in [("promote", "gray"), ("rollback", "gray"), ("stopbeta", "normal")] {
        let named = json!({ "rule_name": "r", "namespace": "n", "release_name": "one", "release_type": word });
        let answer = send("PUT", &format!("/naming/v1/ratelimits/releases/{op}"), named).await;
        assert_eq!(answer["code"], 400103, "{op} {answer}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_deletion_by_query_has_the_words_of_one_by_body() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let send = async |method: &str, path: &str, body: Value| bench.send(method, path, Some(&token), body).await.1;
    let file = json!({ "namespace": "n", "group": "g", "file_name": "f", "content": "v" });
    assert_eq!(send("POST", "/config/v1/configfiles/createandpub", file).await["code"], 200000);
    let policy = json!({ "name": "p", "namespace": "n", "approvals": 1 });
    assert_eq!(send("POST", "/admin/v1/policies", policy).await["code"], 200000);
    let path = |words: &str| format!("/config/v1/configfiles?namespace=n&group=g&name=f{words}");
    assert_eq!(send("DELETE", &path(""), Value::Null).await["code"], 409001);
    assert_eq!(send("DELETE", &path(""), json!({ "request": "please" })).await["code"], 400103);
    assert_eq!(send("DELETE", &path("&emergency=short"), Value::Null).await["code"], 400103);
    assert_eq!(send("DELETE", &path("&hold=true"), Value::Null).await["code"], 400103, "hold needs request");
    let asked = send("DELETE", &path("&request=please&hold=true"), Value::Null).await;
    assert_eq!(asked["code"], 202000, "{asked}");
    assert_eq!(send("DELETE", &path("&emergency=the+house+is+on+fire"), Value::Null).await["code"], 200000);

    // The same options in a body are checked like those of any act.
    let body = |word: &str, text: String| json!([{ "namespace": "n", "group": "g", "name": "f", word: text }]);
    for (word, text) in [("emergency", "x".to_owned()), ("request", "c".repeat(1025))] {
        let answer = send("POST", "/config/v1/configfiles/delete", body(word, text)).await;
        assert_eq!(answer["code"], 400103, "{answer}");
    }
    let both =
        json!([{ "namespace": "n", "group": "g", "name": "f", "request": "why", "emergency": "because I say so" }]);
    assert_eq!(send("POST", "/config/v1/configfiles/delete", both).await["code"], 400103);
    let set = json!([{ "namespace": "n", "group": "g", "name": "f", "request": "why", "request_set": "s".repeat(65) }]);
    assert_eq!(send("POST", "/config/v1/configfiles/delete", set).await["code"], 400103);
    bench.stop().await;
}
