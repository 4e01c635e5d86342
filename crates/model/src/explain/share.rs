//! Shares of the traffic.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// A share of the requests like the sketch; in percent on the wire, with at most two decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, JsonSchema)]
pub struct Share(f64);

impl Share {
    pub const ALL: Share = Share(1.0);
    pub const NONE: Share = Share(0.0);

    /// Returns `part` of `whole`; none if `whole` is 0.
    pub fn of(part: u64, whole: u64) -> Self {
        if whole == 0 { Share::NONE } else { Share(part as f64 / whole as f64) }
    }

    /// Returns this share of `other`.
    pub fn within(self, other: Share) -> Self {
        Share(self.0 * other.0)
    }

    pub fn without(self, other: Share) -> Self {
        Share((self.0 - other.0).max(0.0))
    }

    pub fn is_none(self) -> bool {
        self == Share::NONE
    }

    pub fn percent(self) -> f64 {
        (self.0 * 10_000.0).round() / 100.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.percent())
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.percent())
    }
}
