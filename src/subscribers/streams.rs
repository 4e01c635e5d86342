//! Open streams of xDS on this node: the client of each, and the resources that it acknowledged or refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, ResourceType, Resources, Version};
use crate::model::percent::unescaped;
use crate::model::time::Timestamp;

/// All open streams.
#[derive(Default)]
pub struct Streams {
    next: AtomicU64,
    open: Arc<Mutex<HashMap<u64, Arc<StreamEntry>>>>, // bound: xds-streams
}

/// Client of a stream.
#[derive(Clone, Debug)]
pub struct StreamClient {
    pub dialect: Dialect,
    /// `node.id`; empty if the client sends none.
    pub node_id: String,
    /// User agent with its version.
    pub agent: String,
    pub address: Option<IpAddr>,
    pub labels: Arc<BTreeMap<String, String>>, // bound: xds-streams
    pub is_delta: bool,
    pub since: Timestamp,
}

/// An open stream.
pub struct StreamEntry {
    /// Number of the stream on this node.
    pub number: u64,
    pub client: StreamClient,
    types: Mutex<[Delivered; 4]>,
}

/// State of one resource type of a stream.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// Set if the client subscribed to this type.
    pub is_subscribed: bool,
    /// Last version sent per resource, including versions that the client refused.
    pub sent: Resources,
    /// Resources that the client acknowledged.
    pub acked: Resources,
    /// Time at which the unanswered response was sent.
    pub in_flight: Option<Instant>,
    /// The last response that was refused, until a later one is acknowledged.
    pub refused: Option<RefusedResponse>,
    /// Refusals with a resource that the client still lacks, the oldest first; at most [`REFUSALS_KEPT`].
    pub refusals: Vec<Arc<ResourceRefusal>>,
}

/// Maximum number of refusals stored per type of a stream.
pub const REFUSALS_KEPT: usize = 8;

/// A refusal with the refused resources.
#[derive(Clone, Debug)]
pub struct ResourceRefusal {
    /// The client's message, truncated to 4 KiB.
    pub message: String,
    pub at: Timestamp,
    /// Refused resources by the names that the client uses.
    pub resources: BTreeMap<Arc<str>, Arc<Resource>>, // bound: xds-streams
}

/// A response that a client refused.
#[derive(Clone, Debug)]
pub struct RefusedResponse {
    /// The client's message, truncated to 4 KiB.
    pub message: String,
    pub at: Timestamp,
    /// Resources that were new in the response, or only those of them that the message names.
    pub resources: Vec<(Arc<str>, Version)>,
}

/// Answer of a client to a resource.
#[derive(Clone, Debug)]
pub enum AckState {
    Acknowledged,
    Refused(Arc<ResourceRefusal>),
    InFlight,
}

impl Delivered {
    /// Returns the client's answer to a version of a resource.
    pub fn ack_state(&self, name: &str, version: Version) -> AckState {
        if self.acked.get(name).is_some_and(|acked| acked.version.hash == version.hash) {
            return AckState::Acknowledged;
        }
        let is_of =
            |refusal: &&Arc<ResourceRefusal>| refusal.resources.get(name).is_some_and(|one| one.version == version);
        match self.refusals.iter().rev().find(is_of) {
            Some(refusal) => AckState::Refused(refusal.clone()),
            None => AckState::InFlight,
        }
    }
}

/// Registration of a stream, removed on drop.
pub struct Registered {
    number: u64,
    entry: Arc<StreamEntry>,
    open: Arc<Mutex<HashMap<u64, Arc<StreamEntry>>>>, // bound: xds-streams
}

impl Streams {
    pub fn begin(&self, client: StreamClient) -> Registered {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let entry = Arc::new(StreamEntry { number, client, types: Mutex::default() });
        self.open.lock().insert(number, entry.clone());
        Registered { number, entry, open: self.open.clone() }
    }

    /// Returns the namespaces of the resources that clients were sent.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for entry in self.all() {
            for kind in ResourceType::ALL {
                let given = entry.types.lock()[kind.index()].sent.clone();
                add_namespaces(&given, &mut found);
            }
        }
        found
    }

    /// Returns all streams, the oldest first.
    pub fn all(&self) -> Vec<Arc<StreamEntry>> {
        let mut all: Vec<_> = self.open.lock().iter().map(|(number, entry)| (*number, entry.clone())).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// Adds the namespaces in the names of resources. After each name it seeks to the next namespace.
fn add_namespaces(given: &Resources, found: &mut BTreeSet<String>) {
    let mut behind = Bound::Unbounded;
    while let Some((name, _)) = given.range::<_, str>((behind.as_ref().map(String::as_str), Bound::Unbounded)).next() {
        let Some((start, end)) = namespace_in(name) else {
            behind = Bound::Excluded(name.to_string());
            continue;
        };
        let namespace = unescaped(&name[start..end]);
        found.insert(namespace);
        // `0` is the character after `/`, so this bound skips the names that start with `NAMESPACE/`.
        behind = if end == name.len() {
            Bound::Excluded(name.to_string())
        } else {
            Bound::Included(format!("{}0", &name[..end]))
        };
    }
}

/// Returns the range of the namespace in `NAMESPACE/…`, also after `inbound/`, `outbound/` and
/// `xdstp://AUTHORITY/TYPE/`.
fn namespace_in(name: &str) -> Option<(usize, usize)> {
    let of_proxy = ["inbound/", "outbound/"].into_iter().find(|start| name.starts_with(start));
    let start = match name.strip_prefix("xdstp://") {
        Some(rest) => name.len() - rest.splitn(3, '/').nth(2)?.len(),
        None => of_proxy.map_or(0, str::len),
    };
    match name[start..].find('/') {
        Some(length) => Some((start, start + length)),
        None => of_proxy.map(|_| (start, name.len())),
    }
}

impl StreamEntry {
    pub fn delivered(&self, kind: ResourceType) -> Delivered {
        self.types.lock()[kind.index()].clone()
    }
}

impl Registered {
    /// Replaces the state of one resource type.
    pub fn replace(&self, kind: ResourceType, state: Delivered) {
        // The old state may be large, so it is dropped after the lock is released.
        let before = std::mem::replace(&mut self.entry.types.lock()[kind.index()], state);
        drop(before);
    }

    /// Changes the state of one resource type.
    pub fn update(&self, kind: ResourceType, change: impl FnOnce(&mut Delivered)) {
        change(&mut self.entry.types.lock()[kind.index()]);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.open.lock().remove(&self.number);
    }
}

/// Streams and resources for tests.
#[cfg(test)]
pub(crate) mod testing {
    use bytes::Bytes;

    use super::*;
    use crate::model::mesh::resource::{Resource, Version};

    /// Returns a cluster with a body of this many bytes.
    pub(crate) fn cluster(name: &str, hash: u64, size: usize) -> Arc<Resource> {
        Arc::new(Resource {
            kind: ResourceType::Cluster,
            name: name.into(),
            version: Version { index: 1, hash },
            head: Bytes::new(),
            body: Bytes::from(vec![7; size]),
            releases: Vec::new(),
            clusters: Vec::new(),
        })
    }

    /// Opens a stream of a gRPC client at 10.0.0.9.
    pub(crate) fn stream(streams: &Streams, node_id: &str) -> Registered {
        streams.begin(StreamClient {
            dialect: Dialect::Grpc,
            node_id: node_id.into(),
            agent: "gRPC".into(),
            address: None,
            labels: Arc::new([("CLIENT_IP".to_owned(), "10.0.0.9".to_owned())].into()),
            is_delta: false,
            since: Timestamp(7),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{cluster, stream};
    use super::*;

    #[test]
    fn namespaces_are_those_of_what_clients_were_sent() {
        let streams = Streams::default();
        let names = ["shop/pay", "shop/pay|v2", "a%2Fb/x", "shop0/y", "inbound/in/pay", "outbound", "outbound/out"];
        let federated = ["xdstp://authority/envoy.config.cluster.v3.Cluster/far/pay"];
        let [one, two] = ["one", "two"].map(|id| stream(&streams, id));
        let given = |names: &[&str]| Delivered {
            sent: names.iter().map(|name| (Arc::from(*name), cluster(name, 1, 1))).collect(),
            ..Delivered::default()
        };
        one.replace(ResourceType::Cluster, given(&names));
        two.replace(ResourceType::Endpoints, given(&federated));
        let found: Vec<String> = streams.namespaces().into_iter().collect();
        assert_eq!(found, ["a/b", "far", "in", "out", "shop", "shop0"]);
        drop(one);
        assert_eq!(streams.namespaces().len(), 1);
    }
}
