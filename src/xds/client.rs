//! Identity of a client, from the first request of its stream and from its connection.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use prost_types::value::Kind;

use super::keys::WildcardKey;
use super::locality::Locality;
use crate::model::config_lookup::DEFAULT_NAMESPACE;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::mesh::library::Library;
use crate::model::mesh::plan::Abilities;
use crate::model::mesh::probes::is_header_name;
use crate::model::mesh::{Dialect, TOKEN_KEY};
use crate::model::rule::traffic::ServiceKey;
use crate::model::text::first_bytes;
use crate::origin::Origin;
use crate::proto::envoy::config::core::v3::{Node, node::UserAgentVersionType};

const CLIENT_IP: &str = "CLIENT_IP";
const NODE_ID: &str = "NODE_ID";
const SERVICE: &str = "service";
const NAMESPACE: &str = "namespace";
const NAMESPACES: &str = "namespaces";
const ROLE: &str = "role";
const RE2: &str = "re2";
const CALLER_SERVICE_HEADER: &str = "caller_service_header";
/// Metadata keys that affect what a client is sent. They are stored before all others.
const KNOWN_KEYS: [&str; 9] = [
    SERVICE,
    NAMESPACE,
    NAMESPACES,
    ROLE,
    RE2,
    "outbound_port",
    "inbound_port",
    "application_port",
    CALLER_SERVICE_HEADER,
];

/// Bytes of a label in addition to its text: two strings in a map, and their allocations.
const OF_LABEL: usize = 128;

/// Properties of a client that are known from its connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: Option<IpAddr>,
    /// Origin that limits are counted by.
    pub origin: Origin,
    /// Resources that the client may see. All others do not exist for it.
    pub read_scope: ReadScope,
}

/// Client of one stream.
#[derive(Clone, Debug)]
pub struct Client {
    pub dialect: Dialect,
    /// Client library; only meaningful without a proxy.
    pub library: Library,
    /// `node.id`; empty if the client sends none.
    pub node_id: String,
    /// User agent with its version.
    pub agent: String,
    pub address: Option<IpAddr>,
    /// Labels that gray releases and shares match, including `CLIENT_IP` and `NODE_ID`.
    pub labels: Arc<BTreeMap<String, String>>, // bound: xds-names
    /// Calling service; none for a gateway or an unnamed client.
    pub caller: Option<ServiceKey>,
    pub locality: Locality,
    /// Namespaces that a wildcard subscription covers; none for all visible ones.
    pub namespaces: Option<Arc<[String]>>,
    pub read_scope: ReadScope,
    pub holds: Holds,
}

/// Shared cache entries that a stream uses. The cache retains them until the stream drops them.
#[derive(Clone, Debug, Default)]
pub struct Holds(Arc<Mutex<VecDeque<ScopeHold>>>); // bound: xds-names

#[derive(Debug)]
struct ScopeHold {
    scope: WildcardKey,
    _scope: Arc<()>,
    map: Option<Arc<MapShare>>,
}

/// Bytes of a resource map that some clients share, without the resources shared by all. Referenced by the streams that
/// use the map, and by the map itself.
#[derive(Debug)]
pub(super) struct MapShare(pub(super) usize);

impl MapShare {
    /// Returns the share of one of the streams that use the map.
    fn of_one(self: &Arc<Self>) -> usize {
        self.0 / (Arc::strong_count(self) - 1).max(1)
    }
}

/// Maximum number of scopes that a stream retains, the most recently used ones.
const HOLDS_MAX: usize = 8;

impl Holds {
    /// Retains a scope, and its map if one is given.
    pub(super) fn hold(&self, key: &WildcardKey, scope: Arc<()>, map: Option<Arc<MapShare>>) {
        let mut holds = self.0.lock();
        let known = holds.iter().position(|hold| hold.scope == *key).and_then(|at| holds.remove(at));
        if known.is_none() && holds.len() >= HOLDS_MAX {
            holds.pop_front();
        }
        let map = map.or_else(|| known.and_then(|hold| hold.map));
        holds.push_back(ScopeHold { scope: key.clone(), _scope: scope, map });
    }

    /// Returns this stream's share of the bytes of its maps.
    fn bytes(&self) -> usize {
        self.0.lock().iter().filter_map(|hold| hold.map.as_ref()).map(MapShare::of_one).sum()
    }
}

/// A client as described by its first request.
#[derive(Clone, Debug)]
pub struct Identity {
    pub client: Client,
    /// Number of labels and namespaces that were dropped or truncated.
    pub cut: usize,
}

impl Client {
    /// Reads the identity of a client. Parts that exceed a limit are dropped.
    pub fn of(node: Option<&Node>, peer: &Peer) -> Client {
        Identity::read(node, peer).client
    }

    /// Returns the abilities that the planning of rules depends on.
    pub fn abilities(&self) -> Abilities {
        Abilities {
            dialect: self.dialect,
            is_gateway: self.is_gateway(),
            has_caller_header: self.caller_header().is_some(),
            takes_large_expressions: self.has_label(RE2, "large"),
            is_callee_grpc: false,
            library: self.library,
        }
    }

    /// Returns a client without any properties of its own.
    pub(super) fn unknown(dialect: Dialect, namespaces: Option<Arc<[String]>>, read_scope: ReadScope) -> Client {
        Client {
            dialect,
            library: Library::Core,
            node_id: String::new(),
            agent: String::new(),
            address: None,
            labels: Default::default(),
            caller: None,
            locality: Locality::default(),
            namespaces,
            read_scope,
            holds: Holds::default(),
        }
    }

    /// Returns the namespace in which the client's short service names are resolved.
    pub(super) fn own_namespace(&self) -> Option<&str> {
        let of_caller = self.caller.as_ref().map(|caller| caller.namespace.as_str());
        of_caller.or_else(|| self.labels.get(NAMESPACE).map(String::as_str))
    }

    /// Reports whether the client is a front proxy, which has no calling service of its own.
    pub fn is_gateway(&self) -> bool {
        self.has_label(ROLE, "gateway")
    }

    /// Returns the header, in lower case, in which requests to this gateway name the calling service as
    /// `NAMESPACE/SERVICE`.
    pub fn caller_header(&self) -> Option<String> {
        let named = self.labels.get(CALLER_SERVICE_HEADER).filter(|name| self.is_gateway() && is_header_name(name));
        named.map(|name| name.to_ascii_lowercase())
    }

    /// Returns the bytes of the client's description and its share of the maps that it uses.
    pub(super) fn retained_bytes(&self) -> usize {
        let of_labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len() + OF_LABEL).sum();
        let namespaces = self.namespaces.iter().flat_map(|names| names.iter());
        let of_namespaces: usize = namespaces.map(|name| name.len() + OF_LABEL / 2).sum();
        of_labels + of_namespaces + self.node_id.len() + self.agent.len() + self.holds.bytes()
    }

    fn has_label(&self, key: &str, value: &str) -> bool {
        self.labels.get(key).is_some_and(|found| found == value)
    }
}

impl Identity {
    /// Reads the identity of a client.
    pub fn read(node: Option<&Node>, peer: &Peer) -> Identity {
        let unnamed = Node::default();
        let node = node.unwrap_or(&unnamed);
        let metadata = Metadata(node);
        let locality = locality_of(node);
        let mut labels = Labels::default();
        gather(&mut labels, metadata, &locality, peer);
        let own = own_names(metadata);
        let is_gateway = metadata.text(ROLE).is_some_and(|role| role == "gateway");
        let namespaces = match metadata.text(NAMESPACES) {
            Some(list) => listed(&list, &mut labels.cut),
            None => Some(own.namespace.iter().cloned().collect()),
        };
        let client = Client {
            dialect: Dialect::of_agent(&node.user_agent_name),
            library: Library::of_agent(&node.user_agent_name),
            node_id: first_chars(&node.id, limits::XDS_LABEL_VALUE_CHARS_MAX).to_owned(),
            agent: agent_of(node),
            address: peer.address,
            labels: Arc::new(labels.retained),
            caller: if is_gateway { None } else { own.caller() },
            locality,
            namespaces,
            read_scope: peer.read_scope.clone(),
            holds: Holds::default(),
        };
        Identity { client, cut: labels.cut }
    }
}

/// Metadata of a node: texts, numbers and booleans.
#[derive(Clone, Copy)]
struct Metadata<'a>(&'a Node);

impl<'a> Metadata<'a> {
    /// Returns a value as text, or `None` if it is missing, a list or a map.
    fn text(self, key: &str) -> Option<String> {
        scalar(self.0.metadata.as_ref()?.fields.get(key)?.kind.as_ref()?)
    }

    fn all(self) -> impl Iterator<Item = (&'a str, String)> {
        let fields = self.0.metadata.iter().flat_map(|metadata| &metadata.fields);
        fields.filter_map(|(key, value)| Some((key.as_str(), scalar(value.kind.as_ref()?)?)))
    }
}

fn scalar(kind: &Kind) -> Option<String> {
    match kind {
        Kind::StringValue(text) => Some(text.clone()),
        // All numbers are floating point: integers are formatted without a point, and negative zero without its sign.
        Kind::NumberValue(number) => Some((number + 0.0).to_string()),
        Kind::BoolValue(is_true) => Some(is_true.to_string()),
        Kind::NullValue(_) | Kind::ListValue(_) | Kind::StructValue(_) => None,
    }
}

/// Labels within their limits.
#[derive(Default)]
struct Labels {
    retained: BTreeMap<String, String>, // bound: xds-names
    bytes: usize,
    cut: usize,
}

impl Labels {
    /// Adds a label unless its key exists.
    fn add(&mut self, key: &str, value: &str) {
        let short_key = first_chars(key, limits::XDS_LABEL_KEY_CHARS_MAX);
        let short = first_chars(value, limits::XDS_LABEL_VALUE_CHARS_MAX);
        if self.retained.contains_key(short_key) {
            self.cut += usize::from(short_key.len() < key.len());
            return;
        }
        let bytes = self.bytes + short_key.len() + short.len();
        if self.retained.len() >= limits::XDS_LABELS_MAX || bytes > limits::XDS_LABELS_BYTES_MAX {
            self.cut += 1;
            return;
        }
        self.cut += usize::from(short_key.len() < key.len() || short.len() < value.len());
        self.bytes = bytes;
        self.retained.insert(short_key.to_owned(), short.to_owned());
    }
}

fn gather(labels: &mut Labels, metadata: Metadata<'_>, locality: &Locality, peer: &Peer) {
    if let Some(address) = peer.address {
        labels.add(CLIENT_IP, &address.to_canonical().to_string());
    }
    if !metadata.0.id.is_empty() {
        labels.add(NODE_ID, &metadata.0.id);
    }
    for key in KNOWN_KEYS {
        if let Some(value) = metadata.text(key) {
            labels.add(key, &value);
        }
    }
    for (key, text) in [("region", &locality.region), ("zone", &locality.zone), ("campus", &locality.campus)] {
        match metadata.text(key) {
            Some(own) => labels.add(key, &own),
            None if !text.is_empty() => labels.add(key, text),
            None => {}
        }
    }
    // The address comes from the connection alone, and the token is a secret.
    for (key, value) in metadata.all().filter(|(key, _)| !key.is_empty() && *key != CLIENT_IP && *key != TOKEN_KEY) {
        labels.add(key, &value);
    }
}

fn locality_of(node: &Node) -> Locality {
    let locality = node.locality.clone().unwrap_or_default();
    let short = |text: String| first_chars(&text, limits::PLACE_CHARS_MAX).to_owned();
    Locality { region: short(locality.region), zone: short(locality.zone), campus: short(locality.sub_zone) }
}

/// Namespace and service that a client declares as its own.
#[derive(Default)]
struct OwnNames {
    namespace: Option<String>,
    service: Option<String>,
}

impl OwnNames {
    fn caller(self) -> Option<ServiceKey> {
        let namespace = self.namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        self.service.map(|service| ServiceKey { service, namespace })
    }
}

/// Reads both from the metadata, else from the node's cluster, `namespace/service`.
fn own_names(metadata: Metadata<'_>) -> OwnNames {
    // No existing name is longer.
    let is_name = |text: &str, chars_max| !text.is_empty() && text.chars().count() <= chars_max;
    let sent = |key| metadata.text(key).filter(|text| is_name(text, limits::NAME_CHARS_MAX));
    let of_cluster = metadata.0.cluster.split_once('/').filter(|(namespace, service)| {
        is_name(namespace, 3 * limits::NAMESPACE_CHARS_MAX) && is_name(service, limits::NAME_CHARS_MAX)
    });
    let (namespace, service) = (sent(NAMESPACE), sent(SERVICE));
    OwnNames {
        namespace: namespace.or_else(|| of_cluster.map(|(namespace, _)| namespace.replace("%2F", "/"))),
        service: service.or_else(|| of_cluster.map(|(_, service)| service.to_owned())),
    }
}

/// Parses a comma-separated list of namespaces. Returns `None` for all namespaces.
fn listed(list: &str, cut: &mut usize) -> Option<Arc<[String]>> {
    let mut names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.contains(&"*") {
        return None;
    }
    names.sort_unstable();
    names.dedup();
    *cut += names.len().saturating_sub(limits::XDS_NAMESPACES_MAX);
    names.truncate(limits::XDS_NAMESPACES_MAX);
    // No existing namespace is longer.
    names.retain(|name| name.chars().count() <= limits::NAMESPACE_CHARS_MAX);
    Some(names.into_iter().map(str::to_owned).collect())
}

fn agent_of(node: &Node) -> String {
    let version = match &node.user_agent_version_type {
        Some(UserAgentVersionType::UserAgentVersion(version)) => version.clone(),
        Some(UserAgentVersionType::UserAgentBuildVersion(build)) => build
            .version
            .as_ref()
            .map_or_else(String::new, |v| format!("{}.{}.{}", v.major_number, v.minor_number, v.patch)),
        None => String::new(),
    };
    let agent = format!("{} {version}", node.user_agent_name);
    first_bytes(agent.trim(), limits::AGENT_BYTES_MAX).to_owned()
}

/// Returns the first characters of a text.
fn first_chars(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}
