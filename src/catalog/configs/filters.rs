//! Filters and orders of the lists of the configuration store.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::catalog::page::{ListKey, Placed, place_of};
use crate::model::config_file::{ConfigFile, ConfigGroup, ConfigKey, ConfigRelease};
use crate::model::grant::ReadScope;
use crate::model::text::NameFilter;

/// Filter of a list of groups; an absent part matches all.
#[derive(Clone, Debug, Default)]
pub struct GroupFilter {
    pub namespace: Option<NameFilter>,
    pub name: Option<NameFilter>,
    pub business: Option<String>,
    pub department: Option<String>,
    /// Groups that the caller may see.
    pub read_scope: ReadScope,
}

/// Filter of a list of files, or of the releases of files; an absent part matches all.
#[derive(Clone, Debug, Default)]
pub struct FileFilter {
    pub namespace: Option<NameFilter>,
    pub group: Option<NameFilter>,
    pub file: Option<NameFilter>,
    /// A part of the content; of files alone, and never of one that is kept encrypted.
    pub content: Option<String>,
    pub release: Option<NameFilter>,
    pub only_active: bool,
    /// Groups that the caller may see.
    pub read_scope: ReadScope,
}

impl FileFilter {
    pub(super) fn matches_key(&self, key: &ConfigKey) -> bool {
        NameFilter::passes(&self.namespace, &key.namespace)
            && NameFilter::passes(&self.group, &key.group)
            && NameFilter::passes(&self.file, &key.file)
            && self.read_scope.sees(&key.namespace, &key.group)
    }

    /// The group whose files alone are wanted.
    pub(super) fn one_group(&self) -> Option<(&str, &str)> {
        match (&self.namespace, &self.group) {
            (Some(NameFilter::Exact(namespace)), Some(NameFilter::Exact(group))) => Some((namespace, group)),
            _ => None,
        }
    }

    /// The file whose releases alone are wanted.
    pub(super) fn one_file(&self) -> Option<ConfigKey> {
        match (self.one_group(), &self.file) {
            (Some((namespace, group)), Some(NameFilter::Exact(file))) => Some(ConfigKey::new(namespace, group, file)),
            _ => None,
        }
    }
}

impl Placed for ConfigGroup {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.namespace, "", &self.name])
    }
}

impl Placed for ConfigFile {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.key.namespace, &self.key.group, &self.key.file])
    }
}

impl Placed for ConfigRelease {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.key.namespace, &self.key.group, &self.key.file, &self.name])
    }
}

/// The order of a list of files: newest change first, then by key.
pub(super) fn newest_file_first(one: &Arc<ConfigFile>, other: &Arc<ConfigFile>) -> Ordering {
    other.modified.time.cmp(&one.modified.time).then_with(|| one.key.cmp(&other.key))
}

/// The order of a list of releases: newest change first, then by key and highest version.
pub(super) fn newest_release_first(one: &Arc<ConfigRelease>, other: &Arc<ConfigRelease>) -> Ordering {
    let newest_first = other.modified.time.cmp(&one.modified.time).then_with(|| one.key.cmp(&other.key));
    newest_first.then_with(|| other.version.cmp(&one.version))
}
