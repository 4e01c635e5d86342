//! A scriptable gRPC client: encoded messages, metadata, and the final status.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::patient;

const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Bytes before each message.
const HEADER_BYTES: usize = 5;

/// A connection of HTTP/2.
#[derive(Clone)]
pub(crate) struct GrpcClient {
    sender: SendRequest<Body>,
    metadata: Vec<(&'static str, String)>,
}

/// The end of a call: a code of gRPC and its text. A connection that broke is `None`.
pub(crate) type Ended = Option<(u16, String)>;

/// An open call.
pub(crate) struct GrpcCall {
    requests: Option<mpsc::Sender<Bytes>>,
    /// Response, for a unary request after the request.
    response: Response,
    read: BytesMut,
}

enum Response {
    Awaited(JoinHandle<hyper::Result<hyper::Response<Incoming>>>),
    Begun(HeaderMap, Incoming),
}

impl GrpcClient {
    /// Connects with prior knowledge of HTTP/2.
    pub(crate) async fn connect(address: SocketAddr) -> GrpcClient {
        let stream = TcpStream::connect(address).await.expect("it listens");
        GrpcClient::over(stream).await.expect("HTTP/2 is spoken")
    }

    /// Connects by TLS with HTTP/2 as the only protocol; an error if the handshake fails.
    pub(crate) async fn secure(address: SocketAddr, tls: &ClientConfig) -> Result<GrpcClient, String> {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let name = ServerName::from(address.ip());
        let stream =
            TlsConnector::from(Arc::new(tls)).connect(name, stream).await.map_err(|error| error.to_string())?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "clients of gRPC insist on it");
        GrpcClient::over(stream).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<GrpcClient, String> {
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(GrpcClient { sender, metadata: Vec::new() })
    }

    /// The same connection, with one more header on each call.
    pub(crate) fn with(&self, name: &'static str, value: impl Into<String>) -> GrpcClient {
        let mut client = self.clone();
        client.metadata.push((name, value.into()));
        client
    }

    /// Begins a call; `path` is `/package.Service/Method`.
    pub(crate) fn open(&self, path: &str) -> GrpcCall {
        let (requests, frames) = mpsc::channel(16);
        let frames = ReceiverStream::new(frames).map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
        let request = Request::post(format!("http://node{path}")).header("content-type", "application/grpc");
        let request = request.header("te", "trailers");
        let headers = self.metadata.iter();
        let request = headers.fold(request, |request, (name, value)| request.header(*name, value));
        let request = request.body(Body::new(StreamBody::new(frames))).expect("a request");
        let mut sender = self.sender.clone();
        let response = Response::Awaited(tokio::spawn(async move { sender.send_request(request).await }));
        GrpcCall { requests: Some(requests), response, read: BytesMut::new() }
    }

    /// A call of one request and one response.
    pub(crate) async fn call<R: Message + Default>(&self, path: &str, request: &impl Message) -> Result<R, Ended> {
        let mut call = self.open(path);
        call.send(request).await;
        call.finish();
        call.next().await
    }
}

impl GrpcCall {
    pub(crate) async fn send(&mut self, message: &impl Message) {
        self.send_bytes(&message.encode_to_vec()).await;
    }

    /// A message that is encoded already. The other end may have ended the call.
    pub(crate) async fn send_bytes(&mut self, message: &[u8]) {
        let mut bytes = BytesMut::with_capacity(HEADER_BYTES + message.len());
        bytes.put_u8(0);
        bytes.put_u32(u32::try_from(message.len()).expect("a message of this size"));
        bytes.put_slice(message);
        let _ = self.requests.as_ref().expect("not finished").send(bytes.freeze()).await;
    }

    /// Sends no more.
    pub(crate) fn finish(&mut self) {
        self.requests = None;
    }

    /// The next response, or the end.
    pub(crate) async fn next<R: Message + Default>(&mut self) -> Result<R, Ended> {
        timeout(patient(ANSWER_LIMIT), self.read_next()).await.expect("in time")
    }

    /// The end; fails for one more response.
    pub(crate) async fn end(&mut self) -> Ended {
        self.next::<()>().await.expect_err("no response any more")
    }

    async fn read_next<R: Message + Default>(&mut self) -> Result<R, Ended> {
        loop {
            if let Some(message) = self.take() {
                return Ok(R::decode(message).expect("the message that was asked for"));
            }
            let (head, body) = match &mut self.response {
                Response::Begun(head, body) => (head, body),
                Response::Awaited(response) => {
                    let Ok(response) = response.await.expect("no panic") else { return Err(None) };
                    let (head, body) = response.into_parts();
                    assert_eq!(head.status, 200, "{head:?}");
                    self.response = Response::Begun(head.headers, body);
                    continue;
                }
            };
            match body.frame().await {
                None => return Err(status(head)),
                Some(Err(_)) => return Err(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.read.extend_from_slice(&data),
                    Err(frame) => return Err(frame.trailers_ref().and_then(status)),
                },
            }
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        let length = self.read.get(1..HEADER_BYTES)?.try_into().map(u32::from_be_bytes).ok()? as usize;
        if self.read.len() < HEADER_BYTES + length {
            return None;
        }
        self.read.advance(HEADER_BYTES);
        Some(self.read.split_to(length).freeze())
    }
}

fn status(headers: &HeaderMap) -> Ended {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let text = headers.get("grpc-message").and_then(|text| text.to_str().ok()).unwrap_or_default();
    Some((code, text.replace("%20", " ")))
}
