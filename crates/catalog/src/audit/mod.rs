//! The audit trail: who requested what, from where, and with which result. Written with the entry that it describes,
//! retained for a number of days and rows ([`Settings`]), and never with a secret or a body.
//!
//! One stored row has the items of one entry, under its own number. Numbers have no gaps, and the newest row is never
//! removed, so no number is reused. In memory is only the number of items of each row, which pruning needs: a trail of
//! a million rows takes a million bytes. Queries walk the stored rows, newest first ([`Filter`], [`TrailPage`]).
//!
//! Each entry prunes at most [`limits::AUDIT_PRUNED_PER_ENTRY_MAX`] stored rows, so an entry after a long pause, or
//! after the settings were lowered, costs little more than any other.

mod listing;
pub(super) mod row;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem;

pub use listing::{Filter, TrailPage, Walk};
use row::cut;
pub use row::{AuditEvent, AuditItem, AuditNote, AuditRow, AuditedItem, Head, key};

use super::authorization::Principal;
use super::change::{ChangeSet, Outcome};
use super::command::{AuthorizedCommand, Command};
use super::ctx::{Apply, Ctx};
use super::row::Edit;
use super::{Catalog, Corrupt};
use crate::model::code::Code;
use crate::model::limits;
use crate::model::settings::Settings;
use crate::model::time::Timestamp;

impl AuditRow {
    /// Returns the row of an entry, without its items.
    pub(super) fn of_entry(ctx: &Ctx, action: &'static str) -> AuditRow {
        let user = cut(ctx.by.clone());
        AuditRow { written: ctx.time, user, action: Cow::Borrowed(action), ..AuditRow::default() }
    }

    /// Returns the row of a caller's command, without its items; takes the request id out of the command.
    pub(super) fn of_asked(ctx: &Ctx, principal: &Principal, asked: &mut AuthorizedCommand) -> AuditRow {
        let user = match principal {
            Principal::Holder(holder) => holder.name.clone(),
            Principal::Cluster | Principal::Stranger | Principal::Gone => cut(ctx.by.clone()),
        };
        // A login is identified by the token that it issues.
        let token = match &asked.command {
            Command::SignIn { hash, .. } => hash.id(),
            _ => asked.credential.token_id(),
        };
        AuditRow {
            written: ctx.time,
            user,
            token: token.to_owned(),
            address: asked.address,
            action: Cow::Borrowed(asked.command.action(asked.self_registration)),
            request: cut(mem::take(&mut asked.request)),
            mutes_refusals: asked.mutes_refusals,
            ..AuditRow::default()
        }
    }
}

/// Returns the items of a row: one per audited item, but only one for all refusals of a kind, so that a batch of
/// refused items does not push other rows out of the trail. Muted refusals are left out.
fn audit_items(audited: Vec<AuditedItem>, mutes_refusals: bool) -> Vec<AuditItem> {
    let is_refused = |code: Code| matches!(code, Code::NotAllowedAccess | Code::TokenNotExisted);
    let mut items: Vec<AuditItem> = Vec::with_capacity(audited.len());
    for one in audited.into_iter().filter(|one| !(mutes_refusals && is_refused(one.code))) {
        let is_alike = |item: &&mut AuditItem| item.kind == one.kind && item.code == one.code.number();
        match items.iter_mut().find(is_alike).filter(|_| is_refused(one.code)) {
            Some(known) => known.count = known.count.saturating_add(1),
            None => items.push(AuditItem::of(one)),
        }
    }
    items
}

impl Catalog {
    /// Reports whether the trail records registrations of instances and changes of their health.
    pub(super) fn tells_of_instances(&self) -> bool {
        self.settings.audit_instances > 0
    }
}

impl Apply<'_> {
    /// Adds the row of an entry to the trail, unless it is about instances and these are not recorded.
    pub(super) fn write_down(&mut self, head: AuditRow, is_of_instances: bool) {
        let audited = self.changes.take_audited();
        let is_wanted = !is_of_instances || self.catalog.tells_of_instances();
        if audited.is_empty() || !is_wanted {
            return;
        }
        let mut items = audit_items(audited, head.mutes_refusals);
        if items.is_empty() {
            return;
        }
        while items.len() > limits::AUDIT_ROW_ITEMS_MAX {
            let further = items.split_off(limits::AUDIT_ROW_ITEMS_MAX);
            self.catalog.trail.add(AuditRow { items: mem::replace(&mut items, further), ..head.clone() }, self.changes);
        }
        self.catalog.trail.add(AuditRow { items, ..head }, self.changes);
    }

    pub(super) fn note(&mut self, notes: Vec<AuditNote>) -> Outcome {
        for note in notes.into_iter().take(limits::AUDIT_NOTES_MAX) {
            self.catalog.trail.add(AuditRow::of_note(self.ctx.time, note), self.changes);
        }
        Outcome::default()
    }
}

/// Summary of the stored rows, for pruning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trail {
    /// Number of the oldest row.
    first: u64,
    /// Number of items of each row, the oldest first.
    items: VecDeque<u8>,
    /// Days on which rows were written, with the number of stored rows of each.
    days: VecDeque<(u64, u64)>,
    /// Number of all items.
    rows: u64,
}

impl Trail {
    /// Returns the number of items in all rows; each is one row of the list.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn next(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    fn add(&mut self, row: AuditRow, changes: &mut ChangeSet) {
        let row = AuditRow { number: self.next(), ..row };
        self.count(row.written, u8::try_from(row.items.len()).unwrap_or(u8::MAX));
        changes.write_down(row);
    }

    fn count(&mut self, written: Timestamp, items: u8) {
        self.items.push_back(items);
        self.rows += u64::from(items);
        match self.days.back_mut() {
            Some((day, rows)) if *day >= written.day() => *rows += 1,
            _ => self.days.push_back((written.day(), 1)),
        }
    }

    /// Loads a stored row. Rows must be loaded in the order of their numbers.
    pub(super) fn load(&mut self, value: &[u8]) -> Result<(), Corrupt> {
        let head = Head::of(value)?;
        if self.items.is_empty() {
            self.first = head.number;
        }
        if head.number != self.next() {
            let (expected, found) = (self.next(), head.number);
            return Err(Corrupt(format!("the audit trail has row {found} where {expected} should follow")));
        }
        self.count(head.written, head.items);
        Ok(())
    }

    /// Removes rows that are too old or too many, a bounded number at a time.
    pub(super) fn prune(&mut self, now: Timestamp, settings: &Settings, changes: &mut ChangeSet) {
        for _ in 0..limits::AUDIT_PRUNED_PER_ENTRY_MAX {
            let is_old = self.days.front().is_some_and(|(day, _)| day + settings.audit_kept_days < now.day());
            let is_surplus = self.rows > settings.audit_kept_rows;
            if self.items.len() <= 1 || !(is_old || is_surplus) {
                return;
            }
            changes.forget(Edit { key: key(self.first).to_vec(), value: None });
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let items = self.items.pop_front().unwrap_or_default();
        self.rows -= u64::from(items);
        self.first += 1;
        if let Some((_, rows)) = self.days.front_mut() {
            *rows -= 1;
            if *rows == 0 {
                self.days.pop_front();
            }
        }
    }
}
