//! Webhooks: changes, their waiting events, and queries.
//!
//! An event is stored as one row while any webhook waits for it. Of the events of one webhook, the newest
//! [`limits::WEBHOOK_EVENTS_MAX`] are kept, so a failing webhook costs no more than that and affects no other. Refusals
//! of clients, of which any client can cause many, take at most [`limits::WEBHOOK_REFUSALS_MAX`] of these places and
//! are dropped before all other events. Numbers of events increase with the log and are never reused.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::Catalog;
use super::change::{Change, ChangeSet, Entity, Outcome, admits_one_more};
use super::command::Op;
use super::ctx::{Apply, Ctx};
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::resource::{StoredResource, newest_first, resource};
use super::row::{Row, RowKey, Table};
use super::webhook_queue::HookQueue;
use crate::model::code::{Code, Refusal};
use crate::model::instance::Instance;
use crate::model::limits;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;
use crate::model::webhook::{HealthNews, HookEvent, InstanceNews, News, Progress, Webhook, WebhookDraft, WebhookTold};

/// Limit for the numbers of events within one entry.
const NUMBERS_PER_ENTRY: u64 = 1 << 16;

impl Row for Webhook {
    const TABLE: Table = Table::Webhook;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.name);
    }
}

/// Stored form of an event that webhooks wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookEvent {
    pub number: u64,
    /// Ids of the webhooks that were subscribed when it happened.
    pub to: Vec<String>,
    pub news: Arc<News>,
}

impl Row for WebhookEvent {
    const TABLE: Table = Table::WebhookEvent;
    fn name(&self, key: &mut RowKey) {
        // Fixed width, so that rows are sorted by number.
        key.part(format!("{:016x}", self.number));
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Webhooks {
    by_name: OrdMap<Arc<str>, HookQueue>,
    events: OrdMap<u64, Arc<WebhookEvent>>,
}

impl Placed for Webhook {
    fn place(&self) -> ListKey<'_> {
        place_of([&self.name])
    }
}

impl Webhooks {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the number of stored events.
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Returns all webhooks, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.by_name.values().map(|held| &held.hook)
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Webhook>> {
        self.by_name.get(name).map(|held| &held.hook)
    }

    /// Returns the number of events that wait for one webhook.
    pub fn pending(&self, name: &str) -> usize {
        self.by_name.get(name).map_or(0, |held| held.queue.len())
    }

    /// Lists webhooks, newest change first, then by name.
    pub fn list(&self, name: Option<&NameFilter>, page: &Page) -> Listed<Arc<Webhook>> {
        let wanted = |hook: &&Arc<Webhook>| name.is_none_or(|filter| filter.matches(&hook.name));
        cut_sorted(self.all().filter(wanted).collect(), newest_first, page)
    }

    /// Returns the first event after `after` that waits for a webhook.
    pub fn next(&self, name: &str, after: u64) -> Option<&Arc<WebhookEvent>> {
        let held = self.by_name.get(name)?;
        let at = held.queue.binary_search(&after).map_or_else(|at| at, |at| at + 1);
        self.events.get(held.queue.get(at)?)
    }

    /// Returns the number of the last event after `after` that has waited since before `time`, and the count of such
    /// events.
    pub fn older(&self, name: &str, after: u64, time: Timestamp) -> Option<(u64, u64)> {
        let queue = &self.by_name.get(name)?.queue;
        let behind = queue.iter().filter(|number| **number > after).filter_map(|number| self.events.get(number));
        let (mut last, mut count) = (None, 0);
        for event in behind.take_while(|event| event.news.time < time) {
            (last, count) = (Some(event.number), count + 1);
        }
        last.map(|last| (last, count))
    }

    /// Reports whether any webhook is enabled.
    pub fn is_listening(&self) -> bool {
        self.all().any(|hook| !hook.disabled)
    }

    /// Queues events for the webhooks that are subscribed to them.
    fn enqueue(&mut self, ctx: &Ctx, news: Vec<News>, changes: &mut ChangeSet) {
        let surplus = news.len().saturating_sub(limits::WEBHOOK_EVENTS_MAX);
        let mut dropped: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        let mut told = false;
        for (at, news) in news.into_iter().enumerate() {
            let wanting = self.by_name.iter().filter(|(_, held)| held.hook.wants(&news));
            let names: Vec<_> = wanting.map(|(name, _)| name.clone()).collect();
            if at < surplus {
                names.into_iter().for_each(|name| *dropped.entry(name).or_default() += 1);
                continue;
            }
            if names.is_empty() {
                continue;
            }
            let number = ctx.index * NUMBERS_PER_ENTRY + (at - surplus) as u64;
            let mut to = Vec::with_capacity(names.len());
            for name in names {
                if let Some(held) = self.by_name.get_mut(&name) {
                    held.push(number, &news);
                    to.push(held.hook.id.clone());
                }
            }
            let event = WebhookEvent { number, to, news: Arc::new(news) };
            changes.put(&event);
            self.events.insert(number, Arc::new(event));
            told = true;
        }
        for name in self.by_name.keys().cloned().collect::<Vec<_>>() {
            let count = self.drop_refusals(&name, changes);
            if count > 0 {
                *dropped.entry(name).or_default() += count;
            }
        }
        for (name, held) in &self.by_name {
            let overfull = held.queue.len().saturating_sub(limits::WEBHOOK_EVENTS_MAX) as u64;
            if overfull > 0 {
                *dropped.entry(name.clone()).or_default() += overfull;
            }
        }
        for (name, count) in dropped {
            self.cut(&name, count, changes);
        }
        if told {
            changes.changed(Change::Webhooks);
        }
    }

    /// Drops the oldest refusals of clients from a webhook's queue while there are too many, and returns their number.
    fn drop_refusals(&mut self, name: &str, changes: &mut ChangeSet) -> u64 {
        let mut count = 0;
        while let Some(held) = self.by_name.get_mut(name)
            && let Some(number) = held.surplus_refusal()
        {
            held.refusals.pop_front();
            if let Ok(at) = held.queue.binary_search(&number) {
                held.queue.remove(at);
            }
            let id = held.hook.id.clone();
            if let Some(event) = self.events.remove(&number) {
                let mut event = Arc::unwrap_or_clone(event);
                event.to.retain(|to| *to != id);
                if event.to.is_empty() {
                    changes.delete(&event);
                } else {
                    changes.put(&event);
                    self.events.insert(number, Arc::new(event));
                }
            }
            count += 1;
        }
        count
    }

    /// Cuts a webhook's queue to the newest events, and adds the number of dropped ones to its progress.
    fn cut(&mut self, name: &str, dropped: u64, changes: &mut ChangeSet) {
        let Some(held) = self.by_name.get(name) else { return };
        let overfull = held.queue.len().saturating_sub(limits::WEBHOOK_EVENTS_MAX);
        let last = overfull.checked_sub(1).and_then(|at| held.queue.get(at)).copied();
        let mut hook = Webhook::clone(&held.hook);
        hook.progress.dropped += dropped;
        if let Some(last) = last {
            hook.progress.through = last;
            self.pass(name, last, changes);
        }
        self.put(hook, changes);
    }

    /// Removes the events up to a number from a webhook's queue, and returns their count. Events that no webhook waits
    /// for are deleted.
    fn pass(&mut self, name: &str, through: u64, changes: &mut ChangeSet) -> u64 {
        let Some(held) = self.by_name.get_mut(name) else { return 0 };
        let count = held.queue.binary_search(&through).map_or_else(|at| at, |at| at + 1);
        let passed = held.queue.slice(..count);
        let refusals = held.refusals.binary_search(&through).map_or_else(|at| at, |at| at + 1);
        held.refusals = held.refusals.split_off(refusals);
        for number in &passed {
            let is_awaited = self.by_name.values().any(|held| held.queue.binary_search(number).is_ok());
            if !is_awaited && let Some(event) = self.events.remove(number) {
                changes.delete(&*event);
            }
        }
        count as u64
    }

    /// Drops all events from a webhook's queue, undelivered.
    fn drop_all(&mut self, hook: &mut Webhook, changes: &mut ChangeSet) {
        let last = self.by_name.get(hook.name.as_str()).and_then(|held| held.queue.last()).copied();
        if let Some(last) = last {
            hook.progress.dropped += self.pass(&hook.name, last, changes);
            hook.progress.through = last;
        }
    }

    fn put(&mut self, hook: Webhook, changes: &mut ChangeSet) -> Arc<Webhook> {
        changes.put(&hook);
        let hook = Arc::new(hook);
        match self.by_name.get_mut(hook.name.as_str()) {
            Some(held) => held.hook = hook.clone(),
            None => {
                self.by_name.insert(hook.name.as_str().into(), HookQueue::new(hook.clone()));
            }
        }
        hook
    }

    /// Records the leader's results of deliveries; repeated results count once.
    fn record_deliveries(&mut self, ctx: &Ctx, told: &WebhookTold, changes: &mut ChangeSet) -> Outcome {
        let Some(hook) = self.all().find(|hook| hook.id == told.id).cloned() else {
            return Code::NotFoundResource.into();
        };
        let passed = self.pass(&hook.name, told.through, changes);
        if passed == 0 && told.failure.is_none() {
            return Code::NoNeedUpdate.into();
        }
        let given_up = told.given_up.min(passed);
        let delivered = passed - given_up;
        let mut hook = Webhook::clone(&hook);
        let progress = &mut hook.progress;
        progress.through = progress.through.max(told.through);
        progress.delivered += delivered;
        progress.dropped += given_up;
        if delivered > 0 {
            progress.succeeded = Some(ctx.time);
            progress.failing_since = None;
        }
        if let Some(why) = &told.failure {
            progress.failing_since.get_or_insert(ctx.time);
            progress.failed = Some((ctx.time, beginning(why, limits::WEBHOOK_FAILURE_CHARS_MAX)));
        }
        self.put(hook, changes);
        Outcome::default()
    }

    pub(super) fn load(&mut self, hook: Webhook) {
        let name = hook.name.as_str().into();
        self.by_name.insert(name, HookQueue::new(Arc::new(hook)));
    }

    /// Loads a stored row; webhooks are loaded before.
    pub(super) fn load_event(&mut self, event: WebhookEvent) {
        let waits = |hook: &Webhook| hook.progress.through < event.number && event.to.contains(&hook.id);
        let names: Vec<_> = self.all().filter(|hook| waits(hook)).map(|hook| hook.name.clone()).collect();
        for name in names {
            if let Some(held) = self.by_name.get_mut(name.as_str()) {
                held.push(event.number, &event.news);
            }
        }
        self.events.insert(event.number, Arc::new(event));
    }
}

pub(super) fn beginning(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

impl StoredResource for Webhook {
    resource!(WebhookDraft => Entity::Webhook, modified);

    fn find(catalog: &Catalog, _: Op, draft: &WebhookDraft) -> Option<Arc<Webhook>> {
        catalog.webhooks.get(&draft.name).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &WebhookDraft) -> Result<Webhook, Outcome> {
        if draft.url.is_none() || draft.secret.is_none() {
            return Err(Refusal::new(Code::InvalidParameter, "a webhook without a url or a secret").into());
        }
        admits_one_more("webhooks", apply.catalog.webhooks.len(), limits::WEBHOOKS_MAX)?;
        let mut hook = Webhook {
            id: apply.ctx.draw_id(),
            name: draft.name.clone(),
            created: apply.ctx.stamp(),
            ..Webhook::default()
        };
        hook.stamp(apply.ctx);
        draft.lay_over(&mut hook);
        Ok(hook)
    }

    fn before_update(apply: &mut Apply<'_>, _: &Webhook, hook: &mut Webhook) -> Result<(), Outcome> {
        if hook.disabled {
            apply.catalog.webhooks.drop_all(hook, apply.changes);
            hook.progress.failing_since = None;
        }
        Ok(())
    }

    fn put(apply: &mut Apply<'_>, hook: Webhook) -> Arc<Webhook> {
        apply.changes.changed(Change::Webhooks);
        apply.catalog.webhooks.put(hook, apply.changes)
    }

    fn delete(Apply { catalog, changes, .. }: &mut Apply<'_>, old: &Arc<Webhook>) -> Result<(), Outcome> {
        catalog.webhooks.drop_all(&mut Webhook::clone(old), changes);
        catalog.webhooks.by_name.remove(old.name.as_str());
        changes.delete(&**old);
        changes.changed(Change::Webhooks);
        Ok(())
    }
}

impl Apply<'_> {
    pub(super) fn note_told(&mut self, told: &WebhookTold) -> Outcome {
        self.catalog.webhooks.record_deliveries(self.ctx, told, self.changes)
    }

    /// Adds a health change of an instance, queued at the end of the entry.
    pub(super) fn emit_health(&mut self, instance: &Arc<Instance>) {
        if self.catalog.webhooks.is_listening() {
            self.changes.emit_health(instance.clone());
        }
    }

    /// Queues the events of the entry for the subscribed webhooks; the health changes of one service make a single
    /// event.
    pub(super) fn queue_webhook_events(&mut self) {
        let (mut news, changed) = self.changes.take_news();
        let mut by_service: BTreeMap<(&str, &str), Vec<&Instance>> = BTreeMap::new();
        for instance in &changed {
            by_service.entry((&instance.namespace, &instance.service)).or_default().push(instance);
        }
        news.extend(by_service.into_iter().map(|((namespace, service), changed)| {
            let counts = self.catalog.instances.of_service(namespace, service);
            let named = changed.iter().take(limits::WEBHOOK_INSTANCES_MAX);
            let health = HealthNews {
                total: counts.total as u64,
                healthy: counts.healthy as u64,
                changed: changed.len() as u64,
                instances: named.map(|instance| told_of(instance)).collect(),
            };
            News {
                event: HookEvent::Health,
                time: self.ctx.time,
                kind: "service".into(),
                namespace: namespace.to_owned(),
                name: service.to_owned(),
                health: Some(health),
                ..News::default()
            }
        }));
        if !news.is_empty() {
            self.catalog.webhooks.enqueue(self.ctx, news, self.changes);
        }
    }
}

fn told_of(instance: &Instance) -> InstanceNews {
    let Instance { id, host, port, healthy, .. } = instance;
    InstanceNews { id: id.clone(), host: host.clone(), port: *port, healthy: *healthy }
}

/// Disables a webhook in a cluster restored from a backup and resets its progress: the original cluster may still run
/// and notify the same receivers.
pub(super) fn restored(hook: &mut Webhook) {
    hook.disabled = true;
    hook.progress = Progress::default();
}
