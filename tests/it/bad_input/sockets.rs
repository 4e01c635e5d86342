//! Connections that dawdle, never end, announce the moon, or knock at the wrong door.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use crate::envelope::both;
use crate::harness::{Api, Cluster, Raw, RawAnswer, eventually, setting};

const SERVICES: &str = "/naming/v1/services";
/// Connections that send nothing; the processes of a test host may not open more files than a few thousand.
const IDLE: usize = 1000;
/// More than a node may hold of a body that it refuses, many times over.
const SENT_MAX: usize = 64 << 20;
/// A batch with one good service in it, as gzip packs it.
const PACKED: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x8b\xaeV\xcaK\xccM-.HLN\
    U\xb2R\xcaS\xd2\x01\xf3\x81\xccb\xa5\xdaX\x00\xc6\x91\x05$\x1e\x00\x00\x00";
const MEMORY_GROWTH_MAX: f64 = 48.0 * (1 << 20) as f64;

fn head(token: &str, more: &str) -> String {
    format!("POST {SERVICES} HTTP/1.1\r\nHost: thuban\r\nAuthorization: {token}\r\n{more}\r\n")
}

async fn expect_serving(api: &Api) {
    api.get(&format!("{SERVICES}?limit=1")).await.expect_code(200_000);
    assert_eq!(api.health("/readyz").await.expect("health is answered").0, 200);
}

/// 1000 idle connections by default (`THUBAN_IT_IDLE`), half requests among them.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_dawdle_are_cut_off_and_others_are_served() {
    let cluster = Cluster::start(3).await;
    let token = cluster.token().to_owned();
    for (_, api) in both(&cluster).await {
        expect_serving(&api).await;
    }
    let doors = [cluster.ports(1).api, cluster.ports(2).compat, cluster.ports(3).api];
    let idle = (0..setting("THUBAN_IT_IDLE", IDLE)).map(|n| Raw::connect(doors[n % doors.len()]));
    let idle = join_all(idle).await;

    let half_head = format!("POST {SERVICES} HTTP/1.1\r\nHost: th");
    let half_body = head(&token, "Content-Length: 100\r\n") + "[{\"name\":";
    let half_chunk = head(&token, "Transfer-Encoding: chunked\r\n") + "100\r\n[";
    let slow = [half_head.as_str(), &half_body, &half_chunk, "G", ""];
    let ends = join_all(doors.iter().flat_map(|door| slow.iter().map(move |part| dawdle(*door, part)))).await;
    for end in ends {
        // Cut off, with or without a word; never taken for a request.
        assert!(end.is_none_or(|status| (400..500).contains(&status)), "{end:?}");
    }
    // The silent connections are still open, and block no other client.
    for id in cluster.ids() {
        expect_serving(&cluster.api(id)).await;
    }
    join_all(idle.into_iter().map(|mut connection| async move { connection.closed().await })).await;
}

/// Sends a part of a request and waits for what becomes of it.
async fn dawdle(door: std::net::SocketAddr, part: &str) -> Option<u16> {
    let mut connection = Raw::connect(door).await;
    connection.send(part).await;
    let answer = connection.answer().await;
    connection.closed().await;
    answer.map(|answer| answer.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_early() {
    let cluster = Cluster::start(3).await;
    let token = cluster.token();
    for (role, api) in both(&cluster).await {
        let id = api.cluster().await.expect("the node tells").body["self"].as_u64().expect("an id");
        let door = cluster.ports(id).api;
        let memory = async || api.metric("process_resident_memory_bytes").await.expect("the node measures itself");
        let before = memory().await;

        // Refused by the announced length, before the body is read.
        for length in ["10737418240", "2097153", "9223372036854775807"] {
            let answer = RawAnswer::of(door, head(token, &format!("Content-Length: {length}\r\n"))).await;
            assert_eq!(answer.code(), 413_000, "{role}, {length}: {answer:?}");
            assert!(answer.head.contains("connection: close"), "{role}, {length}: {answer:?}");
        }
        for length in ["18446744073709551615", "18446744073709551616"] {
            let beyond = RawAnswer::of(door, head(token, &format!("Content-Length: {length}\r\n"))).await;
            assert!(matches!(beyond.status, 400 | 431), "{role}, {length}: {beyond:?}");
        }

        // Chunks without end: cut off long before all of them are sent.
        let mut endless = Raw::connect(door).await;
        endless.send(head(token, "Transfer-Encoding: chunked\r\n")).await;
        let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
        let mut sent = 0;
        while sent < SENT_MAX && endless.send(&chunk).await {
            sent += chunk.len();
        }
        assert!(sent < SENT_MAX, "{role}: took {sent} bytes");

        // What is packed is not unpacked.
        let head = head(token, &format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", PACKED.len()));
        let answer = RawAnswer::of(door, [head.as_bytes(), PACKED].concat()).await;
        assert_eq!(answer.code(), 400_001, "{role}: {answer:?}");

        let growth = memory().await - before;
        assert!(growth < MEMORY_GROWTH_MAX, "{role}: {growth} bytes more");
        expect_serving(&api).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_door_stays_closed() {
    let cluster = Cluster::start(3).await;
    let view = async || {
        let body = cluster.api(1).cluster().await.expect("the node tells").body;
        (body["leader"].clone(), body["term"].clone())
    };
    let before = view().await;
    let huge = [b"THUBAN\x00\x01\x01".as_slice(), &u32::MAX.to_be_bytes()].concat();
    let tls = [[0x16, 3, 1, 2, 0, 1, 0, 1].as_slice(), &[0; 24]].concat();
    let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let http = format!("GET {SERVICES} HTTP/1.1\r\nAuthorization: {}\r\n\r\n", cluster.token());
    for id in cluster.ids() {
        let ports = cluster.ports(id);
        for bytes in [noise.as_slice(), &huge, http.as_bytes(), b"THUBAN\x00\x63\x01", &tls] {
            let mut stranger = Raw::connect(ports.peer).await;
            stranger.send(bytes).await;
            let heard = stranger.closed().await;
            assert!(!heard.starts_with(b"HTTP"), "node {id} speaks HTTP to {bytes:.8?}");
        }
        // A peer's hello at the ports of clients is a bad request.
        for door in [ports.api, ports.compat] {
            let mut peer = Raw::connect(door).await;
            peer.send([huge.as_slice(), b"\r\n\r\n"].concat()).await;
            let heard = peer.closed().await;
            assert!(heard.is_empty() || heard.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&heard));
        }
        let api = cluster.api(id);
        // Those that do not begin with TLS.
        eventually(Duration::from_secs(20), "strangers are counted", || async {
            let series = "thuban_peer_connections_refused_total{reason=\"tls\"}";
            match api.metric(series).await {
                Some(count) if count >= 4.0 => Ok(()),
                seen => Err(format!("{seen:?}")),
            }
        })
        .await;
    }
    assert_eq!(view().await, before, "strangers moved the term");
    cluster.api(2).post(SERVICES, &json!([{"namespace": "n", "name": "s"}])).await.expect_code(200_000);
}
