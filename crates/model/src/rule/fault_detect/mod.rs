//! Fault detection: probes of the instances of a service. Specification, "FaultDetectRule".

mod explain;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Body;
use super::fault::{Fault, each, filled_keys, within_range};
use super::matching::MatchString;
use super::shape::{EndRole, Shape, drop_default, shape};
use super::traffic::Api;
use crate::model::wire::{Uint32, wire_enum};

const PORT_MAX: u32 = 65_535;

wire_enum! {
    /// Protocol of a probe.
    pub enum DetectProtocol {
        Unknown = "UNKNOWN",
        Http = "HTTP",
        Tcp = "TCP",
        Udp = "UDP",
    }
}

shape! {
    /// Target and method of probes.
    ///
    /// The fields of a probe may also be given in the rule itself (the flat form). They are stored as sent, and appear
    /// to clients as an additional sub-rule until an update contains `rules` but none of these fields.
    pub struct FaultDetect / FaultDetectPatch {
        written {
            rules: Vec<FaultDetectSubRule>,
        }
        optional {
            /// Service whose instances are probed.
            #[serde(alias = "targetService")]
            target_service: DestinationService,
            service: String,
        }
        replaced by rules {
            /// Seconds between two probes.
            interval: Uint32,
            /// Seconds after which a probe has failed.
            timeout: Uint32,
            /// Port to probe, at most 65535; 0 for the port of the instance.
            port: Uint32,
            protocol: DetectProtocol,
            #[serde(alias = "httpConfig")]
            http_config: HttpProtocolConfig,
            #[serde(alias = "tcpConfig")]
            tcp_config: SocketProtocolConfig,
            #[serde(alias = "udpConfig")]
            udp_config: SocketProtocolConfig,
        }
    }
}

/// Service to which a rule applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DestinationService {
    pub service: String,
    pub namespace: String,
    /// Superseded by `api`; stored for older clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MatchString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
}

impl DestinationService {
    fn check(&self) -> Result<(), Fault> {
        self.method.iter().try_for_each(|method| method.check().map_err(|fault| fault.within("method")))?;
        self.api.iter().try_for_each(|api| api.check().map_err(|fault| fault.within("api")))
    }
}

/// A single probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FaultDetectSubRule {
    /// Seconds between two probes.
    pub interval: Uint32,
    /// Seconds after which a probe has failed.
    pub timeout: Uint32,
    /// Port to probe, at most 65535; 0 for the port of the instance.
    pub port: Uint32,
    pub protocol: DetectProtocol,
    #[serde(alias = "httpConfig", skip_serializing_if = "Option::is_none")]
    pub http_config: Option<HttpProtocolConfig>,
    #[serde(alias = "tcpConfig", skip_serializing_if = "Option::is_none")]
    pub tcp_config: Option<SocketProtocolConfig>,
    #[serde(alias = "udpConfig", skip_serializing_if = "Option::is_none")]
    pub udp_config: Option<SocketProtocolConfig>,
    pub disable: bool,
}

/// A probe by an HTTP request. Clients send it, never this server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HttpProtocolConfig {
    pub method: String,
    pub url: String,
    pub headers: Vec<MessageHeader>,
    pub body: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MessageHeader {
    pub key: String,
    pub value: String,
}

/// A probe by bytes over TCP or UDP: the bytes to send, and the good answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SocketProtocolConfig {
    pub send: String,
    pub receive: Vec<String>,
}

fn check_port(port: Uint32) -> Result<(), Fault> {
    within_range("port", port.0, 0..=PORT_MAX, "at most 65535")
}

impl HttpProtocolConfig {
    fn check(&self) -> Result<(), Fault> {
        filled_keys("http_config.headers", self.headers.iter().map(|header| &header.key))
    }
}

impl FaultDetectSubRule {
    fn check(&self) -> Result<(), Fault> {
        check_port(self.port)?;
        self.http_config.iter().try_for_each(HttpProtocolConfig::check)
    }

    /// Reports whether a probe may still wait for its answer when the next one is due. Both times are in seconds; a
    /// timeout in milliseconds is a common mistake.
    pub fn is_slower_than_its_interval(&self) -> bool {
        self.interval.0 > 0 && self.timeout > self.interval
    }
}

impl FaultDetect {
    /// Returns all probes, those of `rules` with their place, and that of the flat form.
    pub fn probes(&self) -> Vec<(String, FaultDetectSubRule)> {
        let numbered = self.rules.iter().enumerate();
        let nested = numbered.map(|(index, probe)| (format!("rules[{index}]"), probe.clone()));
        nested.chain(self.flat().map(|probe| ("the probe of the rule itself".to_owned(), probe))).collect()
    }

    /// Returns the probe in the flat form.
    fn flat(&self) -> Option<FaultDetectSubRule> {
        let is_flat = self.interval.is_some()
            || self.timeout.is_some()
            || self.port.is_some()
            || self.protocol.is_some()
            || self.http_config.is_some()
            || self.tcp_config.is_some()
            || self.udp_config.is_some();
        is_flat.then(|| FaultDetectSubRule {
            interval: self.interval.unwrap_or_default(),
            timeout: self.timeout.unwrap_or_default(),
            port: self.port.unwrap_or_default(),
            protocol: self.protocol.unwrap_or_default(),
            http_config: self.http_config.clone(),
            tcp_config: self.tcp_config.clone(),
            udp_config: self.udp_config.clone(),
            disable: false,
        })
    }
}

impl Shape for FaultDetect {
    fn blank() -> &'static str {
        r#""target_service": {"namespace": "", "service": ""}, "interval": 30, "timeout": 1, "protocol": "HTTP""#
    }

    fn check(&self) -> Result<(), Fault> {
        each("rules", &self.rules, FaultDetectSubRule::check)?;
        self.flat().iter().try_for_each(FaultDetectSubRule::check)?;
        self.target_service.iter().try_for_each(|target| target.check().map_err(|fault| fault.within("target_service")))
    }

    fn drop_empty(&mut self) {
        drop_default(&mut self.target_service);
    }

    fn as_clients_see(&self) -> Option<Body> {
        let flat = self.flat()?;
        let mut rules = self.rules.clone();
        rules.push(flat);
        let (target_service, service) = (self.target_service.clone(), self.service.clone());
        Some(Body::FaultDetect(FaultDetect { rules, target_service, service, ..FaultDetect::default() }))
    }

    fn each_end(&self, visit: &mut dyn FnMut(EndRole, &str, &str)) {
        self.target_service.iter().for_each(|target| visit(EndRole::Callee, &target.namespace, &target.service));
        self.service.iter().for_each(|service| visit(EndRole::Callee, "", service));
    }
}
