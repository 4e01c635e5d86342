//! Entries for fuzzing: texts that a client or a provider chooses. Each reports whether it accepted its input, and
//! panics if what it accepted violates an invariant.

use std::sync::LazyLock;

use serde_json::json;

use crate::testing::{TestKey, key_set};
use crate::{
    Expected, Jwt, KEYS_MAX, KeySet, Metadata, check_bearer, check_id_token, check_logout_token, has_jwt_form,
    is_safe_address,
};

const ISSUER: &str = "https://sso.example/realms/acme";
const NOW_MS: u64 = 1_800_000_000_000;

static KEY: LazyLock<TestKey> = LazyLock::new(|| TestKey::ed25519(&[7; 32], "fuzz"));
static KEYS: LazyLock<KeySet> =
    LazyLock::new(|| KeySet::parse(key_set([&*KEY]).to_string().as_bytes()).expect("a key set"));

fn expected() -> Expected<'static> {
    Expected { issuer: ISSUER, audiences: &["thuban"], now_ms: NOW_MS, leeway_ms: 60_000 }
}

/// Reads a token as it is, and then a header and a payload in two lines, which are signed here. A forged signature is
/// never accepted, and no token is accepted as two kinds.
pub fn read_token(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else { return false };
    if let Ok(jwt) = Jwt::parse(text) {
        assert!(has_jwt_form(text) || text.ends_with('.'), "{text}");
        assert!(KEYS.verify(jwt).is_err(), "nobody else has the key");
    }
    let Some((header, payload)) = text.split_once('\n') else { return false };
    let token = KEY.sign_parts(header, payload);
    let Ok(jwt) = Jwt::parse(&token) else { return false };
    let Ok(signed) = KEYS.verify(jwt) else { return false };
    let nonce = signed.claims().get("nonce").and_then(|nonce| nonce.as_str()).map(str::to_owned);
    let id = check_id_token(signed.clone(), &expected(), nonce.as_deref(), None);
    let bearer = check_bearer(signed.clone(), &expected());
    let logout = check_logout_token(signed, &expected());
    assert!(logout.is_err() || (id.is_err() && bearer.is_err()), "{payload}");
    for checked in [&id, &bearer].into_iter().flatten() {
        assert_eq!(checked.claims.get("iss"), Some(&json!(ISSUER)));
        assert!(!checked.sub.trim().is_empty() && checked.expires_ms + 60_000 > NOW_MS);
        let other = KEY.sign_parts(header, &format!("{payload} "));
        let jwt = KEYS.verify(Jwt::parse(&other).expect("a blank more")).expect("signed");
        let again = check_bearer(jwt.clone(), &expected());
        let again = again.or_else(|_| check_id_token(jwt, &expected(), nonce.as_deref(), None)).expect("the same");
        assert_ne!(again.digest, checked.digest, "another text");
    }
    for fault in [id.as_ref().err(), bearer.as_ref().err()].into_iter().flatten() {
        assert!(fault.to_string().len() < 2000, "a sentence: {fault}");
    }
    id.is_ok() || bearer.is_ok()
}

/// Reads the payload of a logout token.
pub fn read_logout_token(input: &[u8]) -> bool {
    let Ok(payload) = str::from_utf8(input) else { return false };
    let token = KEY.sign_parts(r#"{"alg":"EdDSA","kid":"fuzz","typ":"logout+jwt"}"#, payload);
    let signed = Jwt::parse(&token).and_then(|jwt| KEYS.verify(jwt));
    let Ok(signed) = signed else { return false };
    match check_logout_token(signed.clone(), &expected()) {
        Ok(logout) => {
            assert!(logout.sub.is_some() || logout.sid.is_some());
            assert!(!logout.jti.is_empty() && logout.jti.len() <= 255 && logout.refused_from_ms > NOW_MS);
            assert!(check_id_token(signed.clone(), &expected(), None, None).is_err());
            assert!(check_bearer(signed, &expected()).is_err());
            true
        }
        Err(fault) => {
            assert!(fault.to_string().len() < 2000, "a sentence: {fault}");
            false
        }
    }
}

/// Reads a key set, and verifies with it a token that none of its keys signed, under each of its ids.
pub fn read_key_set(input: &[u8]) -> bool {
    let set = match KeySet::parse(input) {
        Ok(set) => set,
        Err(fault) => {
            assert!(fault.to_string().len() < 2000, "a sentence: {fault}");
            return false;
        }
    };
    assert!(set.len() + set.left_out().len() <= KEYS_MAX);
    assert_eq!(set.is_empty(), set.algorithms().is_empty());
    for algorithm in set.algorithms() {
        let token = KEY.token_with(&json!({"alg": algorithm.name()}), &json!({}));
        assert!(set.verify(Jwt::parse(&token).expect("a token")).is_err(), "signed by another key");
    }
    !set.is_empty()
}

/// Reads a discovery document. All addresses of one that is accepted are safe.
pub fn read_discovery(input: &[u8]) -> bool {
    let metadata = match Metadata::parse(ISSUER, input) {
        Ok(metadata) => metadata,
        Err(fault) => {
            assert!(fault.to_string().len() < 2000, "a sentence: {fault}");
            return false;
        }
    };
    let optional = [
        &metadata.authorization,
        &metadata.token,
        &metadata.userinfo,
        &metadata.device_authorization,
        &metadata.end_session,
    ];
    assert!(metadata.issuer == ISSUER && is_safe_address(&metadata.jwks));
    assert!(optional.into_iter().flatten().all(is_safe_address));
    drop(metadata.client_authentication());
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    type Entry = fn(&[u8]) -> bool;

    /// The test of all targets does the same; this one needs no store and no server.
    #[test]
    fn every_entry_takes_its_seeds() {
        let entries: [(&str, Entry); 4] =
            [("jwt", read_token), ("jwks", read_key_set), ("discovery", read_discovery), ("logout", read_logout_token)];
        for (name, entry) in entries {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
            let mut accepted = 0;
            for seed in fs::read_dir(folder).expect("a folder of seeds") {
                let path = seed.expect("an entry").path();
                let is_refused = path.file_name().expect("a name").to_string_lossy().starts_with("refused");
                let is_accepted = entry(&fs::read(&path).expect("a seed"));
                assert_eq!(is_accepted, !is_refused, "{}", path.display());
                accepted += usize::from(is_accepted);
            }
            assert!(accepted > 0, "{name}");
        }
    }
}
