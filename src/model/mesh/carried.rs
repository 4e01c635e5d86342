//! Reach of a rule among clients of xDS, in a word for each dialect.

use schemars::JsonSchema;
use serde::Serialize;

use super::Dialect;
use super::warning::Warning;
use super::warnings::{carries, warnings};
use crate::model::rule::Rule;

/// Extent to which clients of a dialect carry a rule out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    Yes,
    /// Some of its parts are left out, or carried out otherwise than they read.
    Partly,
    No,
}

/// Clients of xDS that carry a rule out, and what they do not carry of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CarriedOutBy {
    /// gRPC clients without a proxy.
    pub grpc: Extent,
    /// Proxies.
    pub envoy: Extent,
    /// Each as `W4: …`, with the place in the rule.
    pub warnings: Vec<String>,
}

impl CarriedOutBy {
    /// Adds a warning on the rule as a whole.
    pub fn add(&mut self, warning: &Warning) {
        for (dialect, extent) in [(Dialect::Grpc, &mut self.grpc), (Dialect::Envoy, &mut self.envoy)] {
            match extent {
                _ if !warning.is_about(dialect) => {}
                _ if warning.is_left_out => *extent = Extent::No,
                Extent::Yes => *extent = Extent::Partly,
                Extent::Partly | Extent::No => {}
            }
        }
        self.warnings.push(warning.to_string());
    }

    /// A rule that is switched off counts as one that is on.
    pub fn of(rule: &Rule) -> Self {
        let warnings = warnings(rule);
        let extent = |dialect: Dialect| match warnings.iter().any(|warning| warning.is_about(dialect)) {
            false => Extent::Yes,
            true if carries(rule, dialect) => Extent::Partly,
            true => Extent::No,
        };
        CarriedOutBy {
            grpc: extent(Dialect::Grpc),
            envoy: extent(Dialect::Envoy),
            warnings: warnings.iter().map(Warning::to_string).collect(),
        }
    }
}
