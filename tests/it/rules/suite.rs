//! Foundation of the tables: a cluster, calls to its nodes in turn, and a count of cases.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use super::families::{FAMILIES, Family};
use crate::harness::{Answer, Api, Cluster, report};

pub(super) const OK: u64 = 200_000;
pub(super) const UNCHANGED: u64 = 200_002;
pub(super) const BAD_REQUEST: u64 = 400_000;
pub(super) const WRONG_TYPE: u64 = 400_001;
pub(super) const EMPTY: u64 = 400_002;
pub(super) const TOO_MANY: u64 = 400_003;
pub(super) const INVALID: u64 = 400_103;
pub(super) const BAD_NAMESPACE: u64 = 400_110;
pub(super) const BAD_METADATA: u64 = 400_150;
pub(super) const TAKEN: u64 = 400_201;
pub(super) const MISSING: u64 = 400_202;
pub(super) const NAMESPACE_HAS_RULES: u64 = 400_220;
pub(super) const BAD_LABELS: u64 = 400_904;
pub(super) const CONFLICT: u64 = 409_000;

/// Fields that the server alone writes.
const RESPONSE_ONLY: [&str; 7] = ["id", "revision", "ctime", "mtime", "etime", "editable", "deleteable"];
const BATCH_MAX: usize = 100;

pub(super) struct Suite {
    pub(super) family: &'static Family,
    pub(super) cluster: Cluster,
    nodes: Vec<Api>,
    turn: AtomicUsize,
    names: AtomicUsize,
    cases: AtomicUsize,
}

/// An item that must be refused: what it is, itself, the code, and what the answer must name.
pub(super) struct Bad {
    pub(super) title: String,
    pub(super) item: Value,
    pub(super) code: u64,
    pub(super) names: String,
}

/// An item that must be taken: what it is, itself, and how it must be shown.
pub(super) struct Good {
    pub(super) title: String,
    pub(super) item: Value,
    pub(super) shown: Value,
}

impl Suite {
    pub(super) async fn start(family: &'static Family) -> Suite {
        let cluster = Cluster::start(3).await;
        let nodes = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
        Suite {
            family,
            cluster,
            nodes,
            turn: AtomicUsize::new(0),
            names: AtomicUsize::new(0),
            cases: AtomicUsize::new(0),
        }
    }

    /// The nodes hold one state after all that, and there were cases at all.
    pub(super) async fn finish(self) {
        self.cluster.expect_equal_state().await;
        report(format!("rules: {} cases for {}", self.cases.load(Ordering::Relaxed), self.family.kind));
    }

    /// The next node's surface.
    pub(super) fn api(&self) -> &Api {
        &self.nodes[self.turn.fetch_add(1, Ordering::Relaxed) % self.nodes.len()]
    }

    /// Two different nodes' surfaces.
    pub(super) fn two_apis(&self) -> [&Api; 2] {
        [self.api(), self.api()]
    }

    pub(super) fn count(&self, cases: usize) {
        self.cases.fetch_add(cases, Ordering::Relaxed);
    }

    /// The newest index that any node has applied: no answered write is newer.
    pub(super) async fn written(&self) -> u64 {
        let views = join_all(self.nodes.iter().map(Api::cluster)).await;
        let index = |view: Result<Answer, String>| view.expect("the node tells").body["state_hash"]["index"].as_u64();
        views.into_iter().filter_map(index).max().expect("every node has applied something")
    }

    /// A name that nothing else in the suite has.
    pub(super) fn fresh(&self, what: &str) -> String {
        format!("{what}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// The path of an operation, such as `/delete`.
    pub(super) fn path(&self, operation: &str) -> String {
        format!("/naming/v1/{}{operation}", self.family.kind)
    }

    /// A family that is not this one.
    pub(super) fn other_family(&self) -> &'static Family {
        FAMILIES.into_iter().find(|family| family.kind != self.family.kind).expect("there are others")
    }

    pub(super) async fn get(&self, operation: &str, query: &str) -> Answer {
        self.api().get(&format!("{}?{query}", self.path(operation))).await
    }

    pub(super) async fn post(&self, operation: &str, body: &Value) -> Answer {
        self.api().post(&self.path(operation), body).await
    }

    pub(super) async fn put(&self, operation: &str, body: &Value) -> Answer {
        self.api().put(&self.path(operation), body).await
    }

    /// Creates a rule and returns it as answered.
    pub(super) async fn create(&self, item: &Value) -> Value {
        let answer = self.post("", &json!([item])).await;
        self.only_entity(answer)
    }

    /// A new rule with nothing but its names and these fields.
    pub(super) async fn rule(&self, namespace: &str, more: Value) -> Value {
        let item = json!({"name": self.fresh("rule"), "namespace": namespace});
        self.create(&merged(&item, &more)).await
    }

    /// The rule in the answer of a write of one.
    #[track_caller]
    pub(super) fn only_entity(&self, answer: Answer) -> Value {
        let answer = answer.expect_code(OK);
        let entity = &answer.body["responses"][0][self.family.element];
        assert!(entity.is_object(), "no {} in {answer}", self.family.element);
        entity.clone()
    }

    /// Returns the rule with this id from the next node; fails unless there is exactly one.
    pub(super) async fn detail(&self, id: &Value) -> Value {
        let id = id.as_str().expect("ids are text");
        let answer = self.get("/detail", &format!("id={id}")).await.expect_code(OK);
        assert_eq!(answer.amount(), 1, "{answer}");
        answer.body["data"][0].clone()
    }

    /// The rules of a list, whatever their order, by id.
    pub(super) async fn listed(&self, operation: &str, query: &str) -> BTreeMap<String, Value> {
        let answer = self.get(operation, query).await.expect_code(OK);
        let data = answer.body["data"].as_array().unwrap_or_else(|| panic!("no data in {answer}"));
        data.iter().map(|rule| (text(&rule["id"]).to_owned(), rule.clone())).collect()
    }

    /// Checks that every item is accepted, returned, and shown on another node exactly as sent.
    pub(super) async fn expect_taken(&self, goods: Vec<Good>) {
        self.count(goods.len());
        let mut broken = Vec::new();
        for goods in goods.chunks(BATCH_MAX) {
            let namespace = self.fresh("taken");
            let named = |value: &Value, name: &str| merged(value, &json!({"namespace": namespace, "name": name}));
            let items: Vec<Value> = goods.iter().map(|good| named(&good.item, &self.fresh("rule"))).collect();
            let answer = self.post("", &Value::Array(items.clone())).await;
            let shown = self.listed("/detail", &format!("namespace={namespace}")).await;
            for (index, (good, item)) in goods.iter().zip(&items).enumerate() {
                let response = &answer.body["responses"][index];
                let answered = &response[self.family.element];
                let expected = named(&good.shown, text(&item["name"]));
                if response["code"] != OK || stripped(answered) != expected {
                    broken.push(format!("{}: {response}\nexpected {expected}", good.title));
                } else if shown.get(text(&answered["id"])) != Some(answered) {
                    broken.push(format!("{}: another node shows something else than {answered}", good.title));
                }
            }
        }
        assert!(broken.is_empty(), "{} items are not taken as sent:\n{}", broken.len(), broken.join("\n"));
    }

    /// Every item is refused on its own with its code, naming what is wrong, and leaves nothing.
    pub(super) async fn expect_refused(&self, bads: Vec<Bad>) {
        self.count(bads.len());
        let before = self.get("", "limit=0").await.amount();
        let mut broken = Vec::new();
        for bads in bads.chunks(BATCH_MAX) {
            let answer = self.post("", &bads.iter().map(|bad| bad.item.clone()).collect()).await;
            broken.extend(broken_promises(bads, &answer));
        }
        assert!(broken.is_empty(), "{} items are not refused as said:\n{}", broken.len(), broken.join("\n"));
        assert_eq!(self.get("", "limit=0").await.amount(), before, "a refused item left something");
    }

    /// The same items as updates of a rule, which stays as it is.
    pub(super) async fn expect_refused_on_update(&self, rule: &Value, bads: &[Bad]) {
        self.count(bads.len());
        let mut broken = Vec::new();
        for bads in bads.chunks(BATCH_MAX) {
            let of_rule = |bad: &Bad| merged(&bad.item, &json!({"id": rule["id"]}));
            let answer = self.put("", &bads.iter().map(of_rule).collect()).await;
            broken.extend(broken_promises(bads, &answer));
        }
        assert!(broken.is_empty(), "{} updates are not refused as said:\n{}", broken.len(), broken.join("\n"));
        assert_eq!(&self.detail(&rule["id"]).await, rule, "a refused update changed something");
    }
}

/// The items that are not refused with their code and the name of what is wrong.
fn broken_promises(bads: &[Bad], answer: &Answer) -> Vec<String> {
    let responses = bads.iter().enumerate().map(|(index, bad)| (bad, &answer.body["responses"][index]));
    let is_kept = |bad: &Bad, response: &Value| {
        response["code"] == bad.code && response["info"].as_str().is_some_and(|info| info.contains(&bad.names))
    };
    let broken = responses.filter(|(bad, response)| !is_kept(bad, response));
    broken.map(|(bad, response)| format!("{}: {response:.300}, not {} of {}", bad.title, bad.code, bad.names)).collect()
}

impl Bad {
    pub(super) fn new(title: impl Into<String>, item: Value, code: u64, names: impl Into<String>) -> Bad {
        Bad { title: title.into(), item, code, names: names.into() }
    }
}

impl Good {
    pub(super) fn new(title: impl Into<String>, item: Value, shown: Value) -> Good {
        Good { title: title.into(), item, shown }
    }
}

/// The rule without what the server alone writes.
#[track_caller]
pub(super) fn stripped(rule: &Value) -> Value {
    let mut rule = rule.clone();
    for field in RESPONSE_ONLY {
        assert!(object(&mut rule).remove(field).is_some(), "no {field} in {rule}");
    }
    rule
}

/// `base` with the fields of `more` laid over it.
pub(super) fn merged(base: &Value, more: &Value) -> Value {
    let mut all = base.clone();
    object(&mut all).extend(more.as_object().expect("fields").clone());
    all
}

/// `base` with another value at a JSON pointer; the field itself may be new.
pub(super) fn with(base: &Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    let mut changed = base.clone();
    let place = changed.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent} in {base}"));
    match place {
        Value::Array(items) => items[field.parse::<usize>().expect("an index")] = value,
        _ => drop(object(place).insert(field.to_owned(), value)),
    }
    changed
}

/// `base` without what is at a JSON pointer.
pub(super) fn without(base: &Value, pointer: &str) -> Value {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    let mut changed = base.clone();
    let removed = changed.pointer_mut(parent).and_then(|place| object(place).remove(field));
    assert!(removed.is_some(), "nothing at {pointer} in {base}");
    changed
}

/// Place of a JSON pointer in an answer: `/rules/0/port` is `rules[0].port`.
pub(super) fn place(pointer: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|step| match step.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!(".{step}"),
    });
    steps.collect::<String>().trim_start_matches('.').to_owned()
}

pub(super) fn object(value: &mut Value) -> &mut Map<String, Value> {
    value.as_object_mut().expect("an object")
}

#[track_caller]
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a text is expected, not {value}"))
}
