//! Read-your-notifications: a node waits until it has applied the newest change that a client names, so no client steps
//! back.
//!
//! A client from another cluster, or from before a restore, may name a change that no node knows. It is served as if it
//! had named nothing.

use std::time::Duration;

use super::config_source::ConfigSource;
use crate::model::config_lookup::{Lookup, NamedRelease};

/// Longest wait for a change that a client names.
pub const CATCH_UP_LIMIT: Duration = Duration::from_secs(2);
/// More changes than a cluster makes while [`ConfigSource::was_at_horizon_lately`] is true.
const FAR: u64 = 1_000_000;

/// Origin of a change that a client names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// A change that is applied here.
    Here,
    /// A change that no node of this cluster made.
    Elsewhere,
    /// Undecided: there is no leader, or this node is too far from it.
    Unknown,
}

/// Waits until the named change has arrived, or until this node has caught up with the cluster without it.
pub async fn reach(
    is_here: impl Fn() -> bool,
    arrival: impl Future<Output = bool>,
    horizon: impl Future<Output = bool>,
) -> Reached {
    tokio::select! {
        biased;
        true = arrival => Reached::Here,
        true = horizon => if is_here() { Reached::Here } else { Reached::Elsewhere },
        else => Reached::Unknown,
    }
}

/// Newest change that a config client knows: a notification id, and a release of the requested file.
pub(super) struct Newest<'a, S> {
    pub source: &'a S,
    pub id: u32,
    pub release: Option<(&'a Lookup, NamedRelease<'a>)>,
}

impl<S: ConfigSource> Newest<'_, S> {
    /// Returns where the change is from, if this can be decided without asking other nodes.
    pub(super) fn place(&self) -> Option<Reached> {
        let ahead = self.ahead(self.source.newest_id());
        if ahead == [0, 0] {
            return Some(Reached::Here);
        }
        // If either is near, it is waited for, however far ahead the other is.
        let is_far = ahead.iter().all(|ahead| *ahead == 0 || *ahead > FAR);
        (is_far && self.source.was_at_horizon_lately()).then_some(Reached::Elsewhere)
    }

    /// Waits until the change has arrived or is known to be foreign.
    pub(super) async fn reach(&self) -> Reached {
        let is_here = |newest_id: u32| self.ahead(newest_id) == [0, 0];
        let arrival = self.source.wait_applied(CATCH_UP_LIMIT, is_here);
        reach(|| is_here(self.source.newest_id()), arrival, self.source.await_horizon(CATCH_UP_LIMIT)).await
    }

    /// Returns the number of changes, and of versions of the file, by which the client is ahead of this node.
    fn ahead(&self, newest_id: u32) -> [u64; 2] {
        let versions = self.release.map_or(0, |(lookup, named)| {
            let here = self.source.highest_version(named.namespace, &lookup.group, named.file);
            named.version.saturating_sub(here)
        });
        [self.id.saturating_sub(newest_id).into(), versions]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::model::config_lookup::ClientLabels;
    use crate::reads::testing::Fake;
    use crate::watch::Hub;

    #[tokio::test(start_paused = true)]
    async fn what_is_named_is_waited_for_or_of_another_cluster() {
        let source = Fake::new(Hub::new(10));
        source.publish("default", "application", "a=1");
        let newest = |id: u32| Newest { source: &source, id, release: None };
        assert_eq!(
            (newest(0).place(), newest(1).place(), newest(2).place()),
            (Some(Reached::Here), Some(Reached::Here), None)
        );
        assert_eq!(newest(2).reach().await, Reached::Unknown, "there is no leader");
        *source.0.leader.lock() = Some(1);
        assert_eq!(newest(2).reach().await, Reached::Elsewhere);
        *source.0.leader.lock() = Some(2);
        let newest_of_all = newest(2);
        let reached = newest_of_all.reach();
        let publish = async { source.publish("default", "application", "a=2") };
        assert_eq!(tokio::join!(reached, publish).0, Reached::Here);
    }

    #[tokio::test]
    async fn what_is_far_is_of_another_cluster_at_once_where_the_node_was_at_the_horizon() {
        let source = Fake::new(Hub::new(10));
        let newest = Newest { source: &source, id: u32::MAX, release: None };
        assert_eq!(newest.place(), None);
        source.0.is_at_horizon.store(true, Ordering::Relaxed);
        assert_eq!(newest.place(), Some(Reached::Elsewhere));
        assert_eq!(Newest { id: 2, ..newest }.place(), None, "it is near");
        let (namespaces, client) = (vec!["default".into()], ClientLabels::default());
        let lookup = Lookup { group: "app".into(), namespaces, file: "a".into(), client };
        for (id, version, expected) in [
            (0, 0, Some(Reached::Here)),
            (0, u64::MAX, Some(Reached::Elsewhere)),
            (u32::MAX, u64::MAX, Some(Reached::Elsewhere)),
            (u32::MAX, 1, None),
            (1, u64::MAX, None),
        ] {
            let release = Some((&lookup, NamedRelease { namespace: "default", file: "a", version }));
            assert_eq!(Newest { source: &source, id, release }.place(), expected, "{id} {version}");
        }
    }
}
