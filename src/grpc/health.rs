//! Readiness of the node, reported by `grpc.health.v1` and watched by streams.

use std::time::Duration;

use tokio::sync::watch;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, HealthService};

use super::HealthWatch;
use crate::proto::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use crate::raft::node::Node;

/// Intervals between two readiness checks: until the node is ready for the first time, and later.
const FIRST_LOOK_PAUSE: Duration = Duration::from_millis(50);
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Service name that means the whole node.
const WHOLE: &str = "";

/// State of the node as seen by streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeHealth {
    pub is_ready: bool,
    /// Set once the node was ready for the first time.
    pub was_ready: bool,
    /// Reason for which the node has stopped serving for good.
    pub out_of_service: Option<String>,
}

/// Polls the readiness of a node and reports it to load balancers.
pub struct Health {
    reporter: HealthReporter,
    seen: watch::Sender<NodeHealth>,
}

impl Default for Health {
    fn default() -> Health {
        Health { reporter: HealthReporter::new(), seen: watch::Sender::default() }
    }
}

impl Health {
    /// Returns a receiver for changes of the state.
    pub fn seen(&self) -> HealthWatch {
        self.seen.subscribe()
    }

    pub(super) fn service(&self) -> tonic_health::pb::health_server::HealthServer<HealthService> {
        tonic_health::pb::health_server::HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    /// Returns a copy for [`Self::follow`].
    pub fn follower(&self) -> Health {
        Health { reporter: self.reporter.clone(), seen: self.seen.clone() }
    }

    /// Polls the readiness until the future is dropped.
    pub async fn follow(self, node: Node) {
        let mut told = None;
        loop {
            let is_ready = node.is_ready().await;
            // Streams are notified first, so that a client that sees SERVING is served.
            self.note(is_ready, node.out_of_service());
            // The reporter notifies its watchers of every set value, even if it is unchanged.
            if told.replace(is_ready) != Some(is_ready) {
                self.tell(is_ready).await;
            }
            let was_ready = self.seen.borrow().was_ready;
            tokio::time::sleep(if was_ready { LOOK_PAUSE } else { FIRST_LOOK_PAUSE }).await;
        }
    }

    /// Sets the serving status for load balancers.
    async fn tell(&self, is_ready: bool) {
        let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in [WHOLE, <AggregatedDiscoveryServiceServer<()> as NamedService>::NAME] {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Notifies the streams.
    fn note(&self, is_ready: bool, out_of_service: Option<&str>) {
        self.seen.send_if_modified(|seen| {
            let was_ready = seen.was_ready || is_ready;
            let now = NodeHealth { is_ready, was_ready, out_of_service: out_of_service.map(str::to_owned) };
            std::mem::replace(seen, now.clone()) != now
        });
    }
}
