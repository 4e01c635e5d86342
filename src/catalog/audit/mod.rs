//! The audit trail: who asked for what, from where, and what came of it. Written with the entry that it
//! tells of, kept for so many days and so many rows ([`Settings`]), and never with a secret or a body.
//!
//! One stored row holds the items of one entry under its own number; the numbers have no gap, and the
//! newest row always stays, so that none is used twice. In memory there is of each row only how many items
//! it has, which is what pruning has to know: a trail of a million rows takes a million bytes. Who reads the
//! trail walks the stored rows, newest first ([`Filter`], [`TrailPage`]).
//!
//! Pruning follows the entries: each removes [`limits::AUDIT_PRUNED_PER_ENTRY_MAX`] stored rows at most, so
//! one that comes after a long pause, or after the settings were lowered, costs little more than any other.

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
use super::ctx::Ctx;
use super::row::Edit;
use super::{Catalog, Corrupt};
use crate::model::code::Code;
use crate::model::limits;
use crate::model::settings::Settings;
use crate::model::time::Timestamp;

impl AuditRow {
    /// Of an entry, without its items.
    pub(super) fn of_entry(ctx: &Ctx, action: &'static str) -> AuditRow {
        let user = cut(ctx.by.clone());
        AuditRow { written: ctx.time, user, action: Cow::Borrowed(action), ..AuditRow::default() }
    }

    /// The same of what was asked for; takes the id of the request out of it.
    pub(super) fn of_asked(ctx: &Ctx, principal: &Principal, asked: &mut AuthorizedCommand) -> AuditRow {
        let user = match principal {
            Principal::Holder(holder) => holder.name.clone(),
            Principal::Cluster | Principal::Stranger | Principal::Gone => cut(ctx.by.clone()),
        };
        // A login is known by the token that it gives out.
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

/// Items of a row: one for each that was audited, and one for all refusals of a kind: whoever is refused a hundred
/// times in one batch pushes no hundred rows out of the trail. None of them where they are muted.
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
    /// True if the trail has what instances say of themselves, and what their heartbeats show.
    pub(super) fn tells_of_instances(&self) -> bool {
        self.settings.audit_instances > 0
    }

    /// Writes down what the entry did under `head`, unless it is of instances and nobody wants to know.
    pub(super) fn write_down(&mut self, head: AuditRow, is_of_instances: bool, changes: &mut ChangeSet) {
        let audited = changes.take_audited();
        let is_wanted = !is_of_instances || self.tells_of_instances();
        if audited.is_empty() || !is_wanted {
            return;
        }
        let mut items = audit_items(audited, head.mutes_refusals);
        if items.is_empty() {
            return;
        }
        while items.len() > limits::AUDIT_ROW_ITEMS_MAX {
            let further = items.split_off(limits::AUDIT_ROW_ITEMS_MAX);
            self.trail.add(AuditRow { items: mem::replace(&mut items, further), ..head.clone() }, changes);
        }
        self.trail.add(AuditRow { items, ..head }, changes);
    }

    pub(super) fn note(&mut self, ctx: &Ctx, notes: Vec<AuditNote>, changes: &mut ChangeSet) -> Outcome {
        for note in notes.into_iter().take(limits::AUDIT_NOTES_MAX) {
            self.trail.add(AuditRow::of_note(ctx.time, note), changes);
        }
        Outcome::default()
    }
}

/// Summary of the stored rows that pruning needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trail {
    /// The number of the oldest row.
    first: u64,
    /// Number of items of each row, from the oldest on.
    items: VecDeque<u8>,
    /// The days on which something was written, and how many stored rows.
    days: VecDeque<(u64, u64)>,
    /// All items.
    rows: u64,
}

impl Trail {
    /// Items of all rows, each of which is a row of the list.
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

    /// Takes in a stored row; they come by their numbers.
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

    /// Removes what is too old or too much, a bounded number at a time.
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
