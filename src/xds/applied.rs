//! Applied state of the node that resources are built from.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::catalog::{Catalog, Change};

/// Applied state of the node, with the changes that lead to it.
pub trait AppliedState: Send + Sync + 'static {
    /// Reports whether the node may serve resources.
    fn was_ready(&self) -> bool;

    /// Records changes from now on, until they are taken.
    fn follow(&self);

    /// Waits for a change; returns at once if one came since the last wait.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Returns the changes since the last call. Calls `read` with the catalog that contains exactly these changes and
    /// all earlier ones.
    fn take(&self, read: &mut dyn FnMut(&Catalog)) -> AppliedChanges;

    /// Returns the applied log index.
    fn index(&self) -> u64;

    /// Waits until the index is applied. Returns false if `limit` passes first.
    fn wait_for(&self, index: u64, limit: Duration) -> BoxFuture<'_, bool>;

    /// Waits until everything is applied that was committed in the cluster when the call began. Returns false if
    /// `limit` passes first.
    fn await_read_barrier(&self, limit: Duration) -> BoxFuture<'_, bool>;
}

/// Changes of the applied state.
pub struct AppliedChanges {
    /// Changes, each with the index of its log entry; `None` if they are unknown and anything may have changed.
    pub changes: Option<Vec<(u64, Change)>>,
    /// Log index up to which the catalog is applied.
    pub index: u64,
}
