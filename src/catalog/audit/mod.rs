//! The audit trail: who asked for what, from where, and what came of it. Written with the entry that it
//! tells of, kept for so many days and so many rows ([`Settings`]), and never with a secret or a body.
//!
//! One stored row holds the items of one entry under its own number; the numbers have no gap, and the
//! newest row always stays, so that none is used twice. In memory there is of each row only how many items
//! it has, which is what pruning has to know: a trail of a million rows takes a million bytes. Who reads the
//! trail walks the stored rows, newest first ([`Filter`], [`Gathered`]).
//!
//! Pruning follows the entries: each removes [`limits::AUDIT_PRUNED_PER_ENTRY_MAX`] stored rows at most, so
//! one that comes after a long pause, or after the settings were lowered, costs little more than any other.

mod listing;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use listing::{Filter, Gathered, Walk};

use super::authorization::{AuthorizedCommand, Principal};
use super::change::{AuditedItem, ChangeSet, Outcome};
use super::command::Command;
use super::ctx::Ctx;
use super::page::{Place, Placed, highest_first};
use super::row::{Edit, Key, Row, Table, numbered_key};
use super::{Catalog, Corrupt};
use crate::format::level::Level;
use crate::format::pack;
use crate::model::code::Code;
use crate::model::limits;
use crate::model::settings::Settings;
use crate::model::time::Timestamp;

/// Number, time, and how many items.
const HEAD_BYTES: usize = 8 + 8 + 1;

/// Row of the audit trail: what one log entry did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// In the head of the stored form, as is when it was written.
    #[serde(skip)]
    number: u64,
    #[serde(skip)]
    written: Timestamp,
    /// Milliseconds by which it happened before it was written.
    late_ms: u32,
    user: String,
    token: String,
    address: Option<IpAddr>,
    action: Cow<'static, str>,
    request: String,
    items: Vec<AuditItem>,
    #[serde(skip)]
    mutes_refusals: bool,
}

/// One thing that an entry was about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditItem {
    kind: Cow<'static, str>,
    namespace: String,
    name: String,
    code: u32,
    before: String,
    after: String,
    /// Number of times that it happened, where it is reported once.
    count: u32,
}

/// Event that a node saw and that is no command: a refusal at the door, a change of the membership.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditNote {
    pub time: Timestamp,
    pub user: String,
    pub token: String,
    pub address: Option<IpAddr>,
    pub action: String,
    pub kind: String,
    /// From [`Level::RIGHTS`] on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub code: u32,
    pub request: String,
    /// Number of times that it happened.
    pub count: u32,
}

impl AuditNote {
    /// Something was refused before it became a command.
    pub fn refused(kind: &str, name: &str, code: Code) -> AuditNote {
        AuditNote::of("refused", kind, name, code)
    }

    /// Note of an action and what it was done to, when nothing is known of the caller.
    pub fn of(action: &str, kind: &str, name: &str, code: Code) -> AuditNote {
        AuditNote {
            action: action.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            code: code.number(),
            ..AuditNote::default()
        }
    }
}

/// One item with all that is known of it: a row of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    pub time: Timestamp,
    pub user: String,
    pub token: String,
    pub address: Option<IpAddr>,
    pub action: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub namespace: String,
    pub name: String,
    pub code: u32,
    pub request: String,
    pub before: String,
    pub after: String,
    pub count: u32,
    /// That of its stored row, and its own among those of the row.
    pub(super) number: (u64, usize),
}

/// By its number, the newest first.
impl Placed for AuditEvent {
    fn place(&self) -> Place<'_> {
        let (row, item) = self.number;
        [highest_first(row), highest_first(item as u64), Cow::default(), Cow::default()]
    }
}

impl Row for AuditRow {
    const TABLE: Table = Table::Audit;
    fn name(&self, key: &mut Key) {
        key.part(self.number.to_be_bytes());
    }

    /// The head stands in front, for who needs no more than that of very many.
    fn put_body(&self, _: u8, out: &mut Vec<u8>) {
        let items = u8::try_from(self.items.len()).expect("no more than a row has room for");
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.written.0.to_be_bytes());
        out.push(items);
        pack::put_dense(self, out);
    }

    fn of_body(_: u8, body: &[u8]) -> Result<Self, String> {
        let head = Head::of_body(body).ok_or("shorter than its head")?;
        let row: AuditRow = pack::from_bytes(&body[HEAD_BYTES..]).map_err(|error| error.to_string())?;
        Ok(AuditRow { number: head.number, written: head.written, ..row })
    }
}

/// The key of a row.
pub fn key(number: u64) -> [u8; 9] {
    numbered_key(Table::Audit, number)
}

/// Part of a stored row that is known without reading all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub number: u64,
    pub written: Timestamp,
    items: u8,
}

impl Head {
    pub fn of(value: &[u8]) -> Result<Head, Corrupt> {
        value.get(1..).and_then(Head::of_body).ok_or_else(|| Corrupt("a row of the audit trail has no head".to_owned()))
    }

    fn of_body(body: &[u8]) -> Option<Head> {
        let number = |from: usize| Some(u64::from_be_bytes(body.get(from..from + 8)?.try_into().ok()?));
        Some(Head { number: number(0)?, written: Timestamp(number(8)?), items: *body.get(16)? })
    }
}

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
            action: Cow::Borrowed(asked.command.action(asked.itself)),
            request: cut(mem::take(&mut asked.request)),
            mutes_refusals: asked.mutes_refusals,
            ..AuditRow::default()
        }
    }

    /// Of a note that is written down at a time.
    pub fn of_note(written: Timestamp, note: AuditNote) -> AuditRow {
        let late_ms = written.0.saturating_sub(note.time.0).min(limits::AUDIT_NOTE_LATE_MS_MAX.into());
        let AuditNote { time: _, user, token, address, action, kind, namespace, name, code, request, count } = note;
        let (kind, action) = (Cow::Owned(cut(kind)), Cow::Owned(cut(action)));
        let (namespace, name, none) = (cut(namespace), cut(name), String::new);
        let item = AuditItem { kind, namespace, name, code, before: none(), after: none(), count };
        AuditRow {
            late_ms: u32::try_from(late_ms).unwrap_or(u32::MAX),
            user: cut(user),
            token: cut(token),
            address,
            action,
            request: cut(request),
            items: vec![item],
            written,
            ..AuditRow::default()
        }
    }

    /// Time at which it happened.
    fn time(&self) -> Timestamp {
        Timestamp(self.written.0.saturating_sub(self.late_ms.into()))
    }

    /// Its items, the last one first.
    pub fn events(&self) -> impl Iterator<Item = AuditEvent> {
        self.items.iter().enumerate().rev().map(|(number, item)| self.event(number, item))
    }

    fn event(&self, number: usize, item: &AuditItem) -> AuditEvent {
        let AuditItem { kind, namespace, name, code, before, after, count } = item.clone();
        AuditEvent {
            time: self.time(),
            user: self.user.clone(),
            token: self.token.clone(),
            address: self.address,
            action: self.action.clone(),
            kind,
            namespace,
            name,
            code,
            request: self.request.clone(),
            before,
            after,
            count,
            number: (self.number, number),
        }
    }
}

impl AuditItem {
    fn of(deed: AuditedItem) -> AuditItem {
        let AuditedItem { kind, namespace, name, code, before, after } = deed;
        AuditItem {
            kind: Cow::Borrowed(kind),
            namespace: cut(namespace),
            name: cut(name),
            code: code.number(),
            before: cut(before),
            after: cut(after),
            count: 1,
        }
    }
}

/// An item for each deed, and one for all refusals of a kind: whoever is refused a hundred times in one batch pushes no
/// hundred rows out of the trail. None of them where they are muted.
fn told(deeds: Vec<AuditedItem>, mutes_refusals: bool) -> Vec<AuditItem> {
    let is_refused = |code: Code| matches!(code, Code::NotAllowedAccess | Code::TokenNotExisted);
    let mut items: Vec<AuditItem> = Vec::with_capacity(deeds.len());
    for deed in deeds.into_iter().filter(|deed| !(mutes_refusals && is_refused(deed.code))) {
        let is_alike = |item: &&mut AuditItem| item.kind == deed.kind && item.code == deed.code.number();
        match items.iter_mut().find(is_alike).filter(|_| is_refused(deed.code)) {
            Some(known) => known.count = known.count.saturating_add(1),
            None => items.push(AuditItem::of(deed)),
        }
    }
    items
}

/// A text of no more characters than the trail takes.
fn cut(mut text: String) -> String {
    if text.len() <= limits::AUDIT_TEXT_CHARS_MAX {
        return text;
    }
    if let Some((end, _)) = text.char_indices().nth(limits::AUDIT_TEXT_CHARS_MAX) {
        text.truncate(end);
    }
    text
}

impl Catalog {
    /// True if the trail has what instances say of themselves, and what their heartbeats show.
    pub(super) fn tells_of_instances(&self) -> bool {
        self.settings.audit_instances > 0 && self.level() >= Level::TRUST
    }

    /// Writes down what the entry did under `head`, unless it is of instances and nobody wants to know.
    pub(super) fn write_down(&mut self, head: AuditRow, is_of_instances: bool, changes: &mut ChangeSet) {
        let deeds = changes.take_deeds();
        let is_wanted = !is_of_instances || self.tells_of_instances();
        if deeds.is_empty() || changes.level() < Level::TRUST || !is_wanted {
            return;
        }
        let mut items: Vec<_> = match changes.level() >= Level::RIGHTS {
            true => told(deeds, head.mutes_refusals),
            false => deeds.into_iter().map(AuditItem::of).collect(),
        };
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
        if changes.level() >= Level::TRUST {
            for note in notes.into_iter().take(limits::AUDIT_NOTES_MAX) {
                self.trail.add(AuditRow::of_note(ctx.time, note), changes);
            }
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
