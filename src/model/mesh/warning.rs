//! Warnings: parts of a rule that clients of xDS do not carry out, or otherwise than it reads.

use super::Dialect;

/// A part of a rule that a dialect does not carry out as it reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Number of the warning in the documentation, `W4` for 4.
    pub number: u8,
    /// Dialects that it is about.
    pub dialects: &'static [Dialect],
    /// True if the part is left out whole; false if it is carried out approximately.
    pub is_left_out: bool,
    /// Names the place in the rule and the reason.
    pub text: String,
}
