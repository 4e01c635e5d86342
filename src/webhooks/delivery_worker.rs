//! Delivery worker: the task of one webhook. It sends events in their order, each until its receiver has it or it is
//! given up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::http_sender::HttpSender;
use super::message::Message;
use super::{DeliveryProgress, pause_after};
use crate::catalog::webhooks::WebhookEvent;
use crate::model::limits;
use crate::model::time::Timestamp;
use crate::model::webhook::Webhook;
use crate::raft::node::Node;

/// Between two looks at whether the lead is certain again.
const LEASE_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct DeliveryWorker {
    node: Node,
    term: u64,
    hook: Arc<Webhook>,
    courier: HttpSender,
    ledger: Arc<DeliveryProgress>,
    /// The number of the last event that is behind it.
    through: u64,
    /// In a row.
    failures: u32,
}

impl DeliveryWorker {
    pub(super) fn new(
        node: Node,
        term: u64,
        hook: Arc<Webhook>,
        courier: HttpSender,
        ledger: Arc<DeliveryProgress>,
    ) -> Self {
        let through = hook.progress.through;
        DeliveryWorker { node, term, hook, courier, ledger, through, failures: 0 }
    }

    /// Does not end by itself.
    pub(super) async fn tell(mut self) {
        let mut changed = self.node.webhooks_changed();
        loop {
            changed.mark_unchanged();
            let next = self.node.state().catalog().webhooks.next(&self.hook.name, self.through).cloned();
            let Some(event) = next else {
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            };
            // Who may not lead any more tells nobody: another one may be further.
            while !self.node.holds_lead(self.term) {
                sleep(LEASE_PAUSE).await;
            }
            self.tell_of(&event).await;
        }
    }

    async fn tell_of(&mut self, event: &WebhookEvent) {
        let metrics = self.node.metrics().clone();
        let begun = Instant::now();
        let told = match self.message(event) {
            Ok(message) => self.courier.post(message).await,
            Err(why) => Err(why),
        };
        metrics.webhook_duration.observe(begun.elapsed().as_secs_f64());
        let outcome = if told.is_ok() { "delivered" } else { "failed" };
        metrics.webhook_deliveries.with_label_values(&[outcome]).inc();
        let (id, name) = (&self.hook.id, &self.hook.name);
        let Err(why) = told else {
            (self.through, self.failures) = (event.number, 0);
            self.ledger.delivered(id, event.number);
            return;
        };
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 {
            tracing::warn!(webhook = name, why, "a webhook could not be told, it is tried again");
        }
        self.ledger.failed(id, why);
        let too_old = Timestamp(self.node.now().0.saturating_sub(limits::WEBHOOK_EVENT_AGE_MS_MAX));
        let older = self.node.state().catalog().webhooks.older(name, self.through, too_old);
        if let Some((through, count)) = older {
            tracing::warn!(webhook = name, events = count, "events that could not be told for a day are given up");
            self.through = through;
            self.ledger.given_up(id, through, count);
        }
        sleep(pause_after(self.failures, rand::random())).await;
    }

    fn message(&self, event: &WebhookEvent) -> Result<Message, String> {
        let secret = self.node.keyring().secret_of(&self.hook)?;
        let catalog = self.node.state().catalog();
        let cluster = catalog.nodes.cluster_id().unwrap_or_default();
        Ok(Message::new(cluster, &self.hook.name, event, &secret))
    }
}
