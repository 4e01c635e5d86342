//! Clients of xDS as exchanged between nodes: the connected clients, and every resource of one client.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::client_list::{ClientSearch, PresentClients};
use super::holders::HoldersAnswer;
use super::lists::Without;
use super::streaming::Who;
use super::streams::{AckState, Delivered, ResourceRefusal, StreamEntry, Streams};
use super::{Applied, Subscribed};
use crate::catalog::calls::ListHolder;
use crate::catalog::history::Thing;
use crate::model::limits;
use crate::model::mesh::resource::{Resource, ResourceType, Resources};
use crate::model::rule::release::RuleRelease;
use crate::model::text::first_bytes;
use crate::model::time::Timestamp;

/// Query to a node about its clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientQuery {
    /// Connected clients of xDS.
    Clients,
    /// Every resource of the clients with this identity. `after` continues after a type and name.
    Resources { node_id: String, after: Option<(String, String)> },
    /// Clients of any kind that have the list of instances of a service. With `without`, only those that are present,
    /// current if their list lacks that instance.
    Lists { namespace: String, service: String, without: Option<Without> },
    /// Clients that have the list of instances of any service. Nodes that do not know this query refuse it.
    Callers,
    /// Present clients of any kind, with every release that they have. Nodes that do not know this query refuse it.
    Present { search: ClientSearch },
    /// Every client that has any version of a thing, with its report on this version.
    Holders { thing: Thing, version: u64 },
}

/// Answer of a node. Only the fields of the query are set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientQueryResult {
    /// Number of all matching clients.
    #[serde(default)]
    pub amount: u64,
    /// The clients, or a part of them: those that refused something first, then the oldest streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<FleetClient>,
    /// Resources in the order of type and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<FleetResource>,
    /// Number of further resources after these.
    #[serde(default)]
    pub left_out: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<Subscribed>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<ListHolder>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holders: Option<HoldersAnswer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<PresentClients>,
}

/// One stream of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetClient {
    /// Number of the stream on its node.
    pub number: u64,
    pub node_id: String,
    pub agent: String,
    pub address: String,
    /// `envoy` or `grpc`.
    pub dialect: String,
    pub is_delta: bool,
    pub labels: Vec<(String, String)>,
    pub since: Timestamp,
    /// The subscribed types.
    pub types: Vec<FleetType>,
}

/// State of one resource type of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetType {
    /// `cds`, `eds`, `lds` or `rds`.
    pub kind: String,
    /// Number of resources sent.
    pub sent: u64,
    /// Number of resources acknowledged in their last sent version.
    pub acknowledged: u64,
    /// The first names of the resources sent.
    pub names: Vec<String>,
    /// The first names of the resources that the client refused and still lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Reason of the newest of these refusals, and its time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<Timestamp>,
    /// Milliseconds since the response that is still unanswered was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way_ms: Option<u64>,
}

/// A resource that was sent to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetResource {
    pub kind: String,
    pub name: String,
    pub version: String,
    /// Version that the client has instead, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub releases: Vec<FleetRelease>,
    /// The encoded message.
    #[serde(with = "as_bytes")]
    pub bytes: Vec<u8>,
}

/// Release of a rule that went into a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetRelease {
    /// Kind of the rule.
    pub kind: String,
    pub namespace: String,
    pub rule_name: String,
    pub rule_id: String,
    pub release_name: String,
    pub version: u64,
}

pub(super) mod as_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::subscribers) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(in crate::subscribers) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        Vec::<u8>::deserialize(deserializer)
    }
}

impl FleetClient {
    /// Returns the client's report on everything it was sent: `None` while something is unanswered.
    pub fn applied(&self) -> Option<Applied> {
        if self.types.iter().any(|one| !one.refused.is_empty()) {
            return Some(Applied::Refused);
        }
        self.types.iter().all(|one| one.acknowledged == one.sent).then_some(Applied::Yes)
    }

    pub(super) fn of(entry: &StreamEntry) -> FleetClient {
        let Who { address, agent, node_id, labels } = Who::of(&entry.client);
        let told = ResourceType::ALL.into_iter().filter_map(|kind| FleetType::of(kind, &entry.delivered(kind)));
        FleetClient {
            number: entry.number,
            node_id,
            agent,
            address,
            dialect: entry.client.dialect.label().to_owned(),
            is_delta: entry.client.is_delta,
            labels,
            since: entry.client.since,
            types: told.collect(),
        }
    }
}

impl FleetType {
    fn of(kind: ResourceType, delivered: &Delivered) -> Option<FleetType> {
        if !delivered.is_subscribed && delivered.sent.is_empty() {
            return None;
        }
        let first = |name: &Arc<str>| first_bytes(name, limits::XDS_NODE_ID_BYTES_TOLD).to_owned();
        let lacking = lacking(delivered);
        let message = lacking.newest.as_ref().map(|refusal| refusal.message.clone()).unwrap_or_default();
        let under_way = delivered.in_flight.map(|sent| Instant::now().saturating_duration_since(sent).as_millis());
        Some(FleetType {
            kind: kind.label().to_owned(),
            sent: delivered.sent.len() as u64,
            acknowledged: (delivered.sent.len() - lacking.amount) as u64,
            names: delivered.sent.keys().take(limits::XDS_NAMES_TOLD).map(first).collect(),
            refused: lacking.refused,
            message,
            refused_at: lacking.newest.map(|refusal| refusal.at),
            under_way_ms: under_way.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        })
    }
}

/// Resources that were sent to a client that does not have them.
#[derive(Default)]
struct Lacking {
    amount: usize,
    refused: Vec<String>,
    newest: Option<Arc<ResourceRefusal>>,
}

fn lacking(delivered: &Delivered) -> Lacking {
    let mut lacking = Lacking::default();
    for (name, resource) in differing(&delivered.acked, &delivered.sent) {
        match delivered.ack_state(name, resource.version) {
            AckState::Acknowledged => continue,
            AckState::InFlight => {}
            AckState::Refused(refusal) => {
                if lacking.refused.len() < limits::XDS_NAMES_TOLD {
                    lacking.refused.push(first_bytes(name, limits::XDS_NODE_ID_BYTES_TOLD).to_owned());
                }
                if lacking.newest.as_ref().is_none_or(|known| known.at < refusal.at) {
                    lacking.newest = Some(refusal);
                }
            }
        }
        lacking.amount += 1;
    }
    lacking
}

/// Returns the resources of `given` that are missing from `has` or differ there. The cost is proportional to the
/// difference.
fn differing<'a>(has: &'a Resources, given: &'a Resources) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Resource>)> {
    let items = (!has.ptr_eq(given)).then(|| has.diff(given));
    items.into_iter().flatten().filter_map(|item| match item {
        DiffItem::Add(name, resource) | DiffItem::Update { new: (name, resource), .. } => Some((name, resource)),
        DiffItem::Remove(..) => None,
    })
}

impl Streams {
    /// Answers a query about streams. Other queries get an empty result.
    pub fn tell(&self, question: &ClientQuery) -> ClientQueryResult {
        match question {
            ClientQuery::Clients => self.clients(),
            ClientQuery::Resources { node_id, after } => self.resources(node_id, after.as_ref()),
            ClientQuery::Lists { .. }
            | ClientQuery::Callers
            | ClientQuery::Present { .. }
            | ClientQuery::Holders { .. } => ClientQueryResult::default(),
        }
    }

    /// Returns the number of clients that refused something and still lack it.
    pub fn refusing(&self) -> usize {
        let refuses = |entry: &&Arc<StreamEntry>| {
            ResourceType::ALL.into_iter().any(|kind| !lacking(&entry.delivered(kind)).refused.is_empty())
        };
        let all = self.all();
        let of = all.iter().filter(refuses).map(|entry| &entry.client);
        // A gRPC client opens one stream per target.
        of.map(|client| (client.address, &client.agent, &client.node_id)).collect::<HashSet<_>>().len()
    }

    fn clients(&self) -> ClientQueryResult {
        let mut clients: Vec<_> = self.all().iter().map(|entry| FleetClient::of(entry)).collect();
        let amount = clients.len() as u64;
        clients.sort_by_key(|client| client.applied() != Some(Applied::Refused));
        clients.truncate(limits::SUBSCRIPTIONS_TOLD_MAX);
        ClientQueryResult { amount, clients, ..ClientQueryResult::default() }
    }

    fn resources(&self, node_id: &str, after: Option<&(String, String)>) -> ClientQueryResult {
        let is_meant = |entry: &Arc<StreamEntry>| {
            let own = &entry.client.node_id;
            own == node_id || first_bytes(own, limits::XDS_NODE_ID_BYTES_TOLD) == node_id
        };
        let streams: Vec<_> = self.all().into_iter().filter(is_meant).collect();
        let kinds = ResourceType::ALL.into_iter();
        let states: Vec<_> =
            kinds.flat_map(|kind| streams.iter().map(move |entry| (kind, entry.delivered(kind)))).collect();
        let all = resources_of(&states);
        let after = after.and_then(|(label, name)| {
            let kind = ResourceType::ALL.into_iter().find(|kind| kind.label() == label)?;
            Some((kind, Arc::from(name.as_str())))
        });
        let mut answer = ClientQueryResult { amount: streams.len() as u64, ..ClientQueryResult::default() };
        let mut room = limits::XDS_DUMP_PART_BYTES_MAX;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for ((_, name), (resource, delivered)) in all.range((from, Bound::Unbounded)) {
            // The first resource is always returned, so that paging makes progress.
            let fits = answer.left_out == 0 && (answer.resources.is_empty() || resource.size() <= room);
            if !fits {
                answer.left_out += 1;
                continue;
            }
            room = room.saturating_sub(resource.size());
            answer.resources.push(fleet_resource(name, resource, delivered));
        }
        answer
    }
}

type HeldResources<'a> = BTreeMap<(ResourceType, Arc<str>), (&'a Arc<Resource>, &'a Delivered)>;

/// Merges the resources of the streams of one client. A gRPC client opens one stream per target, and these share
/// clusters; a resource that was refused on any of the streams counts as refused.
fn resources_of(states: &[(ResourceType, Delivered)]) -> HeldResources<'_> {
    let mut all = HeldResources::new();
    for (kind, delivered) in states {
        for (name, resource) in &delivered.sent {
            let is_refused = || matches!(delivered.ack_state(name, resource.version), AckState::Refused(_));
            match all.entry((*kind, name.clone())) {
                Entry::Occupied(mut known) if is_refused() => drop(known.insert((resource, delivered))),
                Entry::Occupied(_) => {}
                Entry::Vacant(free) => drop(free.insert((resource, delivered))),
            }
        }
    }
    all
}

fn fleet_resource(name: &str, resource: &Resource, delivered: &Delivered) -> FleetResource {
    let (applied, message) = match delivered.ack_state(name, resource.version) {
        AckState::Acknowledged => (Some(Applied::Yes), String::new()),
        AckState::Refused(refusal) => (Some(Applied::Refused), refusal.message.clone()),
        AckState::InFlight => (None, String::new()),
    };
    let other = delivered.acked.get(name).filter(|_| applied != Some(Applied::Yes));
    FleetResource {
        kind: resource.kind.label().to_owned(),
        name: name.to_owned(),
        version: resource.version.to_string(),
        has_version: other.map(|has| has.version.to_string()),
        applied,
        message,
        releases: resource.releases.iter().map(|release| release_of(release)).collect(),
        bytes: resource.bytes().to_vec(),
    }
}

fn release_of(release: &RuleRelease) -> FleetRelease {
    FleetRelease {
        kind: release.rule.family().word().to_owned(),
        namespace: release.rule.namespace.clone(),
        rule_name: release.rule.name.clone(),
        rule_id: release.rule.id.clone(),
        release_name: release.name.clone(),
        version: release.version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscribers::streams::Registered;
    use crate::subscribers::streams::testing::{cluster, stream};

    const CDS: ResourceType = ResourceType::Cluster;

    fn send(stream: &Registered, resource: &Arc<Resource>, is_had: bool) {
        stream.update(CDS, |state| {
            state.is_subscribed = true;
            state.sent.insert(resource.name.clone(), resource.clone());
            if is_had {
                state.acked.insert(resource.name.clone(), resource.clone());
            }
        });
    }

    fn refuse(stream: &Registered, resource: &Arc<Resource>) {
        send(stream, resource, false);
        let resources = [(resource.name.clone(), resource.clone())].into();
        let refusal = ResourceRefusal { message: "bad".into(), at: Timestamp(9), resources };
        stream.update(CDS, |state| state.refusals.push(Arc::new(refusal)));
    }

    #[test]
    fn clients_are_told_with_what_they_have() {
        let streams = Streams::default();
        let (one, two) = (stream(&streams, "n1"), stream(&streams, "n2"));
        send(&one, &cluster("a", 1, 1), true);
        send(&one, &cluster("b", 2, 1), false);
        send(&two, &cluster("a", 1, 1), true);
        refuse(&two, &cluster("a", 3, 1));
        let ClientQueryResult { amount, clients, .. } = streams.tell(&ClientQuery::Clients);
        assert_eq!(amount, 2);
        let [refused, waiting] = &clients[..] else { panic!("two") };
        assert_eq!((refused.node_id.as_str(), refused.applied()), ("n2", Some(Applied::Refused)), "it comes first");
        let [cds] = &refused.types[..] else { panic!("one type") };
        assert_eq!((cds.sent, cds.acknowledged, cds.message.as_str()), (1, 0, "bad"));
        assert_eq!((&cds.refused, cds.refused_at), (&vec!["a".to_owned()], Some(Timestamp(9))));
        assert_eq!((waiting.node_id.as_str(), waiting.applied()), ("n1", None));
        assert_eq!((waiting.types[0].sent, waiting.types[0].acknowledged), (2, 1));
        assert_eq!((waiting.address.as_str(), waiting.labels.len()), ("10.0.0.9", 0));
        assert_eq!(streams.refusing(), 1);
        send(&two, &cluster("a", 4, 1), true);
        assert_eq!(streams.refusing(), 0);
    }

    #[test]
    fn every_resource_of_a_client_is_told_with_its_state() {
        let streams = Streams::default();
        let (one, again, other) = (stream(&streams, "n1"), stream(&streams, "n1"), stream(&streams, "n2"));
        send(&one, &cluster("a", 1, 3), true);
        send(&again, &cluster("a", 1, 3), true);
        send(&again, &cluster("b", 2, 1), true);
        refuse(&again, &cluster("b", 5, 1));
        send(&other, &cluster("c", 3, 1), true);
        let of = |node_id: &str| streams.tell(&ClientQuery::Resources { node_id: node_id.to_owned(), after: None });
        let ClientQueryResult { amount, resources, .. } = of("n1");
        assert_eq!(amount, 2);
        let rows: Vec<_> = resources.iter().map(|row| (row.name.as_str(), row.applied, row.message.as_str())).collect();
        assert_eq!(rows, [("a", Some(Applied::Yes), ""), ("b", Some(Applied::Refused), "bad")]);
        assert_eq!(resources[0].bytes, [7; 3]);
        assert_eq!(resources[1].has_version.as_deref(), Some("1-0000000000000002"));
        assert_eq!(of("n3"), ClientQueryResult::default());
    }

    #[test]
    fn a_dump_comes_in_parts() {
        let streams = Streams::default();
        let one = stream(&streams, "n1");
        for number in 0..5 {
            send(&one, &cluster(&format!("r{number}"), number, limits::XDS_DUMP_PART_BYTES_MAX / 3), true);
        }
        send(&one, &cluster("r9", 9, 2 * limits::XDS_DUMP_PART_BYTES_MAX), true);
        let (mut after, mut parts) = (None, Vec::new());
        loop {
            let question = ClientQuery::Resources { node_id: "n1".to_owned(), after };
            let answer = streams.tell(&question);
            parts.push((answer.resources.len(), answer.left_out));
            after = answer.resources.last().map(|last| (last.kind.clone(), last.name.clone()));
            if answer.left_out == 0 {
                break;
            }
        }
        assert_eq!(parts, [(3, 3), (2, 1), (1, 0)]);
    }
}
