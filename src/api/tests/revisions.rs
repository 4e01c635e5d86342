//! Compare-and-set: every object has a revision, and every update and delete checks a given one.

use std::collections::BTreeSet;

use super::*;
use crate::model::rule::Family;

/// A kind of object: path, naming fields, fields of a create, and a change.
struct Kind {
    path: String,
    named: Value,
    made: Value,
    changed: Value,
}

/// Writes that do not check a revision, with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("PUT /auth/v1/user/password", "names the password that it replaces"),
    ("POST /auth/v1/sessions/delete", "a login never changes"),
    ("POST /auth/v1/identities/delete", "an identity is changed by sign-ins alone"),
    ("PUT /naming/v1/instances/isolate/host", "of a host, whatever is on it"),
    ("POST /naming/v1/instances/delete/host", "of a host, whatever is on it"),
    ("PUT /admin/v1/settings", "has a test of its own, as settings are always there"),
];

/// Reports whether a path is about releases, which never change; a publish compares `md5` and `revision` instead.
fn is_of_releases(path: &str) -> bool {
    path.contains("/releases/") || path.ends_with("/releases")
}

fn kinds() -> Vec<Kind> {
    let kind = |path: &str, named: Value, made: Value, changed: Value| {
        let path = path.to_owned();
        Kind { path, named, made, changed }
    };
    let comment = || json!({ "comment": "changed" });
    let grants = json!([{ "role": "reader", "namespace": "n" }]);
    let mut kinds = vec![
        kind("/auth/v1/users", json!({ "name": "eve" }), json!({ "password": PASSWORD, "grants": grants }), comment()),
        kind("/auth/v1/tokens", json!({ "name": "ci" }), json!({ "grants": grants }), comment()),
        kind(
            "/auth/v1/providers",
            json!({ "name": "company" }),
            json!({ "issuer": "https://company.example.com", "client_id": "thuban" }),
            comment(),
        ),
        kind("/auth/v1/accesskeys", json!({ "app_id": "app", "name": "k" }), json!({}), comment()),
        kind("/admin/v1/webhooks", json!({ "name": "h" }), json!({ "url": "https://hooks.example.org/" }), comment()),
        kind("/admin/v1/contracts", json!({ "name": "c" }), json!({ "namespace": "none", "schema": true }), comment()),
        kind("/admin/v1/policies", json!({ "name": "p" }), json!({ "namespace": "none" }), comment()),
        kind("/naming/v1/namespaces", json!({ "name": "one" }), json!({}), comment()),
        kind("/core/v1/namespaces", json!({ "name": "two" }), json!({}), comment()),
        kind("/naming/v1/services", json!({ "namespace": "n", "name": "s" }), json!({}), comment()),
        kind(
            "/naming/v1/service/alias",
            json!({ "alias_namespace": "n", "alias": "a" }),
            json!({ "namespace": "n", "service": "target" }),
            comment(),
        ),
        kind(
            "/naming/v1/instances",
            json!({ "namespace": "n", "service": "target", "host": "192.0.2.1", "port": 80 }),
            json!({}),
            json!({ "weight": 7 }),
        ),
        kind("/config/v1/configfilegroups", json!({ "namespace": "n", "name": "empty" }), json!({}), comment()),
        kind(
            "/config/v1/configfiles",
            json!({ "namespace": "n", "group": "g", "name": "f" }),
            json!({ "content": "a=1" }),
            comment(),
        ),
        kind("/config/v1/configfiletemplates", json!({ "name": "t" }), json!({ "content": "a=1" }), comment()),
    ];
    for family in Family::ALL {
        let path = format!("/naming/v1/{}", family.kind());
        kinds.push(Kind {
            path,
            named: json!({ "namespace": "n", "name": "r" }),
            made: json!({}),
            changed: json!({ "description": "changed" }),
        });
    }
    kinds
}

fn joined(one: &Value, more: &Value) -> Value {
    let mut joined = one.clone();
    joined.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    joined
}

/// Sends one item; returns its code and the revision of its object.
async fn send(bench: &Bench, token: &str, method: &str, path: &str, item: Value) -> (u64, String) {
    let (_, answer) = bench.send(method, path, Some(token), json!([item])).await;
    let item = if answer["responses"].is_array() { &answer["responses"][0] } else { &answer };
    let members = item.as_object().unwrap_or_else(|| panic!("{method} {path}: {answer}"));
    let revision = members.values().find_map(|member| member.get("revision")?.as_str()).unwrap_or_default();
    (item["code"].as_u64().unwrap_or_else(|| panic!("{method} {path}: {answer}")), revision.to_owned())
}

/// Returns the delete routes of a kind.
fn deletes(path: &str) -> Vec<String> {
    match path {
        "/naming/v1/service/alias" => vec!["/naming/v1/service/aliases/delete".to_owned()],
        "/naming/v1/instances" => vec![format!("{path}/delete"), "/v1/DeregisterInstance".to_owned()],
        "/config/v1/configfiles" => vec![format!("{path}/delete"), format!("{path}/batchdelete")],
        _ => vec![format!("{path}/delete")],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_update_and_delete_judges_the_revision_that_it_is_given() {
    let bench = Bench::start_with(&["a"]).await;
    let token = bench.log_in().await;
    for (path, item) in [
        ("/naming/v1/services", json!({ "namespace": "n", "name": "target" })),
        ("/config/v1/configfilegroups", json!({ "namespace": "n", "name": "g" })),
    ] {
        assert_eq!(send(&bench, &token, "POST", path, item).await.0, 200_000);
    }
    let mut tried = BTreeSet::new();
    for Kind { path, named, made, changed } in kinds() {
        for delete in deletes(&path) {
            let (code, first) = send(&bench, &token, "POST", &path, joined(&named, &made)).await;
            assert!(code == 200_000 && first.len() == 32, "{path}: {code} {first:?}");
            let at = |item: &Value, revision: &str| joined(item, &json!({ "revision": revision }));
            let change = joined(&named, &changed);
            let (code, second) = send(&bench, &token, "PUT", &path, at(&change, &first)).await;
            assert!(code == 200_000 && second.len() == 32 && second != first, "{path}: {code} {second:?}");
            let other = joined(&change, &made);
            assert_eq!(send(&bench, &token, "PUT", &path, at(&other, &first)).await.0, 409_000, "{path}");
            assert_eq!(send(&bench, &token, "POST", &delete, at(&named, &first)).await.0, 409_000, "{delete}");
            assert_eq!(send(&bench, &token, "PUT", &path, at(&change, &second)).await.0, 200_002, "{path}: it stayed");
            assert_eq!(send(&bench, &token, "POST", &delete, at(&named, &second)).await.0, 200_000, "{delete}");
            let code = send(&bench, &token, "PUT", &path, change).await.0;
            assert!([400_202, 400_301].contains(&code) || code / 1000 == 400, "{path}: {code}, it is gone");
            tried.extend([format!("PUT {path}"), format!("POST {delete}")]);
        }
    }
    // In the query of a delete without a body.
    for (path, item, query) in [
        ("/config/v1/configfilegroups", json!({ "namespace": "n", "name": "q" }), "namespace=n&group=q&name=q"),
        (
            "/config/v1/configfiles",
            json!({ "namespace": "n", "group": "g", "name": "q", "content": "a=1" }),
            "namespace=n&group=g&name=q",
        ),
    ] {
        let (_, revision) = send(&bench, &token, "POST", path, item).await;
        for (revision, expected) in [("stale", 409_000), (revision.as_str(), 200_000)] {
            let query = format!("{path}?{query}&revision={revision}");
            let (_, answer) = bench.send("DELETE", &query, Some(&token), Value::Null).await;
            assert_eq!(answer["code"], expected, "{query}: {answer}");
        }
        tried.insert(format!("DELETE {path}"));
    }
    // A new registration of the same instance, and a rotated token.
    let instance = json!({ "namespace": "n", "service": "target", "host": "192.0.2.2", "port": 80 });
    let grants = json!([{ "role": "reader", "namespace": "n" }]);
    let ci = json!({ "name": "rotated", "grants": grants });
    for (made, path, item, change) in [
        ("/naming/v1/instances", "/naming/v1/instances", instance.clone(), joined(&instance, &json!({ "weight": 3 }))),
        ("/auth/v1/tokens", "/auth/v1/tokens/rotate", ci, json!({ "name": "rotated" })),
    ] {
        let (_, revision) = send(&bench, &token, "POST", made, item).await;
        for (revision, expected) in [("stale", 409_000), (revision.as_str(), 200_000)] {
            let change = joined(&change, &json!({ "revision": revision }));
            assert_eq!(send(&bench, &token, "POST", path, change).await.0, expected, "{path}");
        }
    }
    for route in routes() {
        let shown = format!("{} {}", route.method, route.path);
        let is_change = route.method == "PUT" || route.method == "DELETE" || route.path.ends_with("elete");
        let is_other = OTHERS.iter().any(|(other, _)| *other == shown) || is_of_releases(&route.path);
        assert!(!is_change || is_other || tried.contains(&shown), "{shown} is not tried");
    }
    bench.stop().await;
}
