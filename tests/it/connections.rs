//! More connections than file descriptors: existing clients are served, new ones are closed, and the cluster has the
//! descriptors that it needs.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Api, Cluster, Raw, RawAnswer, eventually, report};

const LIMIT: Duration = Duration::from_secs(20);
/// Descriptors of a node, and half of them for connections.
const DESCRIPTORS: u32 = 256;
const FLOOD: usize = 400;

async fn ask(connection: &mut Raw, request: String) -> RawAnswer {
    assert!(connection.send(&request).await, "the connection is open");
    connection.answer().await.unwrap_or_else(|| panic!("no answer to {request}"))
}

/// Returns the value of a series, read over an open connection.
async fn metric(connection: &mut Raw, series: &str) -> f64 {
    let text = ask(connection, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()).await.body;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series}")).parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_connections_leaves_the_node_its_descriptors() {
    let cluster = Cluster::start_under(3, DESCRIPTORS, &[]).await;
    let (leader, follower) = (cluster.leader().await, cluster.followers().await[0]);
    let mut honest = Raw::connect(cluster.ports(leader).api).await;
    assert_eq!(ask(&mut honest, "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()).await.status, 200);

    // One address has half of the connections at most, so the flood uses many.
    let mut flood = Vec::new();
    for number in 0..FLOOD {
        let ports = cluster.ports(leader);
        let door = if number % 2 == 0 { ports.compat } else { ports.api };
        flood.extend(dial([127, 0, 1, (number % 50) as u8], door).await);
    }
    let total = |door: &str| format!(r#"thuban_connections_refused_total{{listener="{door}",reason="total"}}"#);
    let began = Instant::now();
    let refused = loop {
        let refused = metric(&mut honest, &total("api")).await + metric(&mut honest, &total("compat")).await;
        if refused >= (FLOOD - DESCRIPTORS as usize / 2) as f64 {
            break refused;
        }
        assert!(began.elapsed() < LIMIT, "{refused} were closed");
    };
    report(format!("{refused} of {FLOOD} connections were closed by a node with {DESCRIPTORS} descriptors"));

    let token = cluster.token();
    let body = json!([{"namespace": "default", "name": "written-in-the-flood"}]).to_string();
    let length = body.len();
    let head = format!("host: x\r\nauthorization: {token}\r\ncontent-type: application/json");
    let write = format!("POST /naming/v1/services HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
    assert_eq!(ask(&mut honest, write).await.code(), 200_000, "who is in is served");
    let forwarded = json!([{"namespace": "default", "name": "written-at-a-follower"}]);
    cluster.api(follower).post("/naming/v1/services", &forwarded).await.expect_code(200_000);
    let order = format!("POST /admin/v1/cluster/snapshot HTTP/1.1\r\n{head}\r\ncontent-length: 2\r\n\r\n{{}}");
    assert_eq!(ask(&mut honest, order).await.code(), 200_000, "a snapshot can be written");
    let ready = ask(&mut honest, "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()).await;
    assert_eq!((ready.status, cluster.leader_seen_by(follower).await), (200, Some(leader)), "nothing has failed");

    drop(flood);
    let fresh = Api::unpooled(cluster.ports(leader).api);
    eventually(LIMIT, "there are places again", || fresh.health("/livez")).await;
    cluster.expect_equal_state().await;
}

/// A connection from an address.
pub(crate) async fn dial(from: [u8; 4], door: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    socket.connect(door).await
}

/// However few places there are, and whatever the flag allows, over both listeners.
#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_half_of_the_places_at_most() {
    let cluster = Cluster::start_under(1, DESCRIPTORS, &[]).await;
    let (ports, half) = (cluster.ports(1), DESCRIPTORS as usize / 4);
    let mut held = Vec::new();
    for number in 0..FLOOD {
        let door = if number % 2 == 0 { ports.compat } else { ports.api };
        held.extend(dial([127, 0, 0, 9], door).await);
    }
    let mut honest = Raw::connect(ports.api).await;
    let refused = |door: &str| format!(r#"thuban_connections_refused_total{{listener="{door}",reason="address"}}"#);
    let began = Instant::now();
    loop {
        let count = metric(&mut honest, &refused("api")).await + metric(&mut honest, &refused("compat")).await;
        if count == (FLOOD - half) as f64 {
            break;
        }
        assert!(began.elapsed() < LIMIT, "{count} were closed of {FLOOD}, {half} are its share");
    }
    let mut other = Raw::connect(ports.compat).await;
    assert_eq!(ask(&mut other, "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_only_so_many_connections() {
    let cluster = Cluster::start_with(1, &["--connections-per-address", "20"]).await;
    let ports = cluster.ports(1);
    let mut honest = Raw::connect(ports.api).await;
    let alive = || "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n".to_owned();
    assert_eq!(ask(&mut honest, alive()).await.status, 200);
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(Raw::connect(ports.compat).await);
    }
    let last = held.last_mut().expect("thirty of them");
    last.send("GET /configs/a/default/b HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(last.closed().await.is_empty(), "it is closed as soon as it asks, without an answer");
    let series = r#"thuban_connections_refused_total{listener="compat",reason="address"}"#;
    let refused = metric(&mut honest, series).await;
    let open = metric(&mut honest, r#"thuban_connections{listener="compat"}"#).await;
    assert!((11.0..=20.0).contains(&refused) && open + refused == 30.0, "{refused} of 30 refused, {open} open");
    drop(held);
    eventually(LIMIT, "the places are free again", || async {
        let mut next = Raw::connect(ports.compat).await;
        // A check of health would be answered without a place too.
        let pull = "GET /configs/a/default/b HTTP/1.1\r\nhost: x\r\n\r\n";
        if next.send(pull).await && next.answer().await.is_some() { Ok(()) } else { Err("closed".to_owned()) }
    })
    .await;
}
