//! Resources of xDS, as they are shared by all clients that get the same bytes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use crate::model::rule::release::RuleRelease;

/// Type of a resource, in the order in which changes are sent: what is named comes before who names it.
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

    /// Position in [`ResourceType::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Label on metrics and in answers.
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

    /// True if a response has every subscribed resource, as an absent one counts as deleted.
    pub fn is_whole(self) -> bool {
        matches!(self, ResourceType::Cluster | ResourceType::Listener)
    }
}

/// Version of a resource, written `INDEX-HASH`; the same on every node that has applied the same entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Log index of the newest change that it was made from.
    pub index: u64,
    /// Of its bytes: clients that have equal bytes are sent nothing.
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

/// Resources of one type, by name. Cheap to clone, and to compare with an older one.
pub type Resources = OrdMap<Arc<str>, Arc<Resource>>;

/// A resource: a message ready to be sent, and what it was made from.
#[derive(Clone, Debug)]
pub struct Resource {
    pub kind: ResourceType,
    pub name: Arc<str>,
    pub version: Version,
    /// The encoded message from its beginning: the field with the name, where it is another one than that under which
    /// the body was made, and nothing otherwise.
    pub head: Bytes,
    /// The rest of the message; it is shared by all names that it is known by.
    pub body: Bytes,
    /// Releases of rules that it was made from.
    pub releases: Vec<Arc<RuleRelease>>,
    /// Clusters that a listener or route configuration names, in order.
    pub clusters: Vec<Arc<str>>,
}

impl Resource {
    /// The encoded message.
    pub fn bytes(&self) -> Bytes {
        if self.head.is_empty() { self.body.clone() } else { [&self.head[..], &self.body[..]].concat().into() }
    }

    /// Bytes of the encoded message.
    pub fn size(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// True if a client that has the other one needs this one.
    pub fn differs(&self, other: &Resource) -> bool {
        self.version.hash != other.version.hash
    }
}

/// Two are equal that are of one version and made of the same releases: maps with thousands of them are compared for
/// every stream, and their bytes are not looked at.
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
