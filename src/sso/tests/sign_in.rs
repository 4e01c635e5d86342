use serde_json::{Value, json};

use super::provider::{Answer, HostileProvider, NodeUnderTest, key};
use crate::model::code::{Code, Refusal};
use crate::model::sso::Provider;
use crate::oidc::testing::{TestKey, changed};
use crate::sso::VerifiedToken;

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

struct SignIn {
    key: TestKey,
    hostile: HostileProvider,
    node: NodeUnderTest,
}

impl SignIn {
    async fn new() -> SignIn {
        let key = key("k1");
        SignIn { hostile: HostileProvider::start([&key]).await, node: NodeUnderTest::new(), key }
    }

    async fn id_token(
        &self,
        changes: &Value,
        nonce: Option<&str>,
        access: Option<&str>,
    ) -> Result<VerifiedToken, Refusal> {
        let token = self.key.token(&changed(&self.hostile.id_claims(), changes));
        self.node.providers.id_token(&self.hostile.provider(), "thuban", &token, nonce, access).await
    }
}

#[tokio::test]
async fn id_tokens_are_for_their_client_and_nonce() {
    let test = SignIn::new().await;
    let verified = test.id_token(&json!({}), Some("n"), None).await.expect("a token");
    assert_eq!((verified.sub.as_str(), verified.sid.as_deref()), ("u-1", Some("s-1")));
    assert_eq!((verified.digest.len(), verified.claims.text("preferred_username")), (64, Some("ann")));
    let rows = [
        (json!({"aud": "another"}), Some("n"), "`aud`"),
        (json!({"aud": "thuban-api"}), Some("n"), "`aud`"),
        (json!({"aud": ["thuban", "x"]}), Some("n"), "`azp`"),
        (json!({"azp": "another"}), Some("n"), "`azp`"),
        (json!({}), Some("m"), "`nonce`"),
        (json!({}), None, "`nonce`"),
        (json!({"typ": "Bearer"}), Some("n"), "`typ`"),
        (json!({"iat": 1_799_999_000}), Some("n"), "`iat`"),
        (json!({"_claim_names": {"groups": "src1"}}), Some("n"), "groups"),
    ];
    for (changes, nonce, expected) in rows {
        let refusal = test.id_token(&changes, nonce, None).await.expect_err(expected);
        assert_eq!(refusal.code, Code::TokenNotExisted, "{changes}");
        assert!(refusal.detail.contains(expected), "{changes}: {}", refusal.detail);
    }
}

#[tokio::test]
async fn userinfo_is_asked_once_for_what_the_token_lacks() {
    let test = SignIn::new().await;
    let answer = json!({"sub": "u-1", "preferred_username": "ann", "groups": ["dev"], "aud": "evil", "email": "a@b"});
    test.hostile.answer("/userinfo", Answer::Json(200, answer));
    test.id_token(&json!({}), Some("n"), Some("access")).await.expect("a token");
    assert_eq!(test.hostile.count("/userinfo"), 0, "nothing is missing");
    for missing in [
        json!({"groups": null}),
        json!({"preferred_username": null}),
        json!({"groups": null, "preferred_username": null}),
    ] {
        let before = test.hostile.count("/userinfo");
        let verified = test.id_token(&missing, Some("n"), Some("access")).await.expect("a token");
        assert_eq!(verified.claims.values("groups"), ["dev"]);
        assert_eq!(verified.claims.text("preferred_username"), Some("ann"));
        assert_eq!(verified.claims.text("aud"), Some("thuban"), "the token's own claims win");
        assert_eq!(test.hostile.count("/userinfo"), before + 1);
        assert!(test.hostile.last("/userinfo").head.to_lowercase().contains("authorization: bearer access\r\n"));
    }
    // Without an access token the claims are those of the token.
    let verified = test.id_token(&json!({"groups": null}), Some("n"), None).await.expect("a token");
    assert!(verified.claims.values("groups").is_empty());
}

#[tokio::test]
async fn hostile_userinfo_is_refused() {
    let test = SignIn::new().await;
    let elsewhere = HostileProvider::start([&test.key]).await;
    elsewhere.answer("/userinfo", Answer::Json(200, json!({"sub": "u-1", "groups": ["admin"]})));
    let rows = [
        (Answer::Json(200, json!({"sub": "u-2", "groups": ["admin"]})), Code::TokenNotExisted, "`sub` of userinfo"),
        (Answer::Json(200, json!({"groups": ["admin"]})), Code::TokenNotExisted, "`sub` is missing"),
        (Answer::Json(401, json!({"error": "invalid_token"})), Code::TokenNotExisted, "401"),
        (Answer::Json(503, json!({})), Code::ProviderAway, "503"),
        (Answer::Redirect(elsewhere.url("/userinfo")), Code::TokenNotExisted, "302"),
        (Answer::Text("application/jwt", "a.b.c".to_owned()), Code::TokenNotExisted, "JWT"),
        (Answer::Text("application/json", "<html>".to_owned()), Code::TokenNotExisted, "userinfo"),
        (Answer::Json(200, json!({"sub": "u-1", "x": "x".repeat(17_000)})), Code::TokenNotExisted, "16384"),
        (Answer::Json(200, json!({"sub": "u-1", "_claim_names": {"groups": "s"}})), Code::TokenNotExisted, "groups"),
        (Answer::Endless, Code::ProviderAway, "1 MiB"),
        (Answer::Silent, Code::ProviderAway, "no answer"),
    ];
    for (answer, code, expected) in rows {
        let name = answer.name();
        test.hostile.answer("/userinfo", answer);
        let refusal = test.id_token(&json!({"groups": null}), Some("n"), Some("access")).await.expect_err(&name);
        assert_eq!(refusal.code, code, "{name}: {}", refusal.detail);
        assert!(refusal.detail.contains(expected), "{name}: {}", refusal.detail);
        assert!(!refusal.detail.contains("access-token"), "{}", refusal.detail);
    }
    assert_eq!(elsewhere.count("/userinfo"), 0, "no token goes to another host");
}

#[tokio::test]
async fn codes_are_exchanged_in_the_manner_of_the_provider() {
    let test = SignIn::new().await;
    let tokens = json!({"id_token": "i", "access_token": "a", "token_type": "Bearer"});
    test.hostile.answer("/token", Answer::Json(200, tokens));
    let provider = test.hostile.provider();
    let exchange = async |provider: &Provider, secret: Option<&str>| {
        test.node.providers.exchange(provider, secret, "the-code", VERIFIER, "https://thuban/cb").await
    };
    let tokens = exchange(&provider, Some("s")).await.expect("tokens");
    assert_eq!((tokens.id_token.as_str(), tokens.access_token.as_deref()), ("i", Some("a")));
    let received = test.hostile.last("/token");
    assert!(received.head.starts_with("POST /token HTTP/1.1\r\n"));
    assert!(received.head.to_lowercase().contains("authorization: basic dgh1ymfuonm=\r\n"), "{}", received.head);
    assert!(received.body.contains("code=the-code&") && !received.body.contains("client_id"), "{}", received.body);
    assert!(received.body.contains(&format!("code_verifier={VERIFIER}")), "{}", received.body);
    exchange(&provider, None).await.expect("tokens");
    assert!(test.hostile.last("/token").body.ends_with("&client_id=thuban"));
    // Another provider, which supports only the form.
    let post =
        changed(&test.hostile.document(), &json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]}));
    test.hostile.answer_discovery(Answer::Json(200, post));
    let other = Provider { id: "p2".to_owned(), ..provider.clone() };
    exchange(&other, Some("s")).await.expect("tokens");
    let received = test.hostile.last("/token");
    assert!(received.body.ends_with("&client_id=thuban&client_secret=s"), "{}", received.body);
    assert!(!received.head.to_lowercase().contains("authorization:"));
}

#[tokio::test]
async fn refusals_at_the_token_endpoint_are_in_the_words_of_the_provider() {
    let test = SignIn::new().await;
    let elsewhere = HostileProvider::start([&test.key]).await;
    let rows = [
        (
            Answer::Json(400, json!({"error": "invalid_grant", "error_description": "no\u{1b}[31m"})),
            Code::TokenNotExisted,
            "invalid_grant: no [31m",
        ),
        (Answer::Json(401, json!({"error": "invalid_client"})), Code::TokenNotExisted, "invalid_client"),
        (Answer::Json(200, json!({"access_token": "a"})), Code::TokenNotExisted, "openid"),
        (Answer::Json(200, json!({"id_token": 1})), Code::ProviderAway, "cannot be read"),
        (Answer::Redirect(elsewhere.url("/token")), Code::TokenNotExisted, "the status 302"),
        (Answer::Json(500, json!({"error": "server_error"})), Code::ProviderAway, "500"),
        (Answer::Endless, Code::ProviderAway, "1 MiB"),
        (Answer::Silent, Code::ProviderAway, "no answer"),
        (Answer::Close, Code::ProviderAway, ""),
    ];
    for (answer, code, expected) in rows {
        let name = answer.name();
        test.hostile.answer("/token", answer);
        let provider = test.hostile.provider();
        let refusal = test.node.providers.exchange(&provider, Some("secret"), "code", VERIFIER, "https://t/cb").await;
        let refusal = refusal.map(|_| ()).expect_err(&name);
        assert_eq!(refusal.code, code, "{name}: {}", refusal.detail);
        assert!(refusal.detail.contains(expected) && !refusal.detail.contains("secret"), "{name}: {}", refusal.detail);
    }
    assert_eq!(elsewhere.count("/token"), 0, "no secret goes to another host");
    let failed = test.node.metrics.sso_fetches.with_label_values(&["acme", "tokens", "failed"]).get();
    assert_eq!(failed, 3);
}
