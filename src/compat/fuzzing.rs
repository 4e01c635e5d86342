//! Entry point for [`crate::fuzzing`]: the surface over a catalog that never changes, on a clock that advances whenever
//! a request waits.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use super::*;
use crate::catalog::{Catalog, Credential};
use crate::data_key::DataKey;
use crate::keyring::Keyring;
use crate::model::config_file::ConfigKey;
use crate::model::config_lookup::{Lookup, Released, Unreadable};
use crate::model::grant::ReadScope;
use crate::model::grant::{Grant, Grants, Role, Verb};
use crate::model::signature::AppKeys;
use crate::model::time::Timestamp;
use crate::operations::token_hash;
use crate::origin::Origin;
use crate::reads::{LiveMember, Sight};
use crate::watch::{Hub, WatchKey};

/// Peer that sends the requests: a trusted proxy.
const PEER: ([u8; 4], u16) = ([127, 0, 0, 1], 1);
/// Token with access to one namespace.
const TOKEN: &str = "a-valid-token";
/// Maximum bytes of a target, as the listener enforces it.
const TARGET_BYTES_MAX: usize = 40 * 1024;

/// A node with one catalog that never changes.
#[derive(Clone)]
struct Still {
    catalog: Arc<Catalog>,
    keyring: Arc<Keyring>,
    hub: Hub,
}

impl ConfigSource for Still {
    type Guard = ();

    fn guard(&self, credential: &Credential) -> (WatchKey, ()) {
        (WatchKey::credential(credential), ())
    }

    fn newest_id(&self) -> u32 {
        self.catalog.configs.newest_notification_id()
    }

    fn resolve(&self, lookup: &Lookup) -> Option<Arc<Released>> {
        let find = |namespace| self.catalog.configs.find(namespace, &lookup.group, &lookup.file, &lookup.client);
        lookup.namespaces.iter().find_map(|namespace| find(namespace)).cloned()
    }

    fn notification_id(&self, lookup: &Lookup) -> Option<u32> {
        let id = |namespace| self.catalog.configs.notification_id(namespace, &lookup.group, &lookup.file);
        lookup.namespaces.iter().filter_map(|namespace| id(namespace)).max()
    }

    fn highest_version(&self, namespace: &str, group: &str, file: &str) -> u64 {
        self.catalog.configs.highest_version(&ConfigKey::new(namespace, group, file))
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }

    async fn wait_applied(&self, limit: Duration, is_reached: impl Fn(u32) -> bool + Send + Sync) -> bool {
        tokio::time::sleep(limit).await;
        is_reached(self.newest_id())
    }

    async fn await_horizon(&self, limit: Duration) -> bool {
        tokio::time::sleep(limit).await;
        false
    }

    fn was_at_horizon_lately(&self) -> bool {
        true
    }

    fn live_members(&self) -> Vec<LiveMember> {
        vec![LiveMember { node_id: 1, compat: "n1:8890".into() }]
    }

    fn sight_of(&self, credential: &Credential, _: Option<IpAddr>) -> Option<Sight> {
        let reader = Grant { role: Role::Reader, namespace: "default".into(), name: "*".into() };
        matches!(credential, Credential::Token(token) if *token == token_hash(TOKEN)).then(|| Sight {
            origin: Origin::UNKNOWN,
            read_scope: ReadScope::new(&Grants::new([reader]), &[Verb::Read]),
        })
    }

    fn may_have_sealed(&self, _: &Credential, _: Option<IpAddr>, _: &str, _: &str) -> bool {
        false
    }

    fn text(&self, released: &Released) -> Result<Arc<str>, Unreadable> {
        if !released.encrypted {
            return released.content.text().cloned().ok_or(Unreadable::Absent);
        }
        self.keyring.open_released(released, &released.content).ok_or(Unreadable::Sealed)
    }

    async fn is_ready(&self) -> bool {
        true
    }

    fn access_keys(&self, app_id: &str, namespace: Option<&str>) -> Option<AppKeys> {
        self.keyring.of_app(&self.catalog, app_id, namespace)
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_576_478_257_344)
    }

    fn note_refused(&self, _: &str, _: Option<IpAddr>) {}
}

/// A surface that answers requests one after the other.
pub(crate) struct Counter {
    runtime: Runtime,
    source: Still,
    settings: CompatSettings,
    metrics: Arc<Metrics>,
}

impl Counter {
    pub(crate) fn over(catalog: Catalog) -> Counter {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let settings = CompatSettings {
            hold: Duration::from_secs(55),
            auth_required: false,
            trusted_proxies: vec!["127.0.0.0/8".parse().expect("a net")],
            hosts: Hosts::of(SocketAddr::from(PEER), ["config.example.com".to_owned()]),
            bound: SocketAddr::from(PEER),
            scheme: "http",
            render_cache_bytes: 1024 * 1024,
        };
        let keyring = Arc::new(Keyring::new(DataKey::of_hex(&"a".repeat(64))));
        let source = Still { catalog: Arc::new(catalog), keyring, hub: Hub::new(10) };
        Counter { runtime, source, settings, metrics: Arc::new(Metrics::new().expect("a consistent table")) }
    }

    /// Serves a request given by its head: `METHOD TARGET` and one line per header. Returns whether the answer has
    /// configuration or news of it.
    pub(crate) fn serve(&self, head: &[u8]) -> bool {
        let Some(request) = request(head) else { return false };
        let wants_body = request.method() != Method::HEAD;
        let (status, body) = self.runtime.block_on(async {
            // A new surface, because the clock has advanced and the previous request may have been the same.
            let surface = Surface::new(self.source.clone(), self.settings.clone(), self.metrics.clone());
            let router: Router = super::router(surface);
            let response = router.oneshot(request).await.expect("the surface always answers");
            (response.status(), response.into_body().collect().await.expect("a whole body").to_bytes())
        });
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{}", String::from_utf8_lossy(&body));
        assert_eq!(self.source.hub.waiters(), 0, "nobody is waited for any more");
        status == StatusCode::OK && wants_body != body.is_empty()
    }
}

/// Builds the request that the listener would pass on; `None` if the listener would refuse it.
fn request(head: &[u8]) -> Option<Request<Body>> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = str::from_utf8(lines.next()?).ok()?;
    let (method, target) = first.split_once(' ')?;
    if target.len() > TARGET_BYTES_MAX {
        return None;
    }
    let mut request = Request::builder().method(method).uri(target).extension(ConnectInfo(SocketAddr::from(PEER)));
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        let (name, value) =
            (HeaderName::from_bytes(&line[..at]).ok()?, HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?);
        request = request.header(name, value);
    }
    request.body(Body::empty()).ok()
}
