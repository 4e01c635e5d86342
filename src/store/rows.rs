//! The rows of the state on their way into the database.
//!
//! What is applied counts by the log, which is durable before; the rows follow, those of many entries in one
//! batch, on a thread of their own. A row that changes again meanwhile is written once. Whoever reads rows has
//! what waits written first ([`Rows::settle`]), so nobody finds less than was put.
//!
//! A process that ends in between applies those entries again: among the rows of every batch is the one that
//! says how far they are true, and what they are made of lies before them in the one write-ahead log.

use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rocksdb::WriteBatch;

use super::database::{Database, STATE};

/// How long rows wait for others: what is applied again after a crash.
const PAUSE: Duration = Duration::from_millis(50);
/// Rows that wait, in bytes; who puts more writes them.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(super) struct Rows {
    shared: Arc<Shared>,
    /// Taken on drop.
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    database: Arc<Database>,
    waiting: Mutex<Waiting>,
    /// There are rows to write, or no more will come.
    changed: Condvar,
    /// Held by who writes, so that batches reach the database in the order in which they were put.
    turn: Mutex<()>,
}

/// A key, and its value: `None` for one that goes.
type Row = (Vec<u8>, Option<Vec<u8>>);

fn bytes_of((key, value): &Row) -> usize {
    key.len() + value.as_ref().map_or(0, Vec::len)
}

#[derive(Default)]
struct Waiting {
    /// As they were put; a key may be there more than once.
    rows: Vec<Row>,
    bytes: usize,
    is_closed: bool,
    /// Only who reads rows has them written.
    #[cfg(test)]
    is_held: bool,
}

impl Waiting {
    fn is_idle(&self) -> bool {
        #[cfg(test)]
        if self.is_held {
            return true;
        }
        self.rows.is_empty()
    }

    fn put(&mut self, row: Row) {
        self.bytes += bytes_of(&row);
        self.rows.push(row);
    }

    /// Whether so much waits that it has to be written. What was put over and over again counts once.
    fn is_full(&mut self) -> bool {
        if self.bytes <= WAITING_BYTES_MAX {
            return false;
        }
        keep_newest(&mut self.rows);
        self.bytes = self.rows.iter().map(bytes_of).sum();
        self.bytes > WAITING_BYTES_MAX / 2
    }
}

/// By key, each once and as it was put last. The order is that of the database, which takes what follows what
/// it took before sooner than what lies anywhere.
fn keep_newest(rows: &mut Vec<Row>) {
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    rows.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            mem::swap(later, earlier);
        }
        is_same
    });
}

impl Rows {
    pub(super) fn start(database: Arc<Database>) -> io::Result<Rows> {
        let (waiting, changed, turn) = Default::default();
        let shared = Arc::new(Shared { database, waiting, changed, turn });
        let writer = shared.clone();
        let thread = thread::Builder::new().name("rows".into()).spawn(move || writer.run())?;
        Ok(Rows { shared, thread: Some(thread) })
    }

    /// Has these rows written, soon and together. An error is that of an earlier write.
    pub(super) fn put(&self, rows: impl IntoIterator<Item = Row>) -> io::Result<()> {
        self.shared.database.check()?;
        let mut waiting = self.shared.waiting.lock();
        let was_empty = waiting.rows.is_empty();
        rows.into_iter().for_each(|row| waiting.put(row));
        let is_full = waiting.is_full();
        drop(waiting);
        if is_full {
            return self.settle();
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

    /// Leaves rows where they wait, until somebody reads them.
    #[cfg(test)]
    pub(super) fn hold(&self) {
        self.shared.waiting.lock().is_held = true;
    }
}

impl Shared {
    fn run(&self) {
        let mut waiting = self.waiting.lock();
        loop {
            self.changed.wait_while(&mut waiting, |waiting| waiting.is_idle() && !waiting.is_closed);
            let until = Instant::now() + PAUSE;
            self.changed.wait_while_until(&mut waiting, |waiting| !waiting.is_closed, until);
            let is_closed = waiting.is_closed;
            drop(waiting);
            // The database keeps a failure, and tells whoever comes next.
            if self.settle().is_err() || is_closed {
                return;
            }
            waiting = self.waiting.lock();
        }
    }

    fn settle(&self) -> io::Result<()> {
        let _turn = self.turn.lock();
        let mut waiting = self.waiting.lock();
        let mut rows = mem::take(&mut waiting.rows);
        waiting.bytes = 0;
        drop(waiting);
        if rows.is_empty() {
            return self.database.check();
        }
        keep_newest(&mut rows);
        let family = self.database.family(STATE);
        let mut batch = WriteBatch::default();
        for (key, value) in rows {
            match value {
                Some(value) => batch.put_cf(family, key, value),
                None => batch.delete_cf(family, key),
            }
        }
        self.database.write(batch)
    }
}

impl Drop for Rows {
    /// Waits for the last batch, so that the directory is free and whole once the last handle is gone.
    fn drop(&mut self) {
        self.shared.waiting.lock().is_closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
