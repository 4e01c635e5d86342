//! Answers of one node to who has something: all that fits, and a mark of each of the rest.

use serde::{Deserialize, Serialize};

use super::holders::client_mark;
use super::{Applied, Subscription};
use crate::format::level::Level;
use crate::model::limits;

/// Bytes of the reasons of refusals that one node tells of one thing, before it shortens them.
const MESSAGES_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a reason that was shortened.
const MESSAGE_BYTES_MIN: usize = 128;

/// Clients that have a release of the object named in the call, as the node that serves them reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed {
    /// Clients in all.
    pub amount: u64,
    /// Those that have what they should have by now.
    pub current: u64,
    /// Some or all of them.
    pub clients: Vec<Subscription>,
    /// Of each of the rest; from [`Level::CUSTODY`] on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<ClientMark>,
    /// Words of those, in the same order; none where nobody has said anything. From [`Level::APPROVAL`] on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Option<Applied>>,
}

/// Just enough of a client to count it once over all nodes: who it is, as a number, for how many milliseconds it was
/// not heard of, and whether it has what it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMark(pub u64, pub u64, pub bool);

impl Subscribed {
    /// All of these clients, as far as members of a cluster of this level can read it.
    pub fn of(mut clients: Vec<Subscription>, level: Level) -> Subscribed {
        let amount = clients.len() as u64;
        let current = clients.iter().filter(|client| client.is_current).count() as u64;
        if level < Level::APPROVAL {
            clients.iter_mut().for_each(leave_out_words);
        }
        // Who lags is who is looked for, and who says why.
        clients.sort_by_key(|client| (client.is_current, client.applied != Some(Applied::Refused)));
        bound_messages(&mut clients);
        let rest = clients.split_off(clients.len().min(limits::SUBSCRIPTIONS_TOLD_MAX));
        let marks = if level >= Level::CUSTODY { rest.iter().map(ClientMark::of).collect() } else { Vec::new() };
        let has_words = level >= Level::APPROVAL && rest.iter().any(|client| client.applied.is_some());
        let words = if has_words { rest.iter().map(|client| client.applied).collect() } else { Vec::new() };
        Subscribed { amount, current, clients, marks, words }
    }
}

/// Leaves out what no client but those of xDS said before [`Level::APPROVAL`].
fn leave_out_words(client: &mut Subscription) {
    client.applied_at = None;
    if !client.is_xds {
        client.applied = None;
        client.message.clear();
    }
}

impl ClientMark {
    /// Mark that identifies a client, the same on all nodes.
    pub fn of(client: &Subscription) -> ClientMark {
        let mark = client_mark([&client.address, &client.agent, &client.node_id]);
        ClientMark(mark, client.heard_ms_ago, client.is_current)
    }
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
            heard_ms_ago: 0,
            is_current: false,
            is_xds: false,
            node_id: String::new(),
            applied: None,
            message: String::new(),
            applied_at: None,
            is_reported: false,
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
    fn words_are_left_out_below_their_level() {
        let said = |is_xds| Subscription {
            is_xds,
            applied: Some(Applied::Refused),
            message: "no".to_owned(),
            applied_at: Some(Timestamp(3)),
            ..client()
        };
        let all = vec![said(true), said(false)];
        assert_eq!(Subscribed::of(all.clone(), Level::APPROVAL).clients, all);
        let older = Subscribed::of(all.clone(), Level::RIGHTS).clients;
        assert_eq!(older, [Subscription { applied_at: None, ..said(true) }, client()]);
        let many = vec![said(false); limits::SUBSCRIPTIONS_TOLD_MAX + 2];
        let words = |level| Subscribed::of(many.clone(), level).words;
        assert_eq!((words(Level::APPROVAL).len(), words(Level::RIGHTS).len()), (2, 0));
    }
}
