//! Polls that anybody may hold: many of them, of many names, of long ones.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::form_urlencoded::byte_serialize;

use super::{Memory, dial};
use crate::harness::{Cluster, Polled, eventually};

const LIMIT: Duration = Duration::from_secs(30);
/// Names of one poll, and places that each is looked for in.
const NAMES: usize = 200;
/// Limit of connections of one address; its polls may watch twenty times as many keys.
const PER_ADDRESS: usize = 60;
const KEYS_PER_ADDRESS: usize = 20 * PER_ADDRESS;

/// Returns a poll with this number and length of names.
fn poll(names: usize, chars: usize) -> String {
    let files = (0..names).map(|number| {
        let name = format!("{number:0>chars$}");
        json!({"namespaceName": name, "notificationId": -1})
    });
    let files: String = byte_serialize(serde_json::Value::from_iter(files).to_string().as_bytes()).collect();
    format!(
        "GET /notifications/v2?appId=a&cluster=c&dataCenter=d&notifications={files} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
}

/// Sends a poll of the attacker's; the connection, and the status if it is answered soon.
async fn attack(door: SocketAddr, request: &str) -> (TcpStream, Option<u16>) {
    let mut connection = dial(door).await.expect("the node listens");
    connection.write_all(request.as_bytes()).await.expect("the request is taken");
    let mut head = [0; 12];
    // A refused poll waits for a second before its answer.
    let answer = tokio::time::timeout(Duration::from_secs(3), connection.read_exact(&mut head)).await;
    let status = answer.ok().and_then(|read| {
        read.expect("an answer has a head");
        std::str::from_utf8(&head[9..]).ok()?.parse().ok()
    });
    (connection, status)
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_of_one_address_leave_room_to_others() {
    let cluster = Cluster::start_with(1, &["--connections-per-address", &PER_ADDRESS.to_string()]).await;
    let (api, apollo, door) = (cluster.api(1), cluster.apollo(1), cluster.ports(1).compat);
    api.publish("default", "app", "application", "number=1").await;
    let id = apollo.current_id("app", "default", "application").await;

    let request = poll(NAMES, 8);
    let flood = join_all((0..PER_ADDRESS / 2).map(|_| attack(door, &request))).await;
    let held = flood.iter().filter(|(_, status)| status.is_none()).count();
    let refused = flood.iter().filter(|(_, status)| *status == Some(503)).count();
    assert_eq!((held, refused), (KEYS_PER_ADDRESS / (3 * NAMES), PER_ADDRESS / 2 - held), "each has 600 keys");

    // Another client: a poll that is held and woken, and a held discovery.
    let honest = {
        let apollo = apollo.clone();
        tokio::spawn(async move { apollo.poll("app", "default", &[("application", id)]).await })
    };
    let discovery = {
        let (api, body) = (api.clone(), json!({"type": "SERVICES", "timeout_ms": 1, "service": {"namespace": "n"}}));
        tokio::spawn(async move { api.post("/v1/Discover", &body).await })
    };
    let answer = discovery.await.expect("the discovery does not panic");
    assert!([200_000, 200_001].contains(&answer.code()), "{answer}");
    eventually(LIMIT, "the honest poll is held", || async {
        match api.metric("thuban_long_polls_held").await {
            Some(polls) if polls == held as f64 + 1.0 => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    api.publish("default", "app", "application", "number=2").await;
    let polled: Polled = honest.await.expect("the poll does not panic").expect("the poll is answered");
    assert_eq!(polled.status, 200, "{polled:?}");

    // What the attacker held is free again when it leaves.
    drop(flood);
    eventually(LIMIT, "the places are free again", || async {
        match attack(door, &request).await {
            (_, None) => Ok(()),
            (_, status) => Err(format!("{status:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_are_refused_and_many_names_cost_little() {
    let cluster = Cluster::start(1).await;
    let door = cluster.ports(1).compat;
    let mut memory = Memory::of(&cluster, 1);
    for request in [poll(1, 200), poll(100, 300), poll(1, 30_000)] {
        let (_, status) = attack(door, &request).await;
        assert_eq!(status, Some(400), "{request:.120}");
    }
    // The largest that is not refused: names of 139 characters fill the request head.
    let largest = poll(NAMES, 139);
    assert!(largest.len() < 48 << 10, "{}", largest.len());
    let flood = join_all((0..300).map(|_| attack(door, &largest))).await;
    assert!(flood.iter().all(|(_, status)| status.is_none()), "these are within the share of one address");
    memory.look(&cluster, 1);
    memory.expect_growth_below(100.0, "300 polls of 200 names of 139 characters");
}

/// A client that reports ids of the far future uses only its own share, and is not held for long.
#[tokio::test(flavor = "multi_thread")]
async fn ids_of_the_far_future_take_a_place_while_they_wait() {
    let cluster = Cluster::start_with(1, &["--connections-per-address", &PER_ADDRESS.to_string()]).await;
    cluster.api(1).publish("default", "app", "application", "number=1").await;
    let future = json!({"details": {"app+default+application": 2_000_000_000_u32}}).to_string();
    let messages: String = byte_serialize(future.as_bytes()).collect();
    let path = format!("/configs/app/default/application?messages={messages}");
    let apollo = cluster.apollo(1);
    let pulls = join_all((0..PER_ADDRESS / 2).map(|_| apollo.get(&path))).await;
    assert!(pulls.iter().all(|pulled| pulled.status == 200), "{:?}", pulls.iter().map(|pulled| pulled.status));
    assert_eq!(cluster.apollo(1).get("/configs/app/default/application").await.status, 200);
}
