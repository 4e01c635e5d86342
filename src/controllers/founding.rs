//! Founding of the cluster and announcement of its nodes. The first leader names the cluster and creates the
//! administrator; each node proposes the addresses at which clients reach it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Controllers;
use crate::catalog::Command;
use crate::catalog::nodes::NodeRecord;
use crate::format::level::Level;
use crate::model::access::{CLUSTER, Founder};
use crate::raft::clock;
use crate::raft::node::Node;

/// Pause between two checks.
const ROUND: Duration = Duration::from_millis(200);
/// Time for which the first leader waits for the levels of all founders.
const FOUNDERS_WITHIN: Duration = Duration::from_secs(3);

/// Parameters of founding and announcement.
#[derive(Default)]
pub struct FoundingSettings {
    /// Advertised addresses of the two surfaces.
    pub api: String,
    pub compat: String,
    /// Advertised address of gRPC; empty if it is off.
    pub grpc: String,
    /// Hash of the administrator's password, used if this node founds the cluster.
    pub admin_password_hash: String,
}

/// Founds the cluster, announces this node and ties its data directory to the cluster, for as long as the node runs.
pub(super) async fn keep(node: Node, controllers: Arc<Controllers>) {
    let mut leads_since = None;
    loop {
        let leads = node.leader() == Some(node.id());
        leads_since = leads.then(|| leads_since.unwrap_or_else(Instant::now));
        // A node that has not caught up may not know what the log has already.
        if node.has_caught_up() && node.leader().is_some() {
            found(&node, &controllers.founding, leads_since).await;
            announce(&node, &controllers.founding).await;
        }
        remember_cluster(&node);
        // Ends early when the node has caught up: at the start of a cluster, the operator waits for the next step.
        let _ = timeout(ROUND, node.caught_up()).await;
    }
}

/// Names the cluster and creates the administrator, on the first leader. Waits a moment for the other founders, so that
/// a new cluster uses their common level from its first entry on.
async fn found(node: &Node, settings: &FoundingSettings, leads_since: Option<Instant>) {
    let Some(leads_since) = leads_since else { return };
    if node.state().catalog().nodes.cluster_id().is_some() {
        return;
    }
    let level = match node.common_level() {
        Some(common) => common,
        None if leads_since.elapsed() < FOUNDERS_WITHIN => return,
        None => Level::FIRST,
    };
    let Some(lead) = node.lead() else { return };
    clock::settle(node, lead.term()).await;
    let admin = Founder::administrator(
        hex::encode(rand::random::<[u8; 16]>()),
        settings.admin_password_hash.clone(),
        node.now(),
    );
    let cluster_id = hex::encode(rand::random::<[u8; 16]>());
    match node.propose(CLUSTER, Command::Bootstrap { cluster_id: cluster_id.clone(), admin, level }).await {
        Ok(_) => tracing::info!(cluster.id = cluster_id, "cluster founded"),
        Err(error) => tracing::warn!(%error, "the cluster could not be founded yet"),
    }
}

/// Announces the addresses at which clients reach this node.
async fn announce(node: &Node, settings: &FoundingSettings) {
    let instance = node.store().identity().instance;
    let mut record = NodeRecord::new(node.id(), instance, settings.api.clone(), settings.compat.clone());
    record.version = env!("CARGO_PKG_VERSION").to_owned();
    record.levels = node.store().levels();
    record.grpc.clone_from(&settings.grpc);
    let is_known = {
        let catalog = node.state().catalog();
        catalog.nodes.cluster_id().is_none()
            || catalog.nodes.get(node.id()).is_some_and(|known| *known == record || known.removed)
    };
    if !is_known && let Err(error) = node.propose(CLUSTER, Command::Announce(record)).await {
        tracing::debug!(%error, "this node could not announce itself yet");
    }
}

/// Ties the data directory to the cluster, so that any other refuses it.
fn remember_cluster(node: &Node) {
    if node.store().identity().cluster_id.is_some() {
        return;
    }
    let cluster_id = node.state().catalog().nodes.cluster_id().map(str::to_owned);
    if let Some(cluster_id) = cluster_id
        && let Err(error) = node.store().set_cluster_id(&cluster_id)
    {
        tracing::error!(%error, "the cluster id could not be stored in the data directory");
    }
}
