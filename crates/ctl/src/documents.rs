//! Documents: `{"kind", "namespace", "name", "spec": {the API's body}}`, as read from files and as printed.
//!
//! A config file has its group in `spec.group`, or in its name as GROUP/FILE. The member `status` has the fields that
//! the server sets: it is printed in JSON and ignored when read.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::errors::Usage;
use super::kinds::{Key, Kind, Nature, display_name, read_key};
use super::yaml;

const STANDARD_INPUT: &str = "-";
/// Limits: bytes of one file, files of a tree, and documents of all files.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const FILES_MAX: usize = 100_000;
const DOCUMENTS_MAX: usize = 100_000;
const FOLDERS_DEEP_MAX: usize = 64;
const SUFFIXES: [&str; 3] = ["yaml", "yml", "json"];
const MEMBERS: [&str; 5] = ["kind", "namespace", "name", "spec", "status"];
/// Fields of a row that the server sets, and fields that a document has outside of its spec.
const MADE: [&str; 33] = [
    "id",
    "revision",
    "ctime",
    "mtime",
    "etime",
    "editable",
    "deleteable",
    "disable",
    "status",
    "createTime",
    "createBy",
    "modifyTime",
    "modifyBy",
    "releaseTime",
    "releaseBy",
    "fileCount",
    "total_service_count",
    "total_health_instance_count",
    "total_instance_count",
    "healthy_instance_count",
    "in_force",
    "create_by",
    "modify_by",
    "active",
    "version",
    "delivered",
    "pending",
    "dropped",
    "last_success",
    "last_error",
    "last_error_time",
    "failing_since",
    "has_client_secret",
];

/// Source of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DocumentPlace {
    pub(super) file: String,
    /// Position in the file, from 1, and the line on which the document begins.
    pub(super) number: usize,
    pub(super) line: usize,
}

impl fmt::Display for DocumentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {} (line {})", self.file, self.number, self.line)
    }
}

pub(super) struct Document {
    pub(super) kind: &'static Kind,
    pub(super) key: Key,
    pub(super) spec: Map<String, Value>,
    pub(super) place: DocumentPlace,
}

impl Document {
    /// Parses a document; `namespace` is the default.
    pub(super) fn read(value: Value, namespace: &str, place: DocumentPlace) -> Result<Document, String> {
        let Value::Object(mut members) = value else { return Err("a document is an object".to_owned()) };
        if let Some(unknown) = members.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
            return Err(format!("{unknown} is not known: the fields of a thing stand in spec"));
        }
        let mut text = |member: &str| match members.remove(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{member}: a text is expected, not {other}")),
        };
        let word = text("kind")?.ok_or("kind is required")?;
        let kind = Kind::of_word(&word).map_err(|usage| usage.0)?;
        if !kind.is_documented() {
            let command = match kind.nature {
                Nature::Instance => "`thuban instance register`",
                _ => kind.origin().1,
            };
            return Err(format!("{} {} and are not applied: see {command}", kind.many, kind.origin().0));
        }
        let name = text("name")?.ok_or("name is required")?;
        let given = text("namespace")?;
        if kind.is_of_cluster() && given.is_some() {
            let one = kind.one;
            let what = match kind.nature {
                Nature::Webhook => "spec.namespace selects the namespace of its events",
                Nature::Provider => "its bindings name those that they are for",
                _ => "spec.namespace selects the namespace of what it is about",
            };
            return Err(format!("a {one} is in no namespace: {what}"));
        }
        let namespace = given.unwrap_or_else(|| namespace.to_owned());
        let mut spec = match members.remove("spec") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(spec)) => spec,
            Some(_) => return Err("spec: an object is expected".to_owned()),
        };
        let group = match kind.nature {
            Nature::File => spec.remove("group"),
            _ => None,
        };
        let group = match &group {
            None | Some(Value::Null) => None,
            Some(Value::String(group)) => Some(group.as_str()),
            Some(_) => return Err("spec.group: a text is expected".to_owned()),
        };
        let key = read_key(kind, &namespace, group, &name).map_err(|usage| usage.0)?;
        Ok(Document { kind, key, spec, place })
    }

    /// Converts a row of a list; leaves out fields that the server sets and empty fields.
    pub(super) fn of_row(kind: &'static Kind, row: &Value) -> Document {
        let key = kind.key_of(row);
        let mut spec = spec_of_row(kind, row);
        spec.retain(|_, value| !says_nothing(value));
        let place = DocumentPlace { file: "the cluster".to_owned(), number: 1, line: 1 };
        Document { kind, key, spec, place }
    }

    /// Returns the document in the form that is printed and can be applied.
    pub(super) fn value(&self) -> Value {
        let mut spec = self.spec.clone();
        if let Some(group) = &self.key.group {
            spec.insert("group".to_owned(), json!(group));
        }
        let mut document = json!({ "kind": self.kind.one, "name": self.key.name, "spec": spec });
        if !self.key.namespace.is_empty() {
            document["namespace"] = json!(self.key.namespace);
        }
        document
    }

    pub(super) fn display_name(&self) -> String {
        display_name(self.kind, &self.key)
    }
}

/// Returns the fields of a row that users set.
pub(super) fn spec_of_row(kind: &Kind, row: &Value) -> Map<String, Value> {
    let mut spec = row.as_object().cloned().unwrap_or_default();
    let named: Vec<String> = match kind.nature {
        // `namespace` is that of the service that the alias points to; a generated name is set like any other.
        Nature::Alias => ["alias", "alias_namespace", "type"].map(str::to_owned).to_vec(),
        _ => kind.named(&Key::default()).keys().cloned().collect(),
    };
    spec.retain(|field, value| !named.contains(field) && !is_made(kind, field) && !value.is_null());
    spec
}

fn is_made(kind: &Kind, field: &str) -> bool {
    // In a row of an instance these fields are its own, not counts of releases.
    kind.is_documented() && MADE.contains(&field)
}

/// Reports whether a value means the same as an absent field.
pub(super) fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the fields that the server sets, for the member `status`.
pub(super) fn status_of_row(row: &Value) -> Value {
    let mut status = row.as_object().cloned().unwrap_or_default();
    status.retain(|field, value| MADE.contains(&field.as_str()) && !value.is_null());
    status.into()
}

/// Reads all documents of files, folders and standard input, in the order of their paths. Reports all faults at once.
pub(super) fn read_all(paths: &[PathBuf], namespace: &str) -> anyhow::Result<Vec<Document>> {
    let mut files = Vec::new();
    for path in paths {
        if path.as_os_str() == STANDARD_INPUT {
            files.push(path.clone());
        } else {
            list_files(path, 0, &mut files)?;
        }
    }
    let (mut documents, mut faults) = (Vec::new(), Vec::new());
    for file in &files {
        let shown =
            if file.as_os_str() == STANDARD_INPUT { "standard input".to_owned() } else { file.display().to_string() };
        let found = read_text(file).with_context(|| shown.clone())?;
        match read_text_of(&found, &shown, namespace) {
            Ok((found, wrong)) => {
                documents.extend(found);
                faults.extend(wrong);
            }
            Err(error) => faults.push(format!("{shown}: {error:#}")),
        }
        if documents.len() > DOCUMENTS_MAX {
            return Err(Usage(format!("more than {DOCUMENTS_MAX} documents: apply a part of them")).into());
        }
    }
    faults.extend(doubles(&documents));
    if faults.is_empty() { Ok(documents) } else { Err(Usage(faults.join("\n")).into()) }
}

fn list_files(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let cannot = || format!("{}: give a file, a folder or - for standard input", path.display());
    if !std::fs::metadata(path).map_err(|error| Usage(format!("{} ({error})", cannot())))?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    if depth > FOLDERS_DEEP_MAX || files.len() > FILES_MAX {
        return Err(Usage(format!("{}: more files or folders than are read at once", path.display())).into());
    }
    let mut entries = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        let is_hidden = entry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let suffix = entry.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        if !is_hidden && (entry.is_dir() || SUFFIXES.contains(&suffix)) {
            list_files(&entry, depth + 1, files)?;
        }
    }
    Ok(())
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut from: Box<dyn Read> = if file.as_os_str() == STANDARD_INPUT {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file)?)
    };
    let read = (&mut from).take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(Usage(format!("more than {FILE_BYTES_MAX} bytes")).into());
    }
    Ok(text)
}

/// Parses the documents of one text; returns the faults of the others.
fn read_text_of(text: &str, file: &str, namespace: &str) -> anyhow::Result<(Vec<Document>, Vec<String>)> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let values = match is_json.then(|| serde_json::from_str::<Value>(text)) {
        Some(Ok(value)) => vec![(1, value)],
        // Text that begins like JSON may still be YAML.
        _ => yaml::read(text)?,
    };
    let flat = values.into_iter().flat_map(|(line, value)| match value {
        Value::Array(items) => items.into_iter().map(|item| (line, item)).collect(),
        Value::Null => Vec::new(),
        value => vec![(line, value)],
    });
    let (mut documents, mut faults) = (Vec::new(), Vec::new());
    for (index, (line, value)) in flat.enumerate() {
        let place = DocumentPlace { file: file.to_owned(), number: index + 1, line };
        match Document::read(value, namespace, place.clone()) {
            Ok(document) => documents.push(document),
            Err(why) => faults.push(format!("{place}: {why}")),
        }
    }
    Ok((documents, faults))
}

/// Reports objects that two documents describe.
fn doubles(documents: &[Document]) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let mut faults = Vec::new();
    for document in documents {
        if let Some(first) = seen.insert((document.kind.one, &document.key), &document.place) {
            faults.push(format!("{}: {} stands in {first} already", document.place, document.display_name()));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> DocumentPlace {
        DocumentPlace { file: "a.yaml".into(), number: 1, line: 1 }
    }

    #[test]
    fn a_row_becomes_a_document_that_is_read_as_the_same() {
        let row = json!({
            "id": "1", "name": "a.yaml", "namespace": "ns", "group": "g/h", "content": "a: 1\n", "format": "yaml",
            "comment": "", "tags": [], "status": "normal", "createTime": "x", "revision": "r",
        });
        let document = Document::of_row(Kind::of_word("configfile").expect("a kind"), &row);
        let expected = json!({
            "kind": "configfile", "namespace": "ns", "name": "a.yaml",
            "spec": { "group": "g/h", "content": "a: 1\n", "format": "yaml" },
        });
        assert_eq!(document.value(), expected);
        let again = Document::read(document.value(), "other", place()).expect("read");
        assert_eq!((again.key, again.spec), (document.key, document.spec));
        assert_eq!(status_of_row(&row), json!({ "id": "1", "status": "normal", "createTime": "x", "revision": "r" }));
    }

    #[test]
    fn an_alias_keeps_the_namespace_of_its_service() {
        let row = json!({
            "alias": "a", "alias_namespace": "ns", "service": "pay", "namespace": "shop", "type": "CL5SID",
            "owners": "",
        });
        let document = Document::of_row(Kind::of_word("alias").expect("a kind"), &row);
        assert_eq!(
            document.value(),
            json!({ "kind": "alias", "namespace": "ns", "name": "a",
                "spec": { "service": "pay", "namespace": "shop" } })
        );
    }

    /// The scope of a webhook's events may be one namespace; the webhook itself is in none.
    #[test]
    fn a_webhook_is_in_no_namespace() {
        let read = |namespace: Value| {
            let document =
                json!({"kind": "webhook", "name": "ops", "namespace": namespace, "spec": {"namespace": "shop"}});
            Document::read(document, "default", place())
        };
        let document = read(Value::Null).expect("a document");
        assert_eq!((document.key.namespace.as_str(), &document.spec["namespace"]), ("", &json!("shop")));
        assert!(read(json!("shop")).err().expect("refused").contains("spec.namespace"));
        let row = json!({"name": "ops", "url": "https://h/", "namespace": "shop", "events": [], "allow_private": false,
            "disabled": false, "comment": "", "delivered": 5, "pending": 0, "dropped": 0, "last_success": "t",
            "last_error": "", "last_error_time": "", "failing_since": "", "ctime": "t", "create_by": "u", "mtime": "t",
            "modify_by": "u", "revision": "r"});
        let spec = json!({"url": "https://h/", "namespace": "shop", "allow_private": false, "disabled": false});
        let expected = json!({"kind": "webhook", "name": "ops", "spec": spec});
        assert_eq!(Document::of_row(Kind::of_word("wh").expect("a kind"), &row).value(), expected);
    }

    #[test]
    fn what_is_no_document_is_told_by_its_place() {
        let text = "kind: service\nname: a\n---\nkind: pod\nname: a\n---\nkind: service\nname: b\nports: '80'\n---\n\
                    kind: configfile\nname: a\n---\nkind: service\nspec: {}\n---\nkind: instance\nname: i\n---\n- 5\n";
        let (documents, faults) = read_text_of(text, "tree/a.yaml", "shop").expect("YAML");
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].key.namespace, "shop");
        for (fault, words) in faults.iter().zip([
            "tree/a.yaml, document 2 (line 4): \"pod\" is no kind",
            "document 3 (line 7): ports is not known: the fields of a thing stand in spec",
            "says no group",
            "name is required",
            "register themselves",
            "a document is an object",
        ]) {
            assert!(fault.contains(words), "{fault} has no {words}");
        }
        assert_eq!(faults.len(), 6);
    }

    #[test]
    fn a_tree_is_read_in_order_and_nothing_stands_in_it_twice() {
        let folder = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("b/one.json", r#"[{"kind":"ns","name":"one"},{"kind":"ns","name":"two"}]"#);
        write("a.yml", "kind: namespace\nname: zero\n");
        write(".git/x.yaml", "nonsense");
        write("README.md", "nonsense");
        let read = |path: &Path| read_all(&[path.to_owned()], "default");
        let names = |found: Vec<Document>| found.into_iter().map(|one| one.key.name).collect::<Vec<_>>();
        assert_eq!(names(read(folder.path()).expect("readable")), ["zero", "one", "two"]);
        write("c.yaml", "kind: namespaces\nname: one\n");
        let twice = read(folder.path()).err().expect("twice").to_string();
        assert!(twice.contains("namespace/one stands in") && twice.contains("one.json, document 1"), "{twice}");
        assert!(read(&folder.path().join("nowhere")).err().expect("missing").is::<Usage>());
    }
}
