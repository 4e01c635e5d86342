//! Failure detector of instances on the leader. It reads no clock; callers pass the time.
//!
//! Silence counts from the latest of three moments: the last heartbeat, the last registration or update, and the moment
//! since which this node listens. That is the start of its leadership, or the end of a stall of its own: a node that
//! could not receive heartbeats must not call others silent.
//!
//! A heartbeat costs one look-up. The agenda has each instance at the moment when it would have been silent for too
//! long, and it is checked then, not in every round; if there was a heartbeat since, it is scheduled for later. A
//! finding is checked again until the catalog has the change, so that a failed proposal is repeated.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::debounce::FLOOD;
use crate::model::instance::Instance;
use crate::model::limits;

/// Time between two rounds from which on the node itself counts as stalled. Less than twice the shortest ttl, so that a
/// stall that is not detected never uses up the window of an instance with timely heartbeats.
const STALL: Duration = Duration::from_secs(1);
/// Length of a slot of the agenda.
const SLOT: Duration = Duration::from_millis(100);
/// Interval between two checks of an unhealthy instance, since a setting decides when it is removed.
const LOOK_AT_ILL: Duration = Duration::from_secs(2);

/// Failure detector of instances. It is empty and ignores heartbeats on a node that does not lead.
#[derive(Default)]
pub(super) struct FailureDetector {
    listening: Option<Listening>,
    known: HashMap<Arc<str>, Known>, // bound: state
    /// Number of known instances that are unhealthy.
    ill: usize,
    /// Instances to check, by time slot; an entry is void if the instance has another slot by now.
    agenda: BTreeMap<u64, Vec<Arc<str>>>, // bound: state
    /// Healthy instances whose window is over.
    silent: BTreeSet<Arc<str>>, // bound: state
    /// Unhealthy instances with a heartbeat since.
    back: BTreeSet<Arc<str>>, // bound: state
    /// True if one was added to `back` since the last call of `rings`.
    rings: bool,
}

struct Listening {
    term: u64,
    began: Instant,
    since: Instant,
    last_round: Instant,
    /// True once the instances that were registered before have been added.
    is_complete: bool,
}

struct Known {
    heard: Instant,
    /// True if the last sign was a heartbeat, false if it was a registration or an update.
    by_beat: bool,
    /// Health at the last check.
    healthy: bool,
    /// Time since when it is unhealthy; `None` unless unhealthy instances are to be removed.
    ill_since: Option<Instant>,
    /// Slot on the agenda, if it has one.
    slot: Option<u64>,
}

/// Data of the catalog about an instance with heartbeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct HealthState {
    pub(super) window: Duration,
    pub(super) healthy: bool,
}

impl HealthState {
    /// Returns the state of an instance; `None` if its health is not checked.
    pub(super) fn of(instance: &Instance) -> Option<HealthState> {
        let ttl = instance.heartbeat_ttl?;
        let window = Duration::from_secs(u64::from(ttl * limits::HEARTBEATS_MISSED_MAX));
        Some(HealthState { window, healthy: instance.healthy })
    }
}

/// Verdict on a checked instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthVerdict {
    /// Silent for its whole window: it has to become unhealthy.
    Silent,
    /// Alive again by a heartbeat: it has to become healthy.
    Back,
    /// Unhealthy for so long that it has to be removed.
    Dead,
}

impl FailureDetector {
    /// Listens as the leader of `term`: continues if it did before, otherwise starts with a whole window for all
    /// instances. Without a term it stops and forgets everything.
    pub(super) fn listen(&mut self, term: Option<u64>, now: Instant) {
        if self.listening.as_ref().map(|listening| listening.term) != term {
            let begin = |term| Listening { term, began: now, since: now, last_round: now, is_complete: false };
            *self = FailureDetector { listening: term.map(begin), ..FailureDetector::default() };
        }
    }

    /// Begins a round of verdicts; after a stall all instances get a whole window.
    pub(super) fn begin_round(&mut self, now: Instant) {
        if let Some(listening) = &mut self.listening {
            if now - listening.last_round > STALL {
                listening.since = now;
            }
            listening.last_round = now;
        }
    }

    /// Reports, once per leadership, that the registered instances have to be added.
    pub(super) fn wants_all(&mut self) -> bool {
        self.listening.as_mut().is_some_and(|listening| !std::mem::replace(&mut listening.is_complete, true))
    }

    /// Adds an instance that was registered before this node listened, or before this node knew it.
    pub(super) fn take_in(&mut self, id: &str, state: HealthState) {
        if let Some(listening) = &self.listening
            && !self.known.contains_key(id)
        {
            self.insert(id, state, listening.since);
        }
    }

    /// Records that an instance was registered or updated.
    pub(super) fn see(&mut self, id: &str, state: HealthState, now: Instant) {
        if self.listening.is_none() {
            return;
        }
        let Some((id, _)) = self.known.get_key_value(id) else { return self.insert(id, state, now) };
        let id = id.clone();
        self.note(&id, state.healthy, |known| (known.heard, known.by_beat) = (now, false));
        self.plan(&id, now + state.until_looked_at());
    }

    /// Records a heartbeat; returns false if the instance is not known here.
    pub(super) fn hear(&mut self, id: &str, now: Instant) -> bool {
        let Some(known) = self.known.get_mut(id) else { return false };
        (known.heard, known.by_beat) = (now, true);
        if !known.healthy {
            self.rings |= self.back.insert(id.into());
        }
        true
    }

    /// Reports once whether an instance has come back that need not wait for a round. If many are unhealthy, many may
    /// come back together, and they do wait.
    pub(super) fn rings(&mut self) -> bool {
        std::mem::take(&mut self.rings) && self.ill < FLOOD
    }

    /// Returns the unhealthy instances with a heartbeat since.
    pub(super) fn back(&self) -> Vec<Arc<str>> {
        self.back.iter().cloned().collect()
    }

    /// Returns the instances to check now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut due: Vec<Arc<str>> = self.silent.iter().chain(&self.back).cloned().collect();
        let Some(listening) = &self.listening else { return due };
        let present = slot(listening.began, now);
        let later = self.agenda.split_off(&(present + 1));
        for (slot, ids) in std::mem::replace(&mut self.agenda, later) {
            for id in ids {
                if let Some(known) = self.known.get_mut(&id)
                    && known.slot == Some(slot)
                {
                    known.slot = None;
                    due.push(id);
                }
            }
        }
        // An instance with a new heartbeat may have been due as well.
        due.sort_unstable();
        due.dedup();
        due
    }

    /// Checks an instance with its state in the catalog, which is `None` if it is gone or not checked. With
    /// `dead_after`, it is to be removed once it has been unhealthy for that time.
    pub(super) fn look(
        &mut self,
        id: &Arc<str>,
        state: Option<HealthState>,
        dead_after: Option<Duration>,
        now: Instant,
    ) -> Option<HealthVerdict> {
        self.silent.remove(id);
        self.back.remove(id);
        let since = self.listening.as_ref()?.since;
        let Some(state) = state else {
            self.forget(id);
            return None;
        };
        self.note(id, state.healthy, |_| ());
        let known = self.known.get_mut(id)?;
        let (heard, beats) = (known.heard.max(since), known.by_beat && now - known.heard <= state.window);
        if state.healthy {
            if now - heard > state.window {
                self.silent.insert(id.clone());
                return Some(HealthVerdict::Silent);
            }
            self.plan(id, heard + state.window);
            return None;
        }
        if beats {
            self.back.insert(id.clone());
            return Some(HealthVerdict::Back);
        }
        known.ill_since = dead_after.map(|_| known.ill_since.unwrap_or(now));
        let end = known.ill_since.zip(dead_after).map(|(ill_since, after)| ill_since.max(heard) + after);
        let again = now + LOOK_AT_ILL;
        self.plan(id, end.filter(|end| *end >= now).map_or(again, |end| end.min(again)));
        end.is_some_and(|end| now > end).then_some(HealthVerdict::Dead)
    }

    fn insert(&mut self, id: &str, state: HealthState, heard: Instant) {
        let id: Arc<str> = id.into();
        let known = Known { heard, by_beat: false, healthy: true, ill_since: None, slot: None };
        self.known.insert(id.clone(), known);
        self.note(&id, state.healthy, |_| ());
        self.plan(&id, heard + state.until_looked_at());
    }

    /// Records the health of an instance, and other changes of it.
    fn note(&mut self, id: &str, healthy: bool, news: impl FnOnce(&mut Known)) {
        let Some(known) = self.known.get_mut(id) else { return };
        match (known.healthy, healthy) {
            (true, false) => self.ill += 1,
            (false, true) => self.ill -= 1,
            _ => {}
        }
        known.healthy = healthy;
        if healthy {
            known.ill_since = None;
        }
        news(known);
    }

    fn forget(&mut self, id: &str) {
        if let Some(gone) = self.known.remove(id) {
            self.ill -= usize::from(!gone.healthy);
        }
    }

    /// Schedules a check right after this moment; an earlier slot is kept, as it costs one check.
    fn plan(&mut self, id: &Arc<str>, moment: Instant) {
        let (Some(listening), Some(known)) = (&self.listening, self.known.get_mut(id)) else { return };
        let slot = slot(listening.began, moment) + 1;
        if known.slot.is_none_or(|planned| slot < planned) {
            known.slot = Some(slot);
            self.agenda.entry(slot).or_default().push(id.clone());
        }
    }
}

impl HealthState {
    fn until_looked_at(self) -> Duration {
        if self.healthy { self.window } else { LOOK_AT_ILL }
    }
}

fn slot(began: Instant, moment: Instant) -> u64 {
    let slots = moment.saturating_duration_since(began).as_millis() / SLOT.as_millis();
    u64::try_from(slots).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(3);
    const HEALTHY: HealthState = HealthState { window: WINDOW, healthy: true };
    const ILL: HealthState = HealthState { window: WINDOW, healthy: false };

    enum Step {
        /// Leads in this term, or does not lead.
        Lead(Option<u64>),
        See,
        Beat,
        /// Runs rounds every half second, up to and including this moment, that find nothing.
        Quiet(u64),
        /// Runs one round with this finding.
        Finds(HealthVerdict),
        /// Stalls until this moment.
        Stall(u64),
    }
    use HealthVerdict::{Back, Dead, Silent};
    use Step::{Beat, Finds, Lead, Quiet, See, Stall};

    /// One instance of ttl 1 that starts healthy and changes as found, and its detector.
    struct Walk {
        detector: FailureDetector,
        state: HealthState,
        dead_after: Option<Duration>,
    }

    impl Walk {
        /// Runs one round; one instance has at most one verdict.
        fn round(&mut self, now: Instant) -> Option<HealthVerdict> {
            self.detector.begin_round(now);
            if self.detector.wants_all() {
                self.detector.take_in("i", self.state);
            }
            let (state, dead_after) = (self.state, self.dead_after);
            let due = self.detector.due(now);
            let found: Vec<_> =
                due.iter().filter_map(|id| self.detector.look(id, Some(state), dead_after, now)).collect();
            assert!(found.len() <= 1, "{found:?}");
            match found.first() {
                Some(Silent) => self.state = ILL,
                Some(Back) => self.state = HEALTHY,
                Some(Dead) | None => {}
            }
            found.first().copied()
        }
    }

    /// Runs the steps; times in milliseconds.
    fn walk(title: &str, steps: &[Step]) {
        walk_removing(title, None, steps);
    }

    fn walk_removing(title: &str, dead_after: Option<Duration>, steps: &[Step]) {
        let (start, mut clock) = (Instant::now(), 0);
        let mut walk = Walk { detector: FailureDetector::default(), state: HEALTHY, dead_after };
        for (number, step) in steps.iter().enumerate() {
            let now = start + Duration::from_millis(clock);
            match step {
                Lead(term) => walk.detector.listen(*term, now),
                See => walk.detector.see("i", walk.state, now),
                Beat => drop(walk.detector.hear("i", now)),
                Stall(until) => clock = *until,
                Quiet(until) => {
                    while clock < *until {
                        clock += 500;
                        let found = walk.round(start + Duration::from_millis(clock));
                        assert_eq!(found, None, "{title}, step {number}, {clock} ms");
                    }
                }
                Finds(expected) => {
                    clock += 500;
                    let found = walk.round(start + Duration::from_millis(clock));
                    assert_eq!(found, Some(*expected), "{title}, step {number}, {clock} ms");
                }
            }
        }
    }

    #[test]
    fn silence_is_counted_from_the_latest_sign() {
        let one = || Lead(Some(1));
        walk("a new leader grants a whole window", &[one(), Quiet(3000), Finds(Silent), Quiet(9000)]);
        walk("a heartbeat grants one", &[one(), Quiet(2000), Beat, Quiet(5000), Finds(Silent)]);
        walk("so does each", &[one(), Quiet(2000), Beat, Quiet(4500), Beat, Quiet(7500), Finds(Silent)]);
        walk("a registration grants one", &[one(), Quiet(2000), See, Quiet(5000), Finds(Silent)]);
        walk("another term is a new leader", &[one(), Quiet(2500), Lead(Some(2)), Quiet(5500), Finds(Silent)]);
        walk("the same term is not", &[one(), Quiet(2500), one(), Quiet(3000), Finds(Silent)]);
        walk("lost and won again", &[one(), Quiet(2500), Lead(None), Quiet(8000), one(), Quiet(11000), Finds(Silent)]);
        walk("who does not lead finds nothing", &[Lead(None), See, Beat, Quiet(20_000)]);
        let stalled = [one(), Quiet(500), Beat, Quiet(1000), Stall(60_000), Quiet(63_500), Finds(Silent)];
        walk("a stall grants a whole window", &stalled);
        walk("a late round alone does not", &[one(), Quiet(2000), Stall(2400), Quiet(2900), Finds(Silent)]);
    }

    #[test]
    fn a_heartbeat_brings_back_and_nothing_else_does() {
        let died = || [Lead(Some(1)), Quiet(3000), Finds(Silent)];
        let then = |more: Vec<Step>| -> Vec<Step> { died().into_iter().chain(more).collect() };
        walk("a heartbeat", &then(vec![Beat, Finds(Back), Quiet(6500), Finds(Silent)]));
        walk("an update", &then(vec![See, Quiet(9000)]));
        walk("a stall", &then(vec![Stall(60_000), Quiet(70_000)]));
        walk("a heartbeat before an update", &then(vec![Beat, See, Quiet(9000)]));
        walk("a heartbeat to the leader before", &then(vec![Beat, Lead(Some(2)), Quiet(9000)]));
    }

    #[test]
    fn what_is_found_is_found_again_until_it_is_done() {
        let (mut detector, start) = (FailureDetector::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let round = |detector: &mut FailureDetector, state: Option<HealthState>, seconds: u64| -> Vec<HealthVerdict> {
            let due = detector.due(at(seconds));
            due.iter().filter_map(|id| detector.look(id, state, None, at(seconds))).collect()
        };
        detector.listen(Some(1), start);
        detector.take_in("i", HEALTHY);
        for second in 4..6 {
            assert_eq!(round(&mut detector, Some(HEALTHY), second), [Silent]);
        }
        assert_eq!(round(&mut detector, Some(ILL), 6), []);
        assert!(detector.hear("i", at(7)));
        for second in 7..9 {
            assert_eq!(round(&mut detector, Some(ILL), second), [Back]);
        }
        assert_eq!(round(&mut detector, Some(HEALTHY), 9), []);
        assert_eq!(round(&mut detector, None, 15), []);
        assert!(detector.known.is_empty() && detector.agenda.is_empty() && detector.ill == 0, "it is gone");
    }

    #[test]
    fn a_few_who_are_back_wait_for_no_round() {
        let (mut detector, now) = (FailureDetector::default(), Instant::now());
        assert!(!detector.hear("deaf", now), "it does not lead");
        detector.listen(Some(1), now);
        assert!(!detector.hear("nobody", now), "it knows nobody yet");
        for (id, state) in [("well", HEALTHY), ("ill", ILL)] {
            detector.take_in(id, state);
            assert!(detector.hear(id, now));
        }
        assert!(detector.rings() && !detector.rings());
        assert_eq!(detector.back(), ["ill".into()]);
        let crowd: Vec<String> = (0..FLOOD).map(|number| number.to_string()).collect();
        crowd.iter().for_each(|id| detector.take_in(id, ILL));
        assert!(detector.hear("1", now) && !detector.rings(), "many may come back together");
    }

    #[test]
    fn a_shorter_window_is_looked_at_sooner() {
        let (mut detector, start) = (FailureDetector::default(), Instant::now());
        detector.listen(Some(1), start);
        detector.take_in("i", HealthState { window: Duration::from_secs(180), healthy: true });
        detector.see("i", HEALTHY, start);
        let after = start + WINDOW + SLOT;
        assert_eq!(detector.due(after), ["i".into()]);
        assert_eq!(detector.look(&"i".into(), Some(HEALTHY), None, after), Some(Silent));
        assert_eq!(detector.due(start + Duration::from_secs(200)), ["i".into()], "its old place is void");
    }

    #[test]
    fn the_dead_are_those_who_stay_away_before_the_eyes_of_one_leader() {
        let died = || [Lead(Some(1)), Quiet(3000), Finds(Silent)];
        let then = |more: Vec<Step>| -> Vec<Step> { died().into_iter().chain(more).collect() };
        let dead = |title: &str, steps: Vec<Step>| walk_removing(title, Some(Duration::from_secs(10)), &then(steps));
        dead("a whole window from when it is seen first", vec![Quiet(14_000), Finds(Dead)]);
        dead("an update is a sign", vec![Quiet(12_000), See, Quiet(22_000)]);
        dead(
            "well again, and ill again",
            vec![Quiet(12_000), Beat, Finds(Back), Quiet(15_000), Finds(Silent), Quiet(25_000)],
        );
        dead("another leader begins anew", vec![Quiet(12_000), Lead(Some(2)), Quiet(22_000)]);
        dead("a stall grants a whole window", vec![Quiet(12_000), Stall(60_000), Quiet(70_000)]);
    }
}
