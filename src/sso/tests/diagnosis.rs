use serde_json::json;

use super::provider::{Answer, HostileProvider, NodeUnderTest, key};
use crate::model::sso::Provider;
use crate::oidc::testing::changed;
use crate::sso::DiagnosisStep;

fn outline(steps: &[DiagnosisStep]) -> Vec<(&str, bool)> {
    steps.iter().map(|step| (step.name, step.is_good)).collect()
}

fn detail<'a>(steps: &'a [DiagnosisStep], name: &str) -> &'a str {
    &steps.iter().find(|step| step.name == name).expect("the step").detail
}

#[tokio::test]
async fn every_step_is_shown_with_its_result() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let steps = node.providers.diagnose(&provider, None).await;
    let documents = [("discovery", true), ("clock", true), ("keys", true), ("algorithms", true)];
    assert_eq!(outline(&steps), documents);
    assert!(detail(&steps, "discovery").ends_with("keys, authorization, token, userinfo"), "{steps:?}");
    assert_eq!(detail(&steps, "clock"), "the clocks differ by 0 s, accepted are 60 s");
    assert_eq!(detail(&steps, "algorithms"), "keys for ES256; the provider signs with RS256, ES256");

    let steps = node.providers.diagnose(&provider, Some(&key.token(&hostile.bearer_claims()))).await;
    let token = [("token", true), ("claims", true), ("bindings", true), ("rights", true)];
    assert_eq!(outline(&steps), [&documents[..], &token].concat());
    assert_eq!(detail(&steps, "token"), "bearer token, sub \"u-9\", ends in 300 s");
    let claims = "acme:pipeline; claims: iss, sub, aud, iat, exp, preferred_username, groups; groups: dev";
    assert_eq!(detail(&steps, "claims"), claims);
    assert_eq!(detail(&steps, "bindings"), "1 of 1 hold: groups=dev");
    assert_eq!(detail(&steps, "rights"), "operator on shop/*");

    let id_token = format!("{}\n", key.token(&hostile.id_claims()));
    let steps = node.providers.diagnose(&provider, Some(&id_token)).await;
    assert_eq!(detail(&steps, "token"), "ID token, sub \"u-1\", ends in 300 s");
}

/// Some providers send name and groups at the userinfo endpoint alone.
#[tokio::test]
async fn what_userinfo_has_is_no_fault_of_an_id_token() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let bare = key.token(&changed(&hostile.id_claims(), &json!({"groups": null, "preferred_username": null})));
    let steps = node.providers.diagnose(&provider, Some(&bare)).await;
    assert_eq!(outline(&steps)[4..], [("token", true), ("claims", true), ("bindings", true)]);
    assert!(detail(&steps, "claims").ends_with("; a sign-in reads from userinfo: groups, preferred_username"));
    assert_eq!(detail(&steps, "bindings"), "none of 1 holds by the token alone, userinfo decides");
    // A token with groups, of which none is bound, is a person without rights.
    let other = key.token(&changed(&hostile.id_claims(), &json!({"groups": ["ops"]})));
    let steps = node.providers.diagnose(&provider, Some(&other)).await;
    assert_eq!(outline(&steps)[5..], [("claims", true), ("bindings", false)]);
    // Without the endpoint nothing will be added, and to bearer tokens nothing is.
    let bearer = key.token(&changed(&hostile.bearer_claims(), &json!({"groups": null})));
    let steps = node.providers.diagnose(&provider, Some(&bearer)).await;
    assert_eq!(outline(&steps)[5..], [("claims", true), ("bindings", false)]);
    hostile.answer_discovery(Answer::Json(200, changed(&hostile.document(), &json!({"userinfo_endpoint": null}))));
    let steps = node.providers.diagnose(&provider, Some(&bare)).await;
    assert_eq!(outline(&steps)[5..], [("claims", true), ("bindings", false)]);
}

#[tokio::test]
async fn the_first_step_that_fails_has_its_reason() {
    let key = key("k1");
    let (hostile, node) = (HostileProvider::start([&key]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    let stranger = key.token(&changed(&hostile.bearer_claims(), &json!({"groups": ["ops"], "aud": "x"})));
    let steps = node.providers.diagnose(&provider, Some(&stranger)).await;
    assert_eq!(outline(&steps)[4..], [("token", false), ("claims", true), ("bindings", false)]);
    assert!(detail(&steps, "token").contains("`aud`") && detail(&steps, "claims").contains("groups: ops"));
    let forged = super::provider::key("k2").token(&hostile.bearer_claims());
    let steps = node.providers.diagnose(&provider, Some(&forged)).await;
    assert_eq!(outline(&steps)[4..], [("token", false)]);

    let strict = Provider { required_claims: [("tid".to_owned(), "t".to_owned())].into(), ..hostile.provider() };
    let steps = node.providers.diagnose(&strict, Some(&key.token(&hostile.bearer_claims()))).await;
    assert_eq!(outline(&steps)[5], ("claims", false));
    assert!(detail(&steps, "claims").contains("tid"));

    node.pass(std::time::Duration::from_secs(3600));
    let steps = node.providers.diagnose(&provider, None).await;
    assert_eq!(detail(&steps, "clock"), "the clocks differ by 3600 s, accepted are 60 s");
    assert!(!steps[1].is_good);

    hostile.answer(
        "/keys",
        Answer::Json(200, json!({"keys": [{"kty": "RSA", "kid": "short", "n": "AQAB", "e": "AQAB"}]})),
    );
    let steps = node.providers.diagnose(&provider, None).await;
    assert_eq!(outline(&steps)[2..], [("keys", false), ("algorithms", false)]);
    assert!(detail(&steps, "keys").starts_with("0 usable, 1 not used (short: it is an RSA key of 17 bits"));
    hostile.answer("/keys", Answer::Close);
    assert_eq!(outline(&node.providers.diagnose(&provider, None).await)[2..], [("keys", false)]);
    hostile.set_down(true);
    assert_eq!(outline(&node.providers.diagnose(&provider, None).await), [("discovery", false)]);
}

/// The pause for unknown keys is for callers whose number has no limit; an administrator who tests has none.
#[tokio::test]
async fn a_diagnosis_brings_new_keys_into_use() {
    let (old, new) = (key("old"), key("new"));
    let (hostile, node) = (HostileProvider::start([&old]).await, NodeUnderTest::new());
    let provider = hostile.provider();
    node.providers.bearer(&provider, &old.token(&hostile.bearer_claims())).await.expect("a token");
    assert!(node.providers.bearer(&provider, &new.token(&hostile.bearer_claims())).await.is_err());
    hostile.answer_keys([&new]);
    assert!(node.providers.bearer(&provider, &new.token(&hostile.bearer_claims())).await.is_err(), "too early");
    node.providers.diagnose(&provider, None).await;
    assert!(node.providers.bearer(&provider, &new.token(&hostile.bearer_claims())).await.is_ok());
}
