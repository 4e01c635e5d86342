//! Comparison of the cluster's time with the clocks of its members, as one node sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;

use super::ask::middle;
use crate::catalog::time::{ClusterTime, Doubt};
use crate::format::types::NodeId;
use crate::model::time::Timestamp;
use crate::raft::alarms::{Alarm, AlarmKind};
use crate::raft::members::other_members;
use crate::raft::node::Node;

/// Maximum difference of two clocks that agree; half of the tolerance of signed pulls.
pub const AGREE_WITHIN: Duration = Duration::from_secs(30);
/// Time limit of a query for a member's clock.
const CLOCKS_WITHIN: Duration = Duration::from_secs(1);

/// Verdict of the members' clocks on the cluster's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockVerdict {
    /// Most voters' clocks agree with the time.
    Agree,
    /// Most voters' clocks agree with each other on this other time.
    Elsewhere(Timestamp),
    /// Too few clocks are known, or they differ from each other.
    Unclear,
}

/// The cluster's time and the members' clocks at one moment.
#[derive(Clone, Debug)]
pub struct ClockSurvey {
    pub time: Timestamp,
    pub sure: Timestamp,
    /// Clocks of all members; `None` for a member that does not answer.
    pub clocks: BTreeMap<NodeId, Option<Timestamp>>,
    pub verdict: ClockVerdict,
}

/// Returns the milliseconds by which a clock is ahead of another one.
pub fn ahead_ms(clock: Timestamp, of: Timestamp) -> i64 {
    let apart = i64::try_from(clock.0.abs_diff(of.0)).unwrap_or(i64::MAX);
    if clock < of { -apart } else { apart }
}

/// Compares a time with the known clocks of the voters, of which there are `voters`.
pub fn judge(time: Timestamp, clocks: &[Timestamp], voters: usize) -> ClockVerdict {
    let agree_with = |time: Timestamp| {
        let limit = u64::try_from(AGREE_WITHIN.as_millis()).unwrap_or(u64::MAX);
        clocks.iter().filter(|clock| clock.0.abs_diff(time.0) <= limit).count() * 2 > voters
    };
    if agree_with(time) {
        return ClockVerdict::Agree;
    }
    match clocks {
        [] => ClockVerdict::Unclear,
        clocks => {
            let shown = middle(clocks.to_vec());
            if agree_with(shown) { ClockVerdict::Elsewhere(shown) } else { ClockVerdict::Unclear }
        }
    }
}

impl Node {
    /// Compares the cluster's time with the clocks that the members reported at most five seconds ago.
    pub fn survey_clocks(&self) -> ClockSurvey {
        self.survey_clocks_of(|_| true)
    }

    /// Asks all members for their clocks, and compares the cluster's time with those that answer within a second. A
    /// clock that was corrected just now counts with its new time.
    pub async fn ask_clocks(&self) -> ClockSurvey {
        let asked = other_members(self).into_iter().map(|id| async move {
            let answer = self.ask_progress(id, CLOCKS_WITHIN).await;
            answer.map(|_| id)
        });
        let answered: BTreeSet<NodeId> = join_all(asked).await.into_iter().flatten().collect();
        self.survey_clocks_of(|id| answered.contains(&id))
    }

    /// Compares the time with this node's clock and with those of the other members for which `counts` holds.
    fn survey_clocks_of(&self, counts: impl Fn(NodeId) -> bool) -> ClockSurvey {
        let clock = &self.state().clock;
        let (time, sure, said) = (clock.now(), clock.sure(), self.inner().poll.clocks());
        let mut clocks: BTreeMap<_, _> =
            other_members(self).into_iter().map(|id| (id, said.get(&id).copied().filter(|_| counts(id)))).collect();
        clocks.insert(self.id(), Some(clock.wall_time()));
        let metrics = self.raft_metrics();
        let voters: Vec<NodeId> = metrics.membership_config.membership().voter_ids().collect();
        let known: Vec<_> = voters.iter().filter_map(|id| clocks.get(id).copied().flatten()).collect();
        ClockSurvey { time, sure, clocks, verdict: judge(time, &known, voters.len()) }
    }

    /// Returns the milliseconds since a stamp. While this node does not know the time, returns the difference between
    /// the stamp and its own clock, in either direction.
    pub fn since_stamp_ms(&self, stamp: Timestamp) -> u64 {
        let clock = &self.state().clock;
        match clock.known() {
            Some(told) => told.time.0.saturating_sub(stamp.0),
            None => clock.wall_time().0.abs_diff(stamp.0),
        }
    }

    /// Returns the seconds by which this node's clock is ahead of the cluster's time; 0 while it does not know that
    /// time.
    pub(in crate::raft) fn clock_difference(&self) -> f64 {
        let clock = &self.state().clock;
        clock.known().map_or(0.0, |told| ahead_ms(clock.wall_time(), told.time) as f64 / 1000.0)
    }

    pub(in crate::raft) fn clock_alarm(&self, time: &ClusterTime) -> Option<Alarm> {
        self.state().clock.known()?;
        let text = alarm_text(&self.survey_clocks(), time.doubt())?;
        Some(Alarm::of_cluster(AlarmKind::Clock, text))
    }
}

/// Returns the text of the alarm about the time; `None` if there is nothing to report.
fn alarm_text(survey: &ClockSurvey, doubt: Option<&Doubt>) -> Option<String> {
    let apart = |shown: Timestamp| {
        let word = if shown < survey.time { "ahead of" } else { "behind" };
        let by = length(shown.0.abs_diff(survey.time.0));
        format!("it is {by} {word} the clocks of most members, which show {}", shown.rfc3339())
    };
    let set = "`thuban cluster confirm-time --to clocks` sets it to them";
    match (doubt, survey.verdict) {
        (None, ClockVerdict::Agree | ClockVerdict::Unclear) => None,
        (None, ClockVerdict::Elsewhere(shown)) => Some(format!(
            "the time of the cluster is {}: {}; if those are right, dates are wrong by that and signed pulls of \
             clients with the right time are refused: {set}",
            survey.time.rfc3339(),
            apart(shown)
        )),
        (Some(doubt), verdict) => {
            let what = match verdict {
                ClockVerdict::Agree if doubt.ends_by_itself() => {
                    "most members' clocks agree with it, and once they have for ten minutes it is taken for right"
                        .into()
                }
                ClockVerdict::Agree => {
                    "most members' clocks agree with it: if they are right, `thuban cluster confirm-time --to present` \
                     confirms it"
                        .into()
                }
                ClockVerdict::Elsewhere(shown) => format!("{}: if they are right, {set}", apart(shown)),
                ClockVerdict::Unclear => "most members' clocks are not known, or differ: set them right first".into(),
            };
            Some(format!(
                "the time of the cluster is in doubt: it went on by {} from {} to {}; planned releases, steps of \
                 rollouts, removals by age and the ends of tokens and logins wait; {what}; `thuban cluster time` shows \
                 all of it",
                length(doubt.ahead_ms),
                doubt.before.rfc3339(),
                doubt.from.rfc3339(),
            ))
        }
    }
}

/// Formats a length of time in its two largest units.
pub fn length(ms: u64) -> String {
    let (days, hours, minutes, seconds) = (ms / 86_400_000, ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1000 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOW: u64 = 1_800_000_000_000;

    #[test]
    fn most_voters_decide() {
        use ClockVerdict::{Agree, Elsewhere, Unclear};
        let at = |offset: i64| Timestamp(NOW.saturating_add_signed(offset));
        let (ahead, back) = (at(8 * HOUR as i64), at(-(8 * HOUR as i64)));
        for (clocks, voters, expected) in [
            (vec![at(0)], 1, Agree),
            (vec![at(30_000)], 1, Agree),
            (vec![at(30_001)], 1, Elsewhere(at(30_001))),
            (vec![at(0), at(-900), ahead], 3, Agree),
            (vec![at(0), back, ahead], 3, Unclear),
            (vec![at(0), back, back], 3, Elsewhere(back)),
            (vec![back, back], 3, Elsewhere(back)),
            (vec![back], 3, Unclear),
            (vec![at(0)], 3, Unclear),
            (vec![], 3, Unclear),
            (vec![at(0), back], 2, Unclear),
            (vec![at(0), at(0), back, back], 4, Unclear),
            (vec![at(0), back, back, back], 4, Elsewhere(back)),
            (vec![at(0), at(0), at(0), back, ahead], 5, Agree),
        ] {
            assert_eq!(judge(at(0), &clocks, voters), expected, "{clocks:?} of {voters}");
        }
    }

    #[test]
    fn an_alarm_says_what_to_do() {
        let survey = |verdict| ClockSurvey {
            time: Timestamp(NOW + 8 * HOUR),
            sure: Timestamp(NOW),
            clocks: BTreeMap::new(),
            verdict,
        };
        let doubt = |ahead_ms| Doubt { index: 7, before: Timestamp(NOW), from: Timestamp(NOW + ahead_ms), ahead_ms };
        let elsewhere = ClockVerdict::Elsewhere(Timestamp(NOW));
        for (verdict, doubt, words) in [
            (ClockVerdict::Agree, None, &[][..]),
            (ClockVerdict::Unclear, None, &[]),
            (elsewhere, None, &["8 h 0 min ahead of", "--to clocks"]),
            (elsewhere, Some(doubt(8 * HOUR)), &["in doubt", "8 h 0 min from", "8 h 0 min ahead of", "--to clocks"]),
            (ClockVerdict::Agree, Some(doubt(8 * HOUR)), &["ten minutes"]),
            (ClockVerdict::Agree, Some(doubt(2400 * HOUR)), &["100 d 0 h", "--to present"]),
            (ClockVerdict::Unclear, Some(doubt(2 * HOUR)), &["set them right first"]),
        ] {
            let text = alarm_text(&survey(verdict), doubt.as_ref());
            assert_eq!(text.is_some(), !words.is_empty(), "{verdict:?}: {text:?}");
            let text = text.unwrap_or_default();
            words.iter().for_each(|word| assert!(text.contains(word), "{word} in {text}"));
        }
    }
}
