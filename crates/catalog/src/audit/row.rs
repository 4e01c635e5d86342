//! Rows of the trail: one for the items of an entry, with a head that can be read alone.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::catalog::Corrupt;
use crate::catalog::page::{ListKey, Placed, highest_first};
use crate::catalog::row::{Row, RowKey, Table, numbered_key};
use crate::format::pack;
use crate::model::code::Code;
use crate::model::limits;
use crate::model::time::Timestamp;

/// Length of the head: number, time, and count of items.
const HEAD_BYTES: usize = 8 + 8 + 1;

/// Row of the audit trail: what one log entry did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Number in the head of the stored form, like `written`.
    #[serde(skip)]
    pub(super) number: u64,
    #[serde(skip)]
    pub(crate) written: Timestamp,
    /// Delay between the event and its writing, in milliseconds.
    pub(super) late_ms: u32,
    pub(super) user: String,
    pub(super) token: String,
    pub(super) address: Option<IpAddr>,
    pub(super) action: Cow<'static, str>,
    pub(super) request: String,
    pub(super) items: Vec<AuditItem>,
    #[serde(skip)]
    pub(super) mutes_refusals: bool,
}

/// One thing that an entry was about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditItem {
    pub(super) kind: Cow<'static, str>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) code: u32,
    pub(super) before: String,
    pub(super) after: String,
    /// Number of occurrences that this item represents.
    pub(super) count: u32,
}

/// Event on a node that is not a command, such as a refused request or a membership change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditNote {
    pub time: Timestamp,
    pub user: String,
    pub token: String,
    pub address: Option<IpAddr>,
    pub action: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub code: u32,
    pub request: String,
    /// Number of occurrences.
    pub count: u32,
}

impl AuditNote {
    /// Returns a note of a request that was refused before it became a command.
    pub fn refused(kind: &str, name: &str, code: Code) -> AuditNote {
        AuditNote::of("refused", kind, name, code)
    }

    /// Returns a note of an action on a thing, without its caller.
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

/// One item with all known details: a row of the list.
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
    /// Number of its stored row, and its position in that row.
    pub(super) number: (u64, usize),
}

/// Places an event by its number, newest first.
impl Placed for AuditEvent {
    fn place(&self) -> ListKey<'_> {
        let (row, item) = self.number;
        [highest_first(row), highest_first(item as u64), Cow::default(), Cow::default()]
    }
}

impl Row for AuditRow {
    const TABLE: Table = Table::Audit;
    fn name(&self, key: &mut RowKey) {
        key.part(self.number.to_be_bytes());
    }

    /// Writes the head first, so that it can be read without the rest.
    fn put_body(&self, out: &mut Vec<u8>) {
        let items = u8::try_from(self.items.len()).expect("no more than a row has room for");
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.written.0.to_be_bytes());
        out.push(items);
        pack::put_dense(self, out);
    }

    fn of_body(body: &[u8]) -> Result<Self, String> {
        let head = Head::of_body(body).ok_or("shorter than its head")?;
        let row: AuditRow = pack::from_bytes(&body[HEAD_BYTES..]).map_err(|error| error.to_string())?;
        Ok(AuditRow { number: head.number, written: head.written, ..row })
    }
}

/// Returns the key of a row.
pub fn key(number: u64) -> [u8; 9] {
    numbered_key(Table::Audit, number)
}

/// Head of a stored row, which is read without the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub number: u64,
    pub written: Timestamp,
    pub(super) items: u8,
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

/// Outcome of one requested item, for the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedItem {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub code: Code,
    /// Revision or version in force before and after.
    pub before: String,
    pub after: String,
}

impl AuditRow {
    /// Returns the row of a note that is written at a given time.
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

    /// Returns the time of the event.
    fn time(&self) -> Timestamp {
        Timestamp(self.written.0.saturating_sub(self.late_ms.into()))
    }

    /// Returns the items, the last one first.
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
    pub(super) fn of(item: AuditedItem) -> AuditItem {
        let AuditedItem { kind, namespace, name, code, before, after } = item;
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

/// Cuts a text to the limit of the trail, in characters.
pub(super) fn cut(mut text: String) -> String {
    if text.len() <= limits::AUDIT_TEXT_CHARS_MAX {
        return text;
    }
    if let Some((end, _)) = text.char_indices().nth(limits::AUDIT_TEXT_CHARS_MAX) {
        text.truncate(end);
    }
    text
}
