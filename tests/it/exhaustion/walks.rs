//! Long lists, requested repeatedly by callers who see little or nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Api, Cluster, report};

const INSTANCES: usize = 10_000;
const BATCH: usize = 100;
/// As many as a head has room for.
const PORTS: u16 = 9_000;
const LOOPS: usize = 40;
const ASKED: usize = 50;

async fn token(cluster: &Cluster, name: &str, grants: Value) -> Api {
    let made = cluster.api(1).post("/auth/v1/tokens", &json!([{"name": name, "grants": grants}])).await;
    let made = made.expect_code(200_000);
    Api::new(cluster.ports(1).api).with_token(made.body["responses"][0]["token"]["secret"].as_str().expect("a secret"))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lists_without_end_takes_no_turn_of_others() {
    let cluster = Cluster::start(1).await;
    let admin = cluster.api(1);
    for first in (0..INSTANCES).step_by(BATCH) {
        let instance = |number: usize| {
            let host = format!("10.0.{}.{}", number / 250, number % 250);
            json!({"namespace": "shop", "service": format!("s{}", number % 100), "host": host, "port": 20_000})
        };
        let batch: Vec<_> = (first..first + BATCH).map(instance).collect();
        admin.post("/naming/v1/instances", &json!(batch)).await.expect_code(200_000);
    }
    let ports: Vec<_> = (1..PORTS).map(|port| port.to_string()).collect();
    let path = format!("/naming/v1/instances?port={}", ports.join(","));
    let blind = token(&cluster, "blind", json!([])).await;
    assert_eq!(blind.get(&path).await.expect_code(200_000).amount(), 0);
    let small = token(&cluster, "small", json!([{"role": "reader", "namespace": "elsewhere"}])).await;
    let honest = token(&cluster, "honest", json!([{"role": "reader", "namespace": "shop"}])).await;
    let search = "/config/v1/configfiles/search?content=x";
    let loops: Vec<_> = (0..LOOPS)
        .map(|number| {
            let (api, path) = (if number % 2 == 0 { blind.clone() } else { small.clone() }, path.clone());
            tokio::spawn(async move {
                loop {
                    api.get(&path).await;
                    api.get(search).await;
                }
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for _ in 0..ASKED {
        let began = Instant::now();
        let listed = honest.get("/naming/v1/instances?port=20000&limit=5").await.expect_code(200_000);
        slowest = slowest.max(began.elapsed());
        assert_eq!(listed.amount(), INSTANCES as u64);
    }
    report(format!("{LOOPS} loops of long lists: another one waits {slowest:?} at the most"));
    loops.iter().for_each(tokio::task::JoinHandle::abort);
}
