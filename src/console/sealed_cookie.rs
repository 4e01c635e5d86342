//! Encryption of cookies that a browser carries from one node to another. Keys are derived from the cluster secret, so
//! every node opens what another one sealed, and no session is stored before a sign-in has succeeded.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

const NONCE_BYTES: usize = 24;
/// Inputs of HKDF that separate these keys from other uses of the secret.
const SALT: &[u8] = b"thuban";
const INFO: &[u8] = b"cookies of the console 1";

/// Keys for cookies. The first one seals; all of them open, so that a rotation of the secret ends no sign-in.
#[derive(Clone)]
pub struct CookieKeys(Vec<XChaCha20Poly1305>);

impl CookieKeys {
    /// Derives a key from each secret. Without a secret, as on a node without peers, the key is drawn at random and
    /// lives as long as the process.
    pub fn of(secrets: &[&[u8]]) -> CookieKeys {
        let drawn: [u8; 32] = rand::random();
        let drawn = [&drawn[..]];
        let secrets = if secrets.is_empty() { &drawn[..] } else { secrets };
        CookieKeys(secrets.iter().map(|secret| XChaCha20Poly1305::new(Key::from_slice(&*derived(secret)))).collect())
    }

    /// Encrypts a text for one purpose.
    pub(super) fn seal(&self, purpose: &str, text: &str) -> String {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload { msg: text.as_bytes(), aad: purpose.as_bytes() };
        let sealed = self.0[0].encrypt(XNonce::from_slice(&nonce), payload).expect("a text of this size is encrypted");
        URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts a text that a node with the same secret sealed for this purpose; `None` for anything else.
    pub(super) fn open(&self, purpose: &str, sealed: &str) -> Option<Zeroizing<String>> {
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, text) = sealed.split_at_checked(NONCE_BYTES)?;
        let open = |key: &XChaCha20Poly1305| {
            key.decrypt(XNonce::from_slice(nonce), Payload { msg: text, aad: purpose.as_bytes() }).ok()
        };
        String::from_utf8(self.0.iter().find_map(open)?).ok().map(Zeroizing::new)
    }
}

/// Derives a key by HKDF with SHA-256; one block is the whole key.
fn derived(secret: &[u8]) -> Zeroizing<[u8; 32]> {
    let mac = |key: &[u8]| <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes a key of any length");
    let extracted = Zeroizing::new(<[u8; 32]>::from(mac(SALT).chain_update(secret).finalize().into_bytes()));
    let expanded = mac(&*extracted).chain_update(INFO).chain_update([1]).finalize().into_bytes();
    Zeroizing::new(expanded.into())
}

impl fmt::Debug for CookieKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieKeys(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(keys: &CookieKeys, purpose: &str, sealed: &str) -> Option<String> {
        keys.open(purpose, sealed).map(|text| text.to_string())
    }

    #[test]
    fn every_node_with_the_secret_opens_and_no_other() {
        let (one, other) = (CookieKeys::of(&[b"first"]), CookieKeys::of(&[b"first"]));
        let sealed = one.seal("sign-in", "text");
        assert_eq!(opened(&other, "sign-in", &sealed).as_deref(), Some("text"));
        assert_eq!(opened(&other, "sign-out", &sealed), None, "for another purpose");
        assert_eq!(opened(&CookieKeys::of(&[b"second"]), "sign-in", &sealed), None);
        assert_ne!(one.seal("sign-in", "text"), sealed, "a nonce is used once");
        // Nodes without a secret have nothing in common.
        let alone = CookieKeys::of(&[]);
        assert_eq!(opened(&alone, "a", &alone.seal("a", "b")).as_deref(), Some("b"));
        assert_eq!(opened(&CookieKeys::of(&[]), "a", &alone.seal("a", "b")), None);
        assert_eq!(opened(&CookieKeys::of(&[b""]), "a", &alone.seal("a", "b")), None);
    }

    #[test]
    fn a_rotation_of_the_secret_ends_no_sign_in() {
        let before = CookieKeys::of(&[b"old"]);
        let (between, after) = (CookieKeys::of(&[b"old", b"new"]), CookieKeys::of(&[b"new", b"old"]));
        for (seals, opens) in [(&before, &between), (&between, &before), (&between, &after), (&after, &between)] {
            assert_eq!(opened(opens, "a", &seals.seal("a", "b")).as_deref(), Some("b"));
        }
    }

    #[test]
    fn a_changed_or_cut_text_does_not_open() {
        let keys = CookieKeys::of(&[b"secret"]);
        let sealed = keys.seal("a", "the text");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("base64");
            assert_eq!(opened(&keys, "a", &changed), None, "character {at}");
            assert_eq!(opened(&keys, "a", &sealed[..at]), None, "cut at {at}");
        }
        assert!(!format!("{keys:?}").contains("secret"));
    }

    /// The test case of RFC 5869 for SHA-256 with these steps, cut to one block.
    #[test]
    fn the_derivation_is_hkdf() {
        let mac = |key: &[u8]| <Hmac<Sha256> as Mac>::new_from_slice(key).expect("a key");
        let salt = hex::decode("000102030405060708090a0b0c").expect("hex");
        let extracted = mac(&salt).chain_update([0x0b; 22]).finalize().into_bytes();
        let info = hex::decode("f0f1f2f3f4f5f6f7f8f9").expect("hex");
        let expanded = mac(&extracted).chain_update(info).chain_update([1]).finalize().into_bytes();
        assert_eq!(hex::encode(expanded), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
    }
}
