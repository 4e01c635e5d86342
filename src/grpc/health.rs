//! Readiness of the node, as `grpc.health.v1` tells it and as streams depend on it.

use std::time::Duration;

use tokio::sync::watch;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, HealthService};

use super::HealthWatch;
use crate::proto::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use crate::raft::node::Node;

/// Pauses between two looks at the readiness: before the node was ready for the first time, and later.
const FIRST_LOOK_PAUSE: Duration = Duration::from_millis(50);
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Name of the whole node.
const WHOLE: &str = "";

/// State of the node, for streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeHealth {
    pub is_ready: bool,
    /// It was ready once.
    pub was_ready: bool,
    /// Reason why it shows its state to nobody, for good.
    pub out_of_service: Option<String>,
}

/// Follows the readiness of a node and tells it to balancers.
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
    /// Watches the state of the node.
    pub fn seen(&self) -> HealthWatch {
        self.seen.subscribe()
    }

    pub(super) fn service(&self) -> tonic_health::pb::health_server::HealthServer<HealthService> {
        tonic_health::pb::health_server::HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    /// Copy that [`Self::follow`] is called on.
    pub fn follower(&self) -> Health {
        Health { reporter: self.reporter.clone(), seen: self.seen.clone() }
    }

    /// Looks at the readiness for as long as it is polled.
    pub async fn follow(self, node: Node) {
        let mut told = None;
        loop {
            let is_ready = node.is_ready().await;
            // First, so that whoever is told that it serves is served.
            self.note(is_ready, node.out_of_service());
            // Whoever watches is sent whatever is set, also if it is the same.
            if told.replace(is_ready) != Some(is_ready) {
                self.tell(is_ready).await;
            }
            let was_ready = self.seen.borrow().was_ready;
            tokio::time::sleep(if was_ready { LOOK_PAUSE } else { FIRST_LOOK_PAUSE }).await;
        }
    }

    /// Tells it to balancers.
    async fn tell(&self, is_ready: bool) {
        let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in [WHOLE, <AggregatedDiscoveryServiceServer<()> as NamedService>::NAME] {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Notes it for streams.
    fn note(&self, is_ready: bool, out_of_service: Option<&str>) {
        self.seen.send_if_modified(|seen| {
            let was_ready = seen.was_ready || is_ready;
            let now = NodeHealth { is_ready, was_ready, out_of_service: out_of_service.map(str::to_owned) };
            std::mem::replace(seen, now.clone()) != now
        });
    }
}
