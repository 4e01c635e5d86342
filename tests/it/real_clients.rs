//! Clients that others wrote, as published, on a real cluster.

use std::time::{Duration, Instant};

use crate::backup::{restore_all, take_backup};
use crate::harness::{Balancer, Cluster, Kind, RealClient, percentile, report, setting};
use crate::polls::await_held;

const START_LIMIT: Duration = Duration::from_secs(20);
/// A client that loses its connection pauses before the next try, 2 s at first.
const RECOVERY_LIMIT: Duration = Duration::from_secs(15);

/// Loads from one replica and sees publishes made through the others; `THUBAN_IT_PUBLISHES` sets how many.
async fn sees_publishes_made_elsewhere(kind: Kind) {
    let cluster = Cluster::start(3).await;
    cluster.api(2).publish("default", "app", "application", "number=start").await;
    cluster.expect_equal_state().await;
    let mut client = RealClient::start(kind, cluster.ports(1).compat, "app", "application").await;
    client.holds(START_LIMIT, "number", "start").await;
    let mut delays = Vec::new();
    for number in 0..setting("THUBAN_IT_PUBLISHES", 10_u64) {
        await_held(&cluster.api(1), 1).await;
        let published_through = 2 + number % 2;
        let content = format!("number={number}");
        cluster.api(published_through).publish("default", "app", "application", &content).await;
        let published = Instant::now();
        let seen = client.holds(START_LIMIT, "number", &number.to_string()).await;
        delays.push(seen.saturating_duration_since(published));
    }
    let (middle, worst) = (percentile(&mut delays, 0.5), percentile(&mut delays, 1.0));
    report(format!("{kind:?} client holds a publish made through another node after p50 {middle:?}, max {worst:?}"));
}

/// Behind a balancer, the node that holds the client's poll dies; the client continues with another.
async fn lives_on_when_its_replica_dies(kind: Kind) {
    let mut cluster = Cluster::start(3).await;
    cluster.api(1).publish("default", "app", "application", "number=start").await;
    cluster.expect_equal_state().await;
    let backends = cluster.ids().into_iter().map(|id| cluster.ports(id).compat).collect();
    let balancer = Balancer::start(backends).await;
    let mut client = RealClient::start(kind, balancer.address(), "app", "application").await;
    client.holds(START_LIMIT, "number", "start").await;
    for round in 0..2 {
        let holder = holder_of_the_poll(&cluster).await;
        assert!(balancer.busy().contains(&cluster.ports(holder).compat), "the poll does not go through the balancer");
        cluster.kill(holder).await;
        let killed = Instant::now();
        let survivor = cluster.leader().await;
        cluster.api(survivor).publish("default", "app", "application", &format!("number={round}")).await;
        let published = Instant::now();
        let seen = client.holds(RECOVERY_LIMIT, "number", &round.to_string()).await;
        report(format!(
            "{kind:?} client lost its replica and held the next publish {:?} after the kill, {:?} after the publish",
            seen - killed,
            seen.saturating_duration_since(published)
        ));
        cluster.restart(holder).await;
    }
}

/// The client has seen changes that the backup lacks, and continues with the cluster restored from it.
async fn goes_on_over_a_restore(kind: Kind) {
    let mut cluster = Cluster::start(1).await;
    let publish = |number: u32| {
        let api = cluster.api(1);
        async move { api.publish("default", "app", "application", &format!("number={number}")).await }
    };
    publish(1).await;
    let mut client = RealClient::start(kind, cluster.ports(1).compat, "app", "application").await;
    client.holds(START_LIMIT, "number", "1").await;
    let backup = cluster.file("backup");
    take_backup(&cluster, 1, &backup).await;
    for number in 2..5 {
        publish(number).await;
    }
    client.holds(START_LIMIT, "number", "4").await;
    cluster.kill_all().await;
    restore_all(&cluster, &backup).await;
    cluster.restart_all().await;
    cluster.log_in_again().await;
    client.holds(RECOVERY_LIMIT, "number", "1").await;
    cluster.api(1).publish("default", "app", "application", "number=new").await;
    client.holds(RECOVERY_LIMIT, "number", "new").await;
}

/// The one node that holds a poll; waits until there is one.
async fn holder_of_the_poll(cluster: &Cluster) -> u64 {
    crate::harness::eventually(RECOVERY_LIMIT, "a node holds the client's poll", || async {
        for id in cluster.ids() {
            if cluster.api(id).metric("thuban_long_polls_held").await == Some(1.0) {
                return Ok(id);
            }
        }
        Err("none does".to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_sees_publishes_made_elsewhere() {
    sees_publishes_made_elsewhere(Kind::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_client_sees_publishes_made_elsewhere() {
    sees_publishes_made_elsewhere(Kind::Rust).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lives_on_when_its_replica_dies() {
    lives_on_when_its_replica_dies(Kind::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_client_lives_on_when_its_replica_dies() {
    lives_on_when_its_replica_dies(Kind::Rust).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_goes_on_over_a_restore() {
    goes_on_over_a_restore(Kind::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_client_goes_on_over_a_restore() {
    goes_on_over_a_restore(Kind::Rust).await;
}
