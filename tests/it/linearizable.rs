//! Reads and writes of the same values from all sides, while leaders die and fall asleep: what the
//! clients saw must be explained by one order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Api, Cluster, Operation, OperationKind, eventually, is_linearizable, report, setting};

pub(crate) const SERVICES: &str = "/naming/v1/services";
const NAMESPACE: &str = "history";
/// Small, so that the checker can handle a value's operations.
const CLIENTS_PER_VALUE: usize = 4;
const OPERATIONS_PER_CLIENT: usize = 30;
const PACE: Duration = Duration::from_millis(60);

/// 8 values by default (`THUBAN_IT_VALUES`), each read and written by four clients through all nodes.
#[tokio::test(flavor = "multi_thread")]
async fn clients_see_one_order_while_leaders_die_and_sleep() {
    let mut cluster = Cluster::start(3).await;
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    let values: usize = setting("THUBAN_IT_VALUES", 8);
    for value in 0..values {
        add_value(&nodes[0], value).await;
    }
    let histories: Vec<Arc<Mutex<Vec<Operation>>>> = (0..values).map(|_| Arc::default()).collect();
    let mut clients = JoinSet::new();
    for client in 0..values * CLIENTS_PER_VALUE {
        let value = client % values;
        clients.spawn(use_value(nodes.clone(), client, value, PACE, histories[value].clone()));
    }
    let faults = disturb(&mut cluster, &mut clients).await;

    let mut operations = 0;
    for (value, history) in histories.iter().enumerate() {
        let history = history.lock();
        operations += history.len();
        assert!(is_linearizable(0, &history), "no order explains value {value}: {history:#?}");
    }
    report(format!("{operations} operations on {values} values under {faults} faults: one order explains them"));
    cluster.expect_equal_state().await;
}

/// Kills and pauses leaders in turn until all clients are done; returns how often.
async fn disturb(cluster: &mut Cluster, clients: &mut JoinSet<()>) -> usize {
    let mut faults = 0;
    while !clients.is_empty() {
        let leader = cluster.leader().await;
        if faults % 2 == 0 {
            cluster.kill(leader).await;
            new_leader(cluster, leader).await;
            cluster.restart(leader).await;
        } else {
            cluster.pause(leader).await;
            new_leader(cluster, leader).await;
            cluster.resume(leader).await;
            cluster.wait_ready(leader).await;
        }
        faults += 1;
        while let Some(ended) = clients.try_join_next() {
            ended.expect("a client does not panic");
        }
    }
    faults
}

/// Waits until a node other than `old` reports to be the leader.
pub(crate) async fn new_leader(cluster: &Cluster, old: u64) -> u64 {
    let others: Vec<Api> = cluster.ids().into_iter().filter(|id| *id != old).map(|id| cluster.api(id)).collect();
    let others = &others;
    eventually(Duration::from_secs(20), "another node leads", || async move {
        for api in others {
            let view = api.cluster().await?.body;
            if view["leader"].is_u64() && view["leader"] == view["self"] && view["leader"] != old {
                return Ok(view["leader"].as_u64().expect("checked"));
            }
        }
        Err(format!("none but {old}"))
    })
    .await
}

fn service(value: usize, content: u64) -> Value {
    json!({"namespace": NAMESPACE, "name": format!("value-{value}"), "comment": content.to_string()})
}

/// Makes a value, which is 0.
pub(crate) async fn add_value(api: &Api, value: usize) {
    api.post(SERVICES, &json!([service(value, 0)])).await.expect_code(200_000);
}

/// Alternates reads and writes through changing nodes, and notes what was answered.
pub(crate) async fn use_value(
    nodes: Vec<Api>,
    client: usize,
    value: usize,
    pace: Duration,
    history: Arc<Mutex<Vec<Operation>>>,
) {
    let mut pace = tokio::time::interval(pace);
    for number in 0..OPERATIONS_PER_CLIENT {
        pace.tick().await;
        let api = &nodes[(client + number) % nodes.len()];
        let begun = Instant::now();
        let noted = if number % 3 == 0 {
            write(api, value, unique(client, number)).await
        } else {
            read(api, value).await.map(|kind| (kind, true))
        };
        if let Some((kind, clear)) = noted {
            let ended = clear.then(Instant::now);
            history.lock().push(Operation { kind, begun, ended });
        }
    }
}

fn unique(client: usize, number: usize) -> u64 {
    (client * OPERATIONS_PER_CLIENT + number + 1) as u64
}

/// The write and whether its success is clear; nothing if it certainly did not happen.
async fn write(api: &Api, value: usize, content: u64) -> Option<(OperationKind, bool)> {
    let kind = OperationKind::Write(content);
    match api.try_send(Method::PUT, SERVICES, Some(&json!([service(value, content)]))).await {
        Ok(answer) if answer.code() == 200_000 => Some((kind, true)),
        Ok(answer) if answer.code() == 503_001 => None,
        Err(error) if error.is_connect() => None,
        Ok(_) | Err(_) => Some((kind, false)),
    }
}

/// Reads a value; `None` without an answer, because such a read proves nothing.
async fn read(api: &Api, value: usize) -> Option<OperationKind> {
    let path = format!("{SERVICES}?namespace={NAMESPACE}&name=value-{value}");
    let answer = api.try_send(Method::GET, &path, None).await.ok().filter(|answer| answer.code() == 200_000)?;
    let comment = answer.body["services"][0]["comment"].as_str().unwrap_or_else(|| panic!("no service in {answer}"));
    Some(OperationKind::Read(comment.parse().expect("a number was written")))
}

/// A leader that slept through its own replacement must not answer from what it knew before.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_wakes_up_replaced_does_not_tell_the_past() {
    let cluster = Cluster::start(3).await;
    cluster.api(1).post(SERVICES, &json!([service(0, 0)])).await.expect_code(200_000);
    for round in 1..=3 {
        let old = cluster.leader().await;
        cluster.pause(old).await;
        let new = new_leader(&cluster, old).await;
        cluster.api(new).put(SERVICES, &json!([service(0, round)])).await.expect_code(200_000);
        // Sent while it sleeps: they wait in its sockets, and are the first thing it does when it wakes.
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let api = cluster.api(old);
                tokio::spawn(async move { read(&api, 0).await })
            })
            .collect();
        cluster.resume(old).await;
        let mut answered = 0;
        for read in waiting {
            if let Some(kind) = read.await.expect("a read does not panic") {
                assert_eq!(kind, OperationKind::Read(round), "the woken leader told the past");
                answered += 1;
            }
        }
        report(format!("a replaced leader answered {answered} of 20 reads that waited for it, none from the past"));
        cluster.wait_ready(old).await;
    }
}
