//! Queue of events of one webhook.

use std::sync::Arc;

use imbl::Vector;

use crate::model::limits;
use crate::model::webhook::{HookEvent, News, Webhook};

/// A webhook, and the numbers of its waiting events, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HookQueue {
    pub(super) hook: Arc<Webhook>,
    pub(super) queue: Vector<u64>,
    /// Numbers among `queue` that are refusals of clients.
    pub(super) refusals: Vector<u64>,
}

impl HookQueue {
    pub(super) fn new(hook: Arc<Webhook>) -> HookQueue {
        HookQueue { hook, queue: Vector::new(), refusals: Vector::new() }
    }

    pub(super) fn push(&mut self, number: u64, news: &News) {
        self.queue.push_back(number);
        if news.event == HookEvent::ClientRefused {
            self.refusals.push_back(number);
        }
    }

    /// Returns the oldest refusal if there are too many refusals, or too many events in all.
    pub(super) fn surplus_refusal(&self) -> Option<u64> {
        let is_over =
            self.refusals.len() > limits::WEBHOOK_REFUSALS_MAX || self.queue.len() > limits::WEBHOOK_EVENTS_MAX;
        self.refusals.front().copied().filter(|_| is_over)
    }
}
