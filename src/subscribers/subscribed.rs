//! Answer of one node to a query for clients: the rows that fit, and a compact mark for each of the rest.

use serde::{Deserialize, Serialize};

use super::holders::client_mark;
use super::{Applied, Subscription};
use crate::model::limits;

/// Total bytes of refusal reasons that a node returns for one thing before it truncates them.
const MESSAGES_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a truncated reason.
const MESSAGE_BYTES_MIN: usize = 128;

/// Clients that have a release of the queried thing, as one node reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed {
    /// Number of all clients.
    pub amount: u64,
    /// Number of clients that have the release that they should have.
    pub current: u64,
    /// Some or all of the clients.
    pub clients: Vec<Subscription>,
    /// Marks of the remaining clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<ClientMark>,
    /// Reports of the remaining clients, in the same order; empty if none of them reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Option<Applied>>,
}

/// Compact form of a client for counting it once over all nodes: its hash, the milliseconds since its version was
/// confirmed, and whether it has the release that it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMark(pub u64, pub u64, pub bool);

impl Subscribed {
    /// Builds the answer of this node.
    pub fn of(mut clients: Vec<Subscription>) -> Subscribed {
        let amount = clients.len() as u64;
        let current = clients.iter().filter(|client| client.is_current).count() as u64;
        // Clients that are not current come first, and among them those that refused: users look for these.
        clients.sort_by_key(|client| (client.is_current, client.applied != Some(Applied::Refused)));
        bound_messages(&mut clients);
        let rest = clients.split_off(clients.len().min(limits::SUBSCRIPTIONS_TOLD_MAX));
        let marks = rest.iter().map(ClientMark::of).collect();
        let has_words = rest.iter().any(|client| client.applied.is_some());
        let words = if has_words { rest.iter().map(|client| client.applied).collect() } else { Vec::new() };
        Subscribed { amount, current, clients, marks, words }
    }
}

impl ClientMark {
    /// Returns the mark of a client, equal on all nodes.
    pub fn of(client: &Subscription) -> ClientMark {
        let mark = client_mark([&client.address, &client.agent, &client.node_id]);
        ClientMark(mark, client.confirmed_ms_ago, client.is_current)
    }
}

/// Truncates refusal reasons once they exceed the total. With many clients most of the reasons are equal.
fn bound_messages(clients: &mut [Subscription]) {
    let mut room = MESSAGES_BYTES_MAX;
    for client in clients {
        if client.message.len() > room {
            client.message.truncate(client.message.floor_char_boundary(MESSAGE_BYTES_MIN));
        }
        room = room.saturating_sub(client.message.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    fn client() -> Subscription {
        Subscription {
            address: "a".to_owned(),
            agent: "g".to_owned(),
            labels: Vec::new(),
            version: 1,
            since: Timestamp(1),
            confirmed_ms_ago: 0,
            is_current: false,
            is_xds: false,
            is_polaris: false,
            node_id: String::new(),
            applied: None,
            message: String::new(),
            applied_at: None,
            is_reported: false,
            is_assumed: false,
            connection: String::new(),
        }
    }

    #[test]
    fn reasons_are_shortened_where_there_are_very_many() {
        let refused = |text: &str| Subscription { message: text.to_owned(), ..client() };
        let long = "ä".repeat(2048);
        let mut clients = vec![refused(&long); 300];
        bound_messages(&mut clients);
        let lengths: Vec<_> = clients.iter().map(|client| client.message.len()).collect();
        assert_eq!((lengths[0], lengths[255], lengths[256], lengths[299]), (4096, 4096, 128, 128));
    }

    #[test]
    fn clients_beyond_those_that_are_listed_have_marks_and_words() {
        let refused = Subscription { applied: Some(Applied::Refused), ..client() };
        let many = Subscribed::of(vec![refused; limits::SUBSCRIPTIONS_TOLD_MAX + 2]);
        assert_eq!((many.clients.len(), many.marks.len()), (limits::SUBSCRIPTIONS_TOLD_MAX, 2));
        assert_eq!(many.words, [Some(Applied::Refused); 2]);
    }
}
