//! Reconnecting clients: the time that they have to subscribe to what their routes need.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::limits;

/// Maximum time that a reconnecting client has to subscribe to its clusters.
const NAMES_WAIT: Duration = Duration::from_millis(limits::XDS_NAMES_WAIT_MS);

/// Progress of a reconnecting client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Returning {
    /// The client has no routes, or they are known.
    #[default]
    No,
    /// The client sent the version of its routes.
    Begun,
    /// Time since which the client was expected to subscribe to its clusters and endpoints.
    Since(Instant),
}

impl Returning {
    /// Returns the time at which waiting for subscriptions ends.
    pub(super) fn deadline(self) -> Option<Instant> {
        let Returning::Since(since) = self else { return None };
        Some(since + NAMES_WAIT)
    }
}
