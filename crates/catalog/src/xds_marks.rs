//! Marks of the days on which clients of xDS used a namespace. Warnings of what those clients do not carry out are
//! shown for such namespaces only.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::change::{ChangeSet, Outcome};
use super::ctx::Apply;
use super::row::{Row, RowKey, Table};
use crate::model::code::Code;
use crate::model::time::Timestamp;

/// Last day on which a client of xDS used a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct XdsMark {
    namespace: String,
    /// Whole days since the Unix epoch.
    day: u64,
}

impl Row for XdsMark {
    const TABLE: Table = Table::XdsMark;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.namespace);
    }
}

/// Marks of all namespaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct XdsMarks {
    days: OrdMap<Arc<str>, u64>,
}

impl XdsMarks {
    /// Reports whether a namespace has a mark of the day of `now`.
    pub fn has_today(&self, namespace: &str, now: Timestamp) -> bool {
        self.days.get(namespace).is_some_and(|day| *day >= now.day())
    }

    /// Reports whether a client used a namespace on the day of `now`, or on the day before.
    pub fn was_seen(&self, namespace: &str, now: Timestamp) -> bool {
        self.days.get(namespace).is_some_and(|day| *day + 1 >= now.day())
    }

    pub(super) fn load(&mut self, mark: XdsMark) {
        self.days.insert(mark.namespace.into(), mark.day);
    }

    /// Removes the mark of a deleted namespace.
    pub(super) fn remove(&mut self, namespace: &str, changes: &mut ChangeSet) {
        if let Some(day) = self.days.remove(namespace) {
            changes.delete(&XdsMark { namespace: namespace.to_owned(), day });
        }
    }
}

impl Apply<'_> {
    /// Marks an existing namespace for the day of the entry.
    pub(super) fn mark_xds(&mut self, namespace: &str) -> Outcome {
        if self.catalog.namespaces.get(namespace).is_none() {
            return Code::NotFoundResource.into();
        }
        if self.catalog.xds_marks.has_today(namespace, self.ctx.time) {
            return Code::NoNeedUpdate.into();
        }
        let mark = XdsMark { namespace: namespace.to_owned(), day: self.ctx.time.day() };
        self.changes.put(&mark);
        self.catalog.xds_marks.load(mark);
        Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::testing::Bench;
    use crate::catalog::{Command, Op};
    use crate::model::namespace::NamespaceDraft;

    const DAY_MS: u64 = 24 * 3600 * 1000;

    fn namespaces(op: Op) -> Command {
        Command::Namespaces(op, vec![NamespaceDraft { name: "shop".into(), ..NamespaceDraft::default() }])
    }

    #[test]
    fn a_namespace_has_a_mark_for_each_day_until_it_goes() {
        let mut bench = Bench::founded();
        let mark = || Command::XdsSeen(vec!["shop".into(), "nowhere".into()]);
        bench.codes(namespaces(Op::Create));
        let rows = |bench: &Bench| bench.rows.keys().filter(|key| key[0] == Table::XdsMark as u8).count();
        assert_eq!(bench.codes(mark()), [200_000, 400_202], "what is not there has none");
        assert_eq!(bench.codes(mark()), [200_002, 400_202], "one a day");
        assert_eq!(rows(&bench), 1);
        let today = bench.catalog.clock();
        let seen = |bench: &Bench, days: u64| bench.catalog.xds_marks.was_seen("shop", today.plus_ms(days * DAY_MS));
        assert_eq!([0, 1, 2].map(|days| seen(&bench, days)), [true, true, false]);
        assert!(!bench.catalog.xds_marks.was_seen("nowhere", today));
        assert_eq!(bench.codes(namespaces(Op::Delete)), [200_000]);
        assert_eq!((rows(&bench), seen(&bench, 0)), (0, false));
    }
}
