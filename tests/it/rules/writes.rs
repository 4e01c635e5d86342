//! Writes of rules: batches, ids and names, compare-and-set, the switch, and deletion.

use serde_json::{Value, json};

use super::suite::{
    CONFLICT, EMPTY, INVALID, MISSING, NAMESPACE_HAS_RULES, OK, Suite, TAKEN, TOO_MANY, UNCHANGED, WRONG_TYPE, merged,
    stripped, text,
};

pub(super) async fn run(suite: &Suite) {
    items_are_judged_one_by_one(suite).await;
    batches_have_a_size(suite).await;
    ids_name_one_rule(suite).await;
    ids_are_of_one_family(suite).await;
    names_are_taken_once(suite).await;
    two_nodes_cannot_create_one_rule_twice(suite).await;
    revisions_are_compared(suite).await;
    one_switch_has_two_names(suite).await;
    rules_hold_their_namespace(suite).await;
}

async fn items_are_judged_one_by_one(suite: &Suite) {
    let namespace = suite.fresh("batch");
    let item = |name: &str| json!({"namespace": namespace, "name": name});
    let mixed =
        json!([item("a"), item(""), item("b"), {"namespace": namespace, "name": 5}, item("a"), null, item("c")]);
    let answer = suite.post("", &mixed).await.expect_code(400_201);
    assert_eq!(answer.item_codes(), [OK, INVALID, OK, WRONG_TYPE, TAKEN, WRONG_TYPE, OK], "{answer}");
    assert_eq!((answer.amount(), &answer.body["size"]), (7, &json!(7)), "{answer}");
    assert_eq!(suite.get("", &format!("namespace={namespace}")).await.amount(), 3);

    let id = |n: usize| answer.body["responses"][n][suite.family.element]["id"].clone();
    let updates =
        json!([{"id": id(0), "priority": 1}, {"id": "nobody", "priority": 1}, {"id": id(2)}, {"priority": 1}]);
    let answer = suite.put("", &updates).await.expect_code(MISSING);
    assert_eq!(answer.item_codes(), [OK, MISSING, UNCHANGED, INVALID], "{answer}");

    // One bad item among a hundred is refused alone.
    let mut hundred: Vec<Value> = (0..100).map(|n| item(&format!("many-{n}"))).collect();
    hundred[57] = item("not\none\nline");
    let mut expected = vec![OK; 100];
    expected[57] = INVALID;
    let answer = suite.post("", &Value::Array(hundred)).await.expect_code(INVALID);
    assert_eq!(answer.item_codes(), expected);
    assert_eq!(suite.get("", &format!("namespace={namespace}&limit=0")).await.amount(), 3 + 99);
    suite.count(7 + 4 + 100);
}

async fn batches_have_a_size(suite: &Suite) {
    let before = suite.get("", "limit=0").await.amount();
    let items = |count: usize| -> Value {
        (0..count).map(|n| json!({"namespace": "sizes", "name": format!("s{n}"), "release_name": "r"})).collect()
    };
    let writes = [
        ("POST", ""),
        ("PUT", ""),
        ("POST", "/delete"),
        ("POST", "/releases"),
        ("PUT", "/releases/rollback"),
        ("PUT", "/releases/stopbeta"),
        ("POST", "/releases/delete"),
    ];
    for (method, operation) in writes {
        let send = async |body: Value| match method {
            "POST" => suite.post(operation, &body).await,
            _ => suite.put(operation, &body).await,
        };
        send(json!([])).await.expect_code(EMPTY);
        send(items(101)).await.expect_code(TOO_MANY);
        for no_list in [json!("x"), json!(1), Value::Null, json!(true)] {
            send(no_list).await.expect_code(WRONG_TYPE);
        }
        let answer = send(json!([null, [], "x"])).await;
        assert_eq!(answer.item_codes(), [WRONG_TYPE; 3], "{method} {operation}: {answer}");
        suite.count(7);
    }
    assert_eq!(suite.get("", "limit=0").await.amount(), before, "a refused batch left something");

    let hundred = suite.post("", &items(100)).await.expect_code(OK);
    assert_eq!((hundred.amount(), hundred.item_codes()), (100, vec![OK; 100]));
    let hundred = suite.post("/delete", &items(100)).await.expect_code(OK);
    assert_eq!(hundred.item_codes(), vec![OK; 100]);

    // One object is a batch of one, answered as one.
    let item = json!({"namespace": "sizes", "name": "alone"});
    let created = suite.post("", &item).await.expect_code(OK);
    assert_eq!((created.item_codes(), created.amount()), (vec![OK], 1), "{created}");
    suite.put("", &merged(&item, &json!({"priority": 5}))).await.expect_code(OK);
    let published =
        suite.post("/releases", &json!({"rule_name": "alone", "release_name": "one"})).await.expect_code(OK);
    assert_eq!(published.body["responses"][0]["ruleRelease"]["release_name"], "one", "{published}");
    suite.post("/delete", &item).await.expect_code(OK);
    assert_eq!(suite.get("", "namespace=sizes").await.amount(), 0);
    suite.count(6);
}

async fn ids_name_one_rule(suite: &Suite) {
    let id = suite.fresh("my.id:of/rule");
    let rule = suite.rule("ids", json!({"id": id})).await;
    assert_eq!(rule["id"], id);
    let other = suite.rule("ids", json!({"id": ""})).await;
    assert_eq!(text(&other["id"]).len(), 32, "an empty id counts as none: {other}");

    let taken = json!([{"id": id, "namespace": "ids", "name": suite.fresh("rule")}]);
    suite.post("", &taken).await.expect_code(TAKEN);
    let longest = "i".repeat(128);
    let twice = json!([
        {"id": longest, "namespace": "ids", "name": suite.fresh("rule")},
        {"id": longest, "namespace": "ids", "name": suite.fresh("rule")},
    ]);
    assert_eq!(suite.post("", &twice).await.expect_code(TAKEN).item_codes(), [OK, TAKEN]);

    // The id takes precedence over the name; without an id, name and namespace identify the rule.
    let renamed = json!([{"id": id, "namespace": "ids", "name": suite.fresh("renamed")}]);
    let renamed = suite.only_entity(suite.put("", &renamed).await);
    assert_eq!(renamed["id"], id);
    let by_name = json!([{"name": renamed["name"], "namespace": "ids", "priority": 3}]);
    assert_eq!(suite.only_entity(suite.put("", &by_name).await)["id"], id);
    let clash = json!([{"id": id, "name": other["name"], "namespace": "ids"}]);
    suite.put("", &clash).await.expect_code(TAKEN);

    for item in [json!({"id": "nobody", "priority": 1}), json!({"name": "nobody", "namespace": "ids", "priority": 1})] {
        assert_eq!(suite.put("", &json!([item])).await.expect_code(MISSING).item_codes(), [MISSING]);
        assert_eq!(suite.post("/delete", &json!([item])).await.expect_code(OK).item_codes(), [OK]);
    }
    for nameless in [json!({}), json!({"name": "x"}), json!({"namespace": "ids"})] {
        let answer = suite.post("/delete", &json!([nameless])).await;
        assert!((400..500).contains(&answer.status), "{nameless}: {answer}");
        let answer = suite.put("", &json!([nameless])).await;
        assert!((400..500).contains(&answer.status), "{nameless}: {answer}");
    }
    // An id is free again once its rule is gone.
    for _ in 0..2 {
        suite.post("/delete", &json!([{"id": id}])).await.expect_code(OK);
    }
    assert_eq!(suite.get("/detail", &format!("id={id}")).await.expect_code(OK).amount(), 0);
    assert_eq!(suite.rule("ids", json!({"id": id})).await["id"], id);
    suite.count(22);
}

/// An id of another family is no rule here, and its owner stays as it is.
async fn ids_are_of_one_family(suite: &Suite) {
    let other = suite.other_family();
    let path = format!("/naming/v1/{}", other.kind);
    let foreign = json!([{"namespace": "foreign", "name": suite.fresh("foreign"), "priority": 4}]);
    let created = suite.api().post(&path, &foreign).await.expect_code(OK);
    let foreign = created.body["responses"][0][other.element].clone();
    let id = json!([{"id": foreign["id"], "priority": 5}]);
    assert_eq!(suite.get("/detail", &format!("id={}", text(&foreign["id"]))).await.expect_code(OK).amount(), 0);
    suite.put("", &id).await.expect_code(MISSING);
    suite.post("/delete", &id).await.expect_code(OK);
    for field in ["id", "rule_id"] {
        suite.post("/releases", &json!([{field: foreign["id"]}])).await.expect_code(MISSING);
    }
    let shown = suite.api().get(&format!("{path}/detail?id={}", text(&foreign["id"]))).await.expect_code(OK);
    assert_eq!(shown.body["data"], json!([foreign]), "{shown}");
    // A name is free in every family.
    let same_name = json!({"namespace": "foreign", "name": foreign["name"]});
    assert_ne!(suite.create(&same_name).await["id"], foreign["id"]);
    suite.count(6);
}

async fn names_are_taken_once(suite: &Suite) {
    let rule = suite.rule("names", json!({})).await;
    let named = |namespace: &str, name: &str| json!([{"namespace": namespace, "name": name}]);
    let name = text(&rule["name"]);
    suite.post("", &named("names", name)).await.expect_code(TAKEN);
    suite.post("", &named("names.else", name)).await.expect_code(OK);
    suite.post("", &named("names", &name.to_uppercase())).await.expect_code(OK);
    suite.post("", &named("names", &format!(" {name}"))).await.expect_code(OK);
    assert_eq!(suite.detail(&rule["id"]).await, rule, "a refused create changed something");
    suite.post("/delete", &named("names", name)).await.expect_code(OK);
    assert_ne!(suite.only_entity(suite.post("", &named("names", name)).await)["id"], rule["id"]);
    suite.count(6);
}

async fn two_nodes_cannot_create_one_rule_twice(suite: &Suite) {
    const ROUNDS: usize = 10;
    for _ in 0..ROUNDS {
        let item = json!([{"namespace": "twice", "name": suite.fresh("twin")}]);
        let [one, two] = suite.two_apis();
        let path = suite.path("");
        let (one, two) = tokio::join!(one.post(&path, &item), two.post(&path, &item));
        let mut codes = [one.code(), two.code()];
        codes.sort_unstable();
        assert_eq!(codes, [OK, TAKEN], "{one}\n{two}");
    }
    assert_eq!(suite.get("", "namespace=twice").await.amount(), ROUNDS as u64);
    suite.count(ROUNDS);
}

async fn revisions_are_compared(suite: &Suite) {
    let rule = suite.rule("revisions", json!({"description": "one"})).await;
    let (id, first) = (&rule["id"], &rule["revision"]);
    let update = |text: &str, revision: &Value| json!([{"id": id, "description": text, "revision": revision}]);
    let second = suite.only_entity(suite.put("", &update("two", first)).await)["revision"].clone();
    assert_ne!(&second, first);
    for text in ["three", "two"] {
        let stale = suite.put("", &update(text, first)).await.expect_code(CONFLICT);
        assert_eq!(stale.item_codes(), [CONFLICT], "{stale}");
    }
    suite.put("", &update("two", &second)).await.expect_code(UNCHANGED);
    assert_eq!(suite.detail(id).await["description"], "two");
    let third = suite.only_entity(suite.put("", &update("three", &second)).await);
    assert_eq!(stripped(&suite.detail(id).await), stripped(&third));

    // Of two writers with the same revision, one succeeds.
    let (path, [one, two]) = (suite.path(""), suite.two_apis());
    let (mine, yours) = (update("mine", &third["revision"]), update("yours", &third["revision"]));
    let (mine, yours) = tokio::join!(one.put(&path, &mine), two.put(&path, &yours));
    let mut codes = [mine.code(), yours.code()];
    codes.sort_unstable();
    assert_eq!(codes, [OK, CONFLICT], "{mine}\n{yours}");
    suite.count(7);
}

async fn one_switch_has_two_names(suite: &Suite) {
    let cases = [
        (json!({}), true),
        (json!({"enable": true}), true),
        (json!({"enable": false}), false),
        (json!({"disable": true}), false),
        (json!({"disable": false}), true),
        (json!({"enable": true, "disable": false}), true),
        (json!({"enable": false, "disable": true}), false),
    ];
    for (said, is_on) in &cases {
        let rule = suite.rule("switch", said.clone()).await;
        assert_eq!((&rule["enable"], &rule["disable"]), (&json!(is_on), &json!(!is_on)), "{said}");
        assert_eq!(text(&rule["etime"]).is_empty(), !is_on, "{said}: {rule}");
        for (said_again, is_on) in &cases[1..] {
            let update = json!([merged(&json!({"id": rule["id"]}), said_again)]);
            suite.put("", &update).await;
            let shown = suite.detail(&rule["id"]).await;
            assert_eq!((&shown["enable"], &shown["disable"]), (&json!(is_on), &json!(!is_on)), "{said_again}");
        }
        suite.count(cases.len());
    }
    let rule = suite.rule("switch", json!({"enable": false})).await;
    for enable in [true, false] {
        let contradiction = json!([{"id": rule["id"], "enable": enable, "disable": enable}]);
        let answer = suite.put("", &contradiction).await.expect_code(INVALID);
        assert!(text(&answer.body["responses"][0]["info"]).contains("disable"), "{answer}");
        let mut new = contradiction[0].clone();
        new["name"] = json!(suite.fresh("contradiction"));
        new["namespace"] = json!("switch");
        new["id"] = json!("");
        suite.post("", &json!([new])).await.expect_code(INVALID);
    }
    assert_eq!(suite.detail(&rule["id"]).await, rule, "a contradiction changed something");
    // Read, one of the two changed, sent back: what was changed counts.
    for (field, value) in [("enable", true), ("disable", true)] {
        let read = merged(&suite.detail(&rule["id"]).await, &json!({field: value}));
        let turned = suite.only_entity(suite.put("", &json!([read])).await);
        assert_eq!((&turned[field], turned["enable"] == turned["disable"]), (&json!(value), false), "{turned}");
        suite.put("", &json!([read])).await.expect_code(CONFLICT);
    }
    // The time of the last switch-on stays while the rule is off.
    let on = suite.only_entity(suite.put("", &json!([{"id": rule["id"], "disable": false}])).await);
    let off = suite.only_entity(suite.put("", &json!([{"id": rule["id"], "disable": true}])).await);
    assert!(!text(&on["etime"]).is_empty(), "{on}");
    assert_eq!(off["etime"], on["etime"], "{off}");
    suite.count(11);
}

async fn rules_hold_their_namespace(suite: &Suite) {
    let namespace = suite.fresh("made.on.the.fly");
    let rule = suite.rule(&namespace, json!({})).await;
    let list = suite.api().get(&format!("/naming/v1/namespaces?name={namespace}")).await.expect_code(OK);
    assert_eq!(list.amount(), 1, "{list}");
    let item = json!([{"name": namespace}]);
    suite.api().post("/naming/v1/namespaces/delete", &item).await.expect_code(NAMESPACE_HAS_RULES);
    suite.post("/delete", &json!([{"id": rule["id"]}])).await.expect_code(OK);
    suite.api().post("/naming/v1/namespaces/delete", &item).await.expect_code(OK);
    suite.count(3);
}
