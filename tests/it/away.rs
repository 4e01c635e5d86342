//! Cost of an unreachable peer for the others: processor time and lines of log, and how soon it has
//! caught up when it is back.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Api, Cluster, Load, eventually, report};
use crate::membership::member;

const NAMESPACE: &str = "away";
/// Time for which the leader is watched while a follower is away.
const WATCHED: Duration = Duration::from_secs(4);
/// More than an idle leader of a whole cluster uses; a tenth of a core.
const PROCESSOR_SHARE_MAX: f64 = 0.10;
const LOG_BYTES_MAX: u64 = 20_000;
/// Allowance for connections of clients and files of the store; a leak of one per attempt would exceed it.
const FILES_MORE_MAX: usize = 20;
/// Less than a peer is believed to be there after its last answer.
const SHOWN_LIMIT: Duration = Duration::from_secs(2);
const LOSS_LIMIT: Duration = Duration::from_secs(10);
const BACK_LIMIT: Duration = Duration::from_secs(10);
const FLOW_LIMIT: Duration = Duration::from_secs(20);

/// Processor time and log of one process over a while.
pub(crate) struct Spent {
    pub(crate) processor_share: f64,
    pub(crate) log_bytes: u64,
}

pub(crate) async fn spent(cluster: &Cluster, id: u64, time: Duration) -> Spent {
    let log_bytes = || std::fs::metadata(cluster.log(id)).expect("there is a log").len();
    let (processor, log, began) = (cluster.process(id).processor_time(), log_bytes(), Instant::now());
    tokio::time::sleep(time).await;
    let used = cluster.process(id).processor_time() - processor;
    Spent { processor_share: used.as_secs_f64() / began.elapsed().as_secs_f64(), log_bytes: log_bytes() - log }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Away {
    Killed,
    Paused,
}

impl Away {
    async fn leave(self, cluster: &mut Cluster, id: u64) {
        match self {
            Away::Killed => cluster.kill(id).await,
            Away::Paused => cluster.pause(id).await,
        }
    }

    /// Returns when the process runs again.
    async fn come_back(self, cluster: &mut Cluster, id: u64) {
        match self {
            Away::Killed => cluster.relaunch(id).await,
            Away::Paused => cluster.resume(id).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_away_costs_next_to_nothing() {
    let mut cluster = Cluster::start(3).await;
    for away in [Away::Killed, Away::Paused] {
        let leader = cluster.leader().await;
        let follower = *cluster.followers().await.first().expect("three nodes");
        let whole = spent(&cluster, leader, Duration::from_secs(2)).await;
        let files = cluster.process(leader).open_files();
        away.leave(&mut cluster, follower).await;
        let reachable = format!("thuban_peer_reachable{{peer=\"{follower}\"}}");
        let api = cluster.api(leader);
        eventually(LOSS_LIMIT, "the leader misses the follower", || async {
            if api.metric(&reachable).await == Some(0.0) { Ok(()) } else { Err("still reachable".to_owned()) }
        })
        .await;
        write(&api, "while-away").await;
        let alone = spent(&cluster, leader, WATCHED).await;
        report(format!(
            "follower {away:?}: the idle leader used {:.1} % of a core (before: {:.1} %) and logged {} bytes in \
             {WATCHED:?}",
            alone.processor_share * 100.0,
            whole.processor_share * 100.0,
            alone.log_bytes
        ));
        assert!(alone.processor_share < whole.processor_share + PROCESSOR_SHARE_MAX, "{}", alone.processor_share);
        assert!(alone.log_bytes < LOG_BYTES_MAX, "{} bytes of log", alone.log_bytes);

        let load_bytes = under_load(&cluster, leader).await;
        assert!(load_bytes < LOG_BYTES_MAX, "{load_bytes} bytes of log under load");

        away.come_back(&mut cluster, follower).await;
        let back = Instant::now();
        write(&api, "when-back").await;
        let follower_api = cluster.api(follower);
        eventually(FLOW_LIMIT, "the follower has what was written", || has(&follower_api, "when-back")).await;
        report(format!("follower {away:?}: caught up {:?} after it was back", back.elapsed()));
        // It may have caught up before its connection for questions is back.
        eventually(BACK_LIMIT, "the leader has told of it", || async { told_once(&cluster, leader, follower) }).await;
        cluster.wait_ready(follower).await;
        let process = cluster.process(leader);
        let (files_now, resident) = (process.open_files(), process.resident_bytes());
        report(format!("follower {away:?}: {files_now} files open (before: {files}), {resident} bytes resident"));
        assert!(files_now < files + FILES_MORE_MAX, "{files_now} files are open, {files} were before");
    }
}

/// A broken connection takes precedence over the answer that it delivered a moment ago.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_killed_is_shown_as_away_at_once() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let followers = cluster.followers().await;
    let (killed, other) = (followers[0], followers[1]);
    cluster.kill(killed).await;
    for id in [leader, other] {
        let api = cluster.api(id);
        eventually(SHOWN_LIMIT, "it is shown as away", || async {
            match member(&api, killed).await {
                Some(seen) if seen["reachable"] == false => Ok(()),
                seen => Err(format!("node {id} shows {seen:?}")),
            }
        })
        .await;
        let there = member(&api, leader).await.expect("a member");
        assert_eq!(there["reachable"], true, "{there}");
    }
}

async fn write(api: &Api, name: &str) {
    api.post("/naming/v1/services", &json!([{"namespace": NAMESPACE, "name": name}])).await;
}

async fn has(api: &Api, name: &str) -> Result<(), String> {
    let path = format!("/naming/v1/services?consistency=local&namespace={NAMESPACE}&name={name}");
    match api.try_send(reqwest::Method::GET, &path, None).await {
        Ok(answer) if answer.code() == 200_000 && answer.amount() == 1 => Ok(()),
        Ok(answer) => Err(answer.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Bytes that the leader logs while it writes without the follower.
async fn under_load(cluster: &Cluster, leader: u64) -> u64 {
    let load = Load::start(NAMESPACE, 4, vec![(leader, cluster.api(leader))]);
    load.flows(FLOW_LIMIT, 20).await;
    let spent = spent(cluster, leader, Duration::from_secs(2)).await;
    load.stop().await;
    spent.log_bytes
}

/// One line when the follower was lost and one when it was back, each time that it was away.
fn told_once(cluster: &Cluster, leader: u64, follower: u64) -> Result<(), String> {
    let log = std::fs::read_to_string(cluster.log(leader)).expect("there is a log");
    let lines = |text: &str| {
        let of_peer = format!("peer={follower} ");
        log.lines().filter(|line| line.contains(text) && line.contains(&of_peer)).count()
    };
    let (lost, back) = (lines("lost connection to a node"), lines("reconnected to a node"));
    match lost {
        1..=3 if lost == back => Ok(()),
        _ => Err(format!("lost {lost} times, back {back} times:\n{log}")),
    }
}
