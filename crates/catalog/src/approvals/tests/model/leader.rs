//! The leader of the model: due planned releases, and the steps of rollouts.

use super::*;
use crate::catalog::releases::{RolloutChange, RolloutTransition};
use crate::model::rollout::RolloutAction;

/// A change as the leader found it, with its release; it may be proposed late.
pub(super) struct Found {
    moved: RolloutTransition,
    at: (usize, usize),
    stamp: usize,
    step: usize,
}

impl World {
    /// Reports whether nothing forbids an action in the name of a release's author now.
    fn may_go_on(&self, at: (usize, usize), gate: &str) -> bool {
        let release = self.release(at).expect("kept");
        let (author, file) = (release.author, self.things[at.0].file);
        let spots = self.spots(at.0, &[]);
        let end = Spot::End(release.copy.end.clone());
        let places = spots.first().into_iter().chain(file.is_none().then_some(&end));
        let scopes: Vec<_> = places.map(Spot::scope).collect();
        let demand = self.demand((gate, None), file.is_some(), &spots);
        self.accounts[author].is_open()
            && self.accounts[author].may_all(Verb::Release, &scopes)
            && !demand.is_frozen
            && (release.is_approved || demand.approvals() == 0)
    }

    pub(super) fn lead(&mut self) {
        self.now += self.random.random_range(0..3) * 1000;
        self.pass(0);
        self.publish_due();
        for found in self.rollouts() {
            let change = match self.random.random_range(0..12) {
                0 => RolloutChange::Stop("a guard".into()),
                1 => RolloutChange::Wait("no sample".into()),
                2 => RolloutChange::GoOn,
                3 => RolloutChange::Pause("no".into()),
                4 => RolloutChange::AdvanceUnmeasured("nobody".into()),
                _ => RolloutChange::Advance,
            };
            let found = Found { moved: RolloutTransition { change, ..found.moved }, ..found };
            // Another leader proposes it when much has changed.
            match self.chance(8) {
                true => self.found.push(found),
                false => self.roll_on(&found),
            }
        }
        if self.chance(3) && !self.found.is_empty() {
            let found = self.found.remove(0);
            self.saw("proposed late");
            self.roll_on(&found);
        }
    }

    fn publish_due(&mut self) {
        let due = self.bench.catalog.due(Timestamp(self.now));
        let is_due = |one: &Release| matches!(one.stand, Stand::Planned(at) if at <= self.now);
        let expected: usize = self
            .there()
            .into_iter()
            .map(|one| self.things[one].releases.values().filter(|one| is_due(one)).count())
            .sum();
        assert_eq!(due.len(), expected, "all that is due is found");
        if due.is_empty() {
            return;
        }
        let mut touched = Vec::new();
        for one in &due {
            let thing = self.thing_called(&one.thing);
            let mut kept = self.things[thing].releases.iter();
            let (number, release) = kept.find(|(_, kept)| kept.name == one.release_name).expect("kept");
            let (number, is_normal) = (*number, release.reach == Reach::All);
            let grays = self.things[thing].grays();
            let has_room = if is_normal { grays == 0 } else { grays < GRAYS_MAX };
            let gate = if is_normal { "publish" } else { "gray" };
            if has_room && self.may_go_on((thing, number), gate) {
                self.activate((thing, number));
                self.saw("due");
            } else {
                self.release_mut((thing, number)).stand = Stand::Failed;
                self.saw("due and refused");
            }
            touched.push(thing);
        }
        self.by_leader(Command::PublishDue(due));
        self.compare(&touched);
    }

    fn thing_called(&self, thing: &history::Thing) -> usize {
        let is_it = |one: &usize| match thing {
            history::Thing::File(key) => self.things[*one].file.is_some_and(|file| self.keys[file] == *key),
            history::Thing::Rule(_, id) => self.things[*one].file.is_none() && self.things[*one].id == *id,
        };
        self.there().into_iter().find(is_it).expect("there")
    }

    /// Returns the rollouts with steps left.
    fn rollouts(&self) -> Vec<Found> {
        let live = self.bench.catalog.live_rollouts();
        let rolls = |one: &Release| one.stand == Stand::Active && one.roll.is_some();
        let expected: usize = self
            .there()
            .into_iter()
            .map(|one| self.things[one].releases.values().filter(|one| rolls(one)).count())
            .sum();
        assert_eq!(live.len(), expected, "all rollouts are found");
        let found = |live: crate::catalog::releases::LiveRollout| {
            let thing = self.thing_called(&live.thing);
            let mut kept = self.things[thing].releases.iter();
            let (number, release) = kept.find(|(_, kept)| kept.name == live.release_name).expect("kept");
            let roll = release.roll.expect("it rolls");
            let at = (thing, *number);
            Found { moved: live.moved(RolloutChange::GoOn), at, stamp: release.stamp, step: roll.step }
        };
        live.into_iter().map(found).collect()
    }

    fn roll_on(&mut self, found: &Found) {
        let at = found.at;
        let release = self.release(at).filter(|one| one.stand == Stand::Active && one.stamp == found.stamp);
        let roll = release.and_then(|one| one.roll).filter(|roll| roll.step == found.step);
        if let Some(roll) = roll {
            let author = self.release(at).expect("kept").author;
            match &found.moved.change {
                RolloutChange::Stop(_) => {
                    self.release_mut(at).stand = Stand::Inactive;
                    self.saw("stopped by the leader");
                }
                RolloutChange::Pause(_) if !roll.is_paused => self.roll(at, RolloutAction::Pause, author),
                RolloutChange::Wait(_) if !roll.is_paused => {
                    let release = self.release_mut(at);
                    release.roll = Some(Roll { is_paused: true, waits: true, ..roll });
                }
                RolloutChange::GoOn if roll.waits => self.roll(at, RolloutAction::Resume, author),
                RolloutChange::Advance | RolloutChange::AdvanceUnmeasured(_)
                    if !roll.is_paused && roll.since + HOLD_MS <= self.now =>
                {
                    let may = self.may_go_on(at, self.gate_of_step(at));
                    self.saw(if may { "by the leader" } else { "paused by the leader" });
                    self.roll(at, if may { RolloutAction::Advance } else { RolloutAction::Pause }, author);
                }
                _ => {}
            }
        }
        self.by_leader(Command::Rollouts(vec![found.moved.clone()]));
        self.compare(&[at.0]);
    }
}
