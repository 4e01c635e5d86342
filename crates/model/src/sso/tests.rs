use serde_json::{Value, json};

use super::*;
use crate::model::access_key::{ClearSecret, SealedSecret};
use crate::model::grant::{Grant, Role};
use crate::model::limits;
use crate::model::stamp::Stamp;

fn claims(value: Value) -> Claims {
    Claims::parse(&value.to_string()).expect("claims")
}

fn condition(claim: &str, value: &str) -> Condition {
    Condition { claim: claim.to_owned(), value: value.to_owned() }
}

fn binding(given: Value) -> Binding {
    serde_json::from_value(given).expect("a binding")
}

fn provider() -> Provider {
    Provider { issuer: "https://id.acme.org".into(), ..Provider::new("p1", "acme", Stamp::default()) }
}

#[test]
fn a_claim_is_found_whole_and_then_by_its_path() {
    let claims = claims(json!({
        "groups": ["dev", "ops", 7, ["nested"]],
        "email": "ann@acme.org",
        "a.b": "whole",
        "a": { "b": "path", "c": "other" },
        "kubernetes.io": { "namespace": "shop", "serviceaccount": { "name": "ci" } },
        "https://acme.org/roles": ["admin"],
        "realm_access": { "roles": ["editor", ""] },
        "resource_access": { "my.client": { "roles": ["one"] } },
        "number": 7, "flag": true, "none": null, "object": {},
    }));
    let rows: [(&str, &[&str]); 16] = [
        ("groups", &["dev", "ops"]),
        ("email", &["ann@acme.org"]),
        ("a.b", &["whole"]),
        ("a.c", &["other"]),
        ("kubernetes.io.namespace", &["shop"]),
        ("kubernetes.io.serviceaccount.name", &["ci"]),
        ("https://acme.org/roles", &["admin"]),
        ("realm_access.roles", &["editor", ""]),
        ("resource_access.my.client.roles", &["one"]),
        ("number", &[]),
        ("flag", &[]),
        ("none", &[]),
        ("object", &[]),
        ("kubernetes.io", &[]),
        ("groups.0", &[]),
        ("", &[]),
    ];
    for (claim, expected) in rows {
        assert_eq!(claims.values(claim), expected, "{claim}");
    }
    for claim in [".", "..", "a.", ".b", "a..b", "email.x", "absent.x"] {
        assert!(claims.values(claim).is_empty(), "{claim}");
    }
    assert_eq!((claims.text("email"), claims.text("groups")), (Some("ann@acme.org"), None));
}

#[test]
fn claims_have_limits_and_are_stored_as_text() {
    let long = json!({ "groups": "g".repeat(limits::CLAIMS_BYTES_MAX) }).to_string();
    let many = json!({ "groups": vec![1; limits::CLAIM_VALUES_MAX] }).to_string();
    for (text, why) in [(&*long, "bytes, at most 16384"), (&many, "values, at most 1000"), ("[]", "claims:"), ("{", "")]
    {
        let refusal = Claims::parse(text).expect_err(why);
        assert_eq!(refusal.code, Code::TokenNotExisted);
        assert!(refusal.detail.contains(why), "{refusal:?}");
    }
    let longest = json!({ "g": "g".repeat(limits::CLAIMS_BYTES_MAX - 8) }).to_string();
    assert_eq!(longest.len(), limits::CLAIMS_BYTES_MAX);
    assert!(Claims::parse(&longest).is_ok());
    let claims = claims(json!({ "sub": "secret-person", "groups": ["b", "a"] }));
    let stored = serde_json::to_value(&claims).expect("a text");
    assert_eq!(stored, json!(r#"{"sub":"secret-person","groups":["b","a"]}"#));
    assert_eq!(serde_json::from_value::<Claims>(stored).expect("claims"), claims);
    assert!(serde_json::from_value::<Claims>(json!(long)).is_err());
    assert!(!format!("{claims:?}").contains("secret-person"));
}

#[test]
fn what_a_provider_left_out_is_refused() {
    for complete in [json!({}), json!({ "_claim_names": {} }), json!({ "_claim_names": null })] {
        assert_eq!(claims(complete.clone()).check_complete(), Ok(()), "{complete}");
    }
    let left_out = claims(json!({
        "_claim_names": { "groups": "src1" },
        "_claim_sources": { "src1": { "endpoint": "https://graph.windows.net/x" } },
    }));
    let refusal = provider().check_required(&left_out).expect_err("groups are missing");
    assert_eq!(refusal.code, Code::TokenNotExisted);
    assert!(refusal.detail.contains("groups") && refusal.detail.contains("fewer"), "{refusal:?}");
    for other in [json!({ "_claim_names": [] }), json!({ "_claim_names": "groups" }), json!({ "_claim_names": 1 })] {
        assert!(claims(other.clone()).check_complete().is_err(), "{other}");
    }
}

#[test]
fn required_claims_have_to_be_there_with_their_value() {
    let required = [("tid".to_owned(), "t1".to_owned()), ("org.id".to_owned(), "7".to_owned())].into();
    let provider = Provider { required_claims: required, ..provider() };
    let rows = [
        (json!({ "tid": "t1", "org": { "id": "7" } }), None),
        (json!({ "tid": ["t0", "t1"], "org": { "id": "7" } }), None),
        (json!({ "tid": "t1" }), Some("no claim org.id")),
        (json!({ "tid": "T1", "org": { "id": "7" } }), Some("tid is T1, it has to be \"t1\"")),
        (json!({ "tid": "*", "org": { "id": "7" } }), Some("tid is *")),
        (json!({ "tid": "t1", "org": { "id": 7 } }), Some("no claim org.id")),
        (json!({ "tid": [], "org": { "id": "7" } }), Some("no claim tid")),
        (json!({ "org": { "id": "7" } }), Some("no claim tid")),
    ];
    for (given, why) in rows {
        match (provider.check_required(&claims(given.clone())), why) {
            (Ok(()), None) => {}
            (Err(refusal), Some(why)) => {
                assert_eq!(refusal.code, Code::TokenNotExisted);
                assert!(refusal.detail.contains(why), "{given}: {refusal:?}");
            }
            (other, _) => panic!("{given}: {other:?}"),
        }
    }
}

#[test]
fn the_name_is_that_of_the_claim_or_the_first_of_three() {
    let longest = "n".repeat(limits::HOLDER_BYTES_MAX - "acme:".len());
    let too_long = longest.clone() + "n";
    let rows = [
        ("", json!({ "preferred_username": "ann", "email": "a@b", "sub": "1" }), Ok("ann")),
        ("", json!({ "preferred_username": " ", "email": "a@b", "email_verified": true, "sub": "1" }), Ok("a@b")),
        ("", json!({ "email": "a@b", "email_verified": "true", "sub": "1" }), Ok("a@b")),
        ("", json!({ "email": "a@b", "email_verified": false, "sub": "1" }), Ok("1")),
        ("", json!({ "email": "a@b", "sub": "1" }), Ok("1")),
        ("", json!({ "preferred_username": 7, "sub": "1" }), Ok("1")),
        ("", json!({ "email": "a@b" }), Err("none of preferred_username")),
        ("", json!({ "sub": "" }), Err("none of preferred_username")),
        ("repository", json!({ "repository": "acme/shop", "sub": "1" }), Ok("acme/shop")),
        ("repository", json!({ "sub": "1", "preferred_username": "ann" }), Err("no claim repository")),
        ("repository", json!({ "repository": ["acme/shop"] }), Err("no claim repository")),
        ("name", json!({ "name": " \t" }), Err("blank")),
        ("name", json!({ "name": "" }), Err("blank")),
        ("name", json!({ "name": "Ann Ä:b" }), Ok("Ann Ä:b")),
        ("name", json!({ "name": "a\nb" }), Err("control characters")),
        ("name", json!({ "name": "a\u{0}" }), Err("control characters")),
        ("name", json!({ "name": "ann\u{200b}" }), Err("control characters")),
        ("name", json!({ "name": "\u{202e}nna" }), Err("control characters")),
        ("name", json!({ "name": longest }), Ok(&*longest)),
        ("name", json!({ "name": too_long }), Err("more than 123 bytes")),
        ("email", json!({ "email": "a@b" }), Ok("a@b")),
        ("email", json!({ "email": "a@b", "email_verified": true }), Ok("a@b")),
        ("email", json!({ "email": "a@b", "email_verified": false }), Err("not verified")),
        ("email", json!({ "email": "a@b", "email_verified": null }), Err("not verified")),
    ];
    for (claim, given, expected) in rows {
        let provider = Provider { username_claim: claim.to_owned(), ..provider() };
        match (provider.username(&claims(given.clone())), expected) {
            (Ok(name), Ok(expected)) => assert_eq!(name, expected, "{given}"),
            (Err(refusal), Err(why)) => {
                assert_eq!(refusal.code, Code::TokenNotExisted);
                assert!(refusal.detail.contains(why), "{given}: {refusal:?}");
            }
            (other, _) => panic!("{claim} {given}: {other:?}"),
        }
    }
    assert_eq!(provider().holder("ann"), "acme:ann");
}

#[test]
fn bindings_give_what_the_claims_fulfil() {
    let both = json!([
        { "claim": "repository", "value": "acme/*" },
        { "claim": "ref", "value": "refs/heads/main" },
    ]);
    let bindings = vec![
        binding(json!({ "claim": "groups", "value": "ops", "role": "admin", "namespace": "*" })),
        binding(json!({ "claim": "groups", "value": "dev-*", "role": "editor", "namespace": "shop", "name": "pay*" })),
        binding(json!({ "claim": "groups", "value": "*-shop", "role": "editor", "namespace": "shop", "name": "pay*" })),
        binding(json!({ "all": both, "role": "releaser", "namespace": "shop" })),
    ];
    let provider = Provider { bindings, ..provider() };
    let editor = Grant { role: Role::Editor, namespace: "shop".into(), name: "pay*".into() };
    let releaser = Grant { namespace: "shop".into(), ..Grant::of(Role::Releaser) };
    let rows = [
        (json!({ "groups": ["ops"] }), vec![Grant::of(Role::Admin)]),
        (json!({ "groups": "ops" }), vec![Grant::of(Role::Admin)]),
        (json!({ "groups": "ops dev-shop" }), vec![editor.clone()]),
        (json!({ "groups": ["dev-shop", "dev-pay"] }), vec![editor.clone()]),
        (json!({ "groups": ["OPS", "xdev-"] }), vec![]),
        (json!({ "roles": ["ops"] }), vec![]),
        (json!({ "groups": {"ops": true} }), vec![]),
        (json!({ "repository": "acme/shop", "ref": "refs/heads/main" }), vec![releaser.clone()]),
        (json!({ "repository": "acme/shop", "ref": "refs/heads/x" }), vec![]),
        (json!({ "repository": "evil/acme/shop", "ref": "refs/heads/main" }), vec![]),
        (json!({ "ref": "refs/heads/main" }), vec![]),
        (json!({}), vec![]),
    ];
    for (given, expected) in rows {
        let grants = provider.grants(&claims(given.clone()));
        assert_eq!(grants.iter().cloned().collect::<Vec<_>>(), expected, "{given}");
    }
    let nobody = Binding { claim: String::new(), value: "*".into(), ..provider.bindings[0].clone() };
    assert!(!nobody.holds(&claims(json!({ "": "x" }))), "without a condition nobody is bound");
}

#[test]
fn the_client_of_the_command_line_is_public() {
    let of = |secret: Option<&str>, cli: &str| Provider {
        client_id: "console".into(),
        client_secret: secret.map(|secret| SealedSecret(secret.into())),
        cli_client_id: cli.into(),
        ..provider()
    };
    assert_eq!(of(None, "").cli_client(), Some("console"));
    assert_eq!(of(Some("s"), "").cli_client(), None);
    assert_eq!(of(Some("s"), "cli").cli_client(), Some("cli"));
    assert_eq!(of(None, "cli").cli_client(), Some("cli"));
    let of_programs = Provider { bearer: true, ..provider() };
    assert_eq!((of_programs.cli_client(), of_programs.signs_people_in()), (None, false));
    let refusal = of_programs.check_sign_in().expect_err("no client");
    assert_eq!(refusal.detail, "provider acme has no client_id: people do not sign in by it");
    assert!(of(None, "").signs_people_in() && !Provider { disabled: true, ..of(None, "") }.signs_people_in());
}

#[test]
fn no_provider_has_the_names_of_service_tokens() {
    let holder = crate::model::service_token::TOKEN_HOLDER;
    assert_eq!(holder.strip_suffix(SEPARATOR), Some(provider::TOKEN));
}

#[test]
fn a_person_is_one_issuer_and_sub() {
    let key = |issuer: &str, sub: &str| IdentityKey { issuer: issuer.into(), sub: sub.into() }.person();
    assert_eq!(key("https://a", "1"), "7807559fc82f80eb9e359cb1e083c82f");
    assert_ne!(key("https://a", "1"), key("https://a", "2"));
    assert_ne!(key("https://a", "1"), key("https://a1", ""));
    for (sub, is_good) in [("1", true), ("", false), (" ", false), ("a\u{0}", false), (&*"s".repeat(256), false)] {
        assert_eq!(check_sub(sub).is_ok(), is_good, "{sub:?}");
    }
}

fn request(given: Value) -> Result<ProviderRequest, serde_json::Error> {
    let mut whole = json!({ "name": "acme", "issuer": "https://id.acme.org/realms/a", "client_id": "thuban" });
    let fields = given.as_object().expect("an object").clone();
    whole.as_object_mut().expect("an object").extend(fields);
    serde_json::from_value(whole)
}

#[test]
fn each_field_of_a_request_is_judged() {
    let list = |count: usize| vec!["x".to_owned(); count];
    let good = [
        json!({}),
        json!({ "issuer": "http://127.0.0.1:8080/realms/acme" }),
        json!({ "issuer": "http://localhost:5000" }),
        json!({ "issuer": "http://[::1]:5000/" }),
        json!({ "issuer": "https://login.microsoftonline.com/0a1b/v2.0" }),
        json!({ "issuer": "https://id.acme.org/realms/organizations" }),
        json!({ "scopes": "openid groups" }),
        json!({ "scopes": ["openid", "offline_access"] }),
        json!({ "client_secret": "" }),
        json!({ "client_secret": "a b~" }),
        json!({ "bearer": true, "audiences": ["thuban-api"] }),
        json!({ "bearer": true, "audiences": ["thuban-api"], "client_id": "" }),
        json!({ "bearer": true, "audiences": ["thuban-api"], "client_id": null }),
        json!({ "leeway_s": 0, "session_s": 300 }),
        json!({ "leeway_s": 300, "session_s": 2_592_000 }),
        json!({ "bindings": [{ "claim": "groups", "value": "*", "role": "reader", "namespace": "*" }] }),
        json!({ "required_claims": { "hd": "acme.org" } }),
        json!({ "username_claim": "", "groups_claim": "realm_access.roles", "cli_client_id": "" }),
    ];
    for given in good {
        let request = request(given.clone()).expect("a request");
        assert_eq!(request.check_new(), Ok(()), "{given}");
    }
    let bound = |given: Value| json!({ "bindings": [given] });
    let bad = [
        (json!({ "name": "" }), "name has to be"),
        (json!({ "name": "Acme" }), "name has to be"),
        (json!({ "name": "a:b" }), "name has to be"),
        (json!({ "name": "a".repeat(33) }), "name has to be"),
        (json!({ "name": "token" }), "name: "),
        (json!({ "issuer": "" }), "issuer is required"),
        (json!({ "issuer": "http://id.acme.org" }), "issuer has to begin with https://"),
        (json!({ "issuer": "http://10.0.0.1" }), "issuer has to begin with https://"),
        (json!({ "issuer": "http://localhost.evil.org" }), "issuer has to begin with https://"),
        (json!({ "issuer": "ftp://id.acme.org" }), "issuer has to begin"),
        (json!({ "issuer": "id.acme.org" }), "issuer: "),
        (json!({ "issuer": "https://login.microsoftonline.com/{tenantid}/v2.0" }), "issuer has a placeholder"),
        (json!({ "issuer": "https://login.microsoftonline.com/common/v2.0" }), "issuer names no tenant"),
        (json!({ "issuer": "https://login.microsoftonline.us/organizations/v2.0" }), "issuer names no tenant"),
        (json!({ "issuer": "https://ann:pw@id.acme.org" }), "issuer may not hold a user"),
        (json!({ "issuer": "https://id.acme.org/?x=1" }), "issuer may not have a query"),
        (json!({ "issuer": "https://id.acme.org/#x" }), "issuer may not have a query"),
        (json!({ "issuer": "https://id.acme.org/ " }), "issuer may not hold blanks"),
        (json!({ "issuer": format!("https://id.acme.org/{}", "x".repeat(512)) }), "issuer is longer"),
        (json!({ "client_id": "" }), "client_id is required"),
        (json!({ "client_id": "a\n" }), "client_id may not hold control"),
        (json!({ "client_secret": "ä" }), "client_secret has to be"),
        (json!({ "client_secret": "s".repeat(1025) }), "client_secret has to be"),
        (json!({ "cli_client_id": "x".repeat(257) }), "cli_client_id is longer"),
        (json!({ "scopes": "profile" }), "scopes have to hold openid"),
        (json!({ "scopes": ["openid", "a b"] }), "scopes: \"a b\" is not a scope"),
        (json!({ "scopes": list(33) }), "scopes: at most 32"),
        (json!({ "username_claim": "x".repeat(129) }), "username_claim is longer"),
        (json!({ "groups_claim": "\u{7}" }), "groups_claim may not hold control"),
        (json!({ "bearer": true }), "audiences are required"),
        (json!({ "bearer": true, "audiences": [] }), "audiences are required"),
        (json!({ "audiences": [""] }), "audiences: a text is required"),
        (json!({ "audiences": list(17) }), "audiences: at most 16"),
        (json!({ "leeway_s": 301 }), "leeway_s is 301, it is a number from 0 to 300"),
        (json!({ "session_s": 299 }), "session_s is 299, it is a number from 300 to 2592000"),
        (json!({ "session_s": 2_592_001 }), "session_s is 2592001"),
        (json!({ "comment": "c".repeat(1025) }), "comment is longer"),
        (json!({ "required_claims": { "tid": "" } }), "required_claims: a value is required"),
        (json!({ "required_claims": { "": "x" } }), "required_claims: a claim is required"),
        (bound(json!({ "role": "reader", "namespace": "*" })), "bindings: claim and value are required"),
        (bound(json!({ "claim": "groups", "role": "reader", "namespace": "*" })), "bindings: value is required"),
        (bound(json!({ "value": "*", "role": "reader", "namespace": "*" })), "bindings: claim is required"),
        (
            bound(
                json!({ "claim": "a", "value": "b", "all": [condition("a", "b")], "role": "reader", "namespace": "*" }),
            ),
            "but not both",
        ),
        (
            bound(json!({ "all": vec![condition("a", "b"); 9], "role": "reader", "namespace": "*" })),
            "all has at most 8",
        ),
        (bound(json!({ "all": [condition("a", "")], "role": "reader", "namespace": "*" })), "bindings: value"),
        (
            bound(json!({ "claim": "a", "value": "b", "role": "reader", "namespace": "" })),
            "bindings: namespace is empty",
        ),
        (bound(json!({ "claim": "a", "value": "b", "role": "reader", "namespace": "a*b" })), "bindings: namespace may"),
        (
            bound(json!({ "claim": "a", "value": "b", "role": "reader", "namespace": "*", "name": "" })),
            "bindings: name is empty",
        ),
    ];
    for (given, why) in bad {
        let refusal = request(given.clone()).expect("a request").check_new().expect_err(why);
        assert_eq!(refusal.code, Code::InvalidParameter, "{given}");
        assert!(refusal.detail.contains(why), "{given}: {}", refusal.detail);
    }
    for unread in [
        json!({ "scopes": 7 }),
        json!({ "session_s": -1 }),
        bound(json!({ "claim": "a", "value": "b", "role": "reader" })),
        bound(json!({ "claim": "a", "value": "b", "role": "boss", "namespace": "*" })),
    ] {
        assert!(request(unread.clone()).is_err(), "{unread}");
    }
}

#[test]
fn a_draft_is_laid_over_a_provider() {
    let draft = |given: Value, secret: Option<&str>| {
        request(given).expect("a request").into_draft(secret.map(|secret| SealedSecret(secret.into())))
    };
    let mut made = Provider::new("p1", "acme", Stamp::default());
    draft(json!({ "scopes": "openid groups" }), Some("c0ffee")).lay_over(&mut made);
    assert_eq!(made.scopes, ["openid", "groups"]);
    assert_eq!((made.leeway_s, made.session_s, &*made.groups_claim), (60, 28_800, "groups"));
    assert_eq!(made.client_secret, Some(SealedSecret("c0ffee".into())));
    assert_eq!(made.check(), Ok(()));
    draft(json!({ "scopes": "", "groups_claim": "" }), Some("")).lay_over(&mut made);
    assert_eq!((made.client_secret.clone(), made.scopes.len(), &*made.groups_claim), (None, 3, "groups"));
    draft(json!({ "bearer": true }), None).lay_over(&mut made);
    assert!(made.check().is_err(), "an update may not leave bearer without audiences");
    let shown = format!(
        "{:?}",
        ProviderRequest { client_secret: Some(ClearSecret::from("df23df3f".to_owned())), ..ProviderRequest::default() }
    );
    assert!(!shown.contains("df23"), "{shown}");
}
