//! Exported spans. Each is begun by one function of this module, under [`TARGET`].
//!
//! | span | begins when | ends when |
//! |---|---|---|
//! | for example `POST /naming/v1/services` | a request arrives ([`arrived`]) | its response is built |
//! | `raft propose` | the request proposes a command ([`proposing`]) | this node has applied it |
//! | `raft append` | the leader receives the draft of another node ([`appending`]) | a majority has it |
//! | `raft read index` | a read has to be linearizable ([`reading`]) | this node has applied far enough |
//!
//! The last three are recorded only within a recorded request.

use axum::http::{HeaderMap, StatusCode};
use opentelemetry::Context;
use opentelemetry::trace::{TraceContextExt, TraceState};
use tracing::field::Empty;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::identity::{remote, trace_id};
use super::pipeline::{Recorded, with_trace};
use super::{INNER_TARGET, TARGET, TraceParent, span_id};

/// Name in the semantic conventions for unknown methods.
const OTHER_METHOD: &str = "_OTHER";

/// Properties of a request on arrival.
pub(crate) struct RequestInfo<'a> {
    pub(crate) id: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// Method, if it is a known one.
    pub(crate) method: Option<&'static str>,
    /// Template of the route, if one matches.
    pub(crate) route: Option<&'a str>,
    /// Set if requests to this route are so numerous that they are traced only when the caller records a trace.
    pub(crate) is_frequent: bool,
}

/// Reports whether spans are exported. The decision was made when the process started, so this is cheap.
fn is_on() -> bool {
    tracing::span_enabled!(target: TARGET, Level::DEBUG)
}

/// Begins the span of a request, as a child of the caller's span. Returns a disabled span if it is not recorded.
pub(crate) fn arrived(arrival: &RequestInfo<'_>) -> Span {
    if !is_on() {
        return Span::none();
    }
    let caller = TraceParent::of(arrival.headers);
    if arrival.is_frequent && !caller.is_some_and(|caller| caller.is_sampled) {
        return Span::none();
    }
    let RequestInfo { id, route, .. } = *arrival;
    let trace = trace_id(id);
    let (parent, other) = match caller {
        Some(caller) if caller.trace_id == trace => (Some(caller), None),
        other => (None, other),
    };
    if !parent.map_or_else(|| Recorded::has(trace), |parent| parent.is_sampled) {
        return Span::none();
    }
    let method = arrival.method.unwrap_or(OTHER_METHOD);
    let span = tracing::debug_span!(
        target: TARGET,
        "request",
        "otel.name" = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}")),
        "otel.kind" = "server",
        "http.request.method" = method,
        "http.route" = route,
        "request.id" = id,
        "http.response.status_code" = Empty,
        "error.type" = Empty,
        "otel.status_code" = Empty,
    );
    let parent = match parent {
        Some(parent) => Context::new().with_remote_span_context(parent.context(arrival.headers)),
        None => Context::new(),
    };
    // Fails if only the log enabled the span.
    if span.set_parent(parent).is_ok() {
        if let Some(other) = other {
            span.add_link(other.context(arrival.headers));
        }
        with_trace(trace, || drop(span.context()));
    }
    span
}

/// Records the status of the response.
pub(crate) fn answered(span: &Span, status: StatusCode) {
    if span.is_disabled() {
        return;
    }
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("error.type", status.as_str());
        failed(span);
    }
}

/// Marks a span as failed.
pub(crate) fn failed(span: &Span) {
    span.record("otel.status_code", "error");
}

/// Reports whether a span begun here would have a parent. Without one the subscriber would store a span that no layer
/// uses.
fn is_within() -> bool {
    is_on() && !Span::current().is_disabled()
}

/// Begins the span of a command, from its proposal until it is applied on this node.
pub(crate) fn proposing() -> Span {
    if !is_within() {
        return Span::none();
    }
    tracing::debug_span!(target: INNER_TARGET, "raft propose", "otel.status_code" = Empty)
}

/// Begins the span of a read that waits until this node has applied every acknowledged write.
pub(crate) fn reading() -> Span {
    if !is_within() {
        return Span::none();
    }
    tracing::debug_span!(target: INNER_TARGET, "raft read index", "otel.status_code" = Empty)
}

/// Begins the leader's span for the draft of another node. `request_id` is called only if the request is recorded.
pub(crate) fn appending(draft_id: u128, request_id: impl FnOnce() -> Option<String>) -> Span {
    let parent = is_on().then(|| span_id::span_of(draft_id)).flatten();
    let named = parent.and_then(|parent| Some((parent, request_id()?)));
    let Some((parent, request_id)) = named else { return Span::none() };
    let span = tracing::debug_span!(
        target: TARGET,
        "raft append",
        "otel.kind" = "server",
        "request.id" = request_id.as_str(),
        "raft.log_index" = Empty,
        "otel.status_code" = Empty,
    );
    let parent = remote(trace_id(&request_id), parent, true, TraceState::NONE);
    let parent = Context::new().with_remote_span_context(parent);
    // Fails if only the log enabled the span.
    let _ = span.set_parent(parent);
    span
}

/// Records the log index of the draft.
pub(crate) fn appended(span: &Span, log_index: u64) {
    span.record("raft.log_index", i64::try_from(log_index).unwrap_or(i64::MAX));
}
