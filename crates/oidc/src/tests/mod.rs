//! Tables of tokens, keys, documents and responses: hostile ones, and those of real providers.

mod checks;
mod documents;
mod keys;
mod logout;
mod requests;
mod tokens;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::testing::{TestKey, changed, key_set};
use crate::{
    Algorithm, Checked, Expected, Jwt, KeySet, LogoutToken, OidcFault, check_bearer, check_id_token, check_logout_token,
};

const ISSUER: &str = "https://sso.example/realms/acme";
const NOW_S: u64 = 1_800_000_000;

static KEY: LazyLock<TestKey> = LazyLock::new(|| TestKey::new(Algorithm::Es256, "k1"));

fn keys_of(key: &TestKey) -> KeySet {
    set(&key_set([key]))
}

fn set(document: &Value) -> KeySet {
    KeySet::parse(document.to_string().as_bytes()).expect("a key set")
}

fn expected() -> Expected<'static> {
    Expected { issuer: ISSUER, audiences: &["thuban"], now_ms: NOW_S * 1000, leeway_ms: 60_000 }
}

/// Claims of an ID token that is accepted with the nonce `n`.
fn id_claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "u-1", "aud": "thuban", "azp": "thuban", "nonce": "n", "sid": "s-1",
        "iat": NOW_S - 10, "exp": NOW_S + 300, "preferred_username": "ann", "groups": ["dev"]
    })
}

/// Claims of a bearer token that is accepted.
fn bearer_claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "repo:acme/shop", "aud": "thuban", "iat": NOW_S - 10, "nbf": NOW_S - 10,
        "exp": NOW_S + 300, "repository": "acme/shop"
    })
}

/// Claims of a logout token that is accepted.
fn logout_claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "u-1", "aud": "thuban", "sid": "s-1", "jti": "j-1", "iat": NOW_S - 10, "exp": NOW_S + 100,
        "events": {"http://schemas.openid.net/event/backchannel-logout": {}}
    })
}

fn id_token(token: &str) -> Result<Checked, OidcFault> {
    check_id_token(keys_of(&KEY).verify(Jwt::parse(token)?)?, &expected(), Some("n"), None)
}

fn bearer(token: &str) -> Result<Checked, OidcFault> {
    check_bearer(keys_of(&KEY).verify(Jwt::parse(token)?)?, &expected())
}

fn logout(token: &str) -> Result<LogoutToken, OidcFault> {
    check_logout_token(keys_of(&KEY).verify(Jwt::parse(token)?)?, &expected())
}

/// Result of a check of which only the fault matters.
type Outcome = Result<(), OidcFault>;

/// Checks rows of changes to claims that are accepted, each with the field of its refusal, or `""` if the changed
/// claims are accepted too. The sentence has to name the field.
fn check_rows(base: &Value, rows: &[(Value, &str)], check: impl Fn(&str) -> Outcome) {
    assert_eq!(check(&KEY.token(base)), Ok(()), "the claims before any change");
    for (changes, field) in rows {
        let outcome = check(&KEY.token(&changed(base, changes)));
        let found = outcome.as_ref().map_or_else(OidcFault::field, |()| "");
        assert_eq!(found, *field, "{changes}: {outcome:?}");
        if let Err(fault) = outcome {
            assert!(fault.to_string().contains(&format!("`{field}`")), "{fault}");
            assert!(fault.to_string().len() < 500, "{fault}");
        }
    }
}
