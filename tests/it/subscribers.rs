//! Register of subscribers: on any node, for the clients of all nodes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Api, Cluster, eventually, http, run};

const LIMIT: Duration = Duration::from_secs(20);
const OF_FILE: &str = "/config/v1/configfiles/subscribers?namespace=default&group=app&file_name=application";

/// Address, release and whether it is what the client should have, by address.
fn rows(answer: &Answer) -> Vec<(String, u64, u64, bool)> {
    let data = answer.body["data"].as_array().unwrap_or_else(|| panic!("no data in {answer}"));
    let tell = |row: &Value| {
        let address = row["address"].as_str().unwrap_or_else(|| panic!("{row}")).to_owned();
        let number = |field: &str| row[field].as_u64().unwrap_or_else(|| panic!("{row}"));
        (address, number("node"), number("version"), row["current"] == true)
    };
    data.iter().map(tell).collect()
}

async fn asked(api: &Api, path: &str) -> Answer {
    api.get(path).await.expect_code(200_000)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_can_be_watched_from_any_node() {
    let mut cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    api.publish("default", "app", "application", "v=1").await;
    cluster.expect_equal_state().await;
    let pull = |address: &'static str| format!("/configs/app/default/application?ip={address}");
    for (node, address) in [(1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.3")] {
        assert_eq!(cluster.apollo(node).get(&pull(address)).await.status, 200);
    }
    for id in cluster.ids() {
        let answer = asked(&cluster.api(id), OF_FILE).await;
        let expected = [1, 2, 3].map(|number| (format!("10.0.0.{number}"), number, 1, true));
        assert_eq!(rows(&answer), expected, "node {id}: {answer}");
        assert_eq!((&answer.body["amount"], &answer.body["current"]), (&json!(3), &json!(3)), "{answer}");
    }
    // A new version: clients that have not pulled it yet are behind, on every node.
    api.publish("default", "app", "application", "v=2").await;
    cluster.expect_equal_state().await;
    assert_eq!(cluster.apollo(3).get(&pull("10.0.0.1")).await.status, 200);
    let answer = asked(&cluster.api(2), OF_FILE).await;
    let expected = [("10.0.0.1", 3, 2, true), ("10.0.0.2", 2, 1, false), ("10.0.0.3", 3, 1, false)];
    assert_eq!(rows(&answer), expected.map(|(address, node, version, is)| (address.to_owned(), node, version, is)));
    assert_eq!((&answer.body["amount"], &answer.body["current"]), (&json!(3), &json!(1)), "{answer}");
    let since = answer.body["data"][0]["since"].as_str().expect("a time").len();
    assert_eq!((since, &answer.body["data"][1]["release_name"].is_string()), (19, &true), "{answer}");
    let page = asked(&cluster.api(2), &format!("{OF_FILE}&offset=1&limit=1")).await;
    assert_eq!(rows(&page), [("10.0.0.2".to_owned(), 2, 1, false)]);

    // The register of a dead node is lost; its clients are found on the nodes to which they reconnected.
    cluster.kill(2).await;
    assert_eq!(cluster.apollo(1).get(&pull("10.0.0.2")).await.status, 200);
    eventually(LIMIT, "the dead node is told of", || async {
        let answer = asked(&cluster.api(1), OF_FILE).await;
        match answer.body["silent_nodes"] == json!([2]) && rows(&answer)[1] == ("10.0.0.2".to_owned(), 1, 2, true) {
            true => Ok(()),
            false => Err(answer.to_string()),
        }
    })
    .await;
    let missing = OF_FILE.replace("application", "nothing");
    cluster.api(1).get(&missing).await.expect_code(400_202);
}

/// A client of a dead node is registered on its new node by a pull with its release key, or by a poll with the newest
/// id. A poll with an older id does not register it, nor does a poll during a gray release by labels that polls do not
/// carry.
#[tokio::test(flavor = "multi_thread")]
async fn who_comes_from_a_dead_node_is_known_at_once() {
    let mut cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    api.publish("default", "app", "application", "v=1").await;
    cluster.expect_equal_state().await;
    let apollo = cluster.apollo(1);
    let key = apollo.config("app", "default", "application").await["releaseKey"].as_str().expect("a key").to_owned();
    let id = apollo.current_id("app", "default", "application").await;
    cluster.kill(2).await;
    let pull = format!("/configs/app/default/application?ip=10.0.0.1&releaseKey={key}");
    assert_eq!(apollo.get(&pull).await.status, 304);
    let poll = |address: &'static str, id: i64| {
        let apollo = cluster.apollo(1);
        tokio::spawn(async move {
            let _ = apollo.poll_with("app", "default", &[("application", id)], &format!("&ip={address}")).await;
        })
    };
    poll("10.0.0.3", -1).await.expect("it is told");
    let held = poll("10.0.0.2", id);
    let expected = ["10.0.0.1", "10.0.0.2"].map(|address| (address.to_owned(), 1, 1, true));
    eventually(LIMIT, "both are known", || async {
        let answer = asked(&cluster.api(3), OF_FILE).await;
        let found: Vec<_> = rows(&answer).into_iter().filter(|(address, ..)| address.starts_with("10.")).collect();
        if found == expected { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    held.abort();

    let labels = json!([{"key": "zone", "value": {"value": "a"}}]);
    let gray = json!({"namespace": "default", "group": "app", "file_name": "application", "name": "gray",
                      "release_type": "gray", "beta_labels": labels});
    cluster.api(1).post("/config/v1/configfiles/release", &gray).await.expect_code(200_000);
    let id = apollo.current_id("app", "default", "application").await;
    let held = [poll("10.0.0.2", id), poll("10.0.0.4", id)];
    let metrics = cluster.api(1);
    eventually(LIMIT, "both polls are held", || async {
        let count = metrics.metric("thuban_long_polls_held").await;
        if count == Some(2.0) { Ok(()) } else { Err(format!("{count:?}")) }
    })
    .await;
    let answer = asked(&cluster.api(3), OF_FILE).await;
    let found: Vec<_> = rows(&answer).into_iter().filter(|(address, ..)| address.starts_with("10.")).collect();
    assert_eq!(found, expected, "what the fourth has follows from its labels: {answer}");
    held.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_discovered_a_rule_has_it() {
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    let rule = json!([{"name": "limit", "namespace": "shop", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 5, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let publish = json!([{"rule_name": "limit", "release_name": "first"}]);
    api.post("/naming/v1/ratelimits/releases", &publish).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    let discover = |address: &str| {
        json!({"type": "RATE_LIMIT", "service": {"namespace": "shop", "name": "pay"},
               "filter": {"caller": {"labels": {"CLIENT_IP": address, "zone": "a"}}}})
    };
    for (node, address) in [(2, "10.0.0.2"), (3, "10.0.0.3")] {
        cluster.api(node).post("/v1/Discover", &discover(address)).await.expect_code(200_000);
    }
    let path = "/naming/v1/ratelimits/subscribers?rule_name=limit";
    let answer = asked(&api, path).await;
    let expected = [("10.0.0.2", 2, 1, true), ("10.0.0.3", 3, 1, true)];
    let expected = expected.map(|(address, node, version, is)| (address.to_owned(), node, version, is));
    assert_eq!(rows(&answer), expected, "{answer}");
    assert_eq!(answer.body["data"][0]["release_name"], "first", "{answer}");
    // A gray release by label: its clients are behind until they pull again.
    let labels = json!([{"key": "zone", "value": {"value": "a"}}]);
    let gray = json!([{"rule_name": "limit", "release_name": "gray", "release_type": "gray", "client_labels": labels}]);
    api.post("/naming/v1/ratelimits/releases", &gray).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    cluster.api(2).post("/v1/Discover", &discover("10.0.0.2")).await.expect_code(200_000);
    let answer = asked(&cluster.api(3), path).await;
    assert_eq!((&answer.body["amount"], &answer.body["current"]), (&json!(2), &json!(1)), "{answer}");
    assert_eq!(answer.body["data"][0]["release_name"], "gray", "{answer}");
}

async fn report_file(cluster: &Cluster, node: u64, address: &str, body: &Value) -> u16 {
    let url = format!("http://{}/configs/app/default/application/applied?ip={address}", cluster.ports(node).compat);
    let client = http().build().expect("a client");
    client.post(url).json(body).send().await.expect("an answer").status().as_u16()
}

/// Config clients report on a release, each to the node that it pulls from; any node returns the report.
#[tokio::test(flavor = "multi_thread")]
async fn what_clients_say_of_a_release_is_told_by_any_node() {
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    api.publish("default", "app", "application", "v=1").await;
    cluster.expect_equal_state().await;
    let key = cluster.apollo(1).config("app", "default", "application").await["releaseKey"].clone();
    for (node, address) in [(1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.3")] {
        let pull = format!("/configs/app/default/application?ip={address}");
        assert_eq!(cluster.apollo(node).get(&pull).await.status, 200);
    }
    let refused = json!({"releaseKey": key, "ok": false, "message": format!("no such port{}", "!".repeat(2000))});
    assert_eq!(report_file(&cluster, 1, "10.0.0.1", &json!({"releaseKey": key, "ok": true})).await, 204);
    assert_eq!(report_file(&cluster, 2, "10.0.0.2", &refused).await, 204);
    let other = json!({"releaseKey": "default-app-application-9", "ok": false});
    assert_eq!(report_file(&cluster, 3, "10.0.0.3", &other).await, 204, "of another release");
    assert_eq!(report_file(&cluster, 3, "10.0.0.3", &json!({"ok": true})).await, 400);
    for id in cluster.ids() {
        let answer = asked(&cluster.api(id), OF_FILE).await;
        let data = answer.body["data"].as_array().expect("rows").clone();
        let named = data.iter().filter(|row| row["address"].as_str().is_some_and(|address| address.starts_with("10.")));
        let words: Vec<_> = named.map(|row| (row["applied"].as_str(), row["applied_at"].is_string())).collect();
        assert_eq!(words, [(Some("yes"), true), (Some("refused"), true), (None, false)], "node {id}: {answer}");
        let message = data[1]["message"].as_str().expect("a reason");
        assert_eq!((message.len(), &message[..13]), (1024, "no such port!"));
        assert_eq!((&answer.body["applied"], &answer.body["refused"]), (&json!(1), &json!(1)), "{answer}");
    }
    eventually(LIMIT, "the gauge counts the client", || async {
        let count = cluster.api(2).metric("thuban_subscribers_refused").await;
        if count == Some(1.0) { Ok(()) } else { Err(format!("{count:?}")) }
    })
    .await;
    assert_eq!(cluster.api(1).metric("thuban_subscribers_refused").await, Some(0.0), "it is another node's client");
    let endpoint = format!("http://{}", cluster.ports(3).api);
    let arguments = ["who", "configfile/app/application", "-n", "default"];
    let out = run(&endpoint, cluster.token(), &arguments, "").await.expect(0);
    assert!(out.contains("10.0.0.2 refused version 1: no such port!"), "{out}");
    assert!(out.contains("1 said that they applied it, 1 that they could not"), "{out}");
    // The report does not count for the next version.
    api.publish("default", "app", "application", "v=2").await;
    cluster.expect_equal_state().await;
    assert_eq!(cluster.apollo(2).get("/configs/app/default/application?ip=10.0.0.2").await.status, 200);
    let answer = asked(&api, OF_FILE).await;
    assert_eq!((&answer.body["applied"], &answer.body["refused"]), (&json!(1), &json!(0)), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_say_of_a_rule_is_told() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let rule = json!([{"name": "limit", "namespace": "shop", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 5, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let publish = json!([{"rule_name": "limit", "release_name": "first"}]);
    api.post("/naming/v1/ratelimits/releases", &publish).await.expect_code(200_000);
    let client = json!({"labels": {"CLIENT_IP": "10.0.0.2"}});
    let discover = json!({"type": "RATE_LIMIT", "service": {"namespace": "shop", "name": "pay"},
                          "filter": {"caller": client}});
    api.post("/v1/Discover", &discover).await.expect_code(200_000);
    let report = async |more: Value| {
        let mut body = json!({"type": "RATE_LIMIT", "namespace": "shop", "name": "limit", "ok": false,
                              "message": "too low", "client": client});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let request = api.request(reqwest::Method::POST, "/v1/Applied").json(&body);
        request.send().await.expect("an answer").status().as_u16()
    };
    let told = async || {
        let answer = asked(&api, "/naming/v1/ratelimits/subscribers?rule_name=limit").await;
        let row = &answer.body["data"][0];
        let text = |field: &str| row[field].as_str().map(str::to_owned);
        (text("applied"), text("message"), answer.body["applied"].as_u64(), answer.body["refused"].as_u64())
    };
    let silent = (None, None, Some(0), Some(0));
    for more in [
        json!({"release_name": "second"}),
        json!({"version": 2}),
        json!({"name": "unlimited"}),
        json!({"type": "ROUTING"}),
    ] {
        assert_eq!((report(more.clone()).await, told().await), (204, silent.clone()), "{more}");
    }
    assert_eq!(report(json!({"release_name": "first"})).await, 204);
    let refused = (Some("refused".to_owned()), Some("too low".to_owned()), Some(0), Some(1));
    assert_eq!(told().await, refused);
    assert_eq!(report(json!({"version": 1, "ok": true})).await, 204);
    assert_eq!(told().await, (Some("yes".to_owned()), None, Some(1), Some(0)));
    for more in [json!({"type": "INSTANCE"}), json!({"name": ""}), json!({"ok": null}), json!({"namespace": ""})] {
        assert_eq!(report(more.clone()).await, 400, "{more}");
    }
    api.clone().without_token().post("/v1/Applied", &json!({"type": "ROUTING"})).await.expect_code(401_002);
}
