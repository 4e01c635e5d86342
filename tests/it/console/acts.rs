//! Acts and loads of the main jobs at a rule, counted in a browser with scripts and in one without.

use reqwest::StatusCode;
use serde_json::json;

use super::day::Day;
use super::visit::Visit;
use crate::harness::{ADMIN_PASSWORD, Cluster, report};

/// One header condition takes at most 6 acts, and no page is loaded before it is saved; a new route 8, a canary 4. The
/// same condition is added without scripts. No tab is wider than a phone, in either language.
#[tokio::test(flavor = "multi_thread")]
async fn a_condition_takes_few_acts_and_no_reload() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let of_version = |host: &str, version: &str| {
        let metadata = json!({ "version": version });
        json!({ "namespace": "shop", "service": "pay", "host": host, "port": 1, "metadata": metadata })
    };
    let instances = json!([of_version("10.8.0.1", "1"), of_version("10.8.0.2", "2")]);
    api.post("/naming/v1/instances", &instances).await.expect_code(200_000);
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    api.post("/naming/v1/ratelimits/releases", &json!([{"rule_id": "limit"}])).await.expect_code(200_000);
    api.publish("default", "app", "application.properties", "v=1").await;
    let url = format!("http://{}", cluster.ports(1).api);
    let mut day = Day::start("acts.py", &[&url, ADMIN_PASSWORD]).await;
    for job in [
        "one condition, with scripts",
        "a new route",
        "release to some",
        "promote to all",
        "an edit outlives an act",
        "one condition, without",
    ] {
        let line = day.line().await;
        assert!(line.starts_with(job), "{line}");
        report(line);
    }
    day.comes_to("done").await;
    day.ends().await;
}

/// A part of a form, which scripts ask for, is a form like any other: only its visitor gets it, and it changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_form_needs_its_token_and_changes_nothing() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let instance = json!([{ "namespace": "shop", "service": "pay", "host": "10.8.0.1", "port": 1,
        "metadata": { "version": "<b>" } }]);
    api.post("/naming/v1/instances", &instance).await.expect_code(200_000);
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let token = visit.form_token().await;
    let route = [
        ("/name", "beta"),
        ("/namespace", "shop"),
        ("/route_policy", "RulePolicy"),
        ("/routing_config/callee", ""),
        ("/routing_config/callee/service", "pay"),
        ("/routing_config/rules", ""),
        ("/routing_config/rules/0", ""),
        ("/routing_config/rules/0/arguments/random_percent", "100"),
    ];
    let path = "/ui/rules/routings/new";
    let ask = async |token: &str, edit: &str, part: &str| {
        let more = [("form_token", token), ("edit", edit), ("part", part)];
        let answer = visit.post(path, &[&route[..], &more].concat()).await;
        (answer.status(), answer.text().await.expect("text"))
    };
    for token in ["", "another"] {
        for part in ["form", "preview", ""] {
            assert_eq!(ask(token, "preview", part).await.0, StatusCode::FORBIDDEN, "{token:?} {part}");
        }
    }
    let (status, preview) = ask(&token, "preview", "preview").await;
    assert_eq!(status, StatusCode::OK);
    assert!(preview.starts_with("<div id=\"preview\"") && preview.contains("Calls to shop/pay"), "{preview}");
    let offered =
        ["<option value=\"pay\">1 instances", "<option value=\"version\">1 instances", "value=\"&#60;b&#62;\""];
    for words in offered {
        assert!(preview.contains(words) && !preview.contains("<b>"), "no {words} in {preview}");
    }
    let list = "add:/routing_config/rules/0/arguments/arguments";
    let (status, form) = ask(&token, list, "form").await;
    assert!(status == StatusCode::OK && form.starts_with("<div id=\"sheet\""), "{form}");
    let condition = "/routing_config/rules/0/arguments/arguments/0";
    assert!(form.contains(&format!("name=\"{condition}/key\"")), "{form}");
    // Without a script the same button leads to the whole page, with what was typed.
    let (status, page) = ask(&token, list, "").await;
    assert!(status == StatusCode::OK && page.contains("<!doctype html>") && page.contains(condition), "{page}");
    assert!(page.contains("name=\"/name\" value=\"beta\""), "{page}");
    assert_eq!(api.get("/naming/v1/routings").await.amount(), 0);
}
