//! Webhook receiver on the loopback interface with configurable responses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::tls::Listening;

/// Response of the receiver.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    Status(u16),
    Redirect(String),
    /// Status 200, and a body without an end.
    Endless,
    /// The connection is closed without a response.
    Close,
    /// No response is sent.
    Silent,
}

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Got {
    /// Head of the request in lower case.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Got {
    pub(super) fn header(&self, name: &str) -> &str {
        let value = |line: &'_ str| line.strip_prefix(name)?.strip_prefix(": ").map(str::len);
        let line = self.head.lines().find(|line| value(line).is_some()).unwrap_or_default();
        line.get(name.len() + 2..).unwrap_or_default()
    }
}

#[derive(Default)]
struct Seen {
    got: Mutex<Vec<Got>>,
    connections: Mutex<usize>,
    /// Number of bytes of endless responses that clients accepted.
    sent: Mutex<usize>,
}

pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    seen: Arc<Seen>,
    task: AbortHandle,
}

impl Receiver {
    pub(super) async fn start(manner: Manner) -> Receiver {
        Receiver::start_with(manner, None).await
    }

    /// Starts a receiver, with TLS if a configuration is given.
    pub(super) async fn start_with(manner: Manner, tls: Option<Arc<Listening>>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (manner, seen) = (Arc::new(Mutex::new(manner)), Arc::new(Seen::default()));
        let (how, into) = (manner.clone(), seen.clone());
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                *into.connections.lock() += 1;
                let (how, into, tls) = (how.clone(), into.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &how, &into).await,
                        Some(tls) => match tls.acceptor().accept(stream).await {
                            Ok(stream) => serve(stream, &how, &into).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        };
        Receiver { address, manner, seen, task: tokio::spawn(accept).abort_handle() }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook?x=1", self.address)
    }

    pub(super) fn answer(&self, manner: Manner) {
        *self.manner.lock() = manner;
    }

    pub(super) fn got(&self) -> Vec<Got> {
        self.seen.got.lock().clone()
    }

    pub(super) fn connections(&self) -> usize {
        *self.seen.connections.lock()
    }

    pub(super) fn sent(&self) -> usize {
        *self.seen.sent.lock()
    }

    /// Waits until the receiver has this many requests.
    pub(super) async fn wait_for(&self, count: usize) -> Vec<Got> {
        eventually(|| self.got().len() >= count, || format!("{} of {count} requests", self.got().len())).await;
        self.got()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) async fn eventually(is_done: impl Fn() -> bool, told: impl Fn() -> String) {
    let begun = Instant::now();
    while !is_done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not in time: {}", told());
        sleep(Duration::from_millis(5)).await;
    }
}

/// Serves a connection. Returns `None` at its end.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, how: &Mutex<Manner>, seen: &Seen) -> Option<()> {
    loop {
        let got = read(&mut stream).await?;
        seen.got.lock().push(got);
        let manner = how.lock().clone();
        let answer = match manner {
            Manner::Status(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok"),
            Manner::Redirect(to) => format!("HTTP/1.1 302 X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"),
            Manner::Close => return None,
            Manner::Silent => std::future::pending().await,
            Manner::Endless => {
                stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 1000000000000\r\n\r\n").await.ok()?;
                loop {
                    stream.write_all(&[b'x'; 4096]).await.ok()?;
                    *seen.sent.lock() += 4096;
                }
            }
        };
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Got> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let mut got = Got { head: String::from_utf8_lossy(&bytes[..head_end]).to_lowercase(), body: Vec::new() };
    let length: usize = got.header("content-length").parse().ok()?;
    while bytes.len() < head_end + length {
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    }
    got.body = bytes[head_end..].to_vec();
    Some(got)
}
