//! Protocol variant of xDS as a state machine that maps requests to responses. It is pure: it never waits and reads no
//! clock. Each type has at most one response in flight.

use std::sync::Arc;

use super::View;
use super::stream_state::{StreamFault, StreamState};
use super::type_state::Now;
use crate::model::mesh::Dialect;
use crate::proto::envoy::config::core::v3::Node;

pub(super) trait ProtocolVariant: Send {
    type Request: Send;
    type Response: Send;
    const IS_DELTA: bool;

    fn new(dialect: Dialect, control_plane: Arc<str>) -> Self;

    fn state(&self) -> &StreamState;

    fn state_mut(&mut self) -> &mut StreamState;

    /// Returns the description of the client in its first request.
    fn node(request: &Self::Request) -> Option<&Node>;

    /// Returns the log index that the client has seen elsewhere, if the request contains one.
    fn named_index(&self, request: &Self::Request) -> Option<u64>;

    /// Drops the description of the client after it was read.
    fn forget_node(request: &mut Self::Request);

    /// Removes the versions from a request, because they belong to another cluster.
    fn forget_versions(request: &mut Self::Request);

    /// Processes a request.
    fn take(&mut self, request: Self::Request, view: &dyn View, now: Now) -> Result<(), StreamFault>;

    /// Returns the next response, or `None` if nothing is due, or everything due is in flight or waits.
    fn next(&mut self, view: &dyn View, now: Now) -> Option<Self::Response>;
}
