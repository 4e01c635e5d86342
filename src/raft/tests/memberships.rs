//! Membership in the checkpoint hash: nodes that disagree on the voters are found even if their states are the same,
//! and nodes that agree are not.

use std::collections::{BTreeMap, BTreeSet};

use openraft::EntryPayload;

use crate::catalog::{Command, Op, RequestId};
use crate::format::level::Level;
use crate::format::types::{Entry, Member, Membership, NodeId, Proposal};
use crate::model::access::Founder;
use crate::model::namespace::NamespaceDraft;
use crate::model::time::Timestamp;
use crate::peer::Checkpoint;
use crate::raft::checkpoint_hashes::difference;
use crate::raft::machine::Machine;
use crate::raft::proposal::{Draft, stamp};
use crate::store::Store;
use crate::store::testing::{fresh, log_id, metrics};
use crate::watch::Hub;

type Payload = EntryPayload<Proposal, NodeId, Member>;

fn members(voters: &[NodeId], learners: &[NodeId], at: &str) -> Payload {
    let nodes = voters.iter().chain(learners).map(|id| (*id, Member { peer: format!("{at}{id}:8190") }));
    let voters: BTreeSet<NodeId> = voters.iter().copied().collect();
    EntryPayload::Membership(Membership::new(vec![voters], nodes.collect::<BTreeMap<_, _>>()).expect("voters"))
}

fn command(number: u64, command: &Command) -> Payload {
    let draft = Draft::new(RequestId(number.into()), "tester", command);
    EntryPayload::Normal(stamp(Timestamp(1_000_000 + number), 0, [7; 16], &draft))
}

fn write(number: u64) -> Payload {
    let draft = NamespaceDraft { name: format!("n{number}"), ..NamespaceDraft::default() };
    command(number, &Command::Namespaces(Op::Create, vec![draft]))
}

fn founded() -> Payload {
    let admin = Founder::administrator("u1", "h", Timestamp(0));
    command(1, &Command::Bootstrap { cluster_id: "c".into(), admin, level: Level::FIRST })
}

/// Returns the log of a cluster whose first entry is `first`.
fn history(first: Payload) -> Vec<Entry> {
    let payloads = [first, EntryPayload::Blank, founded()].into_iter().chain((2..8).map(write));
    (0..).zip(payloads).map(|(index, payload)| Entry { log_id: log_id(1, index), payload }).collect()
}

fn machine(store: &Store) -> Machine {
    Machine::load(store.clone(), Hub::new(0), metrics()).expect("a state").with_checkpoints_every(1)
}

/// Returns the expected state of a node that applies these entries.
fn checkpoints(entries: &[Entry]) -> Vec<Checkpoint> {
    let (_dir, store) = fresh();
    let machine = machine(&store);
    machine.replay(entries).expect("applied");
    machine.checkpoints()
}

/// Returns the indexes at which the two differ.
fn apart(one: &[Entry], other: &[Entry]) -> Vec<u64> {
    let (one, other) = (checkpoints(one), checkpoints(other));
    assert_eq!(one.len(), other.len());
    one.iter().zip(&other).filter(|(one, other)| one.hash != other.hash).map(|(one, _)| one.index).collect()
}

#[test]
fn two_memberships_at_one_index_differ() {
    let three = || members(&[1, 2, 3], &[], "n");
    let rows: [(&str, Payload, &[u64]); 5] = [
        ("the same", three(), &[]),
        ("two more voters", members(&[1, 2, 3, 4, 5], &[], "n"), &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("another voter", members(&[1, 2, 4], &[], "n"), &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("a learner", members(&[1, 2, 3], &[4], "n"), &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("written in another way", members(&[1, 2, 3], &[], "host-"), &[]),
    ];
    for (what, other, expected) in rows {
        let (one, other) = (history(three()), history(other));
        assert_eq!(apart(&one, &other), expected, "{what}");
    }
}

/// A node that restarted, or got the state by a snapshot, is not found wrong either: the membership is part of it.
#[test]
fn who_loads_the_state_goes_on_with_the_same_hashes() {
    let entries = history(members(&[1, 2, 3], &[4], "n"));
    let whole = checkpoints(&entries);
    for at in 1..entries.len() {
        let (_dir, store) = fresh();
        machine(&store).replay(&entries[..at]).expect("applied");
        let again = machine(&store);
        again.replay(&entries[at..]).expect("applied");
        let expected = &whole[whole.iter().position(|kept| kept.index >= at as u64).expect("an index")..];
        assert_eq!(again.checkpoints(), expected, "loaded at {at}");
    }
}

/// Two clusters that share nodes: each finds the other's nodes wrong, and none of its own.
#[test]
fn each_of_two_majorities_sees_the_other() {
    let (one, other) = (members(&[1, 2, 3], &[], "n"), members(&[1, 2, 3, 4, 5], &[], "n"));
    let [one, other] = [one, other].map(|first| checkpoints(&history(first)));
    let known = [1, 2].map(|id| (id, one.clone())).into_iter().chain([3, 4, 5].map(|id| (id, other.clone()))).collect();
    let found = |voters: BTreeSet<NodeId>| difference(&voters, Some(1), &known).map(|found| found.odd);
    assert_eq!(found([1, 2, 3].into()), Some([3, 4, 5].into()));
    assert_eq!(found([1, 2, 3, 4, 5].into()), Some([1, 2].into()));
}
