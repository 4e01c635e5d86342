//! Writing of the state's rows to the database.
//!
//! Applied entries are safe in the log, which is durable before. Their rows follow, those of many entries in one batch,
//! on a separate thread; a row that changes again meanwhile is written once. Reads of rows first write the pending ones
//! ([`RowWriter::settle`]), so they never miss a row that was put.
//!
//! A process that ends in between applies those entries again: every batch includes the row with the applied index, and
//! the log entries precede the batch in the single write-ahead log.

use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rocksdb::WriteBatch;

use crate::tasks;

use super::database::{Database, STATE};
use super::room::is_full;

/// Time for which rows wait for others. After a crash, this much is applied again; a row that changes repeatedly is
/// written once in this time.
const PAUSE: Duration = Duration::from_millis(250);
/// Bytes of pending rows from which on the caller that puts more writes them.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Capacity that a pile retains after its rows were written.
const PILE_BYTES_KEPT: usize = 4 * 1024 * 1024;

pub(super) struct RowWriter {
    shared: Arc<WriterState>,
    /// Handle of the thread, joined on drop.
    thread: Option<JoinHandle<()>>,
}

struct WriterState {
    database: Arc<Database>,
    waiting: Mutex<WaitingRows>,
    /// Notified when there are rows to write, or when no more will come.
    changed: Condvar,
    /// Held by the writer, so that batches reach the database in the order in which they were put. It holds the rows
    /// being written, and its memory is reused for the next ones.
    turn: Mutex<Pile>,
}

/// Rows in the order in which they were put, in one buffer: separate allocations would be freed by another thread than
/// made them.
#[derive(Default)]
struct Pile {
    bytes: Vec<u8>,
    rows: Vec<PileRow>,
}

/// Position of a row in a pile; the value follows the key. A row to be deleted has no value.
struct PileRow {
    begin: usize,
    key_bytes: usize,
    value_bytes: Option<usize>,
}

impl Pile {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.rows.push(PileRow { begin: self.bytes.len(), key_bytes: key.len(), value_bytes: value.map(<[u8]>::len) });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// Appends the rows of a later pile, and empties that pile.
    fn extend(&mut self, later: &mut Pile) {
        if self.rows.is_empty() {
            return mem::swap(self, later);
        }
        let begin = self.bytes.len();
        self.bytes.append(&mut later.bytes);
        self.rows.extend(later.rows.drain(..).map(|row| PileRow { begin: begin + row.begin, ..row }));
    }

    fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        let row = self.rows.iter().rfind(|row| &self.bytes[row.begin..][..row.key_bytes] == key)?;
        Some(self.bytes[row.begin + row.key_bytes..][..row.value_bytes?].to_vec())
    }

    /// Returns each row once, with its last value, in key order, which is the order that the database inserts fastest.
    fn newest(&mut self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let bytes = &self.bytes[..];
        let key = |row: &PileRow| &bytes[row.begin..][..row.key_bytes];
        self.rows.sort_by(|one, other| key(one).cmp(key(other)));
        self.rows.dedup_by(|later, earlier| {
            let is_same = key(later) == key(earlier);
            if is_same {
                mem::swap(later, earlier);
            }
            is_same
        });
        self.rows.iter().map(move |row| {
            let value = &bytes[row.begin + row.key_bytes..];
            (key(row), row.value_bytes.map(|length| &value[..length]))
        })
    }

    /// Empties the pile; retains a usual amount of memory.
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.bytes.shrink_to(PILE_BYTES_KEPT);
        self.rows.shrink_to(PILE_BYTES_KEPT / size_of::<PileRow>());
    }
}

#[derive(Default)]
struct WaitingRows {
    pile: Pile,
    is_closed: bool,
    /// Suspends the background writes, for tests.
    #[cfg(test)]
    is_held: bool,
}

impl WaitingRows {
    fn is_idle(&self) -> bool {
        #[cfg(test)]
        if self.is_held {
            return true;
        }
        self.pile.rows.is_empty()
    }

    /// Reports whether the pending rows have to be written. A row that was put repeatedly counts once.
    fn is_full(&mut self) -> bool {
        if self.pile.bytes.len() <= WAITING_BYTES_MAX {
            return false;
        }
        let mut full = mem::take(&mut self.pile);
        full.newest().for_each(|(key, value)| self.pile.put(key, value));
        self.pile.bytes.len() > WAITING_BYTES_MAX / 2
    }
}

impl RowWriter {
    pub(super) fn start(database: Arc<Database>) -> io::Result<RowWriter> {
        let (waiting, changed, turn) = Default::default();
        let shared = Arc::new(WriterState { database, waiting, changed, turn });
        let writer = shared.clone();
        let thread = tasks::thread("rows", move || writer.run())?;
        Ok(RowWriter { shared, thread: Some(thread) })
    }

    /// Queues rows to be written soon in one batch. Returns the error of an earlier write, if any.
    pub(super) fn put<K, V>(&self, rows: impl IntoIterator<Item = (K, Option<V>)>) -> io::Result<()>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        self.shared.database.check()?;
        let mut waiting = self.shared.waiting.lock();
        let was_empty = waiting.pile.rows.is_empty();
        for (key, value) in rows {
            waiting.pile.put(key.as_ref(), value.as_ref().map(AsRef::as_ref));
        }
        let is_full = waiting.is_full();
        drop(waiting);
        if is_full {
            return self.settle_patiently();
        }
        if was_empty {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Writes all rows that were put before. Blocks.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.shared.settle()
    }

    /// Returns the pending value of a row that is not written yet.
    pub(super) fn waiting(&self, key: &[u8]) -> Option<Vec<u8>> {
        let piled = self.shared.turn.lock();
        let found = self.shared.waiting.lock().pile.find(key);
        found.or_else(|| piled.find(key))
    }

    /// Writes like [`RowWriter::settle`], waiting for room if there is none.
    pub(super) fn settle_patiently(&self) -> io::Result<()> {
        self.shared.settle_patiently()
    }

    /// Suspends the background writes until rows are read.
    #[cfg(test)]
    pub(super) fn hold(&self) {
        self.shared.waiting.lock().is_held = true;
    }
}

impl WriterState {
    fn run(&self) {
        let mut waiting = self.waiting.lock();
        loop {
            self.changed.wait_while(&mut waiting, |waiting| waiting.is_idle() && !waiting.is_closed);
            let until = Instant::now() + PAUSE;
            self.changed.wait_while_until(&mut waiting, |waiting| !waiting.is_closed, until);
            let is_closed = waiting.is_closed;
            drop(waiting);
            // The database records a failure and returns it to later callers.
            let outcome = if is_closed { self.settle() } else { self.settle_patiently() };
            if outcome.is_err() || is_closed {
                return;
            }
            waiting = self.waiting.lock();
        }
    }

    fn settle_patiently(&self) -> io::Result<()> {
        let mut waiting = None;
        loop {
            match self.settle() {
                Err(error) if is_full(&error) => {
                    waiting.get_or_insert_with(|| self.database.room().waiting()).pause_thread()?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Writes the pending rows. If there is no room for them, they stay queued before later ones.
    fn settle(&self) -> io::Result<()> {
        let mut pile = self.turn.lock();
        pile.extend(&mut self.waiting.lock().pile);
        if pile.rows.is_empty() {
            return self.database.check();
        }
        let family = self.database.family(STATE);
        let mut batch = WriteBatch::default();
        for (key, value) in pile.newest() {
            match value {
                Some(value) => batch.put_cf(family, key, value),
                None => batch.delete_cf(family, key),
            }
        }
        let outcome = self.database.write(batch);
        if !outcome.as_ref().is_err_and(is_full) {
            pile.clear();
        }
        outcome
    }
}

impl Drop for RowWriter {
    /// Waits for the last batch, so that the directory is complete and unlocked once the last handle is dropped.
    fn drop(&mut self) {
        // From here on no write waits for room.
        self.shared.database.room().close();
        self.shared.waiting.lock().is_closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
