//! A variant of xDS as a state machine: requests go in, responses come out, one of a type at a time. Pure: it waits for
//! nothing and asks no clock.

use std::sync::Arc;

use super::View;
use super::stream_state::{StreamFault, StreamState};
use super::type_state::Moment;
use crate::model::mesh::Dialect;
use crate::proto::envoy::config::core::v3::Node;

pub(super) trait ProtocolVariant: Send {
    type Request: Send;
    type Response: Send;
    const IS_DELTA: bool;

    fn new(dialect: Dialect, control_plane: Arc<str>) -> Self;

    fn books(&self) -> &StreamState;

    fn books_mut(&mut self) -> &mut StreamState;

    /// The client, as its first request describes it.
    fn node(request: &Self::Request) -> Option<&Node>;

    /// Log index that a client has seen elsewhere, if the request names one.
    fn named_index(&self, request: &Self::Request) -> Option<u64>;

    /// Drops the description of the client, which was read.
    fn forget_node(request: &mut Self::Request);

    /// Makes a request name no version any more: those that it names are of another cluster.
    fn forget_versions(request: &mut Self::Request);

    /// Takes a request.
    fn take(&mut self, request: Self::Request, view: &dyn View, moment: Moment) -> Result<(), StreamFault>;

    /// The next response; none if nothing is due, or all of it is under way or waits.
    fn next(&mut self, view: &dyn View, moment: Moment) -> Option<Self::Response>;
}
