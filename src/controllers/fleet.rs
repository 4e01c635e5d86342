//! xDS clients, and holders of instance lists, on all nodes: each node is asked for those connected to it. A node of a
//! version that does not know the query refuses it, and counts as silent.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ASK_WITHIN, ask_clients, of_members, own_clients};
use crate::catalog::calls::ListHolder;
use crate::catalog::page::{ListKey, Placed, place_of};
use crate::format::types::NodeId;
use crate::model::limits;
use crate::raft::node::Node;
use crate::subscribers::Subscribers;
use crate::subscribers::client_list::{self, ClientSearch, PresentClients};
use crate::subscribers::fleet::{ClientQuery, ClientQueryResult, FleetClient, FleetResource};
use crate::tasks;

/// Answers of all members.
#[derive(Debug, Default)]
pub struct Fleet {
    pub amount: u64,
    /// Clients by identity, address, agent, and node.
    pub clients: Vec<FleetMember>,
    /// Resources by type, name and node.
    pub resources: Vec<MemberResource>,
    /// Number of resources that did not fit.
    pub left_out: u64,
    /// Members that did not answer.
    pub silent: Vec<NodeId>,
}

/// A stream, and its node.
#[derive(Debug)]
pub struct FleetMember {
    pub node: NodeId,
    pub client: FleetClient,
    stream: String,
}

/// A resource, and the node that sent it.
#[derive(Debug)]
pub struct MemberResource {
    pub node: NodeId,
    pub resource: FleetResource,
    of_node: String,
}

impl FleetMember {
    pub fn new(node: NodeId, client: FleetClient) -> FleetMember {
        let stream = format!("{node:020}-{:020}", client.number);
        FleetMember { node, client, stream }
    }
}

impl Placed for FleetMember {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.client.node_id, &self.client.address, &self.client.agent, &self.stream])
    }
}

impl Placed for MemberResource {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.resource.kind, &self.resource.name, &self.of_node])
    }
}

/// Asks every member for its connected clients.
pub async fn clients(node: &Node, own: &Arc<Subscribers>) -> Fleet {
    merged(of_members(node, |id| ask(node, own, id, ClientQuery::Clients)).await)
}

/// Asks every member for the resources of the clients with this identity.
pub async fn resources(node: &Node, own: &Arc<Subscribers>, node_id: &str) -> Fleet {
    merged(of_members(node, |id| all_parts(node, own, id, node_id)).await)
}

/// Asks one node for all resources, which arrive in parts.
async fn all_parts(node: &Node, own: &Arc<Subscribers>, id: NodeId, node_id: &str) -> Option<ClientQueryResult> {
    let mut all = ClientQueryResult::default();
    let (mut after, mut bytes) = (None, 0);
    loop {
        let question = ClientQuery::Resources { node_id: node_id.to_owned(), after };
        let part = ask(node, own, id, question).await?;
        bytes += part.resources.iter().map(|resource| resource.bytes.len()).sum::<usize>();
        after = part.resources.last().map(|last| (last.kind.clone(), last.name.clone()));
        (all.amount, all.left_out) = (part.amount, part.left_out);
        all.resources.extend(part.resources);
        if all.left_out == 0 || after.is_none() || bytes >= limits::XDS_DUMP_BYTES_MAX {
            return Some(all);
        }
    }
}

/// Asks every member for the clients that have lists of instances; returns them with the members that did not answer.
pub async fn callers(node: &Node, own: &Arc<Subscribers>) -> (BTreeSet<ListHolder>, Vec<NodeId>) {
    let answers = of_members(node, |id| ask(node, own, id, ClientQuery::Callers)).await;
    let silent = answers.iter().filter(|(_, answer)| answer.is_none()).map(|(id, _)| *id).collect();
    let told = answers.into_iter().filter_map(|(_, answer)| answer);
    (told.flat_map(|answer| answer.callers).collect(), silent)
}

/// Asks every member for its present clients, of any kind; returns them with the members that did not answer.
pub async fn present(node: &Node, own: &Arc<Subscribers>, search: &ClientSearch) -> (PresentClients, Vec<NodeId>) {
    let answers = of_members(node, |id| ask(node, own, id, ClientQuery::Present { search: search.clone() })).await;
    let silent = answers.iter().filter(|(_, answer)| answer.is_none()).map(|(id, _)| *id).collect();
    let told: Vec<_> = answers.into_iter().filter_map(|(_, answer)| answer?.present).collect();
    (tasks::blocking(move || client_list::merged(told)).await, silent)
}

async fn ask(node: &Node, own: &Arc<Subscribers>, id: NodeId, question: ClientQuery) -> Option<ClientQueryResult> {
    match id == node.id() {
        true => Some(own_clients(node, own, question).await),
        false => ask_clients(node, id, &question, ASK_WITHIN).await,
    }
}

fn merged(answers: Vec<(NodeId, Option<ClientQueryResult>)>) -> Fleet {
    let mut all = Fleet::default();
    for (node, answer) in answers {
        let Some(ClientQueryResult { amount, clients, resources, left_out, .. }) = answer else {
            all.silent.push(node);
            continue;
        };
        all.amount += amount;
        all.left_out += left_out;
        all.clients.extend(clients.into_iter().map(|client| FleetMember::new(node, client)));
        let of_node = format!("{node:020}");
        let resources = resources.into_iter();
        all.resources.extend(resources.map(|resource| MemberResource { node, resource, of_node: of_node.clone() }));
    }
    all.clients.sort_by(|one, other| one.place().cmp(&other.place()));
    all.resources.sort_by(|one, other| one.place().cmp(&other.place()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    fn client(node_id: &str, number: u64) -> FleetClient {
        FleetClient {
            number,
            node_id: node_id.to_owned(),
            agent: "a".to_owned(),
            address: "10.0.0.1".to_owned(),
            dialect: "grpc".to_owned(),
            is_delta: false,
            labels: Vec::new(),
            since: Timestamp(1),
            types: Vec::new(),
        }
    }

    fn resource(kind: &str, name: &str) -> FleetResource {
        FleetResource {
            kind: kind.to_owned(),
            name: name.to_owned(),
            version: "1".to_owned(),
            has_version: None,
            applied: None,
            message: String::new(),
            releases: Vec::new(),
            bytes: Vec::new(),
        }
    }

    #[test]
    fn what_the_members_tell_is_one_list() {
        let of_one = vec![client("b", 10), client("b", 9)];
        let one = ClientQueryResult { amount: 2, clients: of_one, left_out: 1, ..ClientQueryResult::default() };
        let two = ClientQueryResult {
            amount: 7,
            clients: vec![client("a", 1), client("b", 1)],
            ..ClientQueryResult::default()
        };
        let fleet = merged(vec![(1, Some(one)), (2, Some(two)), (3, None)]);
        let row = |one: &FleetMember| (one.client.node_id.clone(), one.node, one.client.number);
        let rows: Vec<_> = fleet.clients.iter().map(row).collect();
        let rows: Vec<_> = rows.iter().map(|(node_id, node, number)| (node_id.as_str(), *node, *number)).collect();
        assert_eq!(rows, [("a", 2, 1), ("b", 1, 9), ("b", 1, 10), ("b", 2, 1)]);
        assert_eq!((fleet.amount, fleet.left_out, fleet.silent), (9, 1, vec![3]));
    }

    #[test]
    fn resources_stand_by_type_and_name() {
        let one = vec![resource("eds", "a"), resource("cds", "b")];
        let answer = |resources| Some(ClientQueryResult { resources, ..ClientQueryResult::default() });
        let fleet = merged(vec![(2, answer(one)), (1, answer(vec![resource("cds", "b"), resource("cds", "a")]))]);
        let rows: Vec<_> =
            fleet.resources.iter().map(|one| (&*one.resource.kind, &*one.resource.name, one.node)).collect();
        assert_eq!(rows, [("cds", "a", 1), ("cds", "b", 1), ("cds", "b", 2), ("eds", "a", 2)]);
    }
}
