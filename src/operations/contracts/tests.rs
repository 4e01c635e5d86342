//! Contracts over a catalog in memory. Every API ends in these operations.

use std::sync::Arc;
use std::time::Duration;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::{Value, json};

use super::*;
use crate::catalog::Credential;
use crate::catalog::testing::Bench;
use crate::catalog::{Entity, Op};
use crate::data_key::DataKey;
use crate::keyring::Keyring;
use crate::model::config_file::ConfigPublish;
use crate::model::grant::{Grants, Role};
use crate::model::release::ReleaseOp;
use crate::model::rule::{Family, RuleDraft, RuleHead};
use crate::operations::testing::InMemory;
use crate::operations::{Bounds, XdsWarnings};

mod seams;

fn operations() -> (Arc<Operations>, Caller) {
    let (operations, _, caller) = over(crate::catalog::fuzzing::founded(), "a");
    (operations, caller)
}

/// Builds operations over a catalog, on a node with a data key of one repeated letter.
fn over(bench: Bench, key: &str) -> (Arc<Operations>, Arc<InMemory>, Caller) {
    let bounds = Bounds {
        config_content_chars_max: 10_000,
        token_trust: Duration::from_secs(30),
        webhook_networks: Vec::new(),
        sso_ca_file: None,
    };
    let memory = Arc::new(InMemory::new(bench, Keyring::new(DataKey::of_hex(&key.repeat(64)))));
    let operations = Operations::in_memory(memory.clone(), bounds);
    let caller = Caller {
        name: "admin".into(),
        credential: Credential::Token(crate::catalog::fuzzing::token()),
        grants: Grants::all(Role::Admin),
        address: None,
        is_local: true,
        request: "r".into(),
    };
    (operations, memory, caller)
}

fn item<T: DeserializeOwned>(json: Value) -> Items<T> {
    vec![Ok(serde_json::from_value(json).expect("a draft"))]
}

/// Returns the code, and the path, line and message of the violation.
fn code_and_text(outcome: &Outcome) -> (u32, String) {
    let text = match &outcome.entity {
        Entity::Broken(broken) => format!("{} {:?} {}", broken.path, broken.line, broken.message),
        _ => String::new(),
    };
    (outcome.code.number(), text)
}

async fn contract(operations: &Operations, caller: &Caller, fields: Value) -> u32 {
    let made = operations.contracts(caller, Op::Create, item(fields)).await.expect("a batch");
    made[0].code.number()
}

fn file(content: &str) -> Value {
    json!({ "namespace": "prod", "group": "pay", "name": "app.json", "content": content })
}

fn release(name: &str) -> Value {
    json!({ "namespace": "prod", "group": "pay", "file_name": "app.json", "release_name": name })
}

fn timeout(mode: &str) -> Value {
    json!({ "name": "timeouts", "namespace": "prod", "names": ["pay"], "mode": mode,
        "schema": { "properties": { "timeout": { "maximum": 60 } } } })
}

#[tokio::test(start_paused = true)]
async fn a_file_that_breaks_its_contract_is_saved_and_not_published() {
    let (operations, caller) = operations();
    assert_eq!(contract(&operations, &caller, timeout("refuse")).await, 200000);
    let content = "{\n\"timeout\": 70}";
    let (saved, warnings) = operations.config_files(&caller, Op::Create, item(file(content))).await.expect("saved");
    let text = "contract timeouts: line 2, /timeout: 70 is greater than the maximum of 60";
    assert_eq!((saved[0].code.number(), &warnings[0][..]), (200000, &[text.to_owned()][..]));
    let refused = (400107, "/timeout Some(2) 70 is greater than the maximum of 60".to_owned());
    for force in [false, true] {
        let (outcomes, _) = operations.publish_files(&caller, item(release("r")), force).await.expect("a batch");
        assert_eq!(code_and_text(&outcomes[0]), refused, "force {force}");
    }
    for more in [
        json!({ "release_type": "gray", "client_percent": { "percent": 5, "by": "CLIENT_IP" } }),
        json!({ "publish_at": "2099-01-01T00:00:00Z" }),
        json!({ "request": "please" }),
    ] {
        let mut draft = release("r");
        draft.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        let outcomes = operations.publish_files(&caller, item(draft), false).await;
        assert_eq!(outcomes.map(|(outcomes, _)| code_and_text(&outcomes[0])), Ok(refused.clone()), "{more}");
    }
    let both = ConfigPublish {
        file: serde_json::from_value(file(content)).expect("a file"),
        release: serde_json::from_value(release("r")).expect("a release"),
        md5: None,
    };
    let (outcomes, _) =
        operations.create_and_publish_files(&caller, vec![Ok(both.clone())], false).await.expect("a batch");
    assert_eq!(code_and_text(&outcomes[0]), refused);
    let mut kept = both;
    kept.file.content = Some("{\"timeout\": 60}".into());
    let (outcomes, _) = operations.create_and_publish_files(&caller, vec![Ok(kept)], false).await.expect("a batch");
    assert_eq!(code_and_text(&outcomes[0]), (200000, String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_warning_is_published_and_a_rollback_is_free() {
    let (operations, caller) = operations();
    assert_eq!(contract(&operations, &caller, timeout("warn")).await, 200000);
    operations.config_files(&caller, Op::Create, item(file("{\"timeout\": 70}"))).await.expect("saved");
    let (outcomes, warnings) = operations.publish_files(&caller, item(release("one")), false).await.expect("a batch");
    assert_eq!((outcomes[0].code.number(), warnings[0].len()), (200000, 1), "{warnings:?}");
    operations.config_files(&caller, Op::Update, item(file("{\"timeout\": 1}"))).await.expect("saved");
    operations.publish_files(&caller, item(release("two")), false).await.expect("a batch");
    let stricter = item(json!({ "name": "timeouts", "mode": "refuse" }));
    operations.contracts(&caller, Op::Update, stricter).await.expect("a batch");
    let back = operations.change_config_releases(&caller, ReleaseOp::Rollback, item(release("one"))).await;
    assert_eq!(back.expect("a batch")[0].code.number(), 200000);
}

#[tokio::test(start_paused = true)]
async fn a_gray_release_from_before_the_contract_is_not_promoted() {
    let (operations, caller) = operations();
    operations.config_files(&caller, Op::Create, item(file("{\"timeout\": 70}"))).await.expect("saved");
    let mut gray = release("g");
    gray["release_type"] = json!("gray");
    gray["client_percent"] = json!({ "percent": 5, "by": "CLIENT_IP" });
    let (outcomes, _) = operations.publish_files(&caller, item(gray), false).await.expect("a batch");
    assert_eq!(outcomes[0].code.number(), 200000, "{outcomes:?}");
    assert_eq!(contract(&operations, &caller, timeout("refuse")).await, 200000);
    let promoted = operations.change_config_releases(&caller, ReleaseOp::Promote, item(release("g"))).await;
    let expected = (400107, "/timeout Some(1) 70 is greater than the maximum of 60".to_owned());
    assert_eq!(code_and_text(&promoted.expect("a batch")[0]), expected);
}

#[tokio::test(start_paused = true)]
async fn rules_keep_their_contracts_by_what_is_in_force() {
    let (operations, caller) = operations();
    let grows = json!({ "name": "priorities", "kinds": ["routing"], "mode": "refuse", "rules": [{
        "expression": "old == null || new.priority <= old.priority", "message": "never less important" }] });
    assert_eq!(contract(&operations, &caller, grows).await, 200000);
    let save = |op, priority: u64| {
        let head = json!({ "name": "r", "namespace": "prod", "priority": priority });
        let body = json!({ "routing_config": { "rules": [{ "name": "one", "destinations": [] }] } });
        let head: RuleHead = serde_json::from_value(head).expect("a head");
        let body = DeserializeSeed::deserialize(Family::Routing, body).expect("a body");
        operations.rules(&caller, op, vec![Ok(RuleDraft { head, body })])
    };
    let publish = |name: &str| {
        let draft = json!({ "rule_name": "r", "release_name": name });
        operations.publish_rules(&caller, Family::Routing, item(draft))
    };
    let saved = save(Op::Create, 3).await.expect("a batch");
    assert_eq!(
        operations.advice(&caller, &saved, XdsWarnings::WhereSeen).await[0]
            .broken
            .iter()
            .filter(|text| text.contains("contract"))
            .count(),
        0
    );
    assert_eq!(code_and_text(&publish("one").await.expect("a batch")[0]).0, 200000);
    let saved = save(Op::Update, 5).await.expect("a batch");
    let advice = operations.advice(&caller, &saved, XdsWarnings::WhereSeen).await;
    assert!(advice[0].broken.contains(&"contract priorities: /: never less important".to_owned()), "{advice:?}");
    let refused = publish("two").await.expect("a batch");
    assert_eq!(code_and_text(&refused[0]), (400107, "/ None never less important".to_owned()));
    save(Op::Update, 2).await.expect("a batch");
    assert_eq!(code_and_text(&publish("two").await.expect("a batch")[0]).0, 200000);
}

#[tokio::test(start_paused = true)]
async fn contracts_that_cannot_be_read_are_not_taken() {
    let (operations, caller) = operations();
    for (fields, why) in [
        (json!({ "name": "c", "schema": { "items": { "$ref": "other.json" } } }), "/items/$ref"),
        (json!({ "name": "c", "rules": [{ "expression": "new.a ==" }] }), "rules[0].expression"),
    ] {
        let made = operations.contracts(&caller, Op::Create, item(fields)).await.expect("a batch");
        assert!(made[0].code.number() == 400103 && made[0].detail.contains(why), "{made:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trial_keeps_nothing() {
    let (operations, caller) = operations();
    assert_eq!(contract(&operations, &caller, timeout("refuse")).await, 200000);
    let asked = json!({ "namespace": "prod", "name": "pay/app.yml", "content": "a: 1\ntimeout: 61\n" });
    let told = operations.try_contracts(&caller, item(asked)).await.expect("a batch");
    let broken = told[0].as_ref().expect("it is judged");
    assert_eq!((broken[0].line, broken[0].path.as_str()), (Some(2), "/timeout"));
    let rule = json!({ "kind": "routing", "namespace": "prod", "name": "pay", "body": { "timeout": 1 } });
    assert_eq!(operations.try_contracts(&caller, item(rule)).await.expect("a batch"), [Ok(Vec::new())]);
}
