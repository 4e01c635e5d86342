//! Disk check: tests whether the disk accepts a durable write, at most once a second and one at a time.
//!
//! Load balancers probe several times a second, and any client may. Without the limit each probe would be another fsync
//! that competes with those of writes.

mod on_node;

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which a result is reused.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Result of the last check.
#[derive(Default)]
pub(super) struct DiskCheck {
    last: Mutex<Option<Tried>>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Tried {
    at: Instant,
    failure: Option<String>,
}

impl DiskCheck {
    fn fresh(&self) -> Option<Tried> {
        self.last.lock().clone().filter(|tried| tried.at.elapsed() < FRESH_FOR)
    }
}
