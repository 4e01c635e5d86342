//! Time of the cluster as members exchange it.

use crate::model::time::Timestamp;
use crate::peer::PeerProgress;

/// Time of the cluster as reported by a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::raft) struct ToldTime {
    pub(in crate::raft) time: Timestamp,
    /// Milliseconds by which the time was set, as far as the member has applied it.
    pub(in crate::raft) shift_ms: i64,
}

impl ToldTime {
    /// Returns the time in a member's progress; `None` if the member does not know it.
    pub(in crate::raft) fn of(progress: &PeerProgress) -> Option<ToldTime> {
        let shift_ms = progress.time_shift_ms.unwrap_or_default();
        progress.time_ms.map(|ms| ToldTime { time: Timestamp(ms), shift_ms })
    }

    /// Returns the time in milliseconds without all settings of the time, for comparing times of several members.
    pub(super) fn unmoved_ms(&self) -> i128 {
        i128::from(self.time.0) - i128::from(self.shift_ms)
    }
}
