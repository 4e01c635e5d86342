//! Replicated settings and their effects: retention of releases, removal of instances that stay away.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Api, Cluster, eventually, thuban};

const SETTINGS: &str = "/admin/v1/settings";
const INSTANCES: &str = "/naming/v1/instances";
const KINDS: [&str; 4] = ["routings", "ratelimits", "faultdetectors", "circuitbreakers"];
/// The chores of the leader look once a second; the rest is a busy machine.
const WORKED_OFF_LIMIT: Duration = Duration::from_secs(20);
const PUBLISHES: u64 = 10;

/// The routes that list the releases of a file.
const OF_FILE: [&str; 2] = ["releases", "release/versions"];

async fn of_file(api: &Api, route: &str) -> Value {
    let path = format!("/config/v1/configfiles/{route}?namespace=prod&group=shop&file_name=app.yml");
    let answer = api.get(&path).await.expect_code(200_000);
    versions_of(&answer.body, "configFileReleases")
}

async fn of_rule(api: &Api, kind: &str) -> Value {
    let answer = api.get(&format!("/naming/v1/{kind}/releases?rule_name=kept")).await.expect_code(200_000);
    versions_of(&answer.body, "data")
}

/// Versions that are active and inactive, and up to which they were removed.
fn versions_of(body: &Value, element: &str) -> Value {
    let rows = body[element].as_array().unwrap_or_else(|| panic!("no {element} in {body}"));
    let versions = |active: bool| {
        let rows = rows.iter().filter(|row| row["active"] == active);
        let mut versions: Vec<_> = rows.map(|row| row["version"].as_u64().expect("a number")).collect();
        versions.sort_unstable();
        versions
    };
    json!({"active": versions(true), "inactive": versions(false), "removed": body["removed_through_version"]})
}

/// Returns the remaining versions of an object whose newest version is active, with `kept` inactive ones.
fn left(newest: u64, kept: u64) -> Value {
    let first = (newest - kept).max(1);
    json!({"active": [newest], "inactive": (first..newest).collect::<Vec<_>>(), "removed": first - 1})
}

async fn publish_all(api: &Api) {
    api.publish("prod", "shop", "app.yml", &format!("at: '{:?}'", std::time::Instant::now())).await;
    for kind in KINDS {
        let publish = json!([{"rule_name": "kept"}]);
        api.post(&format!("/naming/v1/{kind}/releases"), &publish).await.expect_code(200_000);
    }
}

async fn expect_left(api: &Api, expected: &Value) {
    for route in OF_FILE {
        assert_eq!(of_file(api, route).await, *expected, "the file, by {route}");
    }
    for kind in KINDS {
        assert_eq!(of_rule(api, kind).await, *expected, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_releases_stay_on_every_node() {
    let mut cluster = Cluster::start(3).await;
    let follower = cluster.followers().await[0];
    let api = cluster.api(follower);
    let shown = api.get(SETTINGS).await.expect_code(200_000);
    assert_eq!(
        shown.body["settings"],
        json!({
            "releases_kept": 100, "dead_instances_removed_after_s": 0,
            "audit_kept_days": 90, "audit_kept_rows": 1_000_000, "audit_instances": 0,
            "requests_expire_s": 2_592_000, "rule_scope": "ends", "password_login": "all",
            "revision": "",
        })
    );
    for (change, code) in [
        (json!({"releases_kept": 0}), 400_103),
        (json!({"releases_kept": 10_001}), 400_103),
        (json!({"releases_kept": "some"}), 400_103),
        (json!({"release_kept": 3}), 400_103),
        (json!({"rule_scope": "all"}), 400_103),
        (json!({"password_login": "none"}), 400_103),
        (json!([]), 400_001),
        (json!({}), 200_002),
        (json!({"releases_kept": 100}), 200_002),
    ] {
        api.put(SETTINGS, &change).await.expect_code(code);
    }
    let named = api.put(SETTINGS, &json!({"release_kept": 3})).await;
    assert!(named.body["info"].as_str().is_some_and(|info| info.contains("\"release_kept\"")), "{named}");
    let changed = api.put(SETTINGS, &json!({"releases_kept": 3})).await.expect_code(200_000);
    assert_eq!(changed.body["settings"]["releases_kept"], 3, "as they stand then");
    for id in cluster.ids() {
        assert_eq!(cluster.api(id).get(SETTINGS).await.body["settings"], changed.body["settings"], "node {id}");
    }

    for kind in KINDS {
        let rule = json!([{"name": "kept", "namespace": "prod"}]);
        api.post(&format!("/naming/v1/{kind}"), &rule).await.expect_code(200_000);
    }
    let unpublished = json!({"active": [], "inactive": [], "removed": 0});
    assert_eq!(of_rule(&api, KINDS[0]).await, unpublished);
    for _ in 0..PUBLISHES {
        publish_all(&api).await;
    }
    for id in cluster.ids() {
        expect_left(&cluster.api(id), &left(PUBLISHES, 3)).await;
    }
    let several = api.get("/config/v1/configfiles/releases?namespace=prod").await.expect_code(200_000);
    assert_eq!(several.body["removed_through_version"], Value::Null, "of one file or none: {several}");

    // With a smaller number, excess releases are removed without a further publish.
    api.put(SETTINGS, &json!({"releases_kept": 1})).await.expect_code(200_000);
    let (expected, api) = (&left(PUBLISHES, 1), &api);
    eventually(WORKED_OFF_LIMIT, "what is too much is gone", || async move {
        let mut seen = vec![of_file(api, OF_FILE[0]).await];
        for kind in KINDS {
            seen.push(of_rule(api, kind).await);
        }
        if seen.iter().all(|seen| seen == expected) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    publish_all(api).await;
    cluster.kill(follower).await;
    cluster.restart(follower).await;
    expect_left(&cluster.api(follower), &left(PUBLISHES + 1, 1)).await;
    let pulled = cluster.apollo(follower).config("shop", "prod", "app.yml").await;
    assert_eq!(pulled["releaseKey"], format!("prod-shop-app.yml-{}", PUBLISHES + 1), "{pulled}");
    cluster.expect_equal_state().await;
}

/// The command line shows the settings, changes them, and reports refusals.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_shows_and_changes_settings() {
    let cluster = Cluster::start(1).await;
    let endpoint = format!("http://{}", cluster.ports(1).api);
    let run = |changes: &'static [&'static str]| {
        let mut command = thuban();
        command.args(["cluster", "settings", "--endpoint", &endpoint, "--token", cluster.token()]).args(changes);
        async move {
            let output = command.output().await.expect("the binary can be run");
            let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (output.status.success(), told.concat())
        }
    };
    let (done, told) = run(&[]).await;
    assert!(done && told.contains("releases_kept") && told.contains(" 100\n"), "{told}");
    let (done, told) = run(&["releases_kept=7", "dead_instances_removed_after_s=60"]).await;
    assert!(done && told.contains(" 7\n") && told.contains(" 60\n"), "{told}");
    for (changes, why) in [
        (&["releases_kept=many"][..], "it is a number from 1 to 10000"),
        (&["kept=7"], "is not a setting"),
        (&["releases_kept"], "is not KEY=VALUE"),
    ] {
        let (done, told) = run(changes).await;
        assert!(!done && told.contains(why), "{changes:?}: {told}");
    }
    let shown = cluster.api(1).get(SETTINGS).await.expect_code(200_000);
    let shown = &shown.body["settings"];
    assert_eq!((&shown["releases_kept"], &shown["dead_instances_removed_after_s"]), (&json!(7), &json!(60)));
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_stay_away_are_removed_if_the_settings_say_so() {
    let cluster = Cluster::start(3).await;
    let follower = cluster.followers().await[0];
    let api = &cluster.api(follower);
    let check = json!({"type": 1, "heartbeat": {"ttl": 1}});
    let instance = |host: &str, more: Value| {
        let mut item = json!({"namespace": "fleet", "service": "s", "host": host, "port": 80});
        item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        item
    };
    let items = json!([
        instance("silent", json!({"enableHealthCheck": true, "healthCheck": check})),
        instance("unhealthy-by-hand", json!({"healthy": false})),
        instance("last", json!({"service": "deserted", "enableHealthCheck": true, "healthCheck": check})),
    ]);
    api.post(INSTANCES, &items).await.expect_code(200_000);
    let deserted = json!([{"namespace": "fleet", "name": "deserted"}]);
    api.post("/naming/v1/services/delete", &deserted).await.expect_code(400_204);
    let hosts = || async move {
        let answer = api.get(&format!("{INSTANCES}?namespace=fleet&service=s")).await.expect_code(200_000);
        let rows = answer.body["instances"].as_array().expect("a list").clone();
        rows.iter().map(|row| (row["host"].as_str().expect("a text").to_owned(), row["healthy"] == true)).collect()
    };
    let await_hosts = |what: &'static str, expected: &'static [&'static str]| async move {
        eventually(WORKED_OFF_LIMIT, what, || async move {
            let seen: Vec<(String, bool)> = hosts().await;
            let mut names: Vec<_> = seen.iter().map(|(host, _)| host.as_str()).collect();
            names.sort_unstable();
            let none_is_healthy = seen.iter().all(|(_, healthy)| !healthy);
            if names == expected && none_is_healthy { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    };
    await_hosts("silence is found out, and nobody is removed for it", &["silent", "unhealthy-by-hand"]).await;
    api.put(SETTINGS, &json!({"dead_instances_removed_after_s": 1})).await.expect_code(200_000);
    await_hosts("who stays away is removed", &["unhealthy-by-hand"]).await;
    let deserted = &deserted;
    eventually(WORKED_OFF_LIMIT, "a service is deleted once nobody is left of it", || async move {
        let deleted = api.post("/naming/v1/services/delete", deserted).await;
        if deleted.code() == 200_000 { Ok(()) } else { Err(deleted.to_string()) }
    })
    .await;
    cluster.expect_equal_state().await;
}

/// The nearest word counts; and what has passed under one leader is nothing to the next.
#[tokio::test(flavor = "multi_thread")]
async fn dead_instances_go_when_they_or_their_service_say_so_and_never_early_under_a_new_leader() {
    const OF_SERVICE: Duration = Duration::from_secs(6);
    let mut cluster = Cluster::start(3).await;
    let (leader, follower) = (cluster.leader().await, cluster.followers().await[0]);
    let api = cluster.api(follower);
    let service = json!({"namespace": "fleet", "name": "s", "dead_instances_removed_after_s": OF_SERVICE.as_secs()});
    api.post("/naming/v1/services", &json!([service])).await.expect_code(200_000);
    let instance = |host: &str, more: Value| {
        let mut item = json!({"namespace": "fleet", "service": "s", "host": host, "port": 80,
                              "healthCheck": {"heartbeat": {"ttl": 1}}});
        item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        item
    };
    let items = json!([
        instance("by-its-service", json!({})),
        instance("by-itself", json!({"dead_removed_after_s": 1})),
        instance("never", json!({"dead_removed_after_s": 0})),
    ]);
    api.post(INSTANCES, &items).await.expect_code(200_000);
    api.post(INSTANCES, &instance("x", json!({"dead_removed_after_s": -2}))).await.expect_code(400_103);
    let shown = api.get("/naming/v1/services?namespace=fleet").await.expect_code(200_000);
    assert_eq!(shown.body["services"][0]["dead_instances_removed_after_s"], OF_SERVICE.as_secs(), "{shown}");
    let await_hosts = async |api: &Api, what: &str, expected: &[&str]| {
        eventually(WORKED_OFF_LIMIT, what, || async {
            let answer = api.get(&format!("{INSTANCES}?namespace=fleet&service=s")).await.expect_code(200_000);
            let rows = answer.body["instances"].as_array().expect("a list");
            let mut hosts: Vec<_> = rows.iter().map(|row| row["host"].as_str().expect("a text")).collect();
            hosts.sort_unstable();
            if hosts == expected { Ok(()) } else { Err(answer.to_string()) }
        })
        .await;
    };
    await_hosts(&api, "its own word is the nearest", &["by-its-service", "never"]).await;
    cluster.kill(leader).await;
    let killed = Instant::now();
    cluster.leader().await;
    await_hosts(&api, "the word of the service counts for the rest", &["never"]).await;
    let passed = killed.elapsed();
    assert!(passed >= OF_SERVICE, "removed {passed:?} after the leader that counted before was gone");
}
