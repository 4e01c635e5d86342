//! Transitions of a release: every cell of the table of transitions, however the release is named.

use std::time::Duration;

use serde_json::{Value, json};

use super::suite::{BAD_REQUEST, MISSING, OK, Suite, UNCHANGED, WRONG_TYPE, merged, text};
use crate::harness::{Answer, in_future};

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Missing,
    NormalActive,
    NormalInactive,
    GrayActive,
    GrayInactive,
    Scheduled,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Rollback,
    StopBeta,
    Delete,
    Promote,
    Withdraw,
}

/// Result of the operation on its target; everything else stays.
#[derive(Clone, Copy, Debug)]
enum Then {
    Same,
    /// Active under the next version, in place of the other normal one.
    Back,
    Inactive,
    Gone,
    /// Inactive, and a normal one under the next version and this name in its place.
    Promoted,
}

use Operation::{Delete, Promote, Rollback, StopBeta, Withdraw};
use State::{GrayActive, GrayInactive, Missing, NormalActive, NormalInactive, Scheduled};
use Then::{Back, Gone, Inactive, Promoted, Same};

/// The release that a gray one is promoted to.
const PROMOTED: &str = "promoted";

const TABLE: [(State, Operation, u64, Then); 30] = [
    (Missing, Rollback, MISSING, Same),
    (Missing, StopBeta, MISSING, Same),
    (Missing, Delete, OK, Same),
    (NormalActive, Rollback, UNCHANGED, Same),
    (NormalActive, StopBeta, BAD_REQUEST, Same),
    (NormalActive, Delete, BAD_REQUEST, Same),
    (NormalInactive, Rollback, OK, Back),
    (NormalInactive, StopBeta, BAD_REQUEST, Same),
    (NormalInactive, Delete, OK, Gone),
    (GrayActive, Rollback, BAD_REQUEST, Same),
    (GrayActive, StopBeta, OK, Inactive),
    (GrayActive, Delete, BAD_REQUEST, Same),
    (GrayInactive, Rollback, BAD_REQUEST, Same),
    (GrayInactive, StopBeta, UNCHANGED, Same),
    (GrayInactive, Delete, OK, Gone),
    (Missing, Promote, MISSING, Same),
    (Missing, Withdraw, MISSING, Same),
    (NormalActive, Promote, BAD_REQUEST, Same),
    (NormalActive, Withdraw, OK, Inactive),
    (NormalInactive, Promote, BAD_REQUEST, Same),
    (NormalInactive, Withdraw, UNCHANGED, Same),
    (GrayActive, Promote, OK, Promoted),
    (GrayActive, Withdraw, BAD_REQUEST, Same),
    (GrayInactive, Promote, BAD_REQUEST, Same),
    (GrayInactive, Withdraw, BAD_REQUEST, Same),
    (Scheduled, Rollback, BAD_REQUEST, Same),
    (Scheduled, StopBeta, BAD_REQUEST, Same),
    (Scheduled, Promote, BAD_REQUEST, Same),
    (Scheduled, Withdraw, BAD_REQUEST, Same),
    (Scheduled, Delete, OK, Gone),
];

pub(super) async fn run(suite: &Suite) {
    for (state, operation, code, then) in TABLE {
        transition(suite, state, operation, code, then).await;
    }
    grays_outlive_a_rollback(suite).await;
    a_release_of_another_rule_is_none(suite).await;
    targets_are_judged_one_by_one(suite).await;
    ids_are_text(suite).await;
    releases_go_with_their_rule(suite).await;
}

/// A release of a rule, as a test brings it about.
pub(super) fn gray(name: &str) -> Value {
    json!({
        "release_name": name,
        "release_type": "gray",
        "client_labels": [{"key": "zone", "value": {"type": "EXACT", "value": "east"}}],
    })
}

pub(super) fn normal(name: &str) -> Value {
    json!({"release_name": name})
}

/// Publishes and returns the release as answered.
pub(super) async fn publish(suite: &Suite, rule: &Value, release: Value) -> Value {
    let item = merged(&release, &json!({"rule_id": rule["id"]}));
    let answer = suite.post("/releases", &json!([item])).await.expect_code(OK);
    answer.body["responses"][0]["ruleRelease"].clone()
}

/// The releases of a rule as the next node lists them.
pub(super) async fn releases(suite: &Suite, rule: &Value) -> Vec<Value> {
    let answer = suite.get("/releases", &format!("id={}", text(&rule["id"]))).await.expect_code(OK);
    let data = answer.body["data"].as_array().unwrap_or_else(|| panic!("no data in {answer}")).clone();
    assert_eq!((answer.amount(), &answer.body["size"]), (data.len() as u64, &json!(data.len())), "{answer}");
    data
}

/// Name, version and activity of each release, newest version first.
pub(super) async fn story(suite: &Suite, rule: &Value) -> Vec<(String, u64, bool)> {
    let tell = |release: &Value| {
        let version = release["version"].as_u64().unwrap_or_else(|| panic!("no version in {release}"));
        (text(&release["release_name"]).to_owned(), version, release["active"] == true)
    };
    releases(suite, rule).await.iter().map(tell).collect()
}

/// A new rule with a release in this state; an invented one where it is missing.
pub(super) async fn in_state(suite: &Suite, state: State) -> (Value, Value) {
    let rule = suite.rule("states", json!({})).await;
    let target = match state {
        Missing => {
            publish(suite, &rule, normal("base")).await;
            json!({"id": "nobody", "release_name": "nothing"})
        }
        NormalActive => publish(suite, &rule, normal("target")).await,
        NormalInactive => {
            let target = publish(suite, &rule, normal("target")).await;
            publish(suite, &rule, normal("base")).await;
            target
        }
        Scheduled => {
            publish(suite, &rule, normal("base")).await;
            let later = merged(&normal("target"), &json!({"publish_at": in_future(Duration::from_secs(30 * 86_400))}));
            publish(suite, &rule, later).await
        }
        GrayActive | GrayInactive => {
            publish(suite, &rule, normal("base")).await;
            publish(suite, &rule, gray("target")).await
        }
    };
    if matches!(state, GrayInactive) {
        suite.put("/releases/stopbeta", &json!([{"id": target["id"]}])).await.expect_code(OK);
    }
    (rule, target)
}

async fn send(suite: &Suite, operation: Operation, body: &Value) -> Answer {
    match operation {
        Rollback => suite.put("/releases/rollback", body).await,
        StopBeta => suite.put("/releases/stopbeta", body).await,
        Delete => suite.post("/releases/delete", body).await,
        Promote => suite.put("/releases/promote", body).await,
        Withdraw => suite.put("/releases/withdraw", body).await,
    }
}

/// One cell, once for each way to name the release.
async fn transition(suite: &Suite, state: State, operation: Operation, code: u64, then: Then) {
    let ways = ["id", "id and rule_id", "rule_id", "rule_name", "rule_name and namespace", "twins"];
    for way in ways {
        let (rule, target) = in_state(suite, state).await;
        let naming = match way {
            "id" => json!({"id": target["id"]}),
            "id and rule_id" => json!({"id": target["id"], "rule_id": rule["id"]}),
            "rule_id" => json!({"rule_id": rule["id"], "release_name": target["release_name"]}),
            "rule_name" => json!({"rule_name": rule["name"], "release_name": target["release_name"]}),
            "twins" => json!({"ruleId": rule["id"], "releaseName": target["release_name"]}),
            _ => json!({"rule_name": rule["name"], "namespace": "states", "release_name": target["release_name"]}),
        };
        let naming =
            if let Promote = operation { merged(&naming, &json!({"new_release_name": PROMOTED})) } else { naming };
        let cell = format!("{operation:?} of {state:?} by {way}");
        let before = story(suite, &rule).await;
        let answer = send(suite, operation, &json!([naming])).await;
        assert_eq!((answer.code(), answer.item_codes()), (code, vec![code]), "{cell}: {answer}");
        let info = text(&answer.body["responses"][0]["info"]);
        assert_eq!(info.contains(": "), code == BAD_REQUEST || code == MISSING, "{cell}: a refusal says why: {answer}");
        let after = story(suite, &rule).await;
        assert_eq!(after, expected(before, text(&target["release_name"]), then), "{cell}");
        // The release stays what it was.
        if let Some(kept) = releases(suite, &rule).await.iter().find(|release| release["id"] == target["id"]) {
            for field in ["rule_id", "rule_name", "release_name", "release_type", "client_labels", "ctime"] {
                assert_eq!(kept[field], target[field], "{cell}: {field}");
            }
        }
        suite.count(1);
    }
}

fn expected(before: Vec<(String, u64, bool)>, target: &str, then: Then) -> Vec<(String, u64, bool)> {
    let next = before.iter().map(|(_, version, _)| version + 1).max().unwrap_or(1);
    let mut after: Vec<_> = before
        .into_iter()
        .filter(|(name, ..)| !(matches!(then, Gone) && name == target))
        .map(|(name, version, is_active)| match (then, name == target) {
            (Back, true) => (name, next, true),
            (Back | Promoted, false) | (Inactive | Promoted, true) => (name, version, false),
            (Same | Inactive | Gone, _) => (name, version, is_active),
        })
        .collect();
    if let Promoted = then {
        after.push((PROMOTED.to_owned(), next, true));
    }
    after.sort_by_key(|(_, version, _)| std::cmp::Reverse(*version));
    after
}

async fn grays_outlive_a_rollback(suite: &Suite) {
    let (rule, target) = in_state(suite, NormalInactive).await;
    publish(suite, &rule, gray("gray")).await;
    suite.put("/releases/rollback", &json!([{"id": target["id"]}])).await.expect_code(OK);
    let expected = [("target", 4, true), ("gray", 3, true), ("base", 2, false)];
    assert_eq!(story(suite, &rule).await, expected.map(|(name, version, active)| (name.to_owned(), version, active)));
    // Versions are never used again, not even those of releases that are gone.
    suite.put("/releases/stopbeta", &json!([{"rule_id": rule["id"], "release_name": "gray"}])).await.expect_code(OK);
    publish(suite, &rule, normal("next")).await;
    suite.put("/releases/rollback", &json!([{"id": target["id"]}])).await.expect_code(OK);
    suite.post("/releases/delete", &json!([{"rule_id": rule["id"], "release_name": "next"}])).await.expect_code(OK);
    assert_eq!(publish(suite, &rule, normal("next")).await["version"], 7);
    suite.count(2);
}

/// Whatever else of it is right; nothing happens to its owner.
async fn a_release_of_another_rule_is_none(suite: &Suite) {
    let (rule, target) = in_state(suite, NormalInactive).await;
    let (stopped, gray) = in_state(suite, GrayActive).await;
    let stories = (story(suite, &rule).await, story(suite, &stopped).await);
    let other = suite.rule("states", json!({})).await;
    for owner in [json!({"rule_id": other["id"]}), json!({"rule_name": other["name"]}), json!({"rule_id": "nobody"})] {
        let of = |release: &Value| json!([merged(&owner, &json!({"id": release["id"]}))]);
        suite.put("/releases/rollback", &of(&target)).await.expect_code(MISSING);
        suite.put("/releases/stopbeta", &of(&gray)).await.expect_code(MISSING);
        suite.post("/releases/delete", &of(&target)).await.expect_code(OK);
        suite.count(3);
    }
    let wrong_name = json!([{"id": target["id"], "release_name": "base"}]);
    suite.put("/releases/rollback", &wrong_name).await.expect_code(MISSING);
    // The routes of another family do not find it either.
    let path = format!("/naming/v1/{}/releases", suite.other_family().kind);
    let (target, gray) = (json!([{"id": target["id"]}]), json!([{"id": gray["id"]}]));
    suite.api().put(&format!("{path}/rollback"), &target).await.expect_code(MISSING);
    suite.api().put(&format!("{path}/stopbeta"), &gray).await.expect_code(MISSING);
    suite.api().post(&format!("{path}/delete"), &target).await.expect_code(OK);
    let list = suite.api().get(&format!("{path}?id={}", text(&rule["id"]))).await.expect_code(OK);
    assert_eq!(list.amount(), 0, "{list}");
    assert_eq!((story(suite, &rule).await, story(suite, &stopped).await), stories);
    suite.count(5);
}

async fn targets_are_judged_one_by_one(suite: &Suite) {
    let (rule, target) = in_state(suite, NormalInactive).await;
    let naming = |name: &str| json!({"rule_id": rule["id"], "release_name": name});
    let batch = json!([naming("target"), naming("nothing"), naming("target"), {"id": 5}, {}, naming("base")]);
    let answer = suite.put("/releases/rollback", &batch).await;
    let codes = [OK, MISSING, UNCHANGED, WRONG_TYPE, super::suite::INVALID, OK];
    assert_eq!(answer.item_codes(), codes, "{answer}");
    assert_eq!(answer.code(), MISSING, "{answer}");
    assert_eq!(answer.body["responses"][0]["ruleRelease"]["id"], target["id"], "{answer}");
    let after = [("base", 4, true), ("target", 3, false)];
    assert_eq!(story(suite, &rule).await, after.map(|(name, version, active)| (name.to_owned(), version, active)));
    suite.count(6);
}

async fn ids_are_text(suite: &Suite) {
    let (rule, _) = in_state(suite, NormalInactive).await;
    let before = story(suite, &rule).await;
    for operation in [Rollback, StopBeta, Delete] {
        for field in ["id", "rule_id", "rule_name", "release_name"] {
            for value in [json!(1), json!(["target"]), json!({"id": "target"}), json!(true)] {
                let named = json!({"rule_id": rule["id"], "release_name": "target"});
                let item = merged(&named, &json!({field: value}));
                let answer = send(suite, operation, &json!([item])).await.expect_code(WRONG_TYPE);
                assert!(text(&answer.body["responses"][0]["info"]).contains(field), "{answer}");
                suite.count(1);
            }
        }
        for unnamed in [json!({}), json!({"rule_id": rule["id"]}), json!({"release_name": "target"}), json!({"id": ""})]
        {
            send(suite, operation, &json!([unnamed])).await.expect_code(super::suite::INVALID);
            suite.count(1);
        }
    }
    assert_eq!(story(suite, &rule).await, before);
}

async fn releases_go_with_their_rule(suite: &Suite) {
    for state in [NormalActive, NormalInactive, GrayActive, GrayInactive, Scheduled] {
        let (rule, target) = in_state(suite, state).await;
        suite.post("/delete", &json!([{"id": rule["id"]}])).await.expect_code(OK);
        assert_eq!(story(suite, &rule).await, [], "{state:?}");
        suite.put("/releases/rollback", &json!([{"id": target["id"]}])).await.expect_code(MISSING);
        suite.put("/releases/stopbeta", &json!([{"id": target["id"]}])).await.expect_code(MISSING);
        suite.post("/releases", &json!([{"rule_id": rule["id"]}])).await.expect_code(MISSING);
        let again = json!({"id": rule["id"], "namespace": "states", "name": rule["name"]});
        suite.create(&again).await;
        assert_eq!(story(suite, &rule).await, [], "{state:?}: releases of the rule that was");
        suite.count(5);
    }
}
