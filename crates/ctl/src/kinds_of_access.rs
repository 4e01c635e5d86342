//! Kinds of the objects that let people and programs in: identity providers, and those who have signed in by them.

use serde_json::{Map, Value, json};

use super::kind::{Kind, MODIFIED, NAME, Nature, REVISION, cut};
use super::tables::{text, words};

pub(super) const PROVIDER: Kind = Kind {
    nature: Nature::Provider,
    one: "provider",
    many: "providers",
    short: "idp",
    list: "/auth/v1/providers",
    write: "/auth/v1/providers",
    rows: "data",
    columns: &[
        NAME,
        ("issuer", |row| cut(&row["issuer"])),
        ("bindings", |row| row["bindings"].as_array().map_or(0, Vec::len).to_string()),
        ("bearer", |row| text(&row["bearer"])),
        ("disabled", |row| text(&row["disabled"])),
    ],
    more: &[
        ("client", |row| cut(&row["client_id"])),
        ("secret", |row| text(&row["has_client_secret"])),
        ("command line", |row| cut(&row["cli_client_id"])),
        ("scopes", |row| words(&row["scopes"])),
        ("audiences", |row| words(&row["audiences"])),
        ("session s", |row| text(&row["session_s"])),
        ("comment", |row| cut(&row["comment"])),
        MODIFIED,
        REVISION,
    ],
};

pub(super) const IDENTITY: Kind = Kind {
    nature: Nature::Identity,
    one: "identity",
    many: "identities",
    short: "id",
    list: "/auth/v1/identities",
    write: "/auth/v1/identities",
    rows: "data",
    columns: &[
        ("name", |row| text(&row["name"])),
        ("provider", |row| text(&row["provider"])),
        ("sub", |row| cut(&row["sub"])),
        ("last seen (UTC)", |row| text(&row["last_seen"])),
    ],
    more: &[
        ("earlier names", |row| words(&row["earlier_names"])),
        ("issuer", |row| cut(&row["issuer"])),
        ("person", |row| text(&row["person"])),
        ("since (UTC)", |row| text(&row["ctime"])),
    ],
};

/// Returns the name of an identity: PROVIDER/SUB. Names of providers have no slash.
pub(super) fn identity_name(row: &Value) -> String {
    let of = |member: &str| row[member].as_str().unwrap_or_default();
    format!("{}/{}", of("provider"), of("sub"))
}

/// Returns the members of a body that name an identity.
pub(super) fn identity_named(name: &str) -> Map<String, Value> {
    let (provider, sub) = name.split_once('/').unwrap_or((name, ""));
    json!({ "provider": provider, "sub": sub }).as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::documents::{Document, DocumentPlace};
    use super::super::plan::{Plan, Step, There};
    use super::*;

    #[test]
    fn a_secret_of_a_provider_is_sent_and_not_compared() {
        let spec = |secret: Option<&str>, comment: &str| {
            let mut spec = json!({"issuer": "https://id.example.com", "client_id": "thuban", "comment": comment});
            if let Some(secret) = secret {
                spec["client_secret"] = json!(secret);
            }
            let value = json!({"kind": "provider", "name": "corp", "spec": spec});
            let place = DocumentPlace { file: "t.yaml".into(), number: 1, line: 1 };
            Document::read(value, "default", place).expect("a document")
        };
        let row = |has_secret: bool| {
            let mut row = json!({
                "name": "corp", "issuer": "https://id.example.com", "client_id": "thuban", "revision": "r",
                "scopes": ["openid", "profile", "email"], "groups_claim": "groups", "leeway_s": 60, "session_s": 28800,
            });
            row["has_client_secret"] = json!(has_secret);
            There::from([((PROVIDER.order(), PROVIDER.key_of(&row)), row)])
        };
        // Cases: secret of the document, of the cluster, edited by hand, comment, whether the secret is sent; notes.
        for (given, there, is_edited, comment, sent, notes) in [
            (None, true, false, "", None, 0),
            (None, true, false, "new", Some(None), 0),
            (Some("one"), true, false, "", None, 1),
            (Some("one"), true, false, "new", Some(Some("one")), 0),
            (Some("one"), false, false, "", Some(Some("one")), 0),
            (Some("one"), true, true, "", Some(Some("one")), 0),
            (None, true, true, "", None, 0),
        ] {
            let documents = [spec(given, comment)];
            let there = row(there);
            let plan = if is_edited { Plan::of_edited(&documents, &there) } else { Plan::of(&documents, &there) };
            assert!(plan.faults.is_empty(), "{:?}", plan.faults);
            let body = plan.tasks.first().map(|task| task.body.get("client_secret").and_then(Value::as_str));
            assert_eq!((body, plan.notes.len()), (sent, notes), "{given:?} {comment:?}");
            let lines: Vec<_> = plan.tasks.iter().flat_map(|task| &task.lines).chain(&plan.notes).cloned().collect();
            assert!(!lines.concat().contains("one"), "{lines:?}");
        }
        let created = Plan::of(&[spec(Some("one"), "")], &There::new());
        assert_eq!((created.tasks[0].step, &created.tasks[0].body["client_secret"]), (Step::Create, &json!("one")));
    }
}
