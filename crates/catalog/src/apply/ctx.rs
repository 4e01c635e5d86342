//! Context of one apply: the only source of time, identity and ids in the catalog.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::change::ChangeSet;
use crate::catalog::Catalog;
use crate::model::sso::SsoAuthor;
use crate::model::stamp::Stamp;
use crate::model::time::{Present, Timestamp};

/// Id of one proposal for as long as its sender may repeat it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u128);

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Numbers and ids reserved for each entry; a batch of 100 items draws fewer.
pub(crate) const NUMBERS_PER_ENTRY: u64 = 1024;

/// Context of one apply: the state, the entry that changes it, and the changes so far.
pub(crate) struct Apply<'a> {
    pub(crate) catalog: &'a mut Catalog,
    pub(crate) ctx: &'a Ctx,
    pub(crate) changes: &'a mut ChangeSet,
}

impl Apply<'_> {
    /// Returns the same apply in another context.
    pub(crate) fn under<'b>(&'b mut self, ctx: &'b Ctx) -> Apply<'b> {
        Apply { catalog: self.catalog, ctx, changes: self.changes }
    }
}

/// Index and stamps of the entry being applied.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// Index of the log entry.
    pub index: u64,
    /// Time stamped by the leader; in the catalog it never goes back.
    pub time: Timestamp,
    /// Random bytes stamped by the leader, from which ids and revisions are drawn.
    pub seed: [u8; 16],
    pub request: RequestId,
    /// Number of times that the clock had been set, as known to the leader that stamped this entry.
    pub epoch: u16,
    /// Part of the time that is in doubt, in milliseconds.
    doubted_ms: u64,
    /// Name of the user on whose behalf the command was proposed.
    pub by: String,
    /// True for an action that was approved, or is an emergency.
    pub(crate) is_approved: bool,
    /// Claims of an author of an identity provider.
    pub(crate) author: Option<Arc<SsoAuthor>>,
    drawn: Cell<u32>,
}

impl Ctx {
    pub fn new(index: u64, time: Timestamp, seed: [u8; 16], request: RequestId, by: impl Into<String>) -> Self {
        let (by, drawn) = (by.into(), Cell::new(0));
        Ctx { index, time, seed, request, epoch: 0, doubted_ms: 0, by, is_approved: false, author: None, drawn }
    }

    /// Returns the time for decisions that cannot be undone; it is never ahead of the time that has certainly passed.
    pub fn sure(&self) -> Timestamp {
        Timestamp(self.time.0.saturating_sub(self.doubted_ms))
    }

    /// Returns both the stamped and the sure time.
    pub(crate) fn present(&self) -> Present {
        Present { stamped: self.time, sure: self.sure() }
    }

    pub(crate) fn with_doubted(self, doubted_ms: u64) -> Ctx {
        Ctx { doubted_ms, ..self }
    }

    /// Copies the context for a trial; the numbers it draws may be drawn again.
    pub(crate) fn apart(&self) -> Ctx {
        self.clone()
    }

    /// Copies the context for an action in the name of another user.
    pub(crate) fn in_name_of(&self, by: &str) -> Ctx {
        Ctx { by: by.to_owned(), ..self.clone() }
    }

    /// Copies the context for an approved action in the name of its requester.
    pub(crate) fn approved(&self, by: &str, author: Option<Arc<SsoAuthor>>) -> Ctx {
        Ctx { is_approved: true, author, ..self.in_name_of(by) }
    }

    /// Copies the context for the actions of an author of an identity provider.
    pub(crate) fn with_author(&self, author: Arc<SsoAuthor>) -> Ctx {
        Ctx { author: Some(author), ..self.clone() }
    }

    /// Skips the numbers and ids that the other context has drawn.
    pub(crate) fn draw_after(&self, other: &Ctx) {
        self.drawn.set(self.drawn.get().max(other.drawn.get()));
    }

    /// Returns this context with a time not before `clock`: a new leader's clock may be slower than the old one's.
    pub(crate) fn not_before(&self, clock: Timestamp) -> Ctx {
        self.at(self.time.max(clock))
    }

    /// Returns this context at another time.
    pub(crate) fn at(&self, time: Timestamp) -> Ctx {
        Ctx { time, drawn: Cell::new(0), ..self.clone() }
    }

    /// Reports whether that many more numbers and ids can be drawn from this entry.
    pub(crate) fn has_room_for(&self, draws: usize) -> bool {
        u64::from(self.drawn.get()) + draws as u64 <= NUMBERS_PER_ENTRY
    }

    /// Skips numbers, so that work that draws none counts against the same bound.
    pub(crate) fn skip(&self, draws: usize) {
        let draws = u32::try_from(draws).unwrap_or(u32::MAX);
        self.drawn.set(self.drawn.get().saturating_add(draws));
    }

    /// Returns the proposer and time of this entry.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { time: self.time, by: self.by.clone() }
    }

    /// Draws the next number of this entry, for things that clients know by number. It is unique because the log index
    /// is, and below 2^53 for 2^43 entries, see [`super::rekey::index_after`].
    pub fn draw_number(&self) -> u64 {
        let position = self.drawn.replace(self.drawn.get() + 1);
        self.index * NUMBERS_PER_ENTRY + u64::from(position)
    }

    /// Draws the next id of this entry: 32 lower-case hex digits, the same on every node.
    pub fn draw_id(&self) -> String {
        let position = self.drawn.replace(self.drawn.get() + 1);
        let digest = Sha256::new().chain_update(self.seed).chain_update(position.to_be_bytes()).finalize();
        let mut text = vec![0; 32];
        hex::encode_to_slice(&digest[..16], &mut text).expect("two digits for a byte");
        String::from_utf8(text).expect("digits")
    }
}
