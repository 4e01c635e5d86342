//! State of the node that units are built from.

use std::sync::Arc;

use super::retired::RetiredSubsets;
use super::snapshot::{CatalogSnapshot, ChangeMask, LastModified};
use crate::model::mesh::Dialect;
use crate::model::rule::matching::ALL;
use crate::xds::client::Client;
use crate::xds::keys::{UnitKind, WildcardKey};
use crate::xds::names::ServiceName;

/// State of the node at one moment, and data derived from it. Immutable; a change replaces it.
#[derive(Clone)]
pub(crate) struct Generation {
    pub(crate) snapshot: Arc<CatalogSnapshot>,
    pub(crate) last_modified: Arc<LastModified>,
    pub(crate) retired: Arc<RetiredSubsets>,
    pub(crate) applied_index: u64,
    /// Number of the state.
    pub(crate) number: u64,
}

impl Generation {
    /// Returns the first state, without known changes.
    pub(super) fn first(snapshot: CatalogSnapshot, index: u64) -> Generation {
        Generation {
            snapshot: Arc::new(snapshot),
            last_modified: Arc::new(LastModified::since(index)),
            retired: Arc::default(),
            applied_index: index,
            number: 0,
        }
    }

    /// Returns the scope of a client: those of its namespaces that exist.
    pub(super) fn scope(
        &self,
        client: &Client,
        (kind, dialect): (UnitKind, Dialect),
        namespaces: Option<&Arc<[String]>>,
    ) -> WildcardKey {
        let is_there = |namespace: &String| {
            // An emptied namespace counts, because its emptiness is a change.
            self.snapshot.has_namespace(namespace)
                || self.last_modified.has(ChangeMask::MEMBERS, &ServiceName::new(namespace, ALL))
        };
        let namespaces = namespaces.map(|named| match named.iter().all(is_there) {
            true => named.clone(),
            false => named.iter().filter(|namespace| is_there(namespace)).cloned().collect(),
        });
        WildcardKey { kind, dialect, namespaces, read_scope: client.read_scope.clone() }
    }

    /// Returns the log index at which a service was last added to or removed from the scope.
    pub(super) fn last_membership_change(&self, key: &WildcardKey) -> u64 {
        let last_modified =
            |namespace: &str| self.last_modified.of(&ServiceName::new(namespace, ALL), ChangeMask::MEMBERS);
        match &key.namespaces {
            None => last_modified(ALL),
            Some(namespaces) => namespaces.iter().map(|namespace| last_modified(namespace)).max().unwrap_or_default(),
        }
    }
}
