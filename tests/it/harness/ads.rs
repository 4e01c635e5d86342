//! A scriptable xDS client, correct or malicious: bare HTTP/2 with gRPC messages.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::http::{HeaderMap, Request};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use prost::Message;
use thuban::proto::envoy::config::core::v3::Node;
use tokio::net::TcpSocket;

pub(crate) const SOTW: &str = "StreamAggregatedResources";
pub(crate) const DELTA: &str = "DeltaAggregatedResources";
pub(crate) const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub(crate) const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(crate) const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const SERVICE: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService";
/// In front of each message: not compressed, and its length.
const HEAD_BYTES: usize = 5;
const WINDOW_BYTES: u32 = 1 << 20;

/// A connection, on which any number of streams may be opened.
#[derive(Clone)]
pub(crate) struct AdsConnection {
    requests: SendRequest<Bytes>,
    authority: String,
}

impl AdsConnection {
    /// From an address of this machine.
    pub(crate) async fn open_from(from: IpAddr, address: SocketAddr) -> AdsConnection {
        Self::try_open_from(from, address).await.expect("the node listens and speaks HTTP/2")
    }

    /// The same to a node that may be gone.
    pub(crate) async fn try_open_from(from: IpAddr, address: SocketAddr) -> std::io::Result<AdsConnection> {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((from, 0))).expect("an address of this machine");
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true).expect("a socket of TCP");
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(16 * WINDOW_BYTES);
        let (requests, connection) = builder.handshake(stream).await.map_err(std::io::Error::other)?;
        // It ends with the last stream, or with the node.
        tokio::spawn(connection);
        Ok(AdsConnection { requests, authority: address.to_string() })
    }

    /// A stream of one of the two methods; no answer is waited for.
    pub(crate) async fn stream(&self, method: &str) -> AdsStream {
        let request = Request::post(format!("http://{}{SERVICE}/{method}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let request = request.body(()).expect("a request");
        let mut requests = self.requests.clone().ready().await.expect("the connection stands");
        let (answer, send) = requests.send_request(request, false).expect("a stream");
        AdsStream { send, receive: Receive::Head(answer), pending: BytesMut::new() }
    }
}

enum Receive {
    Head(h2::client::ResponseFuture),
    Body(RecvStream),
}

/// End of a stream: status of gRPC and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: Option<u32>,
    pub(crate) message: String,
}

/// One stream.
pub(crate) struct AdsStream {
    send: SendStream<Bytes>,
    receive: Receive,
    pending: BytesMut,
}

impl AdsStream {
    pub(crate) fn send(&mut self, message: &impl Message) {
        let mut framed = BytesMut::with_capacity(HEAD_BYTES + message.encoded_len());
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.encoded_len()).expect("a message of gRPC"));
        message.encode(&mut framed).expect("there is room");
        self.send_bytes(framed.freeze());
    }

    /// Sends the next message, complete or not; nothing once the stream has ended.
    pub(crate) fn send_bytes(&mut self, bytes: Bytes) {
        // The end is noticed on receiving.
        let _ = self.send.send_data(bytes, false);
    }

    /// The next message, or how the stream ended.
    pub(crate) async fn receive<M: Message + Default>(&mut self) -> Result<M, Ended> {
        loop {
            if let Some(message) = self.whole() {
                return Ok(M::decode(message).expect("a response"));
            }
            match &mut self.receive {
                Receive::Head(answer) => {
                    let answer = answer.await.map_err(|error| broken(&error))?;
                    if answer.headers().contains_key("grpc-status") {
                        return Err(ended(answer.headers()));
                    }
                    self.receive = Receive::Body(answer.into_body());
                }
                Receive::Body(body) => match body.data().await {
                    Some(Ok(chunk)) => {
                        // The only possible error is the end, which is received next.
                        let _ = body.flow_control().release_capacity(chunk.len());
                        self.pending.extend_from_slice(&chunk);
                    }
                    Some(Err(error)) => return Err(broken(&error)),
                    None => {
                        let trailers = body.trailers().await.map_err(|error| broken(&error))?.unwrap_or_default();
                        return Err(ended(&trailers));
                    }
                },
            }
        }
    }

    /// Nothing within this time.
    pub(crate) async fn receive_within<M: Message + Default>(&mut self, limit: Duration) -> Option<Result<M, Ended>> {
        tokio::time::timeout(limit, self.receive()).await.ok()
    }

    fn whole(&mut self) -> Option<Bytes> {
        let mut head = self.pending.get(1..HEAD_BYTES)?;
        let length = head.get_u32() as usize;
        if self.pending.len() < HEAD_BYTES + length {
            return None;
        }
        self.pending.advance(HEAD_BYTES);
        Some(self.pending.split_to(length).freeze())
    }
}

fn broken(error: &h2::Error) -> Ended {
    Ended { status: None, message: error.to_string() }
}

fn ended(trailers: &HeaderMap) -> Ended {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    Ended { status: text("grpc-status").parse().ok(), message: text("grpc-message") }
}

/// A client as it introduces itself.
pub(crate) fn node(id: &str, agent: &str) -> Option<Node> {
    let mut node = Node { id: id.to_owned(), cluster: "shop/cart".to_owned(), ..Node::default() };
    agent.clone_into(&mut node.user_agent_name);
    Some(node)
}
