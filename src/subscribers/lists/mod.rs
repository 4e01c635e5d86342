//! Queries for the clients that have the list of instances of a service: by discovery, or as endpoints on a stream of
//! xDS. A drain also asks which of them have a list without one instance.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use serde::{Deserialize, Serialize};

use super::entry::{DeliveredVersion, Subscriber, Topic};
use super::fleet::{ClientQuery, ClientQueryResult};
use super::kept::{are_kept, kept};
use super::streaming::{ReleaseStanding, rank, to_subscription};
use super::streams::{AckState, Delivered, StreamEntry};
use super::{Applied, Client, Source, Subscribed, Subscribers, Subscription};
use crate::catalog::Catalog;
use crate::model::mesh::resource::{Resource, ResourceType};
use crate::model::percent::{escaped, is_in_namespace, is_in_uri, unescaped};
use crate::model::time::Timestamp;
use crate::proto::envoy::config::core::v3::address::Address;
use crate::proto::envoy::config::core::v3::socket_address::PortSpecifier;
use crate::proto::envoy::config::endpoint::v3 as endpoint;

/// Time for which a client that discovers instances counts as present. No long poll is held longer.
pub const THERE_WITHIN: Duration = Duration::from_secs(60);
/// Prefix of resource names under an authority.
const FEDERATED: &str = "xdstp://";

/// Instance that is being drained: clients should have a list without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Without {
    pub host: String,
    pub port: u16,
    /// Log index of the isolation. A list that was read at this index or later lacks the instance.
    pub since: u64,
}

impl Subscribers {
    /// Records that a client was sent the list of instances of a service, or already has it. The list was read at this
    /// log index or later.
    pub fn listed(
        &self,
        client: Client<'_>,
        labels: &BTreeMap<String, String>,
        (namespace, service): (&str, &str),
        (revision, index): (&str, u64),
        now: impl FnOnce() -> Timestamp,
    ) {
        let mark = self.mark_of_key(revision);
        let is_known = |entry: &mut Subscriber| {
            let DeliveredVersion::List { revision, index: known } = &mut entry.given else { return false };
            *known = index.max(*known);
            *revision == mark && are_kept(labels.iter(), &entry.labels)
        };
        self.note(Source::Given, self.topic_of_list(namespace, service), client, is_known, now, || {
            let wants = Topic::Instances { namespace: namespace.into(), service: service.into() };
            (wants, kept(labels.iter()), DeliveredVersion::List { revision: mark, index })
        });
    }

    /// Answers a query of any node. `applied` is a log index that the catalog includes.
    pub fn tell(&self, catalog: &Catalog, applied: u64, question: &ClientQuery) -> ClientQueryResult {
        let (namespace, service, without) = match question {
            ClientQuery::Lists { namespace, service, without } => (namespace, service, without),
            ClientQuery::Callers => {
                return ClientQueryResult { callers: self.list_holders(), ..ClientQueryResult::default() };
            }
            ClientQuery::Holders { thing, version } => {
                let holders = Some(self.holders(catalog, thing, *version));
                return ClientQueryResult { holders, ..ClientQueryResult::default() };
            }
            ClientQuery::Present { search } => {
                let present = Some(self.present(catalog, search));
                return ClientQueryResult { present, ..ClientQueryResult::default() };
            }
            _ => return self.streams.tell(question),
        };
        let rows = match without {
            None => self.of_list(catalog, namespace, service),
            Some(without) => self.of_drain(catalog, applied, (namespace, service), without),
        };
        ClientQueryResult { lists: Some(Subscribed::of(rows)), ..ClientQueryResult::default() }
    }

    /// Returns the clients that have the list of a service. They are current if their list equals that of the catalog.
    fn of_list(&self, catalog: &Catalog, namespace: &str, service: &str) -> Vec<Subscription> {
        let revision = self.mark_of_list(catalog, namespace, service);
        let mut found = self.of_discovery(namespace, service, |given, _| Some(given) == revision);
        found.extend(self.of_endpoints(namespace, service, |delivered, names| {
            let has = |(name, resource): &(&Arc<str>, &Arc<Resource>)| {
                matches!(delivered.ack_state(name, resource.version), AckState::Acknowledged)
            };
            names.iter().all(has)
        }));
        found
    }

    /// Returns the present clients that have the list of a service. They are current if their list lacks the instance.
    fn of_drain(
        &self,
        catalog: &Catalog,
        applied: u64,
        (namespace, service): (&str, &str),
        without: &Without,
    ) -> Vec<Subscription> {
        let revision = self.mark_of_list(catalog, namespace, service).filter(|_| applied >= without.since);
        let mut found = self.of_discovery(namespace, service, |given, index| {
            // A list equal to the catalog's is as recent as one read now.
            if Some(given) == revision {
                *index = applied.max(*index);
            }
            *index >= without.since
        });
        found.retain(|row| Duration::from_millis(row.confirmed_ms_ago) < THERE_WITHIN);
        let mut known: HashMap<*const Resource, bool> = HashMap::new();
        let mut lacks = |resource: &Arc<Resource>| {
            *known.entry(Arc::as_ptr(resource)).or_insert_with(|| !has_endpoint(resource, without))
        };
        found.extend(self.of_endpoints(namespace, service, |delivered, names| {
            names.iter().all(|(name, _)| delivered.acked.get(*name).is_some_and(&mut lacks))
        }));
        found
    }

    /// Returns the clients that discovered the list. `judge` gets the hash of its revision and the index it was read
    /// at.
    fn of_discovery(&self, namespace: &str, service: &str, judge: impl Fn(u64, &mut u64) -> bool) -> Vec<Subscription> {
        self.judged(Some(self.topic_of_list(namespace, service)), "", |entry| {
            let Topic::Instances { namespace: of, service: wanted } = &entry.wants else { return None };
            let DeliveredVersion::List { revision, index } = &mut entry.given else { return None };
            let is_meant = **of == *namespace && **wanted == *service;
            is_meant.then(|| (0, judge(*revision, index)))
        })
    }

    /// Returns the clients of xDS with endpoints of the service. `judge` gets these resources of each stream.
    fn of_endpoints(
        &self,
        namespace: &str,
        service: &str,
        mut judge: impl FnMut(&Delivered, &[(&Arc<str>, &Arc<Resource>)]) -> bool,
    ) -> Vec<Subscription> {
        let wanted = EndpointsName::of(namespace, service);
        let mut rows: BTreeMap<[String; 3], Subscription> = BTreeMap::new();
        for entry in self.streams.all() {
            let delivered = entry.delivered(ResourceType::Endpoints);
            let names = wanted.among(&delivered);
            if names.is_empty() {
                continue;
            }
            let is_current = judge(&delivered, &names);
            let row = to_subscription(&entry.client, standing(&entry, &delivered, &names, is_current));
            let who = [row.address.clone(), row.agent.clone(), row.node_id.clone()];
            // A gRPC client opens one stream per target. The client has what all of its streams have, so the worst row
            // remains.
            if rows.get(&who).is_none_or(|known| (row.is_current, rank(&row)) < (known.is_current, rank(known))) {
                rows.insert(who, row);
            }
        }
        rows.into_values().collect()
    }

    fn mark_of_list(&self, catalog: &Catalog, namespace: &str, service: &str) -> Option<u64> {
        catalog.fold_of_list(namespace, service).map(|fold| self.mark_of_key(&fold.text()))
    }
}

fn standing(
    entry: &StreamEntry,
    delivered: &Delivered,
    names: &[(&Arc<str>, &Arc<Resource>)],
    is_current: bool,
) -> ReleaseStanding {
    let mut row = ReleaseStanding {
        version: 0,
        since: entry.client.since,
        applied: Some(Applied::Yes),
        message: String::new(),
        refused_at: None,
        is_current,
    };
    for (name, resource) in names {
        match delivered.ack_state(name, resource.version) {
            AckState::Acknowledged => {}
            AckState::InFlight if row.applied == Some(Applied::Yes) => row.applied = None,
            AckState::InFlight => {}
            AckState::Refused(refusal) => {
                row.applied = Some(Applied::Refused);
                row.refused_at = Some(refusal.at);
                row.message.clone_from(&refusal.message);
            }
        }
    }
    row
}

/// Reports whether the endpoints contain the address of the instance. Returns true if the resource cannot be decoded.
fn has_endpoint(resource: &Resource, Without { host, port, .. }: &Without) -> bool {
    let Ok(assignment) = endpoint::ClusterLoadAssignment::decode(resource.bytes()) else { return true };
    let all = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
    let is_meant = |one: &endpoint::LbEndpoint| {
        let Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(found)) = &one.host_identifier else { return false };
        let Some(Address::SocketAddress(socket)) = found.address.as_ref().and_then(|one| one.address.as_ref()) else {
            return false;
        };
        let is_same = match (host.parse::<std::net::IpAddr>(), socket.address.parse::<std::net::IpAddr>()) {
            (Ok(wanted), Ok(found)) => wanted == found,
            _ => *host == socket.address,
        };
        is_same && socket.port_specifier == Some(PortSpecifier::PortValue(u32::from(*port)))
    };
    all.into_iter().any(is_meant)
}

/// Name of the endpoints of a service, alone or with a suffix: a subset after `|`, a locality after `@`.
pub(crate) struct EndpointsName {
    plain: String,
    /// The name as escaped under an authority.
    escaped: String,
}

impl EndpointsName {
    pub(crate) fn of(namespace: &str, service: &str) -> EndpointsName {
        let plain = format!("{}/{service}", escaped(namespace, is_in_namespace));
        EndpointsName { escaped: escaped(&plain, is_in_uri), plain }
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        let is_end = |rest: &str| ["|", "%7C", "@"].iter().any(|mark| rest.starts_with(mark)) || rest.is_empty();
        match name.strip_prefix(FEDERATED) {
            // The rest consists of an authority, a type and a name.
            Some(rest) => {
                rest.splitn(3, '/').nth(2).and_then(|name| name.strip_prefix(&*self.escaped)).is_some_and(is_end)
            }
            None => name.strip_prefix(&*self.plain).is_some_and(is_end),
        }
    }

    /// Returns the resources in `given` that have this name.
    fn among<'a>(&self, delivered: &'a Delivered) -> Vec<(&'a Arc<str>, &'a Arc<Resource>)> {
        let from = |start: &str| delivered.sent.range(Arc::<str>::from(start)..);
        let plain = from(&self.plain).take_while(|(name, _)| name.starts_with(&*self.plain));
        let federated = from(FEDERATED).take_while(|(name, _)| name.starts_with(FEDERATED));
        plain.chain(federated).filter(|(_, resource)| self.is(&resource.name)).collect()
    }
}

/// Returns the namespace and service of an endpoints resource: the inverse of [`EndpointsName`].
pub(super) fn service_of(name: &str) -> Option<(String, String)> {
    let plain = match name.strip_prefix(FEDERATED) {
        Some(rest) => unescaped(rest.splitn(3, '/').nth(2)?),
        None => name.to_owned(),
    };
    let (namespace, rest) = plain.split_once('/')?;
    let service = rest.split(['|', '@']).next()?;
    Some((unescaped(namespace), service.to_owned()))
}

#[cfg(test)]
mod tests;
