//! Requests of clients.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use crate::api::http::ApiError;
use crate::catalog::Catalog;
use crate::catalog::rules::ends_of;
use crate::model::code::Code;
use crate::model::config_lookup::CLIENT_ADDRESS_LABEL;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::name;
use crate::model::rule::Family;
use crate::model::rule::routing::RoutePolicy;
use crate::model::wire::{Uint32, Uint64};
use crate::origin::Origin;
use crate::watch::WatchKey;

/// The body of the request.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "DiscoverRequest")]
pub(in crate::api) struct Request {
    #[schemars(transform = tell_types)]
    r#type: Option<TypeName>,
    service: Service,
    #[serde(alias = "Filter")]
    filter: Filter,
    /// Milliseconds to wait for another revision than the client's; 0 answers at once.
    #[serde(alias = "timeoutMs")]
    timeout_ms: Uint32,
    /// From an earlier answer: this node answers nothing older.
    #[serde(alias = "appliedIndex")]
    applied_index: Uint64,
}

/// The service that is asked about, and the revision that the client has.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "DiscoverService")]
struct Service {
    namespace: String,
    #[serde(alias = "service")]
    name: String,
    revision: String,
    /// `SERVICES`: all pairs have to be there.
    metadata: BTreeMap<String, String>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "DiscoverFilter")]
struct Filter {
    caller: Caller,
    /// `INSTANCE`: leaves out what is unhealthy or isolated.
    #[serde(alias = "OnlyHealthyInstance", alias = "onlyHealthyInstance")]
    only_healthy_instance: bool,
}

/// Client: the labels that choose gray releases. `CLIENT_IP` is the address of the client where
/// it is not given.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "DiscoverCaller")]
struct Caller {
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum TypeName {
    Number(u64),
    Word(String),
}

/// Kind of thing that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The instances of a service.
    Instances,
    Services,
    Namespaces,
    /// The rules of a family that concern a service; of routes perhaps those of one policy only.
    Rules(Family, Option<RoutePolicy>),
}

/// One row for each type: word, number, element of the answer. The families bring their own.
const TYPES: [(&str, u64, &str, Wanted); 5] = [
    ("INSTANCE", 1, "instances", Wanted::Instances),
    ("SERVICES", 6, "services", Wanted::Services),
    ("NAMESPACES", 12, "namespaces", Wanted::Namespaces),
    ("CUSTOM_ROUTE_RULE", 101, "customRouteRules", Wanted::Rules(Family::Routing, Some(RoutePolicy::Rule))),
    ("NEARBY_ROUTE_RULE", 102, "nearbyRouteRules", Wanted::Rules(Family::Routing, Some(RoutePolicy::Nearby))),
];

fn types() -> impl Iterator<Item = (&'static str, u64, &'static str, Wanted)> {
    let of_families = Family::ALL.iter().map(|family| {
        let (word, number, element) = family.discovery();
        (word, number, element, Wanted::Rules(*family, None))
    });
    TYPES.into_iter().chain(of_families)
}

/// Describes `type` by the rows of the table.
fn tell_types(schema: &mut Schema) {
    let words: Vec<_> = types().map(|(word, number, ..)| format!("`{word}` ({number})")).collect();
    let text = format!("What is wanted, by word or by its number in the Polaris family: {}.", words.join(", "));
    schema.insert("description".to_owned(), text.into());
}

/// A request that makes sense.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) type_word: &'static str,
    pub(super) element: &'static str,
    pub(super) wanted: Wanted,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) revision: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) only_healthy: bool,
    /// Scope of what the client may know of.
    pub(super) read_scope: ReadScope,
    labels: BTreeMap<String, String>,
    /// The program that asks, and from where.
    pub(super) agent: String,
    pub(super) origin: Origin,
    /// The longest wait for a change.
    pub(super) hold: Duration,
}

/// A service by namespace and name.
pub(super) type Identity = (String, String);

impl Request {
    /// At most as long as a config client's poll may be held.
    pub(super) fn hold(&self) -> Duration {
        Duration::from_millis(u64::from(self.timeout_ms.0).min(limits::DISCOVER_HOLD_MS_MAX))
    }

    pub(super) fn applied_index(&self) -> u64 {
        self.applied_index.0
    }

    pub(super) fn question(self, address: Option<String>, read_scope: ReadScope) -> Result<Question, ApiError> {
        let unknown = || ApiError::new(Code::InvalidDiscoverResource, "type names nothing that can be discovered");
        let named = |(word, number, ..): &(&str, u64, &str, Wanted)| match &self.r#type {
            Some(TypeName::Word(asked)) => asked == word || asked.parse() == Ok(*number),
            Some(TypeName::Number(asked)) => asked == number,
            None => false,
        };
        let (type_word, _, element, wanted) = types().find(named).ok_or_else(unknown)?;
        let Service { namespace, name, revision, metadata } = self.service;
        if matches!(wanted, Wanted::Instances | Wanted::Rules(..)) {
            name::check_namespace(&namespace)?;
            name::check_service(&name)?;
        }
        let Filter { caller: Caller { mut labels }, only_healthy_instance: only_healthy } = self.filter;
        // Whatever is kept while the question is held has a limit.
        name::check_length("namespace", &namespace, limits::NAMESPACE_CHARS_MAX, Code::InvalidNamespaceName)?;
        name::check_length("name", &name, limits::NAME_CHARS_MAX, Code::InvalidServiceName)?;
        name::check_length("revision", &revision, limits::ID_CHARS_MAX, Code::InvalidParameter)?;
        name::check_metadata(&metadata)?;
        name::check_metadata(&labels)?;
        if let Some(address) = address {
            labels.entry(CLIENT_ADDRESS_LABEL.to_owned()).or_insert(address);
        }
        Ok(Question {
            type_word,
            element,
            wanted,
            namespace,
            name,
            revision,
            metadata,
            only_healthy,
            read_scope,
            labels,
            agent: String::new(),
            origin: Origin::UNKNOWN,
            hold: Duration::ZERO,
        })
    }
}

impl Question {
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
    pub(super) fn resolve(&self, catalog: &Catalog) -> Identity {
        let alias = catalog.aliases.get(&self.namespace, &self.name);
        let (namespace, name) = alias.map_or((&self.namespace, &self.name), |alias| (&alias.namespace, &alias.service));
        (namespace.clone(), name.clone())
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
    pub(super) fn keys(&self, (namespace, name): &Identity) -> Vec<WatchKey> {
        match self.wanted {
            Wanted::Services => vec![WatchKey::services(self.namespace_if_any())],
            Wanted::Namespaces => vec![WatchKey::namespaces()],
            Wanted::Instances => vec![
                WatchKey::instances(namespace, name),
                WatchKey::service(namespace, name),
                WatchKey::service(&self.namespace, &self.name),
            ],
            Wanted::Rules(family, _) => {
                let ends = ends_of(namespace, name);
                let rules = ends.iter().map(|end| WatchKey::rules(family, &end.namespace, &end.service));
                rules.chain([WatchKey::service(&self.namespace, &self.name)]).collect()
            }
        }
    }
}
