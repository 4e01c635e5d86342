//! Config releases that clients see: of each file the newest active gray whose labels all match the client, else the
//! active normal one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use crate::model::audience::Judge;
use crate::model::config_file::{ConfigKey, ConfigRelease, PROPERTIES_SUFFIX, canonical_file, toggle_suffix};
use crate::model::config_lookup::{CLIENT_ADDRESS_LABEL, ClientLabels, Released};
use crate::model::release::ReleaseType;

/// The active releases of all files.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ActiveConfigs {
    /// Canonical key to the stored names that have an active release.
    files: OrdMap<Arc<ConfigKey>, Arc<BTreeMap<String, ActiveFile>>>,
    /// The end of release keys, where the cluster was made of an earlier state.
    birth: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ActiveFile {
    normal: Option<Active>,
    /// Highest version first.
    grays: Vec<Active>,
}

/// An active release, and the form of it that config clients share.
#[derive(Clone, Debug)]
struct Active {
    release: Arc<ConfigRelease>,
    released: Arc<Released>,
    /// Judge of the clients that it is for, if it is gray.
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

/// Compares the releases alone: the rest is derived from them.
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
    /// The release of a file with this version, if clients may see it.
    pub fn in_force(&self, key: &ConfigKey, version: u64) -> Option<&Arc<Released>> {
        self.active.in_force(key, version)
    }

    /// Another file of the group that clients would see by the same lookups, were both released: with the suffix of
    /// properties or without it, or in small letters.
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
    /// The release that a client finds under `file` in one step of its lookup: the name as given,
    /// then with `.properties` added or taken off, then both without regard to case if that leaves
    /// one file.
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

    /// True if a gray release of one of the files that may be found under that name is for clients by another label
    /// than their address.
    pub(super) fn asks_labels(&self, namespace: &str, group: &str, file: &str) -> bool {
        let names = self.files.get(&ConfigKey::new(namespace, group, canonical_file(file)));
        let mut grays = names.into_iter().flat_map(|names| names.values()).flat_map(|active| &active.grays);
        grays.any(|gray| gray.release.audience().keys().any(|key| key != CLIENT_ADDRESS_LABEL))
    }

    /// Other files of the group that clients see by the same lookups.
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

    /// Number of gray releases of a file that clients may see.
    pub(super) fn grays(&self, key: &ConfigKey) -> usize {
        self.of_file(key).map_or(0, |active| active.grays.len())
    }

    /// Takes a release in, in place of an earlier state of it.
    pub(super) fn insert(&mut self, release: &Arc<ConfigRelease>) {
        self.remove(release);
        if release.active {
            let names = self.files.entry(Arc::new(release.key.canonical())).or_default();
            let file = Arc::make_mut(names).entry(release.key.file.clone()).or_default();
            file.put(Active::new(release.clone(), self.birth.as_deref()));
        }
    }

    /// Release keys end in this from here on.
    pub(super) fn set_birth(&mut self, birth: &str) {
        self.birth = Some(birth.into());
        // At the first level releases are loaded before this.
        let files = self.files.values().flat_map(|names| names.values());
        let active = files.flat_map(|file| file.normal.iter().chain(&file.grays));
        let releases: Vec<_> = active.map(|active| active.release.clone()).collect();
        releases.iter().for_each(|release| self.insert(release));
    }

    /// Takes a release out, if it is here.
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
