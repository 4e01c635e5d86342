//! The context of one apply: the only source of time, identity and ids in the catalog.

use std::cell::Cell;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::config_file::Stamp;
use crate::model::time::{Present, Timestamp};

/// Names one proposal for as long as its sender may repeat it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u128);

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A batch of 100 items draws fewer.
pub(in crate::catalog) const NUMBERS_PER_ENTRY: u64 = 1024;

/// Index and stamps of the entry being applied.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// Index of the log entry.
    pub index: u64,
    /// Stamped by the leader; in the catalog it never runs backwards.
    pub time: Timestamp,
    /// Random bytes stamped by the leader, from which ids and revisions are drawn.
    pub seed: [u8; 16],
    pub request: RequestId,
    /// Number of times that the time was set, as the leader that stamped this entry knew it.
    pub epoch: u16,
    /// Milliseconds of the time that are in doubt.
    doubted_ms: u64,
    /// Name of the user on whose behalf the command was proposed.
    pub by: String,
    /// True of an act that was approved, or is done in an emergency.
    pub(in crate::catalog) is_approved: bool,
    drawn: Cell<u32>,
}

impl Ctx {
    pub fn new(index: u64, time: Timestamp, seed: [u8; 16], request: RequestId, by: impl Into<String>) -> Self {
        let (by, drawn) = (by.into(), Cell::new(0));
        Ctx { index, time, seed, request, epoch: 0, doubted_ms: 0, by, is_approved: false, drawn }
    }

    /// Returns the time by which everything is decided that cannot be undone: never ahead of what has passed for sure.
    pub fn sure(&self) -> Timestamp {
        Timestamp(self.time.0.saturating_sub(self.doubted_ms))
    }

    /// Returns the time, and the sure one.
    pub(in crate::catalog) fn present(&self) -> Present {
        Present { stamped: self.time, sure: self.sure() }
    }

    pub(in crate::catalog) fn with_doubted(self, doubted_ms: u64) -> Ctx {
        Ctx { doubted_ms, ..self }
    }

    /// This entry for something that is tried and left: what it draws may be drawn again.
    pub(in crate::catalog) fn apart(&self) -> Ctx {
        self.clone()
    }

    /// This entry for something that is done in the name of another.
    pub(in crate::catalog) fn in_name_of(&self, by: &str) -> Ctx {
        Ctx { by: by.to_owned(), ..self.clone() }
    }

    /// This entry for an act that was approved, done in the name of whoever asked for it.
    pub(in crate::catalog) fn approved(&self, by: &str) -> Ctx {
        Ctx { is_approved: true, ..self.in_name_of(by) }
    }

    /// Skips the numbers and ids that the other has drawn.
    pub(in crate::catalog) fn draw_after(&self, other: &Ctx) {
        self.drawn.set(self.drawn.get().max(other.drawn.get()));
    }

    /// This context with its time moved up to `clock`, if it lies before: a new leader's clock may
    /// be behind the old one's.
    pub(in crate::catalog) fn not_before(&self, clock: Timestamp) -> Ctx {
        self.at(self.time.max(clock))
    }

    /// Returns this context at another time.
    pub(in crate::catalog) fn at(&self, time: Timestamp) -> Ctx {
        Ctx { time, drawn: Cell::new(0), ..self.clone() }
    }

    /// True if so many more numbers and ids may be drawn before they would be those of the next entry.
    pub(in crate::catalog) fn has_room_for(&self, draws: usize) -> bool {
        u64::from(self.drawn.get()) + draws as u64 <= NUMBERS_PER_ENTRY
    }

    /// Draws so many and uses none: for work that is bounded as what draws them is.
    pub(in crate::catalog) fn skip(&self, draws: usize) {
        let draws = u32::try_from(draws).unwrap_or(u32::MAX);
        self.drawn.set(self.drawn.get().saturating_add(draws));
    }

    /// Proposer of this entry, and its time.
    pub(in crate::catalog) fn stamp(&self) -> Stamp {
        Stamp { time: self.time, by: self.by.clone() }
    }

    /// The next number of this entry, for things that clients know by number: unique because the
    /// log index is, and below 2^53 for 2^43 entries, see [`super::rekey::index_after`].
    pub fn draw_number(&self) -> u64 {
        let position = self.drawn.replace(self.drawn.get() + 1);
        self.index * NUMBERS_PER_ENTRY + u64::from(position)
    }

    /// The next id of this entry: 32 lower-case hex digits, the same on every node.
    pub fn draw_id(&self) -> String {
        let position = self.drawn.replace(self.drawn.get() + 1);
        let digest = Sha256::new().chain_update(self.seed).chain_update(position.to_be_bytes()).finalize();
        let mut text = vec![0; 32];
        hex::encode_to_slice(&digest[..16], &mut text).expect("two digits for a byte");
        String::from_utf8(text).expect("digits")
    }
}
