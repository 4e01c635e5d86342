//! A zone that fails and returns: the number of log entries, their delay, the time to apply them, and the effect on
//! readers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::agents::{Connection, Surface, Zone};
use super::harness::{Api, Cluster, eventually, percentile};
use super::{LIMIT, MORTAL};

/// Between two reads of the reader that must not notice.
const READ_EVERY: Duration = Duration::from_millis(2);
/// Time for which readers are measured while nothing happens.
const QUIET: Duration = Duration::from_secs(5);

pub(crate) async fn die_and_return(cluster: &Cluster, surface: &Surface, zone: &Zone, count: usize) {
    let readers = read_while(surface, tokio::time::sleep(QUIET)).await;
    println!("readers while nothing happens: {}", summary(readers));
    for (is_silent, to) in [(true, "unhealthy"), (false, "healthy")] {
        let before = Seen::of(cluster, to).await;
        let started = Instant::now();
        zone.silence(is_silent);
        let readers = read_while(surface, changed(cluster, to, before.changes + count as f64)).await;
        let (elapsed, after) = (started.elapsed(), Seen::of(cluster, to).await);
        println!(
            "{count} become {to}: after {elapsed:.1?}, {} changes in {} log entries",
            after.changes - before.changes,
            after.log_index - before.log_index,
        );
        for (number, (before, after)) in before.applies.iter().zip(&after.applies).enumerate() {
            let (groups, seconds) = (after.0 - before.0, after.1 - before.1);
            println!("    node {}: applied in {:.0} ms, {groups} groups", number + 1, seconds * 1000.0);
        }
        println!("    readers meanwhile: {}", summary(readers));
    }
    let path = format!("/naming/v1/instances?namespace={MORTAL}&healthy=true&limit=0");
    let leader = &cluster.api(cluster.leader().await);
    eventually(LIMIT, "all came back", || async {
        let healthy = leader.get(&path).await.expect_code(200_000).amount();
        if healthy == count as u64 { Ok(()) } else { Err(format!("{healthy} of {count}")) }
    })
    .await;
}

/// Health changes by the nodes' own count so far.
struct Seen {
    changes: f64,
    log_index: f64,
    /// Groups of entries applied on each node, and the seconds that took.
    applies: Vec<(f64, f64)>,
}

impl Seen {
    async fn of(cluster: &Cluster, to: &str) -> Seen {
        let leader = cluster.api(cluster.leader().await);
        let mut applies = Vec::new();
        for id in cluster.running() {
            let api = cluster.api(id);
            applies.push((
                metric(&api, "thuban_apply_duration_seconds_count").await,
                metric(&api, "thuban_apply_duration_seconds_sum").await,
            ));
        }
        let log_index = metric(&leader, "thuban_raft_last_log_index").await;
        Seen { changes: changes(&leader, to).await, log_index, applies }
    }
}

async fn metric(api: &Api, series: &str) -> f64 {
    api.metric(series).await.unwrap_or_default()
}

async fn changes(leader: &Api, to: &str) -> f64 {
    metric(leader, &format!("thuban_instance_health_changes_total{{to=\"{to}\"}}")).await
}

/// Waits until the leader has reported this many changes.
async fn changed(cluster: &Cluster, to: &str, wanted: f64) {
    let leader = &cluster.api(cluster.leader().await);
    eventually(LIMIT, "the zone has changed", || async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let seen = changes(leader, to).await;
        if seen >= wanted { Ok(()) } else { Err(format!("{seen} of {wanted}")) }
    })
    .await;
}

/// Durations of reads of each node until `done`.
async fn read_while(surface: &Surface, done: impl Future<Output = ()>) -> Vec<Duration> {
    let over = CancellationToken::new();
    let request = surface.get("/naming/v1/instances?id=nobody&consistency=local");
    let readers: Vec<JoinHandle<Vec<Duration>>> = surface
        .addresses
        .iter()
        .map(|address| tokio::spawn(read_until(*address, request.clone(), over.clone())))
        .collect();
    done.await;
    over.cancel();
    let mut all = Vec::new();
    for reader in readers {
        all.extend(reader.await.expect("no panic"));
    }
    all
}

async fn read_until(address: SocketAddr, request: Vec<u8>, over: CancellationToken) -> Vec<Duration> {
    let mut connection = Connection::open(address).await.expect("the surface listens");
    let mut ticks = interval(READ_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut taken = Vec::new();
    while over.run_until_cancelled(ticks.tick()).await.is_some() {
        let started = Instant::now();
        connection.ask(&request).await.expect("an answer");
        taken.push(started.elapsed());
    }
    taken
}

fn summary(mut taken: Vec<Duration>) -> String {
    let (count, median) = (taken.len(), percentile(&mut taken, 0.5));
    let (p99, max) = (percentile(&mut taken, 0.99), percentile(&mut taken, 1.0));
    format!("{count} reads, median {median:.1?}, p99 {p99:.1?}, longest {max:.1?}")
}
