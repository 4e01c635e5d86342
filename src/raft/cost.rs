//! Cost of an entry: the measure by which apply forms groups, applies large ones to a copy, and moves long ones off the
//! async threads.
//!
//! A cost has bytes, for decoding, copying and hashing, and items, for checking, storing and indexing. Neither is
//! exact, as a small entry may change much (all instances of a host), so a group also ends by time, see [`HELD_MAX`].
//!
//! An entry is decoded before it joins a group. So its items are known, and nothing is decoded while the catalog is
//! locked. The bytes of a message or of a read of the log are bounded elsewhere: `raft::batching`, `store`.

use std::collections::VecDeque;
use std::io;
use std::ops::Add;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use openraft::EntryPayload;

use super::proposal;
use crate::catalog::{Command, Ctx};
use crate::format::codec;
use crate::format::types::{Entry, LogId, Membership};
use crate::tasks::in_place;

/// Maximum cost of a group of more than one entry.
const GROUP_MAX: Cost = Cost { bytes: 256 * 1024, items: 256 };

/// Cost from which on a single entry is applied to a copy of the catalog, which then replaces it: ten thousand changes
/// of health are one entry, and neither a reader nor a heartbeat must wait for them. The copy of everything that
/// changes would be too expensive for many small entries.
const LARGE: Cost = Cost { bytes: 64 * 1024, items: 64 };

/// Bytes from which on a group of small entries is applied where no other task waits for it. Below, the change of
/// threads costs more than the wait: a group of 256 writes of 200 bytes has some 120 KiB and takes a millisecond or
/// two.
const LONG_BYTES: usize = 192 * 1024;

/// Time after which a group unlocks the catalog and goes on after the waiting readers: a fifth of the delay that a
/// reader tolerates, since one more entry may have to finish, on a processor that is shared.
pub(super) const HELD_MAX: Duration = Duration::from_millis(10);

/// Cost of an entry or of a group, see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    bytes: usize,
    items: usize,
}

impl Cost {
    /// Returns the cost of an entry that is not decoded, as far as it is known.
    fn of_bytes(entry: &Entry) -> Cost {
        Cost { bytes: codec::entry_payload_bytes(entry), items: 1 }
    }

    fn is_large(self) -> bool {
        self.bytes >= LARGE.bytes || self.items >= LARGE.items
    }

    fn fits(self) -> bool {
        self.bytes <= GROUP_MAX.bytes && self.items <= GROUP_MAX.items
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { bytes: self.bytes + other.bytes, items: self.items + other.items }
    }
}

/// An entry that is decoded and ready to be applied.
pub(super) struct Opened {
    pub(super) log_id: LogId,
    pub(super) payload: Payload,
    cost: Cost,
}

pub(super) enum Payload {
    Blank,
    Membership(Membership),
    Command(Ctx, Command),
}

impl Opened {
    /// Decodes an entry. Fails if it cannot be decoded, which means that the log is damaged.
    pub(super) fn open(entry: &Entry) -> io::Result<Opened> {
        let (log_id, cost) = (entry.log_id, Cost::of_bytes(entry));
        let (payload, items) = match &entry.payload {
            EntryPayload::Blank => (Payload::Blank, 1),
            EntryPayload::Membership(membership) => (Payload::Membership(membership.clone()), 1),
            EntryPayload::Normal(proposal) => {
                let damaged =
                    |error| io::Error::new(io::ErrorKind::InvalidData, format!("log entry {log_id}: {error}"));
                let (ctx, command) = proposal::open(log_id.index, proposal).map_err(damaged)?;
                let items = command.items().max(1);
                (Payload::Command(ctx, command), items)
            }
        };
        Ok(Opened { log_id, payload, cost: Cost { items, ..cost } })
    }
}

/// Entries that are applied together, in the order of the log.
pub(super) struct ApplyBatch {
    entries: VecDeque<Opened>,
    cost: Cost,
    is_beside: bool,
}

impl From<Opened> for ApplyBatch {
    fn from(first: Opened) -> ApplyBatch {
        ApplyBatch { cost: first.cost, is_beside: first.cost.is_large(), entries: VecDeque::from([first]) }
    }
}

impl ApplyBatch {
    /// Reports whether the next entry belongs to this group: it fits, and it is large if the others are.
    fn admits(&self, next: &Opened) -> bool {
        next.cost.is_large() == self.is_beside && (self.cost + next.cost).fits()
    }

    fn push(&mut self, next: Opened) {
        self.cost = self.cost + next.cost;
        self.entries.push_back(next);
    }

    /// Removes and returns the next entry to apply.
    pub(super) fn pop(&mut self) -> Option<Opened> {
        self.entries.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reports whether the group is applied to a copy, see [`LARGE`].
    pub(super) fn is_beside(&self) -> bool {
        self.is_beside
    }

    /// Reports whether other tasks must not wait for the group.
    pub(super) fn is_long(&self) -> bool {
        self.is_beside || self.cost.bytes >= LONG_BYTES
    }
}

/// Stream of groups of entries, each with the responders of its entries.
pub(super) struct Groups<S, R> {
    entries: S,
    /// Entry that did not fit into the last group.
    next: Option<(Opened, R)>,
}

impl<S, R> Groups<S, R>
where
    S: Stream<Item = io::Result<(Entry, R)>> + Unpin,
{
    pub(super) fn of(entries: S) -> Self {
        Groups { entries, next: None }
    }

    /// Returns the next group, or `None` at the end. Reads one entry ahead.
    pub(super) async fn next(&mut self) -> io::Result<Option<(ApplyBatch, VecDeque<R>)>> {
        let first = match self.next.take() {
            Some(first) => Some(first),
            None => self.open_one().await?,
        };
        let Some((first, responder)) = first else { return Ok(None) };
        let (mut group, mut responders) = (ApplyBatch::from(first), VecDeque::from([responder]));
        while let Some((opened, responder)) = self.open_one().await? {
            if !group.admits(&opened) {
                self.next = Some((opened, responder));
                break;
            }
            group.push(opened);
            responders.push_back(responder);
        }
        Ok(Some((group, responders)))
    }

    /// Reports whether another group follows the last one.
    pub(super) fn has_more(&self) -> bool {
        self.next.is_some()
    }

    async fn open_one(&mut self) -> io::Result<Option<(Opened, R)>> {
        let Some((entry, responder)) = self.entries.try_next().await? else { return Ok(None) };
        let is_long = Cost::of_bytes(&entry).is_large();
        let opened = if is_long { in_place(|| Opened::open(&entry)) } else { Opened::open(&entry) };
        Ok(Some((opened?, responder)))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::{InstanceHealth, Op, RequestId};
    use crate::format::types::{CommittedLeaderId, Member, Proposal};
    use crate::model::namespace::NamespaceDraft;
    use crate::model::time::Timestamp;

    fn log_id(index: u64) -> LogId {
        LogId::new(CommittedLeaderId::new(1), index)
    }

    fn opened(bytes: usize, items: usize) -> Opened {
        Opened { log_id: log_id(1), payload: Payload::Blank, cost: Cost { bytes, items } }
    }

    fn proposal_of(bytes: usize) -> EntryPayload<Proposal, u64, Member> {
        let namespace = NamespaceDraft { name: "n".repeat(bytes), ..NamespaceDraft::default() };
        let draft = proposal::Draft::new(RequestId(1), "somebody", &Command::Namespaces(Op::Create, vec![namespace]));
        EntryPayload::Normal(proposal::stamp(Timestamp(1), 0, [0; 16], &draft))
    }

    /// Returns the number of entries of each group, and whether it is applied to a copy.
    fn groups(costs: &[(usize, usize)]) -> Vec<(usize, bool)> {
        let mut groups: Vec<ApplyBatch> = Vec::new();
        for (bytes, items) in costs {
            let opened = opened(*bytes, *items);
            match groups.last_mut() {
                Some(group) if group.admits(&opened) => group.push(opened),
                _ => groups.push(ApplyBatch::from(opened)),
            }
        }
        groups.iter().map(|group| (group.entries.len(), group.is_beside())).collect()
    }

    #[test]
    fn groups_end_by_items_by_bytes_and_where_large_entries_begin_or_end() {
        let small = (300, 1);
        for (costs, expected) in [
            (vec![small; 10], vec![(10, false)]),
            (vec![small; 600], vec![(256, false), (256, false), (88, false)]),
            (vec![(44 * 1024, 100); 5], vec![(2, true), (2, true), (1, true)]),
            (vec![(20 * 1024, 50); 11], vec![(5, false), (5, false), (1, false)]),
            (vec![(60 * 1024, 1); 9], vec![(4, false), (4, false), (1, false)]),
            (vec![(600 * 1024, 10_000); 2], vec![(1, true), (1, true)]),
            (vec![(100 * 1024, 1); 3], vec![(2, true), (1, true)]),
            (vec![small, small, (64 * 1024, 1), small], vec![(2, false), (1, true), (1, false)]),
            (vec![small, (300, 64), small], vec![(1, false), (1, true), (1, false)]),
        ] {
            assert_eq!(groups(&costs), expected, "{:?}", &costs[..costs.len().min(5)]);
        }
    }

    proptest! {
        #![proptest_config(crate::test_seed::cases(256))]

        #[test]
        fn a_group_is_bounded_but_for_its_first_entry(costs in prop::collection::vec((0..400_000_usize, 1..400_usize),
            1..60)) {
            let mut rest = &costs[..];
            for (count, is_beside) in groups(&costs) {
                let (group, after) = rest.split_at(count);
                let sum = group.iter().fold(Cost::default(), |sum,
                    (bytes, items)| sum + Cost { bytes: *bytes, items: *items });
                prop_assert!(count == 1 || sum.fits(), "{group:?}");
                let large = group.iter().filter(|(bytes, items)| Cost { bytes: *bytes, items: *items }.is_large());
                prop_assert_eq!(large.count(), if is_beside { count } else { 0 });
                rest = after;
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[tokio::test]
    async fn every_entry_is_in_one_group_with_who_waits_for_it() {
        let entry = |index, bytes| Entry { log_id: log_id(index), payload: proposal_of(bytes) };
        let entries = (1..).zip([10, 10, 70_000, 10, 10]).map(|(index, bytes)| Ok((entry(index, bytes), index)));
        let mut groups = Groups::of(stream::iter(entries));
        let mut found = Vec::new();
        while let Some((mut group, responders)) = groups.next().await.expect("readable") {
            let indexes: Vec<_> = std::iter::from_fn(|| group.pop()).map(|opened| opened.log_id.index).collect();
            assert_eq!(indexes, Vec::from(responders));
            found.push((indexes, groups.has_more()));
        }
        assert_eq!(found, [(vec![1, 2], true), (vec![3], true), (vec![4, 5], false)]);
    }

    #[test]
    fn an_entry_costs_its_bytes_and_the_items_of_its_command() {
        let health = |count| {
            let found = InstanceHealth { id: "i".into(), healthy: true, ..InstanceHealth::default() };
            Command::InstanceHealth(vec![found; count])
        };
        let namespaces = |count| Command::Namespaces(Op::Create, vec![NamespaceDraft::default(); count]);
        for (command, items) in [(health(10_000), 10_000), (namespaces(3), 3), (namespaces(0), 1)] {
            let draft = proposal::Draft::new(RequestId(1), "somebody", &command);
            let proposal = proposal::stamp(Timestamp(1), 0, [0; 16], &draft);
            let bytes = proposal.0.len();
            let entry = Entry { log_id: log_id(7), payload: EntryPayload::Normal(proposal) };
            let opened = Opened::open(&entry).expect("readable");
            assert_eq!((opened.log_id, opened.cost), (log_id(7), Cost { bytes, items }));
        }
        let damaged = Entry { log_id: log_id(7), payload: EntryPayload::Normal(Proposal(Bytes::from_static(b"x"))) };
        let error = Opened::open(&damaged).err().expect("damage");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains('7'), "{error}");
    }
}
