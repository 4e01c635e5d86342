//! `/naming/v1` and `/core/v1` without the rules: namespaces, services, aliases, instances; `/v1/RegisterInstance`,
//! `/v1/DeregisterInstance`, `/v1/Heartbeat` and `/v1/prometheus/targets`.

pub(crate) mod aliases;
pub(crate) mod drain;
pub(crate) mod heartbeats;
pub(crate) mod instances;
pub(crate) mod lists;
pub(crate) mod namespaces;
pub(crate) mod services;
pub(crate) mod targets;
