use serde_json::json;

use super::*;
use crate::FaultCause;
use crate::testing::base64url;

fn id_outcome(token: &str) -> Outcome {
    id_token(token).map(|_| ())
}

fn bearer_outcome(token: &str) -> Outcome {
    bearer(token).map(|_| ())
}

/// Rows that hold for every kind of token.
fn rows_of_all() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"iss": null}), "iss"),
        (json!({"iss": "https://sso.example/realms/other"}), "iss"),
        (json!({"iss": format!("{ISSUER}/")}), "iss"),
        (json!({"iss": "https://SSO.example/realms/acme"}), "iss"),
        (json!({"iss": [ISSUER]}), "iss"),
        (json!({"aud": null}), "aud"),
        (json!({"aud": "other"}), "aud"),
        (json!({"aud": "Thuban"}), "aud"),
        (json!({"aud": []}), "aud"),
        (json!({"aud": ["other"]}), "aud"),
        (json!({"aud": ["thuban", 1]}), "aud"),
        (json!({"aud": {"thuban": true}}), "aud"),
        (json!({"aud": "openid"}), "aud"),
        (json!({"aud": ""}), "aud"),
        (json!({"aud": ["thuban"]}), ""),
        // Ended a second ago, within and outside of the leeway.
        (json!({"exp": NOW_S - 1}), ""),
        (json!({"exp": NOW_S - 59}), ""),
        (json!({"exp": NOW_S - 60}), "exp"),
        (json!({"exp": NOW_S - 300}), "exp"),
        (json!({"exp": 0}), "exp"),
        (json!({"exp": -1}), "exp"),
        (json!({"exp": "1800000300"}), "exp"),
        (json!({"exp": 1e300}), "exp"),
        (json!({"exp": [NOW_S + 300]}), "exp"),
        (json!({"exp": NOW_S as f64 + 0.5}), ""),
        // Clocks differ by 11 seconds, and by 5 minutes.
        (json!({"nbf": NOW_S + 11}), ""),
        (json!({"nbf": NOW_S + 60}), ""),
        (json!({"nbf": NOW_S + 61}), "nbf"),
        (json!({"nbf": NOW_S + 300}), "nbf"),
        (json!({"nbf": "now"}), "nbf"),
        (json!({"iat": NOW_S + 11}), ""),
        (json!({"iat": NOW_S + 300}), "iat"),
        (json!({"iat": NOW_S as f64 - 0.25}), ""),
        (json!({"sub": 1}), "sub"),
        (json!({"sub": ""}), "sub"),
        (json!({"sub": "  "}), "sub"),
        (json!({"sub": "a\u{0}b"}), "sub"),
        (json!({"sub": "a\nb"}), "sub"),
        (json!({"sub": "s".repeat(1025)}), "sub"),
        (json!({"auth_time": 1_800_000_000.25}), ""),
    ]
}

#[test]
fn id_tokens_are_checked_claim_by_claim() {
    let mut rows = rows_of_all();
    rows.extend([
        (json!({"exp": null}), "exp"),
        (json!({"iat": null}), "iat"),
        // Handed in too late: 5 minutes, and the leeway.
        (json!({"iat": NOW_S - 359}), ""),
        (json!({"iat": NOW_S - 360}), "iat"),
        (json!({"sub": null}), "sub"),
        (json!({"sub": "s".repeat(255)}), ""),
        (json!({"sub": "s".repeat(256)}), "sub"),
        (json!({"sid": 7}), "sid"),
        (json!({"sid": "x\u{7}"}), "sid"),
        (json!({"sid": null}), ""),
        (json!({"nonce": null}), "nonce"),
        (json!({"nonce": "m"}), "nonce"),
        (json!({"nonce": ["n"]}), "nonce"),
        (json!({"azp": "other"}), "azp"),
        (json!({"azp": ["thuban"]}), "azp"),
        (json!({"azp": null}), ""),
        (json!({"aud": ["thuban", "other"]}), ""),
        (json!({"aud": ["thuban", "other"], "azp": null}), "azp"),
        (json!({"aud": ["thuban", "other"], "azp": "other"}), "azp"),
        (json!({"typ": "ID"}), ""),
        (json!({"typ": "JWT"}), ""),
        (json!({"typ": "Bearer"}), "typ"),
        (json!({"typ": "Refresh"}), "typ"),
        (json!({"typ": "Offline"}), "typ"),
        (json!({"typ": "Logout"}), "typ"),
        (json!({"events": {}}), "events"),
        (json!({"at_hash": "not looked at without an access token"}), ""),
    ]);
    check_rows(&id_claims(), &rows, id_outcome);
}

#[test]
fn bearer_tokens_are_checked_claim_by_claim() {
    let mut rows = rows_of_all();
    rows.extend([
        (json!({"exp": null}), "exp"),
        (json!({"iat": null}), ""),
        (json!({"iat": NOW_S - 100_000}), ""),
        (json!({"nbf": null}), ""),
        (json!({"sub": null}), "sub"),
        (json!({"sub": format!("repo:acme/shop:ref:refs/heads/{}", "b".repeat(244))}), ""),
        (json!({"sid": 7}), ""),
        (json!({"azp": "pipeline"}), ""),
        (json!({"aud": ["thuban", "other"]}), ""),
        // ID tokens, whoever issued them: Keycloak, canaille (typ JWT, the same audience), hybrid flows.
        (json!({"nonce": "n"}), "nonce"),
        (json!({"nonce": ""}), "nonce"),
        (json!({"at_hash": "x"}), "at_hash"),
        (json!({"c_hash": "x"}), "c_hash"),
        (json!({"typ": "ID"}), "typ"),
        (json!({"typ": "id"}), "typ"),
        (json!({"typ": "Refresh"}), "typ"),
        (json!({"typ": "Offline"}), "typ"),
        (json!({"typ": "Logout"}), "typ"),
        (json!({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}), "events"),
        (json!({"typ": "Bearer"}), ""),
        (json!({"type": "access_token"}), ""),
        // Bound to the key of a certificate or of DPoP.
        (json!({"cnf": {"jkt": "x"}}), "cnf"),
    ]);
    check_rows(&bearer_claims(), &rows, bearer_outcome);
}

#[test]
fn bearer_tokens_of_another_purpose_by_their_header_are_refused() {
    for (typ, is_accepted) in [
        (json!("at+jwt"), true),
        (json!("application/at+jwt"), true),
        (json!("AT+JWT"), true),
        (json!("JWT"), true),
        (json!("logout+jwt"), false),
        (json!("Logout+JWT"), false),
        (json!("dpop+jwt"), false),
        (json!("id_token+jwt"), false),
    ] {
        let token = KEY.token_with(&json!({"alg": "ES256", "kid": "k1", "typ": typ}), &bearer_claims());
        assert_eq!(bearer(&token).is_ok(), is_accepted, "{typ}");
    }
}

#[test]
fn kinds_of_tokens_are_not_taken_for_each_other() {
    let id = KEY.token(&id_claims());
    // Device flows and refreshes issue ID tokens without a nonce; Keycloak marks them in the payload.
    let id_without_nonce = KEY.token(&changed(&id_claims(), &json!({"nonce": null, "typ": "ID", "at_hash": "x"})));
    let access = KEY.token(&bearer_claims());
    let ended = KEY.token(&logout_claims());
    let rows: [(&str, &str, bool, bool, bool); 4] = [
        ("id", &id, true, false, false),
        ("id without nonce", &id_without_nonce, false, false, false),
        ("access", &access, false, true, false),
        ("logout", &ended, false, false, true),
    ];
    for (name, token, is_id, is_bearer, is_logout) in rows {
        let found = (id_token(token).is_ok(), bearer(token).is_ok(), logout(token).is_ok());
        assert_eq!(found, (is_id, is_bearer, is_logout), "{name}");
    }
}

fn with_nonce(token: &str, nonce: Option<&str>, access_token: Option<&str>) -> Result<Checked, OidcFault> {
    check_id_token(keys_of(&KEY).verify(Jwt::parse(token)?)?, &expected(), nonce, access_token)
}

#[test]
fn a_nonce_is_required_exactly_where_one_was_sent() {
    let (with, without) = (KEY.token(&id_claims()), KEY.token(&changed(&id_claims(), &json!({"nonce": null}))));
    assert!(with_nonce(&with, Some("n"), None).is_ok());
    assert!(with_nonce(&without, None, None).is_ok());
    for (token, nonce) in [(&with, None), (&with, Some("m")), (&with, Some("")), (&without, Some("n"))] {
        assert_eq!(with_nonce(token, nonce, None).expect_err("another nonce").field(), "nonce");
    }
}

#[test]
fn access_tokens_have_to_fit_their_hash() {
    // Of section A.3 of OpenID Connect Core, and the same for the longer hashes.
    let access = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y";
    let rows = [(Algorithm::Rs256, "77QmUPtjPfzWtF2AnpK9RQ"), (Algorithm::Es256, "77QmUPtjPfzWtF2AnpK9RQ")];
    for (algorithm, hash) in rows {
        assert_eq!(base64url(&algorithm.half_hash(access)), hash);
    }
    for algorithm in Algorithm::ALL {
        let key = TestKey::new(algorithm, "k1");
        let check = |claims: &Value, access: &str| {
            let token = key.token(claims);
            let jwt = keys_of(&key).verify(Jwt::parse(&token).expect("a token")).expect("signed");
            check_id_token(jwt, &expected(), Some("n"), Some(access)).map(|_| ())
        };
        let hash = base64url(&algorithm.half_hash(access));
        let claims = changed(&id_claims(), &json!({"at_hash": hash}));
        assert_eq!(check(&claims, access), Ok(()));
        assert_eq!(check(&claims, "another").expect_err("another token").field(), "at_hash");
        assert_eq!(check(&id_claims(), access), Ok(()), "no hash, nothing to compare");
        for wrong in [json!(""), json!(1), json!(&hash[..10])] {
            let claims = changed(&claims, &json!({"at_hash": wrong}));
            assert_eq!(check(&claims, access).expect_err("no hash of it").field(), "at_hash");
        }
    }
    let long = [(Algorithm::Es384, 24), (Algorithm::EdDsa, 32), (Algorithm::Ps256, 16)];
    assert!(long.iter().all(|(algorithm, bytes)| algorithm.half_hash(access).len() == *bytes));
}

#[test]
fn an_empty_audience_is_never_accepted() {
    let expected = Expected { audiences: &[""], ..expected() };
    for claims in [id_claims(), bearer_claims(), logout_claims()] {
        for aud in [json!(""), json!([""]), json!(["", "x"])] {
            let token = KEY.token(&changed(&claims, &json!({"aud": aud, "azp": ""})));
            let jwt = keys_of(&KEY).verify(Jwt::parse(&token).expect("a token")).expect("signed");
            let faults = [
                check_id_token(jwt.clone(), &expected, Some("n"), None).expect_err("for no client"),
                check_bearer(jwt.clone(), &expected).expect_err("for nobody"),
                check_logout_token(jwt, &expected).expect_err("for no client"),
            ];
            assert!(faults.iter().any(|fault| fault.field() == "aud"), "{faults:?}");
        }
    }
}

#[test]
fn what_was_checked_is_returned() {
    let checked = id_token(&KEY.token(&id_claims())).expect("a token");
    assert_eq!((checked.sub.as_str(), checked.sid.as_deref()), ("u-1", Some("s-1")));
    assert_eq!(checked.issued_ms, Some((NOW_S - 10) * 1000));
    assert_eq!(checked.expires_ms, (NOW_S + 300) * 1000);
    assert_eq!(Value::Object(checked.claims), id_claims());
    let fraction = KEY.token(&changed(&bearer_claims(), &json!({"exp": NOW_S as f64 + 1.5})));
    assert_eq!(bearer(&fraction).expect("a token").expires_ms, NOW_S * 1000 + 1500);
}

#[test]
fn refusals_by_the_clock_say_by_how_much() {
    let ended = bearer(&KEY.token(&changed(&bearer_claims(), &json!({"exp": NOW_S - 300})))).expect_err("ended");
    assert_eq!(ended.cause(), FaultCause::Time);
    assert_eq!(ended.to_string(), "`exp` is over: the token ended 300 s ago");
    let early = bearer(&KEY.token(&changed(&bearer_claims(), &json!({"nbf": NOW_S + 300})))).expect_err("early");
    assert_eq!(early.cause(), FaultCause::Time);
    assert_eq!(early.to_string(), "`nbf` is 300 s ahead of the clock of this cluster");
}

/// Claims as providers were seen to send them.
#[test]
fn tokens_of_real_providers_are_accepted() {
    let keycloak = json!({
        "auth_time": NOW_S - 20, "jti": "onrtac:1", "typ": "ID", "azp": "thuban", "sid": "s", "at_hash": "x",
        "email_verified": true
    });
    let glewlwyd = json!({"amr": ["pwd"], "azp": "thuban", "c_hash": "x", "at_hash": "x", "sid": "s"});
    let certified = json!({"azp": null, "sid": null, "preferred_username": null, "groups": null});
    let canaille = json!({"aud": ["thuban"], "azp": null, "auth_time": NOW_S as f64 - 0.7, "at_hash": "x"});
    let rows = [(keycloak, ""), (glewlwyd, ""), (certified, ""), (canaille, "")];
    check_rows(&id_claims(), &rows, id_outcome);
    let pipeline = json!({
        "typ": "Bearer", "azp": "pipeline", "acr": "1", "scope": "email profile",
        "preferred_username": "service-account-pipeline",
        "resource_access": {"account": {"roles": ["view-profile"]}}
    });
    let kubernetes = json!({
        "aud": ["thuban"], "jti": "j", "sub": "system:serviceaccount:shop:deployer",
        "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "deployer", "uid": "u"}}
    });
    let github = json!({"ref": "refs/heads/main", "repository": "acme/shop", "environment": "prod"});
    check_rows(&bearer_claims(), &[(pipeline, ""), (kubernetes, ""), (github, "")], bearer_outcome);
}
