use serde_json::json;
use url::Url;

use super::*;
use crate::{
    AuthorizationRequest, ClientAccount, CodeVerifier, DevicePoll, EndSession, Metadata, authorization_address,
    code_form, device_form, device_token_form, end_session_address, read_callback, read_device_poll, read_device_start,
    read_tokens, read_userinfo, refresh_form,
};

fn metadata(changes: &Value) -> Metadata {
    let document = json!({
        "issuer": ISSUER, "jwks_uri": "https://sso.example/certs",
        "authorization_endpoint": "https://sso.example/auth?p=1",
        "token_endpoint": "https://sso.example/token", "device_authorization_endpoint": "https://sso.example/device",
        "end_session_endpoint": "https://sso.example/logout"
    });
    Metadata::parse(ISSUER, changed(&document, changes).to_string().as_bytes()).expect("a document")
}

fn query(url: &Url) -> Vec<(String, String)> {
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Appendix B of RFC 7636.
#[test]
fn challenges_are_those_of_the_standard() {
    let random = [
        116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212, 37, 77, 105, 214, 191,
        240, 91, 88, 5, 88, 83, 132, 141, 121,
    ];
    let verifier = CodeVerifier::new(&random);
    assert_eq!(verifier.text(), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    assert!(CodeVerifier::of_text(verifier.text()) == Some(verifier.clone()));
    for text in ["", "short", &"x".repeat(129), &format!("{} ", verifier.text()), &"ä".repeat(43)] {
        assert!(CodeVerifier::of_text(text).is_none(), "{text}");
    }
}

#[test]
fn the_authorization_address_has_every_parameter_once() {
    let request = AuthorizationRequest {
        client_id: "thuban&x",
        redirect_uri: "https://thuban.example/ui/sso/acme/callback",
        scope: "openid profile",
        state: "s",
        nonce: "n",
        challenge: "c",
    };
    let address = authorization_address(&metadata(&json!({})), &request).expect("an address");
    assert!(address.as_str().starts_with("https://sso.example/auth?p=1&response_type=code&client_id=thuban%26x&"));
    let expected = [
        ("p", "1"),
        ("response_type", "code"),
        ("client_id", "thuban&x"),
        ("redirect_uri", "https://thuban.example/ui/sso/acme/callback"),
        ("scope", "openid profile"),
        ("state", "s"),
        ("nonce", "n"),
        ("code_challenge", "c"),
        ("code_challenge_method", "S256"),
    ];
    assert_eq!(query(&address), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let without = metadata(&json!({"authorization_endpoint": null}));
    let fault = authorization_address(&without, &request).expect_err("no endpoint");
    assert_eq!(fault.field(), "authorization_endpoint");
}

#[test]
fn forms_identify_the_client_in_the_manner_of_the_provider() {
    let verifier = CodeVerifier::new(&[7; 32]);
    let public = ClientAccount { client_id: "cli", secret: None };
    let confidential = ClientAccount { client_id: "thu:ban", secret: Some("s%e c") };
    let basic = metadata(&json!({}));
    let form = code_form(&basic, confidential, "the code", &verifier, "https://a/cb").expect("a form");
    assert_eq!(form.address.as_str(), "https://sso.example/token");
    // Base64 of `thu%3Aban:s%25e+c`.
    assert_eq!(form.authorization.as_deref(), Some("Basic dGh1JTNBYmFuOnMlMjVlK2M="));
    let verifier_text = verifier.text();
    let code = format!(
        "grant_type=authorization_code&code=the+code&redirect_uri=https%3A%2F%2Fa%2Fcb&code_verifier={verifier_text}"
    );
    assert_eq!(form.body, code);
    let post = metadata(&json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]}));
    let form = code_form(&post, confidential, "the code", &verifier, "https://a/cb").expect("a form");
    assert_eq!((form.authorization, form.body), (None, format!("{code}&client_id=thu%3Aban&client_secret=s%25e+c")));
    let form = code_form(&post, public, "the code", &verifier, "https://a/cb").expect("a form");
    assert_eq!((form.authorization, form.body), (None, format!("{code}&client_id=cli")));

    let form = device_form(&basic, public, "openid", &verifier.challenge()).expect("a form");
    let challenge = verifier.challenge();
    assert_eq!(form.address.as_str(), "https://sso.example/device");
    assert_eq!(form.body, format!("scope=openid&code_challenge={challenge}&code_challenge_method=S256&client_id=cli"));
    let form = device_token_form(&basic, public, "d", &verifier).expect("a form");
    let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code";
    assert_eq!(form.body, format!("grant_type={grant}&device_code=d&code_verifier={verifier_text}&client_id=cli"));
    let form = refresh_form(&basic, public, "r").expect("a form");
    assert_eq!(form.body, "grant_type=refresh_token&refresh_token=r&client_id=cli");
    let without = metadata(&json!({"device_authorization_endpoint": null}));
    let fault = device_form(&without, public, "openid", "c").map(|_| ()).expect_err("no endpoint");
    assert_eq!(fault.field(), "device_authorization_endpoint");
}

#[test]
fn the_end_of_a_session_is_an_address_with_a_hint() {
    let request = EndSession { client_id: "thuban", id_token_hint: Some("a.b.c"), return_to: Some("https://a/ui/") };
    let address = end_session_address(&metadata(&json!({})), &request).expect("an address");
    let expected = "client_id=thuban&id_token_hint=a.b.c&post_logout_redirect_uri=https%3A%2F%2Fa%2Fui%2F";
    assert_eq!(address.as_str(), format!("https://sso.example/logout?{expected}"));
    assert_eq!(end_session_address(&metadata(&json!({"end_session_endpoint": null})), &request), None);
}

#[test]
fn callbacks_belong_to_their_issuer_and_say_everything_once() {
    let iss = format!("iss={}", "https%3A%2F%2Fsso.example%2Frealms%2Facme");
    let rows = [
        ("code=c&state=s".to_owned(), false, ""),
        (format!("code=c&state=s&{iss}&session_state=x&further=1"), true, ""),
        ("code=c&state=s".to_owned(), true, "iss"),
        ("code=c&state=s&iss=https%3A%2F%2Fevil.example".to_owned(), false, "iss"),
        (format!("code=c&state=s&{iss}&iss=https%3A%2F%2Fevil.example"), false, "iss"),
        ("code=c&code=d&state=s".to_owned(), false, "code"),
        ("code=c&state=s&state=t".to_owned(), false, "state"),
        ("code=c".to_owned(), false, "state"),
        ("state=s".to_owned(), false, "code"),
        ("code=&state=s".to_owned(), false, "code"),
        (String::new(), false, "state"),
        (format!("code=c&state=s&x={}", "x".repeat(16_384)), false, "query"),
    ];
    for (text, sends_issuer, field) in rows {
        let outcome = read_callback(&text, ISSUER, sends_issuer).map(|callback| callback.code.is_ok());
        let found = outcome.as_ref().map_or_else(OidcFault::field, |_| "");
        assert_eq!(found, field, "{text:.80}: {outcome:?}");
    }
    let refused = read_callback("error=access_denied&error_description=no%0A%1B%5B31m&state=s", ISSUER, false);
    let refusal = refused.map(|callback| callback.code).expect("a callback").expect_err("refused");
    assert_eq!(refusal.to_string(), "access_denied: no  [31m");
}

#[test]
fn token_responses_are_read_with_their_refusals() {
    let read = |status, text: &str| match read_tokens(status, text.as_bytes()) {
        Ok(Ok(tokens)) => format!("{:?} {:?} {:?}", tokens.id_token, tokens.access_token, tokens.refresh_token),
        Ok(Err(refusal)) => refusal.to_string(),
        Err(fault) => fault.field().to_owned(),
    };
    let whole = r#"{"id_token":"i","access_token":"a","refresh_token":"r","token_type":"bearer","expires_in":"300"}"#;
    let long = format!("{{\"id_token\":{:?}}}", "x".repeat(16 * 1024 + 1));
    let words = format!("{{\"error\":\"x\",\"error_description\":{:?}}}", "y".repeat(100_000));
    let rows = [
        (200, whole, "Some(\"i\") Some(\"a\") Some(\"r\")".to_owned()),
        (200, r#"{"access_token":"a","token_type":"Bearer"}"#, "None Some(\"a\") None".to_owned()),
        (200, r#"{"access_token":"a","token_type":"DPoP"}"#, "token_type".to_owned()),
        (200, long.as_str(), "id_token".to_owned()),
        (200, "<html>", "response".to_owned()),
        (200, r#"{"id_token":{}}"#, "response".to_owned()),
        (400, r#"{"error":"invalid_grant"}"#, "invalid_grant".to_owned()),
        (
            400,
            r#"{"error":"invalid_grant","error_description":"Code\tnot valid"}"#,
            "invalid_grant: Code not valid".to_owned(),
        ),
        (400, &words, format!("x: {}", "y".repeat(200))),
        (502, "<html>", "the status 502".to_owned()),
        (302, "", "the status 302".to_owned()),
    ];
    for (status, text, expected) in rows {
        assert_eq!(read(status, text), expected, "{text:.80}");
    }
}

#[test]
fn device_flows_are_read_as_providers_write_them() {
    let read = |text: &str| match read_device_start(200, text.as_bytes()) {
        Ok(Ok(start)) => format!(
            "{} {:?} {} {}",
            start.user_code, start.verification_uri_complete, start.interval_s, start.expires_s
        ),
        Ok(Err(refusal)) => refusal.to_string(),
        Err(fault) => fault.field().to_owned(),
    };
    let base = json!({"device_code": "d", "user_code": "AB-CD", "verification_uri": "https://a/device"});
    let rows = [
        (json!({"interval": 7, "expires_in": 60}), "AB-CD None 7 60"),
        // oidc-provider names no interval.
        (json!({"expires_in": 60}), "AB-CD None 5 60"),
        (json!({}), "AB-CD None 5 600"),
        (json!({"interval": "5", "expires_in": "900"}), "AB-CD None 5 900"),
        (json!({"interval": 0, "expires_in": -1}), "AB-CD None 1 1"),
        (json!({"interval": 1e300, "expires_in": 1e300}), "AB-CD None 300 3600"),
        (
            json!({"verification_uri_complete": "https://a/device?code=x"}),
            "AB-CD Some(\"https://a/device?code=x\") 5 600",
        ),
        (json!({"verification_uri_complete": "\u{1b}[2J"}), "AB-CD None 5 600"),
        (json!({"user_code": "\u{1b}[2J"}), "user_code"),
        (json!({"user_code": ""}), "user_code"),
        (json!({"verification_uri": "https://a/\u{7}"}), "verification_uri"),
        (json!({"device_code": null}), "response"),
    ];
    for (changes, expected) in rows {
        assert_eq!(read(&changed(&base, &changes).to_string()), expected, "{changes}");
    }
    let google = r#"{"device_code":"d","user_code":"u","verification_url":"https://www.google.com/device"}"#;
    assert_eq!(read(google), "u None 5 600");
    let missing = br#"{"error":"invalid_request","error_description":"Missing parameter: code_challenge_method"}"#;
    let refused = read_device_start(400, missing).expect("a response").map(|_| ()).expect_err("refused");
    assert_eq!(refused.to_string(), "invalid_request: Missing parameter: code_challenge_method");
}

#[test]
fn polls_wait_slow_down_and_end() {
    let read = |status, text: &str| match read_device_poll(status, text.as_bytes()).expect("a response") {
        DevicePoll::Tokens(tokens) => tokens.id_token.unwrap_or_default(),
        DevicePoll::Pending => "pending".to_owned(),
        DevicePoll::SlowDown => "slow down".to_owned(),
        DevicePoll::Refused(refusal) => refusal.to_string(),
    };
    let rows = [
        (400, r#"{"error":"authorization_pending"}"#, "pending"),
        (400, r#"{"error":"slow_down"}"#, "slow down"),
        (400, r#"{"error":"expired_token"}"#, "expired_token"),
        (403, r#"{"error":"access_denied"}"#, "access_denied"),
        (200, r#"{"id_token":"i"}"#, "i"),
    ];
    for (status, text, expected) in rows {
        assert_eq!(read(status, text), expected);
    }
}

#[test]
fn userinfo_is_about_the_same_person() {
    let read = |media_type: &str, text: &str| match read_userinfo(media_type, text.as_bytes(), "u-1") {
        Ok(claims) => json!(claims).to_string(),
        Err(fault) => fault.field().to_owned(),
    };
    let rows = [
        ("application/json", r#"{"sub":"u-1","email":"a@b"}"#, r#"{"sub":"u-1","email":"a@b"}"#),
        ("application/json; charset=utf-8", r#"{"sub":"u-1"}"#, r#"{"sub":"u-1"}"#),
        ("application/json", r#"{"sub":"u-2"}"#, "sub"),
        ("application/json", r#"{"email":"a@b"}"#, "sub"),
        ("application/json", r#"{"sub":["u-1"]}"#, "sub"),
        ("application/json", r#"{"sub":"u-2","sub":"u-1"}"#, "response"),
        ("application/json", "<html>", "response"),
        ("application/jwt", "a.b.c", "response"),
        ("Application/JWT; charset=utf-8", "a.b.c", "response"),
    ];
    for (media_type, text, expected) in rows {
        assert_eq!(read(media_type, text), expected, "{media_type} {text}");
    }
}
