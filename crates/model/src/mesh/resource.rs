//! xDS resources, shared by all clients that get the same bytes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use crate::model::rule::release::RuleRelease;

/// Type of a resource, in the order in which changes are sent: a referenced resource precedes its referrers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceType {
    Cluster,
    Endpoints,
    Listener,
    Route,
}

impl ResourceType {
    pub const ALL: [ResourceType; 4] =
        [ResourceType::Cluster, ResourceType::Endpoints, ResourceType::Listener, ResourceType::Route];

    /// Returns the position in [`ResourceType::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the label in metrics and answers.
    pub fn label(self) -> &'static str {
        match self {
            ResourceType::Cluster => "cds",
            ResourceType::Endpoints => "eds",
            ResourceType::Listener => "lds",
            ResourceType::Route => "rds",
        }
    }

    pub fn type_url(self) -> &'static str {
        match self {
            ResourceType::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            ResourceType::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            ResourceType::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            ResourceType::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    pub fn of_url(url: &str) -> Option<ResourceType> {
        ResourceType::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    /// Reports whether a response contains all subscribed resources, because an absent one counts as deleted.
    pub fn is_whole(self) -> bool {
        matches!(self, ResourceType::Cluster | ResourceType::Listener)
    }
}

/// Version of a resource, written `INDEX-HASH`; equal on all nodes that have applied the same entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Log index of the newest change that the resource depends on.
    pub index: u64,
    /// Hash of its bytes: a client with equal bytes is sent nothing.
    pub hash: u64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.index, self.hash)
    }
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Version, ()> {
        let (index, hash) = text.split_once('-').ok_or(())?;
        let hash = (hash.len() == 16).then(|| u64::from_str_radix(hash, 16).ok()).flatten().ok_or(())?;
        Ok(Version { index: index.parse().map_err(|_| ())?, hash })
    }
}

/// Resources of one type by name. Cheap to clone and to compare with an older map.
pub type Resources = OrdMap<Arc<str>, Arc<Resource>>;

/// A resource: an encoded message, and its sources.
#[derive(Clone, Debug)]
pub struct Resource {
    pub kind: ResourceType,
    pub name: Arc<str>,
    pub version: Version,
    /// First part of the encoded message: a field with the name if that differs from the one under which the body was
    /// encoded, otherwise empty.
    pub head: Bytes,
    /// Rest of the message, shared by all its names.
    pub body: Bytes,
    /// Releases of rules from which it was built.
    pub releases: Vec<Arc<RuleRelease>>,
    /// Clusters that a listener or route configuration references, in order.
    pub clusters: Vec<Arc<str>>,
}

impl Resource {
    /// Returns the encoded message.
    pub fn bytes(&self) -> Bytes {
        if self.head.is_empty() { self.body.clone() } else { [&self.head[..], &self.body[..]].concat().into() }
    }

    /// Returns the size of the encoded message in bytes.
    pub fn size(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Reports whether a client that has the other one needs this one.
    pub fn differs(&self, other: &Resource) -> bool {
        self.version.hash != other.version.hash
    }
}

/// Compares versions and source releases instead of bytes, because maps with thousands of resources are compared for
/// every stream.
impl PartialEq for Resource {
    fn eq(&self, other: &Resource) -> bool {
        let mut releases = self.releases.iter().zip(&other.releases);
        self.version == other.version
            && self.releases.len() == other.releases.len()
            && releases.all(|(release, other)| Arc::ptr_eq(release, other) || release == other)
            && (self.kind, &self.name) == (other.kind, &other.name)
    }
}

impl Eq for Resource {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_written_and_read() {
        let version = Version { index: 42, hash: 0xab };
        assert_eq!(version.to_string(), "42-00000000000000ab");
        assert_eq!(version.to_string().parse(), Ok(version));
        for text in ["", "42", "42-", "x-00000000000000ab", "42-ab", "42-00000000000000ag"] {
            assert_eq!(text.parse::<Version>(), Err(()), "{text}");
        }
    }
}
