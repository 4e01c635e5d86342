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
    /// Secret, returned by a create only.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    /// Types of events to deliver; empty for all.
    events: &'a [HookEvent],
    /// Namespace of the events; empty for all.
    namespace: &'a str,
    /// `json`, or the chat service whose bot receives the message.
    format: MessageFormat,
    allow_private: bool,
    disabled: bool,
    comment: &'a str,
    /// Number of events delivered since it was created. The leader updates it once a second.
    delivered: u64,
    /// Number of pending events.
    pending: usize,
    /// Number of dropped events: more than 1,000 were pending, they were pending for more than a day without any
    /// delivery, or the webhook was disabled.
    dropped: u64,
    /// Time of the last delivery; empty before the first.
    last_success: String,
    /// Reason of the last failed attempt; empty if none failed.
    last_error: &'a str,
    last_error_time: String,
    /// Time since when every attempt fails; empty if the last one succeeded.
    failing_since: String,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// Revision, new after every change.
    revision: &'a str,
}

impl<'a> WebhookView<'a> {
    /// Creates the view; the secret is passed only in the answer to the create.
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
