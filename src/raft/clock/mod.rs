//! Time of the cluster: the leader's stamps, and the time by which every node determines ages and expirations.
//!
//! Each node has an anchor, which is a time together with the uptime of the machine at that time, and counts on from
//! there. Its wall clock only corrects: time runs up to a hundredth faster or slower until the two agree. So a leader
//! whose clock is wrong by hours moves no stamp by more than a hundredth of the time that has really passed, and never
//! backwards.
//!
//! A follower gets the time from its leader several times a second ([`super::poll`]) and sets its anchor to it. A stamp
//! that it applies moves the anchor forward only: its entry may be late, by hours if the node was away. A new leader
//! asks the members in reach before its first stamp, and does not start below the time that they know ([`ask`]).
//!
//! A node that has just started has no anchor. It adopts the time of a member that knows it. If none does, because all
//! have just started, the median of their wall clocks is used. These may all be wrong: a stamp that is far ahead of the
//! previous one is in doubt ([`crate::catalog::time`]), and the sure time continues from the previous one.
//!
//! An administrator may set the time, also back. This is an entry of the log, and each node moves its anchor by the
//! same amount when it applies the entry, however late. Times that nodes exchange carry the sum of all such moves that
//! the sender has applied, so that a receiver that has applied more or fewer can convert them.

mod ask;
mod reckoning;
pub mod survey;
mod told_time;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

pub(crate) use self::ask::settle;
use self::reckoning::Reckoning;
pub(super) use self::told_time::ToldTime;
use crate::catalog::time::TimeMark;
use crate::model::time::Timestamp;
use crate::uptime;

/// The time of the cluster as counted by this node.
pub struct Clock {
    reckoning: Mutex<Reckoning>,
    /// Error of the wall clock in milliseconds, for tests.
    #[cfg(test)]
    wrong_by_ms: std::sync::atomic::AtomicI64,
}

impl Clock {
    /// Creates a clock that never returns a time before the newest stamp of the log.
    pub(super) fn new(mark: TimeMark) -> Self {
        Clock {
            reckoning: Mutex::new(Reckoning::new(mark, uptime::now())),
            #[cfg(test)]
            wrong_by_ms: Default::default(),
        }
    }

    /// Returns the current time of the cluster.
    pub fn now(&self) -> Timestamp {
        to_timestamp(self.reckoning.lock().read(uptime::now(), self.wall()))
    }

    /// Returns the time of the cluster without its doubted part, see [`crate::catalog::time`].
    pub fn sure(&self) -> Timestamp {
        to_timestamp(self.reckoning.lock().sure(uptime::now(), self.wall()))
    }

    /// Reports whether the other members were asked for the time before the first stamp in `term`.
    fn has_begun(&self, term: u64) -> bool {
        self.reckoning.lock().begun == Some(term)
    }

    pub(super) fn is_anchored(&self) -> bool {
        self.reckoning.lock().anchor.is_some()
    }

    /// Returns the current time of the cluster for other members; `None` if this node has only its own wall clock.
    pub(super) fn known(&self) -> Option<ToldTime> {
        let mut reckoning = self.reckoning.lock();
        reckoning.anchor?;
        let (time, shift_ms) = (to_timestamp(reckoning.read(uptime::now(), self.wall())), reckoning.shift_ms);
        Some(ToldTime { time, shift_ms })
    }

    /// Returns the stamp and the epoch of a proposal in a term that this node leads; `None` before it has asked the
    /// other members.
    pub(super) fn stamp(&self, term: u64) -> Option<(Timestamp, u16)> {
        let mut reckoning = self.reckoning.lock();
        let time = reckoning.stamp(term, uptime::now(), self.wall()).map(to_timestamp)?;
        Some((time, reckoning.epoch))
    }

    /// Returns time and epoch if the other members could not answer.
    pub(super) fn unsettled(&self) -> (Timestamp, u16) {
        let mut reckoning = self.reckoning.lock();
        (to_timestamp(reckoning.read(uptime::now(), self.wall())), reckoning.epoch)
    }

    /// Records the mark of applied entries.
    pub(super) fn observe(&self, mark: TimeMark) {
        self.reckoning.lock().observe(mark, uptime::now());
    }

    /// Records the mark of an installed state.
    pub(super) fn install(&self, mark: TimeMark) {
        self.reckoning.lock().take(mark, uptime::now());
    }

    /// Sets the time, if this node does not know it yet.
    pub(super) fn adopt(&self, told: ToldTime) {
        let mut reckoning = self.reckoning.lock();
        let time = reckoning.own(told);
        reckoning.adopt(time, uptime::now());
    }

    /// Sets the time, in this node's count, if it does not know it yet.
    pub(super) fn adopt_own(&self, time: Timestamp) {
        self.reckoning.lock().adopt(Duration::from_millis(time.0), uptime::now());
    }

    /// Sets the time to that of the leader, received after the given round trip.
    pub(super) fn follow(&self, told: ToldTime, round_trip: Duration) {
        let mut reckoning = self.reckoning.lock();
        let time = reckoning.own(told);
        reckoning.follow(time, round_trip, uptime::now(), self.wall());
    }

    /// Begins a term that this node leads; `latest` is the latest time that the other members know.
    pub(super) fn begin(&self, term: u64, latest: Option<ToldTime>) {
        let mut reckoning = self.reckoning.lock();
        let latest = latest.map(|told| reckoning.own(told));
        reckoning.begin(term, latest, uptime::now(), self.wall());
    }

    /// Returns the wall clock; the only place where it is read.
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
        // The entry that sets the time is applied before the other members have answered.
        clock.observe(TimeMark { newest: right, epoch: 1, shift_ms: -(BACK_MS as i64), ..before });
        clock.begin(1, Some(told));
        let (stamp, epoch) = clock.stamp(1).expect("it leads");
        assert!(epoch == 1 && stamp.0.abs_diff(right.0) < 60_000, "stamped {} ms off", stamp.0.abs_diff(right.0));
    }
}
