//! Liveness of a peer by its pongs, and the log lines about it.
//!
//! The loss of a peer is one log line, and its return another, however often it is dialled in between. Only a refusal
//! is logged in addition, because an operator has to fix it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::hello::Build;
use super::limits::{REACHABLE_WITHIN, REFUSAL_LINE_PAUSE};
use super::peers::Local;
use crate::format::types::NodeId;

/// Number of remembered round trips.
const ROUND_TRIPS_KEPT: usize = 4;

/// Maximum length of the reason why a peer is not reached.
const PROBLEM_CHARS_MAX: usize = 512;

/// State of a peer, written by its link and read by all callers.
pub(super) struct Liveness {
    target: NodeId,
    address: Mutex<String>,
    label: String,
    started: Instant,
    /// Microseconds after `started`; 0 before the first pong.
    last_pong: AtomicU64,
    /// Times from ping to pong, the most recent last.
    round_trips: Mutex<VecDeque<Duration>>,
    presence: Mutex<Presence>,
    /// Reason why the peer is not reached; `None` once it answers.
    problem: Mutex<Option<String>>,
    /// Number of times that the peer arrived after it was away.
    arrivals: watch::Sender<u64>,
    build: Mutex<Option<Build>>,
}

impl Liveness {
    pub(super) fn new(target: NodeId, address: String) -> Self {
        Liveness {
            target,
            address: Mutex::new(address),
            label: target.to_string(),
            started: Instant::now(),
            last_pong: AtomicU64::new(0),
            round_trips: Mutex::default(),
            presence: Mutex::new(Presence::Unmet),
            problem: Mutex::default(),
            arrivals: watch::Sender::new(0),
            build: Mutex::default(),
        }
    }

    /// Sets another address for the peer, at which it has not answered yet.
    pub(super) fn move_to(&self, address: &str) {
        address.clone_into(&mut *self.address.lock());
        self.last_pong.store(0, Ordering::Relaxed);
        self.round_trips.lock().clear();
        self.problem.lock().take();
    }

    pub(super) fn is_reachable(&self) -> bool {
        let last = self.last_pong.load(Ordering::Relaxed);
        last != 0 && self.started.elapsed().saturating_sub(Duration::from_micros(last)) <= REACHABLE_WITHIN
    }

    /// Returns the shortest of the last few times from ping to pong: one that was delayed by a stalled node or disk is
    /// no measure of the link.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trips.lock().iter().min().copied()
    }

    /// Returns a receiver that changes when the peer arrives.
    pub(super) fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// Returns the reason why the peer is not reached; `None` while it answers, and before the first attempt.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    pub(super) fn build(&self) -> Option<Build> {
        self.build.lock().clone()
    }

    pub(super) fn set_build(&self, build: Option<Build>) {
        *self.build.lock() = build;
    }

    pub(super) fn pong(&self, local: &Local, round_trip: Duration) {
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last_pong.store(micros.max(1), Ordering::Relaxed);
        let mut round_trips = self.round_trips.lock();
        if round_trips.len() == ROUND_TRIPS_KEPT {
            round_trips.pop_front();
        }
        round_trips.push_back(round_trip);
        drop(round_trips);
        local.metrics.peer_round_trip.with_label_values(&[&self.label]).set(round_trip.as_secs_f64());
        self.publish(local);
        self.problem.lock().take();
        let news = self.presence.lock().pong(Instant::now());
        let (peer, address) = (self.target, self.address.lock().clone());
        match news {
            None => return,
            Some(Arrival::First) => tracing::info!(peer, address, "connected to a node"),
            Some(Arrival::Back(away)) => {
                tracing::info!(peer, address, away_ms = away.as_millis(), "reconnected to a node");
            }
        }
        self.arrivals.send_modify(|count| *count += 1);
    }

    /// Records that the connection ended or could not be made; `is_refusal` if the peer itself refused it.
    pub(super) fn trouble(&self, reason: &str, is_refusal: bool) {
        *self.problem.lock() = Some(reason.chars().take(PROBLEM_CHARS_MAX).collect());
        let worth_a_line = self.presence.lock().trouble(reason, is_refusal, Instant::now());
        let (peer, address) = (self.target, self.address.lock().clone());
        match (worth_a_line, is_refusal) {
            (true, false) => tracing::warn!(peer, address, reason, "lost connection to a node"),
            (true, true) => tracing::warn!(peer, address, reason, "a node refuses the connection of this one"),
            (false, _) => tracing::debug!(peer, address, reason, "still no connection to a node"),
        }
    }

    /// Sets the gauge by the time since the last pong, so that it is right even if the task of the link is stuck.
    pub(super) fn publish(&self, local: &Local) {
        local.metrics.peer_reachable.with_label_values(&[&self.label]).set(self.is_reachable().into());
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Presence {
    /// Neither connected nor lost yet.
    Unmet,
    There,
    Away {
        since: Instant,
        /// Last refusal that was logged, and its time.
        refusal: Option<(String, Instant)>,
    },
}

#[derive(Debug, PartialEq, Eq)]
enum Arrival {
    First,
    /// After the given time.
    Back(Duration),
}

impl Presence {
    fn pong(&mut self, now: Instant) -> Option<Arrival> {
        match std::mem::replace(self, Presence::There) {
            Presence::There => None,
            Presence::Unmet => Some(Arrival::First),
            Presence::Away { since, .. } => Some(Arrival::Back(now.saturating_duration_since(since))),
        }
    }

    /// Reports whether a failure is logged: the loss itself, and a refusal with a new reason if the last one is old
    /// enough.
    fn trouble(&mut self, reason: &str, is_refusal: bool, now: Instant) -> bool {
        let told = is_refusal.then(|| (reason.to_owned(), now));
        match self {
            Presence::Unmet | Presence::There => {
                *self = Presence::Away { since: now, refusal: told };
                true
            }
            Presence::Away { refusal, .. } => {
                let is_new = refusal.as_ref().is_none_or(|(text, at)| {
                    text != reason && now.saturating_duration_since(*at) >= REFUSAL_LINE_PAUSE
                });
                if is_refusal && is_new {
                    *refusal = told;
                }
                is_refusal && is_new
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Step {
        Pong(Option<Arrival>),
        /// A connection that cannot be made, and whether that is logged.
        Gone(&'static str, bool),
        Refused(&'static str, bool),
        Pause(Duration),
    }
    use Step::{Gone, Pause, Pong, Refused};

    fn walk(title: &str, steps: Vec<Step>) {
        let (mut presence, mut now) = (Presence::Unmet, Instant::now());
        for (number, step) in steps.into_iter().enumerate() {
            let at = format!("{title}, step {number}");
            match step {
                Pong(expected) => assert_eq!(presence.pong(now), expected, "{at}"),
                Gone(reason, told) => assert_eq!(presence.trouble(reason, false, now), told, "{at}"),
                Refused(reason, told) => assert_eq!(presence.trouble(reason, true, now), told, "{at}"),
                Pause(time) => now += time,
            }
        }
    }

    #[test]
    fn a_peer_that_comes_and_goes_is_a_line_each_time() {
        let second = Duration::from_secs(1);
        let back = |seconds| Pong(Some(Arrival::Back(Duration::from_secs(seconds))));
        walk("met at once", vec![Pong(Some(Arrival::First)), Pong(None), Pause(second), Pong(None)]);
        walk("not there yet", vec![Gone("refused", true), Gone("silent", false), Pause(second), back(1), Pong(None)]);
        walk(
            "lost, dialled in vain, back, lost again",
            vec![
                Pong(Some(Arrival::First)),
                Gone("closed", true),
                Gone("refused", false),
                Pause(REFUSAL_LINE_PAUSE * 2),
                Gone("silent", false),
                Pause(second),
                back(REFUSAL_LINE_PAUSE.as_secs() * 2 + 1),
                Gone("closed", true),
            ],
        );
    }

    #[test]
    fn a_refusal_is_told_although_the_peer_was_lost_before() {
        walk(
            "lost, then refused",
            vec![
                Pong(Some(Arrival::First)),
                Gone("closed", true),
                Refused("removed", true),
                Refused("removed", false),
                Refused("bad secret", false),
                Pause(REFUSAL_LINE_PAUSE),
                Refused("removed", false),
                Refused("bad secret", true),
                Gone("refused", false),
            ],
        );
        walk("refused at once", vec![Refused("removed", true), Refused("removed", false), Gone("closed", false)]);
    }
}
