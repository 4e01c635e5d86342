//! Parked requests over a stream in memory: they are answered like all others, and so are later requests on the same
//! connection.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::{ConnectionLimiter, Parking, later, serve_stream};
use crate::metrics::Metrics;
use crate::origin::Origin;

const LIMIT: Duration = Duration::from_secs(10);

/// One connection to a surface: `/held` is parked and answers when it is released, `/slow` too without being parked,
/// and `/` answers at once.
struct House {
    client: DuplexStream,
    letting: Arc<Semaphore>,
    /// Its references count the held requests.
    held: Arc<()>,
    closing: CancellationToken,
    serving: JoinHandle<()>,
}

fn open() -> House {
    let (client, stream) = duplex(4096);
    let (letting, held) = (Arc::new(Semaphore::new(0)), Arc::new(()));
    let hold = {
        let (letting, held) = (letting.clone(), held.clone());
        move |Extension(parking): Extension<Parking>, method: Method, body: Bytes| async move {
            later(Some(parking), async move {
                let _held = held.clone();
                for _ in 0..2 {
                    let passed = timeout(Duration::from_millis(20), letting.acquire()).await;
                    if passed.is_ok() {
                        break;
                    }
                }
                letting.acquire().await.expect("open").forget();
                format!("{method} of {} held\n", body.len()).into_response()
            })
            .await
        }
    };
    let deaf = {
        let (letting, held) = (letting.clone(), held.clone());
        move |Extension(parking): Extension<Parking>, unread: Body| async move {
            later(Some(parking), async move {
                let _held = (held.clone(), unread);
                letting.acquire().await.expect("open").forget();
                "deaf\n".into_response()
            })
            .await
        }
    };
    let slow = {
        let (letting, held) = (letting.clone(), held.clone());
        // The handler holds the whole request, as a layer may.
        move |request: Request| async move {
            let _kept = (held.clone(), request);
            letting.acquire().await.expect("open").forget();
            "slow\n"
        }
    };
    let router = Router::new()
        .route("/held", any(hold))
        .route("/deaf", any(deaf))
        .route("/slow", any(slow))
        .route("/", any(async || "at once\n"))
        .layer(map_response(async |response: Response| ([("x-layer", "passed")], response)));
    let places = ConnectionLimiter::new(1, 1, Arc::new(Metrics::new().expect("a consistent table")));
    let place = places.take("api", Origin::UNKNOWN).expect("free");
    let closing = CancellationToken::new();
    let peer = (Ipv4Addr::LOCALHOST, 1).into();
    let serving = tokio::spawn(serve_stream(stream, peer, router, place, closing.clone()));
    House { client, letting, held, closing, serving }
}

impl House {
    async fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.expect("sent");
    }

    /// Waits until a request is held, or until none is.
    async fn is_held(&self, wanted: bool) {
        let turned = async {
            // Three handlers have a reference each, and a held request has another.
            while (Arc::strong_count(&self.held) > 4) != wanted {
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, turned).await.expect("held, or no more");
    }

    /// Reads until `end` has arrived, and nothing more is there.
    async fn read_to(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let mut bytes = [0; 4096];
            let read = timeout(LIMIT, self.client.read(&mut bytes)).await;
            let count = read.unwrap_or_else(|_| panic!("nothing more than {text:?}")).expect("open");
            assert!(count > 0, "the connection ends after {text:?}");
            text.push_str(str::from_utf8(&bytes[..count]).expect("text"));
        }
        text
    }

    async fn ends(&mut self) {
        let read = timeout(LIMIT, self.client.read(&mut [0])).await.expect("the connection ends");
        assert_eq!(read.ok(), Some(0));
        timeout(LIMIT, &mut self.serving).await.expect("it is over").expect("no panic");
    }
}

#[tokio::test]
async fn it_is_answered_and_so_is_what_comes_after_it() {
    let mut house = open();
    house.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
    house.read_to("at once\n").await;
    for _ in 0..3 {
        house.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n").await;
        house.is_held(true).await;
        house.letting.add_permits(1);
        let answer = house.read_to("GET of 0 held\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("content-length: 14\r\n"), "{answer}");
        assert!(answer.contains("x-layer: passed\r\n") && !answer.contains("content-length: 0"), "{answer}");
        house.send("POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc").await;
        house.is_held(true).await;
        house.letting.add_permits(1);
        house.read_to("POST of 3 held\n").await;
        house.send("POST /held HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").await;
        house.is_held(true).await;
        house.letting.add_permits(1);
        house.read_to("POST of 3 held\n").await;
    }
    house.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
    house.read_to("at once\n").await;
    house.closing.cancel();
    house.ends().await;
}

#[tokio::test]
async fn what_comes_early_waits_its_turn() {
    let mut house = open();
    house.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\nGET /held HTTP/1.1\r\nHost: h\r\n\r\nGET / HT").await;
    house.is_held(true).await;
    let long = format!("TP/1.1\r\nHost: h\r\nX-Long: {}\r\n\r\n", "x".repeat(3000));
    house.send(&long).await;
    house.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
    house.letting.add_permits(2);
    let answers = house.read_to("at once\n").await;
    let mut order: Vec<_> = answers.lines().filter(|line| line.ends_with("held") || *line == "at once").collect();
    if order.len() < 4 {
        house.read_to("at once\n").await;
        order.push("at once");
    }
    assert_eq!(order, ["GET of 0 held", "GET of 0 held", "at once", "at once"]);
}

#[tokio::test]
async fn the_form_of_the_answer_is_that_of_the_request() {
    for (request, end, has) in [
        ("HEAD /held HTTP/1.1\r\nHost: h\r\n\r\n", "\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
        ("GET /held HTTP/1.0\r\n\r\n", "held\n", "HTTP/1.0 200 OK\r\n"),
        ("GET /held HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "held\n", "connection: close\r\n"),
        ("GET /held HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "held\n", "connection: keep-alive\r\n"),
    ] {
        let mut house = open();
        house.send(request).await;
        house.is_held(true).await;
        house.letting.add_permits(1);
        let answer = house.read_to(end).await;
        assert!(answer.contains(has), "{request}: {answer}");
        if request.contains("close") || request.ends_with("1.0\r\n\r\n") {
            house.ends().await;
        } else {
            house.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
            house.read_to("at once\n").await;
        }
    }
}

#[tokio::test]
async fn who_goes_away_is_held_no_more() {
    for path in ["/held", "/slow"] {
        let mut house = open();
        house.send(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        house.is_held(true).await;
        house.client.shutdown().await.expect("shut");
        house.is_held(false).await;
        house.ends().await;
        assert_eq!(Arc::strong_count(&house.held), 1, "{path}: what the request held is let go");
    }
}

/// The rest of a body would be taken for a request.
#[tokio::test]
async fn a_request_that_was_not_read_stays_where_it_is() {
    let mut house = open();
    house.send("POST /deaf HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\n").await;
    house.is_held(true).await;
    house.letting.add_permits(1);
    let smuggled = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n".to_owned() + &"x".repeat(9);
    house.send(&smuggled[..40]).await;
    let answer = house.read_to("deaf\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    house.is_held(false).await;
    // Whether or not the connection continues, the body is not taken for a request.
    house.client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await.unwrap_or_default();
    let mut rest = Vec::new();
    timeout(LIMIT, house.client.read_to_end(&mut rest)).await.expect("an end").unwrap_or_default();
    assert!(!String::from_utf8_lossy(&rest).contains("held"), "a body was taken for a request");
}
