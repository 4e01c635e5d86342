//! Twenty clients: twelve pull and long-poll the config files, eight wait for the rules of a service.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use thuban_ctl::remote::Remote;
use tokio::task::JoinSet;
use url::form_urlencoded;

use super::data::{FILES, GROUP};
use super::{Desk, NAMESPACE, RETRY_AFTER};
use crate::tasks;

const CONFIG_CLIENTS: u8 = 12;
const RULE_CLIENTS: u8 = 8;
/// Config clients that pull a change only after [`LAG`].
const LAGGING: [u8; 2] = [11, 12];
const LAG: Duration = Duration::from_secs(45);
/// Config client that reports that it cannot apply [`REFUSED`].
const REFUSING: u8 = 10;
const REFUSED: &str = "limits.json";
const REFUSAL: &str = "burst 500 is more than the 400 connections of this pod";
/// Time after which a call that is answered at once is given up.
const PULL_WITHIN: Duration = Duration::from_secs(5);
const DISCOVER_HOLD_MS: u64 = 30_000;

/// Starts all clients.
pub(super) fn begin(parts: &mut JoinSet<()>, desk: &Desk, remote: &Remote) {
    for number in 1..=CONFIG_CLIENTS {
        let client = ConfigClient::new(desk, number);
        tasks::errand_of(parts, client.run());
    }
    for number in 1..=RULE_CLIENTS {
        tasks::errand_of(parts, watch_rules(remote.clone(), desk.clone(), number));
    }
}

/// A client that behaves like Apollo's.
struct ConfigClient {
    client: Client,
    compat: String,
    number: u8,
    address: String,
    /// Notification ids by name of the file.
    ids: BTreeMap<String, i64>,
}

impl ConfigClient {
    fn new(desk: &Desk, number: u8) -> ConfigClient {
        let ids = FILES.iter().map(|(file, ..)| (namespace_of(file), -1)).collect();
        let address = format!("10.30.0.{number}");
        ConfigClient { client: desk.client.clone(), compat: desk.compat.clone(), number, address, ids }
    }

    async fn run(mut self) {
        loop {
            if self.poll_once().await.is_err() {
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Waits for a change, then pulls what has changed.
    async fn poll_once(&mut self) -> anyhow::Result<()> {
        let wanted: Vec<Value> =
            self.ids.iter().map(|(name, id)| json!({"namespaceName": name, "notificationId": id})).collect();
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("appId", GROUP)
            .append_pair("cluster", NAMESPACE)
            .append_pair("ip", &self.address)
            .append_pair("notifications", &Value::Array(wanted).to_string())
            .finish();
        let url = format!("{}/notifications/v2?{query}", self.compat);
        let answer = self.client.get(url).header("User-Agent", self.agent()).send().await?;
        if answer.status() == StatusCode::NOT_MODIFIED {
            return Ok(());
        }
        let changed: Vec<Value> = answer.error_for_status()?.json().await?;
        let is_first = self.ids.values().all(|id| *id < 0);
        for one in changed {
            let (Some(name), Some(id)) = (one["namespaceName"].as_str(), one["notificationId"].as_i64()) else {
                continue;
            };
            if LAGGING.contains(&self.number) && !is_first {
                tokio::time::sleep(LAG).await;
            }
            self.pull(name).await?;
            self.ids.insert(name.to_owned(), id);
        }
        Ok(())
    }

    async fn pull(&self, name: &str) -> anyhow::Result<()> {
        let url = format!("{}/configs/{GROUP}/{NAMESPACE}/{name}", self.compat);
        let request = self.client.get(format!("{url}?ip={}", self.address));
        let answer = request.header("User-Agent", self.agent()).timeout(PULL_WITHIN).send().await?;
        let pulled: Value = answer.error_for_status()?.json().await?;
        let is_refused = self.number == REFUSING && name == REFUSED;
        let mut report = json!({"releaseKey": pulled["releaseKey"], "ok": !is_refused});
        if is_refused {
            report["message"] = json!(REFUSAL);
        }
        let request = self.client.post(format!("{url}/applied?ip={}", self.address)).json(&report);
        request.header("User-Agent", self.agent()).timeout(PULL_WITHIN).send().await?.error_for_status()?;
        Ok(())
    }

    fn agent(&self) -> &'static str {
        if self.number.is_multiple_of(2) { "shop-checkout/2.3" } else { "shop-gateway/1.9" }
    }
}

/// Returns the name under which Apollo's clients request a file: properties files without their suffix.
fn namespace_of(file: &str) -> String {
    file.strip_suffix(".properties").unwrap_or(file).to_owned()
}

/// Waits for changes of the rate limits of `pay`, as a caller in one of two zones.
async fn watch_rules(mut remote: Remote, desk: Desk, number: u8) {
    let zone = if number.is_multiple_of(2) { "a" } else { "b" };
    let labels = json!({"zone": zone, "CLIENT_IP": format!("10.40.0.{number}")});
    let mut revision = String::new();
    loop {
        let question = json!({
            "type": "RATE_LIMIT", "timeout_ms": DISCOVER_HOLD_MS,
            "service": {"namespace": NAMESPACE, "name": "pay", "revision": revision},
            "filter": {"caller": {"labels": labels}},
        });
        match remote.call(Method::POST, "/v1/Discover", Some(&question)).await {
            Ok(answer) => {
                if let Some(newer) = answer["service"]["revision"].as_str() {
                    newer.clone_into(&mut revision);
                }
            }
            Err(_) => {
                tokio::time::sleep(RETRY_AFTER).await;
                if let Ok(again) = desk.log_in().await {
                    remote = again;
                }
            }
        }
    }
}
