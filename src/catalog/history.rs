//! Release history of a rule or of a config file: who did what, when, and from which version to which. Kept with the
//! thing, and gone with it; of many events the newest stay, [`limits::HISTORY_EVENTS_MAX`].
//!
//! The audit trail tells of every request, the refused ones too, and is the administrators'. This tells of what
//! clients came to see, to everybody who may see the thing, for as long as there is the thing.

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

/// Something that has releases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Thing {
    File(ConfigKey),
    /// By family and id.
    Rule(Family, String),
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryRow {
    pub thing: Thing,
    /// Counts the events of the thing, from 0.
    pub number: u64,
    pub event: Arc<Event>,
}

/// The kind of config files in keys of rows; a rule's is that of its family.
const FILE: &str = "configfile";

impl Row for HistoryRow {
    const TABLE: Table = Table::History;
    fn name(&self, key: &mut RowKey) {
        match &self.thing {
            Thing::File(file) => key.part(FILE).part(&file.namespace).part(&file.group).part(&file.file),
            Thing::Rule(family, id) => key.part(family.kind()).part(id),
        };
        // As wide as the widest, so that rows come in the order of their numbers.
        key.part(format!("{:016x}", self.number));
    }
}

/// An event where a list has it.
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

/// The events of all things.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    stories: OrdMap<Arc<Thing>, Story>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Story {
    /// The number of the oldest event that is kept.
    first: u64,
    /// From the oldest on.
    events: Vector<Arc<Event>>,
}

impl Story {
    fn next(&self) -> u64 {
        self.first.saturating_add(self.events.len() as u64)
    }
}

impl History {
    /// The events of a thing, newest first.
    pub fn of(&self, thing: &Thing) -> impl Iterator<Item = &Arc<Event>> {
        self.stories.get(thing).into_iter().flat_map(|story| story.events.iter().rev())
    }

    /// The same, each with its number.
    pub fn numbered(&self, thing: &Thing) -> Vec<Numbered> {
        let Some(story) = self.stories.get(thing) else { return Vec::new() };
        let numbered = (story.first..).zip(&story.events);
        let mut all: Vec<_> = numbered.map(|(number, event)| Numbered { number, event: event.clone() }).collect();
        all.reverse();
        all
    }

    pub fn len(&self) -> usize {
        self.stories.values().map(|story| story.events.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.stories.is_empty()
    }

    /// Adds an event, and forgets the oldest one beyond [`limits::HISTORY_EVENTS_MAX`].
    pub(super) fn add(&mut self, thing: Thing, event: Event, changes: &mut ChangeSet) {
        let number = self.stories.get(&thing).map_or(0, Story::next);
        let row = HistoryRow { thing, number, event: Arc::new(event) };
        changes.put(&row);
        let thing = Arc::new(row.thing);
        let story = self.stories.entry(thing.clone()).or_default();
        story.events.push_back(row.event);
        if story.events.len() > limits::HISTORY_EVENTS_MAX
            && let Some(event) = story.events.pop_front()
        {
            let number = story.first;
            story.first += 1;
            changes.delete(&HistoryRow { thing: Thing::clone(&thing), number, event });
        }
    }

    /// The thing is gone.
    pub(super) fn forget(&mut self, thing: &Thing, changes: &mut ChangeSet) {
        let Some(story) = self.stories.remove(thing) else { return };
        for (number, event) in (story.first..).zip(story.events) {
            changes.delete(&HistoryRow { thing: thing.clone(), number, event });
        }
    }

    /// Takes in a stored row; those of a thing come by their numbers.
    pub(super) fn load(&mut self, row: HistoryRow) -> Result<(), Corrupt> {
        let HistoryRow { thing, number, event } = row;
        let story = self.stories.entry(Arc::new(thing)).or_default();
        if story.events.is_empty() {
            story.first = number;
        }
        if number != story.next() {
            let expected = story.next();
            return Err(Corrupt(format!("a history has event {number} where {expected} should follow")));
        }
        story.events.push_back(event);
        Ok(())
    }
}
