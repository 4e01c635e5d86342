//! Shares of the people who ask: what waits for each, and what is kept of what has ended. Each request counts for the
//! person who asked, whichever of their service tokens did, so whoever fills the places pays for it alone.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::format::pack;
use crate::model::approval::{ApprovalRequest, Snapshot};
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::time::Timestamp;

/// Number of requests, and the bytes that are kept of them.
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

/// Requests of one person of which nothing comes any more, by the time at which they ended.
#[derive(Clone, Debug, Default, PartialEq)]
struct Closed {
    load: Load,
    all: OrdSet<(Timestamp, Arc<str>)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shares {
    /// Bytes of each request.
    bytes: OrdMap<Arc<str>, u64>,
    /// Share of each person.
    waiting: OrdMap<Arc<str>, Load>,
    all_waiting: Load,
    closed: OrdMap<Arc<str>, Closed>,
    all_closed: Load,
    /// People by the bytes of what has ended for them.
    heaviest: OrdSet<(u64, Arc<str>)>,
}

impl Shares {
    /// Refuses one more request of a person who has as many as one may have waiting, or where no place is left.
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

    /// The request is another from now on, or gone.
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

    /// Id of a request that is to go: where there are too many that have ended, the oldest of the person who has most.
    pub(super) fn surplus(&self) -> Option<&Arc<str>> {
        if !self.all_closed.is_beyond((limits::REQUESTS_CLOSED_MAX, limits::REQUESTS_CLOSED_BYTES_MAX)) {
            return None;
        }
        let (_, person) = self.heaviest.get_max()?;
        self.closed.get(person)?.all.get_min().map(|(_, id)| id)
    }
}

/// Bytes that are kept of a request: its row, and the text of the file that it has a copy of.
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
