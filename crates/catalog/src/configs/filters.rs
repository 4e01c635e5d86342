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

/// Filter of a list of files or their releases; an absent part matches all.
#[derive(Clone, Debug, Default)]
pub struct FileFilter {
    pub namespace: Option<NameFilter>,
    pub group: Option<NameFilter>,
    pub file: Option<NameFilter>,
    /// Part of the content; for files only, and never matched by encrypted ones.
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

    /// Returns the group, if the filter names exactly one.
    pub(super) fn one_group(&self) -> Option<(&str, &str)> {
        match (&self.namespace, &self.group) {
            (Some(NameFilter::Exact(namespace)), Some(NameFilter::Exact(group))) => Some((namespace, group)),
            _ => None,
        }
    }

    /// Returns the file, if the filter names exactly one.
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

/// Compares releases in the order of a list: newest change first, then by key and highest version.
pub(super) fn newest_release_first(one: &Arc<ConfigRelease>, other: &Arc<ConfigRelease>) -> Ordering {
    let newest_first = other.modified.time.cmp(&one.modified.time).then_with(|| one.key.cmp(&other.key));
    newest_first.then_with(|| other.version.cmp(&one.version))
}
