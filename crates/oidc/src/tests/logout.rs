use serde_json::json;

use super::*;

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

#[test]
fn logout_tokens_are_checked_claim_by_claim() {
    let rows = [
        (json!({"iss": "https://sso.example/realms/other"}), "iss"),
        (json!({"iss": null}), "iss"),
        (json!({"aud": "other"}), "aud"),
        (json!({"aud": ["thuban", "other"]}), ""),
        (json!({"events": null}), "events"),
        (json!({"events": {}}), "events"),
        (json!({"events": []}), "events"),
        (json!({"events": EVENT}), "events"),
        (json!({"events": {EVENT: true}}), "events"),
        (json!({"events": {EVENT: null}}), "events"),
        (json!({"events": {EVENT: {}, "https://other.example": {}}}), ""),
        (json!({"nonce": "n"}), "nonce"),
        (json!({"sub": null}), ""),
        (json!({"sid": null}), ""),
        (json!({"sub": null, "sid": null}), "sub"),
        (json!({"sub": 1}), "sub"),
        (json!({"sid": ["s-1"]}), "sid"),
        (json!({"jti": null}), "jti"),
        (json!({"jti": ""}), "jti"),
        (json!({"jti": "j".repeat(256)}), "jti"),
        (json!({"iat": null}), "iat"),
        (json!({"iat": NOW_S + 61}), "iat"),
        (json!({"exp": NOW_S - 60}), "exp"),
        (json!({"exp": "soon"}), "exp"),
        (json!({"typ": "Logout"}), ""),
        (json!({"typ": "ID"}), "typ"),
        (json!({"typ": "Bearer"}), "typ"),
        // A draft of the standard had no `exp`: then the token has to be young.
        (json!({"exp": null}), ""),
        (json!({"exp": null, "iat": NOW_S - 120}), ""),
        (json!({"exp": null, "iat": NOW_S - 121}), "exp"),
    ];
    check_rows(&logout_claims(), &rows, |token| logout(token).map(|_| ()));
}

#[test]
fn headers_of_both_kinds_are_accepted() {
    // Keycloak and oidc-provider, glewlwyd.
    for (typ, is_accepted) in [
        ("logout+jwt", true),
        ("application/logout+jwt", true),
        ("JWT", true),
        ("at+jwt", false),
        ("id_token+jwt", false),
    ] {
        let token = KEY.token_with(&json!({"alg": "ES256", "kid": "k1", "typ": typ}), &logout_claims());
        assert_eq!(logout(&token).is_ok(), is_accepted, "{typ}");
    }
}

#[test]
fn an_id_is_remembered_until_its_token_would_be_refused() {
    let with_end = logout(&KEY.token(&logout_claims())).expect("a token");
    assert_eq!(with_end.refused_from_ms, (NOW_S + 100 + 60) * 1000);
    let token = KEY.token(&changed(&logout_claims(), &json!({"exp": null})));
    let without = logout(&token).expect("a token");
    for (later_ms, is_accepted) in [(0, true), (110_000, true), (110_001, false)] {
        let expected = Expected { now_ms: NOW_S * 1000 + later_ms, ..expected() };
        let jwt = keys_of(&KEY).verify(Jwt::parse(&token).expect("a token")).expect("signed");
        assert_eq!(check_logout_token(jwt, &expected).is_ok(), is_accepted);
        assert_eq!(expected.now_ms < without.refused_from_ms, is_accepted, "{later_ms}");
    }
}
