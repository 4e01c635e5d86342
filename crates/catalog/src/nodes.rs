//! The cluster as its nodes announce themselves: its id, and for each node its addresses for clients and the identity
//! of its data directory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::change::{ChangeSet, Outcome};
use super::row::{Row, RowKey, Table};
use crate::format::level::{Level, LevelRange};
use crate::model::code::Code;
use crate::model::time::Timestamp;

/// The single row of the cluster itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub cluster_id: String,
    pub founded: Timestamp,
    /// Level of the cluster: all members support it, and the log and the rows use it.
    #[serde(default, skip_serializing_if = "Level::is_first")]
    pub level: Level,
}

impl Row for Cluster {
    const TABLE: Table = Table::Cluster;
    fn name(&self, _: &mut RowKey) {}
}

/// Record of a node, as the node describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub node_id: u64,
    /// Random id of the data directory. A node with the same id and another directory has lost its votes and its log,
    /// and may not rejoin under that id.
    pub instance: String,
    /// Advertised `host:port` of the management API.
    pub api: String,
    /// Advertised `host:port` of the config API.
    pub compat: String,
    /// True if the member was removed; its id cannot be used again.
    #[serde(default)]
    pub removed: bool,
    /// Version of the node's binary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Levels that the node reads and writes.
    #[serde(default, skip_serializing_if = "is_unannounced")]
    pub levels: LevelRange,
    /// Advertised `host:port` of gRPC; empty if it is off.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub grpc: String,
}

fn is_unannounced(levels: &LevelRange) -> bool {
    *levels == LevelRange::default()
}

impl NodeRecord {
    pub fn new(node_id: u64, instance: String, api: String, compat: String) -> Self {
        NodeRecord {
            node_id,
            instance,
            api,
            compat,
            removed: false,
            version: String::new(),
            levels: LevelRange::default(),
            grpc: String::new(),
        }
    }
}

impl Row for NodeRecord {
    const TABLE: Table = Table::Node;
    fn name(&self, key: &mut RowKey) {
        key.part(self.node_id.to_be_bytes());
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nodes {
    cluster: Option<Cluster>,
    by_id: BTreeMap<u64, NodeRecord>,
}

impl Nodes {
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster.as_ref().map(|cluster| cluster.cluster_id.as_str())
    }

    /// Returns the level in force, at which the following log entries are written.
    pub fn level(&self) -> Level {
        self.cluster.as_ref().map(|cluster| cluster.level).unwrap_or_default()
    }

    pub fn get(&self, node_id: u64) -> Option<&NodeRecord> {
        self.by_id.get(&node_id)
    }

    pub(super) fn found(&mut self, cluster: Cluster, changes: &mut ChangeSet) {
        changes.put(&cluster);
        self.cluster = Some(cluster);
    }

    /// Raises the level by one. Any other step was decided on an older state, and changes nothing.
    pub(super) fn raise(&mut self, level: Level, changes: &mut ChangeSet) -> Outcome {
        match &mut self.cluster {
            Some(cluster) if level.0 == cluster.level.0 + 1 => {
                cluster.level = level;
                changes.put(&*cluster);
                Outcome::default()
            }
            _ => Code::NoNeedUpdate.into(),
        }
    }

    pub(super) fn announce(&mut self, node: NodeRecord, changes: &mut ChangeSet) -> Outcome {
        match self.by_id.get(&node.node_id) {
            Some(known) if *known == node => return Code::NoNeedUpdate.into(),
            Some(known) if known.removed || known.instance != node.instance => return Code::DataConflict.into(),
            _ => {}
        }
        changes.put(&node);
        self.by_id.insert(node.node_id, node);
        Outcome::default()
    }

    pub(super) fn forget(&mut self, node_id: u64, changes: &mut ChangeSet) -> Outcome {
        let node = self
            .by_id
            .entry(node_id)
            .or_insert_with(|| NodeRecord::new(node_id, String::new(), String::new(), String::new()));
        node.removed = true;
        changes.put(node);
        Outcome::default()
    }

    pub(super) fn load_cluster(&mut self, cluster: Cluster) {
        self.cluster = Some(cluster);
    }

    pub(super) fn load_node(&mut self, node: NodeRecord) {
        self.by_id.insert(node.node_id, node);
    }
}
