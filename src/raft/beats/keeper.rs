//! Who of the instances is alive, as the leader knows it: bookkeeping that is told the time.
//!
//! Silence counts from the latest of three moments: the last heartbeat, the last registration or
//! update, and the moment since which this node listens. That is the beginning of its lead, or the end
//! of a stall of its own: whoever was deaf may not call others silent.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::limits;

/// Between two rounds; longer, and the node itself stalled. Less than twice the shortest ttl, so that
/// a stall that is let pass never uses up the window of an instance that beats in time.
const STALL: Duration = Duration::from_secs(1);

/// Empty, and deaf, on a node that does not lead.
#[derive(Default)]
pub(super) struct Keeper {
    listening: Option<Listening>,
    heard: HashMap<String, Heard>,
    /// Unhealthy instances that have beaten.
    back: BTreeSet<String>,
    /// Unhealthy instances, since when they are seen to be that; only while such are to be removed.
    ill: HashMap<String, Instant>,
}

struct Listening {
    term: u64,
    since: Instant,
    last_round: Instant,
}

#[derive(Clone, Copy)]
struct Heard {
    at: Instant,
    /// By a heartbeat, not by a registration or an update.
    by_beat: bool,
}

impl Keeper {
    /// Listens as the leader of `term`: goes on if it did so before, else begins with a whole window
    /// for everyone. Without a term it stops and forgets.
    pub(super) fn listen(&mut self, term: Option<u64>, now: Instant) {
        if self.listening.as_ref().map(|listening| listening.term) != term {
            let listening = term.map(|term| Listening { term, since: now, last_round: now });
            *self = Keeper { listening, ..Keeper::default() };
        }
    }

    /// Begins a round of verdicts; after a stall everyone gets a whole window.
    pub(super) fn begin_round(&mut self, now: Instant) {
        if let Some(listening) = &mut self.listening {
            if now - listening.last_round > STALL {
                listening.since = now;
            }
            listening.last_round = now;
        }
    }

    /// An instance was registered or updated.
    pub(super) fn see(&mut self, id: &str, now: Instant) {
        if self.listening.is_some() {
            self.heard.insert(id.to_owned(), Heard { at: now, by_beat: false });
        }
    }

    /// An instance has beaten.
    pub(super) fn hear(&mut self, id: &str, healthy: bool, now: Instant) {
        if self.listening.is_none() {
            return;
        }
        if !healthy {
            self.back.insert(id.to_owned());
        }
        let news = Heard { at: now, by_beat: true };
        match self.heard.get_mut(id) {
            Some(heard) => *heard = news,
            None => drop(self.heard.insert(id.to_owned(), news)),
        }
    }

    /// Those of which a heartbeat came while they were unhealthy.
    pub(super) fn take_back(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.back)
    }

    pub(super) fn has_back(&self) -> bool {
        !self.back.is_empty()
    }

    /// What the health of an instance should be changed to. Becoming healthy takes a heartbeat.
    pub(super) fn verdict(&self, id: &str, ttl_seconds: u32, healthy: bool, now: Instant) -> Option<bool> {
        let listening = self.listening.as_ref()?;
        let window = Duration::from_secs(u64::from(ttl_seconds * limits::HEARTBEATS_MISSED_MAX));
        let heard = self.heard.get(id);
        if healthy {
            let last = heard.map_or(listening.since, |heard| heard.at.max(listening.since));
            (now.saturating_duration_since(last) > window).then_some(false)
        } else {
            let beats = heard.is_some_and(|heard| heard.by_beat && now.saturating_duration_since(heard.at) <= window);
            beats.then_some(true)
        }
    }

    /// An instance is healthy.
    pub(super) fn see_well(&mut self, id: &str) {
        if !self.ill.is_empty() {
            self.ill.remove(id);
        }
    }

    /// True of an unhealthy instance that has been that for longer than `after`, without a sign of it, before
    /// the eyes of this leader.
    pub(super) fn is_dead(&mut self, id: &str, after: Duration, now: Instant) -> bool {
        let Some(listening) = &self.listening else { return false };
        let Some(ill_since) = self.ill.get(id) else {
            self.ill.insert(id.to_owned(), now);
            return false;
        };
        let heard = self.heard.get(id).map_or(*ill_since, |heard| heard.at);
        now.saturating_duration_since(heard.max(*ill_since).max(listening.since)) > after
    }

    /// Forgets the unhealthy instances that are gone, or are not to be removed any more.
    pub(super) fn forget_ill(&mut self, ill: usize, is_checked: impl Fn(&str) -> bool) {
        if ill == 0 {
            self.ill.clear();
        } else if self.ill.len() > ill {
            self.ill.retain(|id, _| is_checked(id));
        }
    }

    /// Forgets the instances that are gone, where more were heard than the `checked` ones there are.
    pub(super) fn forget_gone(&mut self, checked: usize, is_checked: impl Fn(&str) -> bool) {
        if self.heard.len() > checked {
            self.heard.retain(|id, _| is_checked(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Step {
        /// Leads in this term, or does not.
        Lead(Option<u64>),
        See,
        Beat,
        /// Rounds every half second, up to and including this moment, in which nothing is found.
        Quiet(u64),
        /// One round that finds this.
        Finds(bool),
        /// Nothing runs until this moment.
        Stall(u64),
    }
    use Step::{Beat, Finds, Lead, Quiet, See, Stall};

    /// Walks through the steps with one instance of ttl 1 that starts healthy; times in milliseconds.
    fn walk(title: &str, steps: &[Step]) {
        let (start, mut clock) = (Instant::now(), 0);
        let (mut keeper, mut healthy) = (Keeper::default(), true);
        let round = |keeper: &mut Keeper, healthy: &mut bool, ms: u64| {
            let now = start + Duration::from_millis(ms);
            keeper.begin_round(now);
            let found = keeper.verdict("i", 1, *healthy, now);
            *healthy = found.unwrap_or(*healthy);
            found
        };
        for (number, step) in steps.iter().enumerate() {
            let now = start + Duration::from_millis(clock);
            match step {
                Lead(term) => keeper.listen(*term, now),
                See => keeper.see("i", now),
                Beat => keeper.hear("i", healthy, now),
                Stall(until) => clock = *until,
                Quiet(until) => {
                    while clock < *until {
                        clock += 500;
                        assert_eq!(round(&mut keeper, &mut healthy, clock), None, "{title}, step {number}, {clock} ms");
                    }
                }
                Finds(expected) => {
                    clock += 500;
                    let found = round(&mut keeper, &mut healthy, clock);
                    assert_eq!(found, Some(*expected), "{title}, step {number}, {clock} ms");
                }
            }
        }
    }

    #[test]
    fn silence_is_counted_from_the_latest_sign() {
        let one = || Lead(Some(1));
        walk("a new leader grants a whole window", &[one(), Quiet(3000), Finds(false), Quiet(9000)]);
        walk("a heartbeat grants one", &[one(), Quiet(2000), Beat, Quiet(5000), Finds(false)]);
        walk("a registration grants one", &[one(), Quiet(2000), See, Quiet(5000), Finds(false)]);
        walk("another term is a new leader", &[one(), Quiet(2500), Lead(Some(2)), Quiet(5500), Finds(false)]);
        walk("the same term is not", &[one(), Quiet(2500), one(), Quiet(3000), Finds(false)]);
        walk("lost and won again", &[one(), Quiet(2500), Lead(None), Quiet(8000), one(), Quiet(11000), Finds(false)]);
        walk("who does not lead finds nothing", &[Lead(None), See, Beat, Quiet(20_000)]);
        walk("a stall grants a whole window", &[one(), Beat, Quiet(1000), Stall(60_000), Quiet(63_500), Finds(false)]);
        walk("a late round alone does not", &[one(), Beat, Quiet(2000), Stall(2400), Quiet(2900), Finds(false)]);
    }

    #[test]
    fn a_heartbeat_brings_back_and_nothing_else_does() {
        let died = || [Lead(Some(1)), Quiet(3000), Finds(false)];
        let then = |more: Vec<Step>| -> Vec<Step> { died().into_iter().chain(more).collect() };
        walk("a heartbeat", &then(vec![Beat, Finds(true), Quiet(6500), Finds(false)]));
        walk("an update", &then(vec![See, Quiet(9000)]));
        walk("a stall", &then(vec![Stall(60_000), Quiet(70_000)]));
        walk("a heartbeat before an update", &then(vec![Beat, See, Quiet(9000)]));
        walk("a heartbeat to the leader before", &then(vec![Beat, Lead(Some(2)), Quiet(9000)]));
    }

    #[test]
    fn who_comes_back_is_told_once() {
        let (mut keeper, now) = (Keeper::default(), Instant::now());
        keeper.hear("deaf", false, now);
        assert!(!keeper.has_back() && keeper.heard.is_empty());
        keeper.listen(Some(1), now);
        for (id, healthy) in [("well", true), ("ill", false), ("ill", false)] {
            keeper.hear(id, healthy, now);
        }
        assert_eq!(keeper.take_back().into_iter().collect::<Vec<_>>(), ["ill"]);
        assert!(!keeper.has_back());
    }

    #[test]
    fn the_dead_are_those_who_stay_away_before_the_eyes_of_one_leader() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let after = Duration::from_secs(10);
        let mut keeper = Keeper::default();
        let dead = |keeper: &mut Keeper, seconds: u64| {
            keeper.begin_round(at(seconds));
            keeper.is_dead("i", after, at(seconds))
        };
        let quiet = |keeper: &mut Keeper, from: u64, until: u64| {
            for second in from..=until {
                assert!(!dead(keeper, second), "at {second} s");
            }
            dead(keeper, until + 1)
        };
        assert!(!quiet(&mut keeper, 0, 30), "who does not lead finds nothing");
        keeper.listen(Some(1), at(31));
        assert!(quiet(&mut keeper, 31, 41), "a whole window from when it is seen first");
        keeper.see("i", at(43));
        assert!(quiet(&mut keeper, 43, 53), "an update is a sign");
        keeper.see_well("i");
        assert!(quiet(&mut keeper, 55, 65), "well again, and ill again");
        keeper.listen(Some(2), at(67));
        assert!(quiet(&mut keeper, 67, 77), "another leader begins anew");
        assert!(!dead(&mut keeper, 100), "a stall grants a whole window");
        keeper.forget_ill(0, |_| unreachable!("none is left"));
        assert!(keeper.ill.is_empty());
    }

    #[test]
    fn the_gone_are_forgotten() {
        let (mut keeper, now) = (Keeper::default(), Instant::now());
        keeper.listen(Some(1), now);
        for id in ["a", "b", "c"] {
            keeper.hear(id, true, now);
        }
        keeper.forget_gone(3, |_| unreachable!("no more were heard than there are"));
        keeper.forget_gone(1, |id| id == "b");
        assert_eq!(keeper.heard.keys().collect::<Vec<_>>(), ["b"]);
        keeper.listen(None, now);
        assert!(keeper.heard.is_empty());
    }
}
