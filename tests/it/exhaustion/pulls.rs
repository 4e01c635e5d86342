//! Pulls that claim to be another client each time, with labels of maximum size: the register of clients has room for
//! others.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Memory, dial};
use crate::harness::Cluster;

const PULLS: usize = 20_000;
const HANDS: usize = 10;
const MIB_MAX: f64 = 128.0;

#[tokio::test(flavor = "multi_thread")]
async fn made_up_clients_leave_memory_and_places_to_others() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    api.publish("default", "app", "application", "a=1").await;
    let door = cluster.ports(1).compat;
    let mut memory = Memory::of(&cluster, 1);
    let labels: Vec<_> = (0..64).map(|number| format!("{number}={}", "x".repeat(60 + number % 7))).collect();
    let labels = labels.join(",");
    let hands: Vec<_> = (0..HANDS)
        .map(|hand| {
            let labels = labels.clone();
            tokio::spawn(async move {
                let mut connection = dial(door).await.expect("a place");
                let mut answer = vec![0; 16 * 1024];
                for number in 0..PULLS / HANDS {
                    let path = format!("/configs/app/default/application?ip=10.{hand}.{number}&label={labels}");
                    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nuser-agent: {}\r\n\r\n", "a".repeat(200));
                    connection.write_all(request.as_bytes()).await.expect("it is read");
                    let mut length = 0;
                    // Every answer ends with the release key.
                    while !answer[..length].ends_with(b"-1\"}") {
                        let more = connection.read(&mut answer[length..]).await.expect("an answer");
                        assert!(more > 0, "closed after {number} pulls");
                        length += more;
                    }
                }
            })
        })
        .collect();
    for hand in hands {
        hand.await.expect("no panic");
        memory.look(&cluster, 1);
    }
    memory.expect_growth_below(MIB_MAX, &format!("{PULLS} pulls of made-up clients"));
    let (kept, bytes) = (api.metric("thuban_subscribers").await, api.metric("thuban_subscribers_bytes").await);
    assert!(kept > Some(10_000.0) && bytes < Some((32 << 20) as f64), "{kept:?} clients, {bytes:?} bytes");
    let path = "/configs/app/default/application?ip=192.0.2.7";
    assert_eq!(cluster.apollo(1).get(path).await.status, 200);
    let path = "/config/v1/configfiles/subscribers?namespace=default&group=app&file_name=application&limit=1";
    let answer = api.get(path).await.expect_code(200_000);
    assert_eq!(answer.body["amount"], json!(kept.unwrap_or_default() as u64 + 1), "the honest one is remembered");
}
