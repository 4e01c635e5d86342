//! Questions of discovering clients.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::catalog::Catalog;
use crate::catalog::rules::ends_of;
use crate::model::code::{Code, Refusal};
use crate::model::config_lookup::CLIENT_ADDRESS_LABEL;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::name;
use crate::model::rule::Family;
use crate::model::rule::routing::RoutePolicy;
use crate::model::rule::traffic::ServiceKey;
use crate::watch::WatchKey;

/// Kind of resource that a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryKind {
    /// The instances of a service.
    Instances,
    Services,
    Namespaces,
    /// The rules of a family that concern a service; for routing, optionally those of one policy.
    Rules(Family, Option<RoutePolicy>),
}

/// A question of a client.
#[derive(Clone)]
pub struct Question {
    pub kind: DiscoveryKind,
    pub namespace: String,
    pub name: String,
    /// Revision that the client has.
    pub revision: String,
    /// Metadata that services must have, all pairs of it.
    pub metadata: BTreeMap<String, String>, // bound: request
    /// True to omit instances that are unhealthy or isolated.
    pub only_healthy: bool,
    /// Scope of what the client may see.
    pub read_scope: ReadScope,
    /// Labels that select gray releases.
    pub labels: BTreeMap<String, String>, // bound: request
    /// Name of the client's program.
    pub agent: String,
    pub address: Option<IpAddr>,
    /// True for an SDK of Polaris.
    pub is_polaris: bool,
    /// Longest wait for a change.
    pub hold: Duration,
}

impl Question {
    /// Validates the question, including limits on all that is stored while it is held. Adds the client's address to
    /// its labels unless they name one.
    pub fn checked(mut self) -> Result<Question, Refusal> {
        if matches!(self.kind, DiscoveryKind::Instances | DiscoveryKind::Rules(..)) {
            name::check_namespace(&self.namespace)?;
            name::check_service(&self.name)?;
        }
        name::check_length("namespace", &self.namespace, limits::NAMESPACE_CHARS_MAX, Code::InvalidNamespaceName)?;
        name::check_length("name", &self.name, limits::NAME_CHARS_MAX, Code::InvalidServiceName)?;
        name::check_length("revision", &self.revision, limits::ID_CHARS_MAX, Code::InvalidParameter)?;
        name::check_metadata(&self.metadata)?;
        name::check_metadata(&self.labels)?;
        if let Some(address) = self.address {
            self.labels.entry(CLIENT_ADDRESS_LABEL.to_owned()).or_insert_with(|| address.to_string());
        }
        Ok(self)
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// Returns the namespace of the requested services; `None` for all namespaces.
    pub(super) fn namespace_if_any(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the requested service, or the one that the name is an alias of.
    pub(super) fn resolve(&self, catalog: &Catalog) -> ServiceKey {
        let alias = catalog.aliases.get(&self.namespace, &self.name);
        let (namespace, name) = alias.map_or((&self.namespace, &self.name), |alias| (&alias.namespace, &alias.service));
        ServiceKey { namespace: namespace.clone(), service: name.clone() }
    }

    /// Returns the bytes of memory that the request holds while it waits, without its keys.
    pub(super) fn bytes(&self) -> usize {
        let pairs = self.labels.iter().chain(&self.metadata);
        let pairs = pairs.map(|(key, value)| 2 * size_of::<String>() + key.len() + value.len());
        size_of::<Question>()
            + self.agent.len()
            + self.namespace.len()
            + self.name.len()
            + self.revision.len()
            + pairs.sum::<usize>()
    }

    /// Returns the keys of everything that the answer can depend on.
    pub(super) fn keys(&self, ServiceKey { namespace, service }: &ServiceKey) -> Vec<WatchKey> {
        match self.kind {
            DiscoveryKind::Services => vec![WatchKey::services(self.namespace_if_any())],
            DiscoveryKind::Namespaces => vec![WatchKey::namespaces()],
            DiscoveryKind::Instances => vec![
                WatchKey::instances(namespace, service),
                WatchKey::service(namespace, service),
                WatchKey::service(&self.namespace, &self.name),
            ],
            DiscoveryKind::Rules(family, _) => {
                let ends = ends_of(namespace, service);
                let rules = ends.iter().map(|end| WatchKey::rules(family, &end.namespace, &end.service));
                rules.chain([WatchKey::service(&self.namespace, &self.name)]).collect()
            }
        }
    }
}
