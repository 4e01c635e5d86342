//! The time of the cluster: the leader has it stamped where nothing is written, and ends a doubt that the members'
//! clocks have settled.
//!
//! A step between two stamps is doubted from an hour on ([`crate::catalog::time`]), so an idle cluster gets an entry
//! each twenty minutes. A leader that comes after a long pause, or whose clock is behind while no member knows the
//! time, writes one at once, so that the time is found out and the doubt is known.

use std::time::Duration;

use tokio::time::Instant;

use super::Controller;
use crate::catalog::Command;
use crate::catalog::time::{Doubt, TimeChange};
use crate::raft::{ClockVerdict, Lead};

/// Between two looks.
const ROUND: Duration = Duration::from_secs(1);
/// Longest time without a stamp.
const STAMPED_WITHIN_MS: u64 = 20 * 60_000;
/// Time for which most members' clocks have to agree with a time that is in doubt.
const AGREED_FOR: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Time {
    agreement: Agreement,
}

/// Agreement of the members' clocks with the time, since some moment.
#[derive(Default)]
struct Agreement(Option<(u64, Instant)>);

impl Agreement {
    /// Takes what the clocks say of a doubt now; true once they have agreed with it for long enough.
    fn take(&mut self, doubt: &Doubt, verdict: ClockVerdict, now: Instant) -> bool {
        if verdict != ClockVerdict::Agree || !doubt.ends_by_itself() {
            self.0 = None;
            return false;
        }
        let (index, since) = self.0.filter(|(index, _)| *index == doubt.index).unwrap_or((doubt.index, now));
        self.0 = Some((index, since));
        now.duration_since(since) >= AGREED_FOR
    }
}

impl Controller for Time {
    async fn act(&mut self, lead: &Lead) -> Duration {
        let (stamped, doubt) = {
            let catalog = lead.catalog();
            (catalog.clock(), catalog.time.doubt().copied())
        };
        if lead.node().since_stamp_ms(stamped) >= STAMPED_WITHIN_MS {
            // One that is not taken now is due again at the next look.
            let _ = lead.propose("the time", Command::Time(TimeChange::Tick)).await;
            return ROUND;
        }
        let Some(doubt) = doubt else {
            self.agreement = Agreement::default();
            return ROUND;
        };
        if self.agreement.take(&doubt, lead.node().survey_clocks().verdict, Instant::now()) {
            let change = TimeChange::Agree { doubt: doubt.index };
            if lead.propose("the end of a doubt of the time", Command::Time(change)).await.is_ok() {
                tracing::info!(ahead_ms = doubt.ahead_ms, "the members' clocks confirm the time of the cluster");
            }
        }
        ROUND
    }

    fn stand_down(&mut self) {
        self.agreement = Agreement::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Timestamp;

    #[tokio::test(start_paused = true)]
    async fn a_doubt_ends_once_the_clocks_have_agreed_for_ten_minutes() {
        const DAY_MS: u64 = 86_400_000;
        let doubt = |index, ahead_ms| Doubt { index, before: Timestamp(1), from: Timestamp(1 + ahead_ms), ahead_ms };
        let (agree, unclear) = (ClockVerdict::Agree, ClockVerdict::Unclear);
        let elsewhere = ClockVerdict::Elsewhere(Timestamp(7));
        let begun = Instant::now();
        let mut agreement = Agreement::default();
        for (second, doubt, verdict, ends) in [
            (0, doubt(5, DAY_MS), agree, false),
            (599, doubt(5, DAY_MS), agree, false),
            (600, doubt(5, DAY_MS), agree, true),
            (601, doubt(5, DAY_MS), unclear, false),
            (602, doubt(5, DAY_MS), agree, false),
            (1201, doubt(5, DAY_MS), elsewhere, false),
            (1202, doubt(5, DAY_MS), agree, false),
            (1500, doubt(9, 2 * DAY_MS), agree, false),
            (1802, doubt(9, 2 * DAY_MS), agree, false),
            (2100, doubt(9, 7 * DAY_MS), agree, true),
            (2200, doubt(9, 7 * DAY_MS + 1), agree, false),
            (9999, doubt(9, 7 * DAY_MS + 1), agree, false),
        ] {
            let now = begun + Duration::from_secs(second);
            assert_eq!(agreement.take(&doubt, verdict, now), ends, "second {second}");
        }
    }
}
