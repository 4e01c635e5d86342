//! `/configs` and `/configfiles`: names, fallbacks, formats, 304, 404, and monotonic reads.

use serde_json::json;
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn configs_answers_with_all_five_members() {
    let served = Served::new();
    served.source.publish("default", "application", "k1=v1\nk2 : \\u4e2d");
    let got = served.get("/configs/app/default/application?ip=192.0.2.2").await;
    assert_eq!(got.status, StatusCode::OK);
    assert_eq!(
        got.text(),
        concat!(
            r#"{"appId":"app","cluster":"default","namespaceName":"application","configurations":{"k1":"v1","#,
            r#""k2":"中"},"releaseKey":"default-app-application-1"}"#
        )
    );
    for (name, value) in [
        ("content-type", "application/json;charset=UTF-8"),
        ("content-length", got.body.len().to_string().as_str()),
        ("cache-control", "no-cache, no-store, max-age=0, must-revalidate"),
        ("pragma", "no-cache"),
        ("expires", "0"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
}

/// A repeated key has its first position and its last value.
#[tokio::test(start_paused = true)]
async fn pairs_come_in_the_order_of_the_file() {
    let served = Served::new();
    served.source.publish("default", "application", "zeta=1\nb.2=2\nzeta=3\nalpha=4\n");
    let pairs = r#"{"zeta":"3","b.2":"2","alpha":"4"}"#;
    assert!(served.get("/configs/app/default/application").await.text().contains(pairs));
    assert_eq!(served.get("/configfiles/json/app/default/application").await.text(), pairs);
    assert_eq!(served.get("/configfiles/app/default/application").await.text(), "zeta=3\nb.2=2\nalpha=4\n");
}

#[tokio::test(start_paused = true)]
async fn names_are_echoed_and_found_by_the_rules_of_each_step() {
    let served = Served::new();
    for (namespace, file) in [
        ("default", "application"),
        ("default", "suffixed.properties"),
        ("default", "both"),
        ("default", "both.properties"),
        ("default", "Twin"),
        ("default", "twin"),
        ("default", "dir/deep/a.properties"),
        ("default", "a+b %"),
    ] {
        served.source.publish(namespace, file, &format!("from={file}"));
    }
    let table = [
        ("application", "application", Some("application")),
        ("application.properties", "application.properties", Some("application")),
        ("application.PROPERTIES", "application.PROPERTIES", Some("application")),
        ("APPLICATION", "APPLICATION", Some("application")),
        ("suffixed", "suffixed", Some("suffixed.properties")),
        ("Suffixed.Properties", "Suffixed.Properties", Some("suffixed.properties")),
        ("both", "both", Some("both")),
        ("both.properties", "both.properties", Some("both.properties")),
        ("twin", "twin", Some("twin")),
        ("Twin.properties", "Twin.properties", Some("Twin")),
        ("TWIN", "TWIN", None),
        ("dir/deep/a", "dir/deep/a", Some("dir/deep/a.properties")),
        ("dir%2Fdeep%2Fa.properties", "dir/deep/a.properties", Some("dir/deep/a.properties")),
        ("a+b%20%25", "a+b %", Some("a+b %")),
        ("%61pplication", "application", Some("application")),
        ("application.yml", "application.yml", None),
    ];
    for (asked, echoed, found) in table {
        let got = served.get(&format!("/configs/app/default/{asked}")).await;
        match found {
            Some(file) => {
                let body = got.json();
                assert_eq!(body["namespaceName"], echoed, "{asked}");
                assert_eq!(body["configurations"], json!({"from": file}), "{asked}");
            }
            None => assert_eq!(got.status, StatusCode::NOT_FOUND, "{asked}"),
        }
    }
    // App id and cluster are case-sensitive.
    assert_eq!(served.get("/configs/App/default/application").await.status, StatusCode::NOT_FOUND);
    assert_eq!(served.get("/configs/%61pp/default/application").await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn the_first_place_of_the_chain_that_has_the_file_answers() {
    let served = Served::new();
    for (namespace, file) in [
        ("c1", "everywhere"),
        ("sz", "everywhere"),
        ("default", "everywhere"),
        ("sz", "not-in-c1"),
        ("default", "not-in-c1"),
        ("default", "only-default"),
        ("default", "exact-later"),
        ("c1", "EXACT-LATER"),
    ] {
        served.source.publish(namespace, file, "");
    }
    let table = [
        ("c1/everywhere", Some("c1")),
        ("c1/everywhere?dataCenter=sz", Some("c1")),
        ("c2/everywhere?dataCenter=sz", Some("sz")),
        ("sz/everywhere?dataCenter=sz", Some("sz")),
        ("default/everywhere?dataCenter=sz", Some("sz")),
        ("default/everywhere?dataCenter=", Some("default")),
        ("c2/everywhere?dataCenter=default", Some("default")),
        ("c1/not-in-c1", Some("default")),
        ("c1/not-in-c1?dataCenter=sz", Some("sz")),
        ("c1/only-default?dataCenter=sz", Some("default")),
        // All spellings are tried in one place before the next place.
        ("c1/exact-later", Some("c1")),
        ("C1/everywhere", Some("default")),
        ("c1/nowhere?dataCenter=sz", None),
    ];
    for (asked, cluster) in table {
        let got = served.get(&format!("/configs/app/{asked}")).await;
        match cluster {
            Some(cluster) => assert_eq!(got.json()["cluster"], cluster, "{asked}"),
            None => assert_eq!(got.status, StatusCode::NOT_FOUND, "{asked}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_released_is_404_with_a_body_on_configs_only() {
    let served = Served::new();
    served.source.publish("default", "gone", "a=1");
    served.source.delete("default", "gone");
    for file in
        ["app/default/gone", "app/c1/never", "unknown/default/application", "ApolloNoAppIdPlaceHolder/default/x"]
    {
        let got = served.get(&format!("/configs/{file}?ip=1")).await;
        assert_eq!(got.status, StatusCode::NOT_FOUND, "{file}");
        let body = got.json();
        assert_eq!(members(&body), ["error", "message", "path", "status", "timestamp"], "{file}");
        assert_eq!(body["path"], format!("/configs/{file}"));
        assert_eq!((&body["status"], &body["error"]), (&json!(404), &json!("Not Found")));
        for form in ["configfiles", "configfiles/json", "configfiles/raw"] {
            let got = served.get(&format!("/{form}/{file}")).await;
            assert_eq!((got.status, got.body.len()), (StatusCode::NOT_FOUND, 0), "{form}/{file}");
        }
    }
    assert_eq!(served.get("/configs/a%20b/default/application").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(served.get("/configs/app/default/%ff").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_current_release_key_is_answered_with_304() {
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    served.source.publish("default", "application", "a=2");
    served.source.publish("default", "other", "a=1");
    let long = "x".repeat(2000);
    let table = [
        ("", StatusCode::OK),
        ("?releaseKey=", StatusCode::OK),
        ("?releaseKey=-1", StatusCode::OK),
        ("?releaseKey=undefined", StatusCode::OK),
        ("?releaseKey=default-app-application-1", StatusCode::OK),
        ("?releaseKey=default-app-application-2", StatusCode::NOT_MODIFIED),
        ("?&&releaseKey=default%2Dapp-application-2&ip=", StatusCode::NOT_MODIFIED),
        ("?releaseKey=default-app-other-1", StatusCode::OK),
        ("?releaseKey=DEFAULT-app-application-2", StatusCode::OK),
        ("?releaseKey=20220604162445-090bb751775f383a", StatusCode::OK),
        (&format!("?releaseKey={long}"), StatusCode::OK),
    ];
    for (query, status) in table {
        for path in ["/configs", "/configfiles/json"] {
            let got = served.get(&format!("{path}/app/c1/application{query}")).await;
            assert_eq!(got.status, status, "{path} {query}");
            if status == StatusCode::NOT_MODIFIED {
                assert!(got.body.is_empty() && got.header("content-type").is_none(), "{path} {query}");
                assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
            }
        }
        // The other forms never answer 304.
        assert_eq!(served.get(&format!("/configfiles/app/c1/application{query}")).await.status, StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_gives_old_pairs_under_a_new_key() {
    let served = Served::new();
    let mut keys = Vec::new();
    for content in ["a=1", "a=2", "a=1"] {
        served.source.publish("default", "application", content);
        keys.push(served.get("/configs/app/default/application").await.json()["releaseKey"].clone());
    }
    assert_eq!(keys, ["default-app-application-1", "default-app-application-2", "default-app-application-3"]);
    let target = "/configs/app/default/application?releaseKey=default-app-application-1";
    assert_eq!(served.get(target).await.json()["configurations"], json!({"a": "1"}));
}

#[tokio::test(start_paused = true)]
async fn gray_releases_are_for_those_who_match() {
    let served = Served::new();
    served.source.publish("default", "by-label", "who=all");
    served.source.publish_gray("by-label", "who=gray", ("zone", "eu"));
    served.source.publish("default", "by-address", "who=all");
    served.source.publish_gray("by-address", "who=gray", ("CLIENT_IP", "198.51.100.7"));
    let forwarded = [("x-forwarded-for", "10.0.0.1, 198.51.100.7")];
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let table: &[(&str, Headers<'_>, &str)] = &[
        ("by-label", &[], "all"),
        ("by-label?label=zone=eu", &[], "gray"),
        ("by-label?label=a%3Db,zone%3Deu", &[], "gray"),
        ("by-label?label=eu", &[], "all"),
        ("by-address", &[], "all"),
        ("by-address", &forwarded, "gray"),
        ("by-address?ip=", &forwarded, "gray"),
        ("by-address?ip=198.51.100.7", &[], "gray"),
        ("by-address?ip=198.51.100.8", &forwarded, "all"),
    ];
    for (asked, headers, who) in table {
        // A client of the gray release between others: cached renderings are not mixed up.
        for form in ["configfiles/json", "configfiles/raw"] {
            let got = served.get_with(&format!("/{form}/app/default/{asked}"), headers).await;
            assert!(got.text().contains(who), "{form} {asked}: {}", got.text());
        }
    }
    let key = |got: Got| got.json()["releaseKey"].as_str().expect("a key").to_owned();
    let gray = key(served.get("/configs/app/default/by-label?label=zone=eu").await);
    served.source.stop_gray("by-label");
    let target = format!("/configs/app/default/by-label?label=zone=eu&releaseKey={gray}");
    let normal = served.get(&target).await;
    assert_eq!(normal.json()["configurations"], json!({"who": "all"}));
    assert_ne!(key(normal), gray);
}

#[tokio::test(start_paused = true)]
async fn files_come_in_the_form_that_is_asked_for() {
    let served = Served::new();
    let yaml = "\u{feff}a: 1\r\nb: \"😀\"\r\n";
    for (file, content) in [
        ("p", "b=2\na\\ x=:1\n"),
        ("empty", "# nothing\n"),
        ("d.yml", yaml),
        ("e.yaml", ""),
        ("j.json", "{}"),
        ("x.xml", "<a/>"),
        ("t.txt", " t\n"),
    ] {
        served.source.publish("default", file, content);
    }
    let (plain, json) = ("text/plain;charset=UTF-8", "application/json;charset=UTF-8");
    let (yaml_type, xml) = ("application/yaml;charset=UTF-8", "application/xml;charset=UTF-8");
    let table = [
        ("app/default/p", plain, "b=2\na\\ x=\\:1\n"),
        ("app/default/empty", plain, ""),
        ("app/default/d.yml", plain, "content=\u{feff}a\\: 1\\r\\nb\\: \"😀\"\\r\\n\n"),
        ("json/app/default/p", json, r#"{"b":"2","a x":":1"}"#),
        ("json/app/default/empty", json, "{}"),
        ("json/app/default/d.yml", json, "{\"content\":\"\u{feff}a: 1\\r\\nb: \\\"😀\\\"\\r\\n\"}"),
        ("json/app/default/e.yaml", json, r#"{"content":""}"#),
        ("raw/app/default/p", plain, "b=2\na\\ x=\\:1\n"),
        ("raw/app/default/d.yml", yaml_type, yaml),
        ("raw/app/default/e.yaml", yaml_type, ""),
        ("raw/app/default/j.json", json, "{}"),
        ("raw/app/default/x.xml", xml, "<a/>"),
        ("raw/app/default/t.txt", plain, " t\n"),
    ];
    for (asked, content_type, body) in table {
        let got = served.get(&format!("/configfiles/{asked}")).await;
        assert_eq!((got.status, got.text()), (StatusCode::OK, body), "{asked}");
        assert_eq!(got.header("content-type"), Some(content_type), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_publish_is_read_at_once_in_every_form() {
    let served = Served::new();
    for value in ["1", "2", "3"] {
        served.source.publish("default", "application", &format!("v={value}"));
        for form in ["configs", "configfiles", "configfiles/json", "configfiles/raw"] {
            let got = served.get(&format!("/{form}/app/default/application")).await;
            let (pair, line) = (format!(r#""v":"{value}""#), format!("v={value}\n"));
            assert!(got.text().contains(&pair) || got.text() == line, "{form}: {}", got.text());
        }
    }
}

/// Pulls by every name and in every form, twice, because only some renderings are cached.
#[tokio::test(start_paused = true)]
async fn what_is_kept_of_renderings_shows_in_no_answer() {
    let bodies = async |room: u64| {
        let served = Served::with(Hub::new(100_000), |settings| settings.render_cache_bytes = room);
        served.source.0.has_key.store(true, Ordering::Relaxed);
        served.source.publish("default", "plain", "b=2\na=1");
        served.source.publish("default", "Suffixed.properties", "k=v");
        served.source.publish("default", "d.yml", "a: 1\n");
        served.source.publish("default", "damaged", "b=\\u12");
        served.source.publish_sealed("sealed", "k=secret");
        let mut bodies = Vec::new();
        for version in 1..=2 {
            for name in
                ["plain", "plain.properties", "PLAIN", "Suffixed", "suffixed.PROPERTIES", "d.yml", "damaged", "sealed"]
            {
                for form in ["configs", "configfiles", "configfiles/json", "configfiles/raw"] {
                    for _ in 0..2 {
                        let got = served.get(&format!("/{form}/app/default/{name}")).await;
                        let body = if got.status == StatusCode::OK { got.body } else { Bytes::new() };
                        bodies.push((version, name, form, got.status, body));
                    }
                }
            }
            served.source.publish("default", "plain", "c=3");
        }
        (bodies, served.metrics.render_cache_hits.get())
    };
    let (without, none) = bodies(0).await;
    let (with, hits) = bodies(1024 * 1024).await;
    assert_eq!(without, with);
    assert!(none == 0 && hits > 0, "{hits}");
}

#[tokio::test(start_paused = true)]
async fn an_app_may_be_called_json() {
    let served = Served::new();
    served.source.publish("default", "default/x", "a=1");
    // Three segments: app `json`, which does not exist; four: the JSON form of app `app`.
    assert_eq!(served.get("/configfiles/json/default/x").await.status, StatusCode::NOT_FOUND);
    assert_eq!(served.get("/configfiles/json/app/default/default/x").await.text(), r#"{"a":"1"}"#);
    assert_eq!(served.get("/configfiles/raw/app/default/default%2Fx").await.text(), "a=1\n");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_file_is_an_error_and_not_an_empty_configuration() {
    let served = Served::new();
    served.source.publish("default", "application", "a=1\nb=\\u12");
    let got = served.get("/configs/app/default/application").await;
    assert_eq!(got.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(got.text().contains("line 2"), "{}", got.text());
    for form in ["configfiles", "configfiles/json", "configfiles/raw"] {
        let got = served.get(&format!("/{form}/app/default/application")).await;
        assert_eq!((got.status, got.body.len()), (StatusCode::INTERNAL_SERVER_ERROR, 0), "{form}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_files_come_whole() {
    let served = Served::new();
    let pairs: String = (0..2000).map(|n| format!("key.{n}=value {n}\n")).collect();
    served.source.publish("default", "pairs", &pairs);
    let body = served.get("/configs/app/default/pairs").await.json();
    assert_eq!(body["configurations"].as_object().map(|pairs| pairs.len()), Some(2000));
    let value = "é".repeat(500_000);
    served.source.publish("default", "value", &format!("v={value}"));
    assert_eq!(served.get("/configs/app/default/value").await.json()["configurations"]["v"], value);
}

/// Returns the parameter `messages` with one id.
fn messages(id: u64) -> String {
    format!("messages=%7B%22details%22%3A%7B%22app%2Bdefault%2Bapplication%22%3A{id}%7D%7D")
}

#[tokio::test(start_paused = true)]
async fn what_the_client_knows_of_is_waited_for() {
    for query in [messages(2), "releaseKey=default-app-application-2".to_owned()] {
        let served = Arc::new(Served::new());
        served.source.publish("default", "application", "a=1");
        let target = format!("/configs/app/default/application?{query}");
        let (asking, asked) = (served.clone(), Instant::now());
        let pull = tokio::spawn(async move { asking.get(&target).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!pull.is_finished(), "{query}");
        served.source.publish("default", "application", "a=2");
        let got = pull.await.expect("the pull ends");
        assert_eq!(asked.elapsed(), Duration::from_millis(300), "{query}");
        match query.starts_with("messages") {
            true => assert_eq!(got.json()["configurations"], json!({"a": "2"})),
            false => assert_eq!(got.status, StatusCode::NOT_MODIFIED),
        }
        assert_eq!(served.metrics.pulls_behind.get(), 0);
        assert_eq!(served.source.hub().waiters(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_older_is_answered_when_the_wait_is_over() {
    for query in [messages(9), "releaseKey=default-app-application-9".to_owned()] {
        let served = Served::new();
        served.source.publish("default", "application", "a=1");
        for (behind, form) in (1..).zip(["configs", "configfiles", "configfiles/json", "configfiles/raw"]) {
            let asked = Instant::now();
            let got = served.get(&format!("/{form}/app/default/application?{query}")).await;
            assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE, "{form} {query}");
            assert!(asked.elapsed().abs_diff(CATCH_UP_LIMIT) < Duration::from_millis(10), "{form} {query}");
            assert_eq!(served.metrics.pulls_behind.get(), behind);
        }
    }
    // Both waits run concurrently.
    let served = Served::new();
    let asked = Instant::now();
    let query = format!("{}&releaseKey=default-app-application-9", messages(9));
    let got = served.get(&format!("/configs/app/default/application?{query}")).await;
    assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(asked.elapsed().abs_diff(CATCH_UP_LIMIT) < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_newer_or_no_sense_is_not_waited_for() {
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    served.source.publish("default", "application", "a=2");
    let asked = Instant::now();
    for query in [
        messages(2),
        messages(1),
        messages(u64::MAX),
        "messages=garbage".to_owned(),
        "messages=".to_owned(),
        "releaseKey=default-app-application-1".to_owned(),
        "releaseKey=default-app-other-9".to_owned(),
        "releaseKey=elsewhere-app-application-9".to_owned(),
    ] {
        let got = served.get(&format!("/configs/app/default/application?{query}")).await;
        assert_eq!(got.json()["configurations"], json!({"a": "2"}), "{query}");
    }
    assert_eq!(asked.elapsed(), Duration::ZERO);
}
