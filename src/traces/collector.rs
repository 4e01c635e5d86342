//! One post to the collector: OTLP over HTTP, protobuf.

use std::error::Error;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use tokio::time::timeout;
use url::Url;

use crate::tls;

/// For one try, with its answer.
const TRY_WITHIN: Duration = Duration::from_secs(5);
/// Of an answer so much is read; what it is good for is a number and a sentence.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// A collector that asks for a longer pause than this gets this one.
const PAUSE_MAX: Duration = Duration::from_secs(10);

const SERVICE: &str = "thuban";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const AGENT: &str = concat!("thuban/", env!("CARGO_PKG_VERSION"));

/// Why a batch was not taken.
#[derive(Debug)]
pub(super) struct Failure {
    /// In few words, without the URL.
    pub(super) why: String,
    /// Another try may succeed.
    pub(super) is_passing: bool,
    /// Before that try, if the collector said so.
    pub(super) pause: Option<Duration>,
}

impl Failure {
    fn passing(why: impl Into<String>) -> Failure {
        Failure { why: why.into(), is_passing: true, pause: None }
    }
}

pub(super) struct Collector {
    client: Client,
    url: Url,
    resource: ResourceAttributesWithSchema,
}

impl Collector {
    /// For spans of the node with this id. Reads whom the system trusts, for an `https` URL: blocks on the disk.
    pub(super) fn new(url: Url, node_id: u64) -> anyhow::Result<Collector> {
        let trust = if url.scheme() == "https" { tls::trusting(None) } else { tls::trusting_nobody() };
        #[expect(clippy::disallowed_methods, reason = "its TLS is given to it here")]
        let builder = Client::builder();
        let client = builder
            .tls_backend_preconfigured(trust.context("--otlp-endpoint")?)
            .redirect(Policy::none())
            .no_proxy()
            .http1_only()
            .user_agent(AGENT)
            .pool_max_idle_per_host(1)
            .build()?;
        let resource = Resource::builder_empty().with_service_name(SERVICE).with_attributes([
            KeyValue::new("service.version", VERSION),
            KeyValue::new("service.instance.id", node_id.to_string()),
        ]);
        Ok(Collector { client, url, resource: (&resource.build()).into() })
    }

    pub(super) fn encode(&self, spans: Vec<SpanData>) -> Bytes {
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        ExportTraceServiceRequest { resource_spans }.encode_to_vec().into()
    }

    /// Sends a batch once; returns how many spans of it the collector did not want. Takes [`TRY_WITHIN`] at most.
    pub(super) async fn post(&self, body: Bytes) -> Result<u64, Failure> {
        let posted = timeout(TRY_WITHIN, self.post_without_limit(body)).await;
        posted.unwrap_or_else(|_| Err(Failure::passing(format!("no answer within {} s", TRY_WITHIN.as_secs()))))
    }

    async fn post_without_limit(&self, body: Bytes) -> Result<u64, Failure> {
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let response = request.send().await.map_err(|error| Failure::passing(in_words(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(rejected(&read(response).await));
        }
        let pause = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Err(Failure {
            why: format!("answered {}", status.as_u16()),
            is_passing: is_passing(status),
            pause: pause.map(|seconds| Duration::from_secs(seconds).min(PAUSE_MAX)),
        })
    }
}

/// The statuses after which the specification of OTLP has a client try again.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// What there is of an answer; one that is cut or too long says nothing.
async fn read(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Vec::new();
        }
        body.extend_from_slice(&chunk);
    }
    body
}

/// How many spans a collector that took the batch did not take all the same.
fn rejected(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    answer.partial_success.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or_default())
}

/// The innermost cause: those around it repeat the URL.
fn in_words(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_connect() { format!("cannot connect: {cause}") } else { cause.to_string() }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

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
}
