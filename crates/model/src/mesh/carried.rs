//! Extent to which xDS clients carry out a rule, per dialect, kind of proxy and gRPC library, and SDKs of Polaris.

use schemars::JsonSchema;
use serde::Serialize;

use super::Dialect;
use super::library::Library;
use super::warning::Warning;
use super::warnings::{carries, gateway_carries, warnings};
use crate::model::rule::{Body, Rule};

/// Number of the warning on a caller that a proxy does not know.
const NO_CALLER: u8 = 6;

/// Extent to which clients of a kind carry out a rule, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    No,
    /// Some parts are omitted, or approximated.
    Partly,
    Yes,
}

/// Extent to which clients of one kind carry out a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LibraryExtent")]
pub struct ExtentOfClient {
    pub word: Extent,
    /// Warnings about these clients, separated by `; `; empty with `yes`.
    pub reason: String,
}

/// Extents by kind of proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByProxy {
    /// Proxies next to instances.
    pub sidecar: ExtentOfClient,
    /// Proxies before services, which have no caller of their own.
    pub gateway: ExtentOfClient,
}

/// Extents by gRPC library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByLibrary {
    /// Library of C++, Python, Ruby and PHP.
    pub core: ExtentOfClient,
    pub go: ExtentOfClient,
    pub java: ExtentOfClient,
    pub node: ExtentOfClient,
}

/// Extents to which clients carry out a rule, and the parts that they do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CarriedOutBy {
    /// gRPC clients without a proxy: the lowest extent of their libraries.
    pub grpc: Extent,
    pub grpc_libraries: ByLibrary,
    /// Proxies.
    pub envoy: Extent,
    pub envoy_proxies: ByProxy,
    /// SDKs of Polaris.
    pub polaris: Extent,
    pub polaris_sdks: ExtentOfClient,
    /// Warnings as `W4: …`, or `P4: …` for SDKs of Polaris, with the place in the rule.
    pub warnings: Vec<String>,
}

impl ExtentOfClient {
    /// Returns the extent for the warnings about these clients; `carries_any` reports whether they carry out any part.
    fn of<'a>(about: impl Iterator<Item = &'a Warning>, carries_any: impl FnOnce() -> bool) -> Self {
        let reasons: Vec<String> = about.map(ToString::to_string).collect();
        let word = match reasons.is_empty() {
            true => Extent::Yes,
            false if carries_any() => Extent::Partly,
            false => Extent::No,
        };
        ExtentOfClient { word, reason: reasons.join("; ") }
    }

    fn of_library(rule: &Rule, library: Library, warnings: &[Warning]) -> Self {
        let about = warnings.iter().filter(|warning| warning.is_about_library(library));
        ExtentOfClient::of(about, || carries(rule, Dialect::Grpc, library))
    }

    fn add(&mut self, warning: &Warning) {
        self.word.lessen(warning);
        let between = if self.reason.is_empty() { "" } else { "; " };
        self.reason.push_str(&format!("{between}{warning}"));
    }
}

impl Extent {
    /// Lowers the extent for a warning on the whole rule.
    fn lessen(&mut self, warning: &Warning) {
        *self = (*self).min(if warning.is_left_out { Extent::No } else { Extent::Partly });
    }
}

impl ByLibrary {
    fn of(rule: &Rule, warnings: &[Warning]) -> Self {
        let of = |library| ExtentOfClient::of_library(rule, library, warnings);
        ByLibrary { core: of(Library::Core), go: of(Library::Go), java: of(Library::Java), node: of(Library::Node) }
    }

    fn all_mut(&mut self) -> [(Library, &mut ExtentOfClient); 4] {
        let ByLibrary { core, go, java, node } = self;
        [(Library::Core, core), (Library::Go, go), (Library::Java, java), (Library::Node, node)]
    }

    fn least(&self) -> Extent {
        let ByLibrary { core, go, java, node } = self;
        core.word.min(go.word).min(java.word).min(node.word)
    }
}

impl ByProxy {
    fn of(rule: &Rule, warnings: &[Warning]) -> Self {
        let about = warnings.iter().filter(|warning| warning.is_about(Dialect::Envoy));
        // Routing by the caller fails at gateways alone; limits are counted next to the instances alone.
        let is_routing = matches!(rule.body, Body::Routing(_));
        let about_sidecar = about.clone().filter(|warning| !(is_routing && warning.number == NO_CALLER));
        let about_gateway: Vec<&Warning> = match rule.body {
            Body::RateLimit(_) => warnings.iter().filter(|warning| warning.dialects.is_empty()).collect(),
            _ => about.collect(),
        };
        ByProxy {
            sidecar: ExtentOfClient::of(about_sidecar, || carries(rule, Dialect::Envoy, Library::Core)),
            gateway: ExtentOfClient::of(about_gateway.into_iter(), || gateway_carries(rule)),
        }
    }
}

impl CarriedOutBy {
    /// Adds a warning on the whole rule.
    pub fn add(&mut self, warning: &Warning) {
        if warning.is_about(Dialect::Envoy) {
            self.envoy.lessen(warning);
            self.envoy_proxies.sidecar.add(warning);
            self.envoy_proxies.gateway.add(warning);
        }
        let about = |(library, _): &(Library, &mut ExtentOfClient)| warning.is_about_library(*library);
        self.grpc_libraries.all_mut().into_iter().filter(about).for_each(|(_, extent)| extent.add(warning));
        self.grpc = self.grpc_libraries.least();
        self.warnings.push(warning.to_string());
    }

    /// Sets the extent for SDKs of Polaris, which are served another form, with the parts that they do not carry out.
    pub fn set_polaris(&mut self, word: Extent, losses: Vec<String>) {
        self.polaris = word;
        self.polaris_sdks = ExtentOfClient { word, reason: losses.join("; ") };
        self.warnings.extend(losses);
    }

    /// Returns the extents of a rule, as if it were enabled; for SDKs of Polaris without their losses.
    pub fn of(rule: &Rule) -> Self {
        let warnings = warnings(rule);
        let envoy = match warnings.iter().any(|warning| warning.is_about(Dialect::Envoy)) {
            false => Extent::Yes,
            true if carries(rule, Dialect::Envoy, Library::Core) => Extent::Partly,
            true => Extent::No,
        };
        let grpc_libraries = ByLibrary::of(rule, &warnings);
        CarriedOutBy {
            grpc: grpc_libraries.least(),
            grpc_libraries,
            envoy,
            envoy_proxies: ByProxy::of(rule, &warnings),
            polaris: Extent::Yes,
            polaris_sdks: ExtentOfClient { word: Extent::Yes, reason: String::new() },
            warnings: warnings.iter().map(Warning::to_string).collect(),
        }
    }
}

/// Returns the parts of a rule that an xDS client does not carry out exactly, by its user agent alone, each as `W27:
/// …`. Empty for a proxy, which depends on more than that.
pub fn misread(rule: &Rule, agent: &str) -> Vec<String> {
    if Dialect::of_agent(agent) == Dialect::Envoy {
        return Vec::new();
    }
    let library = Library::of_agent(agent);
    warnings(rule).iter().filter(|warning| warning.is_about_library(library)).map(Warning::to_string).collect()
}
