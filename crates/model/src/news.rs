//! Events for webhooks.

use serde::{Deserialize, Serialize};

use super::draft::sparse;
use super::rollout::RolloutState;
use super::time::Timestamp;
use super::webhook::HookEvent;

sparse! {
    /// An event as webhooks receive it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct News {
        pub event: HookEvent,
        pub time: Timestamp,
        /// Kind of the object, as in the audit trail.
        pub kind: String,
        pub namespace: String,
        /// Group of a config file.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub group: String,
        pub name: String,
        pub release: Option<ReleaseNews>,
        pub health: Option<HealthNews>,
        pub request: Option<RequestNews>,
        pub emergency: Option<EmergencyNews>,
        pub rollout: Option<RolloutNews>,
        pub client: Option<ClientNews>,
        pub login: Option<LoginNews>,
    }
}

/// First of the clients that could not apply a release since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientNews {
    pub address: String,
    pub agent: String,
    /// Reason given by the client; a long one is cut.
    pub message: String,
    /// Number of such clients, as one node counted them.
    #[serde(default)]
    pub count: u64,
}

/// A login of a local administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginNews {
    pub user: String,
    /// Address of the client; empty if unknown.
    pub address: String,
    /// User agent that the client sent.
    pub agent: String,
}

/// State of a rollout after a step or a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutNews {
    /// Step, counted from 1.
    pub step: u32,
    /// Percentage of the clients that the rollout covers.
    pub percent: u32,
    pub state: RolloutState,
    /// Reason of a stop; a long one is cut.
    pub reason: String,
}

/// A request for approval, and a decision on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestNews {
    pub id: String,
    pub act: String,
    /// Name of the requester.
    pub user: String,
    /// Comment of the request, of the approval or of the refusal.
    pub comment: String,
    /// Author of this event: requester or approver.
    pub by: String,
}

/// An act that was performed without approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmergencyNews {
    pub user: String,
    pub reason: String,
}

/// A change of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseNews {
    pub user: String,
    pub release_name: String,
    /// Version of the release after the change.
    pub version: u64,
    /// Version in force for all clients before the change; 0 for none.
    pub from_version: u64,
    /// Comment on the change, or the reason of its failure; a long one is cut.
    pub comment: String,
}

/// Health of the instances of a service after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthNews {
    /// Instances of the service.
    pub total: u64,
    /// Instances that clients may call.
    pub healthy: u64,
    /// Instances that changed.
    pub changed: u64,
    /// Some or all of the changed instances.
    pub instances: Vec<InstanceNews>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceNews {
    pub id: String,
    pub host: String,
    pub port: u16,
    pub healthy: bool,
}
