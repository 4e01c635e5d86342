//! A data directory of a new cluster out of a backup.
//!
//! Run once for every node, with the same file and the same list: what the nodes have to agree on (the
//! id of the cluster, the index, the rows) is a function of these two, so they need not talk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::founding::{Founded, Founding};
use super::survey::{SurveyedFile, survey_file};
use crate::catalog::rebirth::Rebirth;
use crate::format::level::LevelRange;
use crate::format::types::{Member, NodeId};
use crate::metrics::Metrics;
use crate::store::{Nursery, read_file};

/// What is asked for; checked by the command line.
#[derive(Clone, Debug)]
pub struct Restore {
    pub from: PathBuf,
    pub data_dir: PathBuf,
    pub node_id: NodeId,
    /// The members of the new cluster with their peer addresses, this node among them.
    pub initial_cluster: BTreeMap<NodeId, String>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The cluster that the backup was taken of, and its log index then.
    pub origin_cluster_id: Option<String>,
    pub origin_index: u64,
    pub founded: Founded,
}

impl Restore {
    pub fn run(&self) -> anyhow::Result<Restored> {
        let Restore { from, data_dir, node_id, initial_cluster } = self;
        let SurveyedFile { contents, survey, .. } = survey_file(from)?;
        let Some(cluster) = survey.cluster else {
            anyhow::bail!("{} holds the state of no cluster: nothing was founded yet", from.display());
        };
        let origin = survey.progress;
        let term = origin.last_applied.map_or(0, |id| id.leader_id.term) + 1;
        let cluster_id = self.cluster_id(&contents.digest);
        let nursery = Nursery::open(data_dir)?;
        let store = nursery.store(*node_id, LevelRange::OWN, Arc::new(Metrics::new()?))?;
        store.set_cluster_id(&cluster_id)?;
        let origin_index = origin.index();
        let member = |(id, peer): (&NodeId, &String)| (*id, Member { peer: peer.clone() });
        let founding = Founding {
            rebirth: Rebirth { cluster_id, survivor: None },
            node_id: *node_id,
            members: initial_cluster.iter().map(member).collect(),
            term,
            origin,
            level: contents.level,
        };
        let founded = founding.carry_out(store, |sink| {
            let again = read_file(from, sink)?;
            let is_same = again.digest == contents.digest;
            if is_same { Ok(()) } else { Err(std::io::Error::other("the backup was changed while it was read")) }
        })?;
        nursery.finish()?;
        Ok(Restored { origin_cluster_id: Some(cluster.cluster_id), origin_index, founded })
    }

    /// The same for every node that is given the same.
    fn cluster_id(&self, digest: &[u8]) -> String {
        let mut hash = Sha256::new().chain_update(digest);
        for (id, peer) in &self.initial_cluster {
            hash.update(id.to_be_bytes());
            hash.update(peer);
            hash.update([0]);
        }
        hex::encode(&hash.finalize()[..16])
    }
}
