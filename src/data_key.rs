//! The data key encrypts secrets at rest, and is stored apart from the data. All nodes of a cluster share one key; a
//! backup does not reveal secrets without it.
//!
//! The cipher is XChaCha20-Poly1305 with a random nonce. A sealed text is bound to the object it belongs to, its
//! *place*: a text from another place, or a modified one, does not open. This module does not know the sealed objects.
//!
//! Texts that are compared while sealed have a nonce that is the HMAC of place and text ([`DataKey::seal_alike`]).
//! Equal texts of one place are then sealed equally: without the key one sees that two are the same and nothing else,
//! and cannot test guesses. Texts of different places share nothing. Such a text begins with the name of its key, so
//! that a node knows whether it can open it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::format::sealed::{ID_BYTES, ID_END, key_of};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// First byte of a sealed text: the scheme.
const SCHEME: u8 = 1;
/// First byte instead of `SCHEME` if the nonce was derived from the text.
const SCHEME_ALIKE: u8 = 2;

/// The key, ready for use; wiped from memory when dropped.
#[derive(Clone)]
pub struct DataKey {
    cipher: XChaCha20Poly1305,
    /// Cipher for texts that are sealed alike, with a key of its own.
    cipher_alike: XChaCha20Poly1305,
    /// Key that derives the nonces of texts that are sealed alike.
    nonces: Hmac<Sha256>,
    id: String,
}

impl DataKey {
    /// Parses 64 hex digits; `None` for anything else.
    pub fn of_hex(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        hex::decode_to_slice(text, &mut *bytes).ok()?;
        let derived = |purpose: &str| {
            let of_key = mac(&*bytes).chain_update(purpose).finalize().into_bytes();
            Zeroizing::new(<[u8; KEY_BYTES]>::from(of_key))
        };
        Some(DataKey {
            cipher: XChaCha20Poly1305::new(Key::from_slice(&*bytes)),
            cipher_alike: XChaCha20Poly1305::new(Key::from_slice(&*derived("sealed alike: encryption"))),
            nonces: mac(&*derived("sealed alike: nonces")),
            id: hex::encode(&derived("name")[..ID_BYTES]),
        })
    }

    /// Returns the name of the key, from which the key cannot be derived.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Encrypts `text` for `place`, and returns hex.
    pub fn seal(&self, place: &[&str], text: &str) -> String {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload { msg: text.as_bytes(), aad: &bound_to(place) };
        let sealed =
            self.cipher.encrypt(XNonce::from_slice(&nonce), payload).expect("a text of this size can be encrypted");
        hex::encode([&[SCHEME], nonce.as_slice(), &sealed].concat())
    }

    /// Opens a sealed text; `None` if it was sealed under another key or for another place, or is damaged.
    pub fn open(&self, place: &[&str], sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        let sealed = hex::decode(sealed).ok()?;
        let (scheme, rest) = sealed.split_first()?;
        let (nonce, text) = rest.split_at_checked(NONCE_BYTES).filter(|_| *scheme == SCHEME)?;
        let payload = Payload { msg: text, aad: &bound_to(place) };
        self.cipher.decrypt(XNonce::from_slice(nonce), payload).ok().map(Zeroizing::new)
    }

    /// Encrypts `text` for `place` deterministically. Returns the name of the key, a dot, and base64.
    pub fn seal_alike(&self, place: &[&str], text: &str) -> String {
        let place = bound_to(place);
        let length = (place.len() as u64).to_be_bytes();
        let nonces = self.nonces.clone().chain_update(length).chain_update(&place).chain_update(text);
        let nonce = nonces.finalize().into_bytes();
        let nonce = XNonce::from_slice(&nonce[..NONCE_BYTES]);
        let payload = Payload { msg: text.as_bytes(), aad: &place };
        let sealed = self.cipher_alike.encrypt(nonce, payload).expect("a text of this size can be encrypted");
        let sealed = [&[SCHEME_ALIKE], nonce.as_slice(), &sealed].concat();
        format!("{}{ID_END}{}", self.id, STANDARD_NO_PAD.encode(sealed))
    }

    /// Opens a text of [`DataKey::seal_alike`]; `None` as for [`DataKey::open`].
    pub fn open_alike(&self, place: &[&str], sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        let (_, sealed) = sealed.split_once(ID_END).filter(|_| key_of(sealed) == self.id)?;
        let sealed = STANDARD_NO_PAD.decode(sealed).ok()?;
        let (scheme, rest) = sealed.split_first()?;
        let (nonce, text) = rest.split_at_checked(NONCE_BYTES).filter(|_| *scheme == SCHEME_ALIKE)?;
        let payload = Payload { msg: text, aad: &bound_to(place) };
        self.cipher_alike.decrypt(XNonce::from_slice(nonce), payload).ok().map(Zeroizing::new)
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    <Hmac<Sha256> as Mac>::new_from_slice(key).expect("a key of any length will do")
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Concatenates the parts of a place, each with its length, so that distinct places have distinct bytes.
fn bound_to(place: &[&str]) -> Vec<u8> {
    place.iter().flat_map(|part| [&(part.len() as u64).to_be_bytes(), part.as_bytes()].concat()).collect()
}

/// Generates a secret: 32 hex digits of the system's randomness.
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
    fn what_is_sealed_alike_can_be_compared_and_opened_in_its_place_alone() {
        let place = ["config-file", "default", "app", "db.yaml"];
        let sealed = key("a").seal_alike(&place, "password: x");
        assert_eq!(sealed, key("A").seal_alike(&place, "password: x"), "the same text in the same place");
        assert_eq!((key_of(&sealed), key_of("no name")), (key("a").id(), ""));
        assert_eq!(key("a").open_alike(&place, &sealed).map(|text| text.to_vec()), Some(b"password: x".to_vec()));
        let others = [
            key("a").seal_alike(&place, "password: y"),
            key("a").seal_alike(&["config-file", "default", "app", "db.yml"], "password: x"),
            key("a").seal_alike(&["config-file", "default", "ap", "pdb.yaml"], "password: x"),
            key("b").seal_alike(&place, "password: x"),
        ];
        for other in &others {
            // Apart from name and scheme, the texts have nothing in common.
            assert_ne!(other[19..43], sealed[19..43], "the nonce is another one");
            assert_ne!(other[51..], sealed[51..]);
        }
        for other in &others[1..] {
            assert_eq!(key("a").open_alike(&place, other), None, "{other}");
        }
        assert_eq!(key("b").open_alike(&place, &sealed), None);
        let renamed = format!("{}{}", key("b").id(), &sealed[16..]);
        assert_eq!(key("b").open_alike(&place, &renamed), None, "the name is no proof");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("base64");
            assert_eq!(key("a").open_alike(&place, &changed), None, "character {at}");
        }
    }

    #[test]
    fn a_key_is_64_hex_digits_and_is_not_shown() {
        for bad in ["", "a", &"a".repeat(63), &"a".repeat(65), &"g".repeat(64), &format!("{}\n", "a".repeat(64))] {
            assert!(DataKey::of_hex(bad).is_none(), "{bad:?}");
        }
        assert_eq!(format!("{:?}", key("a")), "***");
    }
}
