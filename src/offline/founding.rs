//! Founding of a cluster from an earlier state, which is done once and recorded in a file that all its nodes are
//! created from ([`super::seed_file`]).

use std::collections::BTreeMap;
use std::io;

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::atomic_file::PartialFile;
use super::seed_file::{RebornFile, RebornHeader};
use crate::catalog::Catalog;
use crate::catalog::rekey::{Rebirth, index_after, notification_start};
use crate::format::codec;
use crate::format::header::StateHeader;
use crate::format::level::Level;
use crate::format::types::{CommittedLeaderId, LogId, Member, NodeId, StoredMembership, all_vote};
use crate::raft::progress::{PROGRESS_KEY, Progress};
use crate::store::{FileKind, RowSink, write_file};

/// Cluster to be founded, and the state that it is founded from.
pub(super) struct Founding {
    pub(super) rebirth: Rebirth,
    /// Members with their addresses. All of them vote.
    pub(super) members: BTreeMap<NodeId, Member>,
    pub(super) origin: Origin,
    /// Level that a reader of the rows needs.
    pub(super) level: Level,
}

/// The original state.
pub(super) struct Origin {
    pub(super) cluster_id: Option<String>,
    pub(super) progress: Progress,
    /// Newest known term of the original cluster.
    pub(super) term: u64,
    pub(super) newest_notification_id: u32,
}

/// A directory that a node can be started on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founded {
    pub cluster_id: String,
    /// Index at which the log continues, and the hash of the state there: equal on all nodes.
    pub index: u64,
    pub state_hash: String,
    pub members: BTreeMap<NodeId, String>,
}

impl Founding {
    /// Prepares a founding. Each one is a different cluster, also in the ids that it gives to clients.
    pub(super) fn draw(
        cluster_id: String,
        origin: Origin,
        level: Level,
        members: &BTreeMap<NodeId, String>,
        survivor: Option<NodeId>,
    ) -> Self {
        let rebirth = Rebirth {
            cluster_id,
            survivor,
            members: members.keys().copied().collect(),
            notification_id: notification_start(origin.newest_notification_id, rand::random()),
        };
        let member = |(id, peer): (&NodeId, &String)| (*id, Member { peer: peer.clone() });
        Founding { rebirth, members: members.iter().map(member).collect(), origin, level }
    }

    /// Writes the new state with `rows` to a file, which is durable on return.
    pub(super) fn write<R>(self, part: PartialFile, rows: R) -> anyhow::Result<RebornFile>
    where
        R: FnOnce(&mut RowSink<'_>) -> io::Result<()>,
    {
        let Founding { rebirth, members, origin, level } = self;
        let origin_index = origin.progress.index();
        let index = index_after(origin_index).with_context(|| {
            format!(
                "the log index is too high, {origin_index}: a new cluster goes on 2^32 higher, and the numbers that \
                 are made of it would soon be above 2^53"
            )
        })?;
        // Greater than every term of the original cluster.
        let last = LogId::new(CommittedLeaderId::new(origin.term + 1), index);
        let progress = Progress {
            last_applied: Some(last),
            membership: StoredMembership::new(Some(last), all_vote(members)?),
            hash: hash(&origin.progress, &rebirth, index),
        };
        let header = RebornHeader {
            state: StateHeader {
                last_log_id: progress.last_applied,
                last_membership: progress.membership.clone(),
                cluster_id: Some(rebirth.cluster_id.clone()),
                level,
                state_hash: hex::encode(progress.hash),
                format: level.digest().to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                created_ms: 0,
            },
            survivor: rebirth.survivor,
            origin_cluster_id: origin.cluster_id,
            origin_index,
        };
        let mut proof = Catalog::default();
        let mut floors = rebirth.floors().to_vec();
        let contents = write_file(part.file(), FileKind::Reborn, level, codec::to_bytes(&header), |sink| {
            sink(PROGRESS_KEY, &codec::to_bytes(&progress))?;
            rows(&mut |key, value| {
                if key == PROGRESS_KEY {
                    return Ok(());
                }
                let Some(value) = rebirth.row(key, value).map_err(io::Error::other)? else { return Ok(()) };
                floors.retain(|floor| floor.key != key);
                // Rows that a node could not load must not get into the file.
                proof.load(key, &value).map_err(io::Error::other)?;
                sink(key, &value)
            })?;
            floors.iter().try_for_each(|floor| sink(&floor.key, floor.value.as_deref().unwrap_or_default()))
        })?;
        proof.check_loaded()?;
        anyhow::ensure!(
            proof.nodes.cluster_id() == Some(rebirth.cluster_id.as_str()),
            "the state is that of no cluster: nothing was ever founded there"
        );
        RebornFile::kept(part, contents, header)
    }
}

/// Returns a new cluster id, which no other cluster has.
pub(super) fn draw_cluster_id() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Returns the first state hash of the cluster, which differs from that of any other state.
fn hash(origin: &Progress, rebirth: &Rebirth, index: u64) -> [u8; 32] {
    let hash = Sha256::new().chain_update(origin.hash).chain_update(&rebirth.cluster_id);
    hash.chain_update(index.to_be_bytes()).finalize().into()
}
