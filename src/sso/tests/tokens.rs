use std::time::Duration;

use serde_json::{Value, json};

use super::provider::{HostileProvider, NOW_S, NodeUnderTest, key};
use crate::model::code::Code;
use crate::model::sso::Provider;
use crate::oidc::testing::{TestKey, base64url, changed};
use crate::sso::remembered::RememberedTokens;

#[tokio::test]
async fn a_verified_token_is_remembered_until_it_ends() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let token = key.token(&hostile.bearer_claims());
    let first = node.providers.bearer(&provider, &token).await.expect("a token");
    assert_eq!((first.sub.as_str(), first.expires.0), ("u-9", (NOW_S + 300 + 60) * 1000));
    assert_eq!(first.claims.object(), hostile.bearer_claims().as_object().expect("claims"));
    assert_eq!(node.providers.issuer_of(&token), Ok(hostile.issuer.clone()));
    // Without any key that would verify it.
    node.providers.documents.lock().clear();
    hostile.set_down(true);
    node.pass(Duration::from_secs(359));
    assert_eq!(node.providers.bearer(&provider, &token).await, Ok(first));
    hostile.set_down(false);
    node.pass(Duration::from_secs(1));
    let refusal = node.providers.bearer(&provider, &token).await.expect_err("ended");
    assert_eq!((refusal.code, refusal.detail.contains("`exp` is over")), (Code::TokenNotExisted, true));
}

#[tokio::test]
async fn a_remembered_content_with_another_signature_is_refused() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let token = key.token(&hostile.bearer_claims());
    node.providers.bearer(&provider, &token).await.expect("a token");
    let (signed, _) = token.rsplit_once('.').expect("a signature");
    for signature in [base64url(&[7; 64]), "AAAA".to_owned(), base64url(&[0; 64])] {
        let forged = format!("{signed}.{signature}");
        let refusal = node.providers.bearer(&provider, &forged).await.expect_err("forged");
        assert_eq!(refusal.code, Code::TokenNotExisted);
        assert!(refusal.detail.contains("signature"), "{}", refusal.detail);
    }
    assert!(node.providers.bearer(&provider, &format!("{signed}.")).await.is_err());
    assert!(node.providers.bearer(&provider, &token).await.is_ok());
}

#[tokio::test]
async fn a_changed_provider_ends_what_is_remembered() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let token = key.token(&hostile.bearer_claims());
    node.providers.bearer(&provider, &token).await.expect("a token");
    let narrowed = |change: fn(&mut Provider)| {
        let mut provider = Provider { revision: "r2".to_owned(), ..hostile.provider() };
        change(&mut provider);
        provider
    };
    let rows = [
        (narrowed(|provider| provider.audiences = vec!["another".to_owned()]), "`aud`"),
        (narrowed(|provider| drop(provider.required_claims.insert("tid".to_owned(), "t".to_owned()))), "tid"),
    ];
    for (provider, expected) in rows {
        let refusal = node.providers.bearer(&provider, &token).await.expect_err(expected);
        assert!(refusal.code == Code::TokenNotExisted && refusal.detail.contains(expected), "{}", refusal.detail);
    }
    // Another provider under the same name is another one.
    let again = Provider { id: "p2".to_owned(), audiences: vec!["another".to_owned()], ..hostile.provider() };
    assert!(node.providers.bearer(&again, &token).await.is_err());
    assert!(node.providers.bearer(&provider, &token).await.is_ok());
}

#[tokio::test]
async fn hostile_bearers_are_refused_with_their_field_and_not_remembered() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let groups: Vec<String> = (0..10_000).map(|at| format!("{at}")).collect();
    let rows = [
        (json!({"aud": "another"}), "`aud`"),
        (json!({"aud": "openid"}), "`aud`"),
        (json!({"iss": "https://sso.example"}), "`iss`"),
        (json!({"exp": NOW_S - 300}), "`exp`"),
        (json!({"nbf": NOW_S + 300}), "`nbf`"),
        (json!({"sub": "a\u{0}"}), "`sub`"),
        // ID, refresh and logout tokens.
        (json!({"nonce": "n"}), "`nonce`"),
        (json!({"at_hash": "x"}), "`at_hash`"),
        (json!({"typ": "ID"}), "`typ`"),
        (json!({"typ": "Refresh"}), "`typ`"),
        (json!({"events": {}}), "`events`"),
        // Groups that do not fit, and claims without end.
        (json!({"groups": groups}), "16384"),
        (json!({"groups": vec!["g"; 2000]}), "at most 1000"),
        (json!({"x": "x".repeat(1024 * 1024)}), "16384"),
        (json!({"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {}}}), "groups"),
    ];
    for (changes, expected) in rows {
        let token = key.token(&changed(&hostile.bearer_claims(), &changes));
        let name = changes.to_string().chars().take(80).collect::<String>();
        let refusal = node.providers.bearer(&provider, &token).await.expect_err(&name);
        assert_eq!(refusal.code, Code::TokenNotExisted, "{name}");
        assert!(refusal.detail.contains(expected) && refusal.detail.len() < 500, "{name}: {}", refusal.detail);
        assert!(!refusal.detail.contains(&token[..40]), "no refusal quotes a token");
    }
    for (claims, is_accepted) in [
        (json!({"exp": NOW_S - 11}), true),
        (json!({"nbf": NOW_S + 11}), true),
        (json!({"groups": "dev"}), true),
        (json!({"aud": ["x", "thuban-api"]}), true),
    ] {
        let token = key.token(&changed(&hostile.bearer_claims(), &claims));
        assert_eq!(node.providers.bearer(&provider, &token).await.is_ok(), is_accepted, "{claims}");
    }
    assert_eq!(node.metrics.sso_remembered_tokens.get(), 4);
}

/// The token of another issuer, or one that is none, makes no request.
#[tokio::test]
async fn foreign_tokens_cost_no_fetch() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let foreign = key.token(&changed(&hostile.bearer_claims(), &json!({"iss": "https://sso.example"})));
    let none = key.token_with(&json!({"alg": "none"}), &hostile.bearer_claims());
    for token in ["", "a.b.c", &foreign, &none, &"x".repeat(20_000)] {
        assert!(node.providers.bearer(&hostile.provider(), token).await.is_err());
    }
    assert_eq!(hostile.count("/acme/.well-known/openid-configuration"), 0);
    assert!(node.providers.documents.lock().len() <= 1);
}

#[tokio::test]
async fn ten_thousand_tokens_are_remembered_at_most() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let verified = node.providers.bearer(&provider, &key.token(&hostile.bearer_claims())).await.expect("a token");
    let remembered = RememberedTokens::new(100);
    for at in 0..1000 {
        remembered.add(&provider, &format!("token {at}"), &verified);
    }
    assert!((1..=100).contains(&remembered.len()), "{}", remembered.len());
    // Long claims take the room of several.
    let long = changed(&hostile.bearer_claims(), &json!({"x": "x".repeat(10_000)}));
    let long = node.providers.bearer(&provider, &key.token(&long)).await.expect("a token");
    let remembered = RememberedTokens::new(100);
    for at in 0..1000 {
        remembered.add(&provider, &format!("token {at}"), &long);
    }
    assert!((1..=20).contains(&remembered.len()), "{}", remembered.len());
}

fn logout_claims(hostile: &HostileProvider) -> Value {
    json!({
        "iss": hostile.issuer, "sub": "u-1", "sid": "s-1", "aud": "thuban", "jti": "j", "iat": NOW_S - 1,
        "events": {"http://schemas.openid.net/event/backchannel-logout": {}}
    })
}

#[tokio::test]
async fn logout_tokens_are_for_one_of_the_clients() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = Provider { cli_client_id: "thuban-cli".to_owned(), ..hostile.provider() };
    let logout = async |key: &TestKey, changes: Value| {
        let token = key.token(&changed(&logout_claims(&hostile), &changes));
        node.providers.logout_token(&provider, &token).await
    };
    let token = logout(&key, json!({})).await.expect("a token");
    assert_eq!((token.sub.as_deref(), token.sid.as_deref(), token.jti.as_str()), (Some("u-1"), Some("s-1"), "j"));
    assert!(logout(&key, json!({"aud": "thuban-cli"})).await.is_ok());
    let forger = super::provider::key("k1");
    for (key, changes) in [
        (&key, json!({"aud": "thuban-api"})),
        (&key, json!({"nonce": "n"})),
        (&key, json!({"events": {}})),
        (&key, json!({"iat": NOW_S - 121})),
        (&forger, json!({})),
    ] {
        let refusal = logout(key, changes.clone()).await.expect_err("a wrong token");
        assert_eq!(refusal.code, Code::TokenNotExisted, "{changes}");
    }
}
