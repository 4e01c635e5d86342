//! Instances as the management surface shows them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::instance::{CheckType, Instance, Location};

/// An address at which a service can be reached.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Instance")]
pub(crate) struct InstanceView<'a> {
    id: &'a str,
    service: &'a str,
    namespace: &'a str,
    vpc_id: &'a str,
    host: &'a str,
    port: u16,
    protocol: &'a str,
    version: &'a str,
    priority: u32,
    weight: u32,
    #[serde(rename = "enableHealthCheck")]
    enable_health_check: bool,
    /// Health check; absent if health is not checked.
    #[serde(rename = "healthCheck", skip_serializing_if = "Option::is_none")]
    health_check: Option<HealthCheckView>,
    healthy: bool,
    isolate: bool,
    location: &'a Location,
    metadata: &'a BTreeMap<String, String>, // bound: request
    logic_set: &'a str,
    ctime: String,
    mtime: String,
    revision: &'a str,
    /// Seconds after which a dead instance is removed; 0 for never. Absent if the service or the settings determine it.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_removed_after_s: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HealthCheck")]
struct HealthCheckView {
    r#type: CheckType,
    heartbeat: HeartbeatView,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Heartbeat")]
struct HeartbeatView {
    /// Seconds between two heartbeats.
    ttl: u32,
}

impl<'a> InstanceView<'a> {
    pub(crate) fn new(instance: &'a Instance) -> Self {
        let check = |ttl| HealthCheckView { r#type: CheckType::Heartbeat, heartbeat: HeartbeatView { ttl } };
        InstanceView {
            id: &instance.id,
            service: &instance.service,
            namespace: &instance.namespace,
            vpc_id: &instance.vpc_id,
            host: &instance.host,
            port: instance.port,
            protocol: &instance.protocol,
            version: &instance.version,
            priority: instance.priority,
            weight: instance.weight,
            enable_health_check: instance.heartbeat_ttl.is_some(),
            health_check: instance.heartbeat_ttl.map(check),
            healthy: instance.healthy,
            isolate: instance.isolate,
            location: &instance.location,
            metadata: &instance.metadata,
            logic_set: &instance.logic_set,
            ctime: instance.ctime.text(),
            mtime: instance.mtime.text(),
            revision: &instance.revision,
            dead_removed_after_s: instance.dead_removed_after_s.said(),
        }
    }
}
