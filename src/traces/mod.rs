//! Traces for an OpenTelemetry collector, enabled by `--otlp-endpoint`: the result of a request, where it waited, and
//! on which nodes.
//!
//! The id of a request ([`crate::request_id`]) is the id of its trace ([`identity`]), so the id in a response, the log
//! or the audit trail leads to the trace. Spans are created by `tracing` under one [`TARGET`], which only a layer of
//! the subscriber receives ([`spans`]). Their content is fixed at build time, except for the request id, the caller's
//! trace state ([`state`]) and numbers: there are no paths, queries, names, contents or secrets.
//!
//! Nodes exchange no additional data for traces. A draft that is forwarded to the leader contains the id of its HTTP
//! request and a random id of its own; for a recorded request the latter includes the id of the proposing span
//! ([`span_id`]). The leader's span thus has its parent, and is recorded exactly if the parent is, independent of the
//! leader's settings.
//!
//! Ended spans wait in a bounded queue, and one task sends them in batches ([`pipeline`], [`shipping`]). Ending a span
//! never waits: without room it is dropped and counted. The authorities for an `https` collector and the headers sent
//! to it ([`headers`]) are in files that are re-read periodically ([`collector`]).
//!
//! Without the flag there is no layer, and a place that would begin a span only reads a flag in memory. This module
//! knows nothing of Raft, the APIs or stored data.

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

/// Target of exported spans. No module name begins with it, so it does not match the targets of log lines.
const TARGET: &str = "thuban::otlp";
/// Target of spans that are exported only within an exported span.
const INNER_TARGET: &str = "thuban::otlp::inner";
