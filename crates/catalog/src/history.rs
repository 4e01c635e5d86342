//! Release history of a rule or config file: who did what and when, and from which version to which. Stored with the
//! thing and deleted with it; the newest [`limits::HISTORY_EVENTS_MAX`] events are kept.
//!
//! The audit trail records every request, including refused ones, for administrators. The history records what clients
//! came to see, for all who may see the thing, as long as the thing exists.

use std::borrow::Cow;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};

use super::Corrupt;
use super::change::ChangeSet;
use super::page::{ListKey, Placed, highest_first};
use super::row::{Row, RowKey, Table};
use crate::model::config_file::ConfigKey;
use crate::model::limits;
use crate::model::release::Event;
use crate::model::rule::Family;

/// A thing that has releases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Thing {
    File(ConfigKey),
    /// A rule by family and id.
    Rule(Family, String),
}

/// Stored form of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryRow {
    pub thing: Thing,
    /// Number of the event, counted per thing from 0.
    pub number: u64,
    pub event: Arc<Event>,
}

/// Kind of config files in row keys; a rule has that of its family.
const FILE: &str = "configfile";

impl Row for HistoryRow {
    const TABLE: Table = Table::History;
    fn name(&self, key: &mut RowKey) {
        match &self.thing {
            Thing::File(file) => key.part(FILE).part(&file.namespace).part(&file.group).part(&file.file),
            Thing::Rule(family, id) => key.part(family.kind()).part(id),
        };
        // Fixed width, so that rows are sorted by number.
        key.part(format!("{:016x}", self.number));
    }
}

/// An event in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    number: u64,
    pub event: Arc<Event>,
}

impl Placed for Numbered {
    fn place(&self) -> ListKey<'_> {
        [highest_first(self.number), Cow::default(), Cow::default(), Cow::default()]
    }
}

/// Events of all things.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    by_subject: OrdMap<Arc<Thing>, SubjectEvents>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct SubjectEvents {
    /// Number of the oldest stored event.
    first: u64,
    /// Events, the oldest first.
    events: Vector<Arc<Event>>,
}

impl SubjectEvents {
    fn next(&self) -> u64 {
        self.first.saturating_add(self.events.len() as u64)
    }
}

impl History {
    /// Returns the events of a thing, newest first.
    pub fn of(&self, thing: &Thing) -> impl Iterator<Item = &Arc<Event>> {
        self.by_subject.get(thing).into_iter().flat_map(|of_subject| of_subject.events.iter().rev())
    }

    /// Returns the things that have events, each with its newest one.
    pub fn newest(&self) -> impl Iterator<Item = (&Thing, &Arc<Event>)> {
        self.by_subject.iter().filter_map(|(thing, of_subject)| Some((&**thing, of_subject.events.last()?)))
    }

    /// Returns the events of a thing with their numbers, newest first.
    pub fn numbered(&self, thing: &Thing) -> Vec<Numbered> {
        let Some(of_subject) = self.by_subject.get(thing) else { return Vec::new() };
        let numbered = (of_subject.first..).zip(&of_subject.events);
        let mut all: Vec<_> = numbered.map(|(number, event)| Numbered { number, event: event.clone() }).collect();
        all.reverse();
        all
    }

    pub fn len(&self) -> usize {
        self.by_subject.values().map(|of_subject| of_subject.events.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.by_subject.is_empty()
    }

    /// Adds an event, and deletes the oldest one beyond [`limits::HISTORY_EVENTS_MAX`].
    pub(super) fn add(&mut self, thing: Thing, event: Event, changes: &mut ChangeSet) {
        let number = self.by_subject.get(&thing).map_or(0, SubjectEvents::next);
        let row = HistoryRow { thing, number, event: Arc::new(event) };
        changes.put(&row);
        let thing = Arc::new(row.thing);
        let of_subject = self.by_subject.entry(thing.clone()).or_default();
        of_subject.events.push_back(row.event);
        if of_subject.events.len() > limits::HISTORY_EVENTS_MAX
            && let Some(event) = of_subject.events.pop_front()
        {
            let number = of_subject.first;
            of_subject.first += 1;
            changes.delete(&HistoryRow { thing: Thing::clone(&thing), number, event });
        }
    }

    /// Deletes the history of a thing.
    pub(super) fn forget(&mut self, thing: &Thing, changes: &mut ChangeSet) {
        let Some(of_subject) = self.by_subject.remove(thing) else { return };
        for (number, event) in (of_subject.first..).zip(of_subject.events) {
            changes.delete(&HistoryRow { thing: thing.clone(), number, event });
        }
    }

    /// Loads a stored row. The rows of a thing must be loaded in the order of their numbers.
    pub(super) fn load(&mut self, row: HistoryRow) -> Result<(), Corrupt> {
        let HistoryRow { thing, number, event } = row;
        let of_subject = self.by_subject.entry(Arc::new(thing)).or_default();
        if of_subject.events.is_empty() {
            of_subject.first = number;
        }
        if number != of_subject.next() {
            let expected = of_subject.next();
            return Err(Corrupt(format!("a history has event {number} where {expected} should follow")));
        }
        of_subject.events.push_back(event);
        Ok(())
    }
}
