//! Plan of the changes that make the cluster equal to documents. Makes no calls.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use thuban_model::config_file::Format;

use super::differences::differences;
use super::documents::{Document, DocumentPlace, spec_of_row};
use super::find::InForce;
use super::kinds::{Key, Kind, Nature, placed};
use super::normal::{SECRETS, body, normal, update};
use super::sealed;
use super::tables::OutputFormat;
use super::telling::{say, say_error};

/// Maximum lines shown of one difference.
const LINES_MAX: usize = 200;
const CONTENT: &str = "content";
const CLIENT_SECRET: &str = "client_secret";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Create,
    Change,
    Release,
    Delete,
}

impl Step {
    pub(super) fn word(self) -> &'static str {
        match self {
            Step::Create => "create",
            Step::Change => "change",
            Step::Release => "release",
            Step::Delete => "delete",
        }
    }
}

/// One change to make.
pub(super) struct Task {
    pub(super) step: Step,
    pub(super) kind: &'static Kind,
    pub(super) key: Key,
    /// Request body.
    pub(super) body: Map<String, Value>,
    /// Differences, for people.
    pub(super) lines: Vec<String>,
    /// Document that causes the change; `None` for a delete.
    pub(super) place: Option<DocumentPlace>,
    /// Revision of an object to delete, as listed.
    pub(super) revision: String,
}

impl Task {
    pub(super) fn summary(&self) -> String {
        format!("{:<8}  {}", self.step.word(), placed(self.kind, &self.key))
    }
}

/// Result of a comparison.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) tasks: Vec<Task>,
    /// Number of documents that equal the cluster.
    pub(super) same: usize,
    /// Documents that every node would refuse, and why.
    pub(super) faults: Vec<String>,
    /// Objects that were not compared, with the reason.
    pub(super) notes: Vec<String>,
}

/// Rows of the cluster, by kind and name.
pub(super) type There = BTreeMap<(usize, Key), Value>;

impl Plan {
    /// Compares the documents with the rows. Tasks are in dependency order.
    pub(super) fn of(documents: &[Document], there: &There) -> Plan {
        Plan::compared(documents, there, false)
    }

    /// Compares documents that were edited as they were shown, without secrets: a secret in them is a new one.
    pub(super) fn of_edited(documents: &[Document], there: &There) -> Plan {
        Plan::compared(documents, there, true)
    }

    fn compared(documents: &[Document], there: &There, is_edited: bool) -> Plan {
        let mut plan = Plan::default();
        for document in documents {
            let row = there.get(&(document.kind.order(), document.key.clone()));
            if row.is_some_and(|row| sealed::is_withheld(document, row)) {
                let what = placed(document.kind, &document.key);
                plan.notes.push(format!("{what}: it is kept encrypted and not shown, so its content is not compared"));
            }
            match compared(document, row, is_edited) {
                Ok(Some(task)) => plan.tasks.push(task),
                Ok(None) => {
                    plan.same += 1;
                    if document.spec.contains_key(CLIENT_SECRET) {
                        let what = placed(document.kind, &document.key);
                        plan.notes.push(format!("{what}: its {CLIENT_SECRET} is not shown, so it is not compared"));
                    }
                }
                Err(faults) => {
                    let told =
                        faults.iter().map(|fault| format!("{}: {}: {fault}", document.place, document.display_name()));
                    plan.faults.extend(told);
                }
            }
        }
        plan.tasks.sort_by_key(|task| (task.kind.order(), task.step));
        plan
    }

    /// Adds deletes of the rows that have no document, dependants first.
    pub(super) fn prune(&mut self, documents: &[Document], rows: &[(&'static Kind, Value)]) {
        let mut kept: BTreeSet<(usize, Key)> = BTreeSet::new();
        for document in documents {
            kept.insert((document.kind.order(), document.key.clone()));
            // The group was created with a file and has no document of its own.
            if let Some(group) = &document.key.group {
                let namespace = document.key.namespace.clone();
                let group = Key { namespace, group: None, name: group.clone() };
                kept.extend(
                    super::kinds::KINDS
                        .iter()
                        .filter(|kind| kind.nature == Nature::Group)
                        .map(|kind| (kind.order(), group.clone())),
                );
            }
        }
        let mut gone: Vec<_> = rows
            .iter()
            .map(|(kind, row)| deletion(kind, row))
            .filter(|task| !kept.contains(&(task.kind.order(), task.key.clone())))
            .collect();
        gone.sort_by_key(|task| std::cmp::Reverse(task.kind.order()));
        self.tasks.extend(gone);
    }

    /// Adds releases of the objects whose active release differs.
    pub(super) fn release(
        &mut self,
        documents: &[Document],
        there: &There,
        in_force: &BTreeMap<(usize, Key), InForce>,
    ) {
        for document in documents.iter().filter(|document| document.kind.is_released()) {
            let name = (document.kind.order(), document.key.clone());
            let found = in_force.get(&name);
            let Ok(wanted) = normal(document.kind, &document.key, &document.spec) else { continue };
            let released = found.and_then(|found| found.normal.as_ref());
            let row = there.get(&name);
            if released.is_some_and(|released| is_released_as(document, &wanted, row, released)) {
                continue;
            }
            let mut body = Map::new();
            if document.kind.nature == Nature::File {
                // Saved and published in one step: a concurrent change of the draft is not published by accident.
                body.extend(wanted);
                body.insert("file_name".to_owned(), json!(document.key.name));
                if let Some(md5) = released.and_then(|released| released["md5"].as_str()) {
                    body.insert("md5".to_owned(), json!(md5));
                }
                body.insert("group".to_owned(), json!(document.key.group));
                // A content that the document omits is published as it is in the draft.
                if row.is_some_and(sealed::is_sealed) && !document.spec.contains_key(CONTENT) {
                    body.remove(CONTENT);
                }
            } else {
                body.insert("rule_name".to_owned(), json!(document.key.name));
            }
            body.insert("namespace".to_owned(), json!(document.key.namespace));
            // Replaced by the new revision if the draft was just written.
            if let Some(revision) = row.and_then(|row| row["revision"].as_str()).filter(|one| !one.is_empty()) {
                body.insert("revision".to_owned(), json!(revision));
            }
            let grays = found.map_or(&[][..], |found| &found.grays);
            let told = |gray: &String| format!("gray {gray} is active: promote or stop it first");
            self.tasks.push(Task {
                step: Step::Release,
                kind: document.kind,
                key: document.key.clone(),
                body,
                lines: grays.iter().map(told).collect(),
                place: Some(document.place.clone()),
                revision: String::new(),
            });
        }
    }

    pub(super) fn count(&self, step: Step) -> usize {
        self.tasks.iter().filter(|task| task.step == step).count()
    }

    /// Prints the plan, with the differing lines unless `brief`.
    pub(super) fn tell(&self, brief: bool, output: OutputFormat) -> anyhow::Result<()> {
        if output == OutputFormat::Json {
            self.faults.iter().for_each(|fault| say_error(&format!("refused   {fault}")));
            say(&serde_json::to_string_pretty(&self.for_programs(brief))?);
            return Ok(());
        }
        for task in &self.tasks {
            say(&task.summary());
            if !brief {
                task.lines.iter().take(LINES_MAX).for_each(|line| say(&format!("    {line}")));
                if task.lines.len() > LINES_MAX {
                    say(&format!("    … and {} lines more", task.lines.len() - LINES_MAX));
                }
            }
        }
        self.notes.iter().for_each(|note| say(&format!("note      {note}")));
        self.faults.iter().for_each(|fault| say_error(&format!("refused   {fault}")));
        say(&self.summary());
        Ok(())
    }

    /// Returns the plan as JSON, with the differing lines unless `brief`.
    fn for_programs(&self, brief: bool) -> Value {
        let task = |task: &Task| {
            let mut row = json!({
                "step": task.step.word(), "kind": task.kind.one, "namespace": task.key.namespace, "name": task.key.name,
            });
            if let Some(group) = &task.key.group {
                row["group"] = json!(group);
            }
            if let Some(place) = &task.place {
                row["document"] = json!(place.to_string());
            }
            if !brief {
                row["differences"] = json!(task.lines);
            }
            row
        };
        let tasks: Vec<_> = self.tasks.iter().map(task).collect();
        json!({ "tasks": tasks, "same": self.same, "notes": self.notes, "faults": self.faults })
    }

    pub(super) fn summary(&self) -> String {
        let of = |step: Step| format!("{} to {}", self.count(step), step.word());
        let mut words = vec![of(Step::Create), of(Step::Change)];
        words.extend([Step::Release, Step::Delete].into_iter().filter(|step| self.count(*step) > 0).map(of));
        words.push(format!("{} the same already", self.same));
        words.join(", ")
    }
}

/// Returns the task that deletes a row.
pub(super) fn deletion(kind: &'static Kind, row: &Value) -> Task {
    let key = kind.key_of(row);
    let mut body = kind.named(&key);
    // A concurrent change of the object makes the delete fail.
    body.extend(row.get("revision").filter(|one| **one != "").map(|one| ("revision".to_owned(), one.clone())));
    Task {
        step: Step::Delete,
        kind,
        body,
        key,
        lines: Vec::new(),
        place: None,
        revision: row["revision"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Returns the change that the document requires; `None` if the cluster has it already.
fn compared(document: &Document, there: Option<&Value>, is_edited: bool) -> Result<Option<Task>, Vec<String>> {
    let Document { kind, key, spec, place } = document;
    let mut wanted = normal(kind, key, spec)?;
    let task = |step: Step, body: Map<String, Value>, lines: Vec<String>| Task {
        step,
        kind,
        key: key.clone(),
        body,
        lines,
        place: Some(place.clone()),
        revision: String::new(),
    };
    let Some(row) = there else {
        if sealed::lacks_content(document) {
            return Err(vec!["content is required: what is listed of an encrypted file has none".to_owned()]);
        }
        return Ok(Some(task(Step::Create, body(kind, key, spec), Vec::new())));
    };
    let found = spec_of_row(kind, row);
    // An object that this version cannot parse is from another one: it is overwritten as a whole.
    let mut found = normal(kind, key, &found).unwrap_or(found);
    sealed::align(document, row, &mut wanted, &mut found);
    let given = SECRETS.into_iter().find(|secret| spec.contains_key(*secret));
    let new_secret = given.filter(|_| is_edited || row["has_client_secret"] == false);
    if found == wanted && new_secret.is_none() {
        return Ok(None);
    }
    let revision = row["revision"].as_str().unwrap_or_default();
    let body = update(kind, key, &found, &wanted, spec, revision);
    let is_secret = sealed::is_sealed(row) || wanted.get("encrypted") == Some(&json!(true));
    let mut lines = if is_secret { sealed::field_differences(&found, &wanted) } else { differences(&found, &wanted) };
    lines.extend(new_secret.map(|secret| format!("its {secret}, which is not shown")));
    Ok(Some(task(Step::Change, body, lines)))
}

fn is_released_as(document: &Document, wanted: &Map<String, Value>, row: Option<&Value>, released: &Value) -> bool {
    if document.kind.nature == Nature::File {
        let given = released["format"].as_str().and_then(|word| Format::of_word(word).ok()).unwrap_or_default();
        let read_as = Format::read_as(&document.key.name, given).word();
        return sealed::is_released_as(document, wanted, row, released)
            && wanted.get("format") == Some(&json!(read_as));
    }
    let spec = spec_of_row(document.kind, &released["rule"]);
    normal(document.kind, &document.key, &spec).is_ok_and(|released| released == *wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(word: &str, name: &str, spec: Value) -> Document {
        let kind = Kind::of_word(word).expect("a kind");
        let value = json!({ "kind": word, "name": name, "namespace": "shop", "spec": spec });
        let place = DocumentPlace { file: "t.yaml".into(), number: 2, line: 7 };
        let read = Document::read(value, "default", place).expect("a document");
        assert_eq!(read.kind.one, kind.one);
        read
    }

    fn rows(rows: &[(&str, Value)]) -> There {
        rows.iter()
            .map(|(word, row)| {
                let kind = Kind::of_word(word).expect("a kind");
                ((kind.order(), kind.key_of(row)), row.clone())
            })
            .collect()
    }

    fn summaries(plan: &Plan) -> Vec<String> {
        plan.tasks.iter().map(Task::summary).collect()
    }

    #[test]
    fn what_is_needed_comes_first_and_goes_last() {
        let documents = [
            document("rl", "limit", json!({})),
            document("service", "pay", json!({})),
            document("cf", "g/a.txt", json!({})),
        ];
        let mut plan = Plan::of(&documents, &There::new());
        let row = |name: &str| json!({ "namespace": "shop", "name": name, "revision": "r" });
        let kind = |word: &str| Kind::of_word(word).expect("a kind");
        plan.prune(
            &documents,
            &[(kind("svc"), row("old")), (kind("rl"), row("old")), (kind("svc"), row("pay")), (kind("cg"), row("g"))],
        );
        assert_eq!(
            summaries(&plan),
            [
                "create    service/pay in shop",
                "create    configfile/g/a.txt in shop",
                "create    ratelimit/limit in shop",
                "delete    ratelimit/old in shop",
                "delete    service/old in shop",
            ]
        );
        assert_eq!(plan.summary(), "3 to create, 0 to change, 2 to delete, 0 the same already");
    }

    #[test]
    fn only_what_differs_is_changed_and_only_as_it_was_seen() {
        let there = rows(&[
            (
                "svc",
                json!({"namespace": "shop", "name": "a", "comment": "x", "ports": "", "revision": "r1", "ctime": "t"}),
            ),
            ("svc", json!({"namespace": "shop", "name": "b", "comment": "x", "revision": "r2"})),
        ]);
        let documents = [
            document("svc", "a", json!({"comment": "x"})),
            document("svc", "b", json!({"comment": "y", "ports": "1"})),
        ];
        let plan = Plan::of(&documents, &there);
        assert_eq!((plan.same, summaries(&plan)), (1, vec!["change    service/b in shop".to_owned()]));
        assert_eq!(plan.tasks[0].body["revision"], "r2");
        let lines = ["- /comment: \"x\"", "+ /comment: \"y\"", "+ /ports: \"1\""];
        assert_eq!(plan.tasks[0].lines, lines);
        let mut row = json!({
            "step": "change", "kind": "service", "namespace": "shop", "name": "b",
            "document": "t.yaml, document 2 (line 7)",
        });
        let expected = |row: &Value| json!({ "tasks": [row], "same": 1, "notes": [], "faults": [] });
        assert_eq!(plan.for_programs(true), expected(&row));
        row["differences"] = json!(lines);
        assert_eq!(plan.for_programs(false), expected(&row));
    }

    #[test]
    fn faults_are_told_by_file_and_document() {
        let documents = [document("rl", "a", json!({"prio": 1}))];
        let plan = Plan::of(&documents, &There::new());
        assert_eq!(plan.faults, ["t.yaml, document 2 (line 7): ratelimit/a: prio is not known"]);
        assert!(plan.tasks.is_empty());
    }

    #[test]
    fn what_is_in_force_already_is_not_released_again() {
        let spec = json!({"description": "x"});
        let documents = [document("rl", "a", spec), document("rl", "b", json!({}))];
        let order = documents[0].kind.order();
        let rule = json!({"name": "a", "namespace": "shop", "description": "x", "enable": true});
        let released = json!({"release_name": "one", "rule": rule});
        let in_force =
            [((order, documents[0].key.clone()), InForce { normal: Some(released), grays: Vec::new() })].into();
        let mut plan = Plan::default();
        let there = rows(&[("rl", json!({"namespace": "shop", "name": "b", "revision": "r"}))]);
        plan.release(&documents, &there, &in_force);
        assert_eq!(summaries(&plan), ["release   ratelimit/b in shop"]);
        assert_eq!(
            plan.tasks[0].body,
            *json!({"rule_name": "b", "namespace": "shop", "revision": "r"}).as_object().expect("one")
        );
    }

    #[test]
    fn a_content_differs_by_its_lines() {
        let of = |content: &str| json!({ "content": content, "format": "text" }).as_object().expect("fields").clone();
        assert_eq!(differences(&of("a\nb\n"), &of("a\nc\n")), ["@@ -1,2 +1,2 @@", " a", "-b", "+c"]);
    }
}
