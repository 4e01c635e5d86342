//! A client as its request identifies it.

use std::net::IpAddr;
use std::time::Duration;

use super::GRACE;
use crate::origin::Origin;

/// Client that makes a request.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Address as matched by gray releases.
    pub address: &'a str,
    /// User agent, truncated to [`limits::AGENT_BYTES_MAX`](crate::model::limits::AGENT_BYTES_MAX) when it is stored.
    pub agent: &'a str,
    /// Origin of the requests, independent of what the client claims. It pays for the entry.
    pub origin: Origin,
    /// Maximum time that the client waits for changes; zero for a plain pull.
    pub hold: Duration,
    /// Address of the connection, if the client may be known by that one too.
    pub connection: Option<IpAddr>,
    /// True if the request names the address.
    pub is_named: bool,
    /// True for an SDK of Polaris.
    pub is_polaris: bool,
}

impl Client<'_> {
    /// Returns the time for which the client counts as present after a contact. A plain pull does not change
    /// `before`.
    pub(super) fn stays(&self, before: Duration) -> Duration {
        if self.hold.is_zero() { before } else { self.hold + GRACE }
    }

    /// Reports whether the release of the client is inferred from a poll that names no address: its pulls may name one.
    pub(super) fn is_assumed(&self) -> bool {
        !self.hold.is_zero() && !self.is_named
    }

    /// Returns the address of the connection, if the client names another one.
    pub(super) fn other_address(&self) -> Option<IpAddr> {
        self.connection.filter(|connection| self.is_named && connection.to_string() != self.address)
    }
}
