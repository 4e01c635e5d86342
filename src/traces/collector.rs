//! Posts to the trace collector: OTLP over HTTP with protobuf.
//!
//! The trusted authorities and the headers are read from files into a [`CollectorRoute`]. It is used for
//! [`ROUTE_LASTS`], or until a request fails with anything but a retryable status, so authorities and tokens can be
//! replaced while the node runs.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, StatusCode};
use tokio::time::{Instant, timeout};

use super::{TraceSettings, headers};
use crate::outbound::{self, in_words, read_limited};
use crate::tasks;

/// Time limit of one attempt including its response.
const TRY_WITHIN: Duration = Duration::from_secs(5);
/// Maximum bytes read of a response, of which only a number and a sentence are used.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest pause between attempts that a collector can request.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Time for which the contents of the files and the connection are used.
const ROUTE_LASTS: Duration = Duration::from_secs(60);

const SERVICE: &str = "thuban";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Reason why a batch was not accepted.
#[derive(Debug)]
pub(super) struct Failure {
    /// Short description without the URL.
    pub(super) why: String,
    /// Set if another attempt may succeed.
    pub(super) is_passing: bool,
    /// Pause requested by the collector before that attempt.
    pub(super) pause: Option<Duration>,
}

impl Failure {
    fn passing(why: impl Into<String>) -> Failure {
        Failure { why: why.into(), is_passing: true, pause: None }
    }
}

pub(super) struct Collector {
    settings: TraceSettings,
    resource: ResourceAttributesWithSchema,
    route: Option<CollectorRoute>,
}

/// Connection to the collector, with the contents of the files at one time.
struct CollectorRoute {
    client: Client,
    headers: HeaderMap,
    made: Instant,
}

impl CollectorRoute {
    /// Reads the files and creates a client. Blocks on the disk.
    fn new(settings: &TraceSettings) -> Result<CollectorRoute, String> {
        let headers = settings.headers_file.as_deref().map(headers::read).transpose();
        let headers = headers.map_err(|error| format!("headers: {error}"))?.unwrap_or_default();
        let is_secure = settings.url.scheme() == "https";
        let client = outbound::posting_client(is_secure, settings.ca_file.as_deref())?.build();
        let client = client.map_err(|error| in_words(&error))?;
        Ok(CollectorRoute { client, headers, made: Instant::now() })
    }
}

impl Collector {
    /// Creates a collector for the spans of the node with this id.
    pub(super) fn new(settings: TraceSettings, node_id: u64) -> Collector {
        let resource = Resource::builder_empty().with_service_name(SERVICE).with_attributes([
            KeyValue::new("service.version", VERSION),
            KeyValue::new("service.instance.id", node_id.to_string()),
        ]);
        Collector { settings, resource: (&resource.build()).into(), route: None }
    }

    /// Returns the body of a post.
    pub(super) fn encode(&self, spans: Vec<SpanData>) -> Bytes {
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let batch = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        if self.settings.is_compressed { compress(&batch).into() } else { batch.into() }
    }

    /// Sends a batch once, within [`TRY_WITHIN`]. Returns the number of its spans that the collector rejected.
    pub(super) async fn post(&mut self, body: Bytes) -> Result<u64, Failure> {
        let posted = timeout(TRY_WITHIN, self.post_without_limit(body)).await;
        posted.unwrap_or_else(|_| Err(Failure::passing(format!("no answer within {} s", TRY_WITHIN.as_secs()))))
    }

    async fn post_without_limit(&mut self, body: Bytes) -> Result<u64, Failure> {
        let route = self.take_route().await.map_err(Failure::passing)?;
        let request = route.client.post(self.settings.url.clone()).headers(route.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf");
        let request = if self.settings.is_compressed { request.header(CONTENT_ENCODING, "gzip") } else { request };
        let response = request.body(body).send().await.map_err(|error| Failure::passing(in_words(&error)))?;
        let status = response.status();
        if status.is_success() || is_passing(status) {
            self.route = Some(route);
        }
        if status.is_success() {
            let answer = read_limited(response, ANSWER_BYTES_MAX).await;
            return Ok(rejected(&answer.ok().flatten().unwrap_or_default()));
        }
        let pause = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Err(Failure {
            why: format!("answered {}", status.as_u16()),
            is_passing: is_passing(status),
            pause: pause.map(|seconds| Duration::from_secs(seconds).min(PAUSE_MAX)),
        })
    }

    /// Takes the current route, or creates one. The caller puts it back while it is usable.
    async fn take_route(&mut self) -> Result<CollectorRoute, String> {
        match self.route.take() {
            Some(route) if route.made.elapsed() < ROUTE_LASTS => Ok(route),
            _ => {
                let settings = self.settings.clone();
                let made = tasks::blocking_errand(move || CollectorRoute::new(&settings)).await;
                made.map_err(|error| error.to_string())?
            }
        }
    }
}

/// Compresses a batch at the fastest level. Batches are many and small, so a better ratio is not worth the time.
fn compress(batch: &[u8]) -> Vec<u8> {
    let mut compressed = GzEncoder::new(Vec::with_capacity(batch.len() / 4), Compression::fast());
    let written = compressed.write_all(batch).and_then(|()| compressed.finish());
    written.expect("memory takes what is written to it")
}

/// Reports whether a status is retryable according to the OTLP specification.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// Returns the number of spans that a collector rejected from an accepted batch.
fn rejected(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    answer.partial_success.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn what_a_collector_refuses_in_part_is_counted() {
        let answer = |rejected_spans| {
            let partial = ExportTracePartialSuccess { rejected_spans, error_message: "full".to_owned() };
            ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        };
        assert_eq!((rejected(&answer(3)), rejected(&answer(0)), rejected(&answer(-1))), (3, 0, 0));
        for other in [&b""[..], b"{}", b"<html>", &[0xff; 64]] {
            assert_eq!(rejected(other), 0, "{other:?}");
        }
    }

    #[test]
    fn what_will_not_pass_is_not_tried_again() {
        let tried_again = [429, 502, 503, 504];
        for code in 400..600 {
            let status = StatusCode::from_u16(code).expect("a status");
            assert_eq!(is_passing(status), tried_again.contains(&code), "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_read_again_after_a_while_and_after_what_went_wrong() {
        let dir = TempDir::new().expect("a directory");
        let file = dir.path().join("headers");
        let put = |token: &str| std::fs::write(&file, format!("api-key: {token}\n")).expect("writable");
        let settings = TraceSettings {
            url: "http://127.0.0.1:1".parse().expect("a url"),
            share: 1.0,
            ca_file: None,
            headers_file: Some(file.clone()),
            is_compressed: false,
        };
        let mut collector = Collector::new(settings, 1);
        let shown = async |collector: &mut Collector| {
            let route = collector.take_route().await?;
            let shown = route.headers["api-key"].to_str().expect("text").to_owned();
            collector.route = Some(route);
            Ok::<_, String>(shown)
        };
        put("one");
        assert_eq!(shown(&mut collector).await.as_deref(), Ok("one"));
        put("two");
        tokio::time::advance(ROUTE_LASTS - Duration::from_secs(1)).await;
        assert_eq!(shown(&mut collector).await.as_deref(), Ok("one"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(shown(&mut collector).await.as_deref(), Ok("two"));
        // The following requests use the network, which does not share the paused clock.
        tokio::time::resume();
        put("three");
        let failed = collector.post(Bytes::new()).await.expect_err("nobody listens there");
        assert!(failed.is_passing && failed.why.starts_with("cannot connect"), "{failed:?}");
        assert_eq!(shown(&mut collector).await.as_deref(), Ok("three"));
        std::fs::write(&file, "four").expect("writable");
        collector.route = None;
        let failed = collector.post(Bytes::new()).await.expect_err("no headers");
        assert!(failed.is_passing && failed.why.ends_with("headers: line 1 is not `name: value`"), "{failed:?}");
    }
}
