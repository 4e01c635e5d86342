use serde_json::json;

use super::*;
use crate::{ClientAuthentication, Metadata, discovery_address, fill_missing, is_safe_address};

fn document() -> Value {
    json!({
        "issuer": ISSUER,
        "authorization_endpoint": format!("{ISSUER}/auth"),
        "token_endpoint": format!("{ISSUER}/token"),
        "userinfo_endpoint": format!("{ISSUER}/userinfo"),
        "device_authorization_endpoint": format!("{ISSUER}/device"),
        "end_session_endpoint": format!("{ISSUER}/logout"),
        "jwks_uri": format!("{ISSUER}/certs"),
        "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_basic", "client_secret_post"],
        "mtls_endpoint_aliases": {"token_endpoint": "https://mtls.example"}
    })
}

fn metadata(changes: &Value) -> Result<Metadata, OidcFault> {
    Metadata::parse(ISSUER, changed(&document(), changes).to_string().as_bytes())
}

#[test]
fn discovery_documents_are_checked_field_by_field() {
    let rows = [
        (json!({}), ""),
        (json!({"issuer": "https://sso.example/realms/other"}), "issuer"),
        (json!({"issuer": format!("{ISSUER}/")}), "issuer"),
        (json!({"issuer": "https://login.microsoftonline.com/{tenantid}/v2.0"}), "issuer"),
        (json!({"issuer": null}), "document"),
        (json!({"issuer": 1}), "document"),
        (json!({"jwks_uri": null}), "jwks_uri"),
        (json!({"jwks_uri": "http://sso.example/certs"}), "jwks_uri"),
        (json!({"jwks_uri": "file:///etc/passwd"}), "jwks_uri"),
        (json!({"jwks_uri": "certs"}), "jwks_uri"),
        (json!({"jwks_uri": "http://127.0.0.1:8080/certs"}), ""),
        (json!({"jwks_uri": "http://127.0.0.1.evil.example/certs"}), "jwks_uri"),
        (json!({"jwks_uri": "https://user:secret@sso.example/certs"}), "jwks_uri"),
        (json!({"token_endpoint": "http://sso.example/token"}), "token_endpoint"),
        (json!({"token_endpoint": "https://sso.example/token#x"}), "token_endpoint"),
        (json!({"token_endpoint": format!("https://sso.example/{}", "x".repeat(2048))}), "token_endpoint"),
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "authorization_endpoint"),
        (json!({"userinfo_endpoint": "http://10.0.0.1/"}), "userinfo_endpoint"),
        (json!({"end_session_endpoint": "data:text/html,x"}), "end_session_endpoint"),
        (json!({"device_authorization_endpoint": "ftp://sso.example"}), "device_authorization_endpoint"),
        (json!({"device_authorization_endpoint": ""}), ""),
        (json!({"token_endpoint": ["https://sso.example"]}), "document"),
    ];
    for (changes, field) in rows {
        let outcome = metadata(&changes);
        let found = outcome.as_ref().map_or_else(OidcFault::field, |_| "");
        assert_eq!(found, field, "{changes}: {outcome:?}");
    }
}

/// GitHub Actions and Kubernetes have no endpoint for people.
#[test]
fn issuers_of_tokens_for_programs_need_only_keys() {
    let github = json!({
        "issuer": "https://token.actions.githubusercontent.com",
        "jwks_uri": "https://token.actions.githubusercontent.com/.well-known/jwks",
        "subject_types_supported": ["public", "pairwise"], "response_types_supported": ["id_token"],
        "claims_supported": ["sub", "aud"], "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid"]
    });
    let issuer = "https://token.actions.githubusercontent.com";
    let read = Metadata::parse(issuer, github.to_string().as_bytes()).expect("a document");
    assert!(read.token.is_none() && read.authorization.is_none() && read.end_session.is_none() && !read.sends_issuer);
}

#[test]
fn documents_of_any_other_kind_are_refused_in_a_short_sentence() {
    let long = format!("{{\"issuer\":{ISSUER:?},\"token_endpoint\":{{{:?}:1}}}}", "x".repeat(100_000));
    let huge = format!("{}{}", document(), " ".repeat(1024 * 1024));
    for text in ["", "[]", "<html>", "{", "null", &long, &huge] {
        let fault = Metadata::parse(ISSUER, text.as_bytes()).expect_err("no document");
        assert!(fault.field() == "document" && fault.to_string().len() < 500, "{fault}");
    }
}

#[test]
fn the_address_of_the_document_is_below_the_issuer() {
    let rows = [
        ("https://sso.example", "https://sso.example/.well-known/openid-configuration"),
        ("https://sso.example/", "https://sso.example/.well-known/openid-configuration"),
        ("https://sso.example/realms/acme", "https://sso.example/realms/acme/.well-known/openid-configuration"),
        ("http://localhost:5000", "http://localhost:5000/.well-known/openid-configuration"),
        ("http://[::1]:5000/a", "http://[::1]:5000/a/.well-known/openid-configuration"),
    ];
    for (issuer, address) in rows {
        assert_eq!(discovery_address(issuer).expect("an issuer").as_str(), address);
    }
    for issuer in
        ["", "sso.example", "http://sso.example", "https://sso.example?x=1", "https://sso.example#x", "https://a@b"]
    {
        assert_eq!(discovery_address(issuer).expect_err("no issuer").field(), "issuer", "{issuer}");
    }
}

#[test]
fn plain_http_is_for_this_machine() {
    let safe = ["https://a.example", "http://127.0.0.1", "http://127.8.8.8:1", "http://[::1]:1", "http://localhost:1"];
    let unsafe_ =
        ["http://a.example", "http://0.0.0.0", "http://10.0.0.1", "http://localhost.example", "ftp://localhost"];
    for (address, is_safe) in safe.iter().map(|one| (one, true)).chain(unsafe_.iter().map(|one| (one, false))) {
        assert_eq!(is_safe_address(&address.parse().expect("an address")), is_safe, "{address}");
    }
}

#[test]
fn clients_identify_themselves_as_the_provider_supports_it() {
    let method = |methods: Value| {
        metadata(&json!({"token_endpoint_auth_methods_supported": methods}))
            .expect("a document")
            .client_authentication()
    };
    let rows = [
        (json!(null), ClientAuthentication::Basic),
        (json!(["client_secret_post", "client_secret_basic"]), ClientAuthentication::Basic),
        (json!(["client_secret_post"]), ClientAuthentication::Post),
    ];
    for (methods, expected) in rows {
        assert_eq!(method(methods.clone()), Ok(expected), "{methods}");
    }
    let fault = method(json!(["private_key_jwt"])).expect_err("neither");
    assert_eq!(fault.field(), "token_endpoint_auth_methods_supported");
}

#[test]
fn userinfo_fills_gaps_and_replaces_nothing() {
    let object = |value: Value| value.as_object().expect("an object").clone();
    let mut claims = object(json!({"sub": "u-1", "aud": "thuban", "groups": ["dev"]}));
    fill_missing(&mut claims, object(json!({"sub": "u-1", "groups": ["admin"], "aud": "x", "email": "a@b"})));
    assert_eq!(json!(claims), json!({"sub": "u-1", "aud": "thuban", "groups": ["dev"], "email": "a@b"}));
}
