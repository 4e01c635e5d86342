//! Shares of the requesters: their pending requests, and their stored closed ones. A request counts for the
//! person, whichever service token was used, so a person that fills its share affects no other.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::format::pack;
use crate::model::approval::{ApprovalRequest, Snapshot};
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::time::Timestamp;

/// Number of requests, and their bytes in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    count: usize,
    bytes: u64,
}

impl Load {
    fn add(&mut self, bytes: u64) {
        *self = Load { count: self.count + 1, bytes: self.bytes + bytes };
    }

    fn subtract(&mut self, bytes: u64) {
        *self = Load { count: self.count.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) };
    }

    fn is_beyond(self, (count, bytes): (usize, u64)) -> bool {
        self.count > count || self.bytes > bytes
    }
}

/// Closed requests of one person, by the time at which they were closed.
#[derive(Clone, Debug, Default, PartialEq)]
struct Closed {
    load: Load,
    all: OrdSet<(Timestamp, Arc<str>)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shares {
    /// Size of each request, in bytes.
    bytes: OrdMap<Arc<str>, u64>,
    /// Pending share of each person.
    waiting: OrdMap<Arc<str>, Load>,
    all_waiting: Load,
    closed: OrdMap<Arc<str>, Closed>,
    all_closed: Load,
    /// People by the bytes of their closed requests.
    heaviest: OrdSet<(u64, Arc<str>)>,
}

impl Shares {
    /// Refuses a further request of a person whose share is full, or when all places are taken.
    pub(super) fn admit(&self, person: &str) -> Result<(), Refusal> {
        let refuse = |why: String| Err(Refusal::new(Code::TooMany, why));
        let own = self.waiting.get(person).copied().unwrap_or_default();
        if own.count >= limits::REQUESTS_OF_ONE_MAX {
            return refuse(format!("at most {} requests of one person wait for approval", limits::REQUESTS_OF_ONE_MAX));
        }
        if own.bytes >= limits::REQUESTS_OF_ONE_BYTES_MAX {
            let mib = limits::REQUESTS_OF_ONE_BYTES_MAX >> 20;
            return refuse(format!("at most {mib} MiB of what one person asks for wait for approval"));
        }
        if self.all_waiting.count >= limits::REQUESTS_PENDING_MAX {
            return refuse(format!("at most {} requests wait for approval", limits::REQUESTS_PENDING_MAX));
        }
        if self.all_waiting.bytes >= limits::REQUESTS_PENDING_BYTES_MAX {
            let mib = limits::REQUESTS_PENDING_BYTES_MAX >> 20;
            return refuse(format!("at most {mib} MiB of what is asked for wait for approval"));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn bytes_of_one(&self, person: &str) -> u64 {
        self.waiting.get(person).map_or(0, |load| load.bytes)
    }

    pub(super) fn join(&mut self, request: &ApprovalRequest) {
        let (id, person): (Arc<str>, Arc<str>) = (request.id.as_str().into(), request.payer().into());
        let bytes = bytes_of(request);
        self.bytes.insert(id.clone(), bytes);
        if request.state.is_pending() {
            self.waiting.entry(person).or_default().add(bytes);
            self.all_waiting.add(bytes);
            return;
        }
        self.all_closed.add(bytes);
        let closed = self.closed.entry(person.clone()).or_default();
        self.heaviest.remove(&(closed.load.bytes, person.clone()));
        closed.load.add(bytes);
        closed.all.insert((request.modified.time, id));
        self.heaviest.insert((closed.load.bytes, person));
    }

    /// Removes a request that was changed or deleted from its share.
    pub(super) fn leave(&mut self, request: &ApprovalRequest) {
        let Some(bytes) = self.bytes.remove(request.id.as_str()) else { return };
        let person: Arc<str> = request.payer().into();
        if request.state.is_pending() {
            self.all_waiting.subtract(bytes);
            if let Some(load) = self.waiting.get_mut(&person) {
                load.subtract(bytes);
                if load.count == 0 {
                    self.waiting.remove(&person);
                }
            }
            return;
        }
        self.all_closed.subtract(bytes);
        let Some(closed) = self.closed.get_mut(&person) else { return };
        self.heaviest.remove(&(closed.load.bytes, person.clone()));
        closed.load.subtract(bytes);
        closed.all.remove(&(request.modified.time, request.id.as_str().into()));
        if closed.load.count == 0 {
            self.closed.remove(&person);
        } else {
            self.heaviest.insert((closed.load.bytes, person));
        }
    }

    /// Returns the id of the closed request to delete, the oldest of the person with most, if there are too many.
    pub(super) fn surplus(&self) -> Option<&Arc<str>> {
        if !self.all_closed.is_beyond((limits::REQUESTS_CLOSED_MAX, limits::REQUESTS_CLOSED_BYTES_MAX)) {
            return None;
        }
        let (_, person) = self.heaviest.get_max()?;
        self.closed.get(person)?.all.get_min().map(|(_, id)| id)
    }
}

/// Returns the bytes of a request: its row, and the text of a copied file.
fn bytes_of(request: &ApprovalRequest) -> u64 {
    let copy = request.payload.as_ref().and_then(|payload| payload.snapshot.as_ref());
    let text = match copy {
        Some(Snapshot::File(copy)) => copy.bytes,
        Some(Snapshot::Rule(_)) | None => 0,
    };
    let mut row = Vec::new();
    pack::put(request, &mut row);
    row.len() as u64 + text
}
