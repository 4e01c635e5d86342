//! Events for webhooks: what happened, to what.

use serde::{Deserialize, Serialize};

use super::draft::sparse;
use super::rollout::RolloutState;
use super::time::Timestamp;
use super::webhook::HookEvent;

sparse! {
    /// Event as webhooks receive it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct News {
        pub event: HookEvent,
        pub time: Timestamp,
        /// As the audit trail calls it.
        pub kind: String,
        pub namespace: String,
        /// Of a config file.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub group: String,
        pub name: String,
        pub release: Option<ReleaseNews>,
        pub health: Option<HealthNews>,
        pub request: Option<RequestNews>,
        pub emergency: Option<EmergencyNews>,
        pub rollout: Option<RolloutNews>,
        pub client: Option<ClientNews>,
    }
}

/// First of the clients that could not apply a release since the last time that it was told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientNews {
    pub address: String,
    pub agent: String,
    /// Its reason; only the beginning of a long one.
    pub message: String,
    /// Number of these clients, as one node counted them.
    #[serde(default)]
    pub count: u64,
}

/// Rollout by steps after one of them, or after its stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutNews {
    /// Counts from 1.
    pub step: u32,
    /// Of the clients that it reaches.
    pub percent: u32,
    pub state: RolloutState,
    /// Of a stop; only the beginning of a long one.
    pub reason: String,
}

/// Request for approval, and what somebody said to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestNews {
    pub id: String,
    pub act: String,
    /// Name of whoever asked.
    pub user: String,
    /// Of the request, of the approval or of the refusal.
    pub comment: String,
    /// Name of whoever asked, approved or refused.
    pub by: String,
}

/// An act that was done without approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmergencyNews {
    pub user: String,
    pub reason: String,
}

/// Change of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseNews {
    pub user: String,
    pub release_name: String,
    /// Of the release, afterwards.
    pub version: u64,
    /// Version that was in force for all clients before; 0 for none.
    pub from_version: u64,
    /// Comment on the change, or the reason why it failed; only the beginning of a long one.
    pub comment: String,
}

/// Health of the instances of a service after some of them changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthNews {
    /// Instances of the service.
    pub total: u64,
    /// Those that clients may call.
    pub healthy: u64,
    /// Instances that changed now.
    pub changed: u64,
    /// Some or all of those.
    pub instances: Vec<InstanceNews>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceNews {
    pub id: String,
    pub host: String,
    pub port: u16,
    pub healthy: bool,
}
