//! Delivery worker: the task of one webhook. It sends events in order, and each one until its receiver accepts it or it
//! is given up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::http_sender::HttpSender;
use super::message::Message;
use super::{DeliveryProgress, pause_after};
use crate::catalog::webhooks::WebhookEvent;
use crate::keyring::Keyring;
use crate::model::limits;
use crate::model::time::Timestamp;
use crate::model::webhook::Webhook;
use crate::raft::Lead;

/// Interval between checks of the leader lease.
const LEASE_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct DeliveryWorker {
    lead: Lead,
    keyring: Arc<Keyring>,
    hook: Arc<Webhook>,
    sender: HttpSender,
    progress: Arc<DeliveryProgress>,
    /// Number of the last event that was delivered or given up.
    through: u64,
    /// Number of consecutive failures.
    failures: u32,
}

impl DeliveryWorker {
    pub(super) fn new(
        (lead, keyring): (Lead, Arc<Keyring>),
        hook: Arc<Webhook>,
        sender: HttpSender,
        progress: Arc<DeliveryProgress>,
    ) -> Self {
        let through = hook.progress.through;
        DeliveryWorker { lead, keyring, hook, sender, progress, through, failures: 0 }
    }

    /// Delivers events until it is aborted.
    pub(super) async fn deliver(mut self) {
        let mut changed = self.lead.node().state().webhooks.subscribe();
        loop {
            changed.mark_unchanged();
            let next = self.lead.catalog().webhooks.next(&self.hook.name, self.through).cloned();
            let Some(event) = next else {
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            };
            // A node without a valid lease delivers nothing, because a new leader may be further ahead.
            while !self.lead.holds() {
                sleep(LEASE_PAUSE).await;
            }
            self.deliver_one(&event).await;
        }
    }

    async fn deliver_one(&mut self, event: &WebhookEvent) {
        let metrics = self.lead.node().metrics().clone();
        let begun = Instant::now();
        let outcome = match self.message(event) {
            Ok(message) => self.sender.post(message).await,
            Err(why) => Err(why),
        };
        metrics.webhook_duration.observe(begun.elapsed().as_secs_f64());
        let label = if outcome.is_ok() { "delivered" } else { "failed" };
        metrics.webhook_deliveries.with_label_values(&[label]).inc();
        let (id, name) = (&self.hook.id, &self.hook.name);
        let Err(why) = outcome else {
            (self.through, self.failures) = (event.number, 0);
            self.progress.delivered(id, event.number);
            return;
        };
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 {
            tracing::warn!(webhook = name, why, "failed to deliver to a webhook, will retry");
        }
        self.progress.failed(id, why);
        let too_old = Timestamp(self.lead.node().sure_now().0.saturating_sub(limits::WEBHOOK_EVENT_AGE_MS_MAX));
        let older = self.lead.catalog().webhooks.older(name, self.through, too_old);
        if let Some((through, count)) = older {
            tracing::warn!(webhook = name, events = count, "dropped events after a day of failed deliveries");
            self.through = through;
            self.progress.given_up(id, through, count);
        }
        sleep(pause_after(self.failures, rand::random())).await;
    }

    fn message(&self, event: &WebhookEvent) -> Result<Message, String> {
        let secret = self.keyring.secret_of(&self.hook)?;
        let catalog = self.lead.catalog();
        let cluster = catalog.nodes.cluster_id().unwrap_or_default();
        Ok(Message::new(cluster, &self.hook, event, &secret))
    }
}
