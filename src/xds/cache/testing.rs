//! Resource cache over a catalog in memory. Commands are applied immediately.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use prost::Message;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::{Value, json};

use super::ResourceCache;
use crate::catalog::testing::Bench;
use crate::catalog::{Applied, Catalog, Change, Command, Op};
use crate::model::grant::ReadScope;
use crate::model::mesh::Dialect;
use crate::model::mesh::library::Library;
use crate::model::mesh::resource::{Resource, ResourceType, Resources};
use crate::model::release::{ReleaseOp, ReleaseType};
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Family, RuleDraft, RuleHead};
use crate::xds::applied::{AppliedChanges, AppliedState};
use crate::xds::client::Client;
use crate::xds::locality::Locality;
use crate::xds::{Source, View};

/// Catalog with its resource cache.
pub(crate) struct Stage {
    pub(crate) bench: Bench,
    pub(crate) state: Arc<CatalogInMemory>,
    pub(crate) cache: ResourceCache,
}

/// Catalog at a log index, with the changes that were not taken so far.
pub(crate) struct CatalogInMemory(Mutex<(Catalog, AppliedChanges)>);

impl CatalogInMemory {
    fn new(catalog: Catalog, index: u64) -> Self {
        CatalogInMemory(Mutex::new((catalog, AppliedChanges { changes: Some(Vec::new()), index })))
    }

    fn apply(&self, index: u64, catalog: Catalog, changes: &[Change]) {
        let (present, applied) = &mut *self.0.lock();
        (*present, applied.index) = (catalog, index);
        applied.changes.iter_mut().for_each(|all| all.extend(changes.iter().map(|change| (index, change.clone()))));
    }

    /// Replaces the catalog by one with unknown differences.
    pub(crate) fn replace(&self, catalog: Catalog, index: u64) {
        *self.0.lock() = (catalog, AppliedChanges { changes: None, index });
    }
}

impl AppliedState for CatalogInMemory {
    fn was_ready(&self) -> bool {
        true
    }

    fn follow(&self) {}

    /// Never ends, because the tests apply each change themselves.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn take(&self, read: &mut dyn FnMut(&Catalog)) -> AppliedChanges {
        let (catalog, applied) = &mut *self.0.lock();
        read(catalog);
        let none = AppliedChanges { changes: Some(Vec::new()), index: applied.index };
        std::mem::replace(applied, none)
    }

    fn index(&self) -> u64 {
        self.0.lock().1.index
    }

    fn wait_for(&self, index: u64, _: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.index() >= index })
    }

    fn await_read_barrier(&self, _: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async { true })
    }
}

pub(crate) fn drafts<T: DeserializeOwned>(items: Value) -> Vec<T> {
    serde_json::from_value(items).expect("drafts")
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::over(Bench::founded())
    }

    /// Creates a cache over this catalog.
    pub(crate) fn over(bench: Bench) -> Stage {
        let state = Arc::new(CatalogInMemory::new(bench.catalog.view(), bench.index));
        let cache = ResourceCache::new(state.clone(), Some("thuban.example".to_owned()));
        Stage { bench, state, cache }
    }

    /// Applies a command, which may be refused.
    pub(crate) fn try_apply(&mut self, command: Command) -> Applied {
        let applied = self.bench.apply(command);
        self.state.apply(self.bench.index, self.bench.catalog.view(), &applied.changes);
        self.cache.apply_changes();
        applied
    }

    pub(crate) fn apply(&mut self, command: Command) -> Applied {
        let applied = self.try_apply(command);
        for outcome in &applied.outcomes {
            assert!(outcome.code.is_success(), "{}", outcome.info());
        }
        applied
    }

    pub(crate) fn services(&mut self, op: Op, names: &[(&str, &str)]) {
        let items = names.iter().map(|(namespace, name)| json!({"namespace": namespace, "name": name}));
        self.apply(Command::Services(op, drafts(items.collect())));
    }

    /// Registers instances. Each is an object with at least `host`.
    pub(crate) fn instances(&mut self, op: Op, namespace: &str, service: &str, items: Value) {
        let mut items = items;
        for item in items.as_array_mut().expect("a list") {
            let with = json!({"namespace": namespace, "service": service, "port": 80});
            let fields = with.as_object().expect("an object").clone();
            let item = item.as_object_mut().expect("an object");
            fields.into_iter().for_each(|(key, value)| {
                item.entry(key).or_insert(value);
            });
        }
        self.apply(Command::Instances(op, drafts(items)));
    }

    /// Creates or updates a rule with this body in the namespace `shop`.
    pub(crate) fn save(&mut self, family: Family, name: &str, body: Value) {
        let command = self.saving(family, name, body);
        self.apply(command);
    }

    fn saving(&self, family: Family, name: &str, body: Value) -> Command {
        let is_there = self.bench.catalog.rules.of(family).named("shop", name).is_some();
        let op = if is_there { Op::Update } else { Op::Create };
        let body = DeserializeSeed::deserialize(family, body).expect("a body");
        let head = RuleHead { name: Some(name.into()), namespace: Some("shop".into()), ..RuleHead::default() };
        Command::Rules(op, vec![RuleDraft { head, body }])
    }

    /// Saves a routing rule, which may be refused.
    pub(crate) fn try_save(&mut self, name: &str, body: Value) {
        let command = self.saving(Family::Routing, name, body);
        self.try_apply(command);
    }

    /// Publishes a routing rule, which may be refused.
    pub(crate) fn try_publish(&mut self, name: &str, zone: Option<&str>) {
        let release = format!("r{}", self.bench.index);
        self.try_apply(publishing(Family::Routing, name, &release, zone));
    }

    /// Applies an operation to the newest active release of the matching type, if there is one.
    pub(crate) fn try_release(&mut self, op: ReleaseOp, name: &str) {
        let book = self.bench.catalog.rules.of(Family::Routing);
        let Some(rule) = book.named("shop", name) else { return };
        let is_gray = op == ReleaseOp::StopGray;
        let fits =
            |release: &&Arc<RuleRelease>| release.active && (release.release_type == ReleaseType::Gray) == is_gray;
        let last_modified = book.releases_of(&rule.id).filter(fits).max_by_key(|release| release.version);
        let Some(release) = last_modified else { return };
        let draft = json!({"rule_name": name, "release_name": release.name});
        self.try_apply(Command::RuleReleases(Family::Routing, op, drafts(json!([draft]))));
    }

    /// Removes the retired subsets.
    pub(crate) fn forget_retired(&self) {
        let later = tokio::time::Instant::now() + std::time::Duration::from_secs(3_600);
        self.cache.apply_changes_at(later);
    }

    /// Publishes the saved rule for all clients, or as a gray release for those with this label `zone`.
    pub(crate) fn publish(&mut self, family: Family, name: &str, release: &str, zone: Option<&str>) {
        self.apply(publishing(family, name, release, zone));
    }

    /// Applies an operation to a release of a rule.
    pub(crate) fn release(&mut self, family: Family, op: ReleaseOp, name: &str, release: &str) {
        let draft = json!({"rule_name": name, "release_name": release});
        self.apply(Command::RuleReleases(family, op, drafts(json!([draft]))));
    }

    /// Saves and publishes a custom route to `shop/pay`.
    pub(crate) fn route(&mut self, name: &str, rules: Value) {
        let callee = json!({"namespace": "shop", "service": "pay"});
        self.save(Family::Routing, name, json!({"routing_config": {"callee": callee, "rules": rules}}));
        let release = format!("r{}", self.bench.index);
        self.publish(Family::Routing, name, &release, None);
    }

    /// Returns the name of the newest release of a rule.
    pub(crate) fn newest_release(&self, name: &str) -> String {
        let book = self.bench.catalog.rules.of(Family::Routing);
        let rule = book.named("shop", name).expect("there");
        let last_modified = book.releases_of(&rule.id).max_by_key(|release| release.version);
        last_modified.expect("released").name.clone()
    }

    pub(crate) fn get(&self, client: &Client, kind: ResourceType, name: &str) -> Option<Arc<Resource>> {
        self.cache.view(client).get(kind, name)
    }

    /// Returns an existing resource, decoded.
    pub(crate) fn decoded<M: Message + Default>(&self, client: &Client, kind: ResourceType, name: &str) -> M {
        let resource = self.get(client, kind, name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!((resource.kind, &*resource.name), (kind, name));
        M::decode(resource.bytes()).expect("a message")
    }

    pub(crate) fn all(&self, client: &Client, kind: ResourceType) -> Resources {
        self.cache.view(client).all(kind)
    }
}

fn publishing(family: Family, name: &str, release: &str, zone: Option<&str>) -> Command {
    let mut draft = json!({"rule_name": name, "release_name": release});
    if let Some(zone) = zone {
        draft["release_type"] = "gray".into();
        draft["client_labels"] = json!([{"key": "zone", "value": {"type": "EXACT", "value": zone}}]);
    }
    Command::PublishRules(family, drafts(json!([draft])))
}

/// Returns a client with this dialect and these labels that sees everything.
pub(crate) fn client(dialect: Dialect, labels: &[(&str, &str)]) -> Client {
    Client {
        dialect,
        library: Library::Core,
        node_id: "node".into(),
        agent: "test".into(),
        address: Some([192, 0, 2, 1].into()),
        labels: Arc::new(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
        caller: None,
        locality: Locality::default(),
        namespaces: None,
        read_scope: ReadScope::Everything,
        holds: Default::default(),
    }
}
