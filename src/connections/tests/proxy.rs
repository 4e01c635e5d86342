//! Connections that trusted proxies forward.

use axum::Extension;
use axum::routing::get;
use tokio::task::JoinHandle;

use super::super::*;
use crate::address::sender;
use crate::metrics::Metrics;

/// Returns a header for TCP over IPv4 that names the client 198.51.100.LAST at port 4711.
fn header(last: u8) -> Vec<u8> {
    let rest = [198, 51, 100, last, 10, 0, 0, 1, 0x12, 0x67, 0x22, 0xba];
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &rest].concat()
}

const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct House {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    closing: CancellationToken,
    serving: JoinHandle<()>,
}

/// Returns the peer, and whether it is on this machine.
async fn who(
    Extension(ConnectInfo(peer)): Extension<ConnectInfo<SocketAddr>>,
    request: axum::extract::Request,
) -> String {
    let sender = sender(request.headers(), request.extensions(), &[]);
    format!("{} {}", peer.ip(), sender.is_local)
}

async fn open(trusted: &[&str]) -> House {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let metrics = Arc::new(Metrics::new().expect("a consistent table"));
    let door = Listener {
        name: "compat",
        listener,
        router: Router::new().route("/", get(who)),
        checks: &[],
        tls: None,
        protocol: Protocol::Http1,
        proxies: trusted.iter().map(|net| net.parse().expect("a network")).collect(),
    };
    let closing = CancellationToken::new();
    // One connection per address.
    let serving = tokio::spawn(serve(door, ConnectionLimiter::new(10, 1, metrics.clone()), closing.clone()));
    House { address, metrics, closing, serving }
}

impl House {
    /// Opens a connection and returns it with the answer to its first request, which is empty if the connection is
    /// closed.
    async fn ask(&self, header: &[u8]) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(self.address).await.expect("listening");
        // The header may arrive in any pieces.
        for byte in header {
            stream.write_all(&[*byte]).await.expect("open");
        }
        let _ = stream.write_all(REQUEST).await;
        let mut answer = Vec::new();
        while !answer.ends_with(b"true") && !answer.ends_with(b"false") {
            match stream.read_buf(&mut answer).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let text = String::from_utf8(answer).expect("text");
        (stream, text.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
    }

    fn refused(&self, reason: &str) -> u64 {
        self.metrics.connections_refused.with_label_values(&["compat", reason]).get()
    }

    async fn end(self) {
        self.closing.cancel();
        self.serving.await.expect("no panic");
    }
}

#[tokio::test]
async fn clients_of_a_trusted_proxy_are_told_apart_and_counted_each() {
    let house = open(&["127.0.0.0/8"]).await;
    let (first, told) = house.ask(&header(1)).await;
    assert_eq!(told, "198.51.100.1 false");
    let (_second, told) = house.ask(&header(2)).await;
    assert_eq!(told, "198.51.100.2 false", "the proxy has as many as it has clients");
    let (_, told) = house.ask(&header(1)).await;
    assert_eq!((told.as_str(), house.refused("address")), ("", 1), "one client has as many as an address may");
    drop(first);
    // The proxy's own: a health check, and a connection without a header.
    for header in [LOCAL, b""] {
        // The place of the previous connection is freed a moment later.
        while house.ask(header).await.1 != "127.0.0.1 true" {}
    }
    let nonsense = [&b"\r\n\r\n\0\r\nQUIT\n\x11"[..], &[0; 40]].concat();
    while house.refused("proxy") == 0 {
        assert_eq!(house.ask(&nonsense).await.1, "");
    }
    house.end().await;
}

#[tokio::test]
async fn nobody_else_names_a_client() {
    let house = open(&["192.0.2.0/24"]).await;
    let (_, told) = house.ask(&header(1)).await;
    assert!(!told.contains("198.51.100.1"), "{told}");
    house.end().await;
}
