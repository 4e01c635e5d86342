//! The time of the cluster: what the leader stamps, and what every node judges the age of things by.
//!
//! Each node keeps an anchor, a time and the moment of the machine's uptime at which it was that time, and counts on
//! from there. Its wall clock only pulls: time runs by up to a hundredth faster or slower until it agrees. So a leader
//! whose clock is hours off, in whichever direction, moves no stamp by more than a hundredth of the time that has
//! really passed, and never backwards.
//!
//! A follower is told by its leader what time it is, twice a second ([`super::poll`]), and takes that for a new anchor.
//! A stamp that it applies moves its anchor forward alone: it may be of an entry that came late, by hours where the
//! node was away. A new leader asks who is in reach before its first stamp, and does not begin behind what they know
//! ([`ask`]).
//!
//! A node that has just started has no anchor. It takes the time of whoever knows it; where nobody does, because all of
//! them have just started, their clocks decide, the middle one. They may all be wrong: a stamp that is far ahead of the
//! one before is doubted ([`crate::catalog::time`]), and the sure time goes on from there.
//!
//! An administrator may set the time, also back. That is an entry of the log, and each node moves its anchor by as much
//! when it applies it, however late. Times that nodes exchange come with the sum of all such moves which the sender
//! knows, so that one who knows of more, or of fewer, takes them for what they are.

mod ask;
mod reckoning;
pub mod survey;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

pub(crate) use self::ask::settle;
use self::reckoning::Reckoning;
use crate::catalog::time::TimeMark;
use crate::model::time::Timestamp;
use crate::peer::PeerProgress;
use crate::uptime;

/// The time of the cluster as this node reckons it.
pub struct Clock {
    reckoning: Mutex<Reckoning>,
    /// Milliseconds by which the wall clock is wrong, for tests.
    #[cfg(test)]
    wrong_by_ms: std::sync::atomic::AtomicI64,
}

impl Clock {
    /// Makes a clock that never shows a time before the newest stamp of the log.
    pub(super) fn new(mark: TimeMark) -> Self {
        Clock {
            reckoning: Mutex::new(Reckoning::new(mark, uptime::now())),
            #[cfg(test)]
            wrong_by_ms: Default::default(),
        }
    }

    /// Current time of the cluster.
    pub fn now(&self) -> Timestamp {
        to_timestamp(self.reckoning.lock().read(uptime::now(), self.wall()))
    }

    /// Returns the time of the cluster without all that is in doubt, see [`crate::catalog::time`].
    pub fn sure(&self) -> Timestamp {
        to_timestamp(self.reckoning.lock().sure(uptime::now(), self.wall()))
    }

    /// True once the others were asked for the time before the first stamp in `term`.
    fn has_begun(&self, term: u64) -> bool {
        self.reckoning.lock().begun == Some(term)
    }

    pub(super) fn is_anchored(&self) -> bool {
        self.reckoning.lock().anchor.is_some()
    }

    /// Current time of the cluster, for others; `None` if this node knows it by no more than its own wall clock.
    pub(super) fn known(&self) -> Option<ToldTime> {
        let mut reckoning = self.reckoning.lock();
        reckoning.anchor?;
        let (time, shift_ms) = (to_timestamp(reckoning.read(uptime::now(), self.wall())), reckoning.shift_ms);
        Some(ToldTime { time, shift_ms })
    }

    /// The stamp of a proposal in a term that this node leads, and its epoch; `None` before it has found out what the
    /// others know.
    pub(super) fn stamp(&self, term: u64) -> Option<(Timestamp, u16)> {
        let mut reckoning = self.reckoning.lock();
        let time = reckoning.stamp(term, uptime::now(), self.wall()).map(to_timestamp)?;
        Some((time, reckoning.epoch))
    }

    /// Returns time and epoch where the others could not answer.
    pub(super) fn unsettled(&self) -> (Timestamp, u16) {
        let mut reckoning = self.reckoning.lock();
        (to_timestamp(reckoning.read(uptime::now(), self.wall())), reckoning.epoch)
    }

    /// Takes over that entries were applied, up to this mark.
    pub(super) fn observe(&self, mark: TimeMark) {
        self.reckoning.lock().observe(mark, uptime::now());
    }

    /// Takes over that a state with this mark was installed.
    pub(super) fn install(&self, mark: TimeMark) {
        self.reckoning.lock().take(mark, uptime::now());
    }

    /// Takes over what time it is, if this node does not know it yet.
    pub(super) fn adopt(&self, told: ToldTime) {
        let mut reckoning = self.reckoning.lock();
        let time = reckoning.own(told);
        reckoning.adopt(time, uptime::now());
    }

    /// The same of a time as this node counts it.
    pub(super) fn adopt_own(&self, time: Timestamp) {
        self.reckoning.lock().adopt(Duration::from_millis(time.0), uptime::now());
    }

    /// The leader says what time it is, in an answer that took so long.
    pub(super) fn follow(&self, told: ToldTime, round_trip: Duration) {
        let mut reckoning = self.reckoning.lock();
        let time = reckoning.own(told);
        reckoning.follow(time, round_trip, uptime::now(), self.wall());
    }

    /// This node leads `term`, and the others know of no later time than this.
    pub(super) fn begin(&self, term: u64, latest: Option<ToldTime>) {
        let mut reckoning = self.reckoning.lock();
        let latest = latest.map(|told| reckoning.own(told));
        reckoning.begin(term, latest, uptime::now(), self.wall());
    }

    /// The wall clock, read here and nowhere else.
    #[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
    fn wall(&self) -> Duration {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        #[cfg(test)]
        let wall = match self.wrong_by_ms.load(std::sync::atomic::Ordering::Relaxed) {
            ahead @ 0.. => wall + Duration::from_millis(ahead.unsigned_abs()),
            behind => wall - Duration::from_millis(behind.unsigned_abs()),
        };
        wall
    }

    pub(super) fn wall_time(&self) -> Timestamp {
        to_timestamp(self.wall())
    }

    #[cfg(test)]
    pub(super) fn set_wrong_by(&self, ms: i64) {
        self.wrong_by_ms.store(ms, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Time of the cluster as a member says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToldTime {
    pub(super) time: Timestamp,
    /// Milliseconds by which the time was set, as far as that member has applied it.
    pub(super) shift_ms: i64,
}

impl ToldTime {
    /// Reads the time that a member said; `None` of one that does not know it.
    pub(super) fn of(progress: &PeerProgress) -> Option<ToldTime> {
        let shift_ms = progress.time_shift_ms.unwrap_or_default();
        progress.time_ms.map(|ms| ToldTime { time: Timestamp(ms), shift_ms })
    }

    /// Returns milliseconds of the time as if it had never been set, by which times of several members compare.
    fn unmoved_ms(&self) -> i128 {
        i128::from(self.time.0) - i128::from(self.shift_ms)
    }
}

fn to_timestamp(since_epoch: Duration) -> Timestamp {
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_was_told_before_the_time_was_set_begins_no_term_with_it() {
        const BACK_MS: u64 = 400 * 24 * 3_600_000;
        let right = Clock::new(TimeMark::default()).wall_time();
        let wrong = right.plus_ms(BACK_MS);
        let before = TimeMark { newest: wrong, ..TimeMark::default() };
        let clock = Clock::new(before);
        clock.adopt(ToldTime { time: wrong, shift_ms: 0 });
        let told = ToldTime { time: wrong.plus_ms(1000), shift_ms: 0 };
        // The entry that sets the time is applied before others have answered.
        clock.observe(TimeMark { newest: right, epoch: 1, shift_ms: -(BACK_MS as i64), ..before });
        clock.begin(1, Some(told));
        let (stamp, epoch) = clock.stamp(1).expect("it leads");
        assert!(epoch == 1 && stamp.0.abs_diff(right.0) < 60_000, "stamped {} ms off", stamp.0.abs_diff(right.0));
    }
}
