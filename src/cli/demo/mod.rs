//! `thuban dev --demo`: a node with live data, and clients that use it over its ports.
//!
//! Everything here uses the ports that other programs use: the management API and the port of config clients.
//! A data directory that the demo made is marked; the demo runs in no other one that holds data.

mod clients;
mod data;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Client;
use thuban_ctl::errors::Usage;
use thuban_ctl::remote::{Remote, http_client};
use tokio::task::JoinSet;

use super::running::stored_password;
use crate::config::Hidden;
use crate::server::Bound;
use crate::tasks;

/// Namespace of everything that the demo makes.
const NAMESPACE: &str = "demo";
/// File in the data directory that marks a directory of the demo.
const MARK: &str = "demo";
/// Pause before failed work is retried, such as a login while the node has no leader.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Time after which a call is given up; a held one is answered after 60 s by default.
const CALL_WITHIN: Duration = Duration::from_secs(90);

/// Fails with exit code 2 if the directory holds data that the demo did not make.
pub(super) fn check_directory(data_dir: &Path) -> anyhow::Result<()> {
    let is_empty = match std::fs::read_dir(data_dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", data_dir.display())),
    };
    if is_empty || data_dir.join(MARK).exists() {
        return Ok(());
    }
    let directory = data_dir.display();
    Err(Usage(format!("{directory} holds data that is not of the demo: name another directory by --data-dir")).into())
}

/// Marks the directory of a node that has started.
pub(super) fn mark_directory(data_dir: &Path) -> anyhow::Result<()> {
    let file = data_dir.join(MARK);
    std::fs::write(&file, "Data of thuban dev --demo.\n")
        .with_context(|| format!("{} cannot be written", file.display()))
}

/// Addresses and credentials that the demo works with.
#[derive(Clone)]
struct Desk {
    api: String,
    compat: String,
    client: Client,
    password_file: PathBuf,
}

impl Desk {
    /// Logs in as the administrator.
    async fn log_in(&self) -> anyhow::Result<Remote> {
        let Some(Hidden(password)) = stored_password(&self.password_file) else {
            bail!("{} has no password", self.password_file.display());
        };
        self.log_in_as("admin", &password).await
    }

    async fn log_in_as(&self, name: &str, password: &str) -> anyhow::Result<Remote> {
        let token = Remote::at(&self.api, None, self.client.clone()).log_in(name, password).await?;
        Ok(Remote::at(&self.api, Some(token), self.client.clone()))
    }
}

/// Creates missing data, then runs heartbeats, rollouts and clients until dropped. `greet` is called when the data
/// exists and the clients have begun: what it suggests finds both.
pub(super) async fn run(bound: &Bound, password_file: PathBuf, greet: impl FnOnce()) {
    let built = http_client(&[], None).and_then(|builder| Ok(builder.timeout(CALL_WITHIN).build()?));
    let client = match built {
        Ok(client) => client,
        Err(error) => return tracing::error!(error = format!("{error:#}"), "the demo cannot send requests"),
    };
    let desk = Desk {
        api: format!("http://{}", bound.api),
        compat: format!("http://{}", bound.compat),
        client,
        password_file,
    };
    let remote = loop {
        match prepare(&desk).await {
            Ok(remote) => break remote,
            Err(error) => tracing::warn!(error = format!("{error:#}"), "the data of the demo could not be made yet"),
        }
        tokio::time::sleep(RETRY_AFTER).await;
    };
    let mut parts = JoinSet::new();
    tasks::errand_of(&mut parts, heartbeats(desk.clone()));
    tasks::errand_of(&mut parts, rollouts(desk.clone()));
    clients::begin(&mut parts, &desk, &remote);
    greet();
    while parts.join_next().await.is_some() {}
}

async fn prepare(desk: &Desk) -> anyhow::Result<Remote> {
    let remote = desk.log_in().await?;
    data::create(desk, &remote).await?;
    data::roll_out(&remote).await?;
    Ok(remote)
}

/// Sends the heartbeats of all instances, for ever.
async fn heartbeats(desk: Desk) {
    loop {
        if let Ok(remote) = desk.log_in().await {
            while data::beat(&remote).await.is_ok() {
                tokio::time::sleep(data::HEARTBEAT_EVERY).await;
            }
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Releases a config file by steps, and again after each rollout, for ever.
async fn rollouts(desk: Desk) {
    loop {
        if let Ok(remote) = desk.log_in().await {
            while data::roll_out(&remote).await.is_ok() {
                tokio::time::sleep(data::ROLLOUT_CHECKED_EVERY).await;
            }
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}
