//! Payload of a request: the act, and what it releases.

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

/// Copy of what a publish would release, as it stood when it was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Snapshot {
    Rule(Arc<Rule>),
    /// Its content is kept as that of a release.
    File(Box<FileCopy>),
}

/// Copy of a config file, whose text is on disk alone.
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

/// An act that waits for approval, and what it releases; gone from memory and rows once nothing comes of it any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    pub act: GatedAction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// True if the copy of a file was written by the act: to do it takes the right to edit.
    #[serde(default, skip_serializing_if = "crate::model::is_false")]
    pub writes: bool,
    /// Releases that an act without a copy is about. It is done to these, or not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<MeantRelease>,
}

/// A release that an act is about, as it was when that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeantRelease {
    pub id: String,
    pub name: String,
    pub version: u64,
    /// SHA-256 of what it gives, and to which clients, in hex.
    pub digest: String,
    /// Step of its rollout, for an act that takes the next one; else 0.
    #[serde(default, skip_serializing_if = "is_no_step")]
    pub step: u32,
    /// Revision of the rule in the release of a rule, which no other rule has. Callers may give ids of rules and of
    /// releases, and give them again once the rule is gone, from whose deletion on versions count anew.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

fn is_no_step(step: &u32) -> bool {
    *step == 0
}

impl MeantRelease {
    /// True if it is this release, and nothing has become of it. Its digest changes where a secret is sealed anew.
    pub fn is(&self, other: &MeantRelease) -> bool {
        let is_same = (self.version, self.step) == (other.version, other.step);
        is_same && (&self.id, &self.revision) == (&other.id, &other.revision)
    }
}

impl Payload {
    /// SHA-256 of what would be done, in hex.
    pub fn hash(&self) -> String {
        let mut bytes = Vec::new();
        pack::put(self, &mut bytes);
        hex::encode(Sha256::digest(bytes))
    }
}

/// An act as those who approve it read it.
#[derive(Clone, Debug, Default)]
pub struct ActBrief<'a> {
    /// Release that is made, if it was named, or that the act is about.
    pub release_name: &'a str,
    /// Version of the latter; 0 for one that is made.
    pub release_version: u64,
    /// Type of the release that a publish makes.
    pub release_type: Option<ReleaseType>,
    /// Clients that a gray publish is for,
    pub client_labels: &'a [ClientLabel],
    /// share of them,
    pub client_percent: Option<&'a ClientPercent>,
    /// and the steps by which it reaches everybody.
    pub plan: Option<&'a RolloutPlan>,
    /// Step of a rollout after which the next one is taken; 0 for none.
    pub step: u32,
    /// Release that comes back by a withdrawal; empty for none.
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
