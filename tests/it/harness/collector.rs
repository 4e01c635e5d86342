//! A trace collector: receives OTLP over HTTP, decodes it, and can be slow, failing or absent.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::serve::Listener;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use parking_lot::Mutex;
use prost::Message;
use thuban::tls::Listening;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::server::TlsStream;

use super::{Pki, Ports, eventually};

/// A span as exported, with the node that sent it.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) node: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for the first one of a trace.
    pub(crate) parent: String,
    /// The number that OTLP has for it: 1 internal, 2 server.
    pub(crate) kind: i32,
    pub(crate) is_error: bool,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) links: Vec<String>,
    /// Header of the vendors of the caller's tracing.
    pub(crate) state: String,
    attributes: Vec<KeyValue>,
}

impl Span {
    /// As text; nothing where there is no such attribute.
    pub(crate) fn attribute(&self, key: &str) -> String {
        value(&self.attributes, key)
    }
}

fn value(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()) {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => text.clone(),
        Some(AnyValue { value: Some(Value::IntValue(number)) }) => number.to_string(),
        Some(other) => format!("{other:?}"),
        None => String::new(),
    }
}

/// Answer to a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Takes,
    Answers(u16),
    /// Not at all.
    Hangs,
}

#[derive(Default)]
struct Taken {
    /// Heads of all posts, accepted or not.
    heads: Vec<HeaderMap>,
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

pub(crate) struct Collector {
    address: SocketAddr,
    taken: Arc<Mutex<Taken>>,
    mood: Arc<Mutex<Mood>>,
    /// None for plain HTTP.
    tls: Option<Arc<Listening>>,
    serving: Option<AbortHandle>,
}

impl Collector {
    /// Returns a collector that cannot be reached yet.
    pub(crate) fn away() -> Collector {
        let (taken, mood) = (Arc::default(), Arc::new(Mutex::new(Mood::Takes)));
        Collector { address: Ports::reserve().api, taken, mood, tls: None, serving: None }
    }

    pub(crate) async fn start() -> Collector {
        let mut collector = Collector::away();
        collector.come().await;
        collector
    }

    /// Starts a collector with TLS and a certificate of this authority.
    pub(crate) async fn start_secure(pki: &Pki) -> Collector {
        let mut collector = Collector::away();
        collector.tls = Some(pki.listening());
        collector.come().await;
        collector
    }

    /// Address and secrets that a node is given.
    pub(crate) fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    pub(crate) async fn come(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("a reserved port");
        let (taken, mood) = (self.taken.clone(), self.mood.clone());
        let take = move |request: Request| {
            let (taken, mood) = (taken.clone(), *mood.lock());
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.expect("a whole body");
                taken.lock().heads.push(parts.headers.clone());
                match mood {
                    Mood::Takes => {
                        taken.lock().read(&parts.uri, &parts.headers, body);
                        StatusCode::OK
                    }
                    Mood::Answers(status) => StatusCode::from_u16(status).expect("a status"),
                    Mood::Hangs => std::future::pending().await,
                }
            }
        };
        let (router, tls) = (Router::new().fallback(take), self.tls.clone());
        let served = async move {
            match tls {
                None => axum::serve(listener, router).await,
                Some(tls) => axum::serve(Handshaken { listener, tls }, router).await,
            }
        };
        self.serving = Some(tokio::spawn(served).abort_handle());
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    pub(crate) fn posts(&self) -> usize {
        self.taken.lock().heads.len()
    }

    /// The headers of each post, in the order in which they came.
    pub(crate) fn heads(&self) -> Vec<HeaderMap> {
        self.taken.lock().heads.clone()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.taken.lock().spans.clone()
    }

    /// All batches, as they were before they were compressed.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.taken.lock().bytes.clone()
    }

    /// Waits until the spans of a trace are there of which `is_whole` holds.
    pub(crate) async fn trace(&self, id: &str, limit: Duration, is_whole: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        eventually(limit, &format!("trace {id} is whole"), || async {
            let spans: Vec<_> = self.spans().into_iter().filter(|span| span.trace == id).collect();
            if is_whole(&spans) { Ok(spans) } else { Err(format!("{spans:#?}")) }
        })
        .await
    }
}

/// Hands out connections that have begun with TLS.
struct Handshaken {
    listener: TcpListener,
    tls: Arc<Listening>,
}

impl Listener for Handshaken {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TlsStream<TcpStream>, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // A client that does not trust the certificate disconnects.
            if let Ok(stream) = self.tls.acceptor().accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Taken {
    fn read(&mut self, uri: &Uri, headers: &HeaderMap, body: Bytes) {
        assert_eq!((uri.path(), uri.query()), ("/v1/traces", None));
        assert_eq!(headers["content-type"], "application/x-protobuf");
        let body = match headers.get("content-encoding").map(|coding| coding.as_bytes()) {
            None => body.to_vec(),
            Some(coding) => {
                assert_eq!(coding, b"gzip");
                let mut clear = Vec::new();
                GzDecoder::new(&body[..]).read_to_end(&mut clear).expect("a whole stream of gzip");
                clear
            }
        };
        let batch = ExportTraceServiceRequest::decode(&body[..]).expect("a batch of spans");
        self.bytes.extend_from_slice(&body);
        for of_resource in batch.resource_spans {
            let resource = of_resource.resource.expect("who sends it").attributes;
            assert_eq!(value(&resource, "service.name"), "thuban");
            assert_eq!(value(&resource, "service.version"), env!("CARGO_PKG_VERSION"));
            let node = value(&resource, "service.instance.id");
            let spans = of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans);
            self.spans.extend(spans.map(|span| Span {
                node: node.clone(),
                name: span.name,
                trace: hex::encode(span.trace_id),
                id: hex::encode(span.span_id),
                parent: hex::encode(span.parent_span_id),
                kind: span.kind,
                is_error: span.status.is_some_and(|status| status.code == 2),
                began: span.start_time_unix_nano,
                ended: span.end_time_unix_nano,
                links: span.links.into_iter().map(|link| hex::encode(link.trace_id)).collect(),
                state: span.trace_state,
                attributes: span.attributes,
            }));
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}
