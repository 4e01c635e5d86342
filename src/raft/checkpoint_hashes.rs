//! State hashes at fixed indexes, and the comparison of the members' hashes.
//!
//! The hash of a node is a chain over everything that its applies changed. Two nodes with the same hash at an index
//! applied the same up to there, and two that differ once differ from then on, so it is enough to compare now and then.
//! A node keeps its hash at multiples of an interval, of 16 intervals and of 256: nodes that are millions of entries
//! apart still have an index in common.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::format::types::NodeId;
use crate::peer::Checkpoint;

/// Intervals between two checkpoints of each row.
const STRIDES: [u64; 3] = [1, 16, 256];
/// Number of checkpoints of each row.
const KEPT: usize = 16;

/// Checkpoints of one node. They are lost with the process; the chain itself goes on.
#[derive(Debug)]
pub(super) struct Checkpoints {
    every: u64,
    rows: [VecDeque<Checkpoint>; STRIDES.len()],
}

impl Checkpoints {
    /// Creates an empty set with one checkpoint per `every` entries.
    pub(super) fn new(every: u64) -> Self {
        Checkpoints { every: every.max(1), rows: Default::default() }
    }

    /// Reports whether the hash at `index` is to be recorded.
    pub(super) fn is_due(&self, index: u64) -> bool {
        index > 0 && index.is_multiple_of(self.every)
    }

    pub(super) fn note(&mut self, checkpoint: Checkpoint) {
        for (row, stride) in self.rows.iter_mut().zip(STRIDES) {
            if !checkpoint.index.is_multiple_of(self.every.saturating_mul(stride)) {
                continue;
            }
            // A restarted node applies the end of its log again.
            row.retain(|kept| kept.index < checkpoint.index);
            if row.len() == KEPT {
                row.pop_front();
            }
            row.push_back(checkpoint);
        }
    }

    /// Removes all checkpoints after the state was replaced: they belong to another state.
    pub(super) fn clear(&mut self) {
        self.rows = Default::default();
    }

    pub(super) fn all(&self) -> Vec<Checkpoint> {
        let by_index: BTreeMap<u64, Checkpoint> = self.rows.iter().flatten().map(|kept| (kept.index, *kept)).collect();
        by_index.into_values().collect()
    }
}

/// A difference between the states of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) index: u64,
    /// Members whose state is wrong; empty while that cannot be decided.
    pub(super) odd: BTreeSet<NodeId>,
    /// All members that were compared.
    pub(super) compared: BTreeSet<NodeId>,
}

/// Returns the newest index at which the members differ and it is clear who is wrong, else the newest at which they
/// differ at all.
///
/// The hash of a majority of all voters is right. If all voters were compared and no hash has a majority, typically
/// with two voters, the leader's is right: the others would get its state in the end. While voters that could decide
/// are away, no member counts as wrong.
pub(super) fn difference(
    voters: &BTreeSet<NodeId>,
    leader: Option<NodeId>,
    known: &BTreeMap<NodeId, Vec<Checkpoint>>,
) -> Option<Difference> {
    let mut at: BTreeMap<u64, BTreeMap<NodeId, [u8; 32]>> = BTreeMap::new();
    for (node_id, checkpoints) in known {
        for checkpoint in checkpoints {
            at.entry(checkpoint.index).or_default().insert(*node_id, checkpoint.hash);
        }
    }
    let differs = |said: &BTreeMap<NodeId, [u8; 32]>| said.values().any(|hash| Some(hash) != said.values().next());
    let mut unclear = None;
    for (index, said) in at.into_iter().rev().filter(|(_, said)| differs(said)) {
        let compared = said.keys().copied().collect();
        let Some(right) = right_hash(voters, leader, &said) else {
            unclear.get_or_insert(Difference { index, odd: BTreeSet::new(), compared });
            continue;
        };
        let odd = said.iter().filter(|(_, hash)| **hash != right).map(|(id, _)| *id).collect();
        return Some(Difference { index, odd, compared });
    }
    unclear
}

fn right_hash(
    voters: &BTreeSet<NodeId>,
    leader: Option<NodeId>,
    said: &BTreeMap<NodeId, [u8; 32]>,
) -> Option<[u8; 32]> {
    let votes: Vec<[u8; 32]> = voters.iter().filter_map(|voter| said.get(voter)).copied().collect();
    let has_majority = |hash: &[u8; 32]| votes.iter().filter(|vote| *vote == hash).count() > voters.len() / 2;
    let by_majority = votes.iter().find(|hash| has_majority(hash)).copied();
    let by_leader = || said.get(&leader?).copied().filter(|_| votes.len() == voters.len());
    by_majority.or_else(by_leader)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(index: u64, hash: u8) -> Checkpoint {
        Checkpoint { index, hash: [hash; 32] }
    }

    /// Each row: name, voters, leader, hashes (node, index, hash), and the expected index and wrong members.
    #[test]
    fn who_is_wrong() {
        type Said<'a> = &'a [(NodeId, u64, u8)];
        type Row<'a> = (&'a str, &'a [NodeId], Option<NodeId>, Said<'a>, Option<(u64, &'a [NodeId])>);
        let three = &[1, 2, 3][..];
        let rows: &[Row<'_>] = &[
            ("nothing known", three, Some(1), &[], None),
            ("alone", three, Some(1), &[(1, 8, 1)], None),
            ("equal", three, Some(1), &[(1, 8, 1), (2, 8, 1), (3, 8, 1)], None),
            ("no index in common", three, Some(1), &[(1, 8, 1), (2, 16, 2), (3, 24, 3)], None),
            ("a follower", three, Some(1), &[(1, 8, 1), (2, 8, 1), (3, 8, 9)], Some((8, &[3]))),
            ("the leader", three, Some(1), &[(1, 8, 9), (2, 8, 1), (3, 8, 1)], Some((8, &[1]))),
            ("no leader is needed", three, None, &[(1, 8, 9), (2, 8, 1), (3, 8, 1)], Some((8, &[1]))),
            ("one voter away", three, Some(1), &[(1, 8, 1), (2, 8, 9)], Some((8, &[]))),
            ("all differ: the leader's", three, Some(2), &[(1, 8, 1), (2, 8, 2), (3, 8, 3)], Some((8, &[1, 3]))),
            ("all differ, no leader", three, None, &[(1, 8, 1), (2, 8, 2), (3, 8, 3)], Some((8, &[]))),
            ("two voters", &[1, 2], Some(2), &[(1, 8, 1), (2, 8, 9)], Some((8, &[1]))),
            ("two voters, no leader", &[1, 2], None, &[(1, 8, 1), (2, 8, 9)], Some((8, &[]))),
            ("a learner", &[1, 2], Some(1), &[(1, 8, 1), (2, 8, 1), (3, 8, 9)], Some((8, &[3]))),
            ("learners do not vote", &[1], Some(1), &[(1, 8, 1), (2, 8, 9), (3, 8, 9)], Some((8, &[2, 3]))),
            ("two of five away", &[1, 2, 3, 4, 5], Some(1), &[(1, 8, 1), (2, 8, 1), (3, 8, 9)], Some((8, &[]))),
            (
                "three of five agree",
                &[1, 2, 3, 4, 5],
                Some(4),
                &[(1, 8, 1), (2, 8, 1), (3, 8, 1), (4, 8, 9)],
                Some((8, &[4])),
            ),
            (
                "an older index decides",
                three,
                Some(1),
                &[(1, 8, 1), (2, 8, 1), (3, 8, 9), (1, 16, 2), (3, 16, 8)],
                Some((8, &[3])),
            ),
            (
                "an even split goes with the leader",
                &[1, 2, 3, 4],
                Some(3),
                &[(1, 8, 1), (2, 8, 1), (3, 8, 9), (4, 8, 9)],
                Some((8, &[1, 2])),
            ),
        ];
        for (what, voters, leader, said, expected) in rows {
            let voters: BTreeSet<NodeId> = voters.iter().copied().collect();
            let mut known: BTreeMap<NodeId, Vec<Checkpoint>> = BTreeMap::new();
            for (node_id, index, hash) in *said {
                known.entry(*node_id).or_default().push(checkpoint(*index, *hash));
            }
            let found = difference(&voters, *leader, &known).map(|found| (found.index, found.odd));
            let expected = expected.map(|(index, odd)| (index, odd.iter().copied().collect()));
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn nodes_far_apart_have_an_index_in_common() {
        let kept_after = |applied: u64| {
            let mut checkpoints = Checkpoints::new(10);
            for index in (0..=applied).filter(|index| index.is_multiple_of(10)) {
                if checkpoints.is_due(index) {
                    checkpoints.note(checkpoint(index, 1));
                }
            }
            checkpoints.all()
        };
        let ahead = kept_after(100_000);
        assert_eq!(ahead.last().map(|kept| kept.index), Some(100_000));
        assert!(ahead.len() <= KEPT * STRIDES.len());
        assert!(ahead.is_sorted_by_key(|kept| kept.index));
        for behind in [99_995, 99_000, 90_000, 70_000] {
            let behind = kept_after(behind);
            assert!(behind.iter().any(|kept| ahead.contains(kept)), "{behind:?} and {ahead:?}");
        }
    }

    #[test]
    fn what_is_applied_again_is_noted_once_and_a_new_state_begins_anew() {
        let mut checkpoints = Checkpoints::new(1);
        for index in [1, 2, 3, 2, 3] {
            checkpoints.note(checkpoint(index, 1));
        }
        assert_eq!(checkpoints.all().iter().map(|kept| kept.index).collect::<Vec<_>>(), [1, 2, 3]);
        checkpoints.clear();
        assert_eq!(checkpoints.all(), []);
    }
}
