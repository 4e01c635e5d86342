//! Pipeline from spans of `tracing` to the export queue. It is created at the start of the process and closed at its
//! end.
//!
//! `tracing_opentelemetry` converts the spans of `tracing` to those of OpenTelemetry. The code that begins a span
//! without a parent sets its trace for that moment ([`with_trace`]). A span that is not recorded is never created: the
//! decision for a trace is made before its first span ([`Recorded`]), and inner spans are created only within a
//! recorded one. Work without a request is therefore not recorded.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use opentelemetry::trace::{Link, SpanId, SpanKind, TraceId, TraceState, TracerProvider};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, Sampler, SamplingDecision, SamplingResult, SdkTracerProvider, ShouldSample, Span,
    SpanData, SpanLimits, SpanProcessor,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber, dispatcher};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{self, Filter};
use tracing_subscriber::registry::LookupSpan;
use url::Url;

use super::collector::Collector;
use super::shipping::{BATCH_SPANS_MAX, Counts, Shipping};
use super::{INNER_TARGET, TARGET};
use crate::metrics::Metrics;
use crate::tasks;

/// Maximum number of ended spans that wait: some seconds of a busy node, and a few megabytes.
const QUEUE_SPANS_MAX: usize = 8 * BATCH_SPANS_MAX;
/// Time limit for sending the remaining spans at the end of the process.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// Settings of traces: sampling, and the collector.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// URL that batches are posted to.
    pub url: Url,
    /// Share of traces, 0 to 1, that are recorded if the caller made no decision.
    pub share: f64,
    /// File of the authorities for an `https` collector; none for those of the system.
    pub ca_file: Option<PathBuf>,
    /// File of additional headers, see [`super::headers`].
    pub headers_file: Option<PathBuf>,
    /// Set if batches are compressed with gzip.
    pub is_compressed: bool,
}

/// Pipeline that exports the spans of this process.
pub struct Pipeline {
    provider: SdkTracerProvider,
    recorded: Recorded,
    counts: Counts,
    closing: CancellationToken,
    shipping: JoinHandle<()>,
}

impl Pipeline {
    /// Starts the pipeline; must be called within a runtime. Never fails: problems with the collector are logged once
    /// there is something to send.
    pub fn start(settings: &TraceSettings, node_id: u64) -> Pipeline {
        let collector = Collector::new(settings.clone(), node_id);
        let (sender, spans) = mpsc::channel(QUEUE_SPANS_MAX); // bound: spans
        let (counts, closing) = (Counts::default(), CancellationToken::new());
        let provider = provider(SpanQueue { sender, counts: counts.clone() });
        let recorded = Recorded { share: settings.share };
        let shipping = Shipping { spans, collector, counts: counts.clone(), closing: closing.clone() };
        Pipeline { provider, recorded, counts, closing, shipping: tasks::errand(shipping.run()) }
    }

    /// Returns the layer for the subscriber of the process.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        layer(&self.provider, self.recorded)
    }

    /// Counts the results of exports in `metrics` from now on.
    pub fn count_in(&self, metrics: std::sync::Arc<Metrics>) {
        self.counts.begin(metrics);
    }

    /// Sends the remaining spans within [`CLOSE_WITHIN`].
    pub async fn close(mut self) {
        self.closing.cancel();
        if tokio::time::timeout(CLOSE_WITHIN, &mut self.shipping).await.is_err() {
            self.shipping.abort();
            tracing::warn!("failed to send the last traces in time");
        }
    }
}

/// Creates the provider. All options are set, because the SDK reads missing ones from the environment.
fn provider(processor: impl SpanProcessor + 'static) -> SdkTracerProvider {
    SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(OfKnownTraces)))
        .with_id_generator(Ids(RandomIdGenerator::default()))
        .with_span_limits(SpanLimits::default())
        .with_span_processor(processor)
        .build()
}

fn layer<S>(provider: &SdkTracerProvider, recorded: Recorded) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let scope = InstrumentationScope::builder("thuban").with_version(env!("CARGO_PKG_VERSION")).build();
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer_with_scope(scope))
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_filter(recorded)
}

/// Filter of the layer. It enables spans of [`TARGET`], and inner spans within these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    share: f64,
}

impl Recorded {
    /// Reports whether the first span of this trace is to be created, according to the current subscriber. Returns true
    /// if that exports nothing.
    pub(super) fn has(trace: TraceId) -> bool {
        let share = dispatcher::get_default(|all| all.downcast_ref::<Recorded>().map(|recorded| recorded.share));
        // Other samplers make the same decision for the same trace.
        let decide =
            |share| Sampler::TraceIdRatioBased(share).should_sample(None, trace, "", &SpanKind::Server, &[], &[]);
        share.is_none_or(|share| decide(share).decision == SamplingDecision::RecordAndSample)
    }
}

impl<S> Filter<S> for Recorded
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn enabled(&self, metadata: &Metadata<'_>, context: &layer::Context<'_, S>) -> bool {
        match metadata.target() {
            TARGET => true,
            INNER_TARGET => context.lookup_current().is_some(),
            _ => false,
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.target() {
            TARGET => Interest::always(),
            INNER_TARGET => Interest::sometimes(),
            _ => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

thread_local! {
    /// Trace of the span that is being created on this thread.
    static TRACE: Cell<TraceId> = const { Cell::new(TraceId::INVALID) };
}

/// Calls `begin` with `trace` as the trace of spans without a parent.
pub(super) fn with_trace(trace: TraceId, begin: impl FnOnce()) {
    TRACE.set(trace);
    begin();
    TRACE.set(TraceId::INVALID);
}

/// Generator of random span ids. Trace ids come from [`with_trace`].
#[derive(Debug)]
struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        TRACE.get()
    }

    fn new_span_id(&self) -> SpanId {
        self.0.new_span_id()
    }
}

/// Sampler for spans without a parent: records those with a trace.
#[derive(Clone, Debug)]
struct OfKnownTraces;

impl ShouldSample for OfKnownTraces {
    fn should_sample(
        &self,
        _: Option<&Context>,
        trace: TraceId,
        _: &str,
        _: &SpanKind,
        _: &[KeyValue],
        _: &[Link],
    ) -> SamplingResult {
        let decision = match trace {
            TraceId::INVALID => SamplingDecision::Drop,
            _ => SamplingDecision::RecordAndSample,
        };
        SamplingResult { decision, attributes: Vec::new(), trace_state: TraceState::default() }
    }
}

/// Processor that queues ended spans while there is room.
#[derive(Debug)]
struct SpanQueue {
    sender: mpsc::Sender<SpanData>, // bound: spans
    counts: Counts,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.sender.try_send(span).is_err() {
            self.counts.add("dropped", 1);
        }
    }

    /// Does nothing: waiting spans are sent by [`Shipping`], which [`Pipeline::close`] ends.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
