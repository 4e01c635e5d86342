//! The memory of request ids, which makes a repeated proposal harmless: a node that lost the leader
//! in the middle of a forward may send the same command again.
//!
//! An id is remembered for [`limits::REQUEST_MEMORY_MS`] of log time, which is longer than any node
//! goes on repeating, and the number is bounded. The newest one also keeps the clock of the log.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::change::Journal;
use super::ctx::{Ctx, RequestId};
use super::row::{Row, Table};
use crate::model::limits;
use crate::model::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    /// Index of the entry, big-endian so that rows come back in order.
    index: [u8; 8],
    time: Timestamp,
    request: RequestId,
}

impl Row for Remembered {
    const TABLE: Table = Table::Request;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        vec![Cow::Borrowed(&self.index)]
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    by_index: BTreeMap<[u8; 8], Remembered>,
    known: BTreeSet<RequestId>,
}

impl Requests {
    /// The time of the newest entry.
    pub(super) fn clock(&self) -> Timestamp {
        self.by_index.last_key_value().map(|(_, newest)| newest.time).unwrap_or_default()
    }

    /// False if the request was applied before.
    pub(super) fn remember(&mut self, ctx: &Ctx, journal: &mut Journal) -> bool {
        if self.known.contains(&ctx.request) {
            return false;
        }
        self.forget_old(ctx.time, journal);
        let row = Remembered { index: ctx.index.to_be_bytes(), time: ctx.time, request: ctx.request };
        journal.put(&row);
        self.load(row);
        true
    }

    pub(super) fn load(&mut self, row: Remembered) {
        self.known.insert(row.request);
        self.by_index.insert(row.index, row);
    }

    fn forget_old(&mut self, now: Timestamp, journal: &mut Journal) {
        while let Some((_, oldest)) = self.by_index.first_key_value() {
            let expired = oldest.time.plus_ms(limits::REQUEST_MEMORY_MS) < now;
            if !expired && self.by_index.len() < limits::REQUEST_MEMORY_MAX {
                return;
            }
            journal.delete(oldest);
            self.known.remove(&oldest.request);
            self.by_index.pop_first();
        }
    }
}
