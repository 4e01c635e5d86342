//! Time limits of the repeated attempts to propose a command.

use std::time::Duration;

use tokio::time::Instant;

/// Time limit of a command, after which its outcome is reported as unknown. It is below the request timeout, so that
/// the caller still gets the answer.
pub(super) const PROPOSE_WITHIN: Duration = Duration::from_secs(8);
/// Time for which a request waits for a leader: longer than an election, and short enough that a caller of a node that
/// is cut off is answered within three seconds.
pub(crate) const LEADER_PATIENCE: Duration = Duration::from_millis(2500);

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
