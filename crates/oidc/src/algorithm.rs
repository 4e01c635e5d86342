//! Signature algorithms. No other one is accepted: not `none`, and none with a shared secret.

use ring::digest::{self, SHA256, SHA384, SHA512};

use crate::fault::{OidcFault, quoted};

/// Signature algorithm of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa];

    /// Returns the name in headers and key sets.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Ps256 => "PS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// Returns the algorithm of a name. Names are compared exactly.
    pub fn by_name(name: &str) -> Option<Algorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub(crate) fn of_header(name: &str) -> Result<Algorithm, OidcFault> {
        let unknown = || format!("is {}; accepted are RS256, PS256, ES256, ES384 and EdDSA", quoted(name));
        Self::by_name(name).ok_or_else(|| OidcFault::new("alg", unknown()))
    }

    /// Returns the first half of the hash of a text, which `at_hash` has in base64.
    pub(crate) fn half_hash(self, text: &str) -> Vec<u8> {
        let hash = match self {
            Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => &SHA256,
            Algorithm::Es384 => &SHA384,
            Algorithm::EdDsa => &SHA512,
        };
        let hash = digest::digest(hash, text.as_bytes());
        hash.as_ref()[..hash.as_ref().len() / 2].to_vec()
    }
}
