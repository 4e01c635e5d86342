//! The configuration store: groups, files and releases, the lookup of config clients and the two
//! memories that outlive a deletion (versions and notification marks).

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::{Change, Journal};
use super::config_active::ActiveConfigs;
use super::page::{Listed, Page, cut_sorted};
use super::row::{Row, Table};
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigKey, ConfigRelease, canonical_file};
use crate::model::config_lookup::{ClientLabels, Released};
use crate::model::text::NameFilter;

/// The newest notification id of anything that a lookup of this canonical name could see. Kept over
/// deletions, so that ids never go down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigMark {
    /// Canonical, see [`ConfigKey::canonical`].
    pub key: ConfigKey,
    pub notification_id: u32,
}

/// The highest version ever given to a release of a file. Kept over deletions, so that a release
/// key never names two contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigVersion {
    pub key: ConfigKey,
    pub version: u64,
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
}

impl Row for ConfigRelease {
    const TABLE: Table = Table::ConfigRelease;
    fn name(&self) -> Vec<Cow<'_, [u8]>> {
        let mut name = key_parts(&self.key);
        name.push(self.name.as_bytes().into());
        name
    }
}

/// Releases of one file by name.
pub(super) type Releases = BTreeMap<String, Arc<ConfigRelease>>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configs {
    pub(super) groups: BTreeMap<(String, String), Arc<ConfigGroup>>,
    pub(super) files: BTreeMap<ConfigKey, Arc<ConfigFile>>,
    pub(super) releases: BTreeMap<ConfigKey, Releases>,
    active: ActiveConfigs,
    marks: BTreeMap<ConfigKey, u32>,
    versions: BTreeMap<ConfigKey, u64>,
    newest_notification_id: u32,
}

/// Which groups a list wants.
#[derive(Clone, Debug, Default)]
pub struct GroupFilter {
    pub namespace: Option<NameFilter>,
    pub name: Option<NameFilter>,
    pub business: Option<String>,
    pub department: Option<String>,
}

/// Which files, or releases of which files, a list wants.
#[derive(Clone, Debug, Default)]
pub struct FileFilter {
    pub namespace: Option<NameFilter>,
    pub group: Option<NameFilter>,
    pub file: Option<NameFilter>,
    pub release: Option<NameFilter>,
    pub only_active: bool,
}

impl FileFilter {
    fn matches_key(&self, key: &ConfigKey) -> bool {
        NameFilter::passes(&self.namespace, &key.namespace)
            && NameFilter::passes(&self.group, &key.group)
            && NameFilter::passes(&self.file, &key.file)
    }
}

impl Configs {
    // ---- what config clients see ----

    /// What a client finds under `file` in one step of its lookup.
    pub fn find(&self, namespace: &str, group: &str, file: &str, client: &ClientLabels) -> Option<&Arc<Released>> {
        self.active.find(namespace, group, file, client)
    }

    /// The newest notification id of one step of a lookup.
    pub fn notification_id(&self, namespace: &str, group: &str, file: &str) -> Option<u32> {
        self.marks.get(&ConfigKey::new(namespace, group, canonical_file(file))).copied()
    }

    /// The newest id given to any change: all that is applied here is at or below it.
    pub fn newest_notification_id(&self) -> u32 {
        self.newest_notification_id
    }

    /// The highest version ever given to a release of the file; 0 if there was none.
    pub fn highest_version(&self, key: &ConfigKey) -> u64 {
        self.versions.get(key).copied().unwrap_or_default()
    }

    // ---- what the management surface reads ----

    pub fn file(&self, key: &ConfigKey) -> Option<&Arc<ConfigFile>> {
        self.files.get(key)
    }

    pub fn release(&self, key: &ConfigKey, name: &str) -> Option<&Arc<ConfigRelease>> {
        self.releases.get(key)?.get(name)
    }

    /// The active normal release of exactly this file.
    pub fn active_release(&self, key: &ConfigKey) -> Option<&Arc<ConfigRelease>> {
        self.active.normal(key)
    }

    /// True if an active gray release is beside it, or alone.
    pub fn has_gray(&self, key: &ConfigKey) -> bool {
        self.active.has_gray(key)
    }

    pub fn files_in_group(&self, namespace: &str, group: &str) -> impl Iterator<Item = &Arc<ConfigFile>> {
        let start = ConfigKey::new(namespace, group, "");
        let (namespace, group) = (start.namespace.clone(), start.group.clone());
        self.files
            .range(start..)
            .take_while(move |(key, _)| key.namespace == namespace && key.group == group)
            .map(|(_, file)| file)
    }

    pub fn file_count_in(&self, group: &ConfigGroup) -> usize {
        self.files_in_group(&group.namespace, &group.name).count()
    }

    /// Newest change first, then by name.
    pub fn list_groups(&self, filter: &GroupFilter, page: Page) -> Listed<Arc<ConfigGroup>> {
        let wanted = |group: &&Arc<ConfigGroup>| {
            NameFilter::passes(&filter.namespace, &group.namespace)
                && NameFilter::passes(&filter.name, &group.name)
                && filter.business.as_ref().is_none_or(|business| group.business.contains(business.as_str()))
                && filter.department.as_ref().is_none_or(|department| group.department == *department)
        };
        let matching = self.groups.values().filter(wanted).cloned().collect();
        cut_sorted(matching, |group| (Reverse(group.modified.time), group.namespace.clone(), group.name.clone()), page)
    }

    /// Newest change first, then by key.
    pub fn list_files(&self, filter: &FileFilter, page: Page) -> Listed<Arc<ConfigFile>> {
        let matching = self.files.values().filter(|file| filter.matches_key(&file.key)).cloned().collect();
        cut_sorted(matching, |file| (Reverse(file.modified.time), file.key.clone()), page)
    }

    /// Newest change first, then highest version.
    pub fn list_releases(&self, filter: &FileFilter, page: Page) -> Listed<Arc<ConfigRelease>> {
        let of_files = self.releases.iter().filter(|(key, _)| filter.matches_key(key));
        let matching = of_files
            .flat_map(|(_, releases)| releases.values())
            .filter(|release| !filter.only_active || release.active)
            .filter(|release| NameFilter::passes(&filter.release, &release.name))
            .cloned()
            .collect();
        cut_sorted(
            matching,
            |release| (Reverse(release.modified.time), release.key.clone(), Reverse(release.version)),
            page,
        )
    }

    /// All releases of one file, highest version first.
    pub fn versions_of(&self, key: &ConfigKey) -> Vec<Arc<ConfigRelease>> {
        let mut all: Vec<_> = self.releases.get(key).into_iter().flat_map(BTreeMap::values).cloned().collect();
        all.sort_by_key(|release| Reverse(release.version));
        all
    }

    pub fn has_groups_in(&self, namespace: &str) -> bool {
        let start = (namespace.to_owned(), String::new());
        self.groups.range(start..).next().is_some_and(|((group_namespace, _), _)| group_namespace == namespace)
    }

    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    pub fn release_count(&self) -> usize {
        self.releases.values().map(BTreeMap::len).sum()
    }

    // ---- the ways in which anything here changes ----

    pub(super) fn put_group(&mut self, group: ConfigGroup, journal: &mut Journal) -> Arc<ConfigGroup> {
        journal.put(&group);
        self.load_group(group)
    }

    pub(super) fn put_file(&mut self, file: ConfigFile, journal: &mut Journal) -> Arc<ConfigFile> {
        journal.put(&file);
        self.load_file(file)
    }

    pub(super) fn remove_group(&mut self, group: &ConfigGroup, journal: &mut Journal) {
        journal.delete(group);
        self.groups.remove(&(group.namespace.clone(), group.name.clone()));
    }

    pub(super) fn remove_file(&mut self, file: &ConfigFile, journal: &mut Journal) {
        journal.delete(file);
        self.files.remove(&file.key);
    }

    pub(super) fn put_release(&mut self, release: ConfigRelease, journal: &mut Journal) -> Arc<ConfigRelease> {
        journal.put(&release);
        self.load_release(release)
    }

    pub(super) fn remove_release(&mut self, release: &ConfigRelease, journal: &mut Journal) {
        journal.delete(release);
        self.active.remove(release);
        if let Some(releases) = self.releases.get_mut(&release.key) {
            releases.remove(&release.name);
            if releases.is_empty() {
                self.releases.remove(&release.key);
            }
        }
    }

    /// The next version of a file: one counter over all its releases, never used again.
    pub(super) fn next_version(&mut self, key: &ConfigKey, journal: &mut Journal) -> u64 {
        let row = ConfigVersion { key: key.clone(), version: self.highest_version(key) + 1 };
        journal.put(&row);
        self.versions.insert(row.key, row.version);
        row.version
    }

    /// Clients may see another content of `key` from now on: the counter advances and waiters wake.
    ///
    /// Ids stay below 2^31 because clients decode them as signed 32-bit numbers; at one publish a
    /// second that lasts 68 years, and the counter would rather stand still than wrap.
    pub(super) fn mark(&mut self, key: &ConfigKey, journal: &mut Journal) {
        let notification_id = self.newest_notification_id.saturating_add(1).min(i32::MAX as u32);
        let row = ConfigMark { key: key.canonical(), notification_id };
        journal.put(&row);
        journal.changed(Change::Config(key.clone()));
        self.load_mark(row);
    }

    // ---- rows ----

    pub(super) fn load_group(&mut self, group: ConfigGroup) -> Arc<ConfigGroup> {
        let group = Arc::new(group);
        self.groups.insert((group.namespace.clone(), group.name.clone()), group.clone());
        group
    }

    pub(super) fn load_file(&mut self, file: ConfigFile) -> Arc<ConfigFile> {
        let file = Arc::new(file);
        self.files.insert(file.key.clone(), file.clone());
        file
    }

    pub(super) fn load_release(&mut self, release: ConfigRelease) -> Arc<ConfigRelease> {
        let release = Arc::new(release);
        self.active.insert(&release);
        self.releases.entry(release.key.clone()).or_default().insert(release.name.clone(), release.clone());
        release
    }

    pub(super) fn load_mark(&mut self, mark: ConfigMark) {
        self.newest_notification_id = self.newest_notification_id.max(mark.notification_id);
        self.marks.insert(mark.key, mark.notification_id);
    }

    pub(super) fn load_version(&mut self, version: ConfigVersion) {
        self.versions.insert(version.key, version.version);
    }
}
