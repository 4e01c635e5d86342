//! Who has what, over all nodes: each is asked which of its clients have a release of something.
//!
//! A client that went from one node to another is known to both for a while; it is where it was heard of last. Of a
//! thing that more than [`limits::SUBSCRIPTIONS_TOLD_MAX`] clients of one node have, that node tells of so many, those
//! that lag first, and counts the rest: one of these that went to another node is counted twice until it is forgotten.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::members;
use super::node::Node;
use super::peer::Subscribed;
use crate::catalog::history::Thing;
use crate::format::types::NodeId;
use crate::model::limits;
use crate::subscribers::Subscription;

/// How long another node may take. One that has not answered by then is named in the answer.
const ASK_WITHIN: Duration = Duration::from_secs(3);

/// Which clients of the cluster have a release of something.
#[derive(Debug, Default)]
pub struct Gathered {
    pub amount: u64,
    pub current: u64,
    /// By address and program; not all of them where there are very many.
    pub clients: Vec<(NodeId, Subscription)>,
    /// Members that could not be asked.
    pub silent: Vec<NodeId>,
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
    clients.truncate(limits::SUBSCRIPTIONS_TOLD_MAX);
    Subscribed { amount, current, clients }
}

impl Node {
    /// Asks every member.
    pub async fn gather_subscribers(&self, thing: &Thing) -> Gathered {
        let members = members::addresses(self.raft_metrics().membership_config.membership()).into_keys();
        let asked = members.map(|id| async move {
            if id == self.id() {
                return (id, Some(own(self, thing.clone()).await));
            }
            (id, self.inner().peers.subscribers(id, thing, ASK_WITHIN).await.ok())
        });
        merged(join_all(asked).await)
    }
}

fn merged(told: Vec<(NodeId, Option<Subscribed>)>) -> Gathered {
    let mut gathered = Gathered::default();
    let mut newest: HashMap<(String, String), (NodeId, Subscription)> = HashMap::new();
    for (id, told) in told {
        let Some(Subscribed { amount, current, clients }) = told else {
            gathered.silent.push(id);
            continue;
        };
        gathered.amount += amount;
        gathered.current += current;
        for client in clients {
            let key = (client.address.clone(), client.agent.clone());
            let Some((_, known)) = newest.get(&key) else {
                newest.insert(key, (id, client));
                continue;
            };
            // It is counted once.
            gathered.amount -= 1;
            let is_newer = client.heard_ms_ago < known.heard_ms_ago;
            let outdated = if is_newer { known } else { &client };
            gathered.current -= u64::from(outdated.is_current);
            if is_newer {
                newest.insert(key, (id, client));
            }
        }
    }
    gathered.clients = newest.into_values().collect();
    gathered.clients.sort_by(|(_, one), (_, other)| (&one.address, &one.agent).cmp(&(&other.address, &other.agent)));
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    fn client(address: &str, version: u64, heard_ms_ago: u64, is_current: bool) -> Subscription {
        let (address, agent) = (address.to_owned(), "a".to_owned());
        Subscription { address, agent, labels: Vec::new(), version, since: Timestamp(1), heard_ms_ago, is_current }
    }

    fn told(clients: Vec<Subscription>) -> Option<Subscribed> {
        let current = clients.iter().filter(|client| client.is_current).count() as u64;
        Some(Subscribed { amount: clients.len() as u64, current, clients })
    }

    #[test]
    fn a_client_is_where_it_was_heard_of_last_and_counts_once() {
        let one = told(vec![client("b", 1, 900, false), client("a", 2, 10, true)]);
        let two = told(vec![client("b", 2, 20, true), client("c", 1, 30, false)]);
        let Gathered { amount, current, clients, silent } = merged(vec![(1, one), (2, two), (3, None)]);
        let rows: Vec<_> = clients.iter().map(|(id, client)| (*id, client.address.as_str(), client.version)).collect();
        assert_eq!((amount, current, silent), (3, 2, vec![3]));
        assert_eq!(rows, [(1, "a", 2), (2, "b", 2), (2, "c", 1)]);
    }
}
