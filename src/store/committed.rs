//! The index that is known to be committed: where a restarted node begins to apply before it hears of a
//! leader.
//!
//! It is a better starting point and no more, so it has no write of its own: it goes along with the next
//! append and the next rows, of which each commit brings some.

use std::io;

use parking_lot::Mutex;
use rocksdb::WriteBatch;

use super::database::{Database, Scalar};
use crate::format::types::LogId;

struct Stored;
impl Scalar for Stored {
    const KEY: &'static str = "committed";
    type Value = Option<LogId>;
}

#[derive(Default)]
pub(super) struct Committed(Mutex<Known>);

#[derive(Default)]
struct Known {
    newest: Option<LogId>,
    is_stored: bool,
}

impl Committed {
    pub(super) fn read(database: &Database) -> io::Result<Committed> {
        let newest = database.scalar::<Stored>()?.flatten();
        Ok(Committed(Mutex::new(Known { newest, is_stored: true })))
    }

    pub(super) fn newest(&self) -> Option<LogId> {
        self.0.lock().newest
    }

    pub(super) fn note(&self, newest: Option<LogId>) {
        *self.0.lock() = Known { newest, is_stored: false };
    }

    /// Has it stored with what else is in the batch, if it is not yet.
    pub(super) fn put_into(&self, database: &Database, batch: &mut WriteBatch) {
        let mut known = self.0.lock();
        if !std::mem::replace(&mut known.is_stored, true) {
            database.put_scalar::<Stored>(batch, &known.newest);
        }
    }

    /// For a directory that is to be opened anew.
    pub(super) fn begin_at(database: &Database, batch: &mut WriteBatch, last: LogId) {
        database.put_scalar::<Stored>(batch, &Some(last));
    }
}
