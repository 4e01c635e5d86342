//! Groups, files and releases of the configuration centre as the management surface shows them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::history::StateView;
use super::rollout::RolloutView;
use crate::catalog::Catalog;
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigRelease, Format, Tag};
use crate::model::release::ReleaseType;
use crate::model::sealing::ALGORITHM;

/// A group of config files: the app id of config clients.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigFileGroup")]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigGroupView<'a> {
    id: u64,
    name: &'a str,
    namespace: &'a str,
    comment: &'a str,
    owner: &'a str,
    business: &'a str,
    department: &'a str,
    metadata: &'a BTreeMap<String, String>, // bound: request
    file_count: usize,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    create_time: String,
    create_by: &'a str,
    modify_time: String,
    modify_by: &'a str,
    /// Revision, new after every change; empty until the first change in a cluster of level 4.
    revision: &'a str,
    editable: bool,
    deleteable: bool,
}

impl<'a> ConfigGroupView<'a> {
    pub(crate) fn new(group: &'a ConfigGroup, file_count: usize) -> Self {
        ConfigGroupView {
            id: group.id,
            name: &group.name,
            namespace: &group.namespace,
            comment: &group.comment,
            owner: &group.owner,
            business: &group.business,
            department: &group.department,
            metadata: &group.metadata,
            file_count,
            create_time: group.created.time.text(),
            create_by: &group.created.by,
            modify_time: group.modified.time.text(),
            modify_by: &group.modified.by,
            revision: &group.revision,
            editable: true,
            deleteable: true,
        }
    }
}

/// State of a file relative to its active release.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) enum FileStatus {
    #[serde(rename = "to-be-released")]
    ToBeReleased,
    #[serde(rename = "normal")]
    Normal,
    #[serde(rename = "betaing")]
    Betaing,
}

impl FileStatus {
    pub(crate) fn of(file: &ConfigFile, catalog: &Catalog) -> Self {
        if catalog.configs.has_gray(&file.key) {
            return FileStatus::Betaing;
        }
        match catalog.configs.active_release(&file.key) {
            Some(release) if release.content == file.content && release.format == file.format => FileStatus::Normal,
            _ => FileStatus::ToBeReleased,
        }
    }
}

/// Draft of a config file.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigFile")]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigFileView<'a> {
    id: u64,
    name: &'a str,
    namespace: &'a str,
    group: &'a str,
    /// Content; absent in lists without `brief=false`. For an encrypted file present only if the file is read alone, by
    /// a caller with the permission to edit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    /// True if the content is stored encrypted.
    encrypted: bool,
    /// Algorithm of the encryption; empty if not encrypted.
    encrypt_algo: &'static str,
    format: Format,
    comment: &'a str,
    status: FileStatus,
    tags: &'a [Tag],
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    create_time: String,
    create_by: &'a str,
    modify_time: String,
    modify_by: &'a str,
    /// Time of the last publish; empty before the first.
    release_time: String,
    release_by: &'a str,
    /// Revision, new after every change; empty until the first change in a cluster of level 4.
    revision: &'a str,
}

impl<'a> ConfigFileView<'a> {
    pub(crate) fn new(file: &'a ConfigFile, status: FileStatus) -> Self {
        let released = file.released.as_ref();
        ConfigFileView {
            id: file.id,
            name: &file.key.file,
            namespace: &file.key.namespace,
            group: &file.key.group,
            content: (!file.encrypted).then_some(&*file.content),
            encrypted: file.encrypted,
            encrypt_algo: algorithm(file.encrypted),
            format: file.format,
            comment: &file.comment,
            status,
            tags: &file.tags,
            create_time: file.created.time.text(),
            create_by: &file.created.by,
            modify_time: file.modified.time.text(),
            modify_by: &file.modified.by,
            release_time: released.map(|stamp| stamp.time.text()).unwrap_or_default(),
            release_by: released.map(|stamp| stamp.by.as_str()).unwrap_or_default(),
            revision: &file.revision,
        }
    }

    /// Sets the content that the caller may see.
    pub(crate) fn with_content(self, content: Option<&'a str>) -> Self {
        ConfigFileView { content, ..self }
    }
}

fn algorithm(encrypted: bool) -> &'static str {
    if encrypted { ALGORITHM } else { "" }
}

/// An immutable copy of a config file, made by a publish.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigFileRelease")]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigReleaseView<'a> {
    id: u64,
    name: &'a str,
    namespace: &'a str,
    group: &'a str,
    file_name: &'a str,
    /// Content; absent in lists without `brief=false`. For an encrypted file present only if the release is read alone,
    /// by a caller with the permission to edit the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    /// md5 of the content; for an encrypted file, of the stored bytes.
    md5: &'a str,
    /// True if the content is stored encrypted.
    encrypted: bool,
    /// Algorithm of the encryption; empty if not encrypted.
    encrypt_algo: &'static str,
    format: Format,
    comment: &'a str,
    tags: &'a [Tag],
    release_description: &'a str,
    release_type: ReleaseType,
    /// Labels of the clients of a gray release.
    beta_labels: &'a [ClientLabel],
    /// Share of the clients of a gray release.
    #[serde(rename = "client_percent", skip_serializing_if = "Option::is_none")]
    client_percent: Option<&'a ClientPercent>,
    /// Rollout of a gray release that was published with a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout: Option<RolloutView<'a>>,
    /// Number of the release of this file, counting rollbacks; never reused.
    version: u64,
    /// True if clients get it.
    active: bool,
    state: StateView,
    /// Time of a planned publish, even if it failed.
    #[serde(rename = "publish_at", skip_serializing_if = "Option::is_none")]
    publish_at: Option<String>,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    create_time: String,
    create_by: &'a str,
    modify_time: String,
    modify_by: &'a str,
}

impl<'a> ConfigReleaseView<'a> {
    pub(crate) fn new(release: &'a ConfigRelease) -> Self {
        ConfigReleaseView {
            id: release.id,
            name: &release.name,
            namespace: &release.key.namespace,
            group: &release.key.group,
            file_name: &release.key.file,
            content: release.content.text().filter(|_| !release.encrypted).map(|text| &**text),
            md5: &release.md5,
            encrypted: release.encrypted,
            encrypt_algo: algorithm(release.encrypted),
            format: release.format,
            comment: &release.comment,
            tags: &release.tags,
            release_description: &release.description,
            release_type: release.release_type,
            beta_labels: &release.labels,
            client_percent: release.client_percent.as_ref(),
            rollout: release.rollout.as_deref().map(RolloutView::new),
            version: release.version,
            active: release.active,
            state: release.state().into(),
            publish_at: release.plan.as_ref().map(|plan| plan.at.text()),
            create_time: release.created.time.text(),
            create_by: &release.created.by,
            modify_time: release.modified.time.text(),
            modify_by: &release.modified.by,
        }
    }

    /// Sets the content that the caller may see.
    pub(crate) fn with_content(self, content: Option<&'a str>) -> Self {
        ConfigReleaseView { content, ..self }
    }
}
