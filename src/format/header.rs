//! The header of a file that holds a whole state: a snapshot or a backup.

use serde::{Deserialize, Serialize};

use super::level::Level;
use super::types::{LogId, StoredMembership};

/// Header of the file, in MessagePack with field names.
///
/// The first two are openraft's description of a snapshot, under the names that it gives them: whoever
/// knows no more reads these and ignores the rest. A file of an earlier version has only these, so
/// nobody depends on the others; what they say can be found among the rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateHeader {
    pub last_log_id: Option<LogId>,
    pub last_membership: StoredMembership,
    #[serde(default)]
    pub cluster_id: Option<String>,
    /// Level that the cluster spoke.
    #[serde(default)]
    pub level: Level,
    /// Digest of the formats of that level, see [`Level::digest`].
    #[serde(default)]
    pub format: String,
    /// In hex.
    #[serde(default)]
    pub state_hash: String,
    /// Version of the binary that wrote it.
    #[serde(default)]
    pub version: String,
    /// Milliseconds since 1970; 0 where nobody looked at a clock.
    #[serde(default)]
    pub created_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec;
    use crate::format::types::{CommittedLeaderId, SnapshotMeta};

    /// A version that knows no more than openraft's description reads it, and the other way round.
    #[test]
    fn it_is_read_as_the_description_of_a_snapshot() {
        let last_log_id = Some(LogId::new(CommittedLeaderId::new(3), 7));
        let header = StateHeader { last_log_id, cluster_id: Some("c".into()), ..StateHeader::default() };
        let meta: SnapshotMeta = codec::from_bytes(&codec::to_bytes(&header)).expect("readable");
        assert_eq!((meta.last_log_id, &meta.last_membership), (last_log_id, &header.last_membership));
        let read: StateHeader = codec::from_bytes(&codec::to_bytes(&meta)).expect("readable");
        assert_eq!(read, StateHeader { last_log_id, ..StateHeader::default() });
    }
}
