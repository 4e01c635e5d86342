//! Connected clients after a restart of their node, or of all nodes: each is listed with its release again, without
//! a publish.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;

use crate::harness::{Api, Balancer, BuiltClient, ClientSettings, Cluster, Kind, RealClient, eventually, report};

/// Longer than the slowest client pauses after errors (agollo does not call a server for 30 s after each failure), and
/// than the 30 s between two pulls of one that does not poll.
const LIMIT: Duration = Duration::from_secs(200);
const FILE: &str = "application.properties";

/// A running client of an app of its own.
struct Returning {
    app: String,
    client: RealClient,
    balancer: Balancer,
}

impl Returning {
    async fn start(cluster: &Cluster, kind: Kind) -> Option<Returning> {
        let app = format!("app-{kind:?}");
        let balancer = balancer(cluster, &app).await;
        let client = RealClient::start_idle(kind, balancer.address(), &app, "application").await;
        Some(Returning { app, client, balancer })
    }

    /// `None` if its language is missing.
    async fn start_built(cluster: &Cluster, built: BuiltClient) -> Option<Returning> {
        let app = format!("app-{}-{}", built.language, built.program);
        let balancer = balancer(cluster, &app).await;
        let url = format!("http://{}", balancer.address());
        let client = RealClient::start_built(built, &url, &app, "application", &ClientSettings::default()).await?;
        Some(Returning { app, client, balancer })
    }

    /// Waits until the client is listed, once and with the current release.
    async fn expect_listed(&self, api: &Api, what: &str) {
        let path = format!("/config/v1/configfiles/subscribers?namespace=default&group={}&file_name={FILE}", self.app);
        let since = Instant::now();
        eventually(LIMIT, &format!("{} is listed {what}", self.app), || async {
            // The nodes may elect a leader meanwhile.
            let answer = api.get(&path).await;
            let rows: Vec<&Value> = answer.body["data"].as_array().into_iter().flatten().collect();
            let is_current = |row: &Value| row["current"] == true && row["version"].as_u64() > Some(0);
            match rows[..] {
                [row] if is_current(row) => Ok(()),
                _ => {
                    Err(format!("{answer}; it was answered {:?}; log:\n{}", self.balancer.answers(), self.client.log()))
                }
            }
        })
        .await;
        report(format!("{} is listed {what}: {:?}", self.app, since.elapsed()));
    }
}

/// Publishes the file of an app; returns a balancer that sends each connection to the next node.
async fn balancer(cluster: &Cluster, app: &str) -> Balancer {
    cluster.api(1).publish("default", app, FILE, "number=first\n").await;
    Balancer::start(cluster.ids().into_iter().map(|id| cluster.ports(id).compat).collect()).await
}

/// The clients of six packages, and Apollo's own in the languages that are there.
async fn all_of(cluster: &Cluster) -> Vec<Returning> {
    let packages = join_all(Kind::ALL.map(|kind| Returning::start(cluster, kind))).await;
    let built =
        join_all(BuiltClient::of_apollo().into_iter().map(|built| Returning::start_built(cluster, built))).await;
    packages.into_iter().chain(built).flatten().collect()
}

async fn expect_all(clients: &[Returning], api: &Api, what: &str) {
    join_all(clients.iter().map(|client| client.expect_listed(api, what))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_listed_again_after_their_node_was_restarted() {
    let mut cluster = Cluster::start(1).await;
    let clients = all_of(&cluster).await;
    expect_all(&clients, &cluster.api(1), "first").await;
    cluster.terminate(1).await;
    cluster.restart(1).await;
    expect_all(&clients, &cluster.api(1), "after a stop").await;
    cluster.kill(1).await;
    cluster.restart(1).await;
    expect_all(&clients, &cluster.api(1), "after a kill").await;
}

/// Pulls and polls of one client go to different nodes.
#[tokio::test(flavor = "multi_thread")]
async fn clients_are_listed_again_after_all_nodes_were_restarted() {
    let mut cluster = Cluster::start(3).await;
    let clients = all_of(&cluster).await;
    expect_all(&clients, &cluster.api(2), "first").await;
    cluster.kill_all().await;
    cluster.restart_all().await;
    expect_all(&clients, &cluster.api(2), "after all were killed").await;
    for client in &clients {
        cluster.api(3).publish("default", &client.app, FILE, "number=second\n").await;
    }
    expect_all(&clients, &cluster.api(1), "with the next release").await;
}
