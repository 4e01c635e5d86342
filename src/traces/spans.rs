//! The spans that are sent, each begun by one function here, under [`TARGET`].
//!
//! | span | begins where | ends when |
//! |---|---|---|
//! | `POST /naming/v1/services`, say | a request comes in ([`arrived`]) | its answer is made |
//! | `raft propose` | it proposes a command ([`proposing`]) | this node has applied it |
//! | `raft append` | the leader takes the draft of another node ([`appending`]) | a majority has it |
//! | `raft read index` | a read has to be linearizable ([`reading`]) | this node has applied as far |
//!
//! The last three are recorded only within a request that is.

use axum::http::{HeaderMap, StatusCode};
use opentelemetry::Context;
use opentelemetry::trace::{TraceContextExt, TraceState};
use tracing::field::Empty;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::identity::{remote, trace_id};
use super::pipeline::{Recorded, with_trace};
use super::{INNER_TARGET, TARGET, TraceParent, span_id};

/// The word of the semantic conventions for a method that somebody invented.
const OTHER_METHOD: &str = "_OTHER";

/// A request as it comes in.
pub(crate) struct RequestInfo<'a> {
    pub(crate) id: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// One of those that there are.
    pub(crate) method: Option<&'static str>,
    /// The template of the route, for one that there is.
    pub(crate) route: Option<&'a str>,
    /// It comes in such numbers, or so regularly, that it is traced only where its caller records a trace.
    pub(crate) is_frequent: bool,
}

/// True if spans are taken: a look at what was decided when the process started.
fn is_on() -> bool {
    tracing::span_enabled!(target: TARGET, Level::DEBUG)
}

/// The span of a request, whose parent is what its caller names; disabled where nothing is recorded of it.
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
    // Refused where the log alone has asked for spans.
    if span.set_parent(parent).is_ok() {
        if let Some(other) = other {
            span.add_link(other.context(arrival.headers));
        }
        with_trace(trace, || drop(span.context()));
    }
    span
}

/// The answer to a request is made.
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

/// Marks a span: the operation that it is about could not be done.
pub(crate) fn failed(span: &Span) {
    span.record("otel.status_code", "error");
}

/// True if a span begun here would be within another: without one the subscriber would keep what no layer of it takes.
fn is_within() -> bool {
    is_on() && !Span::current().is_disabled()
}

/// A command on its way into the log, and until it is applied here.
pub(crate) fn proposing() -> Span {
    if !is_within() {
        return Span::none();
    }
    tracing::debug_span!(target: INNER_TARGET, "raft propose", "otel.status_code" = Empty)
}

/// A read waits until this node has what was acknowledged before.
pub(crate) fn reading() -> Span {
    if !is_within() {
        return Span::none();
    }
    tracing::debug_span!(target: INNER_TARGET, "raft read index", "otel.status_code" = Empty)
}

/// The leader carries out the draft of another node, for the request that is named in it, which is asked for where
/// that is recorded.
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
    // Refused where the log alone has asked for spans.
    let _ = span.set_parent(parent);
    span
}

/// The draft is in the log at this index.
pub(crate) fn appended(span: &Span, log_index: u64) {
    span.record("raft.log_index", i64::try_from(log_index).unwrap_or(i64::MAX));
}
