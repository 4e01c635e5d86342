//! Reasons why streams end.

/// Reason why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
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

impl StreamEnd {
    /// The word for it in metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            StreamEnd::Closed => "closed",
            StreamEnd::Aged => "aged",
            StreamEnd::Shutdown => "shutdown",
            StreamEnd::Behind => "behind",
            StreamEnd::NotReady => "not_ready",
            StreamEnd::TooMany(_) => "too_many",
            StreamEnd::Invalid(_) => "invalid",
        }
    }
}
