//! Contracts over three nodes: what is written through one holds at every door of the others, after restarts too.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Api, Cluster, eventually};

const CONTRACTS: &str = "/admin/v1/contracts";
const FILES: &str = "/config/v1/configfiles";
const RELEASE: &str = "/config/v1/configfiles/release";
const RULES: &str = "/naming/v1/routings";
const LIMIT: Duration = Duration::from_secs(20);

fn timeouts() -> Value {
    json!([{"name": "timeouts", "namespace": "default", "names": ["app"], "kinds": ["configfile"], "mode": "refuse",
        "schema": {"properties": {"timeout": {"type": "integer", "maximum": 60}, "none": {"const": null}}}}])
}

fn file(content: &str) -> Value {
    json!({"namespace": "default", "group": "app", "name": "app.yml", "content": content})
}

fn release(more: Value) -> Value {
    let mut release = json!({"namespace": "default", "group": "app", "file_name": "app.yml"});
    release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!([release])
}

/// Waits until a node has applied the contract.
async fn knows(api: &Api, name: &str) {
    eventually(LIMIT, "every node has the contract", || async {
        let listed = api.get(&format!("{CONTRACTS}?name={name}")).await;
        if listed.amount() == 1 { Ok(()) } else { Err(listed.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_holds_at_every_door_of_every_node() {
    let mut cluster = Cluster::start(3).await;
    cluster.api(2).post(CONTRACTS, &timeouts()).await.expect_code(200_000);
    let listed = cluster.api(2).get(CONTRACTS).await.expect_code(200_000);
    assert_eq!(listed.body["data"][0]["schema"]["properties"]["none"], json!({"const": null}), "{listed}");

    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    cluster.restart(leader).await;
    for node in 1..=3 {
        knows(&cluster.api(node), "timeouts").await;
    }
    let saved = cluster.api(1).post(FILES, &file("a: 1\ntimeout: 70\n")).await.expect_code(200_000);
    let warning = "contract timeouts: line 2, /timeout: 70 is greater than the maximum of 60";
    assert_eq!(saved.body["warnings"], json!([warning]), "{saved}");
    for node in 1..=3 {
        let api = cluster.api(node);
        for (path, body) in [
            (RELEASE.to_owned(), release(json!({}))),
            (format!("{RELEASE}?force=true"), release(json!({}))),
            (
                RELEASE.to_owned(),
                release(json!({"release_type": "gray", "beta_labels": [
                {"key": "zone", "value": {"type": "EXACT", "value": "a"}}]})),
            ),
            (RELEASE.to_owned(), release(json!({"publish_at": "2098-01-01T00:00:00Z"}))),
            (RELEASE.to_owned(), release(json!({"request": "please"}))),
            ("/config/v1/configfiles/createandpub".to_owned(), release(json!({"content": "b: 1\ntimeout: 70\n"}))),
        ] {
            let refused = api.post(&path, &body).await.expect_code(400_107);
            let item = &refused.body["responses"][0];
            assert_eq!(
                (refused.status, &item["path"], &item["line"]),
                (400, &json!("/timeout"), &json!(2)),
                "{refused}"
            );
            assert_eq!(item["message"], "70 is greater than the maximum of 60", "{refused}");
        }
    }
    cluster.api(3).put(FILES, &file("timeout: 60\n")).await.expect_code(200_000);
    cluster.api(1).post(RELEASE, &release(json!({}))).await.expect_code(200_000);

    let grows = json!([{"name": "grows", "namespace": "default", "mode": "refuse", "rules": [
        {"expression": "kind != 'configfile' || old == null || new.timeout >= old.timeout", "message": "never shorter"},
        {"expression": "kind != 'routing' || new.priority < 10 && namespace == 'default' && user == 'admin'"}]}]);
    cluster.api(1).post(CONTRACTS, &grows).await.expect_code(200_000);
    cluster.api(1).put(FILES, &file("timeout: 50\n")).await.expect_code(200_000);
    let refused = cluster.api(1).post(RELEASE, &release(json!({}))).await.expect_code(400_107);
    assert_eq!(refused.body["responses"][0]["message"], "never shorter", "{refused}");
    let rule = |priority: u64| {
        json!([{"name": "r", "namespace": "default", "priority": priority,
            "routing_config": {"rules": [{"name": "one", "destinations": []}]}}])
    };
    let of_rule = json!([{"rule_name": "r", "namespace": "default"}]);
    let saved = cluster.api(1).post(RULES, &rule(10)).await.expect_code(200_000);
    assert!(saved.to_string().contains("contract grows: /: not true"), "{saved}");
    let refused = cluster.api(1).post(&format!("{RULES}/releases"), &of_rule).await.expect_code(400_107);
    assert!(refused.body["responses"][0].get("line").is_none(), "{refused}");
    cluster.api(1).put(RULES, &rule(9)).await.expect_code(200_000);
    cluster.api(1).post(&format!("{RULES}/releases"), &of_rule).await.expect_code(200_000);
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_without_end_is_broken_in_its_time_and_bad_ones_are_refused() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    for (fields, why) in [
        (json!({"schema": {"items": {"$ref": "https://example.org/s.json"}}}), "schema: /items/$ref"),
        (json!({"schema": {"$ref": "#"}}), "back to itself"),
        (json!({"rules": [{"expression": "new.a =="}]}), "rules[0].expression"),
        (json!({"rules": [{"expression": "fetch(new)"}]}), "there is no function fetch"),
        (json!({}), "one of schema and rules"),
        (json!({"schema": true, "rules": [{"expression": "true"}]}), "one of them"),
    ] {
        let mut contract = json!([{"name": "bad"}]);
        contract[0].as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        let refused = api.post(CONTRACTS, &contract).await.expect_code(400_103);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let again = json!({"$ref": "#"});
    let endless = json!([{"name": "endless", "mode": "refuse", "schema": {"anyOf": [
        {"items": again, "minItems": 2}, {"items": again, "minItems": 3}, {"items": again, "minItems": 4}]}}]);
    api.post(CONTRACTS, &endless).await.expect_code(200_000);
    let content = format!("{}1{}", "[".repeat(60), "]".repeat(60));
    let file = json!({"namespace": "default", "group": "app", "name": "a.json", "content": content});
    let saved = api.post(FILES, &file).await.expect_code(200_000);
    assert!(saved.to_string().contains("contract endless: line 1, /: took too long"), "{saved}");
    let body = json!([{"namespace": "default", "group": "app", "file_name": "a.json"}]);
    let refused = api.post(RELEASE, &body).await.expect_code(400_107);
    assert_eq!(refused.body["responses"][0]["message"], "took too long", "{refused}");
}
