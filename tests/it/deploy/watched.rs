//! The board and the alert rules on a cluster at work: every series and label that they name is there, a real
//! Prometheus gets a result for every query, and no alert fires where nothing is wrong.

use std::time::Duration;

use serde_json::{Value, json};

use super::board::{queries, shown_by};
use super::file;
use super::prometheus::{Prometheus, promtool};
use super::queries::Used;
use super::scrape::Scrape;
use crate::harness::{Cluster, Pki, Receiver, eventually};

/// Rates need two scrapes.
const RESULTS_LIMIT: Duration = Duration::from_secs(40);
/// Suffixes, before `_total`, of series that count failures.
const WRONG: [&str; 10] =
    ["alarm", "failing", "failed", "failures", "refused", "unreadable", "diverged", "dropped", "turned_away", "behind"];
/// Such series are alerted on by one of their events alone.
const WRONG_EVENTS: [(&str, &str); 2] = [("thuban_snapshots_total", "failed"), ("thuban_backups_total", "failed")];

/// A write, a release, clients that have it, an instance, a webhook, and what is refused: so that each series
/// that begins with its first event has begun.
async fn work(cluster: &Cluster) -> (Receiver, tokio::task::JoinHandle<()>) {
    let leader = cluster.leader().await;
    let api = cluster.api(leader);
    api.publish("default", "app", "application", "greeting=hello").await;
    let rule = json!([{"namespace": "default", "name": "limit",
        "rules": [{"amounts": [{"maxAmount": 5, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let release = json!([{"rule_name": "limit", "release_name": "first"}]);
    api.post("/naming/v1/ratelimits/releases", &release).await.expect_code(200_000);
    let receiver = Receiver::start().await;
    let hook = json!([{"name": "watched", "url": receiver.url, "allow_private": true}]);
    api.post("/admin/v1/webhooks", &hook).await.expect_code(200_000);
    let key = json!([{"app_id": "app", "name": "one", "mode": "observe"}]);
    api.post("/auth/v1/accesskeys", &key).await.expect_code(200_000);
    let apollo = cluster.apollo(leader);
    apollo.config("app", "default", "application").await;
    // An answered poll has a separate series, and a held one is open during the check.
    apollo.poll("app", "default", &[("application", -1)]).await.expect("the poll is answered");
    let id = apollo.current_id("app", "default", "application").await;
    let polling =
        tokio::spawn(async move { while apollo.poll("app", "default", &[("application", id)]).await.is_ok() {} });
    (receiver, polling)
}

/// Replaces the variables that Grafana fills into a query.
fn filled_in(query: &str) -> String {
    query.replace("$__rate_interval", "4s").replace("$job", "thuban").replace("$instance", ".*")
}

async fn expect_results(prometheus: &Prometheus) {
    for query in queries() {
        let text = filled_in(&query.text);
        let what = format!("{}: a result for {text}", query.panel);
        let results = eventually(RESULTS_LIMIT, &what, || async {
            let results = prometheus.results(&text).await?;
            if results.is_empty() { Err("none".to_owned()) } else { Ok(results) }
        });
        for result in results.await {
            let lacking: Vec<_> = query.shown.iter().filter(|label| result[label.as_str()].is_null()).collect();
            assert!(lacking.is_empty(), "{}: {lacking:?} of its legend is not in {result}", query.panel);
        }
    }
}

fn expect_named(rules: &[Value], scrape: &Scrape) {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let of_rules = rules.iter().map(|rule| {
        let told: String = rule["annotations"].as_object().expect("annotations").values().map(text).collect();
        (text(&rule["name"]), text(&rule["query"]), shown_by(&told, "$labels."))
    });
    let of_board = queries().into_iter().map(|query| (query.panel, filled_in(&query.text), query.shown));
    let mut missing = Vec::new();
    for (place, query, shown) in of_rules.chain(of_board) {
        let lacking = Used::by(&query).missing_in(scrape, &shown);
        missing.extend(lacking.into_iter().map(|what| format!("{place}: {what}")));
    }
    assert!(missing.is_empty(), "no node has:\n{}", missing.join("\n"));
}

fn expect_alerted_on(rules: &[Value], scrape: &Scrape) {
    let queries: Vec<&str> = rules.iter().filter_map(|rule| rule["query"].as_str()).collect();
    let is_wrong = |series: &&str| {
        let name = series.strip_suffix("_total").unwrap_or(series);
        series.starts_with("thuban_") && WRONG.iter().any(|end| name.ends_with(&format!("_{end}")))
    };
    let named = ["thuban_raft_has_leader", "thuban_peer_reachable"];
    let alarms: Vec<&str> = scrape.series().filter(is_wrong).chain(named).collect();
    assert!(alarms.len() > 12, "{alarms:?}");
    let is_used = |series: &str| queries.iter().any(|query| Used::by(query).names(series));
    let silent: Vec<_> = alarms.iter().filter(|series| !is_used(series)).collect();
    assert!(silent.is_empty(), "nobody is told of {silent:?}");
    for (series, event) in WRONG_EVENTS {
        let wanted = format!("{series}{{event=\"{event}\"}}");
        assert!(scrape.lines.contains(&wanted), "no node has {wanted}");
        assert!(queries.iter().any(|query| query.contains(&wanted)), "nobody is told of {wanted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_board_and_alerts_is_of_what_nodes_show() {
    // A file of certificates has a series where there is one.
    let pki = Pki::new().await;
    let options = ["--long-poll-timeout-ms", "2000", "--webhook-ca-file", &pki.path("ca.pem")];
    let cluster = Cluster::start_with_data_key(3, &options).await;
    let prometheus = Prometheus::beside(&cluster, "1s").await;
    let (_receiver, polling) = work(&cluster).await;
    let rules = eventually(RESULTS_LIMIT, "every rule is evaluated", || async {
        let rules = prometheus.rules().await?;
        let waiting = rules.iter().find(|rule| rule["health"] != "ok");
        match waiting {
            None if !rules.is_empty() => Ok(rules),
            other => Err(format!("{other:?}")),
        }
    });
    let rules = rules.await;
    expect_results(&prometheus).await;
    let scrape = Scrape::of(&cluster).await;
    expect_named(&rules, &scrape);
    expect_alerted_on(&rules, &scrape);
    let firing = prometheus.results(r#"ALERTS{alertstate="firing"}"#).await.expect("an answer");
    assert!(firing.is_empty(), "nothing is wrong, and yet: {firing:?}");
    polling.abort();
}

#[tokio::test]
async fn the_files_for_prometheus_are_sound_and_the_alerts_fire() {
    let folder = file("cluster");
    promtool(&folder, &["check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"]).await;
    // The certificates are in the containers alone.
    promtool(&folder, &["check", "config", "--syntax-only", "prometheus.yml"]).await;
    promtool(&folder, &["test", "rules", "alerts-test.yml"]).await;
}
