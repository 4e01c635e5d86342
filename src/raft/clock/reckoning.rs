//! Calculation of the cluster's time from given clock values, for [`Clock`](super::Clock).

use std::time::Duration;

use super::told_time::ToldTime;
use crate::catalog::time::{STEP_MAX_MS, TimeMark};

/// Divisor of the elapsed time that gives the maximum correction of it.
const SLEW_DIVISOR: u32 = 100;
/// Minimum difference from which on a follower sets its time to the leader's; the round trip, if that is longer.
const FOLLOWED_WITHIN: Duration = Duration::from_millis(50);
const STEP_MAX: Duration = Duration::from_millis(STEP_MAX_MS);

/// Time calculation of one node. Times are since the Unix epoch.
pub(super) struct Reckoning {
    /// Newest known stamp.
    newest: Duration,
    /// Newest applied stamp, and the uptime at which it was applied.
    applied: Anchor,
    /// Doubted part of the time.
    ahead: Duration,
    pub(super) epoch: u16,
    /// Sum in milliseconds of all settings of the time.
    pub(super) shift_ms: i64,
    pub(super) anchor: Option<Anchor>,
    /// Last term that this node began to lead after asking the other members.
    pub(super) begun: Option<u64>,
}

#[derive(Clone, Copy)]
pub(super) struct Anchor {
    time: Duration,
    /// Uptime at that time.
    at: Duration,
}

impl Reckoning {
    pub(super) fn new(mark: TimeMark, now: Duration) -> Self {
        Reckoning {
            newest: Duration::from_millis(mark.newest.0),
            applied: Anchor { time: Duration::from_millis(mark.newest.0), at: now },
            ahead: Duration::from_millis(mark.ahead_ms),
            epoch: mark.epoch,
            shift_ms: mark.shift_ms,
            anchor: None,
            begun: None,
        }
    }

    pub(super) fn own(&self, told: ToldTime) -> Duration {
        moved(Duration::from_millis(told.time.0), self.shift_ms.saturating_sub(told.shift_ms))
    }

    /// Returns the sure time. A time further from the newest applied stamp than an undoubted step, and than the uptime
    /// since, would be in doubt as the next stamp, so it counts only up to that uptime.
    pub(super) fn sure(&mut self, now: Duration, wall: Duration) -> Duration {
        let (time, Anchor { time: applied, at }) = (self.read(now, wall), self.applied);
        let time = match time.saturating_sub(applied) <= STEP_MAX {
            true => time,
            false => time.min(applied + now.saturating_sub(at)),
        };
        time.saturating_sub(self.ahead)
    }

    /// Records what was applied; moves the anchor only if the time was set meanwhile.
    pub(super) fn take(&mut self, mark: TimeMark, now: Duration) {
        let newest = Duration::from_millis(mark.newest.0);
        self.ahead = Duration::from_millis(mark.ahead_ms);
        self.applied = Anchor { time: newest, at: now };
        if (mark.epoch, mark.shift_ms) == (self.epoch, self.shift_ms) {
            self.newest = self.newest.max(newest);
            return;
        }
        let by_ms = mark.shift_ms.saturating_sub(self.shift_ms);
        if let Some(anchor) = &mut self.anchor {
            anchor.time = moved(anchor.time, by_ms);
        }
        (self.epoch, self.shift_ms) = (mark.epoch, mark.shift_ms);
        self.newest = newest;
    }

    pub(super) fn read(&mut self, now: Duration, wall: Duration) -> Duration {
        self.advance(now, wall).unwrap_or(wall).max(self.newest)
    }

    /// Moves the anchor to `now` and returns the time; `None` without an anchor.
    fn advance(&mut self, now: Duration, wall: Duration) -> Option<Duration> {
        let anchor = self.anchor.as_mut()?;
        let passed = now.saturating_sub(anchor.at);
        let (even, slew) = (anchor.time + passed, passed / SLEW_DIVISOR);
        *anchor = Anchor { time: wall.clamp(even - slew, even + slew), at: anchor.at.max(now) };
        Some(anchor.time)
    }

    pub(super) fn stamp(&mut self, term: u64, now: Duration, wall: Duration) -> Option<Duration> {
        if self.begun != Some(term) {
            return None;
        }
        let time = self.advance(now, wall)?.max(self.newest);
        // If the log is ahead, time continues from its newest stamp; otherwise it would stand still until it gets
        // there.
        self.anchor = Some(Anchor { time, at: now });
        self.newest = time;
        Some(time)
    }

    /// Records an applied stamp. A stamp before the current time does not move the anchor: its entry may have been
    /// late.
    pub(super) fn observe(&mut self, mark: TimeMark, now: Duration) {
        let stamp = Duration::from_millis(mark.newest.0);
        self.take(mark, now);
        if let Some(anchor) = self.anchor
            && stamp > anchor.time + now.saturating_sub(anchor.at)
        {
            self.anchor = Some(Anchor { time: stamp, at: now });
        }
    }

    pub(super) fn follow(&mut self, time: Duration, round_trip: Duration, now: Duration, wall: Duration) {
        // The way back took about half of the round trip.
        let told = time + round_trip / 2;
        let own = self.advance(now, wall);
        if own.is_none_or(|own| own.abs_diff(told) > FOLLOWED_WITHIN.max(round_trip)) {
            self.anchor = Some(Anchor { time: told.max(self.newest), at: now });
        }
    }

    pub(super) fn begin(&mut self, term: u64, latest: Option<Duration>, now: Duration, wall: Duration) {
        if let (Some(own), Some(latest)) = (self.advance(now, wall), latest)
            && latest > own
        {
            self.anchor = Some(Anchor { time: latest, at: now });
        }
        self.begun = Some(term);
    }

    pub(super) fn adopt(&mut self, time: Duration, now: Duration) {
        let time = time.max(self.newest);
        self.anchor.get_or_insert(Anchor { time, at: now });
    }
}

fn moved(time: Duration, by_ms: i64) -> Duration {
    let by = Duration::from_millis(by_ms.unsigned_abs());
    if by_ms < 0 { time.saturating_sub(by) } else { time.saturating_add(by) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;
    use crate::raft::clock::to_timestamp;

    const SECOND: u64 = 1000;
    const HOUR: u64 = 3600 * SECOND;
    const DAY: u64 = 24 * HOUR;
    /// Start of all scenarios.
    const ZERO: u64 = 1_800_000_000_000;

    enum Step {
        /// Lets real time pass, in milliseconds.
        Pass(u64),
        /// Sets the error of the wall clock, in milliseconds.
        Wrong(i64),
        /// Applies an entry with a stamp in milliseconds after the start.
        Applied(i64),
        Told(i64),
        /// Gets the leader's time in an answer with a round trip in milliseconds.
        Follows(i64, u64),
        /// Begins a term with the latest time that other members know.
        Begins(u64, i64),
        /// Stamps in a term; the expected stamp in milliseconds after the start.
        Stamps(u64, i64),
        CannotStamp,
        Reads(i64),
    }
    use Step::{Applied, Begins, CannotStamp, Follows, Pass, Reads, Stamps, Told, Wrong};

    fn after_zero(ms: i64) -> u64 {
        ZERO.checked_add_signed(ms).expect("far from the ends")
    }

    /// Runs the steps on a node whose log ends at the start.
    fn walk(title: &str, steps: &[Step]) {
        let (start, mut passed, mut wrong) = (Duration::from_secs(1000), 0, 0);
        let mark = |ms| TimeMark { newest: Timestamp(ms), ..TimeMark::default() };
        let mut reckoning = Reckoning::new(mark(ZERO), start);
        for (number, step) in steps.iter().enumerate() {
            let at = format!("{title}, step {number}");
            let now = start + Duration::from_millis(passed);
            let wall = Duration::from_millis(after_zero(wrong) + passed);
            let shown = |time: Duration| i64::try_from(to_timestamp(time).0).expect("small") - ZERO as i64;
            match step {
                Pass(ms) => passed += ms,
                Wrong(ms) => wrong = *ms,
                Applied(ms) => reckoning.observe(mark(after_zero(*ms)), now),
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

    /// A node was away for ten minutes, and an entry was written in the first second of them.
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

    const BACK: u64 = 400 * DAY;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns a node whose time is 400 days ahead, and the mark of the entry that sets the time back.
    fn ahead() -> (Reckoning, TimeMark) {
        let mark = TimeMark { newest: Timestamp(ZERO + BACK), ..TimeMark::default() };
        let mut reckoning = Reckoning::new(mark, at(0));
        reckoning.adopt(at(ZERO + BACK), at(0));
        let set = TimeMark { newest: Timestamp(ZERO), epoch: 1, shift_ms: -(BACK as i64), ahead_ms: 0 };
        (reckoning, set)
    }

    #[test]
    fn a_time_that_is_set_moves_each_reckoning_by_as_much_however_late() {
        for late in [0, 5, HOUR, 30 * DAY] {
            let (mut reckoning, set) = ahead();
            let wall = at(ZERO + late);
            // The wall clock is right again and corrects by a hundredth.
            let read = to_timestamp(reckoning.read(at(late), wall)).0 - BACK;
            reckoning.observe(set, at(late));
            assert_eq!(to_timestamp(reckoning.read(at(late), wall)).0, read, "late by {late}");
            assert!(read.abs_diff(ZERO + late) <= 1 + late / 50, "late by {late}");
            reckoning.begin(2, None, at(late), wall);
            let stamped = reckoning.stamp(2, at(late), wall).map(|time| to_timestamp(time).0);
            assert_eq!((stamped, reckoning.epoch), (Some(read), 1), "late by {late}");
        }
        let (mut installed, set) = ahead();
        installed.take(set, at(7));
        assert_eq!(to_timestamp(installed.read(at(7), at(ZERO + 7))).0, ZERO + 7, "by a snapshot");
        let mut restarted = Reckoning::new(set, at(0));
        assert_eq!(to_timestamp(restarted.read(at(0), at(ZERO + 9))).0, ZERO + 9, "its rows know no other time");
    }

    #[test]
    fn a_time_that_is_told_is_taken_by_the_settings_that_its_teller_knows() {
        let of = |time, shift_ms| ToldTime { time: Timestamp(time), shift_ms };
        let (mut reckoning, set) = ahead();
        let after = of(ZERO + 50, set.shift_ms);
        // The leader has applied the setting, this node has not.
        let wall = at(ZERO + BACK + 50);
        reckoning.follow(reckoning.own(after), at(0), at(50), wall);
        assert_eq!(to_timestamp(reckoning.read(at(50), wall)).0, ZERO + BACK + 50);
        reckoning.observe(set, at(60));
        // This node has applied the setting, the leader has not.
        reckoning.follow(reckoning.own(of(ZERO + BACK + 9_000, 0)), at(0), at(70), at(ZERO + 70));
        assert_eq!(to_timestamp(reckoning.read(at(70), at(ZERO + 9_000))).0, ZERO + 9_000);
        let mut new = Reckoning::new(set, at(0));
        new.adopt(new.own(of(ZERO + BACK + 9_000, 0)), at(0));
        assert_eq!(to_timestamp(new.read(at(0), at(ZERO))).0, ZERO + 9_000);
    }

    #[test]
    fn the_sure_time_goes_on_from_what_was_applied() {
        let mark = |newest, ahead_ms| TimeMark { newest: Timestamp(newest), ahead_ms, ..TimeMark::default() };
        let sure = |reckoning: &mut Reckoning, now, wall| to_timestamp(reckoning.sure(at(now), at(wall))).0 - ZERO;
        let mut started = Reckoning::new(mark(ZERO, 0), at(0));
        assert_eq!(sure(&mut started, 0, ZERO + HOUR), HOUR, "a step that is not doubted");
        assert_eq!(sure(&mut started, 0, ZERO + 100 * DAY), 0, "one that will be");
        assert_eq!(sure(&mut started, 5_000, ZERO + 100 * DAY), 5_000);
        started.adopt(at(ZERO + 100 * DAY), at(6_000));
        assert_eq!(sure(&mut started, 6_000, ZERO + 100 * DAY), 6_000);
        // Its own stamp is not applied yet.
        started.begin(1, None, at(6_000), at(ZERO + 100 * DAY));
        started.stamp(1, at(6_000), at(ZERO + 100 * DAY)).expect("it leads");
        assert_eq!(sure(&mut started, 6_000, ZERO + 100 * DAY), 6_000);
        started.observe(mark(ZERO + 100 * DAY, 100 * DAY - 10), at(6_100));
        assert_eq!(sure(&mut started, 6_100, ZERO + 100 * DAY + 100), 110);
        started.observe(mark(ZERO + 100 * DAY + 50, 0), at(6_150));
        assert_eq!(sure(&mut started, 6_150, ZERO + 100 * DAY + 150), 100 * DAY + 150, "it was confirmed");
        // A node that is cut off has counted the time since the newest stamp.
        assert_eq!(sure(&mut started, 6_150 + DAY, ZERO + 101 * DAY + 150), 101 * DAY + 50);
    }
}
