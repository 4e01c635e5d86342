//! Instances of a service: their addresses and their health.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::code::{Code, Refusal};
use super::draft::{lay_over, replace, sparse};
use super::time::Timestamp;
use super::wire::{Int64, Uint32, wire_enum};
use super::{limits, name};

/// Hex digits of a SHA-1.
const MADE_ID_DIGITS: usize = 40;

/// An instance of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub id: String,
    pub namespace: String,
    pub service: String,
    pub vpc_id: String,
    pub host: String,
    pub port: u16,
    pub protocol: String,
    pub version: String,
    pub priority: u32,
    pub weight: u32,
    /// Seconds between two heartbeats; `None` if health is not checked.
    pub heartbeat_ttl: Option<u32>,
    pub healthy: bool,
    /// True if an operator keeps traffic away from it.
    pub isolate: bool,
    pub location: Location,
    pub metadata: BTreeMap<String, String>,
    pub logic_set: String,
    pub ctime: Timestamp,
    pub mtime: Timestamp,
    pub revision: String,
    /// Seconds without heartbeats after which the dead instance is removed.
    #[serde(default, skip_serializing_if = "RemovedAfter::is_unsaid")]
    pub dead_removed_after_s: RemovedAfter,
}

/// Seconds without a heartbeat after which an instance is removed. The instance, its service and the settings may
/// define it; the most specific value applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RemovedAfter(Int64);

impl RemovedAfter {
    const UNSAID: RemovedAfter = RemovedAfter(Int64(-1));

    /// Creates a value in seconds; 0 means never.
    pub fn seconds(seconds: u32) -> Self {
        RemovedAfter(Int64(i64::from(seconds)))
    }

    /// Returns the seconds, 0 for never; `None` if it is not defined here.
    pub fn said(self) -> Option<u64> {
        u64::try_from(self.0.0).ok()
    }

    pub fn is_unsaid(&self) -> bool {
        self.said().is_none()
    }

    /// Checks a value in a request.
    pub(super) fn check(field: &str, given: Option<RemovedAfter>) -> Result<(), Refusal> {
        let most = limits::DEAD_INSTANCES_REMOVED_AFTER_S_MAX;
        let fits = |given: RemovedAfter| given.said().map_or(given == RemovedAfter::UNSAID, |seconds| seconds <= most);
        if given.is_none_or(fits) {
            return Ok(());
        }
        let why = format!("{field} has to be a number of seconds up to {most}, 0 for never, or -1 to leave it unsaid");
        Err(Refusal::new(Code::InvalidParameter, why))
    }
}

impl Default for RemovedAfter {
    fn default() -> Self {
        RemovedAfter::UNSAID
    }
}

/// Location of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Location {
    pub region: String,
    pub zone: String,
    pub campus: String,
}

wire_enum! {
    /// Method of the health check. There is one, which is also used if none is named.
    pub enum CheckType { Unknown = "UNKNOWN", Heartbeat = "HEARTBEAT" }
}

/// Health check in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HealthCheckDraft {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<CheckType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<HeartbeatDraft>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HeartbeatDraft {
    /// Seconds between two heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Uint32>,
}

/// Seconds between two heartbeats that an instance may ask for.
const TTL_SECONDS: RangeInclusive<u32> = 1..=limits::HEARTBEAT_TTL_SECONDS_MAX;

impl HealthCheckDraft {
    /// Returns the ttl in seconds; the default if it is absent or out of range, as on other servers of the family.
    fn ttl(&self) -> u32 {
        self.given_ttl().filter(|ttl| TTL_SECONDS.contains(ttl)).unwrap_or(limits::HEARTBEAT_TTL_SECONDS)
    }

    fn given_ttl(&self) -> Option<u32> {
        self.heartbeat.as_ref().and_then(|heartbeat| heartbeat.ttl).map(|ttl| ttl.0)
    }
}

sparse! {
    /// Request for an instance; an absent field is not changed. It names the instance by id, or by the fields from
    /// which the id is derived.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct InstanceDraft {
        /// Id; derived from service, host and port if absent. An id of 40 hex digits must be equal to the derived one.
        pub id: Option<String>,
        /// Letters, digits and `- . / : _`, at most 64 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub namespace: Option<String>,
        /// Letters, digits and `- . / : _`, at most 128 characters.
        #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
        pub service: Option<String>,
        #[serde(alias = "vpcId")]
        pub vpc_id: Option<String>,
        pub host: Option<String>,
        /// Port number, at most 65535.
        pub port: Option<Uint32>,
        pub protocol: Option<String>,
        pub version: Option<String>,
        pub priority: Option<Uint32>,
        /// Weight; 100 if absent.
        pub weight: Option<Uint32>,
        /// True if health is checked; if absent, it is checked if `healthCheck` is given.
        #[serde(rename = "enableHealthCheck", alias = "enable_health_check")]
        pub enable_health_check: Option<bool>,
        #[serde(rename = "healthCheck", alias = "health_check")]
        pub health_check: Option<HealthCheckDraft>,
        pub healthy: Option<bool>,
        pub isolate: Option<bool>,
        pub location: Option<Location>,
        /// Map of at most 64 entries; keys of at most 128, values of at most 4096 characters.
        pub metadata: Option<BTreeMap<String, String>>,
        #[serde(alias = "logicSet")]
        pub logic_set: Option<String>,
        /// Seconds without a heartbeat after which it is removed: 0 for never, -1 for the value of its service, or
        /// otherwise the setting `dead_instances_removed_after_s`. -1 if absent in a registration.
        #[serde(alias = "deadRemovedAfterS")]
        pub dead_removed_after_s: Option<RemovedAfter>,
        /// Expected revision; an update or delete with any other than the current one is refused with 409000.
        pub revision: Option<String>,
    }
}

impl InstanceDraft {
    /// Returns the id if the caller gave one; an empty one counts as absent.
    fn given_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Returns the given id, or the one derived from the address: SHA-1 in hex, the same on every registry of the
    /// Polaris family.
    pub fn instance_id(&self) -> String {
        self.given_id().map_or_else(|| self.made_id(), str::to_owned)
    }

    fn made_id(&self) -> String {
        let (namespace, service) = self.service_name();
        let port = self.port.unwrap_or_default().0.to_string();
        let mut parts = vec![namespace, service];
        parts.extend(Some(text(&self.vpc_id)).filter(|vpc_id| !vpc_id.is_empty()));
        parts.extend([text(&self.host), &port]);
        hex::encode(Sha1::digest(parts.join("##")))
    }

    /// Returns namespace and name of the service.
    pub fn service_name(&self) -> (&str, &str) {
        (text(&self.namespace), text(&self.service))
    }

    /// Reports whether all identifying fields that are given match `instance`.
    pub fn names(&self, instance: &Instance) -> bool {
        let equal = |given: &Option<String>, value: &String| given.as_ref().is_none_or(|given| given == value);
        equal(&self.namespace, &instance.namespace)
            && equal(&self.service, &instance.service)
            && equal(&self.vpc_id, &instance.vpc_id)
            && equal(&self.host, &instance.host)
            && self.port.is_none_or(|port| port.0 == u32::from(instance.port))
    }

    /// Checks a registration, which needs namespace, service, host and port even if it gives an id.
    pub fn check_new(&self) -> Result<(), Refusal> {
        self.given_id().map_or(Ok(()), check_id)?;
        self.check_address()?;
        check_callable(text(&self.host))?;
        self.check_made_id()?;
        self.check_texts()
    }

    /// Refuses an id that looks derived but belongs to another address: it would block the registration of the instance
    /// at that address.
    fn check_made_id(&self) -> Result<(), Refusal> {
        let looks_made = |id: &&str| id.len() == MADE_ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if self.given_id().filter(looks_made).is_none_or(|id| id == self.made_id()) {
            return Ok(());
        }
        let why = "an id of 40 hex digits has to be the one that namespace, service, vpc_id, host and port make: \
                   leave it out, or give one of another form";
        Err(Refusal::new(Code::InvalidInstanceId, why))
    }

    /// Returns warnings on values that are replaced by others.
    pub fn warnings(&self) -> Vec<String> {
        let given = self.health_check.as_ref().and_then(HealthCheckDraft::given_ttl);
        let replaced = given.filter(|ttl| !TTL_SECONDS.contains(ttl));
        let warning = |ttl| {
            let (most, used) = (limits::HEARTBEAT_TTL_SECONDS_MAX, limits::HEARTBEAT_TTL_SECONDS);
            format!("healthCheck.heartbeat.ttl is {ttl} s, which is not 1 to {most}: {used} s is used")
        };
        replaced.map(warning).into_iter().collect()
    }

    pub fn check_update(&self) -> Result<(), Refusal> {
        self.check_named()?;
        self.check_texts()
    }

    /// Checks that the draft names an instance, by id, or by namespace, service, host and port.
    pub fn check_named(&self) -> Result<(), Refusal> {
        match self.given_id() {
            Some(id) => check_id(id),
            None => self.check_address(),
        }
    }

    /// Checks a draft that selects all instances of a service on a host.
    pub fn check_host(&self) -> Result<(), Refusal> {
        name::check_namespace(text(&self.namespace))?;
        name::check_service_in("service", text(&self.service))?;
        check_host(text(&self.host))
    }

    /// Checks like [`InstanceDraft::check_host`], and that `isolate` is given.
    pub fn check_isolate_host(&self) -> Result<(), Refusal> {
        self.check_host()?;
        let missing = Refusal::new(Code::InvalidInstanceIsolate, "isolate is required");
        self.isolate.map(|_| ()).ok_or(missing)
    }

    fn check_address(&self) -> Result<(), Refusal> {
        self.check_host()?;
        match self.port {
            None => Err(Refusal::new(Code::InvalidInstancePort, "port is required")),
            Some(port) if u16::try_from(port.0).is_err() => {
                Err(Refusal::new(Code::InvalidInstancePort, "port has to be at most 65535"))
            }
            Some(_) => Ok(()),
        }
    }

    fn check_texts(&self) -> Result<(), Refusal> {
        let none = Location::default();
        let location = self.location.as_ref().unwrap_or(&none);
        let place = limits::PLACE_CHARS_MAX;
        let invalid = Code::InvalidParameter;
        let texts = [
            ("protocol", text(&self.protocol), limits::PROTOCOL_CHARS_MAX, Code::InvalidInstanceProtocol),
            ("version", text(&self.version), limits::PROTOCOL_CHARS_MAX, Code::InvalidInstanceVersion),
            ("logic_set", text(&self.logic_set), place, Code::InvalidInstanceLogicSet),
            ("vpc_id", text(&self.vpc_id), place, invalid),
            ("location.region", &location.region, place, invalid),
            ("location.zone", &location.zone, place, invalid),
            ("location.campus", &location.campus, place, invalid),
        ];
        for (field, value, chars_max, code) in texts {
            name::check_length(field, value, chars_max, code)?;
        }
        RemovedAfter::check("dead_removed_after_s", self.dead_removed_after_s)?;
        self.metadata.as_ref().map_or(Ok(()), name::check_metadata)
    }

    /// Returns the instance that a registration creates, with defaults for absent fields.
    pub fn registered(&self) -> Instance {
        let (namespace, service) = self.service_name();
        let mut instance = Instance {
            id: self.instance_id(),
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            vpc_id: text(&self.vpc_id).to_owned(),
            host: text(&self.host).to_owned(),
            port: u16::try_from(self.port.unwrap_or_default().0).unwrap_or_default(),
            weight: 100,
            healthy: true,
            ..Instance::default()
        };
        self.lay_over(&mut instance);
        instance
    }

    /// Overwrites `instance` with the given fields; absent ones are not changed, nor are identifying ones.
    pub fn lay_over(&self, instance: &mut Instance) {
        replace(&mut instance.priority, &self.priority.map(|priority| priority.0));
        replace(&mut instance.weight, &self.weight.map(|weight| weight.0));
        lay_over!(self => instance:
            protocol, version, healthy, isolate, location, metadata, logic_set, dead_removed_after_s
        );
        instance.heartbeat_ttl = self.heartbeat_ttl(instance.heartbeat_ttl);
    }

    /// Returns the ttl: a health check that is enabled without a given ttl has the old one, or the default.
    fn heartbeat_ttl(&self, old: Option<u32>) -> Option<u32> {
        let given = self.health_check.as_ref().map(HealthCheckDraft::ttl);
        match self.enable_health_check {
            Some(false) => None,
            Some(true) => given.or(old).or(Some(limits::HEARTBEAT_TTL_SECONDS)),
            None => given.or(old),
        }
    }
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or("")
}

fn check_id(id: &str) -> Result<(), Refusal> {
    name::check_id(id).map_err(|refusal| Refusal::new(Code::InvalidInstanceId, refusal.detail))
}

fn check_host(host: &str) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal::new(Code::InvalidInstanceHost, why));
    if host.is_empty() {
        return refuse("host is required");
    }
    name::check_length("host", host, limits::HOST_CHARS_MAX, Code::InvalidInstanceHost)?;
    if host.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return refuse("host may not hold blanks or control characters");
    }
    Ok(())
}

/// Refuses hosts that no client can call: an address with additions such as a scheme or a port.
fn check_callable(host: &str) -> Result<(), Refusal> {
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    let why = if host.contains("://") {
        "host may not hold a scheme"
    } else if host.contains('/') {
        "host may not hold a slash: it is one address or name, not a network"
    } else if host.contains(',') {
        "host is one address or name: register an instance for each"
    } else if host.contains(['[', ']']) || (host.contains(':') && address.parse::<Ipv6Addr>().is_err()) {
        "host may not hold a port: it is a field of its own, and an IPv6 address has no brackets"
    } else {
        return Ok(());
    };
    Err(Refusal::new(Code::InvalidInstanceHost, why))
}

#[cfg(test)]
mod tests;
