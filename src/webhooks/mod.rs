//! Telling webhooks what has happened: the leader posts the events that wait for them ([`crate::catalog::webhooks`]).
//!
//! One task for each webhook takes its events in their order, one at a time, so that none waits for another one's
//! receiver. An event stays first until its receiver has answered with 2xx; after a failure the next try is a second
//! later, then two, four and so on, at most [`PAUSE_MAX`], each up to half of it earlier. An event that happened
//! [`crate::model::limits::WEBHOOK_EVENT_AGE_MS_MAX`] before a try that failed is given up, with all that are as old.
//!
//! What was told is written down by one entry of the log for all webhooks, at most one a second; a leader that comes
//! begins behind what is written down. So a receiver may be told again of the events of the last moments before the
//! leader changed, under the same ids, and knows by them: they go up.
//!
//! Nothing is kept here but where each task is. While nothing waits, nobody works, and nothing is appended.

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
use crate::model::webhook::{Webhook, WebhookTold};
use crate::raft::Lead;
use crate::raft::node::Node;
use crate::tasks;
use delivery_worker::DeliveryWorker;
use http_sender::HttpSender;

/// Longest pause between two looks at the webhooks.
const ROUND: Duration = Duration::from_millis(500);
/// Between two entries that write down what was told.
const WRITE_PAUSE: Duration = Duration::from_secs(1);
/// Before the second try; doubled from then on,
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// up to this.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Settings of webhook delivery.
#[derive(Clone, Debug, Default)]
pub struct WebhookSettings {
    /// Authorities that may vouch for https receivers; none for those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// Private networks that may be reached, by webhooks that allow it.
    pub private_networks: Vec<IpNet>,
}

/// Progress of deliveries since it was written down last, by the ids of webhooks.
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

    /// Puts back progress that could not be written down, and that is older than what has come since.
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

/// Deliveries of this node as the leader of one term.
struct Deliveries {
    lead: Lead,
    /// The task of each webhook, by the revision that it was asked for in.
    workers: HashMap<String, AbortOnDropHandle<()>>, // bound: webhook-events
    progress: Arc<DeliveryProgress>,
}

impl Deliveries {
    fn new(lead: Lead) -> Self {
        Deliveries { lead, workers: HashMap::new(), progress: Arc::default() }
    }

    /// Has a task for every webhook that is on, and for no other.
    fn follow(&mut self, settings: &WebhookSettings) {
        let hooks: Vec<Arc<Webhook>> =
            self.lead.catalog().webhooks.all().filter(|hook| !hook.disabled).cloned().collect();
        // One that has panicked begins anew: its webhook must not bring down one leader after the other.
        self.workers
            .retain(|revision, worker| !worker.is_finished() && hooks.iter().any(|hook| hook.revision == *revision));
        for hook in hooks {
            if self.workers.contains_key(&hook.revision) {
                continue;
            }
            let revision = hook.revision.clone();
            let sender = HttpSender::new(&hook, settings);
            let worker = DeliveryWorker::new(self.lead.clone(), hook, sender, self.progress.clone());
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

/// The leader's work on webhooks.
pub struct WebhookController {
    settings: WebhookSettings,
    changed: watch::Receiver<()>,
    deliveries: Option<Deliveries>,
    next_write: Instant,
}

impl WebhookController {
    pub fn new(node: &Node, settings: WebhookSettings) -> Self {
        let changed = node.state().webhooks.subscribe();
        WebhookController { settings, changed, deliveries: None, next_write: Instant::now() }
    }
}

impl Controller for WebhookController {
    async fn act(&mut self, lead: &Lead) -> Duration {
        let known = self.deliveries.take().filter(|deliveries| deliveries.lead.term() == lead.term());
        let deliveries = self.deliveries.insert(known.unwrap_or_else(|| Deliveries::new(lead.clone())));
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

/// Time to wait after so many failures in a row; `chance` is from 0 to 1.
fn pause_after(failures: u32, chance: f64) -> Duration {
    let doubled = PAUSE_MIN.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(PAUSE_MAX).mul_f64(1.0 - chance / 2.0)
}

#[cfg(test)]
mod tests;
