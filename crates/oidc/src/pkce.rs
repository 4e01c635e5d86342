//! Proof key for code exchange (PKCE), with S256.

use ring::digest::{SHA256, digest};

use crate::jwt::encode;

/// Secret of one sign-in, whose hash goes with the authorization request.
#[derive(Clone, PartialEq, Eq)]
pub struct CodeVerifier(String);

impl CodeVerifier {
    /// Creates a verifier from random bytes.
    pub fn new(random: &[u8; 32]) -> CodeVerifier {
        CodeVerifier(encode(random))
    }

    /// Returns the verifier of a text from [`CodeVerifier::text`]; `None` for a text that the standard does not allow.
    pub fn of_text(text: &str) -> Option<CodeVerifier> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_verifier = (43..=128).contains(&text.len()) && text.bytes().all(is_allowed);
        is_verifier.then(|| CodeVerifier(text.to_owned()))
    }

    /// Returns the text for the token endpoint, 43 characters.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the challenge of a verifier, for the authorization or device endpoint.
    pub fn challenge(&self) -> String {
        encode(digest(&SHA256, self.0.as_bytes()).as_ref())
    }
}
