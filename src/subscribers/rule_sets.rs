//! Interned sets of rule versions. Clients that were sent the same rules share one list in memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::model::rule::release::RuleRelease;

type RuleVersions = [(Box<str>, u64)];

/// Ids of rules with their versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleSet(Arc<RuleVersions>);

impl Deref for RuleSet {
    type Target = RuleVersions;

    fn deref(&self) -> &RuleVersions {
        &self.0
    }
}

impl RuleSet {
    pub(super) fn is_of(&self, releases: &[Arc<RuleRelease>]) -> bool {
        let is_of = |((id, version), release): (&(Box<str>, u64), &Arc<RuleRelease>)| {
            **id == *release.rule.id && *version == release.version
        };
        self.len() == releases.len() && self.iter().zip(releases).all(is_of)
    }

    /// Returns the bytes of the set, or 0 if it is shared.
    pub(super) fn bytes_if_alone(&self) -> usize {
        let row = |(id, _): &(Box<str>, u64)| size_of::<(Box<str>, u64)>() + size_of::<[usize; 2]>() + id.len();
        if Arc::strong_count(&self.0) == 1 { self.iter().map(row).sum() } else { 0 }
    }
}

/// All sets that some client still has.
#[derive(Default)]
pub(super) struct RuleSets {
    hashing: RandomState,
    known: Mutex<HashMap<u64, Weak<RuleVersions>>>, // bound: clients
}

impl RuleSets {
    pub(super) fn of(&self, releases: &[Arc<RuleRelease>]) -> RuleSet {
        let rows = releases.iter().map(|release| (release.rule.id.as_str(), release.version));
        let hash = self.hashing.hash_one(rows.clone().collect::<Vec<_>>());
        let mut known = self.known.lock();
        let shared = known.get(&hash).and_then(Weak::upgrade).map(RuleSet).filter(|set| set.is_of(releases));
        shared.unwrap_or_else(|| {
            let made: Arc<RuleVersions> = rows.map(|(id, version)| (id.into(), version)).collect();
            known.insert(hash, Arc::downgrade(&made));
            RuleSet(made)
        })
    }

    /// Removes sets that are no longer used.
    pub(super) fn sweep(&self) {
        self.known.lock().retain(|_, set| set.strong_count() > 0);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.lock().len()
    }
}
