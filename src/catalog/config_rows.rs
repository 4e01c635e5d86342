//! The rows of the configuration store. Those of files and releases name their content by its digest
//! from [`Level::SETTINGS`] on, see `contents`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::archive::Archived;
use super::contents;
use super::ledger::Entry;
use super::row::{Row, Table};
use crate::format::level::Level;
use crate::format::pack;
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigKey, ConfigRelease};
use crate::model::time::Timestamp;

/// The newest notification id of anything that a lookup of this canonical name could see. Kept over
/// deletions, so that ids never go down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConfigMark {
    /// Canonical, see [`ConfigKey::canonical`].
    pub key: ConfigKey,
    pub notification_id: u32,
}

/// The highest version ever given to a release of a file. Kept over deletions, so that a release
/// key never names two contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConfigVersion {
    pub key: ConfigKey,
    pub version: u64,
    /// The highest version of a release that retention removed; 0 if it removed none.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub removed_through: u64,
}

fn key_parts(key: &ConfigKey) -> Vec<Cow<'_, [u8]>> {
    vec![key.namespace.as_bytes().into(), key.group.as_bytes().into(), key.file.as_bytes().into()]
}

impl Row for ConfigMark {
    const TABLE: Table = Table::ConfigMark;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        key_parts(&self.key)
    }
}

impl Row for ConfigVersion {
    const TABLE: Table = Table::ConfigVersion;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        key_parts(&self.key)
    }
}

impl Row for ConfigGroup {
    const TABLE: Table = Table::ConfigGroup;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        vec![self.namespace.as_bytes().into(), self.name.as_bytes().into()]
    }
}

impl Row for ConfigFile {
    const TABLE: Table = Table::ConfigFile;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        key_parts(&self.key)
    }

    fn version_at(level: Level) -> u8 {
        contents::row_version_at(level)
    }

    fn body(&self, version: u8) -> Vec<u8> {
        match contents::content_in(version, &self.content) {
            Some(content) => pack::to_bytes(&ConfigFile { content, ..self.clone() }),
            None => pack::to_bytes(self),
        }
    }
}

impl Row for ConfigRelease {
    const TABLE: Table = Table::ConfigRelease;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        let mut name = key_parts(&self.key);
        name.push(self.name.as_bytes().into());
        name
    }

    fn version_at(level: Level) -> u8 {
        contents::row_version_at(level)
    }

    fn body(&self, version: u8) -> Vec<u8> {
        match contents::content_in(version, &self.content) {
            Some(content) => pack::to_bytes(&ConfigRelease { content, ..self.clone() }),
            None => pack::to_bytes(self),
        }
    }
}

impl Entry for ConfigFile {
    type Key = ConfigKey;

    fn key(&self) -> Arc<ConfigKey> {
        Arc::new(self.key.clone())
    }

    fn name(&self) -> &str {
        &self.key.file
    }

    fn mtime(&self) -> Timestamp {
        self.modified.time
    }
}

impl Archived for ConfigRelease {
    type Thing = ConfigKey;

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
}
