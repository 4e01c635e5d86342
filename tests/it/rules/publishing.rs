//! Publishing a rule: refusals, contents of a release, and two concurrent publishers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::releases::{State, gray, in_state, normal, publish, releases, story};
use super::suite::{BAD_LABELS, CONFLICT, INVALID, MISSING, OK, Suite, TAKEN, WRONG_TYPE, merged, text};

const RACES: usize = 20;

pub(super) async fn run(suite: &Suite) {
    every_state_is_published_over(suite).await;
    a_release_says_what_it_is(suite).await;
    words_and_names_are_judged(suite).await;
    labels_are_judged(suite).await;
    rules_are_found_by_three_names(suite).await;
    saving_changes_no_release(suite).await;
    lists_of_releases(suite).await;
    two_publishers_make_two_versions(suite).await;
}

/// Each kind of release over each state, the rule named in each way.
async fn every_state_is_published_over(suite: &Suite) {
    use State::{GrayActive, GrayInactive, NormalActive, NormalInactive};
    let no_labels = || json!({"release_name": "new", "release_type": "gray"});
    for state in [None, Some(NormalActive), Some(NormalInactive), Some(GrayActive), Some(GrayInactive)] {
        let while_gray = if matches!(state, Some(GrayActive)) { CONFLICT } else { OK };
        for (release, code) in [(normal("new"), while_gray), (gray("new"), OK), (no_labels(), BAD_LABELS)] {
            for way in ["rule_id", "rule_name", "id"] {
                let rule = match state {
                    Some(state) => in_state(suite, state).await.0,
                    None => suite.rule("states", json!({})).await,
                };
                let before = story(suite, &rule).await;
                let named = if way == "rule_name" { &rule["name"] } else { &rule["id"] };
                let item = merged(&release, &json!({way: named}));
                let answer = suite.post("/releases", &json!([item])).await;
                let cell = format!("{item} over {state:?}");
                assert_eq!((answer.code(), answer.item_codes()), (code, vec![code]), "{cell}: {answer}");
                assert_eq!(story(suite, &rule).await, after(before, &item, code), "{cell}");
                suite.count(1);
            }
        }
    }
}

/// The releases after a publish: the new one first, and no other normal one active.
fn after(before: Vec<(String, u64, bool)>, item: &Value, code: u64) -> Vec<(String, u64, bool)> {
    if code != OK {
        return before;
    }
    let is_normal = item["release_type"].is_null();
    let next = before.iter().map(|(_, version, _)| version + 1).max().unwrap_or(1);
    // A normal release is refused during an active gray one, so all that it finds active are normal.
    let rest = before.into_iter().map(|(name, version, is_active)| (name, version, is_active && !is_normal));
    std::iter::once((text(&item["release_name"]).to_owned(), next, true)).chain(rest).collect()
}

async fn a_release_says_what_it_is(suite: &Suite) {
    let labels: Vec<Value> = ["EXACT", "REGEX", "NOT_EQUALS", "IN", "NOT_IN", "RANGE"]
        .into_iter()
        .map(|kind| json!({"key": kind, "value": {"type": kind, "value": "1~2", "value_type": "TEXT"}}))
        .collect();
    let rule = suite.rule("published", json!({"priority": 7})).await;
    let full = json!({
        "id": suite.fresh("my-release"),
        "rule_id": rule["id"],
        "rule_name": rule["name"],
        "release_name": "spring, 名",
        "description": "é".repeat(1024),
        "release_type": "gray",
        "client_labels": labels,
        "resource": suite.family.resource,
    });
    let given_by_server = json!({"version": 99, "active": false, "ctime": "x", "mtime": "y"});
    let answer = suite.post("/releases", &json!([merged(&full, &given_by_server)])).await.expect_code(OK);
    let answered = &answer.body["responses"][0]["ruleRelease"];
    for (field, value) in full.as_object().expect("fields") {
        assert_eq!(&answered[field], value, "{field}");
    }
    assert_eq!((&answered["version"], &answered["active"]), (&json!(1), &json!(true)), "{answered}");
    for time in ["ctime", "mtime"] {
        assert_eq!(text(&answered[time]).len(), "2026-01-31 12:00:00".len(), "{answered}");
    }
    assert_eq!(&releases(suite, &rule).await[0], answered);
    let with_rule = suite.get("/releases", &format!("id={}&brief=false", text(&rule["id"]))).await.expect_code(OK);
    assert_eq!(with_rule.body["data"][0]["rule"]["priority"], 7, "{with_rule}");

    let twins = json!({"ruleId": rule["id"], "releaseName": "twins", "releaseType": "gray", "clientLabels": labels});
    let answer = suite.post("/releases", &json!([twins])).await.expect_code(OK);
    let answered = &answer.body["responses"][0]["ruleRelease"];
    assert_eq!(
        (&answered["release_name"], &answered["client_labels"]),
        (&json!("twins"), &json!(labels)),
        "{answered}"
    );
    suite.count(4);
}

async fn words_and_names_are_judged(suite: &Suite) {
    let labels = &gray("x")["client_labels"];
    let words = [
        (Value::Null, "normal"),
        (json!(""), "normal"),
        (json!("normal"), "normal"),
        (json!("ReleaseTypeNormal"), "normal"),
        (json!("gray"), "gray"),
        (json!("beta"), "gray"),
        (json!("ReleaseTypeGray"), "gray"),
    ];
    for (word, written) in words {
        let rule = suite.rule("published", json!({})).await;
        let mut item = json!({"release_type": word});
        if written == "gray" {
            item["client_labels"] = labels.clone();
        }
        let release = publish(suite, &rule, item).await;
        assert_eq!(release["release_type"], written, "{word}");
        assert!(!text(&release["release_name"]).is_empty(), "a name is generated: {release}");
        suite.count(1);
    }
    let rule = suite.rule("published", json!({})).await;
    publish(suite, &rule, normal("first")).await;
    publish(suite, &rule, normal("second")).await;
    let before = story(suite, &rule).await;
    let foreign = suite.other_family().resource;
    let refused = [
        (json!({"release_type": "normal", "client_labels": labels}), INVALID, "client_labels"),
        (json!({"client_labels": labels}), INVALID, "client_labels"),
        (json!({"release_type": "Gray"}), INVALID, "release_type"),
        (json!({"release_type": "canary"}), INVALID, "release_type"),
        (json!({"release_type": 1}), WRONG_TYPE, "release_type"),
        (json!({"release_name": "n".repeat(129)}), INVALID, "release_name"),
        (json!({"release_name": "two\nlines"}), INVALID, "release_name"),
        (json!({"release_name": "first"}), TAKEN, "existed"),
        (json!({"release_name": "second"}), TAKEN, "existed"),
        (json!({"description": "d".repeat(1025)}), INVALID, "description"),
        (json!({"resource": foreign}), INVALID, "resource"),
        (json!({"resource": "Weather"}), WRONG_TYPE, "resource"),
        (json!({"resource": 99}), WRONG_TYPE, "resource"),
        (json!({"client_labels": {}}), WRONG_TYPE, "client_labels"),
        (json!({"rule_name": "another"}), MISSING, "/another"),
        (json!({"namespace": "elsewhere"}), MISSING, "in elsewhere"),
    ];
    suite.count(refused.len() + 1);
    for (more, code, named) in refused {
        let item = merged(&json!({"rule_id": rule["id"]}), &more);
        let answer = suite.post("/releases", &json!([item])).await.expect_code(code);
        assert!(text(&answer.body["responses"][0]["info"]).contains(named), "{more:.60}: {answer}");
    }
    assert_eq!(story(suite, &rule).await, before, "a refused publish changed something");
    // Another rule may have a release of the same name.
    publish(suite, &suite.rule("published", json!({})).await, normal("first")).await;
}

async fn labels_are_judged(suite: &Suite) {
    let label = |kind: &str, value: &str| json!([{"key": "k", "value": {"type": kind, "value": value}}]);
    let many = |count: usize| (0..count).map(|n| json!({"key": format!("k{n}"), "value": {"value": "v"}})).collect();
    let rule = suite.rule("labels", json!({})).await;
    let refused: Vec<Value> = vec![
        json!([]),
        json!([{"key": "", "value": {"value": "v"}}]),
        json!([{"value": {"value": "v"}}]),
        json!([{"key": "k".repeat(129), "value": {"value": "v"}}]),
        many(65),
        label("EXACT", &"v".repeat(4097)),
        label("REGEX", "("),
        label("REGEX", "(?=a)b"),
        label("REGEX", &"a".repeat(100_000)),
        label("RANGE", "5~1"),
        label("RANGE", "abc"),
        label("RANGE", "1~"),
        label("RANGE", "-1~1"),
    ];
    suite.count(refused.len() + 3);
    for labels in refused {
        let item = json!({"rule_id": rule["id"], "release_type": "gray", "client_labels": labels});
        let answer = suite.post("/releases", &json!([item])).await;
        assert_eq!(answer.item_codes(), [BAD_LABELS], "{labels:.60}: {answer}");
    }
    assert_eq!(story(suite, &rule).await, [], "a refused publish left something");
    for labels in [label("exact", "v"), label("SOME", "v"), json!([{"key": 1}])] {
        let item = json!({"rule_id": rule["id"], "release_type": "gray", "client_labels": labels});
        let answer = suite.post("/releases", &json!([item])).await.expect_code(WRONG_TYPE);
        assert!(text(&answer.body["responses"][0]["info"]).contains("client_labels[0]"), "{answer}");
    }
    let item = merged(&gray("most"), &json!({"client_labels": many(64)}));
    assert_eq!(publish(suite, &rule, item).await["client_labels"].as_array().map(Vec::len), Some(64));
}

async fn rules_are_found_by_three_names(suite: &Suite) {
    let name = suite.fresh("in two namespaces");
    let [one, two] = ["one", "two"].map(|namespace| json!({"name": name, "namespace": namespace}));
    let (one, two) = (suite.create(&one).await, suite.create(&two).await);
    let by_name_alone = json!([{"rule_name": name, "release_name": "r"}]);
    suite.post("/releases", &by_name_alone).await.expect_code(INVALID);
    for rule in [&one, &two] {
        let item = json!([{"rule_name": name, "namespace": rule["namespace"], "release_name": "r"}]);
        let answer = suite.post("/releases", &item).await.expect_code(OK);
        assert_eq!(answer.body["responses"][0]["ruleRelease"]["rule_id"], rule["id"], "{answer}");
        assert_eq!(story(suite, rule).await, [("r".to_owned(), 1, true)]);
    }
    for nobody in [json!({"rule_id": "nobody"}), json!({"rule_name": "nobody"}), json!({"id": "nobody"})] {
        suite.post("/releases", &json!([nobody])).await.expect_code(MISSING);
    }
    for unnamed in [json!({}), json!({"release_name": "r"}), json!({"id": "", "rule_id": "", "rule_name": ""})] {
        suite.post("/releases", &json!([unnamed])).await.expect_code(INVALID);
    }
    // A given id of a release is used, and cannot be used again.
    let id = suite.fresh("given");
    let given = |name: &str| json!([{"id": id, "rule_id": one["id"], "release_name": name}]);
    let answer = suite.post("/releases", &given("given")).await.expect_code(OK);
    assert_eq!(answer.body["responses"][0]["ruleRelease"]["id"], json!(id), "{answer}");
    suite.post("/releases", &given("given too")).await.expect_code(TAKEN);
    suite.count(11);
}

/// A release is the rule as it stood; saving moves nothing but the rule.
async fn saving_changes_no_release(suite: &Suite) {
    let (_, sample) = (suite.family.samples)().remove(0);
    let rule = suite.create(&merged(&sample, &json!({"name": suite.fresh("snapshot")}))).await;
    publish(suite, &rule, normal("as it was")).await;
    let update = json!([{"id": rule["id"], "priority": 1, "enable": true, "name": suite.fresh("renamed")}]);
    let saved = suite.only_entity(suite.put("", &update).await);
    let query = format!("id={}&brief=false", text(&rule["id"]));
    let released = suite.get("/releases", &query).await.expect_code(OK);
    assert_eq!(released.body["data"][0]["rule"], rule, "the release moved with the rule");
    publish(suite, &saved, normal("as it is")).await;
    let released = suite.get("/releases", &query).await.expect_code(OK);
    assert_eq!(released.body["data"][0]["rule"], saved, "{released}");
    assert_eq!(released.body["data"][1]["rule"], rule, "{released}");
    assert_eq!(suite.detail(&rule["id"]).await, saved, "publishing moved the rule");
    // It is for other services than its own, and those have their tests too.
    suite.post("/delete", &json!([{"id": rule["id"]}])).await.expect_code(OK);
    suite.count(4);
}

async fn lists_of_releases(suite: &Suite) {
    let rule = suite.rule("listed", json!({})).await;
    for number in 0..5 {
        publish(suite, &rule, normal(&format!("r{number}"))).await;
    }
    let (id, name) = (text(&rule["id"]), text(&rule["name"]));
    let queries = [
        (format!("id={id}"), 5, vec!["r4", "r3", "r2", "r1", "r0"]),
        (format!("rule_id={id}"), 5, vec!["r4", "r3", "r2", "r1", "r0"]),
        (format!("rule_name={name}"), 5, vec!["r4", "r3", "r2", "r1", "r0"]),
        (format!("id={id}&limit=2"), 5, vec!["r4", "r3"]),
        (format!("id={id}&limit=2&offset=4"), 5, vec!["r0"]),
        (format!("id={id}&limit=0"), 5, vec![]),
        (format!("id={id}&limit=1000"), 5, vec!["r4", "r3", "r2", "r1", "r0"]),
        ("id=nobody".to_owned(), 0, vec![]),
        ("rule_name=nobody".to_owned(), 0, vec![]),
        (format!("id={id}&rule_name=nobody"), 0, vec![]),
    ];
    suite.count(queries.len() + 4);
    for (query, amount, names) in queries {
        let answer = suite.get("/releases", &query).await.expect_code(OK);
        let data = answer.body["data"].as_array().unwrap_or_else(|| panic!("no data in {answer}"));
        let told: Vec<&str> = data.iter().map(|release| text(&release["release_name"])).collect();
        assert_eq!((answer.amount(), told), (amount, names), "{query}");
        assert!(data.iter().all(|release| release.get("rule").is_none()), "a brief list tells rules: {answer}");
    }
    // Without a rule those of all rules, whatever else there is.
    let other = suite.rule("listed", json!({})).await;
    publish(suite, &other, normal("newest")).await;
    let all = suite.get("/releases", "limit=2&brief=false").await.expect_code(OK);
    let told: Vec<&str> = (0..2).map(|at| text(&all.body["data"][at]["release_name"])).collect();
    assert_eq!((told, all.amount() >= 6), (vec!["newest", "r4"], true), "{all}");
    assert_eq!(all.body["data"][0]["rule"]["id"], other["id"], "{all}");
    for bad in ["limit=-1", &format!("id={id}&limit=-1"), &format!("id={id}&offset=x")] {
        suite.get("/releases", bad).await.expect_code(INVALID);
    }
}

async fn two_publishers_make_two_versions(suite: &Suite) {
    let rule = suite.rule("races", json!({})).await;
    let path = suite.path("/releases");
    for round in 0..RACES {
        let item = |who: &str| json!([{"rule_id": rule["id"], "release_name": format!("{who}-{round}")}]);
        let ([one, two], mine, yours) = (suite.two_apis(), item("mine"), item("yours"));
        let (mine, yours) = tokio::join!(one.post(&path, &mine), two.post(&path, &yours));
        let versions: BTreeSet<u64> = [mine.expect_code(OK), yours.expect_code(OK)]
            .iter()
            .filter_map(|answer| answer.body["responses"][0]["ruleRelease"]["version"].as_u64())
            .collect();
        let next = 3 * round as u64 + 1;
        assert_eq!(versions, BTreeSet::from([next, next + 1]));
        let story = story(suite, &rule).await;
        let active: Vec<u64> =
            story.iter().filter(|(.., is_active)| *is_active).map(|(_, version, _)| *version).collect();
        assert_eq!(active, [next + 1], "{story:?}");

        // One name can be had once.
        let same = json!([{"rule_id": rule["id"], "release_name": format!("same-{round}"), "release_type": "gray",
            "client_labels": gray("x")["client_labels"]}]);
        let [one, two] = suite.two_apis();
        let (one, two) = tokio::join!(one.post(&path, &same), two.post(&path, &same));
        let mut codes = [one.code(), two.code()];
        codes.sort_unstable();
        assert_eq!(codes, [OK, TAKEN], "{one}\n{two}");
        let stopped = json!([{"rule_id": rule["id"], "release_name": format!("same-{round}")}]);
        suite.put("/releases/stopbeta", &stopped).await.expect_code(OK);
        suite.post("/releases/delete", &stopped).await.expect_code(OK);
        suite.count(2);
    }
}
