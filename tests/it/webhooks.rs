//! Webhooks on a real cluster: created on any node, delivered by each leader.

use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::backup::{restore_all, take_backup};
use crate::harness::{Api, Cluster, Posted, Receiver, eventually, report};

const HOOKS: &str = "/admin/v1/webhooks";
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// Makes a webhook and returns its secret.
async fn create(api: &Api, name: &str, more: Value) -> String {
    let mut body = json!({"name": name, "allow_private": true});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let created = api.post(HOOKS, &json!([body])).await.expect_code(200_000);
    let hook = &created.body["responses"][0]["webhook"];
    hook["secret"].as_str().unwrap_or_else(|| panic!("no secret in {created}")).to_owned()
}

async fn webhook(api: &Api, name: &str) -> Value {
    let listed = api.get(&format!("{HOOKS}?name={name}")).await.expect_code(200_000);
    listed.body["data"][0].clone()
}

async fn wait_until(api: &Api, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(TOLD_WITHIN, what, || async {
        let hook = webhook(api, name).await;
        if is_so(&hook) { Ok(hook) } else { Err(hook.to_string()) }
    })
    .await
}

fn is_signed(posted: &Posted, secret: &str) -> bool {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key");
    let expected = format!("sha256={}", hex::encode(mac.chain_update(&posted.bytes).finalize().into_bytes()));
    posted.header("X-Thuban-Signature") == expected
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_told_signed_and_to_who_wants_it() {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let (api, other) = (cluster.api(1), cluster.api(2));
    let (all, gray, ill) = (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    let secret = create(&api, "all", json!({"url": all.url})).await;
    create(&api, "gray", json!({"url": gray.url, "events": ["gray", "promote"], "namespace": "hooked"})).await;
    let given = "a-secret-of-the-receiver";
    assert_eq!(create(&other, "ill", json!({"url": ill.url, "events": ["health"], "secret": given})).await, given);

    other.publish("hooked", "g", "f", "k=1").await;
    let rule = json!([{"namespace": "hooked", "name": "limit",
        "rules": [{"amounts": [{"maxAmount": 5, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let labels = json!([{"key": "zone", "value": {"value": "a"}}]);
    let release =
        json!([{"rule_name": "limit", "release_name": "g1", "release_type": "gray", "client_labels": labels}]);
    api.post("/naming/v1/ratelimits/releases", &release).await.expect_code(200_000);
    let promote = json!([{"rule_name": "limit", "release_name": "g1", "new_release_name": "n1"}]);
    api.put("/naming/v1/ratelimits/releases/promote", &promote).await.expect_code(200_000);
    let instance = json!([{"namespace": "hooked", "service": "pay", "host": "10.0.0.1", "port": 80, "healthy": true,
        "enable_health_check": true, "health_check": {"type": "HEARTBEAT", "heartbeat": {"ttl": 1}}}]);
    api.post("/naming/v1/instances", &instance).await.expect_code(200_000);

    let told = all.wait_for(4, TOLD_WITHIN).await;
    let words: Vec<_> = told.iter().map(|posted| posted.header("X-Thuban-Event")).collect();
    assert_eq!(words, ["publish", "gray", "promote", "health"]);
    assert!(told.iter().all(|posted| is_signed(posted, &secret)), "{told:?}");
    let ids: Vec<_> = told.iter().map(|posted| posted.id().to_owned()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    let body = &told[2].body;
    assert_eq!(
        (&body["namespace"], &body["name"], &body["release"]["name"]),
        (&json!("hooked"), &json!("limit"), &json!("n1"))
    );
    assert_eq!((&body["release"]["user"], &body["id"]), (&json!("admin"), &json!(ids[2])));
    let health = &told[3].body;
    assert_eq!((&health["name"], &health["health"]["healthy"]), (&json!("pay"), &json!(0)));
    assert_eq!(health["health"]["instances"][0]["host"], "10.0.0.1");
    let of_gray = gray.wait_for(2, TOLD_WITHIN).await;
    assert_eq!(of_gray.iter().map(|posted| posted.body["event"].clone()).collect::<Vec<_>>(), ["gray", "promote"]);
    let of_ill = ill.wait_for(1, TOLD_WITHIN).await;
    assert!(of_ill.len() == 1 && is_signed(&of_ill[0], given));

    let hook = wait_until(&other, "all", "it is written down", |hook| hook["delivered"] == 4).await;
    assert_eq!(
        (&hook["pending"], &hook["dropped"], &hook["last_error"], hook.get("secret")),
        (&json!(0), &json!(0), &json!(""), None)
    );
    assert!(hook["last_success"].as_str().is_some_and(|time| !time.is_empty()), "{hook}");
    let leader = cluster.api(cluster.leader().await);
    assert_eq!(leader.metric("thuban_webhook_pending{webhook=\"all\"}").await, Some(0.0));
    assert!(leader.metric("thuban_webhook_deliveries_total{outcome=\"delivered\"}").await >= Some(7.0));
    let trail = api.get("/admin/v1/audit?kind=webhook").await.expect_code(200_000);
    assert_eq!(trail.amount(), 3, "{trail}");

    // A deleted webhook gets nothing more, and a changed one gets the new events from now on.
    api.post(&format!("{HOOKS}/delete"), &json!([{"name": "all"}, {"name": "gray"}])).await.expect_code(200_000);
    other.put(HOOKS, &json!([{"name": "ill", "events": []}])).await.expect_code(200_000);
    other.publish("hooked", "g", "f", "k=2").await;
    let told = ill.wait_for(2, TOLD_WITHIN).await;
    assert_eq!((&told[1].body["event"], &told[1].body["release"]["from_version"]), (&json!("publish"), &json!(1)));
    assert_eq!((all.posted().len(), gray.posted().len()), (4, 2));
    cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_is_judged() {
    let cluster = Cluster::start_with_data_key(1, &[]).await;
    let api = cluster.api(1);
    let url = "https://example.org/hook";
    let rows = [
        (json!({"name": "ok", "url": url}), 200_000),
        (json!({"name": "ok", "url": url}), 400_201),
        (json!({"name": "no-url"}), 400_103),
        (json!({"name": "file", "url": "file:///etc/passwd"}), 400_103),
        (json!({"name": "user", "url": "https://ann:pw@example.org/"}), 400_103),
        (json!({"name": "loop", "url": "http://127.0.0.1:8090/"}), 400_103),
        (json!({"name": "loop", "url": "http://[::ffff:7f00:1]/"}), 400_103),
        (json!({"name": "meta", "url": "http://169.254.169.254/", "allow_private": true}), 400_103),
        (json!({"name": "", "url": url}), 400_103),
        (json!({"name": "weak", "url": url, "secret": "short"}), 400_103),
        (json!({"name": "event", "url": url, "events": ["birthday"]}), 400_001),
        (json!({"name": "space", "url": url, "namespace": "a b"}), 400_110),
    ];
    for (body, code) in rows {
        let answer = api.post(HOOKS, &json!([body])).await;
        assert_eq!(answer.item_codes(), [code], "{body}: {answer}");
    }
    api.put(HOOKS, &json!([{"name": "none", "url": url}])).await.expect_code(400_202);
    api.put(HOOKS, &json!([{"name": "ok", "comment": "c"}])).await.expect_code(200_000);
    api.put(HOOKS, &json!([{"name": "ok", "comment": "c"}])).await.expect_code(200_002);
    let plain = Cluster::start(1).await;
    plain.api(1).post(HOOKS, &json!([{"name": "ok", "url": url}])).await.expect_code(503_005);
}

/// A receiver that fails for a while loses nothing, and is shown for what it is; a name that leads to this machine is
/// not called unless that is allowed.
#[tokio::test(flavor = "multi_thread")]
async fn failures_are_shown_and_tried_again() {
    let cluster = Cluster::start_with_data_key(3, &[]).await;
    let api = cluster.api(1);
    let (receiver, near) = (Receiver::start().await, Receiver::start().await);
    receiver.answer(500);
    create(&api, "fails", json!({"url": receiver.url})).await;
    let local = near.url.replace("127.0.0.1", "localhost");
    create(&api, "near", json!({"url": local, "allow_private": false})).await;
    for number in 0..5 {
        api.publish("hooked", "g", "f", &format!("k={number}")).await;
    }
    let hook = wait_until(&api, "fails", "it fails", |hook| hook["last_error"] == "answered 500").await;
    assert_eq!((&hook["pending"], &hook["delivered"]), (&json!(5), &json!(0)));
    assert_ne!(hook["failing_since"], "");
    let hook = wait_until(&api, "near", "it is refused", |hook| hook["last_error"] != "").await;
    assert!(hook["last_error"].as_str().is_some_and(|why| why.contains("allow_private")), "{hook}");
    assert_eq!(near.posted().len(), 0);
    receiver.answer(200);
    let told = receiver.wait_for(5, TOLD_WITHIN).await;
    let versions: Vec<_> = told.iter().map(|posted| posted.body["release"]["version"].clone()).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5]);
    let hook = wait_until(&api, "fails", "it works again", |hook| hook["delivered"] == 5).await;
    assert_eq!(
        (&hook["pending"], &hook["failing_since"], &hook["last_error"]),
        (&json!(0), &json!(""), &json!("answered 500"))
    );
    api.put(HOOKS, &json!([{"name": "near", "disabled": true}])).await.expect_code(200_000);
    let hook = webhook(&api, "near").await;
    assert_eq!((&hook["pending"], &hook["dropped"]), (&json!(0), &json!(5)), "what is off waits for nothing");
}

/// Leaders die during deliveries: every event of every acknowledged write arrives, in order.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_a_leader() {
    const WRITES: u64 = 120;
    let mut cluster = Cluster::start_with_data_key(3, &[]).await;
    let receiver = Receiver::start().await;
    create(&cluster.api(1), "ops", json!({"url": receiver.url, "events": ["publish"]})).await;
    let begun = Instant::now();
    for number in 1..=WRITES {
        if number == WRITES / 3 || number == 2 * WRITES / 3 {
            // In the middle of the telling.
            receiver.wait_for(number as usize / 2, TOLD_WITHIN).await;
            let leader = cluster.leader().await;
            cluster.kill(leader).await;
            cluster.relaunch(leader).await;
        }
        publish(&cluster, number).await;
    }
    let last = |posted: &Posted| posted.body["name"] == format!("f{WRITES}");
    eventually(TOLD_WITHIN, "the last event is told", || async {
        if receiver.posted().iter().any(last) { Ok(()) } else { Err(format!("{} posts", receiver.posted().len())) }
    })
    .await;
    let posts = receiver.posted();
    let firsts = receiver.wait_for(WRITES as usize, TOLD_WITHIN).await;
    let ids: Vec<_> = firsts.iter().map(|posted| posted.id().to_owned()).collect();
    assert!(ids.is_sorted(), "the first time each comes is in order: {ids:?}");
    for number in 1..=WRITES {
        let name = format!("f{number}");
        assert!(firsts.iter().any(|posted| posted.body["name"] == name.as_str()), "{name} is missing");
    }
    report(format!(
        "{WRITES} events told in {:?} over two killed leaders, {} of them again",
        begun.elapsed(),
        posts.len() - firsts.len()
    ));
    for id in cluster.running() {
        cluster.wait_ready(id).await;
    }
    let leader = cluster.leader().await;
    wait_until(&cluster.api(leader), "ops", "all is written down", |hook| hook["pending"] == 0).await;
    cluster.expect_equal_state().await;
}

/// Publishes on any node, repeatedly until one accepts it.
async fn publish(cluster: &Cluster, number: u64) {
    let body = json!({"namespace": "hooked", "group": "g", "file_name": format!("f{number}"), "content": "k=1",
        "format": "properties"});
    eventually(TOLD_WITHIN, "a publish is acknowledged", || async {
        for id in cluster.running() {
            let sent = cluster
                .api(id)
                .try_send(reqwest::Method::POST, "/config/v1/configfiles/createandpub", Some(&body))
                .await;
            if sent.is_ok_and(|answer| answer.code() == 200_000) {
                return Ok(());
            }
        }
        Err("nobody took it".to_owned())
    })
    .await;
}

/// A copy of a cluster next to the first one calls no webhook.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_cluster_tells_nobody_until_it_is_told_to() {
    let mut cluster = Cluster::start_with_data_key(1, &[]).await;
    let receiver = Receiver::start().await;
    let secret = create(&cluster.api(1), "ops", json!({"url": receiver.url})).await;
    cluster.api(1).publish("hooked", "g", "f", "k=1").await;
    wait_until(&cluster.api(1), "ops", "it is told", |hook| hook["delivered"] == 1).await;
    let backup = cluster.file("backup");
    take_backup(&cluster, 1, &backup).await;
    cluster.kill_all().await;
    restore_all(&cluster, &backup).await;
    cluster.restart_all().await;
    cluster.log_in_again().await;
    cluster.api(1).publish("hooked", "g", "f", "k=2").await;
    let hook = webhook(&cluster.api(1), "ops").await;
    assert_eq!((&hook["disabled"], &hook["pending"], &hook["delivered"]), (&json!(true), &json!(0), &json!(0)));
    cluster.api(1).put(HOOKS, &json!([{"name": "ops", "disabled": false}])).await.expect_code(200_000);
    cluster.api(1).publish("hooked", "g", "f", "k=3").await;
    let told = receiver.wait_for(2, TOLD_WITHIN).await;
    assert_eq!((told.len(), told[1].body["event"].clone()), (2, json!("publish")));
    assert!(is_signed(&told[1], &secret), "by the same data key");
}

/// An operator of webhooks is bounded by the operator of the nodes: nothing private is reached that no flag names.
#[tokio::test(flavor = "multi_thread")]
async fn private_networks_are_those_that_the_node_names() {
    let cluster = Cluster::start_with_data_key(1, &["--webhook-private-networks", "10.0.0.0/8"]).await;
    let (api, near) = (cluster.api(1), Receiver::start().await);
    let here = json!([{"name": "here", "url": near.url, "allow_private": true}]);
    let refused = api.post(HOOKS, &here).await.expect_code(400_103);
    assert!(refused.to_string().contains("--webhook-private-networks"), "{refused}");
    // A name is checked when it is resolved.
    create(&api, "named", json!({"url": near.url.replace("127.0.0.1", "localhost")})).await;
    api.publish("hooked", "g", "f", "k=1").await;
    let hook = wait_until(&api, "named", "it is refused", |hook| hook["last_error"] != "").await;
    assert!(hook["last_error"].as_str().is_some_and(|why| why.contains("--webhook-private-networks")), "{hook}");
    assert_eq!(near.posted().len(), 0);
}
