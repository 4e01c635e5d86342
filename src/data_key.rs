//! The data key: what nodes keep secret at rest is encrypted under it, and it is kept apart from the
//! data. All nodes of a cluster have the same one; a backup without it shows no secret.
//!
//! XChaCha20-Poly1305 with a random nonce. A sealed text is bound to what it is the secret of, its
//! *place*: the one of another place, or a changed one, does not open. Knows nothing of what is sealed.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use zeroize::{Zeroize, Zeroizing};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// First byte of everything sealed: how it was.
const SCHEME: u8 = 1;

/// The key, ready for use; wiped from memory when it goes.
#[derive(Clone)]
pub struct DataKey(XChaCha20Poly1305);

impl DataKey {
    /// From 64 hex digits; anything else is no key.
    pub fn of_hex(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        hex::decode_to_slice(text, &mut *bytes).ok()?;
        Some(DataKey(XChaCha20Poly1305::new(Key::from_slice(&*bytes))))
    }

    /// Encrypts `text` for `place`; the answer is hex.
    pub fn seal(&self, place: &[&str], text: &str) -> String {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload { msg: text.as_bytes(), aad: &bound_to(place) };
        let sealed = self.0.encrypt(XNonce::from_slice(&nonce), payload).expect("a text of this size can be encrypted");
        hex::encode([&[SCHEME], nonce.as_slice(), &sealed].concat())
    }

    /// The inverse; `None` for what was sealed under another key or for another place, and for what is
    /// damaged.
    pub fn open(&self, place: &[&str], sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        let sealed = hex::decode(sealed).ok()?;
        let (scheme, rest) = sealed.split_first()?;
        let (nonce, text) = rest.split_at_checked(NONCE_BYTES).filter(|_| *scheme == SCHEME)?;
        let payload = Payload { msg: text, aad: &bound_to(place) };
        self.0.decrypt(XNonce::from_slice(nonce), payload).ok().map(Zeroizing::new)
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The parts of a place one behind the other, each with its length, so that no two places are the same.
fn bound_to(place: &[&str]) -> Vec<u8> {
    place.iter().flat_map(|part| [&(part.len() as u64).to_be_bytes(), part.as_bytes()].concat()).collect()
}

/// A secret nobody has had yet: 32 hex digits of the system's randomness.
pub fn generate_secret() -> Zeroizing<String> {
    let mut bytes: [u8; 16] = rand::random();
    let text = Zeroizing::new(hex::encode(bytes));
    bytes.zeroize();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: &str) -> DataKey {
        DataKey::of_hex(&digit.repeat(64)).expect("64 digits")
    }

    #[test]
    fn only_the_same_key_opens_and_only_for_the_same_place() {
        let sealed = key("a").seal(&["access-key", "app", "one"], "the secret");
        let opened = |key: &DataKey, place: &[&str]| key.open(place, &sealed).map(|text| text.to_vec());
        assert_eq!(opened(&key("a"), &["access-key", "app", "one"]), Some(b"the secret".to_vec()));
        assert_eq!(
            opened(&key("A"), &["access-key", "app", "one"]),
            Some(b"the secret".to_vec()),
            "hex of either case"
        );
        assert_eq!(opened(&key("b"), &["access-key", "app", "one"]), None);
        for place in [&["access-key", "app", "two"][..], &["access-key", "appone", ""], &["access-key", "app"], &[]] {
            assert_eq!(opened(&key("a"), place), None, "{place:?}");
        }
    }

    #[test]
    fn what_is_damaged_does_not_open() {
        let place = ["access-key", "app", "one"];
        let sealed = key("a").seal(&place, "the secret");
        assert_eq!(sealed.len(), 2 * (1 + NONCE_BYTES + "the secret".len() + 16));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("digits");
            assert_eq!(key("a").open(&place, &changed), None, "digit {at}");
            assert_eq!(key("a").open(&place, &sealed[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn the_same_text_is_never_sealed_alike() {
        let place = ["access-key", "app", "one"];
        assert_ne!(key("a").seal(&place, "the secret"), key("a").seal(&place, "the secret"));
        assert_ne!(*generate_secret(), *generate_secret());
        assert_eq!(generate_secret().len(), 32);
    }

    #[test]
    fn a_key_is_64_hex_digits_and_is_not_shown() {
        for bad in ["", "a", &"a".repeat(63), &"a".repeat(65), &"g".repeat(64), &format!("{}\n", "a".repeat(64))] {
            assert!(DataKey::of_hex(bad).is_none(), "{bad:?}");
        }
        assert_eq!(format!("{:?}", key("a")), "***");
    }
}
