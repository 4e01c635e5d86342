//! Encrypted config files in documents. Lists omit their content: it is fetched separately, returned to callers with
//! the permission to edit the file, and not compared for others. It is never printed as a difference, which may end up
//! in the log of a pipeline.

use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::differences::differences;
use super::documents::Document;
use super::kinds::Nature;
use super::remote::{Refused, Remote};

const CONTENT: &str = "content";
const ENCRYPTED: &str = "encrypted";
const ALGORITHM: &str = "encryptAlgo";
const FILES: &str = "/config/v1/configfiles";
/// Codes for a content that the node cannot read.
const UNREADABLE: [u64; 2] = [503_005, 400_811];

pub(super) fn is_sealed(row: &Value) -> bool {
    row[ENCRYPTED] == true
}

/// Adds the content to the row of an encrypted file, if the caller may read it.
pub(super) async fn open(remote: &Remote, row: &mut Value) -> anyhow::Result<()> {
    let named = [("namespace", "namespace"), ("group", "group"), ("name", "name")];
    lay_content(remote, row, FILES, "configFile", &named).await
}

/// Adds the content to the row of a release.
pub(super) async fn open_release(remote: &Remote, row: &mut Value) -> anyhow::Result<()> {
    let named = [("namespace", "namespace"), ("group", "group"), ("file_name", "fileName"), ("release_name", "name")];
    lay_content(remote, row, "/config/v1/configfiles/release", "configFileRelease", &named).await
}

async fn lay_content(
    remote: &Remote,
    row: &mut Value,
    path: &str,
    element: &str,
    named: &[(&str, &str)],
) -> anyhow::Result<()> {
    if !is_sealed(row) {
        return Ok(());
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (key, member) in named {
        query.append_pair(key, row[*member].as_str().unwrap_or_default());
    }
    match remote.get(&format!("{path}?{}", query.finish())).await {
        Ok(answer) => {
            if let Some(content) = answer[element].get(CONTENT) {
                row[CONTENT] = content.clone();
            }
            Ok(())
        }
        Err(error) => match error.downcast_ref::<Refused>() {
            Some(refused) if UNREADABLE.contains(&refused.code) => Ok(()),
            _ => Err(error),
        },
    }
}

/// Reports whether the document sets the content of the file but it cannot be compared.
pub(super) fn is_withheld(document: &Document, row: &Value) -> bool {
    is_sealed(row) && row.get(CONTENT).is_none() && document.spec.contains_key(CONTENT)
}

/// Reports whether the document creates an encrypted file without a content, as in a listing of another cluster.
pub(super) fn lacks_content(document: &Document) -> bool {
    let is_sealed = document.spec.get(ENCRYPTED) == Some(&json!(true));
    document.kind.nature == Nature::File && is_sealed && !document.spec.contains_key(CONTENT)
}

/// Reduces both forms of an encrypted file to the comparable fields that the document sets. A document that omits the
/// content, or whether the file is encrypted, leaves it as it is.
pub(super) fn align(document: &Document, row: &Value, wanted: &mut Map<String, Value>, found: &mut Map<String, Value>) {
    if !is_sealed(row) {
        return;
    }
    // There is only one algorithm.
    wanted.remove(ALGORITHM);
    found.remove(ALGORITHM);
    match document.spec.get(ENCRYPTED) {
        Some(Value::Bool(is_sealed)) => wanted.insert(ENCRYPTED.to_owned(), json!(is_sealed)),
        _ => found.remove(ENCRYPTED),
    };
    if row.get(CONTENT).is_none() || !document.spec.contains_key(CONTENT) {
        wanted.remove(CONTENT);
        found.remove(CONTENT);
    }
}

/// Returns the differences of two forms of an encrypted file, without their contents.
pub(super) fn field_differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let without = |fields: &Map<String, Value>| {
        let mut fields = fields.clone();
        fields.remove(CONTENT);
        fields
    };
    let mut lines = differences(&without(before), &without(after));
    if before.get(CONTENT) != after.get(CONTENT) {
        lines.push("its content, which is kept encrypted and not shown".to_owned());
    }
    lines
}

/// Reports whether a release equals the document as far as the caller may know; `row` is the draft.
pub(super) fn is_released_as(
    document: &Document,
    wanted: &Map<String, Value>,
    row: Option<&Value>,
    release: &Value,
) -> bool {
    let given = document.spec.get(ENCRYPTED).and_then(Value::as_bool);
    let is_to_be_sealed = given.unwrap_or_else(|| row.is_some_and(is_sealed));
    if is_to_be_sealed != is_sealed(release) {
        return false;
    }
    match (document.spec.contains_key(CONTENT), release.get(CONTENT)) {
        (true, Some(content)) => wanted.get(CONTENT) == Some(content),
        _ => row.is_some_and(|row| row["status"] == "normal"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::documents::DocumentPlace;
    use super::super::plan::{Plan, There};
    use super::*;

    fn document(spec: Value) -> Document {
        let value = json!({ "kind": "configfile", "name": "g/f", "namespace": "n", "spec": spec });
        Document::read(value, "n", DocumentPlace { file: "t".into(), number: 1, line: 1 }).expect("a document")
    }

    /// Returns a row as a list has it, with the content that callers with edit permission get.
    fn row(content: Option<&str>) -> Value {
        let mut row = json!({"namespace": "n", "group": "g", "name": "f", "format": "properties", "encrypted": true,
            "encryptAlgo": "XChaCha20-Poly1305", "status": "normal", "revision": "r"});
        if let Some(content) = content {
            row[CONTENT] = json!(content);
        }
        row
    }

    fn plan(spec: Value, row: Option<Value>) -> Plan {
        let document = document(spec);
        let there: There = row.map(|row| ((document.kind.order(), document.key.clone()), row)).into_iter().collect();
        Plan::of(&[document], &there)
    }

    /// Cases: spec of the document, row in the cluster, change, hints.
    #[test]
    fn what_the_caller_may_see_is_compared_and_nothing_else() {
        let secret = "not to be printed";
        let rows = [
            (json!({"content": secret}), Some(secret), None, 0),
            (json!({"content": secret, "encrypted": true}), Some(secret), None, 0),
            (
                json!({"content": "new", "encrypted": true}),
                Some(secret),
                Some(json!({"content": "new", "encrypted": true})),
                0,
            ),
            (json!({"content": "new"}), Some(secret), Some(json!({"content": "new"})), 0),
            (json!({"encrypted": true}), Some(secret), None, 0),
            (json!({}), Some(secret), None, 0),
            (json!({"encrypted": true}), None, None, 0),
            (json!({"content": "new"}), None, None, 1),
            (json!({"content": "new", "comment": "c"}), None, Some(json!({"comment": "c"})), 1),
            (json!({"encrypted": false}), None, Some(json!({"encrypted": false})), 0),
            (
                json!({"content": secret, "encrypted": false}),
                Some(secret),
                Some(json!({"content": secret, "encrypted": false})),
                0,
            ),
        ];
        for (spec, content, expected, notes) in rows {
            let plan = plan(spec.clone(), Some(row(content)));
            assert_eq!((plan.faults.len(), plan.notes.len()), (0, notes), "{spec} {content:?}");
            let body = plan.tasks.first().map(|task| {
                let mut body = Value::Object(task.body.clone());
                for member in ["namespace", "group", "name", "format", "revision"] {
                    body.as_object_mut().expect("a body").remove(member);
                }
                body
            });
            assert_eq!(body, expected, "{spec} {content:?}");
            let told: Vec<_> = plan.tasks.iter().flat_map(|task| &task.lines).chain(&plan.notes).cloned().collect();
            assert!(!told.concat().contains(secret) && !told.concat().contains("new"), "{told:?}");
            assert_eq!(told.is_empty(), expected.is_none() && notes == 0, "{told:?}");
        }
    }

    #[test]
    fn a_file_that_was_listed_elsewhere_is_not_made_of_nothing() {
        let faults = plan(json!({"encrypted": true}), None).faults;
        assert!(faults.len() == 1 && faults[0].contains("content is required"), "{faults:?}");
        assert!(plan(json!({"encrypted": true, "content": ""}), None).faults.is_empty());
        assert!(plan(json!({}), None).faults.is_empty(), "one that is not encrypted is empty where nothing is said");
    }

    #[test]
    fn what_is_in_force_is_known_from_its_status_where_it_is_not_shown() {
        let release = |content: Option<&str>| row(content);
        let clear = json!({"content": "x"});
        let rows = [
            (json!({"content": "x"}), row(Some("x")), release(Some("x")), true),
            (json!({"content": "x"}), row(Some("x")), release(Some("y")), false),
            (json!({"content": "x"}), row(None), release(None), true),
            (json!({}), row(Some("x")), release(Some("x")), true),
            (json!({"content": "x"}), row(Some("x")), clear.clone(), false),
            (json!({"content": "x", "encrypted": true}), clear.clone(), clear, false),
        ];
        for (spec, row, release, expected) in rows {
            let document = document(spec.clone());
            let is_released = is_released_as(&document, &document.spec, Some(&row), &release);
            assert_eq!(is_released, expected, "{spec} {row} {release}");
        }
        let mut edited = row(None);
        edited["status"] = json!("to-be-released");
        let document = document(json!({}));
        assert!(!is_released_as(&document, &document.spec, Some(&edited), &release(None)));
    }
}
