//! For how long a command is sent again.

use tokio::time::Instant;

use super::node::{LEADER_PATIENCE, PROPOSE_WITHIN};

/// The limits of repeated attempts.
pub(super) struct Attempts {
    pub(super) deadline: Instant,
    patience: Instant,
    pub(super) may_have_happened: bool,
}

impl Attempts {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Attempts { deadline: now + PROPOSE_WITHIN, patience: now + LEADER_PATIENCE, may_have_happened: false }
    }

    /// Once something may have happened, only a result counts, up to the deadline; before that a
    /// caller is better served with a quick "no leader".
    pub(super) fn go_on(&self) -> bool {
        let limit = if self.may_have_happened { self.deadline } else { self.patience };
        Instant::now() < limit
    }
}
