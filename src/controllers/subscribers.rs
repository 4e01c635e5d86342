//! Subscribers on all nodes: each node is asked for its clients that have a release of a given subject.
//!
//! A client that moved from one node to another is known to both for a while, as is one whose polls go to another node
//! than its pulls. It counts where its version was confirmed last. If more than
//! [`SUBSCRIPTIONS_TOLD_MAX`](crate::model::limits::SUBSCRIPTIONS_TOLD_MAX) clients of one node have a release, that
//! node returns only that many, outdated ones first, and a mark of each other client, so that it is counted once too.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::{ASK_WITHIN, ask_clients, of_members, own_clients};
use crate::catalog::history::Thing;
use crate::catalog::page::{ListKey, Placed, place_of};
use crate::format::types::NodeId;
use crate::raft::extension::ExtensionCall;
use crate::raft::node::Node;
use crate::subscribers::fleet::ClientQuery;
use crate::subscribers::holders::{Holders, HoldersAnswer};
use crate::subscribers::lists::Without;
use crate::subscribers::{Applied, ClientMark, HoldState, Subscribed, Subscribers, Subscription};
use crate::tasks;

/// Clients of the cluster that have a release of a subject.
#[derive(Debug, Default)]
pub struct ClusterSubscribers {
    pub amount: u64,
    pub current: u64,
    /// Number of clients that reported that they applied it.
    pub applied: u64,
    /// Number of clients that reported that they could not apply it.
    pub refused: u64,
    /// Number of clients by state, in the order of [`HoldState::ALL`]; without those that a node only counts.
    pub tally: [u64; HoldState::ALL.len()],
    /// Clients by address and program; truncated if there are very many.
    pub clients: Vec<MemberClient>,
    /// Members that did not answer.
    pub silent: Vec<NodeId>,
}

/// A client and the member that reported it.
#[derive(Clone, Debug)]
pub struct MemberClient(pub NodeId, pub Subscription);

/// Sort key of clients in lists.
impl Placed for MemberClient {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.1.address, &self.1.agent, &self.1.node_id])
    }
}

/// Returns the clients of this node.
pub(super) async fn own(node: &Node, subscribers: &Arc<Subscribers>, thing: Thing) -> Subscribed {
    let (state, subscribers) = (node.state().clone(), subscribers.clone());
    let find = move || subscribers.of(&state.view(), &thing);
    let clients = tasks::blocking(find).await;
    Subscribed::of(clients)
}

/// Returns the texts that identify a client.
fn who(client: &Subscription) -> [&str; 3] {
    [&client.address, &client.agent, &client.node_id]
}

/// Asks every member for its clients.
pub async fn gather(node: &Node, subscribers: &Arc<Subscribers>, thing: &Thing) -> ClusterSubscribers {
    let ask = async |id| match id == node.id() {
        true => Some(own(node, subscribers, thing.clone()).await),
        false => node.ask_extension(id, ExtensionCall::Subscribers, thing, ASK_WITHIN).await,
    };
    merged(of_members(node, ask).await)
}

/// Counts of the clients of all members that have a version of a subject.
#[derive(Debug, Default)]
pub(super) struct ClusterHolders {
    pub(super) holders: Holders,
    /// Members that did not answer.
    pub(super) silent: Vec<NodeId>,
    /// Members with more clients than they return.
    pub(super) cut: Vec<NodeId>,
    /// Milliseconds for which each member has known its clients.
    pub(super) up_ms: Vec<(NodeId, u64)>,
}

/// Asks every member for its clients with this version, waiting for each at most `limit`.
pub(super) async fn gather_holders(
    node: &Node,
    subscribers: &Arc<Subscribers>,
    thing: &Thing,
    version: u64,
    limit: Duration,
) -> ClusterHolders {
    let question = ClientQuery::Holders { thing: thing.clone(), version };
    let ask = async |id| match id == node.id() {
        true => own_clients(node, subscribers, question.clone()).await.holders,
        false if !node.is_reachable(id) => None,
        false => ask_clients(node, id, &question, limit).await.and_then(|answer| answer.holders),
    };
    let answers = of_members(node, ask).await;
    tasks::blocking(move || ClusterHolders::of(answers)).await
}

impl ClusterHolders {
    fn of(answers: Vec<(NodeId, Option<HoldersAnswer>)>) -> ClusterHolders {
        let mut all = ClusterHolders::default();
        for (node, answer) in answers {
            let Some(answer) = answer else {
                all.silent.push(node);
                continue;
            };
            if !answer.is_whole {
                all.cut.push(node);
            }
            all.up_ms.push((node, answer.up_ms));
            all.holders.add(&answer);
        }
        all
    }
}

/// A client by its mark, the node that reported it, and the client's own report.
struct Told {
    mark: ClientMark,
    node: NodeId,
    client: Option<Subscription>,
    word: Option<Applied>,
}

impl Told {
    /// Reports whether this entry, rather than `known` from another node, represents the client: the node that
    /// confirmed its version last, and if both do, the one with the older version. If they agree on the version, the
    /// node that delivered it.
    fn counts_before(&self, known: &Told) -> bool {
        if let (Some(own), Some(other)) = (&self.client, &known.client)
            && own.version == other.version
            && own.is_reported != other.is_reported
        {
            return other.is_reported;
        }
        (self.mark.1, self.mark.2) < (known.mark.1, known.mark.2)
    }

    /// Adopts a newer report that the client made to another node about its version.
    fn take_word(&mut self, other: &Told) {
        if let (Some(own), Some(other)) = (&mut self.client, &other.client)
            && own.version == other.version
            && !own.is_xds
            && own.applied_at < other.applied_at
        {
            (own.applied, own.applied_at) = (other.applied, other.applied_at);
            own.message.clone_from(&other.message);
            self.word = own.applied;
        }
    }
}

/// Asks every member for its clients that have the list of instances of a service, or got one without an instance.
pub async fn gather_lists(
    node: &Node,
    subscribers: &Arc<Subscribers>,
    (namespace, service): (&str, &str),
    without: Option<Without>,
) -> ClusterSubscribers {
    let question = ClientQuery::Lists { namespace: namespace.to_owned(), service: service.to_owned(), without };
    let ask = async |id| match id == node.id() {
        true => own_clients(node, subscribers, question.clone()).await.lists,
        // An unreachable member is not waited for: callers ask again a moment later.
        false if !node.is_reachable(id) => None,
        false => ask_clients(node, id, &question, ASK_WITHIN).await.and_then(|answer| answer.lists),
    };
    merged(of_members(node, ask).await)
}

fn merged(answers: Vec<(NodeId, Option<Subscribed>)>) -> ClusterSubscribers {
    let mut all = ClusterSubscribers::default();
    let mut newest: HashMap<u64, Told> = HashMap::new();
    for (node, answer) in answers {
        let Some(Subscribed { amount, current, clients, marks, words }) = answer else {
            all.silent.push(node);
            continue;
        };
        // Clients without a mark are counted by their node.
        let known = clients.iter().map(|client| client.is_current).chain(marks.iter().map(|mark| mark.2));
        let (mut known_amount, mut known_current) = (0, 0);
        known.for_each(|is_current| {
            (known_amount, known_current) = (known_amount + 1, known_current + u64::from(is_current))
        });
        all.amount += amount.saturating_sub(known_amount);
        all.current += current.saturating_sub(known_current);
        let of_client = |client: Subscription| {
            let (mark, word) = (ClientMark::of(&client), client.applied);
            Told { mark, node, client: Some(client), word }
        };
        let words = words.into_iter().chain(std::iter::repeat(None));
        let of_mark = |(mark, word)| Told { mark, node, client: None, word };
        for mut told in clients.into_iter().map(of_client).chain(marks.into_iter().zip(words).map(of_mark)) {
            match newest.entry(told.mark.0) {
                Entry::Vacant(free) => drop(free.insert(told)),
                Entry::Occupied(mut known) if told.counts_before(known.get()) => {
                    told.take_word(known.get());
                    known.insert(told);
                }
                Entry::Occupied(mut known) => known.get_mut().take_word(&told),
            }
        }
    }
    drop_assumed(&mut newest);
    all.amount += newest.len() as u64;
    for told in newest.values() {
        all.current += u64::from(told.mark.2);
        all.applied += u64::from(told.word == Some(Applied::Yes));
        all.refused += u64::from(told.word == Some(Applied::Refused));
        all.tally[HoldState::of(told.word, told.mark.2) as usize] += 1;
    }
    all.clients = newest.into_values().filter_map(|told| Some(MemberClient(told.node, told.client?))).collect();
    all.clients.sort_by(|one, other| who(&one.1).cmp(&who(&other.1)));
    all
}

/// Removes rows that were made from polls without an address, if another node knows a client of the same program that
/// names its address in pulls through that connection: it is the same one.
fn drop_assumed(clients: &mut HashMap<u64, Told>) {
    let known = clients.values().filter_map(|told| told.client.as_ref());
    let named = known.filter(|client| !client.connection.is_empty());
    let named: HashSet<_> = named.map(|client| (client.connection.clone(), client.agent.clone())).collect();
    if named.is_empty() {
        return;
    }
    clients.retain(|_, told| {
        let assumed = told.client.as_ref().filter(|client| client.is_assumed);
        assumed.is_none_or(|client| !named.contains(&(client.address.clone(), client.agent.clone())))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    fn client(address: &str, version: u64, confirmed_ms_ago: u64, is_current: bool) -> Subscription {
        Subscription {
            address: address.to_owned(),
            agent: "a".to_owned(),
            labels: Vec::new(),
            version,
            since: Timestamp(1),
            confirmed_ms_ago,
            is_current,
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

    fn answer_of(clients: Vec<Subscription>) -> Option<Subscribed> {
        let current = clients.iter().filter(|client| client.is_current).count() as u64;
        Some(Subscribed { amount: clients.len() as u64, current, clients, ..Subscribed::default() })
    }

    #[test]
    fn a_client_is_where_it_was_heard_of_last_and_counts_once() {
        let one = answer_of(vec![client("b", 1, 900, false), client("a", 2, 10, true)]);
        let two = answer_of(vec![client("b", 2, 20, true), client("c", 1, 30, false)]);
        let ClusterSubscribers { amount, current, clients, silent, .. } = merged(vec![(1, one), (2, two), (3, None)]);
        let rows: Vec<_> =
            clients.iter().map(|MemberClient(id, client)| (*id, client.address.as_str(), client.version)).collect();
        assert_eq!((amount, current, silent), (3, 2, vec![3]));
        assert_eq!(rows, [(1, "a", 2), (2, "b", 2), (2, "c", 1)]);
    }

    /// A balancer sends the pulls and the polls of one client to two nodes, and only its pulls name its address.
    #[test]
    fn a_client_that_names_itself_in_pulls_alone_counts_once() {
        let named = Subscription { connection: "192.0.2.7".to_owned(), ..client("10.0.0.1", 2, 900, true) };
        let assumed = |address: &str| Subscription { is_assumed: true, ..client(address, 2, 5, true) };
        let other = Subscription { agent: "b".to_owned(), ..assumed("192.0.2.7") };
        let two = answer_of(vec![assumed("192.0.2.7"), assumed("192.0.2.8"), other]);
        let ClusterSubscribers { amount, clients, .. } = merged(vec![(1, answer_of(vec![named])), (2, two)]);
        let rows: Vec<_> = clients.iter().map(|one| (one.1.address.as_str(), one.1.agent.as_str())).collect();
        assert_eq!((amount, rows), (3, vec![("10.0.0.1", "a"), ("192.0.2.7", "b"), ("192.0.2.8", "a")]));
    }

    #[test]
    fn clients_of_one_address_are_told_apart_by_their_identity() {
        let named = |node_id: &str, is_current| {
            let client = client("a", 1, 0, is_current);
            Subscription { is_xds: true, node_id: node_id.to_owned(), ..client }
        };
        let one = answer_of(vec![named("n1", true), named("n2", true)]);
        let two = answer_of(vec![named("n2", false), client("a", 1, 0, true)]);
        let ClusterSubscribers { amount, current, clients, .. } = merged(vec![(1, one), (2, two)]);
        let rows: Vec<_> = clients.iter().map(|MemberClient(id, client)| (*id, client.node_id.as_str())).collect();
        assert_eq!((amount, current), (3, 2));
        assert_eq!(rows, [(2, ""), (1, "n1"), (2, "n2")], "the second one lags on one of two nodes");
    }

    #[test]
    fn who_is_not_told_of_counts_once_too() {
        let marked = |rest: &[Subscription], told: Option<Subscribed>| {
            let told = told.expect("told");
            let current = told.current + rest.iter().filter(|client| client.is_current).count() as u64;
            let amount = told.amount + rest.len() as u64;
            Some(Subscribed { amount, current, marks: rest.iter().map(ClientMark::of).collect(), ..told })
        };
        // The first node reported `b`, which moved to the second; `c` moved the other way; `d` is a mark of both.
        let one = [client("c", 2, 10, true), client("d", 2, 10, true)];
        let one = marked(&one, answer_of(vec![client("a", 1, 5, false), client("b", 1, 900, false)]));
        let two = [client("b", 2, 20, true), client("d", 1, 500, false)];
        let two = marked(&two, answer_of(vec![client("c", 1, 800, false)]));
        let ClusterSubscribers { amount, current, clients, .. } = merged(vec![(1, one), (2, two)]);
        let rows: Vec<_> = clients.iter().map(|MemberClient(id, client)| (*id, client.address.as_str())).collect();
        assert_eq!((amount, current), (4, 3));
        assert_eq!(rows, [(1, "a")], "what is known of the others is outdated, or a mark");
        // A node that returns no marks.
        let clients = vec![client("x", 1, 1, true)];
        let older = Some(Subscribed { amount: 12, current: 7, clients, ..Subscribed::default() });
        let ClusterSubscribers { amount, current, .. } = merged(vec![(1, older)]);
        assert_eq!((amount, current), (12, 7));
    }

    #[test]
    fn a_word_is_of_the_client_wherever_it_left_it() {
        let said = |client: Subscription, applied, at| {
            let message = if applied == Applied::Refused { "no".to_owned() } else { String::new() };
            Subscription { applied: Some(applied), message, applied_at: Some(Timestamp(at)), ..client }
        };
        // `a` was seen last by the second node, and reported to the first; `b` made a newer report to the second; `c`
        // reported on another version.
        let one = answer_of(vec![
            said(client("a", 2, 900, true), Applied::Refused, 5),
            said(client("b", 2, 10, true), Applied::Refused, 5),
            said(client("c", 1, 900, false), Applied::Yes, 5),
        ]);
        let two = answer_of(vec![
            client("a", 2, 20, true),
            said(client("b", 2, 20, true), Applied::Yes, 6),
            client("c", 2, 20, true),
        ]);
        let ClusterSubscribers { amount, applied, refused, tally, clients, .. } = merged(vec![(1, one), (2, two)]);
        assert_eq!((amount, applied, refused, tally), (3, 1, 1, [1, 0, 1, 1]));
        let rows: Vec<_> =
            clients.iter().map(|MemberClient(_, one)| (&*one.address, one.applied, &*one.message)).collect();
        assert_eq!(rows, [("a", Some(Applied::Refused), "no"), ("b", Some(Applied::Yes), ""), ("c", None, "")]);
    }

    #[test]
    fn what_a_client_reports_elsewhere_does_not_hide_what_it_was_given() {
        let given = client("a", 2, 900, true);
        let reported = |version| {
            let (applied, applied_at) = (Some(Applied::Refused), Some(Timestamp(7)));
            Subscription { is_reported: true, applied, applied_at, ..client("a", version, 5, false) }
        };
        for answers in [[given.clone(), reported(2)], [reported(2), given.clone()]] {
            let [one, two] = answers.map(|client| answer_of(vec![client]));
            let ClusterSubscribers { amount, current, refused, clients, .. } = merged(vec![(1, one), (2, two)]);
            assert_eq!((amount, current, refused, clients[0].1.is_reported), (1, 1, 1, false));
        }
        let newer = merged(vec![(1, answer_of(vec![given])), (2, answer_of(vec![reported(3)]))]);
        assert_eq!((newer.amount, newer.clients[0].1.version), (1, 3), "it has got on");
    }

    #[test]
    fn words_of_who_is_not_told_of_count() {
        let rest = [client("a", 1, 1, true), client("b", 1, 1, true), client("c", 1, 1, true)];
        let words = vec![Some(Applied::Yes), Some(Applied::Refused), None];
        let marks = rest.iter().map(ClientMark::of).collect();
        let answer = Subscribed { amount: 3, current: 3, clients: Vec::new(), marks, words };
        let ClusterSubscribers { amount, applied, refused, .. } = merged(vec![(1, Some(answer))]);
        assert_eq!((amount, applied, refused), (3, 1, 1));
    }
}
