//! Traces for a collector of OpenTelemetry, behind `--otlp-endpoint`: what became of a request, where it waited, and
//! on which nodes.
//!
//! The id of a request ([`crate::request_id`]) is the id of its trace ([`identity`]), so that who has the one, from an
//! answer, the log or the audit trail, finds the other. Spans are made by `tracing` under one [`TARGET`], which a layer
//! of the subscriber takes and nothing else by default ([`spans`]); what they hold is known at build time but for the
//! id of the request, what a caller says of its own trace ([`state`]), and numbers: no path, query, name, content or
//! secret.
//!
//! Between nodes nothing is sent for it. A draft that a node forwards to the leader brings the id of its HTTP request,
//! and an id of its own that is drawn by chance; for a traced request the id of the span that proposes it is a part of
//! that ([`span_id`]). So the leader's span has its parent, and is recorded exactly if that is, whatever the settings
//! say.
//!
//! What has ended waits in a queue of bounded size and is sent in batches by one task ([`pipeline`], [`shipping`]).
//! Whoever ends a span waits for nothing: where there is no room, it is dropped and counted. The authorities of an
//! `https` collector, and what is shown to it ([`headers`]), stand in files that are read again as they may have
//! changed ([`collector`]).
//!
//! Without the flag there is no layer, so that each place where a span would begin costs one look at a flag in memory.
//! Knows nothing of Raft, of the surfaces, or of what is stored.

mod collector;
mod headers;
mod identity;
mod pipeline;
mod shipping;
mod span_id;
mod spans;
mod state;

pub(crate) use headers::read as read_headers;
pub(crate) use identity::TraceParent;
pub use pipeline::{Pipeline, TraceSettings};
pub(crate) use span_id::draft_id;
pub(crate) use spans::{RequestInfo, answered, appended, appending, arrived, failed, proposing, reading};

/// The target of spans that are sent, and of nothing else: no module's name begins with it, as those do that are the
/// targets of what the log is told.
const TARGET: &str = "thuban::otlp";
/// The same of those that are sent only within another one, which is.
const INNER_TARGET: &str = "thuban::otlp::inner";
