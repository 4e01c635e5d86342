//! Subscribers over all nodes: each node is asked which of its clients have a release of something.
//!
//! A client that went from one node to another is known to both for a while; it is where it was heard of last, and
//! counted there. Of a thing that more than [`limits::SUBSCRIPTIONS_TOLD_MAX`] clients of one node have, that node
//! tells of so many, those that lag first, and leaves a mark of each of the rest, by which it is counted once too.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::{ASK_WITHIN, of_members};
use crate::catalog::history::Thing;
use crate::catalog::page::{Place, Placed, place_of};
use crate::format::level::Level;
use crate::format::types::NodeId;
use crate::model::{limits, number_of};
use crate::peer::{ClientMark, Subscribed};
use crate::raft::node::Node;
use crate::subscribers::Subscription;

/// Bytes of the reasons of refusals that one node tells of one thing, before it shortens them.
const MESSAGES_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a reason that was shortened.
const MESSAGE_BYTES_MIN: usize = 128;

/// Clients of the cluster that have a release of something.
#[derive(Debug, Default)]
pub struct ClusterSubscribers {
    pub amount: u64,
    pub current: u64,
    /// By address and program; not all of them where there are very many.
    pub clients: Vec<(NodeId, Subscription)>,
    /// Members that could not be asked.
    pub silent: Vec<NodeId>,
}

/// By what the clients are sorted by.
impl Placed for (NodeId, Subscription) {
    fn place(&self) -> Place<'_> {
        place_of([&self.1.address, &self.1.agent, &self.1.node_id])
    }
}

/// Of the clients of this node.
pub(super) async fn own(node: &Node, thing: Thing) -> Subscribed {
    let asked = node.clone();
    let find = move || asked.subscribers().of(&asked.state().view(), &thing);
    let mut clients = tokio::task::spawn_blocking(find).await.unwrap_or_default();
    let amount = clients.len() as u64;
    let current = clients.iter().filter(|client| client.is_current).count() as u64;
    // Who lags is who is looked for.
    clients.sort_by_key(|client| client.is_current);
    bound_messages(&mut clients);
    let rest = clients.split_off(clients.len().min(limits::SUBSCRIPTIONS_TOLD_MAX));
    let has_marks = node.state().catalog().level() >= Level::CUSTODY;
    let marks = if has_marks { rest.iter().map(mark_of).collect() } else { Vec::new() };
    Subscribed { amount, current, clients, marks }
}

/// Texts that tell clients apart.
fn who(client: &Subscription) -> [&str; 3] {
    [&client.address, &client.agent, &client.node_id]
}

/// Shortens the reasons of refusals where there are very many, as most of them are the same.
fn bound_messages(clients: &mut [Subscription]) {
    let mut room = MESSAGES_BYTES_MAX;
    for client in clients {
        if client.message.len() > room {
            let end = (0..=MESSAGE_BYTES_MIN).rev().find(|end| client.message.is_char_boundary(*end));
            client.message.truncate(end.unwrap_or_default());
        }
        room = room.saturating_sub(client.message.len());
    }
}

/// Mark that identifies a client, the same on all nodes.
fn mark_of(client: &Subscription) -> ClientMark {
    let mut digest = Sha256::new();
    digest.update((client.address.len() as u64).to_be_bytes());
    digest.update(&client.address);
    digest.update(&client.agent);
    if !client.node_id.is_empty() {
        digest.update([0]);
        digest.update(&client.node_id);
    }
    ClientMark(number_of(&digest.finalize()), client.heard_ms_ago, client.is_current)
}

/// Asks every member.
pub async fn gather(node: &Node, thing: &Thing) -> ClusterSubscribers {
    let ask = async |id| match id == node.id() {
        true => Some(own(node, thing.clone()).await),
        false => node.peers().subscribers(id, thing, ASK_WITHIN).await.ok(),
    };
    merged(of_members(node, ask).await)
}

fn merged(answers: Vec<(NodeId, Option<Subscribed>)>) -> ClusterSubscribers {
    let mut all = ClusterSubscribers::default();
    let mut newest: HashMap<u64, (ClientMark, NodeId, Option<Subscription>)> = HashMap::new();
    for (id, answer) in answers {
        let Some(Subscribed { amount, current, clients, marks }) = answer else {
            all.silent.push(id);
            continue;
        };
        // Of a node below the level that has marks, all that it does not tell of is counted as it says.
        let known = clients.iter().map(|client| client.is_current).chain(marks.iter().map(|mark| mark.2));
        let (mut known_amount, mut known_current) = (0, 0);
        known.for_each(|is_current| {
            (known_amount, known_current) = (known_amount + 1, known_current + u64::from(is_current))
        });
        all.amount += amount.saturating_sub(known_amount);
        all.current += current.saturating_sub(known_current);
        let clients = clients.into_iter().map(|client| (mark_of(&client), Some(client)));
        for (mark, client) in clients.chain(marks.into_iter().map(|mark| (mark, None))) {
            let known = newest.get(&mark.0);
            // Of two nodes that both serve it, the one where it lags.
            if known.is_none_or(|(known, ..)| (mark.1, mark.2) < (known.1, known.2)) {
                newest.insert(mark.0, (mark, id, client));
            }
        }
    }
    all.amount += newest.len() as u64;
    all.current += newest.values().filter(|(mark, ..)| mark.2).count() as u64;
    all.clients = newest.into_values().filter_map(|(_, id, client)| Some((id, client?))).collect();
    all.clients.sort_by(|(_, one), (_, other)| who(one).cmp(&who(other)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    fn client(address: &str, version: u64, heard_ms_ago: u64, is_current: bool) -> Subscription {
        Subscription {
            address: address.to_owned(),
            agent: "a".to_owned(),
            labels: Vec::new(),
            version,
            since: Timestamp(1),
            heard_ms_ago,
            is_current,
            is_xds: false,
            node_id: String::new(),
            applied: None,
            message: String::new(),
        }
    }

    fn told(clients: Vec<Subscription>) -> Option<Subscribed> {
        let current = clients.iter().filter(|client| client.is_current).count() as u64;
        Some(Subscribed { amount: clients.len() as u64, current, clients, marks: Vec::new() })
    }

    #[test]
    fn a_client_is_where_it_was_heard_of_last_and_counts_once() {
        let one = told(vec![client("b", 1, 900, false), client("a", 2, 10, true)]);
        let two = told(vec![client("b", 2, 20, true), client("c", 1, 30, false)]);
        let ClusterSubscribers { amount, current, clients, silent } = merged(vec![(1, one), (2, two), (3, None)]);
        let rows: Vec<_> = clients.iter().map(|(id, client)| (*id, client.address.as_str(), client.version)).collect();
        assert_eq!((amount, current, silent), (3, 2, vec![3]));
        assert_eq!(rows, [(1, "a", 2), (2, "b", 2), (2, "c", 1)]);
    }

    #[test]
    fn clients_of_one_address_are_told_apart_by_their_identity() {
        let named = |node_id: &str, is_current| {
            let client = client("a", 1, 0, is_current);
            Subscription { is_xds: true, node_id: node_id.to_owned(), ..client }
        };
        let one = told(vec![named("n1", true), named("n2", true)]);
        let two = told(vec![named("n2", false), client("a", 1, 0, true)]);
        let ClusterSubscribers { amount, current, clients, .. } = merged(vec![(1, one), (2, two)]);
        let rows: Vec<_> = clients.iter().map(|(id, client)| (*id, client.node_id.as_str())).collect();
        assert_eq!((amount, current), (3, 2));
        assert_eq!(rows, [(2, ""), (1, "n1"), (2, "n2")], "the second one lags on one of two nodes");
    }

    #[test]
    fn reasons_are_shortened_where_there_are_very_many() {
        let refused = |text: &str| Subscription { message: text.to_owned(), ..client("a", 1, 0, false) };
        let long = "ä".repeat(2048);
        let mut clients = vec![refused(&long); 300];
        bound_messages(&mut clients);
        let lengths: Vec<_> = clients.iter().map(|client| client.message.len()).collect();
        assert_eq!((lengths[0], lengths[255], lengths[256], lengths[299]), (4096, 4096, 128, 128));
    }

    #[test]
    fn who_is_not_told_of_counts_once_too() {
        let marked = |rest: &[Subscription], told: Option<Subscribed>| {
            let told = told.expect("told");
            let current = told.current + rest.iter().filter(|client| client.is_current).count() as u64;
            let amount = told.amount + rest.len() as u64;
            Some(Subscribed { amount, current, marks: rest.iter().map(mark_of).collect(), ..told })
        };
        // `b` was told of by the first node and went to the second; `c` the other way round; `d` is a mark of both.
        let one = [client("c", 2, 10, true), client("d", 2, 10, true)];
        let one = marked(&one, told(vec![client("a", 1, 5, false), client("b", 1, 900, false)]));
        let two = [client("b", 2, 20, true), client("d", 1, 500, false)];
        let two = marked(&two, told(vec![client("c", 1, 800, false)]));
        let ClusterSubscribers { amount, current, clients, .. } = merged(vec![(1, one), (2, two)]);
        let rows: Vec<_> = clients.iter().map(|(id, client)| (*id, client.address.as_str())).collect();
        assert_eq!((amount, current), (4, 3));
        assert_eq!(rows, [(1, "a")], "what is known of the others is outdated, or a mark");
        // A node that leaves no marks.
        let older =
            Some(Subscribed { amount: 12, current: 7, clients: vec![client("x", 1, 1, true)], marks: Vec::new() });
        let ClusterSubscribers { amount, current, .. } = merged(vec![(1, older)]);
        assert_eq!((amount, current), (12, 7));
    }
}
