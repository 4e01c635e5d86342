//! xDS without its transport: the resources that proxies and gRPC clients are sent, built from the state that this node
//! has applied.
//!
//! Resources are built from the catalog once and shared by all clients that get the same bytes ([`View`]). A stream
//! compares the resources that it sent with the current ones.
//!
//! A stream consists of a [`Client`] and a state machine for its protocol variant, SotW or delta, which maps requests
//! to responses without access to clocks or tasks. [`Session`] drives it and ends the stream with a [`StreamEnd`],
//! which the transport translates to a status.
//!
//! This module knows protocol buffers, but neither HTTP nor tonic.

mod absent;
mod applied;
mod cache;
mod client;
mod client_inputs;
mod delta;
mod end;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod json;
mod keys;
mod locality;
mod names;
mod protocol;
mod resources;
mod returning;
mod session;
mod sotw;
mod steps;
mod stream_state;
mod subscription;
mod subset;
#[cfg(any(test, feature = "fuzzing"))]
mod testing;
#[cfg(test)]
mod tests;
mod type_state;
mod variants;

use std::sync::Arc;

use tokio::sync::watch;

use crate::model::mesh::resource::{Resource, ResourceType, Resources};
use crate::reads::catch_up::Reached;

pub use applied::{AppliedChanges, AppliedState};
pub use cache::{CacheView, ResourceCache, Touched};
pub use client::{Client, Identity, Peer};
pub use end::StreamEnd;
pub use locality::Locality;
pub use session::{Context, Session};

/// Resources for one client at one moment.
pub trait View: Send {
    /// Returns the log index that the node had applied when the view was created.
    fn applied_index(&self) -> u64;

    /// Returns all resources of a wildcard subscription.
    fn all(&self, kind: ResourceType) -> Resources;

    /// Returns a resource by name, or `None` if it does not exist or the client may not see it.
    fn get(&self, kind: ResourceType, name: &str) -> Option<Arc<Resource>>;

    /// Returns the newest earlier version of the routes with this name for which `is_it` returns true.
    fn routes_before(&self, name: &str, is_it: &dyn Fn(&Resource) -> bool) -> Option<Arc<Resource>>;

    /// Returns a shared copy of a name if its resource has one. Builds nothing.
    fn shared_name(&self, kind: ResourceType, name: &str) -> Option<Arc<str>>;
}

/// Source of the resources on this node.
pub trait Source: Send + Sync + 'static {
    type View<'a>: View
    where
        Self: 'a;

    /// Returns false until the node was ready for the first time.
    fn is_ready(&self) -> bool;

    /// Returns a view of the current resources for a client.
    fn view<'a>(&'a self, client: &'a Client) -> Self::View<'a>;

    /// Returns a receiver for the change number. A new number means that views may differ.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Returns the changes after a number, or `None` if they are no longer known and anything may have changed.
    fn touched_since(&self, number: u64) -> Option<Vec<Arc<Touched>>>;

    /// Includes everything that this node has applied, without the usual delay for batching changes. A client therefore
    /// sees what was written on this node before it connected.
    fn catch_up(&self);

    /// Waits up to 2 s until the index is applied here or is known to belong to another cluster.
    fn reach(&self, index: u64) -> impl Future<Output = Reached> + Send;
}
