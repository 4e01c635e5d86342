//! Families of rules in addresses and as tabs.

use super::texts::{self, Texts};
use crate::model::rule::Family;

/// Returns the family that a path names.
pub(super) fn family_of(kind: &str) -> Option<Family> {
    Family::ALL.iter().copied().find(|family| family.kind() == kind)
}

/// A family as a tab.
pub(super) struct Tab {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) is_current: bool,
}

pub(super) fn tabs(t: &Texts, current: Family) -> Vec<Tab> {
    let tab =
        |family: &Family| Tab { name: texts::family(t, *family), kind: family.kind(), is_current: *family == current };
    // The families that are used most come first.
    let order = [Family::Routing, Family::RateLimit, Family::CircuitBreaker, Family::FaultDetect];
    order.iter().map(tab).collect()
}
