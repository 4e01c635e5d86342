//! Counts of failed logins, per user and origin and per user. They slow down guessing without locking other clients
//! out.
//!
//! An attempt is counted before its password is checked, and taken back if the password was right, so that concurrent
//! guesses cannot all pass before the first has failed. Memory is bounded by the rate of password checks
//! ([`super::passwords`]): an attempt that was never checked leaves no entry, and entries are dropped a minute after
//! the last failure.
//!
//! If a user is guessed at from many addresses, the user's logins are refused to unfamiliar origins: those from which
//! the user has not logged in within 24 hours. Familiar origins and direct connections from this machine are still
//! admitted. A loopback address that a proxy reports is one unfamiliar origin.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::model::limits;
use crate::origin::Guesser;

const WINDOW: Duration = Duration::from_secs(60);
/// Pause between two removals of outdated entries.
const SWEEP_PAUSE: Duration = Duration::from_secs(5);
/// Time for which an origin is familiar to a user after a login.
const FAMILIAR_FOR: Duration = Duration::from_secs(24 * 3600);
/// Limit for the remembered familiar origins.
const FAMILIAR_MAX: usize = 10_000;

/// Login throttle of one node; cheap to clone.
#[derive(Clone)]
pub(super) struct LoginThrottle(Arc<ThrottleState>);

struct ThrottleState {
    /// Seeded at random, so that an attacker cannot choose names that collide with another user's.
    hashing: RandomState,
    counts: Mutex<AttemptCounts>,
    /// Notified when an attempt has ended.
    ended: Notify,
}

/// Hash of a user name.
type User = u64;

struct AttemptCounts {
    /// Failures of one pair in a minute after which it has to wait.
    pair_max: u32,
    pairs: HashMap<(User, Guesser), Window>, // bound: login-attempts
    users: HashMap<User, Window>,            // bound: login-attempts
    /// Users and the origins that they logged in from, with the time of the last login.
    familiar: HashMap<(User, Guesser), Instant>, // bound: login-attempts
    swept: Option<Instant>,
}

/// Attempts within a window of time: those that failed, and those still open.
struct Window {
    began: Instant,
    failed: u32,
    open: u32,
}

impl Window {
    fn new(now: Instant) -> Self {
        Window { began: now, failed: 0, open: 0 }
    }

    /// Starts anew when its time has passed.
    fn renew(&mut self, now: Instant) {
        if now - self.began >= WINDOW {
            (self.began, self.failed) = (now, 0);
        }
    }

    fn judge(&self, limit: u32, now: Instant) -> Admission {
        if self.failed >= limit {
            Admission::Wait(WINDOW.saturating_sub(now - self.began))
        } else if self.failed + self.open >= limit {
            Admission::Busy
        } else {
            Admission::Free
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.open == 0 && now - self.began >= WINDOW
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Free,
    /// The limit is reached, counting open attempts that may still succeed.
    Busy,
    /// The limit of failures is reached; the time to wait.
    Wait(Duration),
}

impl Default for LoginThrottle {
    fn default() -> Self {
        LoginThrottle::with_failures(limits::LOGIN_FAILURES_PER_MINUTE)
    }
}

impl LoginThrottle {
    /// Creates a throttle that admits so many failures of one user from one origin in a minute.
    pub(super) fn with_failures(pair_max: u32) -> Self {
        let (pairs, users, familiar) = (HashMap::new(), HashMap::new(), HashMap::new());
        let counts = Mutex::new(AttemptCounts { pair_max, pairs, users, familiar, swept: None });
        LoginThrottle(Arc::new(ThrottleState { hashing: RandomState::new(), counts, ended: Notify::new() }))
    }

    /// Begins an attempt, or returns the time to wait before the next one. Waits while open attempts could still reach
    /// the limit of failures.
    pub(super) async fn attempt(&self, user: &str, guesser: Guesser) -> Result<Attempt, Duration> {
        let user = self.0.hashing.hash_one(user);
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            // Registered before the check: an attempt may end between the check and the wait.
            ended.as_mut().enable();
            match self.0.counts.lock().begin(user, guesser, Instant::now()) {
                Admission::Free => {
                    return Ok(Attempt { throttle: self.clone(), user, guesser, outcome: AttemptOutcome::Unchecked });
                }
                Admission::Wait(left) => return Err(left),
                Admission::Busy => {}
            }
            ended.await;
        }
    }

    fn end(&self, attempt: &Attempt) {
        self.0.counts.lock().end(attempt, Instant::now());
        self.0.ended.notify_waiters();
    }
}

impl AttemptCounts {
    fn begin(&mut self, user: User, guesser: Guesser, now: Instant) -> Admission {
        self.sweep(now);
        let is_stranger = !guesser.is_local && !self.familiar.contains_key(&(user, guesser));
        let of_pair = self.pairs.entry((user, guesser)).or_insert_with(|| Window::new(now));
        of_pair.renew(now);
        let of_user = self.users.entry(user).or_insert_with(|| Window::new(now));
        of_user.renew(now);
        let verdict = match of_pair.judge(self.pair_max, now) {
            Admission::Free if is_stranger => of_user.judge(limits::LOGIN_FAILURES_PER_USER_AND_MINUTE, now),
            verdict => verdict,
        };
        if verdict == Admission::Free {
            of_pair.open += 1;
            of_user.open += 1;
        } else {
            self.forget_if_idle(user, guesser);
        }
        verdict
    }

    fn end(&mut self, attempt: &Attempt, now: Instant) {
        let Attempt { user, guesser, outcome, .. } = *attempt;
        let failed = u32::from(outcome == AttemptOutcome::Failed);
        for window in [self.pairs.get_mut(&(user, guesser)), self.users.get_mut(&user)].into_iter().flatten() {
            window.renew(now);
            window.open -= 1;
            window.failed += failed;
        }
        if outcome == AttemptOutcome::Succeeded {
            if let Some(of_pair) = self.pairs.get_mut(&(user, guesser)) {
                of_pair.failed = 0;
            }
            self.remember(user, guesser, now);
        }
        self.forget_if_idle(user, guesser);
    }

    /// Removes windows that count nothing: names that were never checked must not use memory.
    fn forget_if_idle(&mut self, user: User, guesser: Guesser) {
        let is_idle = |window: &Window| window.open == 0 && window.failed == 0;
        if self.pairs.get(&(user, guesser)).is_some_and(is_idle) {
            self.pairs.remove(&(user, guesser));
        }
        if self.users.get(&user).is_some_and(is_idle) {
            self.users.remove(&user);
        }
    }

    fn remember(&mut self, user: User, guesser: Guesser, now: Instant) {
        if self.familiar.len() >= FAMILIAR_MAX && !self.familiar.contains_key(&(user, guesser)) {
            let oldest = self.familiar.iter().min_by_key(|(_, at)| **at).map(|(pair, _)| *pair);
            oldest.map(|pair| self.familiar.remove(&pair));
        }
        self.familiar.insert((user, guesser), now);
    }

    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now - swept < SWEEP_PAUSE) {
            return;
        }
        self.swept = Some(now);
        self.pairs.retain(|_, window| !window.is_over(now));
        self.users.retain(|_, window| !window.is_over(now));
        self.familiar.retain(|_, at| now - *at < FAMILIAR_FOR);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptOutcome {
    /// The password was not checked: the client disconnected while it waited.
    Unchecked,
    Failed,
    Succeeded,
}

/// An attempt to log in; its outcome is counted on drop.
pub(super) struct Attempt {
    throttle: LoginThrottle,
    user: User,
    guesser: Guesser,
    outcome: AttemptOutcome,
}

impl Attempt {
    /// Counts the attempt from here on, even if the client disconnects.
    pub(super) fn is_checked(&mut self) {
        self.outcome = AttemptOutcome::Failed;
    }

    pub(super) fn succeeded(&mut self) {
        self.outcome = AttemptOutcome::Succeeded;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.throttle.clone().end(self);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::advance;

    use super::*;
    use crate::origin::Sender;

    fn at(last: u8) -> Guesser {
        Sender { address: Some([192, 0, 2, last].into()), is_local: false }.guesser()
    }

    fn attempt(throttle: &LoginThrottle, user: &str, guesser: Guesser) -> Option<Result<Attempt, Duration>> {
        throttle.attempt(user, guesser).now_or_never()
    }

    fn begin(throttle: &LoginThrottle, user: &str, guesser: Guesser) -> Attempt {
        attempt(throttle, user, guesser).expect("there is room").expect("it may go on")
    }

    fn fail(throttle: &LoginThrottle, user: &str, guesser: Guesser) {
        begin(throttle, user, guesser).is_checked();
    }

    fn is_refused(throttle: &LoginThrottle, user: &str, guesser: Guesser) -> bool {
        attempt(throttle, user, guesser).expect("it is answered").is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_pair_that_fails_has_to_wait_and_for_a_minute_only() {
        let throttle = LoginThrottle::default();
        for _ in 0..limits::LOGIN_FAILURES_PER_MINUTE {
            fail(&throttle, "admin", at(1));
        }
        let waits = attempt(&throttle, "admin", at(1)).and_then(Result::err);
        assert_eq!(waits, Some(WINDOW));
        assert!(!is_refused(&throttle, "admin", at(2)) && !is_refused(&throttle, "other", at(1)));
        advance(WINDOW).await;
        begin(&throttle, "admin", at(1)).succeeded();
        assert!(!is_refused(&throttle, "admin", at(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_at_the_same_time_are_counted_before_they_are_judged() {
        let throttle = LoginThrottle::default();
        let open: Vec<_> = (0..limits::LOGIN_FAILURES_PER_MINUTE).map(|_| begin(&throttle, "admin", at(1))).collect();
        let mut late = std::pin::pin!(throttle.attempt("admin", at(1)));
        assert!(late.as_mut().now_or_never().is_none(), "it waits for those before it");
        for mut attempt in open {
            attempt.is_checked();
        }
        assert!(late.await.is_err(), "all of them have failed");
    }

    #[tokio::test(start_paused = true)]
    async fn right_ones_at_the_same_time_only_wait_for_each_other() {
        let throttle = LoginThrottle::default();
        let mut open: Vec<_> =
            (0..limits::LOGIN_FAILURES_PER_MINUTE).map(|_| begin(&throttle, "admin", at(1))).collect();
        let mut late = std::pin::pin!(throttle.attempt("admin", at(1)));
        assert!(late.as_mut().now_or_never().is_none());
        open.pop().expect("one of them").succeeded();
        assert!(late.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_guessed_at_from_everywhere_is_closed_to_strangers_alone() {
        let throttle = LoginThrottle::default();
        begin(&throttle, "admin", at(200)).succeeded();
        let limit = limits::LOGIN_FAILURES_PER_USER_AND_MINUTE;
        for number in 0..limit {
            fail(&throttle, "admin", at((number / limits::LOGIN_FAILURES_PER_MINUTE) as u8));
        }
        assert!(is_refused(&throttle, "admin", at(100)), "who was never seen has to wait");
        assert!(!is_refused(&throttle, "admin", at(200)), "who has logged in lately gets in");
        let of_loopback = |last, is_local| Sender { address: Some([127, 0, 0, last].into()), is_local }.guesser();
        assert!(!is_refused(&throttle, "admin", of_loopback(1, true)), "and who is on this machine");
        assert!(is_refused(&throttle, "admin", of_loopback(1, false)), "but not by the word of a proxy");
        assert!(!is_refused(&throttle, "other", at(100)), "and other users");
        let pairs = throttle.0.counts.lock().pairs.len();
        for last in 101..200 {
            assert!(is_refused(&throttle, "admin", at(last)));
        }
        assert_eq!(throttle.0.counts.lock().pairs.len(), pairs, "who is turned away costs no memory");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_remembered_of_what_was_not_checked_and_after_a_minute_of_nobody() {
        let throttle = LoginThrottle::default();
        let counted = || {
            let counts = throttle.0.counts.lock();
            (counts.pairs.len(), counts.users.len())
        };
        for number in 0..1000 {
            drop(begin(&throttle, &format!("name {number}"), at(1)));
        }
        assert_eq!(counted(), (0, 0));
        for number in 0..100 {
            fail(&throttle, &format!("name {number}"), at(1));
        }
        assert_eq!(counted(), (100, 100));
        advance(WINDOW).await;
        fail(&throttle, "admin", at(1));
        assert_eq!(counted(), (1, 1));
    }
}
