//! Parts of a rule that Polaris' SDKs do not carry out exactly.

use std::fmt;

/// A part of a rule that SDKs do not carry out exactly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// Number in the documentation: 4 for `P4`.
    pub number: u8,
    /// True if the part is omitted; false if it is approximated.
    pub is_left_out: bool,
    /// Place in the rule, and the reason.
    pub text: String,
}

impl Loss {
    /// Creates a loss of an omitted part.
    pub(crate) fn left_out(number: u8, text: impl Into<String>) -> Loss {
        Loss { number, is_left_out: true, text: text.into() }
    }

    /// Creates a loss of a part that SDKs carry out approximately.
    pub(crate) fn approximate(number: u8, text: impl Into<String>) -> Loss {
        Loss { number, is_left_out: false, text: text.into() }
    }
}

/// Formats as `P4: …`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}: {}", self.number, self.text)
    }
}
