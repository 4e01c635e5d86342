//! Queries of the trail: a filter, and a page that is filled while stored rows are walked.

use super::{AuditEvent, AuditRow, Head};
use crate::catalog::Corrupt;
use crate::catalog::page::{Listed, Page};
use crate::catalog::row::Row;
use crate::model::limits;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;

/// Filter of the audit trail; an absent part matches all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub user: Option<NameFilter>,
    pub kind: Option<String>,
    pub namespace: Option<NameFilter>,
    pub name: Option<NameFilter>,
    pub code: Option<u32>,
    /// Earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time, exclusive.
    pub until: Option<Timestamp>,
}

impl Filter {
    /// Reports whether a row written at this time is too late to match, given the largest delay of notes.
    fn is_after(&self, written: Timestamp) -> bool {
        self.until.is_some_and(|until| written >= until.plus_ms(limits::AUDIT_NOTE_LATE_MS_MAX.into()))
    }

    /// Reports whether every row matches.
    pub fn is_open(&self) -> bool {
        let Filter { user, kind, namespace, name, code, since, until } = self;
        let texts = user.is_none() && kind.is_none() && namespace.is_none() && name.is_none();
        texts && code.is_none() && since.is_none() && until.is_none()
    }

    fn passes(&self, event: &AuditEvent) -> bool {
        self.kind.as_ref().is_none_or(|kind| *kind == event.kind)
            && self.code.is_none_or(|code| code == event.code)
            && self.since.is_none_or(|since| event.time >= since)
            && self.until.is_none_or(|until| event.time < until)
            && NameFilter::passes(&self.user, &event.user)
            && NameFilter::passes(&self.namespace, &event.namespace)
            && NameFilter::passes(&self.name, &event.name)
    }
}

/// A page of the trail, filled while its stored rows are walked, newest first.
#[derive(Debug)]
pub struct TrailPage<'a> {
    filter: &'a Filter,
    page: Page,
    walked: u64,
    /// Number of matching events on the page or before it.
    passed: usize,
    listed: Listed<AuditEvent>,
}

/// Continuation of a walk after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    On,
    /// No further row can match.
    Done,
    /// Further rows may match, but the limit of one request is reached.
    TooFar,
}

impl<'a> TrailPage<'a> {
    /// Creates a page. `rows` is the number of all events, which is the amount if there is no filter.
    pub fn new(filter: &'a Filter, page: Page, rows: u64) -> Self {
        let amount = if filter.is_open() { usize::try_from(rows).unwrap_or(usize::MAX) } else { 0 };
        TrailPage { filter, page, walked: 0, passed: 0, listed: Listed::amount(amount) }
    }

    /// Returns the number of the row to start with, if newer ones can be skipped; that requires that there is no
    /// filter.
    pub fn first(&self) -> Option<u64> {
        let [row, ..] = self.page.after().filter(|_| self.filter.is_open())?;
        u64::from_str_radix(row, 16).ok().map(|complement| u64::MAX - complement)
    }

    pub fn take(&mut self, value: &[u8]) -> Result<Walk, Corrupt> {
        let head = Head::of(value)?;
        if self.filter.since.is_some_and(|since| head.written < since) {
            return Ok(Walk::Done);
        }
        if self.filter.is_after(head.written) {
            return Ok(Walk::On);
        }
        if self.walked >= limits::AUDIT_WALK_MAX {
            return Ok(Walk::TooFar);
        }
        self.walked += 1;
        if self.filter.is_open() { self.take_any(head, value) } else { self.take_wanted(value) }
    }

    /// Takes a row without a filter: rows before the page are counted but not read.
    fn take_any(&mut self, head: Head, value: &[u8]) -> Result<Walk, Corrupt> {
        let mut before = self.page.offset;
        if self.first() == Some(head.number) {
            before += AuditRow::read(value)?.events().filter(|event| !self.page.is_behind(event)).count();
        }
        if before >= usize::from(head.items) {
            self.page.offset = before - usize::from(head.items);
            return Ok(Walk::On);
        }
        self.page.offset = 0;
        let room = self.page.limit - self.listed.rows.len();
        self.listed.rows.extend(AuditRow::read(value)?.events().skip(before).take(room));
        Ok(if self.listed.rows.len() < self.page.limit { Walk::On } else { Walk::Done })
    }

    fn take_wanted(&mut self, value: &[u8]) -> Result<Walk, Corrupt> {
        for event in AuditRow::read(value)?.events().filter(|event| self.filter.passes(event)) {
            self.listed.amount += 1;
            if !self.page.is_behind(&event) {
                continue;
            }
            if self.passed >= self.page.offset && self.listed.rows.len() < self.page.limit {
                self.listed.rows.push(event);
            }
            self.passed += 1;
        }
        Ok(Walk::On)
    }

    pub fn listed(self) -> Listed<AuditEvent> {
        let TrailPage { page, listed, .. } = self;
        if page.is_by_key() { Listed::by_key(listed.amount, listed.rows, &page) } else { listed }
    }
}
