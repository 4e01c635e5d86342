//! Families of rules in addresses and as tabs.

use super::texts::{self, Texts};
use crate::model::rule::Family;

/// Families in the order of pages: those that are used most come first.
pub(super) const IN_ORDER: [Family; 4] =
    [Family::Routing, Family::RateLimit, Family::CircuitBreaker, Family::FaultDetect];

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
    IN_ORDER.iter().map(tab).collect()
}
