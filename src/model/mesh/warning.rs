//! Warnings: parts of a rule that clients of xDS do not carry out, or otherwise than it reads.

use std::fmt;

use super::Dialect;
use super::library::Library;

/// A part of a rule that a dialect does not carry out as it reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Number of the warning in the documentation, `W4` for 4.
    pub number: u8,
    /// Dialects that it is about.
    pub dialects: &'static [Dialect],
    /// Libraries that it is about, of clients without a proxy.
    pub libraries: &'static [Library],
    /// True if the part is left out whole; false if it is carried out approximately.
    pub is_left_out: bool,
    /// Names the place in the rule and the reason.
    pub text: String,
}

/// Both dialects.
pub const EVERY_CLIENT: &[Dialect] = &[Dialect::Grpc, Dialect::Envoy];
/// Clients without a proxy alone.
pub const GRPC: &[Dialect] = &[Dialect::Grpc];
/// Proxies alone.
pub const ENVOY: &[Dialect] = &[Dialect::Envoy];

impl Warning {
    /// A part that is left out whole.
    pub fn left_out(number: u8, dialects: &'static [Dialect], text: impl Into<String>) -> Self {
        Warning { number, dialects, libraries: &Library::ALL, is_left_out: true, text: text.into() }
    }

    /// A part that is carried out otherwise than it reads.
    pub fn approximate(number: u8, dialects: &'static [Dialect], text: impl Into<String>) -> Self {
        Warning { is_left_out: false, ..Warning::left_out(number, dialects, text) }
    }

    pub fn is_about(&self, dialect: Dialect) -> bool {
        self.dialects.contains(&dialect)
    }

    /// True if clients without a proxy of the library do not carry the part out as it reads.
    pub fn is_about_library(&self, library: Library) -> bool {
        self.is_about(Dialect::Grpc) && self.libraries.contains(&library)
    }
}

/// As it is told to people: `W4: …`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "W{}: {}", self.number, self.text)
    }
}
