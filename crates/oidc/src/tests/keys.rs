use serde_json::json;

use super::*;
use crate::testing::base64url;
use crate::{FaultCause, KEYS_MAX};

fn verify(set: &KeySet, token: &str) -> Outcome {
    set.verify(Jwt::parse(token)?).map(|_| ())
}

#[test]
fn keys_for_other_purposes_are_left_out_and_refuse_no_set() {
    let jwk = KEY.jwk();
    let rows = [
        (json!({"use": "enc"}), "`use`"),
        (json!({"use": 1}), "`use`"),
        (json!({"use": null, "key_ops": ["encrypt"]}), "`key_ops`"),
        (json!({"alg": "RSA-OAEP"}), "`alg`"),
        (json!({"alg": "ES512"}), "`alg`"),
        (json!({"alg": "none"}), "`alg`"),
        (json!({"alg": 1}), "`alg`"),
        (json!({"alg": "RS256"}), "does not fit"),
        (json!({"kty": "oct", "k": "c2VjcmV0"}), "type"),
        (json!({"kty": null}), "type"),
        (json!({"crv": "secp256k1"}), "type"),
        (json!({"crv": "P-384", "alg": null}), "coordinates"),
        (json!({"x": null}), "`x`"),
        (json!({"x": "!"}), "`x`"),
        (json!({"y": base64url(&[1; 31])}), "coordinates"),
        (json!({"kty": "OKP", "crv": "Ed25519", "alg": null, "x": base64url(&[1; 31])}), "31 bytes"),
        (json!({"kty": "OKP", "crv": "Ed448", "alg": null}), "type"),
        (json!({"kty": "RSA", "alg": null, "n": "AQAB", "e": "AQAB"}), "17 bits"),
        (json!({"kty": "RSA", "alg": null, "n": "", "e": "AQAB"}), "0 bits"),
        (json!({"kty": "RSA", "alg": null, "n": base64url(&[255; 1025]), "e": "AQAB"}), "8200 bits"),
    ];
    let token = KEY.token(&id_claims());
    for (changes, reason) in rows {
        let odd = changed(&changed(&jwk, &json!({"kid": "odd"})), &changes);
        let set = set(&json!({"keys": [odd, 7, null, [], {}, jwk]}));
        assert_eq!(set.len(), 1, "{changes}");
        let left_out = &set.left_out()[0];
        assert_eq!(left_out.key_id.as_deref(), Some("odd"));
        assert!(left_out.reason.contains(reason), "{changes}: {}", left_out.reason);
        assert_eq!(verify(&set, &token), Ok(()), "{changes}");
        let named = KEY.token_with(&json!({"alg": "ES256", "kid": "odd"}), &id_claims());
        let fault = verify(&set, &named).expect_err("a key that is left out");
        assert_eq!((fault.field(), fault.cause()), ("kid", FaultCause::Key));
        assert!(fault.to_string().contains(reason), "{fault}");
    }
}

#[test]
fn keys_without_algorithm_and_use_are_chosen_by_their_type() {
    for algorithm in Algorithm::ALL {
        let key = TestKey::new(algorithm, "k1");
        let set = set(&json!({"keys": [changed(&key.jwk(), &json!({"alg": null, "use": null}))]}));
        assert_eq!(verify(&set, &key.token(&id_claims())), Ok(()), "{algorithm:?}");
    }
    // Keycloak's set has a second RSA key, for encryption.
    let key = TestKey::new(Algorithm::Rs256, "k1");
    let second = changed(&TestKey::new(Algorithm::Rs256, "k01").jwk(), &json!({"use": "enc", "alg": "RSA-OAEP"}));
    let set = set(&json!({"keys": [second, key.jwk()]}));
    let without_id = key.token_with(&json!({"alg": "RS256"}), &id_claims());
    assert_eq!((verify(&set, &without_id), verify(&set, &key.token(&id_claims()))), (Ok(()), Ok(())));
}

#[test]
fn a_token_without_a_key_id_is_tried_with_a_few_fitting_keys() {
    let keys: Vec<_> = ["a", "b", "c", "d", "e"].map(|id| TestKey::new(Algorithm::Es256, id)).into();
    let rsa = TestKey::new(Algorithm::Rs256, "rsa");
    let set = set(&key_set([&rsa].into_iter().chain(&keys)));
    let accepted: Vec<_> =
        keys.iter().map(|key| verify(&set, &key.token_with(&json!({"alg": "ES256"}), &id_claims())).is_ok()).collect();
    assert_eq!(accepted, [true, true, true, true, false]);
    let none = TestKey::new(Algorithm::EdDsa, "x").token_with(&json!({"alg": "EdDSA"}), &id_claims());
    let fault = verify(&set, &none).expect_err("no key of this type");
    assert_eq!(fault.to_string(), "the token has no `kid`, and the provider has no key for EdDSA");
    assert_eq!(fault.cause(), FaultCause::Key);
}

#[test]
fn a_named_key_is_the_only_one() {
    let keys: Vec<_> = ["a", "b"].map(|id| TestKey::new(Algorithm::Es256, id)).into();
    let set = set(&key_set(&keys));
    let of_other = keys[1].token_with(&json!({"alg": "ES256", "kid": "a"}), &id_claims());
    assert_eq!(verify(&set, &of_other).expect_err("another key's").field(), "signature");
    let unknown = keys[1].token_with(&json!({"alg": "ES256", "kid": "z"}), &id_claims());
    assert_eq!(
        verify(&set, &unknown).expect_err("unknown").to_string(),
        "`kid` is \"z\", which the provider's keys do not have"
    );
    // Two keys of one id, of different types, as some providers have them.
    let (one, two) = (TestKey::new(Algorithm::Es256, "same"), TestKey::new(Algorithm::EdDsa, "same"));
    let set = keys_of_both(&one, &two);
    assert_eq!((verify(&set, &one.token(&id_claims())), verify(&set, &two.token(&id_claims()))), (Ok(()), Ok(())));
}

fn keys_of_both(one: &TestKey, two: &TestKey) -> KeySet {
    set(&key_set([one, two]))
}

#[test]
fn a_key_with_an_algorithm_is_for_that_one() {
    let key = TestKey::new(Algorithm::Rs256, "k1");
    let as_pss = TestKey::new(Algorithm::Ps256, "k1");
    let token = as_pss.token(&id_claims());
    let fault = verify(&keys_of(&key), &token).expect_err("another algorithm");
    assert_eq!(fault.to_string(), "`kid` is \"k1\", a key that is not for PS256");
    let free = set(&json!({"keys": [changed(&key.jwk(), &json!({"alg": null}))]}));
    assert_eq!((verify(&free, &token), verify(&free, &key.token(&id_claims()))), (Ok(()), Ok(())));
    assert_eq!(free.algorithms(), [Algorithm::Rs256, Algorithm::Ps256]);
}

#[test]
fn short_rsa_keys_are_refused_although_they_signed() {
    let set = KeySet::parse(include_bytes!("../testing/keys/rsa-1024.json")).expect("a key set");
    assert!(set.is_empty());
    let token = include_str!("../testing/keys/rsa-1024.jwt").trim_end();
    let fault = verify(&set, token).expect_err("a short key");
    assert!(fault.to_string().contains("an RSA key of 1024 bits; accepted are 2048 to 8192"), "{fault}");
}

#[test]
fn public_keys_are_no_shared_secrets() {
    use ring::hmac;
    let key = TestKey::new(Algorithm::Rs256, "k1");
    let set = keys_of(&key);
    let jwk = key.jwk();
    let modulus = jwk["n"].as_str().expect("a text");
    for secret in [modulus.as_bytes(), jwk.to_string().as_bytes()] {
        let token = key.token_with(&json!({"alg": "HS256", "kid": "k1"}), &id_claims());
        let (signed, _) = token.rsplit_once('.').expect("a signature");
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
        let forged = format!("{signed}.{}", base64url(tag.as_ref()));
        assert_eq!(verify(&set, &forged).expect_err("a shared secret").field(), "alg");
    }
}

#[test]
fn of_ten_thousand_keys_the_first_are_read() {
    let own = TestKey::new(Algorithm::EdDsa, "own");
    let jwk = |at: usize| json!({"kty": "OKP", "crv": "Ed25519", "kid": format!("{at}"), "x": own.jwk()["x"]});
    let mut keys: Vec<_> = (0..9999).map(jwk).collect();
    keys.insert(KEYS_MAX - 1, own.jwk());
    let set = set(&json!({ "keys": keys }));
    assert_eq!((set.len(), set.unread()), (KEYS_MAX, 10_000 - KEYS_MAX));
    assert_eq!(verify(&set, &own.token(&id_claims())), Ok(()));
    let late = own.token_with(&json!({"alg": "EdDSA", "kid": "9998"}), &id_claims());
    assert_eq!(verify(&set, &late).expect_err("beyond the limit").field(), "kid");
}

#[test]
fn long_key_ids_are_not_stored() {
    let long = changed(&KEY.jwk(), &json!({"kid": "k".repeat(513)}));
    let set = set(&json!({"keys": [long, changed(&KEY.jwk(), &json!({"kid": 7}))]}));
    assert_eq!((set.len(), set.left_out().len()), (1, 1));
    assert_eq!(set.left_out()[0].key_id, None);
    let token = KEY.token_with(&json!({"alg": "ES256", "kid": "k".repeat(513)}), &id_claims());
    let fault = verify(&set, &token).expect_err("a long id");
    assert!(fault.field() == "kid" && fault.to_string().len() < 200, "{fault}");
}

#[test]
fn documents_that_are_no_key_sets_are_refused() {
    let long = format!("{{\"keys\":{:?}}}", "x".repeat(100_000));
    let deep = format!("{{\"keys\":[{}1{}]}}", "[".repeat(5000), "]".repeat(5000));
    let huge = format!("{{\"keys\":[]}}{}", " ".repeat(1024 * 1024));
    for document in ["", "{}", "[]", "null", "<html>", "{\"keys\":{}}", "{\"keys\":[", &long, &deep, &huge] {
        let fault = KeySet::parse(document.as_bytes()).expect_err("no key set");
        assert_eq!(fault.field(), "document");
        assert!(fault.to_string().len() < 500, "{fault}");
    }
    assert!(KeySet::parse(b"{\"keys\":[]}").expect("a set").is_empty());
}
