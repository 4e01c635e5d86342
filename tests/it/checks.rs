//! Checks of health get through at every port, however many idle connections and streams their address has: a
//! supervisor ends a node that does not answer.

use std::time::{Duration, Instant};

use crate::connections::dial;
use crate::grpc::{ADS, Asked, HEALTH, RESOURCE_EXHAUSTED, SERVING, Told, WATCH, client, code, refused, stream};
use crate::harness::{Cluster, GrpcClient, Raw, RawAnswer, free_address, report};

const LIMIT: Duration = Duration::from_secs(20);
/// Descriptors of a node: half of them are for connections, and half of those for one address.
const DESCRIPTORS: u32 = 256;
const FLOOD: usize = 400;
const ROUNDS: usize = 10;
const STREAMS: usize = 8;

/// A constant flow of idle connections, from the address of the supervisor or from many.
#[tokio::test(flavor = "multi_thread")]
async fn checks_of_health_are_answered_however_many_connections_there_are() {
    let metrics = free_address();
    let cluster = Cluster::start_under(1, DESCRIPTORS, &["--metrics-addr", &metrics.to_string()]).await;
    let (ports, grpc, token) = (cluster.ports(1), cluster.grpc(1), cluster.token());
    let head = format!("host: x\r\nconnection: close\r\nauthorization: {token}");
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n");
    for many in [false, true] {
        let from = |number: usize| if many { [127, 0, 1, (number % 50) as u8] } else { [127, 0, 0, 1] };
        // An idle connection ends after a while: there are new ones before each question.
        let flood = async || {
            let mut idle = Vec::new();
            for number in 0..FLOOD {
                idle.extend(dial(from(number), [ports.compat, ports.api, grpc][number % 3]).await);
            }
            idle
        };
        let mut idle = Vec::new();
        for (door, path) in [
            (ports.api, "/admin/v1/cluster"),
            (ports.api, "/docs"),
            (ports.compat, "/configs/a/default/b"),
            (metrics, "/favicon.ico"),
        ] {
            let begun = Instant::now();
            loop {
                idle.extend(flood().await);
                let mut connection = Raw::connect(door).await;
                connection.send(get(path)).await;
                let answer = connection.closed().await;
                if answer.is_empty() {
                    break;
                }
                let answer = String::from_utf8_lossy(&answer);
                assert!(begun.elapsed() < LIMIT, "{path} is answered beside {} others: {answer}", idle.len());
            }
        }
        for round in 0..ROUNDS {
            for (door, path) in [
                (ports.api, "/livez"),
                (ports.api, "/readyz"),
                (ports.compat, "/livez"),
                (ports.compat, "/readyz?verbose"),
                (ports.compat, "/health"),
                (metrics, "/livez"),
                (metrics, "/readyz"),
                (metrics, "/metrics"),
            ] {
                idle.extend(dial(from(round), door).await);
                let answer = RawAnswer::of(door, get(path)).await;
                assert_eq!(answer.status, 200, "{path} in round {round}: {answer:?}");
            }
            idle.extend(dial(from(round), grpc).await);
            let told = GrpcClient::connect(grpc).await.call::<Told>(HEALTH, &Asked::default()).await;
            assert_eq!(told, Ok(SERVING));
        }
        report(format!("{} checks were answered beside {} idle connections", ROUNDS * 9, idle.len()));
    }
}

/// On a connection that has its place already.
#[tokio::test(flavor = "multi_thread")]
async fn checks_of_health_are_answered_however_many_streams_there_are() {
    let cluster = Cluster::start_with(1, &["--connections-per-address", &STREAMS.to_string()]).await;
    let client = client(&cluster).await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        open.push(stream(&client).await);
    }
    assert_eq!(code(&refused(&client).await), RESOURCE_EXHAUSTED);
    // Health checks that send no request replace each other.
    let mut silent = Vec::new();
    for number in 0..40 {
        silent.push(client.open(HEALTH));
        let told = client.call::<Told>(HEALTH, &Asked::default()).await;
        assert_eq!(told, Ok(SERVING), "after {number}");
    }
    for path in [WATCH, ADS] {
        assert_eq!(code(&client.open(path).end().await), RESOURCE_EXHAUSTED, "{path}");
    }
    assert_eq!(silent[0].end().await, None, "its place was given to another one");
}
