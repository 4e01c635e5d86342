//! Rows of the configuration store. Files and releases refer to their content by digest, see `contents`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::index::archive::Archived;
use crate::catalog::index::list_index::Indexed;
use crate::catalog::row::{Row, RowKey, Table};
use crate::format::pack;
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigKey, ConfigRelease};
use crate::model::release::ReleaseState;
use crate::model::time::Timestamp;

/// Newest notification id of anything that a lookup of this canonical name could see. Not deleted with the file, so
/// that ids never go down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfigMark {
    /// Canonical key, see [`ConfigKey::canonical`].
    pub key: ConfigKey,
    pub notification_id: u32,
}

/// Highest version ever given to a release of a file. Not deleted with the file, so that a release key never names two
/// contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfigVersion {
    pub key: ConfigKey,
    pub version: u64,
    /// Highest version of a release that retention removed; 0 if it removed none.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub removed_through: u64,
    /// Suffix of release keys in a cluster created from an earlier state. Stored under the key of no file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub birth: String,
}

fn put_file<'a>(file: &ConfigKey, key: &'a mut RowKey) -> &'a mut RowKey {
    key.part(&file.namespace).part(&file.group).part(&file.file)
}

impl Row for ConfigMark {
    const TABLE: Table = Table::ConfigMark;
    fn name(&self, key: &mut RowKey) {
        put_file(&self.key, key);
    }
}

impl Row for ConfigVersion {
    const TABLE: Table = Table::ConfigVersion;
    fn name(&self, key: &mut RowKey) {
        put_file(&self.key, key);
    }
}

impl Row for ConfigGroup {
    const TABLE: Table = Table::ConfigGroup;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.namespace).part(&self.name);
    }
}

impl Row for ConfigFile {
    const TABLE: Table = Table::ConfigFile;
    fn name(&self, key: &mut RowKey) {
        put_file(&self.key, key);
    }

    fn put_body(&self, out: &mut Vec<u8>) {
        pack::put(&ConfigFile { content: self.content.reference(), ..self.clone() }, out)
    }
}

impl Row for ConfigRelease {
    const TABLE: Table = Table::ConfigRelease;
    fn name(&self, key: &mut RowKey) {
        put_file(&self.key, key).part(&self.name);
    }

    fn put_body(&self, out: &mut Vec<u8>) {
        pack::put(&ConfigRelease { content: self.content.reference(), ..self.clone() }, out)
    }
}

/// Columns of the texts that lists filter by.
pub(crate) const FILE: usize = 0;
pub(super) const GROUP: usize = 1;
pub(crate) const NAMESPACE: usize = 2;

impl Indexed for ConfigFile {
    type Key = ConfigKey;

    const COLUMNS: usize = 3;

    fn key(&self) -> &ConfigKey {
        &self.key
    }

    fn shared_key(&self) -> Arc<ConfigKey> {
        Arc::new(self.key.clone())
    }

    fn mtime(&self) -> Timestamp {
        self.modified.time
    }

    fn texts(&self, column: usize, tell: &mut dyn FnMut(&str)) {
        match column {
            FILE => tell(&self.key.file),
            GROUP => tell(&self.key.group),
            _ => tell(&self.key.namespace),
        }
    }
}

impl Archived for ConfigRelease {
    type Subject = ConfigKey;

    fn thing(&self) -> Arc<ConfigKey> {
        Arc::new(self.key.clone())
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_active(&self) -> bool {
        self.active
    }

    fn due(&self) -> Option<Timestamp> {
        self.plan.as_ref().filter(|plan| plan.state() == ReleaseState::Scheduled).map(|plan| plan.at)
    }

    fn is_rolling(&self) -> bool {
        self.active && self.rollout.as_ref().is_some_and(|rollout| rollout.is_live())
    }
}
