//! HTTP/2 connections from their first byte to their last.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::client::conn::http2::handshake;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{Caller, Protocol, http2};

type Ended = JoinHandle<Result<(), &'static str>>;

/// Returns a connection that is being served.
fn open(closing: &CancellationToken) -> (DuplexStream, Ended) {
    let (near, far) = duplex(64 * 1024);
    let endless =
        || async { Body::new(StreamBody::new(stream::pending::<Result<hyper::body::Frame<_>, axum::Error>>())) };
    let router = Router::new().route("/", get(async || "served")).route("/endless", get(endless));
    let peer = ([192, 0, 2, 1], 1).into();
    let (protocol, leaving) = (Protocol::Http2, CancellationToken::new());
    let caller = Caller { peer, is_forwarded: false, certificate: None, router, protocol, leaving, only: None };
    (far, tokio::spawn(http2::converse(near, caller, closing.clone())))
}

#[tokio::test(start_paused = true)]
async fn who_does_not_speak_http_2_is_told_or_given_up() {
    for words in ["GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXY", "\u{16}\u{3}\u{1}"] {
        let (mut far, ended) = open(&CancellationToken::new());
        far.write_all(words.as_bytes()).await.expect("taken");
        let mut told = String::new();
        far.read_to_string(&mut told).await.expect("text");
        assert!(told.starts_with("HTTP/1.1 400 ") && told.ends_with("gRPC is spoken on this port.\n\n"), "{told}");
        let (head, body) = told.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        drop(far);
        assert_eq!(ended.await.expect("no panic"), Err("http1"), "{words:?}");
    }
    let began = Instant::now();
    let (mut far, ended) = open(&CancellationToken::new());
    far.write_all(b"PRI * HT").await.expect("taken");
    assert_eq!(ended.await.expect("no panic"), Err("slow"));
    assert_eq!(began.elapsed().as_secs(), 10);
    let (far, ended) = open(&CancellationToken::new());
    drop(far);
    assert_eq!(ended.await.expect("no panic"), Ok(()), "balancers look whether the port is open");
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_stream_ends_and_one_with_a_stream_stays() {
    let (far, ended) = open(&CancellationToken::new());
    let (mut sender, connection) =
        handshake::<_, _, Body>(TokioExecutor::new(), TokioIo::new(far)).await.expect("HTTP/2");
    let client = tokio::spawn(connection);
    let request = |path: &str| Request::get(format!("http://node{path}")).body(Body::empty()).expect("a request");
    let endless = sender.send_request(request("/endless")).await.expect("an answer");
    assert_eq!((endless.status().as_u16(), endless.version()), (200, Version::HTTP_2));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!ended.is_finished(), "its stream is open");
    drop(endless);
    let began = Instant::now();
    assert_eq!(ended.await.expect("no panic"), Ok(()));
    assert!((300..=600).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert!(client.await.expect("no panic").is_ok(), "it was told to go");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_lets_streams_end_and_takes_no_new_one() {
    let closing = CancellationToken::new();
    let (far, ended) = open(&closing);
    let (mut sender, connection) =
        handshake::<_, _, Body>(TokioExecutor::new(), TokioIo::new(far)).await.expect("HTTP/2");
    tokio::spawn(connection);
    let request = |path: &str| Request::get(format!("http://node{path}")).body(Body::empty()).expect("a request");
    let endless = sender.send_request(request("/endless")).await.expect("an answer");
    closing.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!ended.is_finished() && sender.send_request(request("/")).await.is_err(), "one stream is left");
    drop(endless);
    assert_eq!(ended.await.expect("no panic"), Ok(()));
}
