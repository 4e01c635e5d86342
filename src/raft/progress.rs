//! Progress of the state machine: the log entry, the membership and the state hash that its rows are of.

use std::collections::BTreeSet;
use std::io;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::catalog::Edit;
use crate::format::codec;
use crate::format::pack::hash_bytes;
use crate::format::types::{LogId, NodeId, StoredMembership};

/// Key of the Raft adapter's row; table 0 is not one of the catalog's.
pub(crate) const PROGRESS_KEY: &[u8] = &[0];

/// State stored in addition to the catalog's rows, always written in the same batch as the rows that it describes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub last_applied: Option<LogId>,
    pub membership: StoredMembership,
    /// Hash chain over the edits of all commands, in order: equal on two nodes at the same index exactly if apply did
    /// the same on both.
    #[serde(with = "hash_bytes")]
    pub hash: [u8; 32],
}

impl Progress {
    pub(crate) fn read(row: Option<Vec<u8>>) -> io::Result<Progress> {
        row.map_or_else(|| Ok(Progress::default()), |bytes| codec::from_bytes(&bytes))
    }

    pub(crate) fn index(&self) -> u64 {
        self.last_applied.map_or(0, |id| id.index)
    }

    /// Checks that no entry is left out: this state would silently differ from that of all others.
    pub(super) fn check_follows(&self, log_id: &LogId) -> io::Result<()> {
        match &self.last_applied {
            Some(last) if last.index + 1 != log_id.index => {
                Err(corrupt(format!("log entry {log_id} is to be applied, and {last} was the last")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn fold(&mut self, index: u64, edits: &[Edit]) {
        let mut hash = Sha256::new();
        hash.update(self.hash);
        hash.update(index.to_be_bytes());
        for edit in edits {
            let value = edit.value.as_deref().unwrap_or_default();
            hash.update([u8::from(edit.value.is_some())]);
            hash.update((edit.key.len() as u64).to_be_bytes());
            hash.update(&edit.key);
            hash.update((value.len() as u64).to_be_bytes());
            hash.update(value);
        }
        self.hash = hash.finalize().into();
    }

    /// Returns the value that the members compare at this index: a hash of the state hash, the voters and the learners
    /// known here. Two nodes that disagree on the members have two majorities, whatever their states are. Addresses are
    /// left out, because nodes may write them in different ways.
    pub(super) fn compared(&self) -> [u8; 32] {
        let (membership, mut hash) = (self.membership.membership(), Sha256::new());
        hash.update(self.hash);
        let mut add = |ids: &BTreeSet<NodeId>| {
            hash.update((ids.len() as u64).to_be_bytes());
            ids.iter().for_each(|id| hash.update(id.to_be_bytes()));
        };
        membership.get_joint_config().iter().for_each(&mut add);
        add(&membership.nodes().map(|(id, _)| *id).collect());
        hash.finalize().into()
    }
}

fn corrupt(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
