//! How a cluster begins that is made out of an earlier state, on one of its nodes.

use std::collections::BTreeMap;
use std::io;

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::catalog::Catalog;
use crate::catalog::rebirth::{LEAP, Rebirth};
use crate::format::codec;
use crate::format::header::StateHeader;
use crate::format::level::Level;
use crate::format::types::{CommittedLeaderId, LogId, Member, NodeId, StoredMembership, Vote, all_vote};
use crate::raft::machine::{PROGRESS_KEY, Progress};
use crate::store::{RowSink, Store};

/// What to make of which state.
pub(super) struct Founding {
    pub(super) rebirth: Rebirth,
    pub(super) node_id: NodeId,
    /// All of them vote.
    pub(super) members: BTreeMap<NodeId, Member>,
    /// Above every term of the cluster before that this node knows.
    pub(super) term: u64,
    pub(super) origin: Progress,
    /// What a reader of the rows needs.
    pub(super) level: Level,
}

/// A directory that a node can be started on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founded {
    pub cluster_id: String,
    /// Where the log goes on, and the hash of the state there: equal on all nodes.
    pub index: u64,
    pub state_hash: String,
}

impl Founding {
    /// Puts the state made of `rows` in place of all that the directory of `store` holds.
    pub(super) fn carry_out<R>(self, store: Store, rows: R) -> anyhow::Result<Founded>
    where
        R: FnOnce(&mut RowSink<'_>) -> io::Result<()>,
    {
        let Founding { rebirth, node_id, members, term, origin, level } = self;
        let index = origin.index().checked_add(LEAP).context("the log index is too high")?;
        let last = LogId::new(CommittedLeaderId::new(term), index);
        let progress = Progress {
            last_applied: Some(last),
            membership: StoredMembership::new(Some(last), all_vote(members)?),
            hash: hash(&origin, &rebirth, index),
        };
        let mut proof = Catalog::default();
        let mut floors = Rebirth::floors().to_vec();
        let header = StateHeader {
            last_log_id: progress.last_applied,
            last_membership: progress.membership.clone(),
            cluster_id: Some(rebirth.cluster_id.clone()),
            level,
            state_hash: hex::encode(progress.hash),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_ms: 0,
        };
        let file = store.stage(level, codec::to_bytes(&header), |sink| {
            sink(PROGRESS_KEY, &codec::to_bytes(&progress))?;
            rows(&mut |key, value| {
                if key == PROGRESS_KEY {
                    return Ok(());
                }
                let Some(value) = rebirth.row(key, value).map_err(io::Error::other)? else { return Ok(()) };
                floors.retain(|floor| floor.key != key);
                // What a node could not load must not take the place of anything.
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
        // Not committed: nobody leads yet, and this node has a vote to give in the next term.
        store.begin_anew(&file, last, Vote::new(term, node_id))?;
        Ok(Founded { cluster_id: rebirth.cluster_id, index, state_hash: header.state_hash })
    }
}

/// Tells the beginning of every cluster from any other state.
fn hash(origin: &Progress, rebirth: &Rebirth, index: u64) -> [u8; 32] {
    let hash = Sha256::new().chain_update(origin.hash).chain_update(&rebirth.cluster_id);
    hash.chain_update(index.to_be_bytes()).finalize().into()
}
