//! xDS below its door: what proxies and gRPC clients are sent of this node's own applied state.
//!
//! Resources are made from the catalog once for all clients that get the same bytes, and shared ([`View`]). A stream
//! compares what it sent with what there is.
//!
//! A stream is a [`Client`] and a state machine for its variant of the protocol, SotW or delta: requests go in,
//! responses come out, and neither knows time nor tasks. [`Session`] drives them, and ends a stream by a [`StreamEnd`]
//! that the door translates.
//!
//! Knows messages of protocol buffers and neither HTTP nor tonic.

mod absent;
mod cache;
mod client;
mod client_inputs;
mod delta;
mod end;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod json;
mod names;
mod protocol;
mod resources;
mod session;
mod sotw;
mod steps;
mod stream_state;
mod subscription;
#[cfg(any(test, feature = "fuzzing"))]
mod testing;
#[cfg(test)]
mod tests;
mod type_state;
mod variants;
mod view;

use std::sync::Arc;

use tokio::sync::watch;

use crate::model::mesh::resource::{Resource, ResourceType, Resources};
use crate::reads::catch_up::Reached;

pub use cache::{ResourceCache, Touched};
pub use client::{Client, Identity, Peer, Place};
pub use end::StreamEnd;
pub use session::{Context, Session};
pub use view::CacheView;

/// Resources for one client at one moment.
pub trait View: Send {
    /// Log index that the node had applied when the view was taken.
    fn applied_index(&self) -> u64;

    /// All resources of a wildcard subscription.
    fn all(&self, kind: ResourceType) -> Resources;

    /// A resource by name; none for one that is not there and for one that the client may not see.
    fn get(&self, kind: ResourceType, name: &str) -> Option<Arc<Resource>>;

    /// The newest routes of a name, among those of before, for which `is_it` holds.
    fn routes_before(&self, name: &str, is_it: &dyn Fn(&Resource) -> bool) -> Option<Arc<Resource>>;

    /// A copy of a name, if the resource of that name has one: nothing is made for it.
    fn shared_name(&self, kind: ResourceType, name: &str) -> Option<Arc<str>>;
}

/// Source of the resources of this node.
pub trait Source: Send + Sync + 'static {
    type View<'a>: View
    where
        Self: 'a;

    /// False until the node was ready for the first time.
    fn is_ready(&self) -> bool;

    /// Takes the resources for a client as they are now.
    fn view<'a>(&'a self, client: &'a Client) -> Self::View<'a>;

    /// Numbers changes: another number says that a view may show something else.
    fn changes(&self) -> watch::Receiver<u64>;

    /// The changes behind one of a number; none if they are not known any more, so anything may have changed.
    fn touched_since(&self, number: u64) -> Option<Vec<Arc<Touched>>>;

    /// Takes in what this node has applied, without the pause that gathers changes: what was written on this node
    /// before a client came is there for it.
    fn catch_up(&self);

    /// Waits until the index is applied here, for 2 s at most, or is known to be of another cluster.
    fn reach(&self, index: u64) -> impl Future<Output = Reached> + Send;
}
