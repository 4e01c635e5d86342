//! Slow bodies and unread answers: limited in bytes in total and per user of a token, from any addresses.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{ATTACKER, dial};
use crate::harness::{Api, Cluster, eventually, report};

const LIMIT: Duration = Duration::from_secs(40);
/// An eighth of it is 32 MiB for all; one user has half of that, and one address as much, the least that it may have.
const OPTIONS: [&str; 2] = ["--memory-limit-bytes", "268435456"];
const FILES: &str = "/config/v1/configfiles";
const UNDER_WAY: &str = "thuban_under_way_bytes";
/// The largest body of a content; two of them are what a user may have.
const BODY_BYTES: usize = 8 << 20;
/// Larger than the kernel's buffers of one connection.
const LIST: &str = "/config/v1/configfiles/search?namespace=default&group=large&limit=100&brief=false";
const LISTED_FILES: usize = 12;
const FILE_BYTES: usize = 1 << 20;

/// The token of another user than the tests are.
async fn attacker(cluster: &Cluster) -> String {
    let grants = json!([{"role": "editor", "namespace": "*"}]);
    let made = cluster.api(1).post("/auth/v1/tokens", &json!([{"name": "attacker", "grants": grants}])).await;
    made.expect_code(200_000).body["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned()
}

async fn under_way(api: &Api) -> f64 {
    api.metric(UNDER_WAY).await.expect("the gauge is there")
}

/// Sends the head of a write with a body of `bytes` bytes, and the beginning of the body.
async fn begin(door: SocketAddr, token: &str, bytes: usize) -> TcpStream {
    let mut connection = dial(door).await.expect("the node listens");
    let head = format!(
        "POST {FILES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\nContent-Length: {bytes}\r\n\r\n{{"
    );
    connection.write_all(head.as_bytes()).await.expect("the head is taken");
    connection
}

/// The head of the answer.
async fn head(connection: &mut TcpStream) -> String {
    let (mut told, mut byte) = (Vec::new(), [0]);
    let read = async {
        while !told.ends_with(b"\r\n\r\n") {
            match connection.read(&mut byte).await {
                Ok(1) => told.push(byte[0]),
                ended => panic!("{ended:?} after {:?}", String::from_utf8_lossy(&told)),
            }
        }
    };
    tokio::time::timeout(LIMIT, read).await.expect("a refusal comes soon");
    String::from_utf8(told).expect("a head is text").to_lowercase()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_of_one_user_leave_room_to_others_and_are_refused() {
    let cluster = Cluster::start_with(1, &OPTIONS).await;
    let (api, door, token) = (cluster.api(1), cluster.ports(1).api, attacker(&cluster).await);
    let refused = eventually(LIMIT, "a body beyond what one user may have is refused", || async {
        // A slow one is given up after five seconds, so there are new ones for each look.
        let _slow = [begin(door, &token, BODY_BYTES).await, begin(door, &token, BODY_BYTES).await];
        let mut further = begin(door, &token, 1 << 20).await;
        let told = head(&mut further).await;
        if !told.starts_with("http/1.1 429") {
            return Err(told);
        }
        let held = under_way(&api).await;
        // Another user has room, even behind the same address.
        api.publish("default", "app", "application", &"x".repeat(FILE_BYTES / 2)).await;
        let mut other = begin(door, cluster.token(), 1 << 20).await;
        other.write_all(&vec![b' '; (1 << 20) - 1]).await.expect("it is read to its end");
        let other = head(&mut other).await;
        assert!(other.starts_with("http/1.1 400"), "it was read and is no JSON: {other}");
        Ok((told, held))
    })
    .await;
    report(format!("two bodies of 8 MiB that come slowly: {} bytes under way, then {:?}", refused.1, refused.0));
    assert!(refused.0.contains("retry-after: "), "{refused:?}");
    eventually(LIMIT, "what is given up is given back", || async {
        match under_way(&api).await {
            0.0 => Ok(()),
            held => Err(held.to_string()),
        }
    })
    .await;
}

/// Requests a large list on a connection of the attacker and reads almost nothing.
async fn ask(door: SocketAddr, token: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    socket.bind(SocketAddr::from((ATTACKER, 0))).expect("an address of this machine");
    let mut connection = socket.connect(door).await.expect("the node listens");
    let request = format!("GET {LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.expect("the request is taken");
    connection
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_count_until_they_are_sent() {
    let cluster = Cluster::start_with(1, &OPTIONS).await;
    let (api, door, token) = (cluster.api(1), cluster.ports(1).api, attacker(&cluster).await);
    let content = "x".repeat(FILE_BYTES);
    for number in 0..LISTED_FILES {
        let file = json!([{"namespace": "default", "group": "large", "name": format!("f{number}.txt"),
            "content": content, "format": "text"}]);
        api.post(FILES, &file).await.expect_code(200_000);
    }
    let mut unread = ask(door, &token).await;
    assert!(head(&mut unread).await.starts_with("http/1.1 200"), "the first one has room");
    let held = under_way(&api).await;
    report(format!("an answer of {LISTED_FILES} MiB that is not read: {held} bytes under way"));
    assert!(held >= (LISTED_FILES * FILE_BYTES) as f64, "{held}");
    let told = head(&mut ask(door, &token).await).await;
    assert!(told.starts_with("http/1.1 429") && told.contains("retry-after: "), "{told}");
    let read = api.get(LIST).await.expect_code(200_000);
    assert_eq!(read.amount(), LISTED_FILES as u64, "another user has room");

    drop(unread);
    eventually(LIMIT, "the client is gone, and its answer", || async {
        match under_way(&api).await {
            0.0 => Ok(()),
            held => Err(held.to_string()),
        }
    })
    .await;
    assert!(head(&mut ask(door, &token).await).await.starts_with("http/1.1 200"), "there is room again");
}
