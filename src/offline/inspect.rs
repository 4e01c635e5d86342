//! Contents of a data directory or a backup.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::state_scan::{Survey, SurveyedFile, TableSize, survey_file};
use crate::format::level::LevelRange;
use crate::format::types::NodeId;
use crate::raft::progress::Progress;
use crate::store::{FileKind, LogExtent, LogSize, ReadOnlyStore};

/// Result of an inspection. Fields that apply only to the other kind are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    pub path: PathBuf,
    pub kind: InspectedKind,
    pub cluster_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Level of the cluster, and level that a binary has to read to open this.
    pub level: u8,
    pub level_needed: u8,
    /// Index of the last entry applied.
    pub index: u64,
    pub term: u64,
    pub state_hash: String,
    pub services: u64,
    pub rules: u64,
    pub config_files: u64,
    pub tables: BTreeMap<&'static str, TableSize>,
    /// Members with their peer addresses, and the ids of the voters.
    pub members: BTreeMap<NodeId, String>,
    pub voters: Vec<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<File>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum InspectedKind {
    Directory,
    /// A backup or a snapshot.
    File,
    /// File that the nodes of a new cluster are created from.
    Reborn,
}

/// Log of a directory, and the newest vote of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Log {
    /// First index; absent if all entries are purged.
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub entries: u64,
    pub bytes: u64,
    pub purged: Option<u64>,
    pub vote_term: Option<u64>,
    /// True if the installation of a snapshot was interrupted: the rows are a mixture until the next start.
    pub is_mixture: bool,
}

/// Header of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    pub bytes: u64,
    pub checksum: String,
    /// Version of the binary that wrote it, and time in milliseconds since 1970; absent from older files.
    pub version: Option<String>,
    pub created_ms: Option<u64>,
}

/// Reads a directory or a file completely, without changes.
pub fn inspect(path: &Path) -> anyhow::Result<Inspection> {
    if path.is_dir() { inspect_directory(path) } else { inspect_file(path) }
}

fn inspect_directory(path: &Path) -> anyhow::Result<Inspection> {
    let peek = ReadOnlyStore::open(path, LevelRange::OWN)?;
    let mut survey = Survey::new();
    peek.for_each_row(&mut |key, value| survey.take(key, value))?;
    let LogExtent { purged, last, vote } = peek.log_extent()?;
    let LogSize { first, entries, bytes } = peek.log_size()?;
    let log = Log {
        first,
        last: last.map(|id| id.index),
        entries,
        bytes,
        purged: purged.map(|id| id.index),
        vote_term: vote.map(|vote| vote.leader_id().term),
        is_mixture: peek.is_mixture()?,
    };
    let identity = peek.identity();
    let mut inspection = Inspection::new(path, InspectedKind::Directory, survey, identity.level.0);
    inspection.node_id = Some(identity.node_id);
    // A member that has not applied the founding yet has the id of its cluster already.
    inspection.cluster_id = inspection.cluster_id.or_else(|| identity.cluster_id.clone());
    inspection.term = inspection.term.max(log.vote_term.unwrap_or_default());
    inspection.log = Some(log);
    Ok(inspection)
}

fn inspect_file(path: &Path) -> anyhow::Result<Inspection> {
    let SurveyedFile { contents, header, survey } = survey_file(path)?;
    let kind = match contents.kind {
        FileKind::State => InspectedKind::File,
        FileKind::Reborn => InspectedKind::Reborn,
    };
    let mut inspection = Inspection::new(path, kind, survey, contents.level.0);
    inspection.file = Some(File {
        bytes: contents.bytes,
        checksum: hex::encode(contents.digest),
        version: Some(header.version).filter(|version| !version.is_empty()),
        created_ms: Some(header.created_ms).filter(|created| *created > 0),
    });
    Ok(inspection)
}

impl Inspection {
    fn new(path: &Path, kind: InspectedKind, survey: Survey, level_needed: u8) -> Self {
        let Survey { progress, cluster, tables, .. } = survey;
        let rows = |label: &str| tables.get(label).map_or(0, |size| size.rows);
        let (services, rules, config_files) = (rows("services"), rows("rules"), rows("config_files"));
        let Progress { last_applied, membership, hash } = progress;
        let membership = membership.membership();
        Inspection {
            path: path.to_owned(),
            kind,
            level: cluster.as_ref().map_or(level_needed, |cluster| cluster.level.0),
            cluster_id: cluster.map(|cluster| cluster.cluster_id),
            node_id: None,
            level_needed,
            index: last_applied.map_or(0, |id| id.index),
            term: last_applied.map_or(0, |id| id.leader_id.term),
            state_hash: hex::encode(hash),
            services,
            rules,
            config_files,
            tables,
            members: membership.nodes().map(|(id, member)| (*id, member.peer.clone())).collect(),
            voters: membership.voter_ids().collect(),
            log: None,
            file: None,
        }
    }
}
