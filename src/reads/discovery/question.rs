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

/// Kind of thing that a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryKind {
    /// The instances of a service.
    Instances,
    Services,
    Namespaces,
    /// The rules of a family that concern a service; of routes perhaps those of one policy only.
    Rules(Family, Option<RoutePolicy>),
}

/// A question, and the client that has it.
#[derive(Clone)]
pub struct Question {
    pub kind: DiscoveryKind,
    pub namespace: String,
    pub name: String,
    /// Revision that the client has.
    pub revision: String,
    /// Of services: all pairs have to be there.
    pub metadata: BTreeMap<String, String>, // bound: request
    /// Leaves out instances that are unhealthy or isolated.
    pub only_healthy: bool,
    /// Scope of what the client may know of.
    pub read_scope: ReadScope,
    /// Labels that choose gray releases.
    pub labels: BTreeMap<String, String>, // bound: request
    /// The program that asks, and from where.
    pub agent: String,
    pub address: Option<IpAddr>,
    /// The longest wait for a change.
    pub hold: Duration,
}

impl Question {
    /// The question if it makes sense, with the client's address among its labels unless it names another one. Whatever
    /// is kept while it is held has a limit.
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

    /// Labels by which gray releases judge the client.
    pub(super) fn labels(&self) -> Vec<(String, String)> {
        self.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The namespace that services are wanted of; none stands for all.
    pub(super) fn namespace_if_any(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }

    /// The service that is meant: the asked one, or the one that an alias stands for.
    pub(super) fn resolve(&self, catalog: &Catalog) -> ServiceKey {
        let alias = catalog.aliases.get(&self.namespace, &self.name);
        let (namespace, name) = alias.map_or((&self.namespace, &self.name), |alias| (&alias.namespace, &alias.service));
        ServiceKey { namespace: namespace.clone(), service: name.clone() }
    }

    /// Bytes of memory that the request holds while it waits, without its keys.
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

    /// Everything that the answer can depend on.
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
