//! Command and row of the level that exists only in tests, see [`crate::format::level`].

use serde::{Deserialize, Serialize};

use super::change::Outcome;
use super::row::{Row, RowKey, Table};
use crate::catalog::ctx::Apply;

/// The single row of that level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextLevel {
    pub text: String,
}

impl Row for NextLevel {
    const TABLE: Table = Table::NextLevel;
    fn name(&self, _: &mut RowKey) {}
}

impl Apply<'_> {
    pub(super) fn put_next_level(&mut self, row: NextLevel) -> Outcome {
        self.changes.put(&row);
        self.catalog.next_level = Some(row);
        Outcome::default()
    }
}
