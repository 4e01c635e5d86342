//! JSON Web Tokens in the compact form, signed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::fault::{OidcFault, quoted};
use crate::json::strict_object;

/// Maximum length of a token.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// A token that was read and not verified.
#[derive(Clone, Debug)]
pub struct Jwt<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    typ: Option<String>,
    claims: Map<String, Value>,
    signed: &'a str,
    signature: Vec<u8>,
}

/// A token whose signature a key of the provider verified. Only [`crate::KeySet::verify`] makes one.
#[derive(Clone, Debug)]
pub struct SignedJwt<'a>(Jwt<'a>);

/// Reports whether a text has the form of a signed token: three parts in the alphabet of base64. Says nothing about
/// its content.
pub fn has_jwt_form(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let mut parts = text.split('.');
    let mut has_part = || parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(is_base64));
    let has_three = has_part() && has_part() && has_part();
    has_three && parts.next().is_none()
}

impl<'a> Jwt<'a> {
    /// Reads a token. Verifies nothing.
    pub fn parse(token: &'a str) -> Result<Jwt<'a>, OidcFault> {
        if token.len() > TOKEN_BYTES_MAX {
            let text = format!("the token has {} bytes; at most {TOKEN_BYTES_MAX} are read", token.len());
            return Err(OidcFault::whole("token", text));
        }
        let mut parts = token.split('.');
        let [Some(header), Some(payload), Some(signature), None] = std::array::from_fn(|_| parts.next()) else {
            let text = "the token does not have the three parts of a signed JWT";
            return Err(OidcFault::whole("token", text));
        };
        let signed = &token[..header.len() + 1 + payload.len()];
        let mut header = part("header", header)?;
        let claims = part("payload", payload)?;
        let signature =
            decode(signature).ok_or_else(|| OidcFault::whole("signature", "the signature is not base64url"))?;
        for name in ["crit", "b64", "zip", "enc"] {
            if header.contains_key(name) {
                return Err(OidcFault::new("header", format!("has {name:?}, which is not supported")));
            }
        }
        let algorithm = match header.get("alg") {
            Some(Value::String(name)) => Algorithm::of_header(name)?,
            _ => return Err(OidcFault::new("alg", "is missing in the header")),
        };
        let key_id = optional_text(&mut header, "kid")?;
        let typ = optional_text(&mut header, "typ")?;
        Ok(Jwt { algorithm, key_id, typ, claims, signed, signature })
    }

    /// Returns the claimed issuer, by which the provider that must verify the token is found.
    pub fn issuer(&self) -> Result<&str, OidcFault> {
        text_claim(&self.claims, "iss")
    }

    /// Returns the algorithm of the header.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the key id of the header.
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    pub(crate) fn signed_bytes(&self) -> &'a [u8] {
        self.signed.as_bytes()
    }

    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Marks the token as verified.
    pub(crate) fn verified(self) -> SignedJwt<'a> {
        SignedJwt(self)
    }
}

impl SignedJwt<'_> {
    /// Returns the claims. Nothing but the signature was verified.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.0.claims
    }

    pub(crate) fn into_claims(self) -> Map<String, Value> {
        self.0.claims
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.0.algorithm
    }

    /// Returns the media type in the header, in lower case and without `application/`.
    pub(crate) fn media_type(&self) -> Option<String> {
        let typ = self.0.typ.as_ref()?.to_ascii_lowercase();
        Some(typ.strip_prefix("application/").map(str::to_owned).unwrap_or(typ))
    }

    /// Returns the SHA-256 of the signed part, which identifies the token. The signature is left out because an ECDSA
    /// signature can be changed into a second valid one.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, self.0.signed_bytes()).as_ref());
        bytes
    }
}

/// Decodes base64url without padding; `None` for any other spelling, such as unused bits that are set.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn part(name: &'static str, text: &str) -> Result<Map<String, Value>, OidcFault> {
    let json = decode(text).ok_or_else(|| OidcFault::whole(name, format!("the {name} is not base64url")))?;
    strict_object(&json).map_err(|why| OidcFault::whole(name, format!("the {name} {why}")))
}

fn optional_text(header: &mut Map<String, Value>, name: &'static str) -> Result<Option<String>, OidcFault> {
    match header.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(OidcFault::new(name, "in the header is not a text")),
    }
}

/// Returns a claim that must be a text.
pub(crate) fn text_claim<'a>(claims: &'a Map<String, Value>, name: &'static str) -> Result<&'a str, OidcFault> {
    match claims.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(OidcFault::new(name, format!("is {}, not a text", quoted(&other.to_string())))),
        None => Err(OidcFault::new(name, "is missing")),
    }
}
