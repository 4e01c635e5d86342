//! Payload of a request for approval: the act, and the content that it releases.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::GatedAction;
use crate::format::pack;
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::config_file::{ConfigFile, ConfigReleaseDraft};
use crate::model::release::ReleaseType;
use crate::model::rollout::RolloutPlan;
use crate::model::rule::Rule;
use crate::model::rule::release::RuleReleaseDraft;

/// Copy of an object at the time of the request for its publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Snapshot {
    Rule(Arc<Rule>),
    /// Config file, whose content is stored like that of a release.
    File(Box<FileCopy>),
}

/// Copy of a config file, whose text is only on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileCopy {
    pub file: ConfigFile,
    /// MD5 of the text, in hex.
    pub md5: String,
    /// Bytes of the text.
    pub bytes: u64,
}

impl Snapshot {
    pub fn file(&self) -> Option<&ConfigFile> {
        match self {
            Snapshot::Rule(_) => None,
            Snapshot::File(copy) => Some(&copy.file),
        }
    }

    pub fn file_mut(&mut self) -> Option<&mut ConfigFile> {
        match self {
            Snapshot::Rule(_) => None,
            Snapshot::File(copy) => Some(&mut copy.file),
        }
    }
}

/// A pending act with its content; removed from memory and rows once the request is closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    pub act: GatedAction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// True if the act wrote the copied file, so that it needs the right to edit.
    #[serde(default, skip_serializing_if = "crate::model::is_false")]
    pub writes: bool,
    /// Releases that an act without a copy affects. The act is performed on exactly these, or not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<MeantRelease>,
}

/// A release that an act affects, at the time of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeantRelease {
    pub id: String,
    pub name: String,
    pub version: u64,
    /// SHA-256 of its content and audience, in hex.
    pub digest: String,
    /// Rollout step for an act that advances it; otherwise 0.
    #[serde(default, skip_serializing_if = "is_no_step")]
    pub step: u32,
    /// Revision of the released rule, which no other rule shares. Callers choose ids of rules and releases and may
    /// reuse them after the rule was deleted, when versions count anew.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

fn is_no_step(step: &u32) -> bool {
    *step == 0
}

impl MeantRelease {
    /// Reports whether it is this release, unchanged. The digest is not compared, because it changes when a secret is
    /// resealed.
    pub fn is(&self, other: &MeantRelease) -> bool {
        let is_same = (self.version, self.step) == (other.version, other.step);
        is_same && (&self.id, &self.revision) == (&other.id, &other.revision)
    }
}

impl Payload {
    /// Returns the SHA-256 of the act and its content, in hex.
    pub fn hash(&self) -> String {
        let mut bytes = Vec::new();
        pack::put(self, &mut bytes);
        hex::encode(Sha256::digest(bytes))
    }
}

/// Summary of an act for approvers.
#[derive(Clone, Debug, Default)]
pub struct ActBrief<'a> {
    /// Name of the release that is created, if given, or that the act affects.
    pub release_name: &'a str,
    /// Version of the affected release; 0 for a created one.
    pub release_version: u64,
    /// Type of the release that a publication creates.
    pub release_type: Option<ReleaseType>,
    /// Clients of a gray publication.
    pub client_labels: &'a [ClientLabel],
    /// Share of them.
    pub client_percent: Option<&'a ClientPercent>,
    /// Steps by which it reaches all clients.
    pub plan: Option<&'a RolloutPlan>,
    /// Rollout step before the one that is taken; 0 for none.
    pub step: u32,
    /// Release that a withdrawal brings back into force; empty for none.
    pub previous_release: &'a str,
}

impl Payload {
    pub fn brief(&self) -> ActBrief<'_> {
        match &self.act {
            GatedAction::PublishRule(_, draft) => ActBrief {
                release_name: draft.given_release_name().unwrap_or_default(),
                release_type: Some(ReleaseType::read(draft.release_type.as_deref()).unwrap_or_default()),
                client_labels: draft.labels(),
                client_percent: draft.client_percent.as_ref(),
                plan: draft.plan.as_ref(),
                ..ActBrief::default()
            },
            GatedAction::PublishFile(draft) => of_file(draft),
            GatedAction::WriteAndPublishFile(publish) => of_file(&publish.release),
            GatedAction::RuleRelease(_, _, RuleReleaseDraft { to_previous, .. })
            | GatedAction::FileRelease(_, ConfigReleaseDraft { to_previous, .. }) => {
                let Some(first) = self.releases.first() else { return ActBrief::default() };
                let previous = self.releases.get(1).filter(|_| *to_previous == Some(true));
                ActBrief {
                    release_name: &first.name,
                    release_version: first.version,
                    step: first.step,
                    previous_release: previous.map_or("", |previous| &previous.name),
                    ..ActBrief::default()
                }
            }
            GatedAction::DeleteRule(_) | GatedAction::DeleteFile(_) => ActBrief::default(),
        }
    }
}

fn of_file(draft: &ConfigReleaseDraft) -> ActBrief<'_> {
    ActBrief {
        release_name: draft.given_name().unwrap_or_default(),
        release_type: Some(draft.release_type()),
        client_labels: draft.labels(),
        client_percent: draft.client_percent.as_ref(),
        plan: draft.plan.as_ref(),
        ..ActBrief::default()
    }
}
