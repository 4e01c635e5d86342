//! Key sets (JWKS) and the verification of signatures.

use std::fmt;

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::DOCUMENT_BYTES_MAX;
use crate::algorithm::Algorithm;
use crate::fault::{FaultCause, OidcFault, quoted, shortened};
use crate::jwt::{Jwt, SignedJwt, decode};

/// Maximum number of keys of a set that are read; the rest is ignored.
pub const KEYS_MAX: usize = 128;
/// Maximum number of keys that a signature is verified with: keys with the same id, or all fitting keys for a token
/// without a key id.
const KEYS_TRIED_MAX: usize = 4;
/// Maximum length of a key id.
const KEY_ID_BYTES_MAX: usize = 512;
/// Bounds of the modulus of an RSA key.
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;

/// Public keys of a provider.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<VerificationKey>,
    left_out: Vec<LeftOutKey>,
    /// Number of keys after the first [`KEYS_MAX`].
    unread: usize,
}

/// A key of a set that verifies nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutKey {
    pub key_id: Option<String>,
    pub reason: String,
}

#[derive(Debug)]
struct VerificationKey {
    key_id: Option<String>,
    /// Algorithm that the set restricts the key to.
    algorithm: Option<Algorithm>,
    material: KeyMaterial,
}

#[derive(Debug)]
enum KeyMaterial {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Uncompressed points.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Reads a set. A key that cannot be used is left out, and refuses no other one.
    pub fn parse(document: &[u8]) -> Result<KeySet, OidcFault> {
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(OidcFault::whole("document", "the key set is larger than 1 MiB"));
        }
        let read: KeySetDocument = serde_json::from_slice(document).map_err(|error| {
            OidcFault::whole("document", format!("the key set cannot be read: {}", shortened(&error)))
        })?;
        let mut set = KeySet { unread: read.keys.unread, ..KeySet::default() };
        for key in read.keys.first {
            let key_id = key.get("kid").and_then(Value::as_str).unwrap_or_default();
            if key_id.len() > KEY_ID_BYTES_MAX {
                let reason = format!("its `kid` has more than {KEY_ID_BYTES_MAX} bytes");
                set.left_out.push(LeftOutKey { key_id: None, reason });
                continue;
            }
            let key_id = key.get("kid").and_then(Value::as_str).map(str::to_owned);
            match VerificationKey::read(key_id.clone(), &key) {
                Ok(key) => set.keys.push(key),
                Err(reason) => set.left_out.push(LeftOutKey { key_id, reason }),
            }
        }
        Ok(set)
    }

    /// Returns the number of usable keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Reports whether no key is usable.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of keys beyond [`KEYS_MAX`], which were not read.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// Returns the keys that verify nothing.
    pub fn left_out(&self) -> &[LeftOutKey] {
        &self.left_out
    }

    /// Returns the algorithms that the usable keys can verify.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let mut all = Algorithm::ALL.to_vec();
        all.retain(|algorithm| self.keys.iter().any(|key| key.fits(*algorithm)));
        all
    }

    /// Verifies the signature of a token by the key that it names. A token without a key id is tried with the keys
    /// that fit its algorithm.
    pub fn verify<'a>(&self, jwt: Jwt<'a>) -> Result<SignedJwt<'a>, OidcFault> {
        let algorithm = jwt.algorithm();
        let named = |key: &&VerificationKey| jwt.key_id().is_none_or(|id| key.key_id.as_deref() == Some(id));
        let mut fitting = self.keys.iter().filter(named).filter(|key| key.fits(algorithm)).peekable();
        if fitting.peek().is_none() {
            return Err(self.no_key(&jwt));
        }
        let is_signed = fitting.take(KEYS_TRIED_MAX).any(|key| key.verifies(&jwt));
        if is_signed {
            return Ok(jwt.verified());
        }
        Err(OidcFault::whole("signature", "the signature is not one of the provider's keys").with(FaultCause::Key))
    }

    fn no_key(&self, jwt: &Jwt<'_>) -> OidcFault {
        let name = jwt.algorithm().name();
        let Some(id) = jwt.key_id() else {
            let text = format!("the token has no `kid`, and the provider has no key for {name}");
            return OidcFault::whole("kid", text).with(FaultCause::Key);
        };
        let quoted_id = quoted(id);
        let left_out = self.left_out.iter().find(|key| key.key_id.as_deref() == Some(id));
        let rest = match left_out {
            Some(key) => format!("is {quoted_id}, a key that is not used: {}", key.reason),
            None if self.keys.iter().any(|key| key.key_id.as_deref() == Some(id)) => {
                format!("is {quoted_id}, a key that is not for {name}")
            }
            None => format!("is {quoted_id}, which the provider's keys do not have"),
        };
        OidcFault::new("kid", rest).with(FaultCause::Key)
    }
}

impl VerificationKey {
    fn read(key_id: Option<String>, key: &Map<String, Value>) -> Result<VerificationKey, String> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        if let Some(usage) = key.get("use").filter(|usage| usage.as_str() != Some("sig")) {
            return Err(format!("its `use` is {}", quoted(&usage.to_string())));
        }
        if let Some(operations) = key.get("key_ops").and_then(Value::as_array)
            && !operations.iter().any(|operation| operation.as_str() == Some("verify"))
        {
            return Err("its `key_ops` do not have \"verify\"".to_owned());
        }
        let algorithm = match key.get("alg").map(|name| name.as_str().and_then(Algorithm::by_name)) {
            Some(None) => return Err(format!("its `alg` is {}", quoted(&key["alg"].to_string()))),
            known => known.flatten(),
        };
        let bytes = |name: &str| {
            let decoded = text(name).and_then(decode);
            decoded.ok_or_else(|| format!("its `{name}` is missing, or not base64url"))
        };
        let material = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => KeyMaterial::rsa(bytes("n")?, bytes("e")?)?,
            (Some("EC"), Some("P-256")) => KeyMaterial::P256(point(bytes("x")?, bytes("y")?, 32)?),
            (Some("EC"), Some("P-384")) => KeyMaterial::P384(point(bytes("x")?, bytes("y")?, 48)?),
            (Some("OKP"), Some("Ed25519")) => match bytes("x")? {
                x if x.len() == 32 => KeyMaterial::Ed25519(x),
                x => return Err(format!("its `x` has {} bytes, not 32", x.len())),
            },
            (kty, crv) => {
                let kind = [kty, crv].into_iter().flatten().collect::<Vec<_>>().join(" ");
                return Err(format!("its type is {}", quoted(&kind)));
            }
        };
        let key = VerificationKey { key_id, algorithm, material };
        match algorithm {
            Some(algorithm) if !key.material.fits(algorithm) => {
                Err(format!("its `alg` is {:?}, which does not fit its type", algorithm.name()))
            }
            _ => Ok(key),
        }
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|own| own == algorithm) && self.material.fits(algorithm)
    }

    fn verifies(&self, jwt: &Jwt<'_>) -> bool {
        let (signed, signature) = (jwt.signed_bytes(), jwt.signature());
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(signed, signature).is_ok()
        };
        match &self.material {
            KeyMaterial::Rsa { n, e } => {
                let parameters = match jwt.algorithm() {
                    Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
                    _ => &RSA_PKCS1_2048_8192_SHA256,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature).is_ok()
            }
            KeyMaterial::P256(point) => by(&ECDSA_P256_SHA256_FIXED, point),
            KeyMaterial::P384(point) => by(&ECDSA_P384_SHA384_FIXED, point),
            KeyMaterial::Ed25519(x) => by(&ED25519, x),
        }
    }
}

impl KeyMaterial {
    /// Creates an RSA key of an accepted length. Leading zeros, which some providers send, are removed.
    fn rsa(mut n: Vec<u8>, mut e: Vec<u8>) -> Result<KeyMaterial, String> {
        for number in [&mut n, &mut e] {
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            number.drain(..zeros);
        }
        let top_bits = n.first().map_or(0, |first| 8 - first.leading_zeros() as usize);
        let bits = n.len().saturating_sub(1) * 8 + top_bits;
        if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
            return Err(format!("it is an RSA key of {bits} bits; accepted are {RSA_BITS_MIN} to {RSA_BITS_MAX}"));
        }
        Ok(KeyMaterial::Rsa { n, e })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        match self {
            KeyMaterial::Rsa { .. } => matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256),
            KeyMaterial::P256(_) => algorithm == Algorithm::Es256,
            KeyMaterial::P384(_) => algorithm == Algorithm::Es384,
            KeyMaterial::Ed25519(_) => algorithm == Algorithm::EdDsa,
        }
    }
}

/// Returns the uncompressed form of a point with coordinates of this many bytes.
fn point(x: Vec<u8>, y: Vec<u8>, bytes: usize) -> Result<Vec<u8>, String> {
    if x.len() != bytes || y.len() != bytes {
        return Err(format!("its coordinates have {} and {} bytes, not {bytes}", x.len(), y.len()));
    }
    Ok([&[4], &x[..], &y[..]].concat())
}

#[derive(Deserialize)]
struct KeySetDocument {
    keys: FirstKeys,
}

/// The first keys of a list. The others are skipped without being stored.
struct FirstKeys {
    first: Vec<Map<String, Value>>,
    unread: usize,
}

impl<'de> Deserialize<'de> for FirstKeys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(FirstKeysVisitor)
    }
}

struct FirstKeysVisitor;

impl<'de> Visitor<'de> for FirstKeysVisitor {
    type Value = FirstKeys;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list of keys")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut keys: A) -> Result<FirstKeys, A::Error> {
        let mut first = Vec::new();
        while first.len() < KEYS_MAX {
            match keys.next_element::<Value>()? {
                Some(Value::Object(key)) => first.push(key),
                // Something that is no key has no id and no type, and is left out for that.
                Some(_) => first.push(Map::new()),
                None => return Ok(FirstKeys { first, unread: 0 }),
            }
        }
        let mut unread = 0;
        while keys.next_element::<IgnoredAny>()?.is_some() {
            unread += 1;
        }
        Ok(FirstKeys { first, unread })
    }
}
