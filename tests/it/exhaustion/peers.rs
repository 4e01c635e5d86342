//! The peer port before anybody has proved anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;

use super::dial;
use crate::harness::{Cluster, eventually, report};

/// Connections that the attacker keeps open at each node, silent, and opens anew when they are closed.
const SILENT: usize = 100;
/// Descriptors that a node may spend on strangers, and some for what it does itself meanwhile.
const DESCRIPTORS_MORE_MAX: usize = 64;
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_keep_a_restarted_node_out() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let victim = cluster.followers().await[0];
    let files_before = cluster.process(leader).open_files();

    let (goes_on, opened) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let mut attackers = Vec::new();
    for id in cluster.ids() {
        let door = cluster.ports(id).peer;
        for _ in 0..SILENT {
            let (goes_on, opened) = (goes_on.clone(), opened.clone());
            attackers.push(tokio::spawn(async move {
                while goes_on.load(Ordering::Relaxed) {
                    match dial(door).await {
                        Ok(mut connection) => {
                            opened.fetch_add(1, Ordering::Relaxed);
                            // Until it is closed from the other side.
                            let _ = connection.read(&mut [0; 1]).await;
                        }
                        // The node is down; its port returns.
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
            }));
        }
    }
    eventually(LIMIT, "strangers are sent away", || async {
        let series = r#"thuban_peer_connections_refused_total{reason="crowded"}"#;
        match cluster.api(leader).metric(series).await {
            Some(count) if count >= SILENT as f64 => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;

    cluster.kill(victim).await;
    let began = Instant::now();
    cluster.restart(victim).await;
    report(format!("ready {:?} after its start, beside {SILENT} silent connections", began.elapsed()));
    let files = cluster.process(leader).open_files();
    assert!(files <= files_before + DESCRIPTORS_MORE_MAX, "{files_before} descriptors before, {files} now");
    let api = cluster.api(victim);
    eventually(LIMIT, "the node reaches its leader too", || async {
        let answer = api.get("/naming/v1/services").await;
        if answer.code() == 200_000 { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;

    goes_on.store(false, Ordering::Relaxed);
    attackers.iter().for_each(tokio::task::JoinHandle::abort);
    report(format!("{} connections were opened in the meantime", opened.load(Ordering::Relaxed)));
}
