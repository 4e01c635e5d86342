//! Objects of the calls: one shared object of every kind, and fresh ones for calls that change them.

use serde_json::{Value, json};

use super::{Bench, OTHER_NAMESPACE};
use crate::model::rule::Family;

/// Namespace of all things, and prefix of the created namespaces.
pub(super) const HOME: &str = "vault";
/// Prefix of the names of all things.
pub(super) const SCOPE: &str = "ledger";
/// Text in every visible field of a thing, and in no request.
pub(super) const SEAL: &str = "sealed words";

/// Objects that a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    Namespace,
    Service,
    Alias,
    Instance,
    Group,
    File,
    /// A file with two releases, the second active.
    FileReleases,
    /// The same with a gray release.
    FileGray,
    /// The same for the rules of a kind.
    Rule(&'static str),
    RuleReleases(&'static str),
    RuleGray(&'static str),
    /// A rule that acts on the service of its name in the other namespace.
    RuleAbroad(&'static str),
}

/// Names of one thing of every kind.
#[derive(Clone, Debug)]
pub(super) struct Thing {
    /// Name of the service, the group and the rules; the alias's name is derived from it.
    pub(super) tag: String,
    /// Namespace for calls about namespaces.
    pub(super) home: String,
    pub(super) turn: usize,
    pub(super) service_id: String,
    pub(super) alias_id: String,
    pub(super) instance_id: String,
    /// Ids of rules by kind.
    pub(super) rules: Vec<(&'static str, String)>,
    /// Ids of the releases `first`, `second` and `gray`.
    pub(super) releases: Vec<(&'static str, String)>,
}

impl Thing {
    fn named(turn: usize) -> Thing {
        let home = if turn == 0 { HOME.to_owned() } else { format!("{HOME}-{turn}") };
        Thing {
            tag: format!("{SCOPE}-{turn}"),
            home,
            turn,
            service_id: String::new(),
            alias_id: String::new(),
            instance_id: String::new(),
            rules: Vec::new(),
            releases: Vec::new(),
        }
    }

    pub(super) fn alias(&self) -> String {
        format!("{}-alias", self.tag)
    }

    /// Returns the id of its rule of a kind; an unused id if it has none.
    pub(super) fn rule(&self, kind: &str) -> &str {
        self.rules.iter().find(|(one, _)| *one == kind).map_or("none", |(_, id)| id)
    }

    /// Returns the texts by which an answer reveals it.
    pub(super) fn signs(&self) -> impl Iterator<Item = String> {
        let ids = [&self.service_id, &self.alias_id, &self.instance_id].into_iter();
        let ids = ids.chain(self.rules.iter().chain(&self.releases).map(|(_, id)| id)).filter(|id| !id.is_empty());
        std::iter::once(SEAL.to_owned()).chain(ids.cloned())
    }
}

/// Returns the kinds of rules.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    Family::ALL.iter().map(|family| family.kind())
}

/// Returns a rule of a kind about the service of the same name.
pub(super) fn rule(kind: &str, tag: &str) -> Value {
    rule_about(kind, tag, HOME)
}

/// Returns a rule about the service in the given namespace.
pub(super) fn rule_about(kind: &str, tag: &str, namespace: &str) -> Value {
    let service = json!({ "namespace": namespace, "service": tag });
    let mut rule = match kind {
        "faultdetectors" => json!({ "target_service": service }),
        "ratelimits" => json!({ "callee": service }),
        "circuitbreakers" => json!({ "rule_matcher": { "destination": service } }),
        _ => json!({ "routing_config": { "callee": service } }),
    };
    rule["name"] = json!(tag);
    rule["namespace"] = json!(HOME);
    rule["enable"] = json!(true);
    rule
}

/// Returns a plan that does not advance during the test.
fn rollout_plan() -> Value {
    let steps = json!([{ "percent": 50, "hold_s": 3600 }, { "percent": 100 }]);
    json!({ "by": "CLIENT_IP", "steps": steps, "guards": [{ "kind": "signal" }] })
}

pub(super) fn gray_labels() -> Value {
    json!([{ "key": "zone", "value": { "value": "a" } }])
}

pub(super) struct World {
    pub(super) kept: Thing,
    admin: String,
    turn: usize,
}

impl World {
    pub(super) async fn build(bench: &Bench) -> World {
        let mut world = World { kept: Thing::named(0), admin: bench.log_in().await, turn: 0 };
        let namespaces = json!([{ "name": HOME, "comment": SEAL }, { "name": OTHER_NAMESPACE }]);
        world.post(bench, "/naming/v1/namespaces", namespaces).await;
        let mut kept = Thing::named(0);
        for need in [Need::Alias, Need::Instance, Need::FileGray] {
            kept = world.provide(bench, kept, need).await;
        }
        for kind in kinds() {
            kept = world.provide(bench, kept, Need::RuleGray(kind)).await;
        }
        world.kept = kept;
        world
    }

    /// Creates a fresh thing with what `need` requires.
    pub(super) async fn make(&mut self, bench: &Bench, need: Need) -> Thing {
        self.turn += 1;
        self.provide(bench, Thing::named(self.turn), need).await
    }

    async fn post(&self, bench: &Bench, path: &str, body: Value) -> Value {
        let (_, answer) = bench.send("POST", path, Some(&self.admin), body).await;
        assert_eq!(answer["code"], 200_000, "{path}: {answer}");
        answer
    }

    async fn made(&self, bench: &Bench, path: &str, element: &str, body: Value) -> String {
        let answer = self.post(bench, path, json!([body])).await;
        answer["responses"][0][element]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    async fn provide(&self, bench: &Bench, mut thing: Thing, need: Need) -> Thing {
        let tag = thing.tag.clone();
        match need {
            Need::Nothing => {}
            Need::Namespace => {
                self.post(bench, "/naming/v1/namespaces", json!([{ "name": thing.home, "comment": SEAL }])).await;
            }
            Need::Service => {
                let body = json!({ "namespace": HOME, "name": tag, "comment": SEAL });
                thing.service_id = self.made(bench, "/naming/v1/services", "service", body).await;
            }
            Need::Alias => {
                thing = Box::pin(self.provide(bench, thing, Need::Service)).await;
                let alias = thing.alias();
                let body = json!({
                    "namespace": HOME, "service": tag, "alias": alias, "alias_namespace": HOME, "comment": SEAL,
                });
                thing.alias_id = self.made(bench, "/naming/v1/service/alias", "serviceAlias", body).await;
            }
            Need::Instance => {
                let body = json!({
                    "namespace": HOME, "service": tag, "host": "10.0.0.1", "port": 80, "metadata": { "seal": SEAL },
                });
                thing.instance_id = self.made(bench, "/naming/v1/instances", "instance", body).await;
            }
            Need::Group => {
                let body = json!({ "namespace": HOME, "name": tag, "comment": SEAL });
                self.post(bench, "/config/v1/configfilegroups", body).await;
            }
            Need::File => {
                thing = Box::pin(self.provide(bench, thing, Need::Group)).await;
                let body = json!({ "namespace": HOME, "group": tag, "name": "app.properties", "content": SEAL });
                self.post(bench, "/config/v1/configfiles", body).await;
            }
            Need::FileReleases => {
                thing = Box::pin(self.provide(bench, thing, Need::File)).await;
                for name in ["first", "second"] {
                    self.post(bench, "/config/v1/configfiles/release", file_release(&tag, name)).await;
                }
            }
            Need::FileGray => {
                thing = Box::pin(self.provide(bench, thing, Need::FileReleases)).await;
                let mut body = file_release(&tag, "gray");
                (body["release_type"], body["betaLabels"]) = (json!("gray"), gray_labels());
                body["plan"] = rollout_plan();
                self.post(bench, "/config/v1/configfiles/release", body).await;
            }
            Need::Rule(kind) | Need::RuleAbroad(kind) => {
                let is_abroad = matches!(need, Need::RuleAbroad(_));
                let mut body = rule_about(kind, &tag, if is_abroad { OTHER_NAMESPACE } else { HOME });
                body["description"] = json!(SEAL);
                let path = format!("/naming/v1/{kind}");
                let answer = self.post(bench, &path, json!([body])).await;
                let item = answer["responses"][0].as_object().expect("an item");
                let id = item.values().find_map(|value| value["id"].as_str()).expect("a rule with an id");
                thing.rules.push((kind, id.to_owned()));
            }
            Need::RuleReleases(kind) => {
                thing = Box::pin(self.provide(bench, thing, Need::Rule(kind))).await;
                for name in ["first", "second"] {
                    let body = json!({ "rule_name": tag, "namespace": HOME, "release_name": name });
                    let path = format!("/naming/v1/{kind}/releases");
                    thing.releases.push((kind, self.made(bench, &path, "ruleRelease", body).await));
                }
            }
            Need::RuleGray(kind) => {
                thing = Box::pin(self.provide(bench, thing, Need::RuleReleases(kind))).await;
                let body = json!({
                    "rule_name": tag, "namespace": HOME, "release_name": "gray", "release_type": "gray",
                    "client_labels": gray_labels(), "plan": rollout_plan(),
                });
                let path = format!("/naming/v1/{kind}/releases");
                thing.releases.push((kind, self.made(bench, &path, "ruleRelease", body).await));
            }
        }
        thing
    }
}

pub(super) fn file_release(tag: &str, name: &str) -> Value {
    json!({ "namespace": HOME, "group": tag, "file_name": "app.properties", "name": name, "release_description": SEAL })
}
