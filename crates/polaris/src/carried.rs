//! Extent to which Polaris' SDKs carry out a rule.

use super::loss::Loss;
use super::{breakers, limits, nearby, probes, routing};
use crate::model::mesh::carried::{CarriedOutBy, Extent};
use crate::model::rule::Rule;

/// Extent to which SDKs carry out a rule, and the parts that they do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdkExtent {
    pub extent: Extent,
    pub losses: Vec<Loss>,
}

impl SdkExtent {
    /// Returns the extent of a rule, as if it were enabled.
    pub fn of(rule: &Rule) -> SdkExtent {
        let found = routing::losses(rule)
            .or_else(|| nearby::losses(rule))
            .or_else(|| limits::losses(rule))
            .or_else(|| breakers::losses(rule))
            .or_else(|| probes::losses(rule));
        let (mut losses, carries_any) = found.unwrap_or_default();
        losses.sort();
        losses.dedup();
        let extent = match losses.is_empty() {
            true => Extent::Yes,
            false if carries_any => Extent::Partly,
            false => Extent::No,
        };
        SdkExtent { extent, losses }
    }

    /// Adds the extent to those of other clients.
    pub fn add_to(&self, by: &mut CarriedOutBy) {
        by.set_polaris(self.extent, self.losses.iter().map(Loss::to_string).collect());
    }
}
