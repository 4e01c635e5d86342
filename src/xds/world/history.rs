//! History of changes: of each of the last ones, which services it was about.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::model::mesh::resource::ResourceType;
use crate::xds::names::ServiceName;

/// Changes, and services in them, that are remembered.
const CHANGES_MAX: usize = 1_000;
const SERVICES_MAX: usize = 100_000;

/// The last changes, by their numbers.
#[derive(Default)]
pub(crate) struct History {
    number: u64,
    /// The newest last.
    changes: VecDeque<Arc<[(ResourceType, ServiceName)]>>,
    services: usize,
    /// Of the next change it is not known what it is about.
    has_lost: bool,
}

impl History {
    /// One that begins anew behind a number, with a change of everything.
    pub(crate) fn after(number: u64) -> History {
        History { number: number + 1, ..History::default() }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// It is not known any more what was made from what.
    pub(crate) fn lose(&mut self) {
        self.has_lost = true;
    }

    pub(crate) fn add(&mut self, changed: Vec<(ResourceType, ServiceName)>) {
        self.number += 1;
        self.services += changed.len();
        self.changes.push_back(changed.into());
        if std::mem::take(&mut self.has_lost) {
            self.changes.clear();
            self.services = 0;
        }
        while self.changes.len() > CHANGES_MAX || self.services > SERVICES_MAX {
            let Some(oldest) = self.changes.pop_front() else { return };
            self.services -= oldest.len();
        }
    }

    /// Services of the changes behind a number; none if one of those is forgotten.
    pub(crate) fn since(&self, kind: ResourceType, number: u64) -> Option<BTreeSet<ServiceName>> {
        let behind = usize::try_from(self.number.checked_sub(number)?).ok()?;
        let known = self.changes.len().checked_sub(behind)?;
        let changed = self.changes.range(known..).flat_map(|changed| changed.iter());
        Some(changed.filter(|(of, _)| *of == kind).map(|(_, name)| name.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_not_told() {
        let name = |number: usize| ServiceName::new("shop", &number.to_string());
        let mut history = History::default();
        for number in 0..CHANGES_MAX + 10 {
            history.add(vec![(ResourceType::Cluster, name(number)), (ResourceType::Route, name(0))]);
        }
        let newest = history.number();
        let since = |number| history.since(ResourceType::Cluster, number).map(|found| found.len());
        assert_eq!((since(newest), since(newest - 2), since(newest + 1)), (Some(0), Some(2), None));
        assert_eq!((since(10), since(9)), (Some(CHANGES_MAX), None));
        let anew = History::after(newest);
        assert_eq!((anew.number(), anew.since(ResourceType::Cluster, newest)), (newest + 1, None));
        history.lose();
        assert_eq!(history.since(ResourceType::Cluster, newest).map(|found| found.len()), Some(0));
        history.add(Vec::new());
        assert_eq!(history.since(ResourceType::Cluster, newest), None);
        let mut large = History::default();
        large.add((0..=SERVICES_MAX).map(|number| (ResourceType::Cluster, name(number))).collect());
        assert_eq!((large.number(), large.since(ResourceType::Cluster, 0)), (1, None));
    }
}
