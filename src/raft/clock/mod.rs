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
//! them have just started, their clocks decide, the middle one.

mod ask;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

pub(crate) use self::ask::settle;
use crate::model::time::Timestamp;
use crate::uptime;

/// Time is slowed down or sped up by one part in so many, at most.
const SLEW_DIVISOR: u32 = 100;
/// The leader's time is as exact as the way is short, and no better than this.
const FOLLOWED_WITHIN: Duration = Duration::from_millis(50);

/// The time of the cluster as this node reckons it.
pub struct Clock {
    reckoning: Mutex<Reckoning>,
    /// Milliseconds by which the wall clock is wrong, for tests.
    #[cfg(test)]
    wrong_by_ms: std::sync::atomic::AtomicI64,
}

impl Clock {
    /// `newest` is the newest stamp of the log: time never falls behind it.
    pub(super) fn new(newest: Timestamp) -> Self {
        Clock {
            reckoning: Mutex::new(Reckoning::new(newest)),
            #[cfg(test)]
            wrong_by_ms: Default::default(),
        }
    }

    /// Current time of the cluster.
    pub fn now(&self) -> Timestamp {
        to_timestamp(self.reckoning.lock().read(uptime::now(), self.wall()))
    }

    /// True once the others were asked for the time before the first stamp in `term`.
    fn has_begun(&self, term: u64) -> bool {
        self.reckoning.lock().begun == Some(term)
    }

    pub(super) fn is_anchored(&self) -> bool {
        self.reckoning.lock().anchor.is_some()
    }

    /// Current time of the cluster; `None` if this node knows it by no more than its own wall clock.
    pub(super) fn known(&self) -> Option<Timestamp> {
        let mut reckoning = self.reckoning.lock();
        reckoning.anchor?;
        Some(to_timestamp(reckoning.read(uptime::now(), self.wall())))
    }

    /// The stamp of a proposal in a term that this node leads; `None` before it has found out what the others know.
    pub(super) fn stamp(&self, term: u64) -> Option<Timestamp> {
        self.reckoning.lock().stamp(term, uptime::now(), self.wall()).map(to_timestamp)
    }

    /// An entry with this stamp was applied.
    pub(super) fn observe(&self, stamp: Timestamp) {
        self.reckoning.lock().observe(Duration::from_millis(stamp.0), uptime::now());
    }

    /// A state was installed whose newest stamp is this.
    pub(super) fn not_before(&self, newest: Timestamp) {
        self.reckoning.lock().not_before(Duration::from_millis(newest.0));
    }

    /// Takes over what time it is, if this node does not know it yet.
    pub(super) fn adopt(&self, time: Timestamp) {
        self.reckoning.lock().adopt(Duration::from_millis(time.0), uptime::now());
    }

    /// The leader says what time it is, in an answer that took so long.
    pub(super) fn follow(&self, time: Timestamp, round_trip: Duration) {
        self.reckoning.lock().follow(Duration::from_millis(time.0), round_trip, uptime::now(), self.wall());
    }

    /// This node leads `term`, and the others know of no later time than this.
    pub(super) fn begin(&self, term: u64, latest: Option<Timestamp>) {
        let latest = latest.map(|time| Duration::from_millis(time.0));
        self.reckoning.lock().begin(term, latest, uptime::now(), self.wall());
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

fn to_timestamp(since_epoch: Duration) -> Timestamp {
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

/// The bookkeeping behind a [`Clock`]: it is told what the clocks show. Times are since the epoch.
struct Reckoning {
    /// The newest stamp that is known.
    newest: Duration,
    anchor: Option<Anchor>,
    /// The last term that this node leads, knowing what the others know.
    begun: Option<u64>,
}

#[derive(Clone, Copy)]
struct Anchor {
    time: Duration,
    /// By the uptime.
    at: Duration,
}

impl Reckoning {
    fn new(newest: Timestamp) -> Self {
        Reckoning { newest: Duration::from_millis(newest.0), anchor: None, begun: None }
    }

    fn read(&mut self, now: Duration, wall: Duration) -> Duration {
        self.advance(now, wall).unwrap_or(wall).max(self.newest)
    }

    /// Moves the anchor on to `now`.
    fn advance(&mut self, now: Duration, wall: Duration) -> Option<Duration> {
        let anchor = self.anchor.as_mut()?;
        let passed = now.saturating_sub(anchor.at);
        let (even, slew) = (anchor.time + passed, passed / SLEW_DIVISOR);
        *anchor = Anchor { time: wall.clamp(even - slew, even + slew), at: anchor.at.max(now) };
        Some(anchor.time)
    }

    fn stamp(&mut self, term: u64, now: Duration, wall: Duration) -> Option<Duration> {
        if self.begun != Some(term) {
            return None;
        }
        let time = self.advance(now, wall)?.max(self.newest);
        // Where the log is ahead, time goes on from there and does not stand still until it is reached.
        self.anchor = Some(Anchor { time, at: now });
        self.newest = time;
        Some(time)
    }

    /// A stamp that is behind says nothing: it may be of an entry that took its time, on the way or in the log.
    fn observe(&mut self, stamp: Duration, now: Duration) {
        self.newest = self.newest.max(stamp);
        if let Some(anchor) = self.anchor
            && stamp > anchor.time + now.saturating_sub(anchor.at)
        {
            self.anchor = Some(Anchor { time: stamp, at: now });
        }
    }

    fn follow(&mut self, time: Duration, round_trip: Duration, now: Duration, wall: Duration) {
        // Half of the way it took to come here, or a little more or less.
        let told = time + round_trip / 2;
        let own = self.advance(now, wall);
        if own.is_none_or(|own| own.abs_diff(told) > FOLLOWED_WITHIN.max(round_trip)) {
            self.anchor = Some(Anchor { time: told.max(self.newest), at: now });
        }
    }

    fn begin(&mut self, term: u64, latest: Option<Duration>, now: Duration, wall: Duration) {
        if let (Some(own), Some(latest)) = (self.advance(now, wall), latest)
            && latest > own
        {
            self.anchor = Some(Anchor { time: latest, at: now });
        }
        self.begun = Some(term);
    }

    fn not_before(&mut self, newest: Duration) {
        self.newest = self.newest.max(newest);
    }

    fn adopt(&mut self, time: Duration, now: Duration) {
        let time = time.max(self.newest);
        self.anchor.get_or_insert(Anchor { time, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;
    const HOUR: u64 = 3600 * SECOND;
    const DAY: u64 = 24 * HOUR;
    /// Beginning of the stories.
    const ZERO: u64 = 1_800_000_000_000;

    enum Step {
        /// Real time goes on, in milliseconds.
        Pass(u64),
        /// From here on the wall clock is ahead of real time, or behind.
        Wrong(i64),
        /// An entry, stamped so long after the beginning.
        Applied(i64),
        Told(i64),
        /// The leader says so, in an answer that took some milliseconds.
        Follows(i64, u64),
        /// This node leads the term, and the latest time that others know is this.
        Begins(u64, i64),
        /// This node stamps in this term, so long after the beginning.
        Stamps(u64, i64),
        CannotStamp,
        Reads(i64),
    }
    use Step::{Applied, Begins, CannotStamp, Follows, Pass, Reads, Stamps, Told, Wrong};

    fn after_zero(ms: i64) -> u64 {
        ZERO.checked_add_signed(ms).expect("far from the ends")
    }

    /// Walks through the steps with a node whose log ends at the beginning.
    fn walk(title: &str, steps: &[Step]) {
        let (start, mut passed, mut wrong) = (Duration::from_secs(1000), 0, 0);
        let mut reckoning = Reckoning::new(Timestamp(ZERO));
        for (number, step) in steps.iter().enumerate() {
            let at = format!("{title}, step {number}");
            let now = start + Duration::from_millis(passed);
            let wall = Duration::from_millis(after_zero(wrong) + passed);
            let shown = |time: Duration| i64::try_from(to_timestamp(time).0).expect("small") - ZERO as i64;
            match step {
                Pass(ms) => passed += ms,
                Wrong(ms) => wrong = *ms,
                Applied(ms) => reckoning.observe(Duration::from_millis(after_zero(*ms)), now),
                Told(ms) => reckoning.adopt(Duration::from_millis(after_zero(*ms)), now),
                Follows(ms, round_trip_ms) => {
                    let round_trip = Duration::from_millis(*round_trip_ms);
                    reckoning.follow(Duration::from_millis(after_zero(*ms)), round_trip, now, wall);
                }
                Begins(term, ms) => {
                    reckoning.begin(*term, Some(Duration::from_millis(after_zero(*ms))), now, wall);
                }
                Stamps(term, ms) => {
                    if reckoning.begun != Some(*term) {
                        assert_eq!(reckoning.stamp(*term, now, wall), None, "{at}: nobody was asked");
                        reckoning.begin(*term, None, now, wall);
                    }
                    assert_eq!(reckoning.stamp(*term, now, wall).map(shown), Some(*ms), "{at}");
                }
                CannotStamp => {
                    reckoning.begin(1, None, now, wall);
                    assert_eq!(reckoning.stamp(1, now, wall), None, "{at}");
                }
                Reads(ms) => assert_eq!(shown(reckoning.read(now, wall)), *ms, "{at}"),
            }
        }
    }

    #[test]
    fn a_clock_that_is_right_shows_the_time() {
        walk("all agree", &[Told(0), Stamps(1, 0), Pass(5), Stamps(1, 5), Pass(DAY), Stamps(1, DAY as i64 + 5)]);
        walk("a follower", &[Told(0), Pass(SECOND), Applied(1000), Pass(SECOND), Reads(2000)]);
    }

    #[test]
    fn a_wrong_clock_pulls_by_a_hundredth_and_no_more() {
        let month = 30 * DAY as i64;
        for (title, wrong, after_second, after_day) in [
            ("a month ahead", month, 1010, DAY as i64 / 100 * 101),
            ("two hours ahead", 2 * HOUR as i64, 1010, DAY as i64 / 100 * 101),
            ("two hours behind", -2 * HOUR as i64, 990, DAY as i64 / 100 * 99),
            ("a month behind", -month, 990, DAY as i64 / 100 * 99),
            ("a little ahead", 3, 1003, DAY as i64 + 3),
            ("a little behind", -3, 997, DAY as i64 - 3),
        ] {
            let leads = [Told(0), Wrong(wrong), Pass(SECOND), Stamps(1, after_second)];
            walk(title, &leads);
            walk(title, &[Told(0), Wrong(wrong), Pass(DAY), Stamps(1, after_day)]);
            walk(&format!("{title}, only read"), &[Told(0), Wrong(wrong), Pass(DAY), Reads(after_day)]);
        }
        let jumps = [Told(0), Wrong(month), Pass(SECOND), Stamps(1, 1010), Wrong(-month), Stamps(1, 1010)];
        walk("a clock that is set forth and back", &jumps);
    }

    #[test]
    fn a_new_leader_goes_on_where_the_log_ends() {
        let month = 30 * DAY as i64;
        walk(
            "its clock is a month ahead, and it followed for an hour",
            &[Told(0), Wrong(month), Pass(HOUR), Follows(3_600_000, 0), Pass(SECOND), Stamps(2, 3_601_010)],
        );
        walk(
            "its clock is a month behind",
            &[Told(0), Wrong(-month), Pass(HOUR), Follows(3_600_000, 0), Pass(SECOND), Stamps(2, 3_600_990)],
        );
        walk("the log is ahead of it", &[Told(0), Applied(7_000), Stamps(2, 7_000), Pass(SECOND), Stamps(2, 7_990)]);
        walk(
            "what it applies late of the term before",
            &[Told(0), Pass(900), Stamps(2, 900), Applied(500), Stamps(2, 900)],
        );
    }

    /// A node was away for ten minutes, in the first second of which something was written.
    #[test]
    fn an_entry_that_is_applied_late_turns_no_clock_back() {
        walk("it reads on", &[Told(0), Pass(600_000), Applied(1_000), Reads(600_000), Stamps(2, 600_000)]);
        walk(
            "a pause that its uptime counts",
            &[Told(0), Pass(HOUR), Applied(60_000), Pass(5), Reads(HOUR as i64 + 5)],
        );
    }

    #[test]
    fn a_follower_takes_the_time_of_its_leader() {
        walk("it is ahead", &[Told(60_000), Follows(0, 20), Reads(10), Pass(SECOND), Follows(1_000, 20), Reads(1_000)]);
        walk("it is behind", &[Told(0), Follows(60_000, 20), Reads(60_010)]);
        walk("as exact as the way is short", &[Told(0), Pass(SECOND), Follows(800, 300), Reads(1_000)]);
        walk(
            "not below what was stamped",
            &[Told(0), Applied(9_000), Follows(5_000, 0), Reads(9_000), Pass(10), Reads(9_009)],
        );
        walk("nobody has told it before", &[Follows(5_000, 10), Reads(5_005)]);
    }

    #[test]
    fn a_new_leader_does_not_begin_behind_what_others_know() {
        walk(
            "it stood still for 100 s",
            &[Told(0), Begins(2, 100_000), Stamps(2, 100_000), Pass(5), Stamps(2, 100_004)],
        );
        walk("the others are behind", &[Told(0), Pass(SECOND), Begins(2, 400), Stamps(2, 1_000)]);
    }

    #[test]
    fn its_own_stamps_do_not_slow_a_leader_down() {
        let mut steps = vec![Told(0)];
        for round in 1..=1000 {
            // A hundred milliseconds from stamp to apply, and the next write at once.
            let stamp = round * 100;
            steps.extend([Pass(100), Stamps(1, stamp), Applied(stamp - 100)]);
        }
        walk("one write after the other", &steps);
    }

    #[test]
    fn who_has_just_started_does_not_know_the_time() {
        let month = 30 * DAY as i64;
        walk("nobody told it", &[CannotStamp, Applied(500), CannotStamp]);
        walk("it reads its own clock until then", &[Wrong(HOUR as i64), Reads(HOUR as i64), Told(0), Reads(0)]);
        walk("but not below its log", &[Wrong(-month), Reads(0), Applied(500), Reads(500)]);
        walk("old entries do not tell it", &[Pass(DAY), Applied(500), Told(DAY as i64), Stamps(2, DAY as i64)]);
        walk("told less than its log says", &[Applied(5_000), Told(3_000), Stamps(2, 5_000)]);
        walk("told twice", &[Told(1_000), Told(9_000), Wrong(1_000), Stamps(1, 1_000)]);
    }
}
