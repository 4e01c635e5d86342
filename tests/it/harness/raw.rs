//! HTTP by hand: for requests that no client library would send, and connections that do not end.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::patient;

/// Past every deadline that a surface sets itself.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Raw {
    stream: TcpStream,
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub(crate) struct RawAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Raw {
        Raw { stream: TcpStream::connect(address).await.expect("the surface listens") }
    }

    /// Sends bytes; false if the other side does not accept them.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Answer, if any, until it is whole or the connection ends.
    pub(crate) async fn answer(&mut self) -> Option<RawAnswer> {
        tokio::time::timeout(patient(ANSWER_LIMIT), self.read_answer())
            .await
            .unwrap_or_else(|_| panic!("neither an answer nor an end within {ANSWER_LIMIT:?}"))
    }

    /// Reads to the end of the connection.
    pub(crate) async fn closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(ANSWER_LIMIT, self.stream.read_to_end(&mut rest)).await;
        // A reset is an end as well.
        let _ = read.unwrap_or_else(|_| panic!("the connection is still open after {ANSWER_LIMIT:?}"));
        rest
    }

    async fn read_answer(&mut self) -> Option<RawAnswer> {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        loop {
            if let Some(answer) = RawAnswer::parse(&bytes) {
                return Some(answer);
            }
            match self.stream.read(&mut piece).await {
                Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
                _ => return None,
            }
        }
    }
}

impl RawAnswer {
    /// One request on a connection of its own; panics unless it is answered.
    pub(crate) async fn of(address: SocketAddr, request: impl AsRef<[u8]>) -> RawAnswer {
        let mut connection = Raw::connect(address).await;
        connection.send(&request).await;
        let answer = connection.answer().await;
        answer.unwrap_or_else(|| panic!("no answer to {}", String::from_utf8_lossy(request.as_ref())))
    }

    /// The business code; 0 when the answer is not in the envelope.
    pub(crate) fn code(&self) -> u64 {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["code"].as_u64().unwrap_or(0)
    }

    /// Parses head and body, if the body is complete.
    fn parse(bytes: &[u8]) -> Option<RawAnswer> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        let status = head.split(' ').nth(1)?.parse().ok()?;
        (body.len() >= length).then(|| RawAnswer { status, head: head.clone(), body: body.to_owned() })
    }
}
