//! Releases over time: a lane for each release that was recently active, and a mark for each event.
//!
//! Events are equally spaced, so releases a year apart and a minute apart are equally readable.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::percent;
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::console::texts::{self, Texts};
use crate::model::release::{Action, Event, ReleaseType};
use crate::model::time::Timestamp;
use crate::model::wire::Words;

/// Maximum number of events drawn, newest first.
const EVENTS_MAX: usize = 14;
/// Maximum number of lanes, newest release first.
const LANES_MAX: usize = 6;
/// Height of a lane in pixels.
const LANE: usize = 26;

/// A row of the history.
pub(in crate::console) struct EventRow {
    pub(in crate::console) time: Timestamp,
    pub(in crate::console) user: String,
    action: Action,
    pub(in crate::console) release: String,
    pub(in crate::console) version: u64,
    pub(in crate::console) from_version: u64,
    pub(in crate::console) comment: String,
}

impl EventRow {
    fn new(event: &Event) -> EventRow {
        EventRow {
            time: event.time,
            user: event.user.clone(),
            action: event.action,
            release: event.release_name.clone(),
            version: event.version,
            from_version: event.from_version,
            comment: event.comment.clone(),
        }
    }

    /// Describes the act of the user.
    pub(in crate::console) fn word(&self, t: &Texts) -> &'static str {
        texts::done(t, self.action)
    }
}

/// Events of an object, newest first, and their picture.
#[derive(Default)]
pub(in crate::console) struct History {
    pub(in crate::console) rows: Vec<EventRow>,
    pub(in crate::console) timeline: Timeline,
}

impl History {
    pub(in crate::console) fn of(catalog: &Catalog, thing: &Thing) -> History {
        let events: Vec<_> = catalog.history.of(thing).cloned().collect();
        let drawn: Vec<_> = events.iter().take(EVENTS_MAX).rev().cloned().collect();
        History {
            rows: events.iter().map(|event| EventRow::new(event)).collect(),
            timeline: Timeline::of(&drawn, &InForce::now(catalog, thing)),
        }
    }
}

/// Positions and texts of the picture.
#[derive(Debug, Default, PartialEq)]
pub(in crate::console) struct Timeline {
    pub(in crate::console) lanes: Vec<Lane>,
    pub(in crate::console) marks: Vec<Mark>,
    /// Times of the first and the last event.
    pub(in crate::console) span: Option<(Timestamp, Timestamp)>,
}

/// One release.
#[derive(Debug, PartialEq)]
pub(in crate::console) struct Lane {
    pub(in crate::console) title: String,
    pub(in crate::console) top: usize,
    pub(in crate::console) bars: Vec<Bar>,
}

/// Period in which it was active, for all clients or for some.
#[derive(Debug, PartialEq)]
pub(in crate::console) struct Bar {
    pub(in crate::console) from: String,
    pub(in crate::console) width: String,
    pub(in crate::console) is_gray: bool,
}

/// One event.
#[derive(Debug, PartialEq)]
pub(in crate::console) struct Mark {
    pub(in crate::console) at: String,
    pub(in crate::console) top: usize,
    pub(in crate::console) class: &'static str,
    /// SVG path of its shape around the origin.
    pub(in crate::console) shape: &'static str,
    pub(in crate::console) title: String,
}

/// Active normal version and active gray versions between two events.
#[derive(Clone, Debug, Default, PartialEq)]
struct InForce {
    normal: u64,
    grays: BTreeSet<u64>, // bound: request
}

impl InForce {
    fn now(catalog: &Catalog, thing: &Thing) -> InForce {
        let is_gray = |release_type: ReleaseType, active: bool| active && release_type == ReleaseType::Gray;
        let grays = match thing {
            Thing::File(key) => {
                let grays =
                    catalog.configs.versions_of(key).into_iter().filter(|one| is_gray(one.release_type, one.active));
                grays.map(|one| one.version).collect()
            }
            Thing::Rule(family, id) => {
                let releases = catalog.rules.of(*family).releases_of(id);
                releases.filter(|one| is_gray(one.release_type, one.active)).map(|one| one.version).collect()
            }
        };
        InForce { normal: catalog.version_of(thing), grays }
    }
}

impl Timeline {
    /// Draws events, oldest first, up to the present state.
    fn of(events: &[Arc<Event>], now: &InForce) -> Timeline {
        let spans = in_force(events, now);
        let versions: BTreeSet<_> =
            spans.iter().flat_map(|span| span.grays.iter().copied().chain([span.normal])).collect();
        let shown: Vec<_> = versions.into_iter().rev().filter(|version| *version > 0).take(LANES_MAX).collect();
        let lanes = shown.iter().enumerate().map(|(row, version)| {
            let bars = spans.iter().enumerate().filter_map(|(at, span)| {
                let is_gray = span.grays.contains(version);
                let width = percent(place(at + 1, events.len()) - place(at, events.len()));
                (is_gray || span.normal == *version).then(|| Bar {
                    from: percent(place(at, events.len())),
                    width,
                    is_gray,
                })
            });
            Lane { title: name_of(events, *version), top: row * LANE, bars: bars.collect() }
        });
        let marks = events.iter().enumerate().map(|(at, event)| {
            let row = shown.iter().position(|version| *version == event.version).unwrap_or(shown.len());
            let (class, shape) = look(event.action);
            let by = format!("{}, {}", event.user, event.time.text());
            let comment = if event.comment.is_empty() { String::new() } else { format!(": {}", event.comment) };
            Mark {
                at: percent(place(at, events.len())),
                top: row * LANE,
                class,
                shape,
                title: format!("{} {} ({by}){comment}", event.action.word(), name_of(events, event.version)),
            }
        });
        let span = events.first().zip(events.last()).map(|(first, last)| (first.time, last.time));
        Timeline { lanes: lanes.collect(), marks: marks.collect(), span }
    }

    /// Returns the height of the picture in pixels.
    pub(in crate::console) fn height(&self) -> usize {
        let lowest = self.marks.iter().map(|mark| mark.top + LANE).max().unwrap_or_default();
        lowest.max(self.lanes.len() * LANE)
    }
}

/// Returns the position of an event in percent of the width; one past the last event is the right edge.
fn place(at: usize, events: usize) -> f64 {
    const LEFT: f64 = 1.5;
    LEFT + (100.0 - LEFT) * at as f64 / events.max(1) as f64
}

fn name_of(events: &[Arc<Event>], version: u64) -> String {
    let named = events.iter().rev().find(|event| event.version == version);
    named.map_or_else(|| format!("v{version}"), |event| crate::console::releases::called(&event.release_name, version))
}

/// Returns the state after each event. An event of a normal release has the previous version. A promotion has the
/// version that it makes, but not the gray version that it ends: that is one which no other event ends and which is
/// inactive now.
fn in_force(events: &[Arc<Event>], now: &InForce) -> Vec<InForce> {
    let mut grays = BTreeSet::new();
    let after = |(at, event): (usize, &Arc<Event>)| {
        match event.action {
            Action::Gray => drop(grays.insert(event.version)),
            // The gray release began before the first event drawn.
            Action::RolloutStep | Action::RolloutPaused | Action::RolloutResumed => drop(grays.insert(event.version)),
            Action::Schedule | Action::Failed => {}
            Action::Promote => {
                let is_told = |version: &u64| events[at + 1..].iter().any(|later| later.version == *version);
                grays.retain(|version| now.grays.contains(version) || is_told(version));
            }
            _ => drop(grays.remove(&event.version)),
        }
        let normal = events.get(at + 1).map_or(now.normal, |next| next.from_version);
        InForce { normal, grays: grays.clone() }
    };
    events.iter().enumerate().map(after).collect()
}

/// Returns class and shape of a mark: a disc or an arrow to the right for a start, a cross for an end, a square for a
/// wait.
fn look(action: Action) -> (&'static str, &'static str) {
    const DISC: &str = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z";
    const DIAMOND: &str = "M0-6l6 6l-6 6l-6-6z";
    const ONWARD: &str = "M-4-6l9 6l-9 6z";
    const BACK: &str = "M4-6l-9 6l9 6z";
    const CROSS: &str = "M-5-7l5 5l5-5l2 2l-5 5l5 5l-2 2l-5-5l-5 5l-2-2l5-5l-5-5z";
    const SQUARE: &str = "M-4-4h8v8h-8z";
    match action {
        Action::Publish => ("good", DISC),
        Action::Gray => ("warn", DIAMOND),
        Action::Promote => ("good", ONWARD),
        Action::RolloutStep | Action::RolloutResumed => ("warn", ONWARD),
        Action::Rollback => ("held", BACK),
        Action::Schedule | Action::RolloutPaused => ("held", SQUARE),
        Action::Stop | Action::Withdraw | Action::Delete => ("held", CROSS),
        Action::Failed | Action::RolloutStopped => ("fault", CROSS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    fn event(action: Action, version: u64, from_version: u64) -> Arc<Event> {
        Arc::new(Event {
            time: Timestamp(version),
            user: "ann".to_owned(),
            action,
            release_name: format!("v{version}"),
            version,
            from_version,
            comment: String::new(),
        })
    }

    fn now(normal: u64) -> InForce {
        InForce { normal, ..InForce::default() }
    }

    #[test]
    fn a_promotion_ends_the_gray_release_that_it_was_made_of() {
        let events = [
            event(Action::Gray, 1, 0),
            event(Action::Gray, 2, 0),
            event(Action::Promote, 3, 0),
            event(Action::Stop, 2, 3),
        ];
        let lanes = |now: &InForce| -> Vec<(String, usize)> {
            let timeline = Timeline::of(&events[..if now.grays.is_empty() { 4 } else { 3 }], now);
            timeline.lanes.into_iter().map(|lane| (lane.title, lane.bars.len())).collect()
        };
        let told =
            |counts: [usize; 3]| ["v3", "v2", "v1"].map(str::to_owned).into_iter().zip(counts).collect::<Vec<_>>();
        assert_eq!(lanes(&now(3)), told([2, 2, 2]), "the other goes on until it is stopped");
        assert_eq!(lanes(&InForce { normal: 3, grays: [2].into() }), told([1, 2, 2]), "or is in force now");
    }

    #[test]
    fn lanes_say_what_was_in_force_between_events() {
        let events = [
            event(Action::Publish, 1, 0),
            event(Action::Gray, 2, 1),
            event(Action::RolloutStopped, 2, 1),
            event(Action::Publish, 3, 1),
        ];
        let timeline = Timeline::of(&events, &now(3));
        let bars = |lane: &Lane| lane.bars.iter().map(|bar| (bar.from.clone(), bar.is_gray)).collect::<Vec<_>>();
        let at = |at| percent(place(at, 4));
        let lanes: Vec<_> = timeline.lanes.iter().map(|lane| (lane.title.as_str(), bars(lane))).collect();
        assert_eq!(
            lanes,
            [
                ("v3", vec![(at(3), false)]),
                ("v2", vec![(at(1), true)]),
                ("v1", vec![(at(0), false), (at(1), false), (at(2), false)]),
            ]
        );
        let tops: Vec<_> = timeline.marks.iter().map(|mark| (mark.class, mark.top / LANE)).collect();
        assert_eq!(tops, [("good", 2), ("warn", 1), ("fault", 1), ("good", 0)]);
        assert_eq!(timeline.height(), 3 * LANE);
        assert!(timeline.marks[2].title.starts_with("rollout_stopped v2 (ann, "), "{:?}", timeline.marks[2]);
    }

    #[test]
    fn a_thing_without_events_has_no_picture() {
        assert_eq!(Timeline::of(&[], &now(0)), Timeline::default());
        // A withdrawn release is inactive.
        let timeline = Timeline::of(&[event(Action::Publish, 1, 0), event(Action::Withdraw, 1, 1)], &now(0));
        assert_eq!(timeline.lanes[0].bars.len(), 1);
    }

    #[test]
    fn every_action_has_a_look_of_its_kind() {
        for (action, _) in Action::ALL {
            let (class, shape) = look(*action);
            assert!(["good", "warn", "fault", "held"].contains(&class) && shape.starts_with('M'), "{action:?}");
        }
    }
}
