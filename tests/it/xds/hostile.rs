//! Malicious clients next to a correct one: each is bounded, and the correct one notices nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use thuban::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use thuban::proto::google::rpc::Status;

use super::drivers::{Client, Kind, Options, Request};
use super::world::{LIMIT, World, group, publish, sub_rule};
use crate::harness::ads::{AdsConnection, AdsStream, CLUSTER, DELTA, ENDPOINTS, Ended, LISTENER, SOTW, node};
use crate::harness::report;

const RESOURCE_EXHAUSTED: u32 = 8;
const AT_ONCE: Duration = Duration::from_secs(5);
/// Wait for an answer that must not arrive.
const QUIET: Duration = Duration::from_millis(700);
/// Time limit for a stream to read a hundred thousand requests, under load.
const FLOOD_WITHIN: Duration = Duration::from_secs(60);
const GROWTH_BYTES_MAX: u64 = 96 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_clients_are_bounded() {
    let world = World::start(1).await;
    let mut honest = Client::start(Kind::Grpc, &world.cluster, "cart", &Options::default()).await;
    let request = Request::to("pay");
    honest.settles(LIMIT, "before", &request, &world.pay()).await;
    honest.flow("honest", &request).await;
    let before = world.cluster.process(1).resident_bytes();
    let to = world.cluster.ports(1).grpc;

    let _slow = a_byte_at_a_time(to).await;
    endless_names(to).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(never_acknowledges(to).await);
    }
    let mut refusing = refuses_everything(to).await;
    old_nonces(to).await;
    let changed = Instant::now();
    publish(&world.api(), "parts", &[sub_rule(&[], &[group("v2", json!({}))])]).await;
    honest.settles(LIMIT, "amid all", &request, &world.version(2)).await;
    report(format!("a rule reached an honest client {:?} after it was written, amid hostile ones", changed.elapsed()));
    for round in 0..40 {
        world.change(&world.pay()[0], json!({"weight": 50 + round})).await;
    }
    for stream in &mut silent {
        expect_nothing_more("who never acknowledges", stream).await;
    }
    // A client that refused the previous change gets the next one, or the newest if more have passed.
    let mut told = 0;
    while let Some(next) = refusing.receive_within::<DiscoveryResponse>(QUIET).await {
        refusing.send(&refusal(&next.expect("it goes on")));
        told += 1;
    }
    assert!((1..=2).contains(&told), "{told} responses to a client that refuses each of them");

    let calls = honest.stop("honest").await;
    assert!(calls.failed() == 0 && calls.answered() > 20, "{calls:?}");
    let grown = world.cluster.process(1).resident_bytes().saturating_sub(before);
    report(format!("hostile clients of xDS: {} MiB more are resident, {} calls beside", grown >> 20, calls.answered()));
    assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes");
}

/// A connection of its own for each: what becomes of one must not end another.
async fn stranger(to: SocketAddr) -> AdsConnection {
    AdsConnection::open_from(Ipv4Addr::new(127, 0, 0, 9).into(), to).await
}

/// Sends a message that is never complete.
async fn a_byte_at_a_time(to: SocketAddr) -> AdsStream {
    let mut stream = stranger(to).await.stream(SOTW).await;
    stream.send_bytes(Bytes::from_static(&[0, 0, 8, 0, 0]));
    for _ in 0..20 {
        stream.send_bytes(Bytes::from_static(b"\n"));
        tokio::task::yield_now().await;
    }
    stream
}

async fn endless_names(to: SocketAddr) {
    let mut at_once = stranger(to).await.stream(SOTW).await;
    at_once.send(&DiscoveryRequest {
        node: node("names", "grpc"),
        type_url: LISTENER.to_owned(),
        resource_names: (0..20_000).map(|number| format!("shop/{number}")).collect(),
        ..DiscoveryRequest::default()
    });
    expect_exhausted(&mut at_once).await;
    let mut by_and_by = stranger(to).await.stream(DELTA).await;
    for round in 0..20 {
        by_and_by.send(&DeltaDiscoveryRequest {
            node: node("names", "grpc"),
            type_url: ENDPOINTS.to_owned(),
            resource_names_subscribe: (0..1000).map(|number| format!("shop/{round}-{number}")).collect(),
            ..DeltaDiscoveryRequest::default()
        });
    }
    expect_exhausted(&mut by_and_by).await;
    let mut large = stranger(to).await.stream(SOTW).await;
    large.send(&DiscoveryRequest {
        node: node("names", "grpc"),
        type_url: LISTENER.to_owned(),
        resource_names: vec!["n".repeat(10 << 20)],
        ..DiscoveryRequest::default()
    });
    expect_exhausted(&mut large).await;
}

async fn expect_exhausted(stream: &mut AdsStream) {
    let ended: Ended = tokio::time::timeout(AT_ONCE, async {
        loop {
            // Responses in flight arrive first.
            if let Err(ended) = stream.receive::<DeltaDiscoveryResponse>().await {
                return ended;
            }
        }
    })
    .await
    .expect("the stream ends");
    assert_eq!(ended.status, Some(RESOURCE_EXHAUSTED), "{ended:?}");
}

/// Returns once the one response that it gets is there.
async fn never_acknowledges(to: SocketAddr) -> AdsStream {
    let mut stream = stranger(to).await.stream(SOTW).await;
    stream.send(&question("silent"));
    let first = stream.receive_within::<DiscoveryResponse>(AT_ONCE).await.expect("an answer").expect("it goes on");
    assert_eq!(first.resources.len(), 1, "{first:?}");
    stream
}

fn question(id: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        node: node(id, "grpc"),
        type_url: ENDPOINTS.to_owned(),
        resource_names: vec!["shop/pay".to_owned()],
        ..DiscoveryRequest::default()
    }
}

fn refusal(response: &DiscoveryResponse) -> DiscoveryRequest {
    DiscoveryRequest {
        node: None,
        response_nonce: response.nonce.clone(),
        error_detail: Some(Status { code: 3, message: "I do not want it".repeat(10_000), ..Status::default() }),
        ..question("refusing")
    }
}

async fn refuses_everything(to: SocketAddr) -> AdsStream {
    let mut stream = stranger(to).await.stream(SOTW).await;
    stream.send(&question("refusing"));
    let first: DiscoveryResponse = stream.receive_within(AT_ONCE).await.expect("an answer").expect("it goes on");
    for _ in 0..100 {
        stream.send(&refusal(&first));
    }
    expect_nothing_more("who refuses everything", &mut stream).await;
    stream
}

/// Repeats nonces that are long gone, and some that never were.
async fn old_nonces(to: SocketAddr) {
    let mut stream = stranger(to).await.stream(DELTA).await;
    let first = DeltaDiscoveryRequest {
        node: node("nonces", "envoy"),
        type_url: CLUSTER.to_owned(),
        ..DeltaDiscoveryRequest::default()
    };
    stream.send(&first);
    stream.receive_within::<DeltaDiscoveryResponse>(AT_ONCE).await.expect("an answer").expect("it goes on");
    for number in 0..100_000 {
        let response_nonce = format!("old-{number}");
        stream.send(&DeltaDiscoveryRequest { response_nonce, node: None, ..first.clone() });
        if number % 1000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    // The next request is answered after all of them, and nothing is sent before.
    stream.send(&DeltaDiscoveryRequest {
        type_url: ENDPOINTS.to_owned(),
        resource_names_subscribe: vec!["shop/pay".to_owned()],
        ..DeltaDiscoveryRequest::default()
    });
    let answer = stream.receive_within::<DeltaDiscoveryResponse>(FLOOD_WITHIN).await.expect("an answer");
    assert_eq!(answer.expect("it goes on").type_url, ENDPOINTS);
}

async fn expect_nothing_more(who: &str, stream: &mut AdsStream) {
    let more = stream.receive_within::<DiscoveryResponse>(QUIET).await;
    assert!(more.is_none(), "{who}: {more:?}");
}
