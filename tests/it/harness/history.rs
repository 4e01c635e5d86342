//! Judges whether what clients saw of one value could have happened in one order.
//!
//! Each operation took effect at one moment between its begin and its end, if it was answered; a
//! write without a clear answer may take effect at any moment after its begin, or never. The search
//! tries every order that these bounds allow (Wing and Gong), remembering the situations already
//! found hopeless. Every written value is unique, which keeps the search short.

use std::collections::HashSet;
use std::time::Instant;

/// An order is a set of operations done; 128 of them fit one machine word pair.
const OPERATIONS_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Write(u64),
    Read(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) begun: Instant,
    /// None: no clear answer came.
    pub(crate) ended: Option<Instant>,
}

/// True if some order explains all operations, starting from `initial`.
pub(crate) fn is_linearizable(initial: u64, operations: &[Operation]) -> bool {
    assert!(operations.len() <= OPERATIONS_MAX, "{} operations on one value", operations.len());
    let answered = operations.iter().enumerate().filter(|(_, operation)| operation.ended.is_some());
    let required = answered.fold(0_u128, |set, (at, _)| set | 1 << at);
    let (mut seen, mut open) = (HashSet::new(), vec![(0_u128, initial)]);
    while let Some((done, value)) = open.pop() {
        if done & required == required {
            return true;
        }
        if seen.insert((done, value)) {
            open.extend(next(operations, done, value));
        }
    }
    false
}

/// Every situation that one more operation leads to.
fn next(operations: &[Operation], done: u128, value: u64) -> impl Iterator<Item = (u128, u64)> {
    let pending = move |at: &usize| done & (1 << at) == 0;
    // No operation may precede one that had ended before it began.
    let first_end = (0..operations.len()).filter(pending).filter_map(|at| operations[at].ended).min();
    (0..operations.len()).filter(pending).filter_map(move |at| {
        let operation = &operations[at];
        if first_end.is_some_and(|end| operation.begun > end) {
            return None;
        }
        match operation.kind {
            Kind::Write(written) => Some((done | 1 << at, written)),
            Kind::Read(read) => (read == value).then_some((done | 1 << at, value)),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Operations as (kind, begin, end), an end of 0 meaning none, in milliseconds.
    fn judge(rows: &[(Kind, u64, u64)]) -> bool {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let operations: Vec<_> = rows
            .iter()
            .map(|(kind, begun, ended)| Operation {
                kind: *kind,
                begun: at(*begun),
                ended: (*ended > 0).then(|| at(*ended)),
            })
            .collect();
        is_linearizable(0, &operations)
    }

    #[test]
    fn histories_are_judged() {
        use Kind::{Read, Write};
        let cases = [
            ("nothing happened", vec![], true),
            ("a read of what was written", vec![(Write(1), 1, 2), (Read(1), 3, 4)], true),
            ("a stale read", vec![(Write(1), 1, 2), (Read(0), 3, 4)], false),
            ("a read beside the write, either way", vec![(Write(1), 1, 9), (Read(0), 2, 3), (Read(1), 4, 5)], true),
            ("back and forth beside the write", vec![(Write(1), 1, 9), (Read(1), 2, 3), (Read(0), 4, 5)], false),
            ("a lost write", vec![(Write(1), 1, 2), (Write(2), 3, 4), (Read(1), 5, 6)], false),
            ("an unclear write that happened late", vec![(Write(1), 1, 0), (Read(0), 2, 3), (Read(1), 4, 5)], true),
            ("an unclear write that never happened", vec![(Write(1), 1, 0), (Read(0), 2, 3)], true),
            ("a value that nobody wrote", vec![(Read(7), 1, 2)], false),
            ("a read of the future", vec![(Read(1), 1, 2), (Write(1), 3, 4)], false),
        ];
        for (title, rows, expected) in cases {
            assert_eq!(judge(&rows), expected, "{title}");
        }
    }
}
