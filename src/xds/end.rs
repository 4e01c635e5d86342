//! Reasons why streams end.

/// Reason why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The client is gone.
    Closed,
    /// It is as old as a stream may get: the client comes back, to any node.
    Aged,
    /// This node stops.
    Shutdown,
    /// The client has seen a state that this node does not have yet.
    Behind,
    /// This node was not ready yet, ever.
    NotReady,
    /// The client asks for more than it may, in words for it.
    TooMany(String),
    /// A request makes no sense, in words for the client.
    Invalid(String),
}

impl End {
    /// The word for it in metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            End::Closed => "closed",
            End::Aged => "aged",
            End::Shutdown => "shutdown",
            End::Behind => "behind",
            End::NotReady => "not_ready",
            End::TooMany(_) => "too_many",
            End::Invalid(_) => "invalid",
        }
    }
}
