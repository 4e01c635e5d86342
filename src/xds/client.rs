//! Who a client is, by the first request of its stream and by its connection.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::model::grant::ReadScope;
use crate::model::mesh::Dialect;
use crate::model::rule::traffic::ServiceKey;
use crate::origin::Origin;

/// Place of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub region: String,
    pub zone: String,
    pub campus: String,
}

/// What is known of a client by its connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: Option<IpAddr>,
    /// Origin that limits count it by.
    pub origin: Origin,
    /// Scope of what it sees; what it does not see does not exist.
    pub read_scope: ReadScope,
}

/// A client of xDS: one stream.
#[derive(Clone, Debug)]
pub struct Client {
    pub dialect: Dialect,
    /// `node.id`; empty if it sends none.
    pub node_id: String,
    /// User agent and its version.
    pub agent: String,
    pub address: Option<IpAddr>,
    /// Labels that gray releases and shares look at, `CLIENT_IP` and `NODE_ID` among them.
    pub labels: BTreeMap<String, String>,
    /// The calling service; none for a gateway or an unnamed client.
    pub caller: Option<ServiceKey>,
    pub place: Place,
    /// Namespaces whose services a wildcard means; none for all that it may see.
    pub namespaces: Option<Arc<[String]>>,
    pub read_scope: ReadScope,
}
