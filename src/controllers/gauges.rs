//! Gauges of the catalog's contents and of clients, updated when metrics are read. Those of consensus are updated by
//! the node itself.

use std::sync::Arc;

use super::Controllers;
use crate::model::wire::Words;
use crate::raft::node::Node;
use crate::subscribers::Subscribers;
use crate::tasks;

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub async fn record(node: &Node, controllers: &Controllers) {
    node.record_metrics();
    record_shares(node, &controllers.subscribers).await;
    let metrics = node.metrics();
    metrics.subscribers.set(as_gauge(controllers.subscribers.len()));
    metrics.subscribers_bytes.set(as_gauge(controllers.subscribers.bytes()));
    metrics.subscribers_turned_away.set(as_gauge(controllers.subscribers.turned_away()));
    let catalog = node.state().catalog();
    metrics.notification_id.set(i64::from(catalog.configs.newest_notification_id()));
    for (kind, count) in catalog.counts() {
        metrics.objects.with_label_values(&[kind]).set(as_gauge(count));
    }
    metrics.content_bytes.set(as_gauge(catalog.configs.content_bytes_in_memory()));
    // Read from a view, without the lock: each key is opened once.
    let view = catalog.view();
    drop(catalog);
    metrics.config_unreadable.set(as_gauge(controllers.keyring.unreadable_files(&view)));
    metrics.keep_apps(|app| view.access_keys.has_any_of(app));
    metrics.access_keys_unreadable.set(as_gauge(controllers.keyring.unreadable(&view)));
    metrics.rollouts.reset();
    for live in view.live_rollouts() {
        metrics.rollouts.with_label_values(&[live.rollout.state.word()]).inc();
    }
    for family in [&metrics.webhook_pending, &metrics.webhook_dropped, &metrics.webhook_failing] {
        family.reset();
    }
    for hook in view.webhooks.all() {
        let (name, progress) = ([hook.name.as_str()], &hook.progress);
        metrics.webhook_pending.with_label_values(&name).set(as_gauge(view.webhooks.pending(&hook.name)));
        metrics.webhook_dropped.with_label_values(&name).set(i64::try_from(progress.dropped).unwrap_or(i64::MAX));
        metrics.webhook_failing.with_label_values(&name).set(i64::from(progress.failing_since.is_some()));
    }
}

/// Updates the gauges of up-to-date clients. Every client is compared for it, so it runs only every few seconds.
async fn record_shares(node: &Node, subscribers: &Arc<Subscribers>) {
    if !subscribers.is_to_be_counted() {
        return;
    }
    let (state, counted) = (node.state().clone(), subscribers.clone());
    let count = move || (counted.shares(&state.view()), counted.refusing());
    let metrics = node.metrics();
    let (shares, refusing) = tasks::blocking(count).await;
    metrics.subscribers_refused.set(as_gauge(refusing));
    for (kind, share) in shares {
        metrics.subscribers_present.with_label_values(&[kind]).set(as_gauge(share.present));
        metrics.subscribers_current.with_label_values(&[kind]).set(as_gauge(share.current));
    }
}
