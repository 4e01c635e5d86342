use serde_json::{Value, json};

use super::*;
use crate::testing::base64url;
use crate::{FaultCause, TOKEN_BYTES_MAX, has_jwt_form};

fn header(changes: &Value) -> Value {
    changed(&json!({"alg": "ES256", "kid": "k1", "typ": "JWT"}), changes)
}

#[test]
fn every_algorithm_verifies_its_own_tokens_and_no_other() {
    for algorithm in Algorithm::ALL {
        let (key, other) = (TestKey::new(algorithm, "k1"), TestKey::new(algorithm, "k01"));
        let set = keys_of(&key);
        let token = key.token(&id_claims());
        assert!(set.verify(Jwt::parse(&token).expect("a token")).is_ok(), "{algorithm:?}");
        let id = json!({"alg": algorithm.name(), "kid": "k1"});
        let forged = other.token_with(&id, &id_claims());
        let fault = set.verify(Jwt::parse(&forged).expect("a token")).expect_err("another key's");
        assert_eq!((fault.field(), fault.cause()), ("signature", FaultCause::Key), "{algorithm:?}");
        // Each bit of the signature counts, and so does its length.
        let (signed, _) = token.rsplit_once('.').expect("a signature");
        for wrong in ["", "AAAA", &base64url(&[0; 64]), &base64url(&[0; 96]), &base64url(&[1; 256])] {
            let forged = format!("{signed}.{wrong}");
            assert!(set.verify(Jwt::parse(&forged).expect("a token")).is_err(), "{algorithm:?} {wrong}");
        }
        for name in Algorithm::ALL.iter().filter(|name| **name != algorithm) {
            let confused = key.token_with(&json!({"alg": name.name(), "kid": "k1"}), &id_claims());
            assert!(set.verify(Jwt::parse(&confused).expect("a token")).is_err(), "{algorithm:?} as {name:?}");
        }
    }
}

#[test]
fn a_changed_payload_or_header_is_not_signed() {
    let token = KEY.token(&id_claims());
    let parts: Vec<&str> = token.split('.').collect();
    let payload = base64url(changed(&id_claims(), &json!({"sub": "u-2"})).to_string().as_bytes());
    let other_header = base64url(header(&json!({"typ": "at+jwt"})).to_string().as_bytes());
    for forged in [format!("{}.{payload}.{}", parts[0], parts[2]), format!("{other_header}.{}.{}", parts[1], parts[2])]
    {
        assert_eq!(id_token(&forged).expect_err("forged").field(), "signature");
    }
}

#[test]
fn ecdsa_signatures_in_the_form_of_asn1_are_refused() {
    // Two integers of 32 bytes in a sequence.
    let asn1 = [&[0x30, 0x44, 2, 0x20][..], &[1; 32], &[2, 0x20], &[1; 32]].concat();
    let token = KEY.token(&id_claims());
    let (signed, _) = token.rsplit_once('.').expect("a signature");
    let fault = id_token(&format!("{signed}.{}", base64url(&asn1))).expect_err("not raw");
    assert_eq!(fault.field(), "signature");
}

#[test]
fn algorithms_outside_the_list_are_named_in_the_refusal() {
    let names = [
        "none", "None", "NONE", "HS256", "HS512", "RS512", "RS384", "PS512", "ES512", "ES256K", "Ed25519", "rs256",
        "es256", "dir", "",
    ];
    for name in names {
        let token = KEY.token_with(&header(&json!({"alg": name})), &id_claims());
        let fault = id_token(&token).expect_err("an unknown algorithm");
        assert_eq!(fault.field(), "alg");
        assert!(fault.to_string().contains(&format!("{name:?}")), "{fault}");
        // Without any signature, as attackers send it.
        let (signed, _) = token.rsplit_once('.').expect("a signature");
        assert_eq!(id_token(&format!("{signed}.")).expect_err("unsigned").field(), "alg");
    }
}

#[test]
fn headers_are_strict() {
    let rows = [
        (json!({"alg": null}), "alg"),
        (json!({"alg": 256}), "alg"),
        (json!({"alg": ["ES256"]}), "alg"),
        (json!({"kid": 1}), "kid"),
        (json!({"kid": ["k1"]}), "kid"),
        (json!({"typ": {}}), "typ"),
        (json!({"crit": ["exp"]}), "header"),
        (json!({"crit": []}), "header"),
        (json!({"b64": false}), "header"),
        (json!({"zip": "DEF"}), "header"),
        (json!({"enc": "A128GCM"}), "header"),
        (json!({"typ": "at+jwt"}), "typ"),
        (json!({"typ": "logout+jwt"}), "typ"),
        (json!({"typ": "application/logout+jwt"}), "typ"),
        (json!({"typ": "secevent+jwt"}), "typ"),
        (json!({"typ": null}), ""),
        (json!({"typ": "jwt"}), ""),
        (json!({"typ": "application/jwt"}), ""),
        // Keys in the token itself and addresses of keys are never used.
        (json!({"jwk": KEY.jwk(), "jku": "https://evil.example", "x5u": "https://evil.example"}), ""),
        (json!({"kid": "../../etc/passwd"}), "kid"),
        (json!({"kid": "' OR 1=1 --"}), "kid"),
        (json!({"kid": "\u{0}\n\r"}), "kid"),
    ];
    for (changes, field) in rows {
        let outcome = id_token(&KEY.token_with(&header(&changes), &id_claims()));
        let found = outcome.as_ref().map_or_else(OidcFault::field, |_| "");
        assert_eq!(found, field, "{changes}: {outcome:?}");
        let text = outcome.err().map(|fault| fault.to_string()).unwrap_or_default();
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

#[test]
fn a_key_in_the_header_is_no_key() {
    let own = TestKey::new(Algorithm::Es256, "evil");
    let header = json!({"alg": "ES256", "kid": "evil", "jwk": own.jwk()});
    let fault = id_token(&own.token_with(&header, &id_claims())).expect_err("its own key");
    assert_eq!((fault.field(), fault.cause()), ("kid", FaultCause::Key));
}

#[test]
fn names_that_occur_twice_are_refused_at_every_depth() {
    let (plain, claims) = (r#"{"alg":"ES256","kid":"k1"}"#, id_claims().to_string());
    let twice = claims.replacen('{', r#"{"sub":"u-2","#, 1);
    let deep = claims.replacen('{', r#"{"a":[{"b":{"c":1,"c":1}}],"#, 1);
    // The same name in another spelling.
    let escaped = claims.replacen('{', r#"{"\u0073ub":"u-2","#, 1);
    let rows = [
        (plain, twice.as_str(), "payload"),
        (plain, &deep, "payload"),
        (plain, &escaped, "payload"),
        (r#"{"alg":"none","alg":"ES256","kid":"k1"}"#, &claims, "header"),
        (r#"{"alg":"ES256","kid":"k2","kid":"k1"}"#, &claims, "header"),
    ];
    for (header, payload, field) in rows {
        let fault = id_token(&KEY.sign_parts(header, payload)).expect_err("twice");
        assert_eq!(fault.field(), field);
        assert!(fault.to_string().contains("occurs twice"), "{fault}");
    }
}

#[test]
fn parts_that_are_no_json_objects_are_refused() {
    let plain = r#"{"alg":"ES256","kid":"k1"}"#;
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let payloads =
        ["", "null", "1", "[]", "\"text\"", "{", "{}{}", "{} x", "{\"a\":NaN}", "{\"exp\":1e999}", "{'a':1}", &deep];
    for payload in payloads {
        assert_eq!(id_token(&KEY.sign_parts(plain, payload)).expect_err("no object").field(), "payload", "{payload}");
    }
    for header in ["", "[]", "{", "null"] {
        let fault = id_token(&KEY.sign_parts(header, &id_claims().to_string())).expect_err("no object");
        assert_eq!(fault.field(), "header", "{header}");
    }
}

#[test]
fn texts_that_are_no_signed_tokens_are_refused() {
    let token = KEY.token(&id_claims());
    let parts: Vec<&str> = token.split('.').collect();
    let rows = [
        (String::new(), "token"),
        ("a".to_owned(), "token"),
        ("a.b".to_owned(), "token"),
        (format!("{}.{}", parts[0], parts[1]), "token"),
        (format!("{token}.AAAA"), "token"),
        (format!("{token}.AAAA.AAAA"), "token"),
        (format!("..{}", parts[2]), "header"),
        (format!("{}..{}", parts[0], parts[2]), "payload"),
        (format!("{}=.{}.{}", parts[0], parts[1], parts[2]), "header"),
        (format!(" {token}"), "header"),
        (format!("{token} "), "signature"),
        (format!("{token}\n"), "signature"),
        (format!("{}.{}.+/==", parts[0], parts[1]), "signature"),
        ("x".repeat(TOKEN_BYTES_MAX + 1), "token"),
    ];
    for (text, field) in rows {
        let fault = Jwt::parse(&text).map(|_| ()).expect_err("no token");
        assert_eq!(fault.field(), field, "{text:.60}");
    }
    assert!(Jwt::parse(&token).is_ok());
}

#[test]
fn a_token_has_one_spelling() {
    // 64 bytes leave four unused bits in the last character.
    let token = KEY.token(&id_claims());
    let spellings = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']);
    let accepted = spellings.filter(|last| {
        let spelled = format!("{}{last}", &token[..token.len() - 1]);
        id_token(&spelled).is_ok()
    });
    assert_eq!(accepted.count(), 1);
}

#[test]
fn the_digest_is_of_what_is_signed() {
    // ECDSA signs with a random number: one content has many signatures.
    let (one, two) = (KEY.token(&id_claims()), KEY.token(&id_claims()));
    assert_ne!(one, two);
    let digest = |token: &str| id_token(token).expect("a token").digest;
    assert_eq!(digest(&one), digest(&two));
    assert_ne!(digest(&one), digest(&KEY.token(&changed(&id_claims(), &json!({"jti": "2"})))));
}

#[test]
fn the_longest_token_is_read_and_the_next_is_not() {
    let with = |bytes: usize| KEY.token(&changed(&id_claims(), &json!({"x": "x".repeat(bytes)})));
    let (mut low, mut high) = (0, TOKEN_BYTES_MAX);
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        if with(middle).len() <= TOKEN_BYTES_MAX { low = middle } else { high = middle }
    }
    assert!(id_token(&with(low)).is_ok());
    assert_eq!(id_token(&with(high)).expect_err("too long").field(), "token");
}

#[test]
fn the_form_of_a_token_is_seen_without_reading_it() {
    assert!(has_jwt_form(&KEY.token(&id_claims())));
    assert!(has_jwt_form("a.b.c"));
    let others =
        ["", ".", "..", "a", "a.b", "a.b.", ".b.c", "a.b.c.d", "a.b.c.d.e", "a b.c.d", "ä.b.c", "a.b.c=", "a,b"];
    for text in others {
        assert!(!has_jwt_form(text), "{text}");
    }
}

#[test]
fn the_claimed_issuer_is_readable_before_the_signature() {
    let token = KEY.token(&id_claims());
    assert_eq!(Jwt::parse(&token).expect("a token").issuer(), Ok(ISSUER));
    for iss in [json!(null), json!(1), json!([ISSUER])] {
        let token = KEY.token(&changed(&id_claims(), &json!({"iss": iss})));
        assert_eq!(Jwt::parse(&token).expect("a token").issuer().expect_err("no issuer").field(), "iss");
    }
}
