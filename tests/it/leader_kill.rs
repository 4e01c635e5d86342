//! The leader dies under load, again and again; then all nodes die at once.

use std::time::{Duration, Instant};

use crate::harness::{Api, Cluster, Journal, Load, Outcome, percentile, report, setting};

const NAMESPACE: &str = "kills";
const WORKERS: usize = 8;
/// Acknowledged writes between two kills.
const FLOW: usize = 50;
const RESUME_LIMIT: Duration = Duration::from_secs(20);

/// 5 kills by default; `THUBAN_IT_KILLS` sets another number.
#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_leaders_are_killed() {
    let mut cluster = Cluster::start(3).await;
    let nodes: Vec<(u64, Api)> = cluster.ids().into_iter().map(|id| (id, cluster.api(id))).collect();
    let load = Load::start(NAMESPACE, WORKERS, nodes);
    let mut gaps = Vec::new();
    for _ in 0..setting("THUBAN_IT_KILLS", 5) {
        load.flows(RESUME_LIMIT, FLOW).await;
        let leader = cluster.leader().await;
        let killed = Instant::now();
        cluster.kill(leader).await;
        gaps.push(load.flows_since(killed, RESUME_LIMIT, FLOW).await - killed);
        cluster.restart(leader).await;
    }
    let journal = load.stop().await;
    tell(&journal, &mut gaps);
    expect_kept_everywhere(&cluster, &journal).await;
    cluster.expect_equal_state().await;

    cluster.kill_all().await;
    cluster.restart_all().await;
    expect_kept_everywhere(&cluster, &journal).await;
    cluster.expect_equal_state().await;
}

/// All nodes die in the middle of the load: what was acknowledged was on disk.
#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_all_nodes_are_killed_under_load() {
    let mut cluster = Cluster::start(3).await;
    let nodes: Vec<(u64, Api)> = cluster.ids().into_iter().map(|id| (id, cluster.api(id))).collect();
    let load = Load::start(NAMESPACE, WORKERS, nodes);
    load.flows(RESUME_LIMIT, FLOW).await;
    cluster.kill_all().await;
    cluster.restart_all().await;
    load.flows(RESUME_LIMIT, FLOW).await;
    let journal = load.stop().await;
    expect_kept_everywhere(&cluster, &journal).await;
    cluster.expect_equal_state().await;
}

fn tell(journal: &Journal, gaps: &mut [Duration]) {
    let acknowledged = journal.keys(&Outcome::Acknowledged).len();
    let refused = journal.keys(&Outcome::Refused).len();
    let (middle, worst) = (percentile(gaps, 0.5), percentile(gaps, 1.0));
    report(format!(
        "{} leaders killed: {acknowledged} writes acknowledged, {refused} refused, 0 allowed to be lost; \
         time without writes p50 {middle:?}, max {worst:?}",
        gaps.len()
    ));
}

async fn expect_kept_everywhere(cluster: &Cluster, journal: &Journal) {
    for id in cluster.ids() {
        journal.expect_kept(NAMESPACE, &cluster.api(id)).await;
    }
}
