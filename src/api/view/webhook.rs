//! Webhooks as the management surface shows them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::time::Timestamp;
use crate::model::webhook::{HookEvent, MessageFormat, Webhook};

/// Receiver of events, and the progress of its deliveries.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Webhook")]
pub(crate) struct WebhookView<'a> {
    name: &'a str,
    url: &'a str,
    /// In the answer of a create only.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    /// Those that are wanted; none for all.
    events: &'a [HookEvent],
    /// Of which namespace; empty for all.
    namespace: &'a str,
    /// `json`, or the chat whose robot is told.
    format: MessageFormat,
    allow_private: bool,
    disabled: bool,
    comment: &'a str,
    /// Events that were delivered since it was made. What a leader has delivered is written down once a second.
    delivered: u64,
    /// Events that wait.
    pending: usize,
    /// Events that were not delivered, as more than 1,000 waited, as they waited for more than a day while nothing
    /// could be delivered, or as it was disabled.
    dropped: u64,
    /// Empty before the first delivery.
    last_success: String,
    /// Reason of the last failed attempt; empty if none failed.
    last_error: &'a str,
    last_error_time: String,
    /// Since when nothing succeeds; empty if that is not so.
    failing_since: String,
    /// `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// Changes with every write that changes something.
    revision: &'a str,
}

impl<'a> WebhookView<'a> {
    /// The secret is shown to who made the webhook, and to nobody again.
    pub(crate) fn new(hook: &'a Webhook, pending: usize, secret: Option<&'a str>) -> Self {
        let progress = &hook.progress;
        let text = |time: Option<Timestamp>| time.map(Timestamp::text).unwrap_or_default();
        WebhookView {
            name: &hook.name,
            url: &hook.url,
            secret,
            events: &hook.events,
            namespace: &hook.namespace,
            format: hook.format,
            allow_private: hook.allow_private,
            disabled: hook.disabled,
            comment: &hook.comment,
            delivered: progress.delivered,
            pending,
            dropped: progress.dropped,
            last_success: text(progress.succeeded),
            last_error: progress.failed.as_ref().map_or("", |(_, why)| why),
            last_error_time: text(progress.failed.as_ref().map(|(time, _)| *time)),
            failing_since: text(progress.failing_since),
            ctime: hook.created.time.text(),
            create_by: &hook.created.by,
            mtime: hook.modified.time.text(),
            modify_by: &hook.modified.by,
            revision: &hook.revision,
        }
    }
}
