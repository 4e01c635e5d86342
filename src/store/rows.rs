//! The rows of the state on their way into the database.
//!
//! What is applied counts by the log, which is durable before; the rows follow, those of many entries in one
//! batch, on a thread of their own. A row that changes again meanwhile is written once. Whoever reads rows has
//! what waits written first ([`RowWriter::settle`]), so nobody finds less than was put.
//!
//! A process that ends in between applies those entries again: among the rows of every batch is the one that
//! says how far they are true, and what they are made of lies before them in the one write-ahead log.

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

/// Time that rows wait for others. After a crash, that much is applied again; a row that changes over and over again
/// is written once in that time.
const PAUSE: Duration = Duration::from_millis(250);
/// Rows that wait, in bytes; who puts more writes them.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Room that stays for the next rows when some were written.
const PILE_BYTES_KEPT: usize = 4 * 1024 * 1024;

pub(super) struct RowWriter {
    shared: Arc<WriterState>,
    /// Taken on drop.
    thread: Option<JoinHandle<()>>,
}

struct WriterState {
    database: Arc<Database>,
    waiting: Mutex<WaitingRows>,
    /// There are rows to write, or no more will come.
    changed: Condvar,
    /// Held by who writes, so that batches reach the database in the order in which they were put. What is written
    /// lies here, and the next rows find room where it lay.
    turn: Mutex<Pile>,
}

/// Rows one behind the other, as they were put: none takes memory of its own, which would be given back by another
/// thread than took it.
#[derive(Default)]
struct Pile {
    bytes: Vec<u8>,
    rows: Vec<PileRow>,
}

/// Place of a row in a pile, with its value behind its key. A row to be deleted has no value.
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

    /// Adds the rows of a later pile, and empties that one.
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

    /// By key, each once and as it was put last. The order is that of the database, which takes what follows what
    /// it took before sooner than what lies anywhere.
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

    /// Keeps the room that it takes usually.
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
    /// Only who reads rows has them written.
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

    /// True if so much waits that it has to be written. A row that was put over and over again counts once.
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

    /// Has these rows written, soon and together. An error is that of an earlier write.
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

    /// Returns when all rows that were put before are in the database. Blocks.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.shared.settle()
    }

    /// The newest value of a row that is not written yet.
    pub(super) fn waiting(&self, key: &[u8]) -> Option<Vec<u8>> {
        let piled = self.shared.turn.lock();
        let found = self.shared.waiting.lock().pile.find(key);
        found.or_else(|| piled.find(key))
    }

    /// The same as [`RowWriter::settle`], and waits for room where there is none.
    pub(super) fn settle_patiently(&self) -> io::Result<()> {
        self.shared.settle_patiently()
    }

    /// Leaves rows where they wait, until somebody reads them.
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
            // The database keeps a failure, and tells whoever comes next.
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

    /// Rows that find no room stay where they are, before those that come.
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
    /// Waits for the last batch, so that the directory is free and whole once the last handle is gone.
    fn drop(&mut self) {
        // Nobody waits for room any more.
        self.shared.database.room().close();
        self.shared.waiting.lock().is_closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
