//! Releases of every thing of one kind (rules of a family, config files): by name; inactive ones also by version, to
//! find the oldest surplus without a search; planned ones also by their time.
//!
//! The number of inactive releases is indexed as well, so that retention finds the things with a surplus without
//! walking all of them.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::model::time::Timestamp;

/// Properties of a release that the archive needs. Versions of a thing are never reused.
pub(crate) trait Archived {
    /// Key of the thing that it is a release of.
    type Subject: Ord + ?Sized;

    fn thing(&self) -> Arc<Self::Subject>;
    fn name(&self) -> &str;
    fn version(&self) -> u64;
    fn is_active(&self) -> bool;
    /// Returns the planned time of its publication, if any.
    fn due(&self) -> Option<Timestamp>;
    /// Reports whether it is a staged rollout with steps left.
    fn is_rolling(&self) -> bool;
}

/// Releases of one thing.
#[derive(Debug, PartialEq)]
struct Releases<R> {
    by_name: OrdMap<Arc<str>, Arc<R>>,
    /// Inactive releases by version.
    inactive: OrdMap<u64, Arc<R>>,
}

/// Cheap: the maps are shared.
impl<R> Clone for Releases<R> {
    fn clone(&self) -> Self {
        Releases { by_name: self.by_name.clone(), inactive: self.inactive.clone() }
    }
}

impl<R> Default for Releases<R> {
    fn default() -> Self {
        Releases { by_name: OrdMap::new(), inactive: OrdMap::new() }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Archive<R: Archived> {
    things: OrdMap<Arc<R::Subject>, Releases<R>>,
    /// Things with more than one inactive release, ordered by their number of them. The limit is never lower than one.
    by_inactive: OrdSet<(usize, Arc<R::Subject>)>,
    /// Planned releases by their time.
    due: OrdSet<(Timestamp, Arc<R::Subject>, Arc<str>)>,
    /// Releases of staged rollouts.
    rolling: OrdSet<(Arc<R::Subject>, Arc<str>)>,
    len: usize,
}

/// Number of inactive releases up to which a thing has no surplus under any setting.
const NEVER_TOO_MANY: usize = 1;

/// Cheap: the maps are shared.
impl<R: Archived> Clone for Archive<R> {
    fn clone(&self) -> Self {
        Archive {
            things: self.things.clone(),
            by_inactive: self.by_inactive.clone(),
            due: self.due.clone(),
            rolling: self.rolling.clone(),
            len: self.len,
        }
    }
}

impl<R: Archived> Default for Archive<R> {
    fn default() -> Self {
        Archive {
            things: OrdMap::new(),
            by_inactive: OrdSet::new(),
            due: OrdSet::new(),
            rolling: OrdSet::new(),
            len: 0,
        }
    }
}

impl<R: Archived> Archive<R>
where
    Arc<R::Subject>: Default,
{
    /// Returns the number of releases.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn len_of(&self, thing: &R::Subject) -> usize {
        self.things.get(thing).map_or(0, |releases| releases.by_name.len())
    }

    pub(crate) fn get(&self, thing: &R::Subject, name: &str) -> Option<&Arc<R>> {
        self.things.get(thing)?.by_name.get(name)
    }

    /// Returns the releases of one thing, by name.
    pub(crate) fn of(&self, thing: &R::Subject) -> impl Iterator<Item = &Arc<R>> {
        self.things.get(thing).into_iter().flat_map(|releases| releases.by_name.values())
    }

    /// Returns the releases of all things that `wants` accepts.
    pub(crate) fn of_all<'a>(&'a self, wants: impl Fn(&R::Subject) -> bool + 'a) -> impl Iterator<Item = &'a Arc<R>> {
        self.things.iter().filter(move |(thing, _)| wants(thing)).flat_map(|(_, releases)| releases.by_name.values())
    }

    /// Returns the inactive release of a thing with the lowest version, if there are more than `kept`.
    pub(crate) fn surplus(&self, thing: &R::Subject, kept: usize) -> Option<&Arc<R>> {
        let inactive = &self.things.get(thing)?.inactive;
        (inactive.len() > kept).then(|| inactive.get_min().map(|(_, oldest)| oldest))?
    }

    /// Returns the things with more than `kept` inactive releases.
    pub(crate) fn overfull(&self, kept: usize) -> impl Iterator<Item = &Arc<R::Subject>> {
        let first: Arc<R::Subject> = Arc::default();
        self.by_inactive.range((kept.saturating_add(1), first)..).map(|(_, thing)| thing)
    }

    /// Returns the releases to be published by `now`: time, thing and release name of each.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, &Arc<R::Subject>, &Arc<str>)> {
        self.due.iter().take_while(move |(at, ..)| *at <= now).map(|(at, thing, name)| (*at, thing, name))
    }

    /// Returns the releases of staged rollouts.
    pub(crate) fn rolling(&self) -> impl Iterator<Item = &Arc<R>> {
        self.rolling.iter().filter_map(|(thing, name)| self.get(thing, name))
    }

    /// Inserts a release, and returns the earlier state that it replaces.
    pub(crate) fn insert(&mut self, release: Arc<R>) -> Option<Arc<R>> {
        let thing = release.thing();
        let releases = self.things.entry(thing.clone()).or_default();
        let before = releases.inactive.len();
        let old = releases.by_name.insert(release.name().into(), release.clone());
        match &old {
            Some(old) => drop(releases.inactive.remove(&old.version())),
            None => self.len += 1,
        }
        if let Some(at) = old.as_ref().and_then(|old| old.due()) {
            self.due.remove(&(at, thing.clone(), release.name().into()));
        }
        match release.is_rolling() {
            true => self.rolling.insert((thing.clone(), release.name().into())),
            false => self.rolling.remove(&(thing.clone(), release.name().into())),
        };
        if let Some(at) = release.due() {
            self.due.insert((at, thing.clone(), release.name().into()));
        } else if !release.is_active() {
            releases.inactive.insert(release.version(), release);
        }
        let after = releases.inactive.len();
        self.count(&thing, before, after);
        old
    }

    pub(crate) fn remove(&mut self, thing: &R::Subject, name: &str) -> Option<Arc<R>> {
        let releases = self.things.get_mut(thing)?;
        let before = releases.inactive.len();
        let old = releases.by_name.remove(name)?;
        releases.inactive.remove(&old.version());
        if let Some(at) = old.due() {
            self.due.remove(&(at, old.thing(), name.into()));
        }
        self.rolling.remove(&(old.thing(), name.into()));
        let after = releases.inactive.len();
        if releases.by_name.is_empty() {
            self.things.remove(thing);
        }
        self.len -= 1;
        self.count(&old.thing(), before, after);
        Some(old)
    }

    fn count(&mut self, thing: &Arc<R::Subject>, before: usize, after: usize) {
        if before == after {
            return;
        }
        if before > NEVER_TOO_MANY {
            self.by_inactive.remove(&(before, thing.clone()));
        }
        if after > NEVER_TOO_MANY {
            self.by_inactive.insert((after, thing.clone()));
        }
    }
}
