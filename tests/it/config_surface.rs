//! The Apollo surface over real HTTP: lookup, forms of the text, freshness, discovery, tokens.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Apollo, Cluster, eventually, report};

async fn json_of(apollo: &Apollo, path: &str) -> Value {
    let pulled = apollo.get(path).await;
    assert_eq!(pulled.status, 200, "{path}: {pulled:?}");
    serde_json::from_str(&pulled.text).unwrap_or_else(|_| panic!("{path}: {pulled:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_place_that_has_the_file_answers() {
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    for (place, files) in [("default", ["all", "two", "one"].as_slice()), ("east", &["all", "two"]), ("blue", &["all"])]
    {
        for file in files {
            api.publish(place, "app", file, &format!("from={place}")).await;
        }
    }
    api.publish("default", "app", "stored.properties", "k=suffix").await;
    api.publish("default", "app", "plain.yaml", "k: 1\r\n").await;
    cluster.expect_equal_state().await;
    let cases = [
        ("/configs/app/blue/all?dataCenter=east", json!({"from": "blue"})),
        ("/configs/app/blue/two?dataCenter=east", json!({"from": "east"})),
        ("/configs/app/blue/one?dataCenter=east", json!({"from": "default"})),
        ("/configs/app/blue/two?dataCenter=", json!({"from": "default"})),
        ("/configs/app/default/all?dataCenter=east", json!({"from": "east"})),
        ("/configs/app/default/all", json!({"from": "default"})),
        ("/configs/app/default/stored", json!({"k": "suffix"})),
        ("/configs/app/default/stored.properties", json!({"k": "suffix"})),
        ("/configs/app/default/one.properties", json!({"from": "default"})),
        ("/configs/app/default/ONE", json!({"from": "default"})),
        ("/configs/app/default/plain.yaml", json!({"content": "k: 1\r\n"})),
    ];
    for id in cluster.ids() {
        for (path, expected) in &cases {
            assert_eq!(&json_of(&cluster.apollo(id), path).await["configurations"], expected, "node {id}, {path}");
        }
    }
    let whole = json_of(&cluster.apollo(2), "/configs/app/blue/two?dataCenter=east").await;
    assert_eq!((&whole["appId"], &whole["namespaceName"]), (&json!("app"), &json!("two")), "{whole}");
    assert_eq!(whole["releaseKey"], "east-app-two-1", "{whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_current_release_key_is_answered_with_304() {
    let cluster = Cluster::start(1).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    api.publish("default", "app", "application", "v=1").await;
    for surface in ["/configs", "/configfiles/json"] {
        let path = format!("{surface}/app/default/application");
        let key =
            apollo.config("app", "default", "application").await["releaseKey"].as_str().expect("a key").to_owned();
        let unchanged = apollo.get(&format!("{path}?releaseKey={key}")).await;
        assert_eq!((unchanged.status, unchanged.text.as_str()), (304, ""), "{path}");
        for none in ["", "-1", "undefined", "default-app-application-99x"] {
            assert_eq!(apollo.get(&format!("{path}?releaseKey={none}")).await.status, 200, "{path} with {none:?}");
        }
        api.publish("default", "app", "application", &format!("v={surface}")).await;
        assert_eq!(apollo.get(&format!("{path}?releaseKey={key}")).await.status, 200, "{path}");
    }
}

/// As Apollo's server has them, and what balancers in front of it ask for.
#[tokio::test(flavor = "multi_thread")]
async fn paths_with_a_slash_behind_them_and_health_are_served() {
    let mut cluster = Cluster::start(3).await;
    let apollo = cluster.apollo(2);
    cluster.api(1).publish("default", "app", "application.properties", "zeta=1\nb.2=2\nalpha=3\n").await;
    cluster.expect_equal_state().await;
    let pulled = apollo.get("/configs/app/default/application/").await;
    assert!(pulled.text.contains(r#""configurations":{"zeta":"1","b.2":"2","alpha":"3"}"#), "{pulled:?}");
    assert_eq!(apollo.get("//configfiles/json/app/default/application//").await.status, 200);
    assert_eq!(json_of(&apollo, "/services/config/").await.as_array().map(Vec::len), Some(3));
    let held = r#"/notifications/v2/?appId=app&cluster=&notifications=[{"namespaceName":"application"}]"#;
    assert_eq!(json_of(&apollo, held).await[0]["notificationId"], 1);
    for path in ["/health", "/health/"] {
        let up = apollo.get(path).await;
        assert_eq!((up.status, up.text.as_str()), (200, r#"{"status":"UP"}"#), "{path}");
    }
    cluster.kill(1).await;
    cluster.kill(3).await;
    eventually(Duration::from_secs(20), "a node without a majority is down", || async {
        let down = apollo.get("/health").await;
        if (down.status, down.text.as_str()) == (503, r#"{"status":"DOWN"}"#) {
            Ok(())
        } else {
            Err(format!("{down:?}"))
        }
    })
    .await;
    assert_eq!(apollo.get("/configs/app/default/application").await.status, 200, "it serves what it has");
}

/// Java's rules in both directions: what is read from a stored file, and how it is written again.
#[tokio::test(flavor = "multi_thread")]
async fn properties_are_read_and_written_by_javas_rules() {
    let cluster = Cluster::start(1).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    let stored =
        "# note\nsp\\ ace=a b\nkey : \\  x  y \nurl=c:\\\\dir\nlong=one\\\n   two\nletter=\\u00e9\nbang=!#=:\nempty=\n";
    api.publish("default", "app", "p.properties", stored).await;
    let read = json_of(&apollo, "/configfiles/json/app/default/p").await;
    let expected = json!({"sp ace": "a b", "key": "  x  y ", "url": "c:\\dir", "long": "onetwo", "letter": "é",
        "bang": "!#=:", "empty": ""});
    assert_eq!(read, expected);
    let pulled = apollo.get("/configfiles/app/default/p").await;
    assert_eq!(pulled.headers["content-type"], "text/plain;charset=UTF-8");
    let mut lines: Vec<&str> = pulled.text.lines().collect();
    lines.sort_unstable();
    let mut written =
        ["sp\\ ace=a b", "key=\\  x  y ", "url=c\\:\\\\dir", "long=onetwo", "letter=é", "bang=\\!\\#\\=\\:", "empty="];
    written.sort_unstable();
    assert_eq!(lines, written);

    api.publish("default", "app", "t.txt", "{\"a\":1}\nline # 2 = x").await;
    let text = apollo.get("/configfiles/app/default/t.txt").await.text;
    assert_eq!(text.trim_end_matches('\n'), "content={\"a\"\\:1}\\nline \\# 2 \\= x");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_404_and_what_is_malformed_400() {
    let cluster = Cluster::start(1).await;
    let apollo = cluster.apollo(1);
    let missing = apollo.get("/configs/app/default/none").await;
    let body: Value = serde_json::from_str(&missing.text).expect("the 404 of /configs is JSON");
    assert_eq!((missing.status, &body["status"]), (404, &json!(404)), "{missing:?}");
    for surface in ["/configfiles", "/configfiles/json"] {
        let missing = apollo.get(&format!("{surface}/app/default/none")).await;
        assert_eq!((missing.status, missing.text.as_str()), (404, ""), "{surface}");
    }
    let many: Vec<Value> = (0..201).map(|n| json!({"namespaceName": format!("n{n}"), "notificationId": -1})).collect();
    let many = format!("appId=a&cluster=default&notifications={}", Value::Array(many));
    let queries = [
        "appId=a&cluster=default",
        "appId=a&notifications=[]",
        "cluster=default&notifications=[{\"namespaceName\":\"n\",\"notificationId\":-1}]",
        "appId=a&cluster=default&notifications=[]",
        "appId=a&cluster=default&notifications={}",
        "appId=a&cluster=default&notifications=null",
        "appId=a&cluster=default&notifications=[",
        "appId=a&cluster=default&notifications=[{\"notificationId\":1}]",
        many.as_str(),
    ];
    for query in queries {
        assert_eq!(apollo.get(&format!("/notifications/v2?{query}")).await.status, 400, "{query}");
    }
}

/// Identical polls that would all be answered without a wait do not become a loop.
#[tokio::test(flavor = "multi_thread")]
async fn repeats_of_one_poll_are_slowed() {
    let cluster = Cluster::start(1).await;
    cluster.api(1).publish("default", "app", "application", "v=1").await;
    let apollo = cluster.apollo(1);
    let started = Instant::now();
    for _ in 0..3 {
        let polled = apollo.poll("app", "default", &[("application", -1)]).await.expect("the poll is answered");
        assert_eq!(polled.status, 200, "{polled:?}");
    }
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(1_900), "three repeats took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_lists_the_live_nodes() {
    let mut cluster = Cluster::start(3).await;
    let homes = |list: &Value| {
        let list = list.as_array().expect("an array").iter();
        let mut homes: Vec<String> =
            list.map(|entry| entry["homepageUrl"].as_str().expect("an address").trim_end_matches('/').into()).collect();
        homes.sort();
        homes
    };
    let expected = |ids: &[u64]| {
        let mut homes: Vec<String> = ids.iter().map(|id| format!("http://{}", cluster.ports(*id).compat)).collect();
        homes.sort();
        homes
    };
    let (all, rest) = (expected(&[1, 2, 3]), expected(&[1, 2]));
    for id in cluster.ids() {
        let apollo = cluster.apollo(id);
        eventually(Duration::from_secs(10), "discovery lists all three", || async {
            let list = json_of(&apollo, "/services/config?appId=app&ip=127.0.0.1").await;
            if homes(&list) == all { Ok(()) } else { Err(list.to_string()) }
        })
        .await;
    }
    cluster.kill(3).await;
    let killed = Instant::now();
    for id in [1, 2] {
        let apollo = cluster.apollo(id);
        eventually(Duration::from_secs(10), "discovery drops the dead node within 10 s", || async {
            let list = json_of(&apollo, "/services/config").await;
            if homes(&list) == rest { Ok(()) } else { Err(list.to_string()) }
        })
        .await;
    }
    report(format!("a killed node left /services/config of the others after {:?}", killed.elapsed()));
    let entry = &json_of(&cluster.apollo(1), "/services/config").await[0];
    assert!(entry["appName"].is_string() && entry["instanceId"].is_string(), "{entry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_optional_unless_required() {
    let path = "/configs/app/default/application";
    for (mode, anonymous) in [("optional", 200), ("required", 401)] {
        let cluster = Cluster::start_with(1, &["--compat-auth", mode]).await;
        cluster.api(1).publish("default", "app", "application", "v=1").await;
        let apollo = cluster.apollo(1);
        let cases = [
            ("anonymous", None, anonymous),
            ("empty", Some(""), anonymous),
            ("a token", Some(cluster.token()), 200),
            ("a bad token", Some("not a token"), 401),
        ];
        for (title, authorization, status) in cases {
            assert_eq!(apollo.get_as(path, authorization).await.status, status, "{mode}, {title}");
        }
        assert_eq!(apollo.get("/services/config").await.status, 200, "{mode}: discovery is open");
        assert_eq!(apollo.get("/readyz").await.status, 200, "{mode}: health is open");
        if mode == "optional" {
            assert_eq!(apollo.get_as(path, Some("Apollo app:c2ln")).await.status, 200, "a signature without a key");
        }
    }
}
