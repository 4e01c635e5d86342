//! Steps in which a listener ends, and closing of its socket without losing a connection.

use std::time::Duration;

use socket2::{SockFilter, SockRef};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Time for TCP handshakes in progress when a listener closes: a few round trips within a site.
pub const REST_WITHIN: Duration = Duration::from_millis(50);

/// Steps in which a listener ends, in order.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Cancelled first. Each HTTP/1 answer then ends its connection, so that the client opens the next one, perhaps to
    /// another node.
    pub leaving: CancellationToken,
    /// Cancelled second. No connection is then accepted except those whose handshake has begun.
    pub accepted: CancellationToken,
    /// Cancelled last. Connections then end, each after its pending answer.
    pub closing: CancellationToken,
}

/// Makes the kernel ignore new connections. Closing a listener resets the connections in its queue, on which clients
/// may have sent a request already; once no new ones arrive, the queue can be emptied before. A client whose attempt is
/// ignored retries a second later, and is refused because the socket is closed by then.
pub(super) fn refuse_new(listener: &TcpListener) {
    if let Err(error) = SockRef::from(listener).attach_filter(&only_handshakes_under_way()) {
        tracing::debug!(%error, "connections may be reset as the listener closes");
    }
}

/// Returns a classic BPF program that drops TCP segments with SYN and without ACK.
fn only_handshakes_under_way() -> [SockFilter; 5] {
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const FLAGS_OFFSET: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    [
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_OFFSET),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_listener_that_refuses_keeps_what_is_in_its_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mut early = TcpStream::connect(address).await.expect("listening");
        early.write_all(b"early").await.expect("sent");
        refuse_new(&listener);
        let late = timeout(Duration::from_millis(200), TcpStream::connect(address)).await;
        assert!(late.is_err(), "the attempt is ignored: {late:?}");
        let (mut served, _) = listener.accept().await.expect("still in the queue");
        let mut words = [0; 5];
        served.read_exact(&mut words).await.expect("what was sent before");
        assert_eq!(&words, b"early");
        drop(listener);
        let refused = TcpStream::connect(address).await.expect_err("closed");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}
