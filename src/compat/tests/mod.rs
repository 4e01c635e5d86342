//! The surface as clients meet it: requests through the router, on a node that lives in memory and
//! on a clock that stands still unless everyone waits.

mod access_keys;
mod foreign;
mod matrix;
mod polls;
mod pulls;
mod readers;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::ConnectInfo,
    http::{HeaderMap, Method, Request, StatusCode},
};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tower::ServiceExt;

use super::*;
use crate::model::config_file::{Format, canonical_file};
use crate::model::config_lookup::{Lookup, Released, Unreadable};
use crate::model::grant::ReadScope;
use crate::model::signature::AppKeys;
use crate::model::time::Timestamp;
use crate::view::{LiveMember, Proof};
use crate::watch::{Hub, WatchKey};

const HOLD: Duration = Duration::from_secs(55);
const TOKEN: &str = "a-valid-token";
/// The user that a certificate may name.
const NAMED: &str = "ann";

/// A label and its value, as a gray release demands it.
type Demand = (&'static str, &'static str);

/// Everything that was published, as one node has applied it.
#[derive(Clone)]
struct Fake(Arc<Node>);

struct Node {
    /// Normal and gray release of every file, by namespace, group and stored name.
    files: Mutex<BTreeMap<[String; 3], Slot>>,
    ids: Mutex<BTreeMap<[String; 3], u32>>,
    versions: Mutex<BTreeMap<[String; 3], u64>>,
    newest_id: watch::Sender<u32>,
    hub: Hub,
    members: Mutex<Vec<LiveMember>>,
    /// The newest id that the leader knows, and how often it was asked; without one nobody leads.
    leader: Mutex<Option<u32>>,
    questions: AtomicU64,
    is_at_horizon: AtomicBool,
    keys: Mutex<BTreeMap<String, AppKeys>>,
    /// What the holder of the token may read.
    read_scope: Mutex<ReadScope>,
    /// Whether the holder of the token may have what is sealed, and whether this node can open it.
    is_client: AtomicBool,
    has_key: AtomicBool,
    /// Milliseconds since 1970.
    now: AtomicU64,
    /// Of which apps readers were refused, as it was written down.
    refused: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Slot {
    normal: Option<Arc<Released>>,
    gray: Option<(Demand, Arc<Released>)>,
}

fn key(namespace: &str, group: &str, file: &str) -> [String; 3] {
    [namespace, group, file].map(str::to_owned)
}

impl Fake {
    fn new(waiters_max: usize) -> Self {
        Fake(Arc::new(Node {
            files: Mutex::default(),
            ids: Mutex::default(),
            versions: Mutex::default(),
            newest_id: watch::Sender::new(0),
            hub: Hub::new(waiters_max),
            members: Mutex::default(),
            leader: Mutex::default(),
            questions: AtomicU64::default(),
            is_at_horizon: AtomicBool::default(),
            keys: Mutex::default(),
            read_scope: Mutex::default(),
            is_client: AtomicBool::default(),
            has_key: AtomicBool::default(),
            now: AtomicU64::default(),
            refused: Mutex::default(),
        }))
    }

    /// Publishes in the group `app`.
    fn publish(&self, namespace: &str, file: &str, content: &str) {
        self.change(namespace, file, |slot, version| {
            slot.normal = Some(released(namespace, file, version, content));
        });
    }

    /// The same of a file that is kept encrypted: what is kept is the text turned around.
    fn publish_sealed(&self, file: &str, content: &str) {
        let sealed: String = content.chars().rev().collect();
        self.change("default", file, |slot, version| {
            let new = Released::new("default", "app", file, version, Format::Properties, sealed.as_str().into());
            slot.normal = Some(Arc::new(new.sealed()));
        });
    }

    fn publish_gray(&self, file: &str, content: &str, demand: Demand) {
        self.change("default", file, |slot, version| {
            slot.gray = Some((demand, released("default", file, version, content)));
        });
    }

    fn stop_gray(&self, file: &str) {
        self.change("default", file, |slot, _| slot.gray = None);
    }

    fn delete(&self, namespace: &str, file: &str) {
        self.change(namespace, file, |slot, _| *slot = Slot::default());
    }

    fn change(&self, namespace: &str, file: &str, change: impl FnOnce(&mut Slot, u64)) {
        let id = *self.0.newest_id.borrow() + 1;
        let version = self.highest_version(namespace, "app", file) + 1;
        change(self.0.files.lock().entry(key(namespace, "app", file)).or_default(), version);
        self.0.versions.lock().insert(key(namespace, "app", file), version);
        self.0.ids.lock().insert(key(namespace, "app", &canonical_file(file)), id);
        self.0.newest_id.send_replace(id);
        self.0.hub.wake([WatchKey::config(namespace, "app", file)]);
    }

    fn find(&self, namespace: &str, lookup: &Lookup) -> Option<Arc<Released>> {
        let files = self.0.files.lock();
        let toggled = match lookup.file.to_lowercase().strip_suffix(".properties") {
            Some(stem) => lookup.file[..stem.len()].to_owned(),
            None => format!("{}.properties", lookup.file),
        };
        let seen = |slot: &Slot| {
            let gray = slot.gray.as_ref().filter(|((label, value), _)| lookup.client.get(label) == Some(*value));
            gray.map(|(_, released)| released.clone()).or_else(|| slot.normal.clone())
        };
        let exact = |name: &str| seen(files.get(&key(namespace, &lookup.group, name))?);
        let ignoring_case = |name: &str| {
            let is_equal = |[space, group, file]: &[String; 3]| {
                space == namespace && *group == lookup.group && file.to_lowercase() == name.to_lowercase()
            };
            let mut equal = files.iter().filter(|(key, _)| is_equal(key)).filter_map(|(_, slot)| seen(slot));
            equal.next().filter(|_| equal.next().is_none())
        };
        let names = [lookup.file.as_str(), &toggled];
        names.into_iter().find_map(exact).or_else(|| names.into_iter().find_map(ignoring_case))
    }
}

fn released(namespace: &str, file: &str, version: u64, content: &str) -> Arc<Released> {
    Arc::new(Released::new(namespace, "app", file, version, Format::Properties, content.into()))
}

impl ConfigSource for Fake {
    type Guard = ();

    fn guard(&self, proof: &Proof) -> (WatchKey, ()) {
        (WatchKey::credential(proof), ())
    }

    fn newest_id(&self) -> u32 {
        *self.0.newest_id.borrow()
    }

    fn resolve(&self, lookup: &Lookup) -> Option<Arc<Released>> {
        lookup.namespaces.iter().find_map(|namespace| self.find(namespace, lookup))
    }

    fn notification_id(&self, lookup: &Lookup) -> Option<u32> {
        let ids = self.0.ids.lock();
        let id = |namespace| ids.get(&key(namespace, &lookup.group, &canonical_file(&lookup.file))).copied();
        lookup.namespaces.iter().filter_map(|namespace| id(namespace)).max()
    }

    fn highest_version(&self, namespace: &str, group: &str, file: &str) -> u64 {
        self.0.versions.lock().get(&key(namespace, group, file)).copied().unwrap_or(0)
    }

    fn hub(&self) -> &Hub {
        &self.0.hub
    }

    async fn wait_for_id(&self, id: u32, limit: Duration) -> bool {
        let mut newest = self.0.newest_id.subscribe();
        timeout(limit, newest.wait_for(|newest| *newest >= id)).await.is_ok_and(|reached| reached.is_ok())
    }

    async fn await_horizon(&self, limit: Duration) -> bool {
        self.0.questions.fetch_add(1, Ordering::Relaxed);
        let leader = *self.0.leader.lock();
        let Some(newest) = leader else {
            tokio::time::sleep(limit).await;
            return false;
        };
        self.wait_for_id(newest, limit).await
    }

    fn was_at_horizon_lately(&self) -> bool {
        self.0.is_at_horizon.load(Ordering::Relaxed)
    }

    fn live_members(&self) -> Vec<LiveMember> {
        self.0.members.lock().clone()
    }

    fn sight_of(&self, proof: &Proof, _: Option<IpAddr>) -> Option<ReadScope> {
        let is_known = match proof {
            Proof::Token(token) => token == TOKEN,
            Proof::Certificate(name) => name == NAMED,
        };
        is_known.then(|| self.0.read_scope.lock().clone())
    }

    fn may_have_sealed(&self, _: &Proof, _: Option<IpAddr>, _: &str, _: &str) -> bool {
        self.0.is_client.load(Ordering::Relaxed)
    }

    fn text(&self, released: &Released) -> Result<Arc<str>, Unreadable> {
        if !released.encrypted {
            return released.content.text().cloned().ok_or(Unreadable::Absent);
        }
        let has_key = self.0.has_key.load(Ordering::Relaxed);
        has_key.then(|| released.content.chars().rev().collect::<String>().into()).ok_or(Unreadable::Sealed)
    }

    fn access_keys(&self, app_id: &str, _: Option<&str>) -> Option<AppKeys> {
        self.0.keys.lock().get(app_id).cloned()
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.0.now.load(Ordering::Relaxed))
    }

    fn note_refused(&self, app_id: &str, _: Option<IpAddr>) {
        self.0.refused.lock().push(app_id.to_owned());
    }
}

/// A surface over a [`Fake`], and what a test needs to look at.
struct Served {
    source: Fake,
    metrics: Arc<Metrics>,
    router: Router,
    peer: AtomicU64,
}

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Got {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("visible ASCII"))
    }
}

impl Served {
    fn new() -> Self {
        Self::with(100_000, |_| {})
    }

    fn with(waiters_max: usize, set: impl FnOnce(&mut CompatSettings)) -> Self {
        let mut settings = CompatSettings {
            hold: HOLD,
            auth_required: false,
            trusted_proxies: vec!["127.0.0.0/8".parse().expect("a net")],
            hosts: Hosts::any(),
            bound: SocketAddr::from(([127, 0, 0, 1], 8890)),
            scheme: "http",
            render_cache_bytes: 1024 * 1024,
        };
        set(&mut settings);
        let source = Fake::new(waiters_max);
        let metrics = Arc::new(Metrics::new().expect("the table is valid"));
        let router = router(Surface::new(source.clone(), settings, metrics.clone()));
        Served { source, metrics, router, peer: AtomicU64::new(1) }
    }

    /// Asks as a client of its own address, so that the floor does not see a repeat.
    async fn get(&self, target: &str) -> Got {
        let peer = self.peer.fetch_add(1, Ordering::Relaxed) as u32;
        self.ask(Method::GET, target, &[], SocketAddr::from((0x0a00_0000_u32.wrapping_add(peer).to_be_bytes(), 1)))
            .await
    }

    async fn get_with(&self, target: &str, headers: &[(&str, &str)]) -> Got {
        self.ask(Method::GET, target, headers, SocketAddr::from(([127, 0, 0, 1], 1))).await
    }

    async fn ask(&self, method: Method, target: &str, headers: &[(&str, &str)], peer: SocketAddr) -> Got {
        ask(self.router.clone(), method, target, headers, peer).await
    }

    /// Starts a poll of cluster `default` and returns when it is held.
    async fn held(&self, notifications: &str) -> JoinHandle<Got> {
        self.held_with(notifications, "&cluster=default").await
    }

    async fn held_with(&self, notifications: &str, rest: &str) -> JoinHandle<Got> {
        let before = self.source.hub().waiters();
        let (router, target) = (self.router.clone(), poll_target(notifications, rest));
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let poll = tokio::spawn(async move { ask(router, Method::GET, &target, &[], peer).await });
        while self.source.hub().waiters() == before {
            assert!(!poll.is_finished(), "the poll was answered at once");
            tokio::task::yield_now().await;
        }
        poll
    }

    async fn poll(&self, notifications: &str) -> Got {
        self.get(&poll_target(notifications, "&cluster=default")).await
    }

    fn ended(&self, outcome: &str) -> u64 {
        self.metrics.polls_ended.with_label_values(&[outcome]).get()
    }
}

/// Names of the members of an object, sorted.
fn members(object: &serde_json::Value) -> Vec<String> {
    let mut members: Vec<_> = object.as_object().expect("an object").keys().cloned().collect();
    members.sort();
    members
}

fn poll_target(notifications: &str, rest: &str) -> String {
    let notifications: String = url::form_urlencoded::byte_serialize(notifications.as_bytes()).collect();
    format!("/notifications/v2?appId=app&notifications={notifications}{rest}")
}

/// The `notifications` parameter for these names and ids.
fn list(items: &[(&str, i64)]) -> String {
    let item = |(name, id): &(&str, i64)| serde_json::json!({"namespaceName": name, "notificationId": id});
    serde_json::Value::from_iter(items.iter().map(item)).to_string()
}

async fn ask(router: Router, method: Method, target: &str, headers: &[(&str, &str)], peer: SocketAddr) -> Got {
    let mut request = Request::builder().method(method).uri(target).extension(ConnectInfo(peer));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.oneshot(request.body(Body::empty()).expect("a request")).await.expect("infallible");
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    Got { status: head.status, headers: head.headers, body }
}
