//! Random values of a sign-in, and the proof that both of its halves are of one program (PKCE, RFC 7636).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

pub(super) const CHALLENGE_METHOD: &str = "S256";

/// Secret of one sign-in: its hash goes with the first request, the secret itself with the request for the tokens.
pub(super) struct CodeVerifier(String);

impl CodeVerifier {
    pub(super) fn new() -> CodeVerifier {
        CodeVerifier(random_text())
    }

    pub(super) fn secret(&self) -> &str {
        &self.0
    }

    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.0))
    }
}

/// Returns 256 random bits as 43 characters.
pub(super) fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_the_hash_of_the_verifier() {
        let verifier = CodeVerifier("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned());
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
