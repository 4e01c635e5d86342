//! Reasons for the end of a stream.

/// Reason for the end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client closed the stream.
    Closed,
    /// The stream reached its maximum age. The client reconnects, to any node.
    Aged,
    /// This node stops.
    Shutdown,
    /// The client has seen a log index that this node has not applied in time.
    Behind,
    /// This node was never ready.
    NotReady,
    /// The client exceeds a limit; the text is sent to it.
    TooMany(String),
    /// A request is invalid; the text is sent to the client.
    Invalid(String),
}

impl StreamEnd {
    /// Returns the label value used in metrics.
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
