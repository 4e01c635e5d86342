//! Keys and tokens of a provider in a test.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Map, Value, json};

use crate::algorithm::Algorithm;
use crate::jwt::encode;

/// A private key with its id.
pub struct TestKey {
    pub key_id: String,
    pub algorithm: Algorithm,
    pair: TestPair,
}

enum TestPair {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// Two RSA keys that were made once; see keys/README.md.
const RSA_KEYS: [&[u8]; 2] =
    [include_bytes!("keys/rsa-test-a.der").as_slice(), include_bytes!("keys/rsa-test-b.der").as_slice()];

impl TestKey {
    /// Creates a key. All RSA keys with ids of the same length are equal.
    pub fn new(algorithm: Algorithm, key_id: &str) -> TestKey {
        let ecdsa = |algorithm: &'static EcdsaSigningAlgorithm| {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
            TestPair::Ecdsa(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key"))
        };
        let pair = match algorithm {
            Algorithm::Rs256 | Algorithm::Ps256 => {
                TestPair::Rsa(RsaKeyPair::from_pkcs8(RSA_KEYS[key_id.len() % 2]).expect("a key"))
            }
            Algorithm::Es256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::Es384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            Algorithm::EdDsa => {
                let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
                TestPair::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key"))
            }
        };
        TestKey { key_id: key_id.to_owned(), algorithm, pair }
    }

    /// Creates the same key each time.
    pub fn ed25519(seed: &[u8; 32], key_id: &str) -> TestKey {
        let pair = TestPair::Ed25519(Ed25519KeyPair::from_seed_unchecked(seed).expect("a key"));
        TestKey { key_id: key_id.to_owned(), algorithm: Algorithm::EdDsa, pair }
    }

    /// Returns the public key as a member of a key set.
    pub fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            TestPair::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": encode(&public.n), "e": encode(&public.e)})
            }
            TestPair::Ecdsa(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at((pair.public_key().as_ref().len() - 1) / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
            }
            TestPair::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref())})
            }
        };
        jwk["kid"] = json!(self.key_id);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm.name());
        jwk
    }

    /// Signs a token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm.name(), "kid": self.key_id, "typ": "JWT"}), claims)
    }

    /// Signs a token with any header.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.sign_parts(&header.to_string(), &claims.to_string())
    }

    /// Signs any two texts as header and payload.
    pub fn sign_parts(&self, header: &str, payload: &str) -> String {
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(payload.as_bytes()));
        let signature = encode(&self.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            TestPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding = match self.algorithm {
                    Algorithm::Ps256 => &RSA_PSS_SHA256,
                    _ => &RSA_PKCS1_SHA256,
                };
                pair.sign(padding, &random, message, &mut signature).expect("a signature");
                signature
            }
            TestPair::Ecdsa(pair) => pair.sign(&random, message).expect("a signature").as_ref().to_vec(),
            TestPair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

/// Returns the key set of these keys.
pub fn key_set<'a>(keys: impl IntoIterator<Item = &'a TestKey>) -> Value {
    let keys: Vec<_> = keys.into_iter().map(TestKey::jwk).collect();
    json!({ "keys": keys })
}

/// Returns `base` with the members of `changes`; those that are null are removed.
pub fn changed(base: &Value, changes: &Value) -> Value {
    let mut object: Map<String, Value> = base.as_object().expect("an object").clone();
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => object.remove(name),
            value => object.insert(name.clone(), value.clone()),
        };
    }
    Value::Object(object)
}

/// Returns a text in base64url, as the parts of tokens.
pub fn base64url(bytes: &[u8]) -> String {
    encode(bytes)
}
