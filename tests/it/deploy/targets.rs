//! A real Prometheus that scrapes the instances which are registered in a cluster.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::prometheus::{Prometheus, promtool};
use super::text;
use crate::harness::{Cluster, eventually};

const LIMIT: Duration = Duration::from_secs(30);
const URL: &str = "https://haproxy:8090/";
const TOKEN_FILE: &str = "/etc/prometheus/targets-token";

/// The job for registered services of cluster/prometheus.yml, which is commented out there.
fn job() -> String {
    let text = text("cluster/prometheus.yml");
    let (_, job) = text.split_once("  # - job_name: services\n").expect("the job");
    let lines = job.lines().map(|line| line.strip_prefix("  # ").unwrap_or_else(|| panic!("{line} is no comment")));
    let lines: Vec<_> = lines.map(|line| format!("  {line}\n")).collect();
    format!("scrape_configs:\n  - job_name: services\n{}", lines.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_what_is_registered() {
    let folder = TempDir::new().expect("a temporary directory can be made");
    std::fs::write(folder.path().join("prometheus.yml"), job()).expect("written");
    promtool(folder.path(), &["check", "config", "--syntax-only", "prometheus.yml"]).await;

    let cluster = Cluster::start(1).await;
    let (api, address) = (cluster.api(1), cluster.ports(1).api);
    let made = json!([{"name": "prometheus", "grants": [{"role": "client", "namespace": "shop"}]}]);
    let made = api.post("/auth/v1/tokens", &made).await.expect_code(200_000);
    let token_file = folder.path().join("token");
    let secret = made.body["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned();
    std::fs::write(&token_file, &secret).expect("written");
    // The node itself stands for an instance with metrics.
    let of = |namespace: &str, service: &str, metadata: serde_json::Value| {
        let address = ("127.0.0.1", 9);
        json!({"namespace": namespace, "service": service, "host": address.0, "port": address.1, "metadata": metadata})
    };
    let metrics = json!({"metrics_port": address.port().to_string()});
    let all = json!([of("shop", "node", metrics.clone()), of("shop", "silent", json!({})), of("lab", "node", metrics)]);
    api.post("/naming/v1/instances", &all).await.expect_code(200_000);

    let settings = job()
        .replace(URL, &format!("http://{address}/"))
        .replace(TOKEN_FILE, &token_file.display().to_string())
        .replace("        tls_config:\n          ca_file: /run/thuban-trust/ca.pem\n", "")
        .replace("refresh_interval: 15s", "refresh_interval: 1s");
    assert!(!settings.contains("ca_file"), "{settings}");
    let settings = format!("global:\n  scrape_interval: 1s\n{settings}");
    let prometheus = Prometheus::start(&settings).await;
    let seen = async || prometheus.results(r#"up{job="services"} == 1"#).await;
    eventually(LIMIT, "the instance is scraped", || async {
        let found = seen().await?;
        let services: Vec<_> = found.iter().map(|labels| (&labels["namespace"], &labels["service"])).collect();
        if services == [(&json!("shop"), &json!("node"))] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    // Another instance is found without a new start; the password of basic authentication is the token, too.
    let other = json!([{"namespace": "shop", "service": "second", "host": "localhost", "port": 9,
        "metadata": {"metrics_port": address.port().to_string()}}]);
    api.post("/naming/v1/instances", &other).await.expect_code(200_000);
    eventually(LIMIT, "the other instance is scraped", || async {
        let found = seen().await?;
        if found.len() == 2 { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    let url = format!("http://{address}/v1/prometheus/targets");
    let request = crate::harness::http().build().expect("a client").get(&url).basic_auth("prometheus", Some(&secret));
    assert_eq!(request.send().await.expect("an answer").status().as_u16(), 200);
}
