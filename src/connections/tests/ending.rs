//! Shutdown of a listener: answers that are the last of their connection, and ports that refuse.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::super::{ConnectionLimiter, Ending, Listener, Parking, Protocol, later, serve_until};
use crate::metrics::Metrics;

const LIMIT: Duration = Duration::from_secs(10);

async fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
}

/// Reads an answer with this end.
async fn read(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let mut piece = [0; 1024];
        let read = tokio::time::timeout(LIMIT, stream.read(&mut piece)).await.expect("in time").expect("open");
        assert!(read > 0, "it ends with {text:?}");
        text.push_str(std::str::from_utf8(&piece[..read]).expect("text"));
    }
    text.to_lowercase()
}

#[tokio::test]
async fn a_listener_that_leaves_serves_and_ends_connections_with_their_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (tell, told) = watch::channel(false);
    let held = move |parking: Option<Extension<Parking>>| {
        let mut told = told.clone();
        let answer = async move {
            told.wait_for(|is_told| *is_told).await.expect("the test goes on");
            "held".into_response()
        };
        later(parking.map(|Extension(parking)| parking), answer)
    };
    let router = Router::new().route("/", get(async || "served")).route("/held", get(held));
    let (tls, protocol, proxies) = (None, Protocol::Http1, Arc::default());
    let door = Listener { name: "api", listener, router, checks: &[], tls, protocol, proxies };
    let metrics = Arc::new(Metrics::new().expect("a consistent table"));
    let ending = Ending::default();
    let serving = tokio::spawn(serve_until(door, ConnectionLimiter::new(10, 10, metrics), ending.clone()));

    let mut kept = TcpStream::connect(address).await.expect("listening");
    ask(&mut kept, "/").await;
    assert!(!read(&mut kept, "served").await.contains("connection: close"));
    let mut parked = TcpStream::connect(address).await.expect("listening");
    ask(&mut parked, "/").await;
    read(&mut parked, "served").await;
    ask(&mut parked, "/held").await;

    ending.leaving.cancel();
    // An open connection, and a new one.
    for mut stream in [kept, TcpStream::connect(address).await.expect("still listening")] {
        ask(&mut stream, "/").await;
        assert!(read(&mut stream, "served").await.contains("connection: close"));
        assert_eq!(stream.read(&mut [0; 1]).await.expect("an end"), 0);
    }
    // A connection whose request was held before.
    tell.send(true).expect("it is held");
    assert!(read(&mut parked, "held").await.contains("connection: close"));

    let mut early = TcpStream::connect(address).await.expect("still listening");
    ending.accepted.cancel();
    ask(&mut early, "/").await;
    read(&mut early, "served").await;
    ending.closing.cancel();
    tokio::time::timeout(LIMIT, serving).await.expect("in time").expect("no panic");
    let refused = TcpStream::connect(address).await.expect_err("closed");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}
