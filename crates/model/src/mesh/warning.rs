//! Warnings about parts of a rule that xDS clients do not carry out exactly.

use std::fmt;

use super::Dialect;
use super::library::Library;

/// A part of a rule that a dialect does not carry out exactly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Number in the documentation: 4 for `W4`.
    pub number: u8,
    /// Dialects to which it applies.
    pub dialects: &'static [Dialect],
    /// Libraries of clients without a proxy to which it applies.
    pub libraries: &'static [Library],
    /// True if the part is omitted; false if it is approximated.
    pub is_left_out: bool,
    /// Place in the rule, and the reason.
    pub text: String,
}

/// Both dialects.
pub const EVERY_CLIENT: &[Dialect] = &[Dialect::Grpc, Dialect::Envoy];
/// Clients without a proxy.
pub const GRPC: &[Dialect] = &[Dialect::Grpc];
/// Proxies.
pub const ENVOY: &[Dialect] = &[Dialect::Envoy];

impl Warning {
    /// Creates a warning on an omitted part.
    pub fn left_out(number: u8, dialects: &'static [Dialect], text: impl Into<String>) -> Self {
        Warning { number, dialects, libraries: &Library::ALL, is_left_out: true, text: text.into() }
    }

    /// Creates a warning on an approximated part.
    pub fn approximate(number: u8, dialects: &'static [Dialect], text: impl Into<String>) -> Self {
        Warning { is_left_out: false, ..Warning::left_out(number, dialects, text) }
    }

    pub fn is_about(&self, dialect: Dialect) -> bool {
        self.dialects.contains(&dialect)
    }

    /// Reports whether clients without a proxy that use the library do not carry out the part exactly.
    pub fn is_about_library(&self, library: Library) -> bool {
        self.is_about(Dialect::Grpc) && self.libraries.contains(&library)
    }
}

/// Formats as `W4: …`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "W{}: {}", self.number, self.text)
    }
}
