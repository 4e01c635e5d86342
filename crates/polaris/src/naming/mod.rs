//! Services and instances.

use crate::model::instance::{
    CheckType, HealthCheckDraft, HeartbeatDraft, Instance, InstanceDraft, Location, RemovedAfter,
};
use crate::model::service::Service;
use crate::model::wire::Uint32;
use crate::v1;
use crate::v1::health_check::HealthCheckType;

/// Namespace of a question that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Maps a service, without its secrets.
pub fn service(service: &Service) -> v1::Service {
    v1::Service {
        name: Some(service.name.clone()),
        namespace: Some(service.namespace.clone()),
        metadata: service.metadata.clone(),
        ports: Some(service.ports.clone()),
        business: Some(service.business.clone()),
        department: Some(service.department.clone()),
        cmdb_mod1: Some(service.cmdb_mod1.clone()),
        cmdb_mod2: Some(service.cmdb_mod2.clone()),
        cmdb_mod3: Some(service.cmdb_mod3.clone()),
        comment: Some(service.comment.clone()),
        token: None,
        revision: Some(service.revision.clone()),
        total_instance_count: None,
        healthy_instance_count: None,
        export_to: service.export_to.clone(),
    }
}

/// Maps an instance. Everything that SDKs take for something else when it is absent is present.
pub fn instance(instance: &Instance) -> v1::Instance {
    let health_check = instance.heartbeat_ttl.map(|ttl| v1::HealthCheck {
        r#type: HealthCheckType::Heartbeat.into(),
        heartbeat: Some(v1::HeartbeatHealthCheck { ttl: Some(ttl) }),
    });
    v1::Instance {
        id: Some(instance.id.clone()),
        service: Some(instance.service.clone()),
        namespace: Some(instance.namespace.clone()),
        host: Some(instance.host.clone()),
        port: Some(instance.port.into()),
        protocol: Some(instance.protocol.clone()),
        version: Some(instance.version.clone()),
        priority: Some(instance.priority),
        weight: Some(instance.weight),
        enable_health_check: Some(health_check.is_some()),
        health_check,
        healthy: Some(instance.healthy),
        isolate: Some(instance.isolate),
        location: Some(location(&instance.location)),
        metadata: instance.metadata.clone(),
        logic_set: Some(instance.logic_set.clone()),
        ctime: Some(instance.ctime.text()),
        mtime: Some(instance.mtime.text()),
        revision: Some(instance.revision.clone()),
        service_token: None,
        vpc_id: Some(instance.vpc_id.clone()),
    }
}

/// Maps a location. SDKs request an absent one again and again.
pub fn location(location: &Location) -> v1::Location {
    v1::Location {
        region: Some(location.region.clone()),
        zone: Some(location.zone.clone()),
        campus: Some(location.campus.clone()),
    }
}

/// Reads a registration, or the name of an instance.
pub fn draft(instance: &v1::Instance) -> InstanceDraft {
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let health_check = instance.health_check.as_ref().map(|check| {
        let ttl = check.heartbeat.as_ref().and_then(|heartbeat| heartbeat.ttl);
        HealthCheckDraft {
            kind: Some(CheckType::Heartbeat),
            heartbeat: ttl.map(|ttl| HeartbeatDraft { ttl: Some(Uint32(ttl)) }),
        }
    });
    let location = instance.location.as_ref().map(|location| Location {
        region: location.region.clone().unwrap_or_default(),
        zone: location.zone.clone().unwrap_or_default(),
        campus: location.campus.clone().unwrap_or_default(),
    });
    InstanceDraft {
        id: filled(&instance.id),
        namespace: Some(namespace_or_default(instance.namespace.as_deref()).to_owned()),
        service: instance.service.clone(),
        vpc_id: filled(&instance.vpc_id),
        host: instance.host.clone(),
        port: instance.port.map(Uint32),
        protocol: instance.protocol.clone(),
        version: instance.version.clone(),
        priority: instance.priority.map(Uint32),
        weight: instance.weight.map(Uint32),
        enable_health_check: instance.enable_health_check,
        health_check,
        healthy: instance.healthy,
        isolate: instance.isolate,
        location,
        metadata: (!instance.metadata.is_empty()).then(|| instance.metadata.clone()),
        logic_set: instance.logic_set.clone(),
        dead_removed_after_s: Some(RemovedAfter::default()),
        revision: None,
    }
}

/// Returns the parts by which an answer names the instance of its question.
pub fn named(instance: &v1::Instance, id: String) -> v1::Instance {
    v1::Instance {
        id: Some(id),
        service: instance.service.clone(),
        namespace: instance.namespace.clone(),
        vpc_id: instance.vpc_id.clone(),
        host: instance.host.clone(),
        port: instance.port,
        ..v1::Instance::default()
    }
}

/// Returns the namespace of a question.
pub fn namespace_or_default(given: Option<&str>) -> &str {
    given.filter(|namespace| !namespace.is_empty()).unwrap_or(DEFAULT_NAMESPACE)
}

#[cfg(test)]
mod tests;
