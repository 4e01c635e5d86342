//! Delivery of webhooks: the leader posts the pending events ([`crate::catalog::webhooks`]).
//!
//! Each webhook has a task that sends its events in order, one at a time, so no webhook waits for the receiver of
//! another. An event remains the next one until its receiver responds with 2xx. After a failure the next attempt
//! follows in 1 s, then 2 s, 4 s and so on, up to [`PAUSE_MAX`], each shortened randomly by up to half. When an attempt
//! fails, all events older than [`crate::model::limits::WEBHOOK_EVENT_AGE_MS_MAX`] are given up.
//!
//! The progress of all webhooks is recorded by one log entry, at most one a second, and a new leader continues from the
//! recorded progress. After a change of the leader a receiver may therefore get the last events again, under the same
//! ids; since ids increase, it can recognize them.
//!
//! The only state here is the position of each task. While no event is pending, nothing runs and nothing is proposed.

mod chat;
mod delivery_worker;
mod http_sender;
mod message;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::catalog::Command;
use crate::controllers::Controller;
use crate::keyring::Keyring;
use crate::model::webhook::{Webhook, WebhookTold};
use crate::raft::Lead;
use crate::raft::node::Node;
use crate::tasks;
use delivery_worker::DeliveryWorker;
use http_sender::HttpSender;

/// Longest pause between two checks for changed webhooks.
const ROUND: Duration = Duration::from_millis(500);
/// Minimum time between two log entries that record progress.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// Pause before the second attempt; doubled for each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Settings of webhook delivery.
#[derive(Clone, Debug, Default)]
pub struct WebhookSettings {
    /// File of the authorities for https receivers; none for those of the system.
    pub ca_file: Option<PathBuf>,
    /// Private networks that webhooks may reach if they are allowed to.
    pub private_networks: Vec<IpNet>,
}

/// Progress of deliveries since it was last recorded, by webhook id.
#[derive(Default)]
struct DeliveryProgress {
    told: Mutex<BTreeMap<String, WebhookTold>>, // bound: webhook-events
    has_more: Notify,
}

impl DeliveryProgress {
    fn note(&self, id: &str, change: impl FnOnce(&mut WebhookTold)) {
        let mut all = self.told.lock();
        let told =
            all.entry(id.to_owned()).or_insert_with(|| WebhookTold { id: id.to_owned(), ..WebhookTold::default() });
        change(told);
        drop(all);
        self.has_more.notify_one();
    }

    fn delivered(&self, id: &str, through: u64) {
        self.note(id, |told| told.through = told.through.max(through));
    }

    fn failed(&self, id: &str, why: String) {
        self.note(id, |told| told.failure = Some(why));
    }

    fn given_up(&self, id: &str, through: u64, count: u64) {
        self.note(id, |told| {
            told.through = told.through.max(through);
            told.given_up += count;
        });
    }

    fn take(&self) -> Vec<WebhookTold> {
        std::mem::take(&mut *self.told.lock()).into_values().collect()
    }

    /// Restores progress that could not be recorded. Newer progress takes precedence.
    fn put_back(&self, told: Vec<WebhookTold>) {
        for old in told {
            self.note(&old.id, |told| {
                told.through = told.through.max(old.through);
                told.given_up += old.given_up;
                told.failure = told.failure.take().or(old.failure);
            });
        }
    }

    fn is_empty(&self) -> bool {
        self.told.lock().is_empty()
    }
}

/// Deliveries of this node during one term as leader.
struct Deliveries {
    lead: Lead,
    keyring: Arc<Keyring>,
    /// Tasks by the revision of their webhook.
    workers: HashMap<String, AbortOnDropHandle<()>>, // bound: webhook-events
    progress: Arc<DeliveryProgress>,
}

impl Deliveries {
    fn new(lead: Lead, keyring: Arc<Keyring>) -> Self {
        Deliveries { lead, keyring, workers: HashMap::new(), progress: Arc::default() }
    }

    /// Starts a task for every enabled webhook and aborts all others.
    fn follow(&mut self, settings: &WebhookSettings) {
        let hooks: Vec<Arc<Webhook>> =
            self.lead.catalog().webhooks.all().filter(|hook| !hook.disabled).cloned().collect();
        // A task that panicked is restarted: its webhook must not bring down one leader after the other.
        self.workers
            .retain(|revision, worker| !worker.is_finished() && hooks.iter().any(|hook| hook.revision == *revision));
        for hook in hooks {
            if self.workers.contains_key(&hook.revision) {
                continue;
            }
            let revision = hook.revision.clone();
            let sender = HttpSender::new(&hook, settings);
            let worker =
                DeliveryWorker::new((self.lead.clone(), self.keyring.clone()), hook, sender, self.progress.clone());
            self.workers.insert(revision, AbortOnDropHandle::new(tasks::errand(worker.deliver())));
        }
    }

    async fn write_down(&self) {
        let progress = self.progress.take();
        if self.lead.propose("the progress of webhooks", Command::WebhooksTold(progress.clone())).await.is_err() {
            self.progress.put_back(progress);
        }
    }
}

/// Controller that delivers webhooks on the leader.
pub struct WebhookController {
    keyring: Arc<Keyring>,
    settings: WebhookSettings,
    changed: watch::Receiver<()>,
    deliveries: Option<Deliveries>,
    next_write: Instant,
}

impl WebhookController {
    pub fn new(node: &Node, keyring: Arc<Keyring>, settings: WebhookSettings) -> Self {
        let changed = node.state().webhooks.subscribe();
        WebhookController { keyring, settings, changed, deliveries: None, next_write: Instant::now() }
    }
}

impl Controller for WebhookController {
    async fn act(&mut self, lead: &Lead) -> Duration {
        let known = self.deliveries.take().filter(|deliveries| deliveries.lead.term() == lead.term());
        let deliveries =
            self.deliveries.insert(known.unwrap_or_else(|| Deliveries::new(lead.clone(), self.keyring.clone())));
        deliveries.follow(&self.settings);
        if Instant::now() >= self.next_write && !deliveries.progress.is_empty() {
            deliveries.write_down().await;
            self.next_write = Instant::now() + WRITE_PAUSE;
        }
        match deliveries.progress.is_empty() {
            true => ROUND,
            false => ROUND.min(self.next_write.saturating_duration_since(Instant::now())),
        }
    }

    async fn woken(&mut self) {
        let has_more = async {
            match &self.deliveries {
                Some(deliveries) if deliveries.progress.is_empty() => deliveries.progress.has_more.notified().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = has_more => {}
            _ = self.changed.changed() => {}
        }
    }

    fn stand_down(&mut self) {
        self.deliveries = None;
    }
}

/// Returns the pause after this many consecutive failures. `chance` is from 0 to 1.
fn pause_after(failures: u32, chance: f64) -> Duration {
    let doubled = PAUSE_MIN.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(PAUSE_MAX).mul_f64(1.0 - chance / 2.0)
}

#[cfg(test)]
mod tests;
