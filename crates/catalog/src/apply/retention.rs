//! Retention: of the inactive releases of a rule or config file, the newest are kept, up to the number in the settings.
//! Active releases are never removed.
//!
//! A change that makes a release inactive removes the surplus, usually one release. If the setting was lowered, or is
//! newer than the cluster, there can be thousands; no entry removes more than [`limits::PRUNED_RELEASES_MAX`]. The
//! leader proposes the removal of the rest in pieces.

use serde::{Deserialize, Serialize};

use super::change::Outcome;
use crate::catalog::Catalog;
use crate::catalog::ctx::Apply;
use crate::model::config_file::ConfigKey;
use crate::model::limits;
use crate::model::rule::Family;

/// Largest number of releases that a change of one thing removes; a full batch then stays within the limit per entry.
const PER_CHANGE_MAX: usize = limits::PRUNED_RELEASES_MAX / limits::BATCH_ITEMS_MAX;

/// Things with more inactive releases than the settings allow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overfull {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ConfigKey>,
    /// Rules by family and id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<(Family, String)>,
}

impl Overfull {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.rules.is_empty()
    }
}

impl Catalog {
    /// Returns the number of inactive releases to keep per thing.
    fn releases_kept(&self) -> usize {
        usize::try_from(self.settings.releases_kept).unwrap_or(usize::MAX)
    }

    /// Returns things to be pruned next, up to [`limits::PRUNED_THINGS_MAX`] of each kind.
    pub fn overfull(&self) -> Overfull {
        let kept = self.releases_kept();
        let files =
            self.configs.overfull(kept).take(limits::PRUNED_THINGS_MAX).map(|key| ConfigKey::clone(key)).collect();
        let rules = Family::ALL.iter().flat_map(|family| {
            let of_family = self.rules.of(*family).overfull(kept);
            of_family.map(|id| (*family, id.to_string()))
        });
        Overfull { files, rules: rules.take(limits::PRUNED_THINGS_MAX).collect() }
    }
}

impl Apply<'_> {
    /// Prunes a file after one of its releases may have become inactive.
    pub(super) fn retain_config_releases(&mut self, key: &ConfigKey) {
        self.prune_file(key, PER_CHANGE_MAX);
    }

    /// Prunes a rule after one of its releases may have become inactive.
    pub(super) fn retain_rule_releases(&mut self, family: Family, rule_id: &str) {
        self.prune_rule(family, rule_id, PER_CHANGE_MAX);
    }

    /// Prunes the named things. They may have changed since; only their present surplus is removed.
    pub(super) fn prune(&mut self, overfull: &Overfull) -> Outcome {
        let mut left = limits::PRUNED_RELEASES_MAX;
        for key in &overfull.files {
            left -= self.prune_file(key, left);
        }
        for (family, rule_id) in &overfull.rules {
            left -= self.prune_rule(*family, rule_id, left);
        }
        Outcome::default()
    }

    /// Removes surplus releases, the oldest first, and returns their number.
    fn prune_file(&mut self, key: &ConfigKey, at_most: usize) -> usize {
        let (kept, mut removed, mut through) = (self.catalog.releases_kept(), 0, 0);
        while removed < at_most
            && let Some(oldest) = self.catalog.configs.surplus(key, kept).cloned()
        {
            self.catalog.configs.remove_release(&oldest, self.changes);
            (removed, through) = (removed + 1, oldest.version);
        }
        if removed > 0 {
            self.catalog.configs.removed_through(key, through, self.changes);
        }
        removed
    }

    fn prune_rule(&mut self, family: Family, rule_id: &str, at_most: usize) -> usize {
        let (kept, mut removed, mut through) = (self.catalog.releases_kept(), 0, 0);
        let book = self.catalog.rules.of_mut(family);
        while removed < at_most
            && let Some(oldest) = book.surplus(rule_id, kept).cloned()
        {
            book.remove_release(&oldest, self.changes);
            (removed, through) = (removed + 1, oldest.version);
        }
        if removed > 0 {
            book.removed_through(rule_id, through, self.changes);
        }
        removed
    }
}
