use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::provider::{Answer, HostileProvider, NodeUnderTest, key};
use crate::model::code::Code;
use crate::oidc::testing::changed;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn nothing_is_fetched_before_it_is_needed() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    assert_eq!(hostile.count("/acme/.well-known/openid-configuration"), 0);
    for _ in 0..3 {
        let token = key.token(&changed(&hostile.bearer_claims(), &json!({"jti": rand::random::<u64>()})));
        node.providers.bearer(&provider, &token).await.expect("a token");
    }
    let counts = (hostile.count("/acme/.well-known/openid-configuration"), hostile.count("/keys"));
    assert_eq!(counts, (1, 1));
    // An hour later both are fetched again, once.
    node.pass(Duration::from_secs(3600));
    let metadata = join_all((0..20).map(|_| node.providers.metadata(&provider))).await;
    assert!(metadata.iter().all(Result::is_ok));
    assert_eq!(hostile.count("/acme/.well-known/openid-configuration"), 2);
    let fetched = node.metrics.sso_fetches.with_label_values(&["acme", "discovery", "done"]).get();
    assert_eq!(fetched, 2);
}

#[tokio::test]
async fn a_thousand_unknown_keys_make_one_fetch() {
    let (known, other) = (key("k1"), key("k2"));
    let (hostile, node) = (HostileProvider::start([&known]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    node.providers.bearer(&provider, &known.token(&hostile.bearer_claims())).await.expect("a token");
    assert_eq!(hostile.count("/keys"), 1, "the first fetch");
    let foreign: Vec<_> = (0..1000)
        .map(|id| other.token_with(&json!({"alg": "ES256", "kid": format!("unknown-{id}")}), &hostile.bearer_claims()))
        .collect();
    let refused = join_all(foreign.iter().map(|token| node.providers.bearer(&provider, token))).await;
    for refusal in refused {
        let refusal = refusal.expect_err("no key");
        assert_eq!(refusal.code, Code::TokenNotExisted);
        assert!(refusal.detail.contains("`kid` is \"unknown-"), "{}", refusal.detail);
    }
    assert_eq!(hostile.count("/keys"), 2);
    // A forged signature by a known id counts as well.
    let forged = other.token_with(&json!({"alg": "ES256", "kid": "k1"}), &hostile.bearer_claims());
    node.pass(Duration::from_millis(29_999));
    let refusal = node.providers.bearer(&provider, &forged).await.expect_err("forged");
    assert!(refusal.detail.contains("signature"), "{}", refusal.detail);
    assert_eq!(hostile.count("/keys"), 2);
    node.pass(Duration::from_millis(1));
    assert!(node.providers.bearer(&provider, &forged).await.is_err());
    assert_eq!(hostile.count("/keys"), 3);
    assert_eq!(hostile.count("/acme/.well-known/openid-configuration"), 1);
    assert_eq!(node.metrics.sso_remembered_tokens.get(), 1, "nothing refused is remembered");
}

#[tokio::test]
async fn a_new_key_is_accepted_with_its_first_token() {
    let (old, new) = (key("old"), key("new"));
    let (hostile, node) = (HostileProvider::start([&old]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let first = old.token(&hostile.bearer_claims());
    node.providers.bearer(&provider, &first).await.expect("a token of the old key");
    hostile.answer_keys([&new]);
    // At the same time, from many callers: one fetch serves all.
    let token = new.token(&hostile.bearer_claims());
    let accepted = join_all((0..50).map(|_| node.providers.bearer(&provider, &token))).await;
    assert!(accepted.iter().all(Result::is_ok));
    assert_eq!(hostile.count("/keys"), 2);
    // A remembered token lasts until it ends; another one of the old key is refused.
    assert!(node.providers.bearer(&provider, &first).await.is_ok());
    let late = old.token(&changed(&hostile.bearer_claims(), &json!({"jti": "late"})));
    assert_eq!(node.providers.bearer(&provider, &late).await.expect_err("no key").code, Code::TokenNotExisted);
}

#[tokio::test]
async fn a_key_that_changes_under_its_id_is_fetched_too() {
    let (old, new) = (key("k1"), key("k1"));
    let (hostile, node) = (HostileProvider::start([&old]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    node.providers.bearer(&provider, &old.token(&hostile.bearer_claims())).await.expect("a token");
    hostile.answer_keys([&new]);
    node.providers.bearer(&provider, &new.token(&hostile.bearer_claims())).await.expect("a token");
    assert_eq!(hostile.count("/keys"), 2);
}

#[tokio::test]
async fn keys_that_change_at_each_token_are_fetched_every_30_seconds() {
    let (hostile, node) = (HostileProvider::start([&key("0")]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let mut accepted = Vec::new();
    for round in 0..4 {
        let next = key(&format!("rotating-{round}"));
        hostile.answer_keys([&next]);
        accepted.push(node.providers.bearer(&provider, &next.token(&hostile.bearer_claims())).await.is_ok());
        node.pass(Duration::from_secs(if round == 2 { 30 } else { 1 }));
    }
    // The first fetch does not count, the second one begins the pause.
    assert_eq!(accepted, [true, true, false, true]);
    assert_eq!(hostile.count("/keys"), 3);
}

#[tokio::test]
async fn a_provider_that_is_away_costs_one_attempt_a_second() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    hostile.set_down(true);
    let token = key.token(&hostile.bearer_claims());
    for expected in 1..=3 {
        let refused = join_all((0..100).map(|_| node.providers.bearer(&provider, &token))).await;
        for refusal in refused {
            let refusal = refusal.expect_err("away");
            assert_eq!(refusal.code, Code::ProviderAway);
            assert!(refusal.detail.starts_with("identity provider acme does not answer: "), "{}", refusal.detail);
        }
        assert_eq!(hostile.count("/acme/.well-known/openid-configuration"), expected);
        node.pass(SECOND);
    }
    hostile.set_down(false);
    assert!(node.providers.bearer(&provider, &token).await.is_ok(), "it is back");
    let failed = node.metrics.sso_fetches.with_label_values(&["acme", "discovery", "failed"]).get();
    assert_eq!(failed, 3);
}

#[tokio::test]
async fn keys_serve_for_as_long_as_the_provider_is_away() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let claims = |id: &str, hours: u64| {
        let exp = super::provider::NOW_S + hours * 3600 + 300;
        key.token(&changed(&hostile.bearer_claims(), &json!({"jti": id, "exp": exp})))
    };
    node.providers.bearer(&provider, &claims("a", 0)).await.expect("a token");
    hostile.set_down(true);
    for hours in 1..=3 {
        node.pass(Duration::from_secs(3600));
        let verified = node.providers.bearer(&provider, &claims("b", hours)).await;
        assert!(verified.is_ok(), "after {hours} hours: {verified:?}");
        assert!(node.providers.metadata(&provider).await.is_ok());
    }
    // An unknown key is not known to be wrong.
    let unknown = super::provider::key("k9").token(&changed(&hostile.bearer_claims(), &json!({"exp": 1_900_000_000})));
    assert_eq!(node.providers.bearer(&provider, &unknown).await.expect_err("away").code, Code::ProviderAway);
    // A forged signature is.
    let forged = super::provider::key("k1").token(&hostile.bearer_claims());
    node.pass(SECOND);
    assert_eq!(node.providers.bearer(&provider, &forged).await.expect_err("forged").code, Code::TokenNotExisted);
    hostile.set_down(false);
    node.pass(SECOND);
    assert!(node.providers.bearer(&provider, &claims("c", 3)).await.is_ok());
}

#[tokio::test]
async fn a_provider_that_stays_silent_delays_one_caller_alone() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    node.providers.metadata(&provider).await.expect("a document");
    hostile.answer_discovery(Answer::Silent);
    node.pass(Duration::from_secs(3600));
    assert!(node.providers.metadata(&provider).await.is_ok(), "the old one, after the time limit");
    for _ in 0..20 {
        node.pass(SECOND);
        let begun = tokio::time::Instant::now();
        assert!(node.providers.metadata(&provider).await.is_ok());
        assert!(begun.elapsed() < Duration::from_millis(400), "the old one, at once");
    }
}

#[tokio::test]
async fn hostile_documents_are_refused_within_their_limits() {
    let key = key("k1");
    let hostile = HostileProvider::start([&key]).await;
    let elsewhere = HostileProvider::start([&key]).await;
    let provider = hostile.provider();
    let other = changed(&hostile.document(), &json!({"issuer": elsewhere.issuer}));
    let plain = changed(&hostile.document(), &json!({"jwks_uri": "http://sso.example/keys"}));
    let rows = [
        (Answer::Redirect(elsewhere.url("/acme/.well-known/openid-configuration")), "redirects to another host"),
        (Answer::Redirect("https://evil.example/".to_owned()), "redirects to another host"),
        (Answer::Redirect("file:///etc/passwd".to_owned()), "redirects to another host"),
        (Answer::Redirect("/acme/.well-known/openid-configuration".to_owned()), "redirects again and again"),
        (Answer::Redirect(String::new()), "redirects again and again"),
        (Answer::Json(200, elsewhere.document()), "`issuer` of the discovery document"),
        (Answer::Json(200, other), "`issuer` of the discovery document"),
        (Answer::Json(200, plain), "`jwks_uri`"),
        (Answer::Json(200, json!([])), "cannot be read"),
        (Answer::Json(500, json!({})), "answers 500"),
        (Answer::Json(404, json!({})), "answers 404"),
        (Answer::Json(204, json!({})), "answers 204"),
        (Answer::Text("text/html", "<html>Sign in</html>".to_owned()), "cannot be read"),
        (Answer::Endless, "larger than 1 MiB"),
        (Answer::Trickle, "no answer within 0.5 s"),
        (Answer::Silent, "no answer within 0.5 s"),
        (Answer::Close, ""),
    ];
    for (answer, expected) in rows {
        let node = NodeUnderTest::new();
        let name = answer.name();
        hostile.answer_discovery(answer);
        let refusal = node.providers.metadata(&provider).await.expect_err(&name);
        assert_eq!(refusal.code, Code::ProviderAway, "{name}");
        assert!(refusal.detail.contains(expected) && refusal.detail.len() < 1000, "{name}: {}", refusal.detail);
    }
    assert_eq!(elsewhere.count("/acme/.well-known/openid-configuration"), 0);
    hostile.answer_discovery(Answer::Redirect("/moved".to_owned()));
    hostile.answer("/moved", Answer::Json(200, hostile.document()));
    assert!(NodeUnderTest::new().providers.metadata(&provider).await.is_ok(), "within the host");
}

#[tokio::test]
async fn hostile_key_sets_are_refused_within_their_limits() {
    let key = key("k1");
    let hostile = HostileProvider::start([&key]).await;
    let token = key.token(&hostile.bearer_claims());
    let mut many: Vec<_> = (0..10_000).map(|id| json!({"kty": "oct", "kid": format!("{id}")})).collect();
    many.push(key.jwk());
    let rows = [
        (Answer::Endless, Code::ProviderAway, "larger than 1 MiB"),
        (Answer::Trickle, Code::ProviderAway, "no answer"),
        (Answer::Redirect("https://evil.example/keys".to_owned()), Code::ProviderAway, "another host"),
        (Answer::Json(200, json!({"keys": "none"})), Code::ProviderAway, "cannot be read"),
        (Answer::Json(200, json!({"keys": []})), Code::TokenNotExisted, "`kid`"),
        (Answer::Json(200, json!({"keys": many})), Code::TokenNotExisted, "`kid`"),
    ];
    for (answer, code, expected) in rows {
        let node = NodeUnderTest::new();
        let name = answer.name();
        hostile.answer("/keys", answer);
        let refusal = node.providers.bearer(&hostile.provider(), &token).await.expect_err(&name);
        assert_eq!(refusal.code, code, "{name}: {}", refusal.detail);
        assert!(refusal.detail.contains(expected), "{name}: {}", refusal.detail);
    }
}

#[tokio::test]
async fn documents_of_the_last_used_providers_are_stored() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    for id in 0..crate::model::limits::PROVIDERS_MAX + 20 {
        let provider = crate::model::sso::Provider { id: format!("p{id}"), ..hostile.provider() };
        node.pass(SECOND);
        node.providers.metadata(&provider).await.expect("a document");
    }
    assert_eq!(node.providers.documents.lock().len(), crate::model::limits::PROVIDERS_MAX);
    assert!(!node.providers.documents.lock().contains_key("p0"));
}
