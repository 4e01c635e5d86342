//! The header of a file that holds a whole state: a snapshot or a backup.

use serde::{Deserialize, Serialize};

use super::level::Level;
use super::types::{LogId, StoredMembership};

/// Header of the file, in MessagePack with field names.
///
/// The first two fields are openraft's description of a snapshot under its own names, so a reader that knows only that
/// ignores the rest. Files of an earlier version have only these two; nothing depends on the others, which repeat facts
/// of the rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateHeader {
    pub last_log_id: Option<LogId>,
    pub last_membership: StoredMembership,
    #[serde(default)]
    pub cluster_id: Option<String>,
    /// Level of the cluster.
    #[serde(default)]
    pub level: Level,
    /// Digest of the formats of that level, see [`Level::digest`].
    #[serde(default)]
    pub format: String,
    /// Hex digits.
    #[serde(default)]
    pub state_hash: String,
    /// Version of the binary that wrote the file.
    #[serde(default)]
    pub version: String,
    /// Milliseconds since 1970; 0 if the writer had no clock.
    #[serde(default)]
    pub created_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec;
    use crate::format::types::{CommittedLeaderId, SnapshotMeta};

    /// A version that knows only openraft's description reads the header, and the other way round.
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
