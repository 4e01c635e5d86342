//! The configuration store: groups, files and releases, the lookup of config clients, and the two records that outlive
//! a deletion (versions and notification marks).

mod active;
mod changes;
pub mod contents;
mod filters;
mod kept;
pub(super) mod rows;
mod sealed;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use memchr::memmem;

use super::Corrupt;
use super::change::{Change, ChangeSet};
use super::index::archive::Archive;
use super::index::list_index::{ListIndex, TextFilter};
use super::index::names::Names;
use super::page::{ListKey, Listed, Page, cut_sorted};
use super::resource::newest_first;
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigKey, ConfigRelease, canonical_file};
use crate::model::config_lookup::{ClientLabels, Released};
use crate::model::content::ContentDigest;
use crate::model::text::NameFilter;
use active::ActiveConfigs;
pub use changes::md5_of;
use contents::{ConfigContents, StoredContent};
use filters::newest_release_first;
pub use filters::{FileFilter, GroupFilter};
use rows::{ConfigMark, ConfigVersion, FILE, GROUP, NAMESPACE};
use sealed::SealedCounts;

/// Versions that are remembered for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Versions {
    highest: u64,
    removed_through: u64,
}

/// A stored row whose content has not been loaded yet.
#[derive(Clone, Debug, PartialEq)]
enum AwaitsContent {
    File(ConfigFile),
    Release(ConfigRelease),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configs {
    groups: Names<Arc<ConfigGroup>>,
    files: ListIndex<ConfigFile>,
    releases: Archive<ConfigRelease>,
    contents: ConfigContents,
    sealed: SealedCounts,
    active: ActiveConfigs,
    marks: OrdMap<Arc<ConfigKey>, u32>,
    versions: OrdMap<Arc<ConfigKey>, Versions>,
    newest_notification_id: u32,
    /// Rows by the content that they wait for; used only while rows are loaded.
    waiting: BTreeMap<ContentDigest, Vec<AwaitsContent>>,
}

impl Configs {
    // ---- reads of config clients ----

    /// Finds the release of `file` in one step of a client's lookup.
    pub fn find(&self, namespace: &str, group: &str, file: &str, client: &ClientLabels) -> Option<&Arc<Released>> {
        self.active.find(namespace, group, file, client)
    }

    /// Reports whether the result of this lookup depends on another label of the client than its address.
    pub fn asks_labels(&self, namespace: &str, group: &str, file: &str) -> bool {
        self.active.asks_labels(namespace, group, file)
    }

    /// Returns the newest notification id in one step of a lookup.
    pub fn notification_id(&self, namespace: &str, group: &str, file: &str) -> Option<u32> {
        self.marks.get(&ConfigKey::new(namespace, group, canonical_file(file))).copied()
    }

    /// Returns the newest notification id given to any change applied here.
    pub fn newest_notification_id(&self) -> u32 {
        self.newest_notification_id
    }

    /// Returns the highest version ever given to a release of the file; 0 if there was none.
    pub fn highest_version(&self, key: &ConfigKey) -> u64 {
        self.versions_seen(key).highest
    }

    /// Returns the highest version of a release of the file that retention removed; 0 if it removed none.
    pub fn removed_through_version(&self, key: &ConfigKey) -> u64 {
        self.versions_seen(key).removed_through
    }

    /// Returns that version if the filter names one file.
    pub fn removed_through_version_of(&self, filter: &FileFilter) -> Option<u64> {
        Some(self.removed_through_version(&filter.one_file().filter(|key| filter.matches_key(key))?))
    }

    fn versions_seen(&self, key: &ConfigKey) -> Versions {
        self.versions.get(key).copied().unwrap_or_default()
    }

    // ---- reads of the management API ----

    pub fn group(&self, namespace: &str, group: &str) -> Option<&Arc<ConfigGroup>> {
        self.groups.get(namespace, group)
    }

    pub fn file(&self, key: &ConfigKey) -> Option<&Arc<ConfigFile>> {
        self.files.get(key)
    }

    pub fn release(&self, key: &ConfigKey, name: &str) -> Option<&Arc<ConfigRelease>> {
        self.releases.get(key, name)
    }

    /// Returns the active normal release of exactly this file.
    pub fn active_release(&self, key: &ConfigKey) -> Option<&Arc<ConfigRelease>> {
        self.active.normal(key)
    }

    /// Returns the other files of the group that clients find by the same lookups.
    pub fn twins(&self, key: &ConfigKey) -> impl Iterator<Item = &str> {
        self.active.twins(key)
    }

    /// Reports whether the file has an active gray release.
    pub fn has_gray(&self, key: &ConfigKey) -> bool {
        self.active_grays(key) > 0
    }

    /// Returns the number of active gray releases of the file.
    pub(super) fn active_grays(&self, key: &ConfigKey) -> usize {
        self.active.grays(key)
    }

    pub fn files_in_group(&self, namespace: &str, group: &str) -> impl Iterator<Item = &Arc<ConfigFile>> {
        let start = ConfigKey::new(namespace, group, "");
        let (namespace, group) = (start.namespace.clone(), start.group.clone());
        self.files.onward(&start).take_while(move |file| file.key.namespace == namespace && file.key.group == group)
    }

    pub fn file_count_in(&self, group: &ConfigGroup) -> usize {
        self.files_in_group(&group.namespace, &group.name).count()
    }

    /// Lists groups, newest change first, then by name.
    pub fn list_groups(&self, filter: &GroupFilter, page: &Page) -> Listed<Arc<ConfigGroup>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        let wanted = |group: &&Arc<ConfigGroup>| {
            filter.read_scope.sees(&group.namespace, &group.name)
                && NameFilter::passes(&filter.namespace, &group.namespace)
                && NameFilter::passes(&filter.name, &group.name)
                && filter
                    .business
                    .as_ref()
                    .is_none_or(|part| group.business.to_lowercase().contains(&part.to_lowercase()))
                && filter.department.as_ref().is_none_or(|department| group.department == *department)
        };
        cut_sorted(self.groups.values(None).filter(wanted).collect(), newest_first, page)
    }

    /// Returns the number of groups or files that [`Configs::list_groups`] and counts of files walk at most.
    pub fn reach_of_groups(&self) -> usize {
        self.groups.len().max(self.files.len())
    }

    /// Lists files, newest change first, then by key. If the filter names a group, only that is walked.
    pub fn list_files(&self, filter: &FileFilter, page: &Page) -> Listed<Arc<ConfigFile>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        let part = filter.content.as_deref().map(memmem::Finder::new);
        let has_part = |file: &ConfigFile| {
            part.as_ref().is_none_or(|part| !file.encrypted && part.find(file.content.as_bytes()).is_some())
        };
        if let Some((namespace, group)) = filter.one_group() {
            let wanted = |file: &&Arc<ConfigFile>| filter.matches_key(&file.key) && has_part(file);
            let of_group = self.files_in_group(namespace, group).filter(wanted);
            return cut_sorted(of_group.collect(), newest_first, page);
        }
        let text_filters =
            TextFilter::all([(FILE, &filter.file), (GROUP, &filter.group), (NAMESPACE, &filter.namespace)]);
        let wanted = |file: &ConfigFile| filter.read_scope.sees(&file.key.namespace, &file.key.group) && has_part(file);
        let wants_all = filter.read_scope.is_whole() && part.is_none();
        let listed = |page: &Page| self.files.list(&text_filters, (!wants_all).then_some(wanted), page);
        let is_wanted = |file: &Arc<ConfigFile>| filter.matches_key(&file.key) && has_part(file);
        let onward =
            |[namespace, group, file, _]: ListKey<'_>| self.files.onward(&ConfigKey::new(namespace, group, file));
        Listed::ordered(page, &filter.namespace, listed, onward, is_wanted)
    }

    /// Lists releases, newest change first, then by key and highest version. If the filter names a file, only its
    /// releases are walked.
    pub fn list_releases(&self, filter: &FileFilter, page: &Page) -> Listed<Arc<ConfigRelease>> {
        if filter.read_scope.is_blind() {
            return Listed::default();
        }
        let wanted = |release: &&Arc<ConfigRelease>| {
            (!filter.only_active || release.active) && NameFilter::passes(&filter.release, &release.name)
        };
        let matching = match filter.one_file() {
            Some(key) if filter.matches_key(&key) => self.releases.of(&key).filter(wanted).collect(),
            Some(_) => Vec::new(),
            None => self.releases.of_all(|key| filter.matches_key(key)).filter(wanted).collect(),
        };
        cut_sorted(matching, newest_release_first, page)
    }

    /// Returns the releases of one file, by name.
    pub(super) fn releases_of(&self, key: &ConfigKey) -> impl Iterator<Item = &Arc<ConfigRelease>> {
        self.releases.of(key)
    }

    /// Returns all releases of one file, highest version first.
    pub fn versions_of(&self, key: &ConfigKey) -> Vec<Arc<ConfigRelease>> {
        let mut all: Vec<_> = self.releases.of(key).cloned().collect();
        all.sort_by_key(|release| Reverse(release.version));
        all
    }

    pub fn has_groups_in(&self, namespace: &str) -> bool {
        self.groups.has_any_in(namespace)
    }

    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    pub fn release_count(&self) -> usize {
        self.releases.len()
    }

    /// Returns the number of different contents.
    pub fn content_count(&self) -> usize {
        self.contents.len()
    }

    /// Returns the bytes of the contents in memory: of drafts, of releases in force, and of those without a row of
    /// their own.
    pub fn content_bytes_in_memory(&self) -> usize {
        self.contents.bytes_in_memory()
    }

    /// Returns the number of drafts and releases with a sealed content.
    pub fn sealed_count(&self) -> usize {
        self.sealed.len()
    }

    /// Returns the number of those sealed under other data keys than the named ones.
    pub fn sealed_under_others<'a>(&self, keys: impl Iterator<Item = &'a str>) -> usize {
        self.sealed.under_others(keys)
    }

    // ---- retention ----

    /// Returns the files with more than `kept` inactive releases.
    pub(super) fn overfull(&self, kept: usize) -> impl Iterator<Item = &Arc<ConfigKey>> {
        self.releases.overfull(kept)
    }

    /// Returns the oldest inactive release of the file, if it has more than `kept`.
    pub(super) fn surplus(&self, key: &ConfigKey, kept: usize) -> Option<&Arc<ConfigRelease>> {
        self.releases.surplus(key, kept)
    }

    // ---- changes ----

    pub(super) fn put_group(&mut self, group: ConfigGroup, changes: &mut ChangeSet) -> Arc<ConfigGroup> {
        changes.put(&group);
        self.load_group(group)
    }

    pub(super) fn put_file(&mut self, mut file: ConfigFile, changes: &mut ChangeSet) -> Arc<ConfigFile> {
        file.content = self.contents.keep(true, &file.content, changes);
        changes.put(&file);
        let file = Arc::new(file);
        if let Some(old) = self.insert_file(file.clone()) {
            self.contents.let_go(&old.content, changes);
        }
        file
    }

    pub(super) fn remove_group(&mut self, group: &ConfigGroup, changes: &mut ChangeSet) {
        changes.delete(group);
        self.groups.remove(&group.namespace, &group.name);
    }

    pub(super) fn remove_file(&mut self, file: &ConfigFile, changes: &mut ChangeSet) {
        changes.delete(file);
        if let Some(old) = self.files.remove(&file.key) {
            self.sealed.remove(old.encrypted, self.contents.sealed_under(&old.content));
            self.contents.let_go(&old.content, changes);
        }
    }

    pub(super) fn put_release(&mut self, mut release: ConfigRelease, changes: &mut ChangeSet) -> Arc<ConfigRelease> {
        release.content = self.contents.keep(release.active, &release.content, changes);
        changes.put(&release);
        let (release, old) = self.insert_release(release);
        if let Some(old) = old {
            self.contents.let_go(&old.content, changes);
        }
        release
    }

    pub(super) fn remove_release(&mut self, release: &ConfigRelease, changes: &mut ChangeSet) {
        changes.delete(release);
        self.active.remove(release);
        if let Some(old) = self.releases.remove(&release.key, &release.name) {
            self.sealed.remove(old.encrypted, self.contents.sealed_under(&old.content));
            self.contents.let_go(&old.content, changes);
        }
    }

    /// Takes the next version of a file. All of its releases share one counter, which is never reused.
    ///
    /// In a cluster created from an earlier state ([`crate::catalog::rekey`]), the counter starts above all versions
    /// that the old cluster may have given to a file which that state lacks.
    pub(super) fn next_version(&mut self, key: &ConfigKey, changes: &mut ChangeSet) -> u64 {
        let floor = self.highest_version(&ConfigKey::default());
        let seen = self.versions_seen(key);
        self.put_versions(key, Versions { highest: seen.highest.max(floor) + 1, ..seen }, changes)
    }

    /// Records that retention removed releases up to this version.
    pub(super) fn removed_through(&mut self, key: &ConfigKey, version: u64, changes: &mut ChangeSet) {
        let seen = self.versions_seen(key);
        let removed_through = seen.removed_through.max(version);
        self.put_versions(key, Versions { removed_through, ..seen }, changes);
    }

    fn put_versions(&mut self, key: &ConfigKey, seen: Versions, changes: &mut ChangeSet) -> u64 {
        let Versions { highest, removed_through } = seen;
        let row = ConfigVersion { key: key.clone(), version: highest, removed_through, birth: String::new() };
        changes.put(&row);
        self.load_version(row);
        highest
    }

    /// Advances the notification id of `key` and wakes its waiters, because clients may see another content from now
    /// on.
    ///
    /// Ids stay below 2^31 because clients decode them as signed 32-bit numbers. At one publication a second this lasts
    /// 68 years; then the counter stops rather than wraps.
    pub(super) fn mark(&mut self, key: &ConfigKey, changes: &mut ChangeSet) {
        let notification_id = self.newest_notification_id.saturating_add(1).min(i32::MAX as u32);
        let row = ConfigMark { key: key.canonical(), notification_id };
        changes.put(&row);
        changes.changed(Change::Config(key.clone()));
        self.load_mark(row);
    }

    // ---- rows ----

    pub(super) fn load_group(&mut self, group: ConfigGroup) -> Arc<ConfigGroup> {
        let group = Arc::new(group);
        self.groups.insert(&group.namespace, &group.name, group.clone());
        group
    }

    /// Loads a file. If its content is not loaded yet, the file waits for it: rows are loaded in the order of their
    /// tables.
    pub(super) fn load_file(&mut self, mut file: ConfigFile) {
        match self.contents.share(true, &file.content) {
            Some(content) => {
                file.content = content;
                self.insert_file(Arc::new(file));
            }
            None => self.waiting.entry(*file.content.digest()).or_default().push(AwaitsContent::File(file)),
        }
    }

    pub(super) fn load_release(&mut self, mut release: ConfigRelease) {
        let holds = release.active || release.content.text().is_some();
        match self.contents.share(holds, &release.content) {
            Some(content) => {
                release.content = content;
                self.insert_release(release);
            }
            None => self.waiting.entry(*release.content.digest()).or_default().push(AwaitsContent::Release(release)),
        }
    }

    pub(super) fn load_content(&mut self, content: StoredContent) {
        let digest = self.contents.load(content);
        let Some(all) = self.waiting.remove(&digest) else { return };
        for waiting in all {
            match waiting {
                AwaitsContent::File(file) => self.load_file(file),
                AwaitsContent::Release(release) => self.load_release(release),
            }
        }
        self.contents.forget_text(&digest);
    }

    /// Refuses a state with missing contents.
    pub(super) fn check_loaded(&self) -> Result<(), Corrupt> {
        match self.waiting.keys().next() {
            Some(missing) => Err(Corrupt(format!("the content {missing:?} of a config file is missing"))),
            None => Ok(()),
        }
    }

    fn insert_file(&mut self, file: Arc<ConfigFile>) -> Option<Arc<ConfigFile>> {
        self.sealed.add(file.encrypted, self.contents.sealed_under(&file.content));
        let old = self.files.insert(file)?;
        self.sealed.remove(old.encrypted, self.contents.sealed_under(&old.content));
        Some(old)
    }

    fn insert_release(&mut self, release: ConfigRelease) -> (Arc<ConfigRelease>, Option<Arc<ConfigRelease>>) {
        let release = Arc::new(release);
        self.active.insert(&release);
        self.sealed.add(release.encrypted, self.contents.sealed_under(&release.content));
        let old = self.releases.insert(release.clone());
        if let Some(old) = &old {
            self.sealed.remove(old.encrypted, self.contents.sealed_under(&old.content));
        }
        (release, old)
    }

    pub(super) fn load_mark(&mut self, mark: ConfigMark) {
        self.newest_notification_id = self.newest_notification_id.max(mark.notification_id);
        self.marks.insert(Arc::new(mark.key), mark.notification_id);
    }

    pub(super) fn load_version(&mut self, version: ConfigVersion) {
        let ConfigVersion { key, version: highest, removed_through, birth } = version;
        if !birth.is_empty() {
            self.active.set_birth(&birth);
        }
        self.versions.insert(Arc::new(key), Versions { highest, removed_through });
    }
}
