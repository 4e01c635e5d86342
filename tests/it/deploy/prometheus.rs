//! A real Prometheus that scrapes real nodes, with the project's alert rules.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::file;
use crate::harness::{Cluster, Ports, eventually, http};

const START_LIMIT: Duration = Duration::from_secs(20);

pub(super) struct Prometheus {
    url: String,
    _process: Child,
    _directory: TempDir,
}

/// The folder of `prometheus` and `promtool`.
async fn programs() -> String {
    let output = Command::new(file("tests/clients/prometheus")).output().await.expect("the script can be run");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "Prometheus cannot be had:\n{errors}");
    String::from_utf8(output.stdout).expect("a path is text").trim().to_owned()
}

/// Runs `promtool` in a folder; fails with what it printed.
pub(super) async fn promtool(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(format!("{}/promtool", programs().await));
    let output = command.args(arguments).current_dir(folder).output().await.expect("promtool can be run");
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {arguments:?}:\n{told}");
    told
}

impl Prometheus {
    /// Scrapes every node of the cluster as the job `thuban`.
    pub(super) async fn beside(cluster: &Cluster, interval: &str) -> Prometheus {
        let targets: Vec<String> = cluster.ids().into_iter().map(|id| cluster.ports(id).api.to_string()).collect();
        let rules = file("cluster/alerts.yml");
        // JSON is YAML.
        let settings = serde_json::json!({
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": [rules],
            "scrape_configs": [{"job_name": "thuban", "static_configs": [{"targets": targets}]}],
        });
        Prometheus::start(&settings.to_string()).await
    }

    /// Runs with these settings, which are YAML.
    pub(super) async fn start(settings: &str) -> Prometheus {
        let directory = TempDir::with_prefix("thuban-prometheus-").expect("a temporary directory can be made");
        let settings_file = directory.path().join("prometheus.yml");
        std::fs::write(&settings_file, settings).expect("a file can be written");
        let address = Ports::reserve().api;
        let process = Command::new(format!("{}/prometheus", programs().await))
            .arg(format!("--config.file={}", settings_file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("Prometheus can be started");
        let prometheus = Prometheus { url: format!("http://{address}"), _process: process, _directory: directory };
        eventually(START_LIMIT, "Prometheus answers", || prometheus.ask("/api/v1/status/config", &[])).await;
        prometheus
    }

    async fn ask(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        let client = http().build().expect("a client");
        let url = reqwest::Url::parse_with_params(&format!("{}{path}", self.url), query).expect("a URL");
        let answer = client.get(url).send().await.map_err(|error| error.to_string())?;
        let mut body: Value = serde_json::from_str(&answer.text().await.map_err(|error| error.to_string())?)
            .map_err(|error| error.to_string())?;
        if body["status"] == "success" { Ok(body["data"].take()) } else { Err(body.to_string()) }
    }

    /// The labels of every result.
    pub(super) async fn results(&self, query: &str) -> Result<Vec<Value>, String> {
        let mut data = self.ask("/api/v1/query", &[("query", query)]).await?;
        let results = data["result"].as_array_mut().ok_or("no list of results")?;
        Ok(results.iter_mut().map(|result| result["metric"].take()).collect())
    }

    /// The alert rules, as they were evaluated last.
    pub(super) async fn rules(&self) -> Result<Vec<Value>, String> {
        let data = self.ask("/api/v1/rules", &[]).await?;
        let groups = data["groups"].as_array().ok_or("no groups")?;
        Ok(groups.iter().filter_map(|group| group["rules"].as_array()).flatten().cloned().collect())
    }
}
