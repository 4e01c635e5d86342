//! Time limits of the repeated attempts to propose a command.

use tokio::time::Instant;

use super::node::{LEADER_PATIENCE, PROPOSE_WITHIN};

/// Limits of the attempts of one command.
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

    /// Reports whether to try again. Once an attempt may have succeeded, only a result helps the caller, until the
    /// deadline; before that a quick "no leader" serves it better.
    pub(super) fn go_on(&self) -> bool {
        let limit = if self.may_have_happened { self.deadline } else { self.patience };
        Instant::now() < limit
    }
}
