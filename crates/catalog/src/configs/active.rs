//! Config releases that clients see: for each file the newest active gray release whose labels all match the client,
//! otherwise the active normal one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use crate::model::audience::Judge;
use crate::model::config_file::{ConfigKey, ConfigRelease, PROPERTIES_SUFFIX, canonical_file, toggle_suffix};
use crate::model::config_lookup::{CLIENT_ADDRESS_LABEL, ClientLabels, Released};
use crate::model::release::ReleaseType;

/// Active releases of all files.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ActiveConfigs {
    /// Stored names with an active release, by canonical key.
    files: OrdMap<Arc<ConfigKey>, Arc<BTreeMap<String, ActiveFile>>>,
    /// Suffix of release keys, if the cluster was created from an earlier state.
    birth: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ActiveFile {
    normal: Option<Active>,
    /// Gray releases, highest version first.
    grays: Vec<Active>,
}

/// An active release, and the form of it that all config clients share.
#[derive(Clone, Debug)]
struct Active {
    release: Arc<ConfigRelease>,
    released: Arc<Released>,
    /// Selection of the clients of a gray release.
    judge: Judge,
}

impl Active {
    fn new(release: Arc<ConfigRelease>, birth: Option<&str>) -> Self {
        let ConfigKey { namespace, group, file } = &release.key;
        let content = release.content.clone();
        let released = Released::new(namespace, group, file, release.version, release.format, content);
        let released = if release.encrypted { released.sealed() } else { released };
        let released = Arc::new(match birth {
            Some(birth) => released.born(birth),
            None => released,
        });
        Active { release, released, judge: Judge::default() }
    }
}

/// Compares the releases only; the other fields are derived from them.
impl PartialEq for Active {
    fn eq(&self, other: &Self) -> bool {
        self.release == other.release
    }
}

impl ActiveFile {
    fn for_client(&self, client: &ClientLabels) -> Option<&Arc<Released>> {
        let mut grays = self.grays.iter();
        let gray = grays.find(|gray| gray.judge.admits(gray.release.audience(), |key| client.get(key)));
        gray.or(self.normal.as_ref()).map(|active| &active.released)
    }

    fn is_empty(&self) -> bool {
        self.normal.is_none() && self.grays.is_empty()
    }

    fn put(&mut self, active: Active) {
        match active.release.release_type {
            ReleaseType::Normal => self.normal = Some(active),
            ReleaseType::Gray => {
                self.grays.push(active);
                self.grays.sort_by_key(|gray| Reverse(gray.release.version));
            }
        }
    }

    fn take(&mut self, name: &str) {
        self.normal.take_if(|normal| normal.release.name == name);
        self.grays.retain(|gray| gray.release.name != name);
    }
}

impl super::Configs {
    /// Returns the release of a file with this version, if it is in force.
    pub fn in_force(&self, key: &ConfigKey, version: u64) -> Option<&Arc<Released>> {
        self.active.in_force(key, version)
    }

    /// Returns another file of the group that the same lookups would find if both were released: with or without the
    /// suffix of properties, or in lower case.
    pub fn twin_of_draft(&self, key: &ConfigKey) -> Option<String> {
        let small = canonical_file(&key.file);
        let names = [toggle_suffix(&key.file), format!("{small}{PROPERTIES_SUFFIX}"), small];
        let is_there = |name: &String| {
            let other = ConfigKey::new(key.namespace.as_str(), key.group.as_str(), name.as_str());
            *name != key.file && self.file(&other).is_some()
        };
        names.into_iter().find(is_there)
    }
}

impl ActiveConfigs {
    /// Finds the release of `file` in one step of a client's lookup: the name as given, then with `.properties` added
    /// or removed, then both ignoring case if one file matches.
    pub(super) fn find(
        &self,
        namespace: &str,
        group: &str,
        file: &str,
        client: &ClientLabels,
    ) -> Option<&Arc<Released>> {
        let names = self.files.get(&ConfigKey::new(namespace, group, canonical_file(file)))?;
        let named = |name: &str| names.get(name)?.for_client(client);
        if let Some(released) = named(file) {
            return Some(released);
        }
        let toggled = toggle_suffix(file);
        named(&toggled).or_else(|| {
            [file, &toggled].into_iter().find_map(|wanted| {
                let wanted = wanted.to_lowercase();
                let equal = names.iter().filter(|(name, _)| name.to_lowercase() == wanted);
                let mut seen = equal.filter_map(|(_, active)| active.for_client(client));
                let released = seen.next()?;
                seen.next().is_none().then_some(released)
            })
        })
    }

    /// Reports whether a gray release that this name may find selects clients by another label than their address.
    pub(super) fn asks_labels(&self, namespace: &str, group: &str, file: &str) -> bool {
        let names = self.files.get(&ConfigKey::new(namespace, group, canonical_file(file)));
        let mut grays = names.into_iter().flat_map(|names| names.values()).flat_map(|active| &active.grays);
        grays.any(|gray| gray.release.audience().keys().any(|key| key != CLIENT_ADDRESS_LABEL))
    }

    /// Returns the other files of the group that clients find by the same lookups.
    pub(super) fn twins(&self, key: &ConfigKey) -> impl Iterator<Item = &str> {
        let names = self.files.get(&key.canonical());
        names.into_iter().flat_map(|names| names.keys()).map(String::as_str).filter(|name| *name != key.file)
    }

    fn of_file(&self, key: &ConfigKey) -> Option<&ActiveFile> {
        self.files.get(&key.canonical())?.get(&key.file)
    }

    fn in_force(&self, key: &ConfigKey, version: u64) -> Option<&Arc<Released>> {
        let file = self.of_file(key)?;
        let mut all = file.grays.iter().chain(&file.normal);
        all.find(|active| active.release.version == version).map(|active| &active.released)
    }

    pub(super) fn normal(&self, key: &ConfigKey) -> Option<&Arc<ConfigRelease>> {
        self.of_file(key)?.normal.as_ref().map(|active| &active.release)
    }

    /// Returns the number of gray releases of a file in force.
    pub(super) fn grays(&self, key: &ConfigKey) -> usize {
        self.of_file(key).map_or(0, |active| active.grays.len())
    }

    /// Inserts a release, in place of its earlier state.
    pub(super) fn insert(&mut self, release: &Arc<ConfigRelease>) {
        self.remove(release);
        if release.active {
            let names = self.files.entry(Arc::new(release.key.canonical())).or_default();
            let file = Arc::make_mut(names).entry(release.key.file.clone()).or_default();
            file.put(Active::new(release.clone(), self.birth.as_deref()));
        }
    }

    /// Sets the suffix of release keys.
    pub(super) fn set_birth(&mut self, birth: &str) {
        self.birth = Some(birth.into());
        // At the first level, releases are loaded before this call.
        let files = self.files.values().flat_map(|names| names.values());
        let active = files.flat_map(|file| file.normal.iter().chain(&file.grays));
        let releases: Vec<_> = active.map(|active| active.release.clone()).collect();
        releases.iter().for_each(|release| self.insert(release));
    }

    /// Removes a release, if it is active.
    pub(super) fn remove(&mut self, release: &ConfigRelease) {
        let canonical = release.key.canonical();
        let Some(names) = self.files.get_mut(&canonical).map(Arc::make_mut) else { return };
        let Some(active) = names.get_mut(&release.key.file) else { return };
        active.take(&release.name);
        if active.is_empty() {
            names.remove(&release.key.file);
            if names.is_empty() {
                self.files.remove(&canonical);
            }
        }
    }
}
